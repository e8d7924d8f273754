"""Test equivalence within a margin, and compute the runs needed.

Absence of a difference is not equivalence. Two one-sided tests (Schuirmann 1987, J. Pharmacokinet.
Biopharm. 15) reject that the difference is as low as -margin, and that it is as high as +margin:
both at 5 % if the 90 % interval of the difference lies between the two.
"""

import math

import pandas as pd

from dr_lib.statistics.intervals import (
    MIN_RUNS,
    Interval,
    difference_interval,
    widen,
)

# of each of two intervals, so that the narrower one errs as one of 90 % does
LEVEL_OF_TWO = 0.925


def is_equivalent(difference: Interval, margin: float) -> bool | None:
    """Whether the 90 % interval of a difference lies within a margin above 0 on both sides; None
    where it reaches across the margin, or rests on fewer than three observations.
    """
    if difference.n < MIN_RUNS:
        return None
    if -margin < difference.low and difference.high < margin:
        return True
    return False if difference.high < -margin or difference.low > margin else None


def compare_scores(a: pd.Series, b: pd.Series) -> Interval:
    """Estimate the difference of two mean scores with its 90 % interval, by seed where possible.

    Pairs cancel what a seed does to both sides, but have half of the degrees of freedom. So this is
    the narrower of the paired interval and Welch's, whose level makes up for the choice; neither
    errs more unless two scores of a seed are correlated negatively.

    Args:
        a: scores, one a training, indexed by its seed; trainings of one seed count as one.
        b: those of the reference.
    """
    sides = [side.dropna() for side in (a, b)]
    means = [side.groupby(level=0).mean() for side in sides]
    if all(side.index.notna().all() for side in sides):
        sides = means
    a, b = sides
    pairs = (means[0] - means[1]).dropna()
    n = len(pairs)
    if n < 2 or sides is not means:
        return difference_interval(a, b, level=0.9)
    welch = difference_interval(a, b, level=LEVEL_OF_TWO)
    half = widen([(pairs.var() / n, n - 1)], 1 - LEVEL_OF_TWO)
    if half > welch.high - welch.value:
        return welch
    value = float(pairs.mean())
    return Interval(value, value - half, value + half, n)


def repetitions_for_equivalence(deviation: float, margin: float) -> int:
    """Compute the runs per side that show, with a power of 80 %, that equal means are equivalent.

    Args:
        deviation: standard deviation of one run, in the unit of the margin.
        margin: above 0.
    """
    from statsmodels.stats.power import TTestIndPower  # takes a second to import

    test = TTestIndPower()
    both = 1 - (1 - 0.8) / 2  # either test may fail
    distance = margin / max(deviation, 1e-9)
    if test.power(distance, 2, 0.05, alternative="larger") >= both:
        return 2
    needed = test.solve_power(distance, alpha=0.05, power=both, alternative="larger")
    return math.ceil(needed)
