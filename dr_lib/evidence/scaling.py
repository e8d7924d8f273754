"""What more machines bring: speed-up, efficiency and price of an epoch, and what a law fitted to
them predicts.
"""

import math

import numpy as np
import pandas as pd

from dr_lib.evidence.papers import FACTORS
from dr_lib.statistics.intervals import BadSampleError, Interval, mean_interval, ratio_interval
from dr_lib.statistics.scaling import fit_amdahl

# columns that tell apart what is compared; a table has those in which its kinds differ, and the
# last two
KINDS = [
    *FACTORS,
    "platform",
    "instance_type",
    "cpu",
    "accelerator",
    "threads",
    "batch_size",
    "rehearsed",
    "scaling",
]
AHEAD = (8, 16)  # machines for which the law predicts
SCALINGS = ("strong", "weak")
ALPHA = 0.05  # a law whose lack of fit has a smaller p predicts nothing
MEASURED = "measured"
PREDICTED = "predicted"


def summarise_scaling(runs: pd.DataFrame) -> pd.DataFrame:
    """Say how an epoch's time changes with the number of machines.

    Strong scaling divides one work among the machines: the speed-up is one machine's time over
    theirs. Weak scaling gives each machine as much: the speed-up is that of so many times the work
    (Gustafson 1988). The efficiency is the speed-up over the number of machines. For strong scaling
    Amdahl's law predicts the speed-up of more machines, where a test of its fit does not refuse it
    and no number of machines is faster than evenly divided work.

    Args:
        runs: timed rows of a `Selection`, with `num_machines` and `scaling`, priced by
            `price_runs`.

    Returns:
        A row per kind of work (the columns of KINDS in which they differ), scaling and number of
        machines: `n` runs, `steady_epoch_s` [s], `speedup`, `efficiency` and `cost_per_epoch_usd`
        (machines x hour), each with the bounds of its 95 % interval in _low and _high; and `basis`,
        measured or predicted. Empty where all runs trained on as many machines.
    """
    lines = []
    for key, rows in _group(runs):
        one = rows[rows["num_machines"] == rows["num_machines"].min()]
        fewest = rows["num_machines"].min()
        for number, times in rows.groupby("num_machines")["steady_epoch_s"]:
            ratio = ratio_interval(one["steady_epoch_s"], times)
            if number == fewest:
                ratio = Interval(1.0, 1.0, 1.0, ratio.n)
            grown = number / fewest if key["scaling"] == "weak" else 1.0
            line = key | {"num_machines": int(number), "n": len(times), "basis": MEASURED}
            line |= _name("steady_epoch_s", mean_interval(times), 1.0) | _name(
                "speedup", ratio, grown
            )
            line |= _name("efficiency", ratio, grown * fewest / number)
            costs = (
                rows.loc[rows["num_machines"] == number]
                .get("cost_per_epoch_usd", pd.Series(dtype=float))
                .dropna()
            )
            line |= (
                _name("cost_per_epoch_usd", mean_interval(costs), 1.0) if (costs > 0).any() else {}
            )
            lines.append(line)
        law = _fit(key, rows)
        for number in AHEAD if law and law.p >= ALPHA and law.share.value >= 0 else ():
            found = law.predict(number)
            if number <= rows["num_machines"].max() or not np.isfinite(found[:3]).all():
                continue
            line = key | {"num_machines": number, "n": 0, "basis": PREDICTED}
            lines.append(
                line | _name("speedup", found, 1.0) | _name("efficiency", found, 1 / number)
            )
    return _shorten(lines)


def fit_laws(runs: pd.DataFrame) -> pd.DataFrame:
    """Fit Amdahl's law to the strong scaling of each kind of work.

    Returns:
        A row per kind: `n` runs, `serial_share_percent` of one machine's epoch that more machines
        do not shorten, with bounds, and `p` of the lack of fit.
    """
    lines = []
    for key, rows in _group(runs):
        if law := _fit(key, rows):
            lines.append(
                key
                | {"n": law.share.n}
                | _name("serial_share_percent", law.share, 100.0)
                | {"p": law.p}
            )
    return _shorten(lines)


def _group(runs: pd.DataFrame):
    """The runs of each kind of work that trained on several numbers of machines, from one on."""
    if "num_machines" not in runs or "scaling" not in runs:
        return
    known = runs.dropna(subset=["num_machines", "scaling", "steady_epoch_s"])
    known = known.assign(
        **{name: known.get(name, pd.Series(index=known.index, dtype=object)) for name in KINDS}
    )
    known = known.assign(rehearsed=known["rehearsed"].eq(True))
    alone = known["num_machines"] == 1  # what rehearsed and real machines are both compared with
    known = pd.concat([known, known[alone].assign(rehearsed=True)])
    for key, rows in known.groupby(KINDS, dropna=False):
        if rows["num_machines"].nunique() > 1:
            yield dict(zip(KINDS, key, strict=True)), rows


def _shorten(lines: list[dict]) -> pd.DataFrame:
    """A table without the columns in which its kinds agree, but for scaling and whether it was
    rehearsed.
    """
    table = pd.DataFrame(lines)
    agreed = [
        name for name in KINDS[:-2] if name in table and table[name].nunique(dropna=False) == 1
    ]
    return table.drop(columns=agreed)


def _fit(key: dict, rows: pd.DataFrame):
    if key["scaling"] != "strong" or rows["num_machines"].min() > 1:
        return None
    try:
        return fit_amdahl(rows["num_machines"], rows["steady_epoch_s"])
    except BadSampleError:  # too few runs
        return None


def _name(name: str, interval: Interval, factor: float) -> dict[str, float]:
    bounds = (
        {f"{name}_low": interval.low, f"{name}_high": interval.high}
        if not math.isnan(interval.low)
        else {}
    )
    values = {name: interval.value} | bounds
    return {column: factor * value for column, value in values.items()}
