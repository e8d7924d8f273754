"""Calibration of probabilities: slope, intercept, curve, recalibration."""

import gc
import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import brentq
from scipy.special import expit, logit

from dr_lib.statistics.bootstrap import bootstrap_patients
from dr_lib.statistics.intervals import UPPER, Interval
from dr_lib.statistics.recalibration import NEAR, Recalibration

NUM_SUMS = 6_400_000  # of a patient at a probability, 40 bytes each, in memory at once
MANY = 10_000  # photographs, whose fit is worth the time to free it


def fit_slope(
    positive: ArrayLike, probability: ArrayLike, patient_id: ArrayLike
) -> tuple[Interval, Interval]:
    """Estimate the calibration intercept and slope (Cox 1958), with the spread between patients.

    The slope is that of a logistic regression on the logit of the probability: 1 is right, below 1
    the probabilities are too extreme. The intercept is calibration in the large, with the logit as
    an offset: 0 is right, below 0 the probabilities are too high.

    Returns:
        Intercept and slope; `n` counts patients, and t has one degree of freedom less. NaN where a
        threshold parts the classes without an error, or all probabilities are alike: then no finite
        slope is the likeliest. So it is where the fit has not converged.
    """
    num_patients = len(np.unique(patient_id))
    unknown = (Interval(np.nan, np.nan, np.nan, num_patients),) * 2
    if num_patients < 2 or not _is_estimable(positive, probability):
        return unknown
    fits = [_fit(positive, probability, with_slope, patient_id) for with_slope in (False, True)]
    if None in fits:
        return unknown
    quantile = stats.t.ppf(UPPER, num_patients - 1)
    found = []
    for fit in fits:  # the intercept of the first, the slope of the second
        value = float(fit.coefficients[-1])
        half = quantile * float(fit.errors[-1])
        found.append(Interval(value, value - half, value + half, num_patients))
    return tuple(found)


def fit_recalibration(positive: ArrayLike, probability: ArrayLike) -> Recalibration | None:
    """Fit a recalibration on the validation split: intercept and slope on the logit (Cox 1958,
    Platt 1999).

    Returns:
        None where `fit_slope` finds none, or the slope is not above 0: that would turn the ranking
        round.
    """
    if not _is_estimable(positive, probability):
        return None
    fit = _fit(positive, probability, True)
    if fit is None or not fit.coefficients[1] > 0:
        return None
    return Recalibration(*map(float, fit.coefficients))


def smooth_calibration(
    positive: ArrayLike, probability: ArrayLike, patient_id: ArrayLike, grid: ArrayLike
) -> Interval:
    """Smooth the share of positives at each probability of a grid, (k,), with bounds.

    Straight lines fitted by tricube weights to the nearest three quarters of the photographs
    (Cleveland 1979, as Austin and Steyerberg 2014 do), with the bounds of the bootstrap over
    patients, at the bandwidth of all. NaN outside the probabilities that there are.
    """
    positive, probability, grid = map(np.asarray, (positive, probability, grid))
    patient = np.unique(patient_id, return_inverse=True)[1]
    num_parts = -(-(patient.max() + 1) * len(grid) // NUM_SUMS)
    parts = [
        _smooth(positive, probability, patient, part)
        for part in np.array_split(grid, num_parts)
    ]
    value, low, high, num_patients = zip(*parts, strict=True)
    return Interval(*map(np.concatenate, (value, low, high)), num_patients[0])


def _smooth(
    positive: np.ndarray, probability: np.ndarray, patient: np.ndarray, grid: np.ndarray
) -> Interval:
    is_inside = (probability.min() <= grid) & (grid <= probability.max())
    sums = np.empty((5, patient.max() + 1, len(grid)))
    for place, middle in enumerate(grid):
        away = probability - middle
        nearest = int(0.75 * len(away) + 1e-10) - 1  # a point rests on 3 in 4 photographs
        width = max(np.partition(np.abs(away), nearest)[nearest], NEAR)
        near = np.clip(1 - np.abs(away / width) ** 3, 0, None) ** 3
        terms = (near, near * away, near * away**2, near * positive, near * away * positive)
        sums[:, :, place] = [np.bincount(patient, term) for term in terms]

    def score(weights: np.ndarray) -> np.ndarray:
        s0, s1, s2, t0, t1 = weights @ sums
        spread = s0 * s2 - s1**2
        with np.errstate(invalid="ignore", divide="ignore"):
            line = (s2 * t0 - s1 * t1) / spread
            share = np.where(spread > NEAR * s0**2, line, t0 / s0)
        return np.where(is_inside, np.clip(share, 0, 1), np.nan)

    return bootstrap_patients(score, np.arange(patient.max() + 1))


def _is_estimable(positive: ArrayLike, probability: ArrayLike) -> bool:
    positive = np.asarray(positive, dtype=bool)
    x = to_logit(probability)
    if positive.all() or not positive.any() or not np.ptp(x):
        return False
    return bool(
        x[positive].min() < x[~positive].max() and x[~positive].min() < x[positive].max()
    )


def to_logit(probability: ArrayLike) -> np.ndarray:
    """Compute the log odds of a probability, finite even for 0 and 1."""
    return logit(np.clip(np.asarray(probability, dtype=float), NEAR, 1 - NEAR))


class Fit(NamedTuple):
    """A logistic regression: its coefficients and their standard errors."""

    coefficients: np.ndarray
    errors: np.ndarray


def _fit(
    positive: ArrayLike,
    probability: ArrayLike,
    with_slope: bool,
    patient_id: ArrayLike | None = None,
) -> Fit | None:
    """Fit a logistic regression by statsmodels' Logit, with the spread between patients if given.

    The intercept alone is found as a root first: where many probabilities are near 0 or 1, a fit
    diverges from another start, as R's glm does.

    Returns:
        None where the fit has not converged.
    """
    from statsmodels.discrete.discrete_model import Logit  # takes a second to import

    x = to_logit(probability)
    positive = np.asarray(positive, dtype=float)
    design = np.ones((len(x), 1))
    offset = None
    start = None
    if with_slope:
        design = np.column_stack([design, x])
    else:
        offset = x
        reach = np.log(len(x)) + 1  # so far beyond all logits the sum is off by less than 1
        ends = (-x.max() - reach, reach - x.min())
        start = [brentq(lambda intercept: (expit(intercept + x) - positive).sum(), *ends)]
    options = {"method": "newton", "maxiter": 100, "disp": False}
    if patient_id is not None:
        groups = np.unique(np.asarray(patient_id), return_inverse=True)[1]
        options |= {"cov_type": "cluster", "cov_kwds": {"groups": groups}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of is asked below
        try:
            fitted = Logit(positive, design, offset=offset).fit(start, **options)
        except np.linalg.LinAlgError:  # a singular Hessian on the way
            return None
        found = Fit(np.asarray(fitted.params), np.asarray(fitted.bse))
    is_converged = fitted.mle_retvals["converged"] and np.isfinite(found).all()
    del fitted
    if len(x) > MANY:
        gc.collect()  # it holds itself, and 400 bytes a photograph
    return found if is_converged else None
