"""Calibration of probabilities: intercept and slope."""

import warnings

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import brentq
from scipy.special import expit, logit

from dr_lib.statistics.clustered import MIN_PATIENTS, count_rarer
from dr_lib.statistics.intervals import NOTHING, UPPER, Interval

NEAR = 1e-6  # probabilities nearer to 0 or 1 are taken for this


def fit_calibration(
    positive: ArrayLike, probability: ArrayLike, patient_id: ArrayLike
) -> tuple[Interval, Interval]:
    """Estimate the calibration intercept and slope (Cox 1958), with the spread between patients.

    The slope is that of a logistic regression on the logit of the probability: 1 is right, below 1
    the probabilities are too extreme. The intercept is calibration in the large, with the logit as
    an offset: 0 is right, below 0 the probabilities are too high.

    Returns:
        Intercept and slope; `n` counts patients. NaN where they are not estimable: a threshold
        parts the classes without an error, all probabilities are alike, the fit has not converged,
        a probability of 0 or 1 is wrong, which no intercept or slope makes likely, or fewer than
        MIN_PATIENTS patients are of a kind.
    """
    positive = np.asarray(positive, dtype=bool)
    patient = pd.factorize(np.asarray(patient_id))[0]
    probability = np.asarray(probability, dtype=float)
    x = logit(np.clip(probability, NEAR, 1 - NEAR))
    rarer = count_rarer(positive, patient)
    if rarer < MIN_PATIENTS:
        return NOTHING, NOTHING
    is_wrong = np.where(positive, probability <= 0, probability >= 1)
    is_above = x[positive].min() >= x[~positive].max()
    is_below = x[positive].max() <= x[~positive].min()
    if is_wrong.any() or is_above or is_below:
        return NOTHING, NOTHING
    # from another start than its root a fit diverges where many probabilities are near 0 or 1
    reach = np.log(len(x)) + 1
    ends = (-x.max() - reach, reach - x.min())
    root = brentq(lambda intercept: (expit(intercept + x) - positive).sum(), *ends)
    ones = np.ones((len(x), 1))
    intercept = _fit(positive, ones, patient, rarer - 1, offset=x, start=[root])
    slope = _fit(positive, np.column_stack([ones, x]), patient, rarer - 1)
    return intercept, slope


def _fit(
    positive: np.ndarray,
    design: np.ndarray,
    patient: np.ndarray,
    dof: float,
    offset: np.ndarray | None = None,
    start: list[float] | None = None,
) -> Interval:
    """Fit a logistic regression; return its last coefficient, or NOTHING."""
    from statsmodels.discrete.discrete_model import Logit  # takes a second to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of is asked below
        try:
            fitted = Logit(positive.astype(float), design, offset=offset).fit(
                start,
                method="newton",
                maxiter=100,
                disp=False,
                cov_type="cluster",
                cov_kwds={"groups": patient},
            )
        except np.linalg.LinAlgError:  # a singular Hessian on the way
            return NOTHING
    value = float(fitted.params[-1])
    half = stats.t.ppf(UPPER, dof) * float(fitted.bse[-1])
    if not fitted.mle_retvals["converged"] or not np.isfinite(value + half):
        return NOTHING
    return Interval(value, value - half, value + half, int(patient.max()) + 1)
