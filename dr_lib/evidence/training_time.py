"""Compare environments, and modes beside the paper's: how fast they train, how well, and whether
a speed counts.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dr_lib.evidence.select import MIN_RUNS, Selection
from dr_lib.statistics.effects import pool_spread, repetitions_for_precision
from dr_lib.statistics.equivalence import repetitions_for_difference, repetitions_for_equivalence
from dr_lib.statistics.intervals import Interval, difference_interval, mean_interval, ratio_interval

AUC = "metric_auc_test"
AUC_MARGIN = 0.02  # a mode is as good as the paper's if its mean AUC is within the margin
MODE_VERDICTS = (
    "reference",
    "counts",
    "does not count: lower AUC",
    "does not count: higher AUC",
    "undecided",
)
TIMES = ("train_s", "steady_epoch_s")
METRICS = (
    "metric_auc_test",
    "metric_kappa_test",
    "metric_sensitivity_test",
    "metric_specificity_test",
)
METRICS += ("metric_accuracy_test",)
DIFFERENCES = (0.02, 0.05, 0.1)


def compare_environments(finished: pd.DataFrame) -> pd.DataFrame:
    """Say how long each environment trains, how well, and how many times as long as the fastest.

    Args:
        finished: finished rows of a `Selection`. Times are read of the timed ones, scores of all:
            those of a run that was resumed are as good.

    Returns:
        A row per `environment`, those without a time first, then the slowest: `n` runs, `disturbed`
        ones among them, and, where not all are timed, how many are; for train_s and steady_epoch_s
        [s] the mean under that name with the bounds of its 95 % interval in _low and _high, and its
        deviation in _sd; `train_s_ratio` to the fastest, with bounds; each metric that the rows
        have with bounds: of the mean over the runs, or of a single run its own, over patients.
    """
    if "train_s" not in finished:
        return pd.DataFrame()
    counted = {time: finished[time].where(finished["timed"]) for time in TIMES if time in finished}
    groups = dict(list(finished.assign(**counted).groupby("environment")))
    lines = []
    measured = [
        rows["train_s"].dropna() for rows in groups.values() if rows["train_s"].notna().any()
    ]
    fastest = min(measured, key=pd.Series.mean, default=pd.Series(dtype=float))
    for environment, rows in groups.items():
        line = {
            "environment": environment,
            "n": len(rows),
            "disturbed": int(rows["disturbed"].sum()),
        }
        line |= {} if finished["timed"].all() else {"timed": int(rows["timed"].sum())}
        for time in TIMES:
            times = _read(rows, time)
            line |= _name(time, mean_interval(times)) | {f"{time}_sd": times.std()}
        if len(groups) > 1:
            is_fastest = rows["train_s"].dropna().equals(fastest)
            ratio = ratio_interval(_read(rows, "train_s"), fastest)
            line |= _name(
                "train_s_ratio", Interval(1.0, np.nan, np.nan, ratio.n) if is_fastest else ratio
            )
        for metric in METRICS:
            line |= _name(metric, _measure(rows, metric)) if len(_read(rows, metric)) else {}
        lines.append(line)
    return pd.DataFrame(lines).sort_values(
        "train_s", ascending=False, ignore_index=True, na_position="first"
    )


def compare_sessions(timed: pd.DataFrame) -> pd.DataFrame:
    """Say how much sessions of one environment on a cloud service differ: another machine, other
    neighbours.

    Returns:
        A row per `session` of each `environment` that had several: `n` runs, the mean of train_s
        [s] and its deviation within the session, train_s_sd; and train_s_between_sd, the deviation
        between the sessions of the environment, by a one-way analysis of variance with random
        effects (0 where it falls below). Empty where no environment had two.
    """
    lines = []
    rows = (
        timed[timed["session"].fillna("") != ""]
        if {"session", "train_s"} <= set(timed)
        else timed[:0]
    )
    for environment, runs in rows.groupby("environment") if len(rows) else []:
        times = runs.groupby("session")["train_s"].agg(["count", "mean", "std"])
        if len(times) > 1:
            between = {"train_s_between_sd": _deviate_between(*times.to_numpy().T)}
            named = times.rename(
                columns={"count": "n", "mean": "train_s", "std": "train_s_sd"}
            ).reset_index()
            lines += [
                {"environment": environment, **line, **between} for line in named.to_dict("records")
            ]
    return pd.DataFrame(lines)


def _deviate_between(n: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> float:
    """The deviation between groups, given the size, mean and deviation of each; of means alone
    where all are single.
    """
    if n.max() == 1:
        return float(mean.std(ddof=1))
    total = n.sum()
    degrees = len(n) - 1
    within = np.nansum((n - 1) * sd**2) / (total - len(n))
    between = (n * (mean - np.average(mean, weights=n)) ** 2).sum() / degrees
    size = (total - (n**2).sum() / total) / degrees
    return math.sqrt(max(0.0, (between - within) / size))


def _measure(rows: pd.DataFrame, metric: str) -> Interval:
    values = _read(rows, metric)
    bounds = [_read(rows, f"{metric}_{bound}") for bound in ("low", "high")]
    if len(values) == 1 and all(map(len, bounds)):
        return Interval(values.iloc[0], bounds[0].iloc[0], bounds[1].iloc[0], 1)
    # a kappa below chance: the plain mean, without the bounds of logarithms
    if (values <= 0).any():
        return Interval(values.mean(), np.nan, np.nan, len(values))
    return _bound(mean_interval(values))


def find_needed_repetitions(
    timed: pd.DataFrame, factors: Sequence[str], precision: float
) -> pd.DataFrame:
    """Say how many repetitions of a scenario a precise mean needs, and a difference found with a
    power of 80 %.

    Args:
        timed: timed rows of a `Selection`, with `steady_epoch_s`.
        factors: columns that tell scenarios apart.
        precision: half width of the mean's 95 % interval, relative.

    Returns:
        A row per answer: `answer` and its size in `percent`, the `repetitions` that it needs, and
        `variation_percent`, by how much repetitions vary. Empty where no scenario was repeated.
    """
    variation, num_repeated = pool_spread(
        timed.groupby(list(factors))["steady_epoch_s"].apply(list)
    )
    if not num_repeated or not variation:
        return pd.DataFrame()
    lines = [
        ("precision of a mean", 100 * precision, repetitions_for_precision(variation, precision))
    ]
    for difference in DIFFERENCES:
        runs = repetitions_for_difference(difference / variation)
        lines.append(("difference of two means", 100 * difference, runs))
    table = pd.DataFrame(lines, columns=["answer", "percent", "repetitions"])
    return table.assign(variation_percent=100 * variation)


def compare_modes(selection: Selection) -> pd.DataFrame:
    """Hold each mode against the paper's on the same machine: a speed counts only where the AUC is
    the paper's.

    Shown by two one-sided tests at 5 % each: the 90 % interval of the difference of the mean AUCs
    (Welch) lies within AUC_MARGIN on both sides, for a better AUC is another model, too. A run that
    was resumed or disturbed has the AUC of any other, so AUCs come from all rows that finished.

    Args:
        selection: of rows that may differ in `mode`.

    Returns:
        A row for each mode of each `machine` that ran the paper's and another: `n` rows with an AUC
        and their mean `metric_auc_test`, `n_timed` rows, how many times as fast as the paper's mode
        by `train_s_ratio` and `steady_epoch_s_ratio` (of geometric means), `auc_difference` to the
        paper's mode, the `verdict` (of MODE_VERDICTS) and `runs_needed`, of each mode, for an
        answer with a power of 80 % where the modes are equal. Columns ending in `_low` and `_high`
        bound 95 % intervals, 90 % for the difference; NaN stands where there is none. Empty if no
        machine ran two modes.
    """
    tables = (selection.finished, selection.timed)
    finished, timed = (dict(list(table.groupby(["machine", "mode"]))) for table in tables)
    lines = []
    for machine, mode in sorted(finished, key=lambda key: (key[0], key[1] != "paper", key[1])):
        paper = (machine, "paper")
        num_modes = sum(place == machine for place, _ in finished)
        if paper not in finished or num_modes == 1:
            continue
        auc = _bound(mean_interval(_read(finished[machine, mode], AUC)))
        rows, paper_rows = (timed.get(key, selection.timed[:0]) for key in ((machine, mode), paper))
        line = {
            "machine": machine,
            "mode": mode,
            "n": auc.n,
            **_name(AUC, auc),
            "n_timed": len(rows),
        }
        for time in TIMES:
            ratio = ratio_interval(_read(paper_rows, time), _read(rows, time))
            if mode == "paper":  # one, whatever its spread
                ratio = ratio._replace(low=np.nan, high=np.nan)
            line |= _name(f"{time}_ratio", ratio)
        lines.append(
            line
            | _judge(
                _read(finished[machine, mode], AUC), _read(finished[paper], AUC), mode == "paper"
            )
        )
    return pd.DataFrame(lines)


def _bound(auc: Interval) -> Interval:
    """No AUC lies above 1."""
    return auc._replace(high=min(auc.high, 1.0))


def _judge(auc: pd.Series, paper: pd.Series, is_paper: bool) -> dict[str, object]:
    """Two one-sided tests of the difference against the margin."""
    reference, counts, lower, higher, undecided = MODE_VERDICTS
    nothing = Interval(np.nan, np.nan, np.nan, 0)
    if is_paper:
        return _name("auc_difference", nothing) | {"verdict": reference, "runs_needed": np.nan}
    difference = difference_interval(auc, paper, level=0.9)
    if difference.n < MIN_RUNS:
        return _name("auc_difference", difference) | {"verdict": undecided, "runs_needed": MIN_RUNS}
    deviation = math.sqrt((auc.var() + paper.var()) / 2)
    needed = max(MIN_RUNS, repetitions_for_equivalence(deviation, AUC_MARGIN))
    if -AUC_MARGIN < difference.low and difference.high < AUC_MARGIN:
        verdict = counts
    elif difference.high < -AUC_MARGIN or difference.low > AUC_MARGIN:
        verdict = lower if difference.value < 0 else higher
    else:
        verdict = undecided
    return _name("auc_difference", difference) | {"verdict": verdict, "runs_needed": needed}


def _read(rows: pd.DataFrame, column: str) -> pd.Series:
    return rows[column].dropna() if column in rows else pd.Series(dtype=float)


def _name(column: str, interval: Interval) -> dict[str, float]:
    return {column: interval.value, f"{column}_low": interval.low, f"{column}_high": interval.high}
