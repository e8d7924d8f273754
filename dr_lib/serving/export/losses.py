"""Bound what patients lose and gain by a conversion, and how many patients that takes."""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from dr_lib.statistics.intervals import UPPER, BadSampleError


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
    chance = (stats.norm.ppf(UPPER) + stats.norm.ppf(0.8)) * math.sqrt((changes**2).sum())
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
