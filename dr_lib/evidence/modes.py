"""Modes beside the paper's: how many times as fast they train, and whether their AUC lets that count."""

from collections.abc import Collection

import numpy as np
import pandas as pd

from dr_lib.figures.hardware import FLAWS, MIN_RUNS, timed_runs
from dr_lib.statistics.intervals import Interval, mean_interval, ratio_interval

AUC = "metric_auc_test"
TIMES = ("train_s", "steady_epoch_s")


def compare_modes(runs: pd.DataFrame, *, keep: Collection[str] = ()) -> pd.DataFrame:
    """Hold each mode against the paper's on the same machine: a speed counts only where the AUC is the paper's.

    A flaw touches times alone, so AUCs come from all rows that finished, times from those of `timed_runs`.

    Args:
        runs: one row per run, alike but for the mode (`check_alike`).
        keep: flaws that do not bar a row from the times.

    Returns:
        A row for each mode of each `machine` that ran the paper's and another: `n` rows with an AUC and their mean
        `metric_auc_test`, `n_timed` rows, how many times as fast as the paper's mode by `train_s_ratio` and
        `steady_epoch_s_ratio` (of geometric means), and the `verdict`. Columns ending in `_low` and `_high` bound the
        95 % intervals; NaN stands where there is none. Empty if no machine ran two modes.
    """
    finished, timed = (dict(list(timed_runs(runs, keep=k).groupby(["machine", "mode"]))) for k in (FLAWS, keep))
    lines = []
    for machine, mode in sorted(finished, key=lambda key: (key[0], key[1] != "paper", key[1])):
        paper, num_modes = (machine, "paper"), sum(place == machine for place, _ in finished)
        if paper not in finished or num_modes == 1:
            continue
        auc, paper_auc = (_bound(mean_interval(_read(finished[key], AUC))) for key in ((machine, mode), paper))
        rows, paper_rows = (timed.get(key, runs[:0]) for key in ((machine, mode), paper))
        line = {"machine": machine, "mode": mode, "n": auc.n, **_name(AUC, auc), "n_timed": len(rows)}
        for time in TIMES:
            ratio = ratio_interval(_read(paper_rows, time), _read(rows, time))
            if mode == "paper":  # one, whatever its spread
                ratio = ratio._replace(low=np.nan, high=np.nan)
            line |= _name(f"{time}_ratio", ratio)
        lines.append(line | {"verdict": "reference" if mode == "paper" else _judge(auc, paper_auc)})
    return pd.DataFrame(lines)


def _bound(auc: Interval) -> Interval:
    """No AUC lies above 1."""
    return auc._replace(high=min(auc.high, 1.0))


def _judge(auc: Interval, paper: Interval) -> str:
    if min(auc.n, paper.n) < MIN_RUNS:
        return f"undecided: n < {MIN_RUNS}"
    rounding = 1e-12  # of the logarithms that the bounds come from
    if auc.value < paper.low - rounding:
        return "does not count: AUC below A's interval"
    return "does not count: AUC above A's interval" if auc.value > paper.high + rounding else "counts"


def _read(rows: pd.DataFrame, column: str) -> pd.Series:
    return rows[column].dropna() if column in rows else pd.Series(dtype=float)


def _name(column: str, interval: Interval) -> dict[str, float]:
    return {column: interval.value, f"{column}_low": interval.low, f"{column}_high": interval.high}
