"""Resample whole patients: intervals for scores of photographs, and for differences between two scores of them.

The photographs of a patient are alike, so patients are drawn with replacement, not photographs (Efron and Tibshirani
1993, chapter 8). A draw is a weight for each photograph: how often its patient was drawn.
"""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

LEVELS = (0.025, 0.975)  # quantiles of a two-sided 95 % interval
Score = Callable[[np.ndarray], float]  # (n,) weights of the photographs -> a score; NaN where they do not define one


def bootstrap_patients(score: Score, patient_id: ArrayLike, *, seed: int, resamples: int = 2000) -> tuple[float, float]:
    """Bound a score by the percentile bootstrap over patients.

    Args:
        score: of weighted photographs. A paired difference is one too: a function that scores two predictions with the
            same weights and subtracts.
        patient_id: (n,) whose photograph it is.
        seed: of the draws; the same seed draws the same patients, whatever the score.
        resamples: number of draws.

    Returns:
        The bounds of the 95 % interval; NaN with fewer than two patients, or where no draw defines the score. Draws
        that do not define it, as those of one class for an AUC, do not count.
    """
    patient = np.unique(np.asarray(patient_id), return_inverse=True)[1]
    num_patients = int(patient.max()) + 1
    if num_patients < 2:
        return np.nan, np.nan
    rng, shares = np.random.default_rng(seed), np.full(num_patients, 1 / num_patients)
    drawn = [score(rng.multinomial(num_patients, shares)[patient]) for _ in range(resamples)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no draw defines the score
        low, high = np.nanquantile(drawn, LEVELS)
    return float(low), float(high)


def score_auc(positive: ArrayLike, probability: ArrayLike) -> Score:
    """The area under the ROC curve as a function of weights.

    It is the share of (positive, negative) pairs in the right order, ties counting half (Mann and Whitney 1947).
    scikit-learn's takes a hundred times as long a draw.

    Args:
        positive: (n,) whether the condition is present.
        probability: (n,) finite, larger where the condition is likelier.
    """
    order = np.argsort(probability, kind="stable")
    starts = np.flatnonzero(np.diff(np.asarray(probability)[order], prepend=-np.inf))  # of each distinct probability
    positive = np.asarray(positive, dtype=bool)[order]

    def score(weights: np.ndarray) -> float:
        weights = weights[order]
        positives = np.add.reduceat(weights * positive, starts)
        negatives = np.add.reduceat(weights * ~positive, starts)
        num_pairs = positives.sum() * negatives.sum()
        below = np.cumsum(negatives) - negatives / 2
        return float((positives * below).sum() / num_pairs) if num_pairs else np.nan

    return score


def score_kappa(grade: ArrayLike, predicted: ArrayLike) -> Score:
    """Cohen's kappa with quadratic weights (Cohen 1968) as a function of weights.

    The mean squared disagreement over that of independent graders, both from sums of the grades and of their products.

    Args:
        grade: (n,) whole numbers.
        predicted: (n,) whole numbers.
    """
    grade, predicted = np.asarray(grade, dtype=float), np.asarray(predicted, dtype=float)
    terms = np.stack([np.ones_like(grade), grade, predicted, grade**2 + predicted**2, grade * predicted], axis=1)

    def score(weights: np.ndarray) -> float:
        n, sum_grade, sum_predicted, squares, products = weights @ terms
        by_chance = n * squares - 2 * sum_grade * sum_predicted
        return float(1 - n * (squares - 2 * products) / by_chance) if by_chance else np.nan

    return score
