"""Resample whole patients: intervals for scores of photographs.

The photographs of a patient are alike, so patients are drawn with replacement, not photographs
(Efron and Tibshirani 1993, chapter 8). A draw is a weight for each photograph: how often its
patient was drawn. Scores take many draws at once: scikit-learn's take one, and a hundred times as
long.
"""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from dr_lib.statistics.intervals import Interval

MAX_DRAWS = 2000
MAX_WEIGHTS = 60_000_000  # in all: of very many photographs fewer draws, whose bounds are near
# (draws, n) weights of the photographs, or (n,) -> a score of each draw, or several; NaN where it
# is not defined
Score = Callable[[np.ndarray], np.ndarray]


def bootstrap_patients(score: Score, patient_id: ArrayLike) -> Interval:
    """Estimate a score, with the bounds of the percentile bootstrap over patients: MAX_DRAWS of
    them, or as many as draw MAX_WEIGHTS photographs in all, the same for each score.

    Args:
        score: of weighted photographs. It may give several numbers for each draw, (draws, ...).
        patient_id: (n,) whose photograph it is.

    Returns:
        The score and its bounds, (...) each; `n` is the number of patients. The bounds are NaN with
        fewer than two patients, or where no draw defines the score: those that do not, as of one
        class for an AUC, do not count.
    """
    patient = np.unique(np.asarray(patient_id), return_inverse=True)[1]
    num_patients = int(patient.max()) + 1
    rng = np.random.default_rng(0)
    shares = np.full(num_patients, 1 / num_patients)
    step = max(1, 1_000_000 // len(patient))  # weights in memory at once
    resamples = min(MAX_DRAWS, max(1, MAX_WEIGHTS // len(patient)))
    drawn = []
    with threadpool_limits(1):  # more threads wait for each other: these products are small
        for first in range(0, resamples, step):
            times = rng.multinomial(num_patients, shares, size=min(step, resamples - first))
            drawn.append(np.asarray(score(times[:, patient].astype(float)), dtype=float))
    drawn = np.concatenate(drawn) if num_patients > 1 else np.full_like(drawn[0][:1], np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no draw defines the score
        low, high = np.nanquantile(drawn, [0.025, 0.975], axis=0)
    return Interval(score(np.ones(len(patient))), low, high, num_patients)


def score_roc(positive: ArrayLike, probability: ArrayLike, specificity: ArrayLike) -> Score:
    """Compute the sensitivity at each specificity, (draws, specificities), interpolated linearly
    between thresholds.

    Args:
        positive: (n,) whether the condition is present.
        probability: (n,) finite, larger where the condition is likelier.
        specificity: (k,) descending from 1.
    """
    order = np.argsort(probability, kind="stable")[::-1]
    ends = np.append(np.flatnonzero(np.diff(np.asarray(probability)[order])), len(order) - 1)
    positive = np.asarray(positive, dtype=bool)[order]
    false_alarms = 1 - np.asarray(specificity)

    def score(weights: np.ndarray) -> np.ndarray:
        weights = np.atleast_2d(weights)[:, order]
        found = _count_share(weights * positive, ends)
        alarms = _count_share(weights * ~positive, ends)
        return np.array(
            [np.interp(false_alarms, x, y) for x, y in zip(alarms, found, strict=True)]
        )

    return score


def _count_share(weights: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Compute the cumulative share of the weights at each end, from 0 on."""
    sums = np.cumsum(weights, axis=-1)[:, ends]
    with np.errstate(invalid="ignore"):  # NaN of a draw without such photographs
        return np.insert(sums / sums[:, -1:], 0, 0, axis=-1)
