"""Bound times by three rules, on their logarithms: what disturbs a run multiplies its time.

A session counts as one number, the median of its log times. One mean is that of sessions; within
one session, of its runs. Two groups that one machine ran are compared by pairs of runs, two
machines by sessions. Fewer than three of what counts have no interval, nor have times that a clock
rounded to be equal. Means are geometric.

Each function takes logarithms, of runs indexed by `session`.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from scipy import stats

from dr_lib.statistics.intervals import LEVEL, MIN_RUNS, Measured

WITHIN = "within this session"  # not of the next one
FEW_RUNS = "no interval: fewer than three runs"
FEW_SESSIONS = "no interval: fewer than three sessions"
FEW_PAIRS = "no interval: fewer than three pairs"
EQUAL = "no interval: all times are equal"
ROUNDING = 1e-12


def bound_mean(logs: pd.Series, level: float = LEVEL) -> Measured:
    """Estimate a mean by t on the medians of sessions, or on the runs of a single one."""
    medians = logs.groupby(level="session").median()
    if len(medians) > 1:
        return _bound_by_t(medians, level, FEW_SESSIONS)
    return _bound_by_t(logs, level, FEW_RUNS, WITHIN)


def compare_pairs(differences: pd.Series, level: float = LEVEL) -> Measured:
    """Estimate a ratio by t on the differences of pairs of runs."""
    return _bound_by_t(differences, level, FEW_PAIRS)


def compare_machines(a: pd.Series, b: pd.Series, level: float = LEVEL) -> Measured:
    """Estimate how many times as long as `b` `a` takes by Welch's t on the medians of sessions."""
    medians = [side.groupby(level="session").median() for side in (a, b)]
    value = float(np.exp(medians[0].mean() - medians[1].mean()))
    n = min(map(len, medians))
    if scope := _find_scope(medians, FEW_SESSIONS):
        return Measured(value, np.nan, np.nan, n, scope)
    test = stats.ttest_ind(*medians, equal_var=False)
    low, high = np.exp(test.confidence_interval(level))
    return Measured(value, float(low), float(high), n)


def _bound_by_t(logs: pd.Series, level: float, few: str, scope: str = "") -> Measured:
    value = float(np.exp(logs.mean())) if len(logs) else np.nan
    if why := _find_scope([logs], few):
        return Measured(value, np.nan, np.nan, len(logs), why)
    low, high = np.exp(stats.ttest_1samp(logs, 0.0).confidence_interval(level))
    return Measured(value, float(low), float(high), len(logs), scope)


def _find_scope(sides: Iterable[pd.Series], few: str) -> str:
    """Say why there is no interval; nothing where there is one."""
    if any(len(side) < MIN_RUNS for side in sides):
        return few
    return EQUAL if any(np.ptp(side) < ROUNDING for side in sides) else ""
