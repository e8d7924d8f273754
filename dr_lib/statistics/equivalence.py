"""Whether two models are equal: the difference of their scores lies within a margin.

Absence of a difference is not equivalence. Two one-sided tests at 5 % each (Schuirmann 1987, J.
Pharmacokinet. Biopharm. 15) show it if the 90 % interval of the difference lies within the margin.
"""

import numpy as np
import pandas as pd
from scipy import stats

from dr_lib.statistics.intervals import MIN_RUNS, NOTHING, Interval

MARGIN = 0.02  # of an AUC, or of an accuracy


def compare_scores(a: pd.Series, b: pd.Series) -> Interval:
    """Estimate the difference of two mean scores: by pairs of seeds where both have the same, else
    by Welch's t.

    Args:
        a: scores, one a training, indexed by its seed.
        b: those of the reference.
    """
    a = a.dropna()
    b = b.dropna()
    n = min(len(a), len(b))
    if not n:
        return NOTHING
    value = float(a.mean() - b.mean())
    if n < MIN_RUNS:
        return Interval(value, np.nan, np.nan, n)
    pairs = a - b if a.index.is_unique and set(a.index) == set(b.index) else None
    spread = [pairs] if pairs is not None else [a, b]
    if not any(map(np.ptp, spread)):  # as the same seed gives on one machine
        return Interval(value, value, value, n)
    if pairs is not None:
        test = stats.ttest_1samp(pairs, 0.0)
    else:
        test = stats.ttest_ind(a, b, equal_var=False)
    low, high = test.confidence_interval(0.9)
    return Interval(value, float(low), float(high), n)


def is_equivalent(difference: Interval) -> bool | None:
    """Whether the 90 % interval of a difference lies within MARGIN on both sides of 0; None where
    it reaches across the margin, or is none.
    """
    if -MARGIN < difference.low and difference.high < MARGIN:
        return True
    return False if difference.high < -MARGIN or difference.low > MARGIN else None
