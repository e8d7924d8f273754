"""Compare the speed and accuracy of environments, modes and numbers of machines, and decide
whether a speed counts.

Example:
    >>> from dr_lib import open_rows, training_time
    >>> from dr_lib.claims.papers import PAPERS
    >>> selection = open_rows(PAPERS["A"], "papermill_runs/demo", Path(".")).selection
    >>> training_time.compare_environments(selection.finished)["n"].tolist()
    [2]
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dr_lib.report.select import (
    AUC,
    AUC_MARGIN,
    PLAN,
    Selection,
    describe_ratio,
    judge_models,
    measure,
    write_unlike,
)
from dr_lib.statistics.equivalence import is_equivalent, repetitions_for_equivalence
from dr_lib.statistics.intervals import (
    MIN_RUNS,
    NOTHING,
    Interval,
    difference_interval,
    has_learned,
    mean_interval,
    tabulate,
)

MODE_VERDICTS = (
    "reference",
    "counts",
    "does not count: lower AUC",
    "does not count: higher AUC",
    "undecided",
)
# and how many times as fast one mode is as another by them
TIMES = {"train_s": "times_as_fast", "steady_epoch_s": "times_as_fast_by_epoch"}


def compare_environments(finished: pd.DataFrame, factors: Sequence[str] = ()) -> pd.DataFrame:
    """Compute each environment's training time, scores, and time relative to the fastest.

    Args:
        finished: finished rows of a `Selection`. Times are read of the timed ones, scores of all
            rows of a line: those of a run that was resumed are as good.
        factors: of the `Selection`, whose levels stand side by side.

    Returns:
        A row per `environment` and level of each factor, with their `place`, cold runs that stand
        apart first, then those without a time, then the slowest: `n` timed runs in so many
        `sessions`, `disturbed` ones among them, and, where more are `scored`, how many; for train_s
        and steady_epoch_s [s] the mean under that name with the bounds of its 95 % interval in _low
        and _high, and its deviation in _sd; but for runs that stand apart,
        `train_s_ratio` to the fastest environment at the same levels and `train_s_level_ratio` to
        the fastest levels in the same environment, with bounds; each metric that the rows have with
        bounds: of the mean over the runs, or of a single run its own, over patients. Empty where no
        run has finished.
    """
    if finished.empty or "train_s" not in finished:
        return pd.DataFrame()
    keys = ["environment", *factors]
    groups = dict(list(finished.groupby(keys)))
    trained = {key: rows[rows["timed"]] for key, rows in groups.items()}
    num_environments = finished["environment"].nunique()

    lines = []
    for key, rows in groups.items():
        line = dict(zip(keys, key, strict=True))
        is_apart = rows["warmth"] == "apart"
        if is_apart.any():
            cold = _summarise(rows[is_apart], rows[is_apart])
            lines.append(line | cold | {"environment": f"{key[0]}, cold"})
            rows = rows[~is_apart]
        if rows.empty:
            continue
        line = line | _summarise(rows, trained[key])
        if num_environments > 1:
            peers = [other for other in groups if other[1:] == key[1:]]
            line["train_s_ratio"] = _divide_by_fastest(trained, key, peers)
        if factors:
            peers = [other for other in groups if other[0] == key[0]]
            line["train_s_level_ratio"] = _divide_by_fastest(trained, key, peers)
        lines.append(line)
    table = tabulate(lines)
    if (table["scored"] <= table["n"]).all():
        table = table.drop(columns="scored")
    order = ["apart", "train_s"]
    table = table.sort_values(order, ascending=False, na_position="first", ignore_index=True)
    return table.drop(columns="apart")


def _summarise(rows: pd.DataFrame, timed: pd.DataFrame) -> dict[str, Any]:
    """Count the timed rows of a line, measure their times, and score all its rows."""
    line = {
        "place": timed["place"].iloc[0] if len(timed) else rows["place"].iloc[0],
        "n": len(timed),
        "sessions": timed["session"].nunique(),
        "disturbed": int(timed["disturbed"].sum()),
        "scored": 0,
        "apart": (timed["warmth"] == "apart").any(),
    }
    for name in TIMES:
        line[name] = measure(name, timed)
        line[f"{name}_sd"] = _read(timed, name).std()
    for name in ("auc", "kappa", "sensitivity", "specificity", "accuracy"):
        metric = f"metric_{name}_test"
        if num_scores := len(_read(rows, metric)):
            line["scored"] = max(line["scored"], num_scores)
            line[metric] = _score(rows, metric)
    return line


def _divide_by_fastest(
    trained: Mapping[tuple, pd.DataFrame], key: tuple, peers: Sequence[tuple]
) -> Interval:
    """Divide a group's mean time by that of the fastest of its peers; exactly 1 for that one."""
    means = {peer: measure("train_s", trained[peer]).value for peer in peers}
    fastest = min(means, key=lambda peer: (math.isnan(means[peer]), means[peer]))
    ratio = measure("train_s", trained[key], trained[fastest])
    return Interval(1.0, np.nan, np.nan, ratio.n) if key == fastest else ratio


def compare_places(timed: pd.DataFrame, factors: Sequence[str] = ()) -> pd.DataFrame:
    """Compare the training times of each two places that did the same work, on two machines or by
    two software stacks on one.

    Args:
        timed: timed rows of a `Selection`.
        factors: of the `Selection`.

    Returns:
        A row per two places: the `slower`, the `faster` one, `n`, `times_as_long` with
        bounds, `ratio_of` (stack, hardware or both, see `describe_ratio`), and how their stacks are
        `unlike`; `auc_difference` with bounds and whether the `models` are equal, see
        `judge_models`. Empty without two such places.
    """
    work = ["mode", *(name for name in factors if name not in PLAN)]
    lines = []
    for _, like in timed.dropna(subset=["train_s"]).groupby(work) if len(timed) else ():
        places = sorted(
            (rows for _, rows in like.groupby("place")),
            key=lambda rows: -measure("train_s", rows).value,
        )
        for slow, fast in itertools.combinations(places, 2):
            ratio_of = describe_ratio(slow, fast)
            if not ratio_of:
                continue
            models = judge_models(slow, fast)
            ratio = measure("train_s", slow, fast)
            scope = [part for part in ratio.scope.split("; ") if part != ratio_of]
            line = {
                "slower": slow["place"].iloc[0],
                "faster": fast["place"].iloc[0],
                "n": ratio.n,
                "times_as_long": ratio._replace(scope="; ".join(scope)),
                "ratio_of": ratio_of,
                "unlike": write_unlike([(slow, fast)]),
                "auc_difference": models.difference,
                "models": models.verdict,
            }
            lines.append(line)
    return tabulate(lines)


def _score(rows: pd.DataFrame, metric: str) -> Interval:
    values = _read(rows, metric)
    low = _read(rows, f"{metric}_low")
    high = _read(rows, f"{metric}_high")
    if len(values) == 1 and len(low) and len(high):
        return Interval(values.iloc[0], low.iloc[0], high.iloc[0], 1)
    # a kappa below chance: the plain mean, without the bounds of logarithms
    if (values <= 0).any():
        return Interval(values.mean(), np.nan, np.nan, len(values))
    mean = mean_interval(values)
    return mean._replace(high=min(mean.high, 1.0))


def compare_modes(selection: Selection) -> pd.DataFrame:
    """Compare each mode with mode paper on the same machine: a speed counts only if the AUC is
    equivalent.

    Shown by two one-sided tests at 5 % each: the 90 % interval of the difference of the mean AUCs
    (Welch) lies within AUC_MARGIN on both sides, for a better AUC is another model, too. A run that
    was resumed or disturbed has the AUC of any other, so AUCs come from all rows that finished.

    Args:
        selection: of rows that may differ in `mode`.

    Returns:
        A row for each mode of each `machine`, and level of each factor, that ran the paper's and
        another: `n` rows with an AUC
        and their mean `metric_auc_test`, `n_timed` rows, `times_as_fast` as the paper's mode and
        `times_as_fast_by_epoch`, `auc_difference` to the paper's mode, the `verdict` (of
        MODE_VERDICTS) and `runs_needed`, of each mode, for an answer with a power of 80 % where the
        modes are equal. Columns ending in `_low` and `_high` bound 95 % intervals, 90 % for the
        difference; NaN stands where there is none. Empty if no machine ran two modes.
    """
    lines = []
    keys = ["machine", *selection.factors]
    timed_by = dict(list(selection.timed.groupby(keys)))
    for key, rows in selection.finished.groupby(keys):
        modes = sorted(rows["mode"].unique(), key=lambda mode: (mode != "paper", mode))
        if modes[0] != "paper" or len(modes) == 1:
            continue
        timed = timed_by.get(key, selection.timed[:0])
        paper_auc = _read(rows[rows["mode"] == "paper"], AUC)
        for mode in modes:
            of_mode = timed[timed["mode"] == mode]
            auc = _read(rows[rows["mode"] == mode], AUC)
            mean = mean_interval(auc)
            line = {
                **dict(zip(keys, key, strict=True)),
                "mode": mode,
                "n": mean.n,
                AUC: mean._replace(high=min(mean.high, 1.0)),
                "n_timed": len(of_mode),
            }
            for time, times_as_fast in TIMES.items():
                ratio = measure(time, timed[timed["mode"] == "paper"], of_mode)
                if mode == "paper":  # one, whatever its spread
                    ratio = ratio._replace(low=np.nan, high=np.nan)
                line[times_as_fast] = ratio
            difference = NOTHING
            verdict = MODE_VERDICTS[0]
            needed = np.nan
            if mode != "paper":
                difference, verdict, needed = _judge_mode(auc, paper_auc)
            line["auc_difference"] = difference
            line["verdict"] = verdict
            line["runs_needed"] = needed
            lines.append(line)
    return tabulate(lines)


def _judge_mode(auc: pd.Series, paper: pd.Series) -> tuple[Interval, str, int]:
    """Two one-sided tests of the difference against the margin."""
    _, counts, lower, higher, undecided = MODE_VERDICTS
    difference = difference_interval(auc, paper, level=0.9)
    if difference.n < MIN_RUNS:
        return difference, undecided, MIN_RUNS
    deviation = math.sqrt((auc.var() + paper.var()) / 2)
    needed = max(MIN_RUNS, repetitions_for_equivalence(deviation, AUC_MARGIN))
    unlike = lower if difference.value < 0 else higher
    verdicts = {True: counts, False: unlike, None: undecided}
    return difference, verdicts[is_equivalent(difference, AUC_MARGIN)], needed


def count_unlearned(finished: pd.DataFrame) -> tuple[int, int]:
    """Count the runs whose model is not shown to have learned, and those with a bound."""
    bounds = _read(finished, "metric_auc_test_low")
    return sum(not has_learned(low) for low in bounds), len(bounds)


def _read(rows: pd.DataFrame, column: str) -> pd.Series:
    return rows[column].dropna() if column in rows else pd.Series(dtype=float)
