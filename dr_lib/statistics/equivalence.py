"""Test equivalence within a margin, and compute the observations needed.

Absence of a difference is not equivalence. Two one-sided tests (Schuirmann 1987, J. Pharmacokinet.
Biopharm. 15) reject that the difference is as low as -margin, and that it is as high as +margin:
both at 5 % if the 90 % interval of the difference lies between the two. Non-inferiority is the
lower test alone.
"""

import math

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from dr_lib.statistics.intervals import (
    MIN_RUNS,
    UPPER,
    BadSampleError,
    Interval,
    difference_interval,
    widen,
)

POWER = 0.8
# of each of two intervals, so that the narrower one errs as one of 90 % does (tools/rates.py)
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
    both = 1 - (1 - POWER) / 2  # either test may fail
    distance = margin / max(deviation, 1e-9)
    if test.power(distance, 2, 0.05, alternative="larger") >= both:
        return 2
    needed = test.solve_power(distance, alpha=0.05, power=both, alternative="larger")
    return math.ceil(needed)


def bound_changes(changes: ArrayLike, unseen: float) -> tuple[float, float]:
    """Bound the sum of patients' losses and gains below and above the observed sum.

    Few patients may carry a loss, and those who would lose most may not be among them. So the bound
    of what is lost is that of rare events with a weight each, one more being possible (Fay and
    Feuer 1997, Stat. Med. 16): of losses of one size it is the exact one of Garwood (1936), which
    lies above Clopper and Pearson's, and where none is seen it is 3.69 unseen losses. Losses and
    gains are put together as in Zou and Donner (2008, Stat. Med. 27).

    Args:
        changes: (patients,) part of each in a score's change, negative for a loss; most may be 0.
        unseen: the size of a loss or gain that was not seen, 0 or above.

    Returns:
        The distances from the sum to the bounds of its 95 % interval.
    """
    changes = np.asarray(changes, dtype=float)
    less_lost, more_lost = _bound_events(-changes[changes < 0], unseen)
    less_gained, more_gained = _bound_events(changes[changes > 0], unseen)
    return float(np.hypot(more_lost, less_gained)), float(np.hypot(more_gained, less_lost))


def patients_for_non_inferiority(changes: ArrayLike, unseen: float, margin: float) -> int:
    """Estimate the patients needed to show non-inferiority, with a power of 80 %, if nothing is
    lost.

    By the lower bound of `bound_changes`, whose args these are, above -margin. The part of chance
    shrinks with the root of the number of patients, that of what was not seen with the number; the
    two are added, a little more than both take.

    Raises:
        BadSampleError: the margin is not above 0.
    """
    if not 0 < margin < math.inf:
        raise BadSampleError(f"margin {margin}: give one above 0")
    changes = np.asarray(changes, dtype=float)
    chance = (stats.norm.ppf(UPPER) + stats.norm.ppf(POWER)) * math.sqrt((changes**2).sum())
    none_seen = unseen * stats.chi2.ppf(UPPER, 2) / 2
    # margin = chance / root + none_seen / root^2, with root^2 times as many patients
    root = (chance + math.sqrt(chance**2 + 4 * margin * none_seen)) / (2 * margin)
    return math.ceil(root**2 * len(changes))


def _bound_events(sizes: np.ndarray, unseen: float) -> tuple[float, float]:
    """Compute the distances from a sum of rare events to its lower and upper bounds."""
    total = sizes.sum()
    low = _quantile(1 - UPPER, total, (sizes**2).sum())
    high = _quantile(UPPER, total + unseen, (sizes**2).sum() + unseen**2)
    return total - low, high - total


def _quantile(level: float, mean: float, variance: float) -> float:
    """Compute a quantile of the gamma distribution with this mean and variance."""
    if variance <= 0:
        return mean
    return float(stats.gamma.ppf(level, mean**2 / variance, scale=variance / mean))
