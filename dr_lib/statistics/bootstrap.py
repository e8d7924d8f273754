"""Resample whole patients: intervals for scores of photographs without a closed form.

The photographs of a patient are alike, so patients are drawn with replacement, not photographs
(Efron and Tibshirani 1993, chapter 8). A draw is a weight for each photograph: how often its
patient was drawn.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from dr_lib.statistics.clustered import TINY, count_effective, count_rarer
from dr_lib.statistics.intervals import Interval

RESAMPLES = 2000
MIN_PATIENTS = 60  # effectively; with fewer, in all or of a kind, a percentile misses too often
MIN_OF_KIND = 20
MAX_WEIGHTS = 2_000_000  # in memory at once
# (draws, n) weights of the photographs -> a score of each draw, (draws,), or several, (k, draws)
Score = Callable[[np.ndarray], np.ndarray]


def bootstrap_patients(score: Score, positive: ArrayLike, patient_id: ArrayLike) -> Interval:
    """Estimate a score with the bounds of the percentile bootstrap over patients.

    Args:
        score: of weighted photographs.
        positive: (n,) whether the condition is present.
        patient_id: (n,) whose photograph it is.

    Returns:
        The score and its bounds, numbers or (k,) each; `n` counts patients. NaN bounds with fewer
        than MIN_PATIENTS patients, or MIN_OF_KIND of a kind, and where no draw changes the score.
    """
    positive = np.asarray(positive, dtype=bool)
    patient, names = pd.factorize(np.asarray(patient_id))
    num_patients = len(names)
    value = score(np.ones((1, len(patient))))[..., 0][()]
    is_few = count_effective(patient) < MIN_PATIENTS
    if is_few or count_rarer(positive, patient) < MIN_OF_KIND:
        unknown = value * np.nan
        return Interval(value, unknown, unknown, num_patients)

    def score_draws(drawn: np.ndarray, axis: int) -> np.ndarray:
        times = [np.bincount(row, minlength=num_patients) for row in drawn]
        return score(np.array(times, dtype=float)[:, patient])

    found = stats.bootstrap(
        (np.arange(num_patients),),
        score_draws,
        n_resamples=RESAMPLES,
        batch=max(1, MAX_WEIGHTS // len(patient)),
        vectorized=True,
        method="percentile",
        random_state=0,
    )
    low, high = found.confidence_interval
    unknown = np.where(high - low > TINY, 0, np.nan)[()]
    return Interval(value, low + unknown, high + unknown, num_patients)


def score_auc(positive: ArrayLike, probability: ArrayLike) -> Score:
    """Make a score that is the AUC of a test; args as for `clustered.auc_interval`."""
    order = np.argsort(probability, kind="stable")
    positive = np.asarray(positive, dtype=bool)[order]
    steps = np.diff(np.asarray(probability, dtype=float)[order], prepend=-np.inf)
    starts = np.flatnonzero(steps)  # of photographs that tie

    def score(weights: np.ndarray) -> np.ndarray:
        weights = weights[:, order]
        found = np.add.reduceat(weights * positive, starts, axis=1)
        others = np.add.reduceat(weights * ~positive, starts, axis=1)
        below = np.cumsum(others, axis=1) - others / 2
        return (found * below).sum(axis=1) / (found.sum(axis=1) * others.sum(axis=1))

    return score


def score_kappa(grade: ArrayLike, called: ArrayLike) -> Score:
    """Make a score that is Cohen's kappa with quadratic weights (1968) of two graders, (n,) each.

    The mean squared disagreement over that of independent graders, both from sums of the grades,
    their squares and products. NaN of one grade alone.
    """
    grade = np.asarray(grade, dtype=float)
    called = np.asarray(called, dtype=float)
    ones = np.ones_like(grade)
    terms = np.stack([ones, grade, called, grade**2 + called**2, grade * called], axis=1)

    def score(weights: np.ndarray) -> np.ndarray:
        n, of_grade, of_called, squares, products = (weights @ terms).T
        by_chance = n * squares - 2 * of_grade * of_called
        with np.errstate(invalid="ignore"):
            return 1 - n * (squares - 2 * products) / by_chance

    return score
