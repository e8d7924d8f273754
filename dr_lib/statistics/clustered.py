"""Accuracy of a test on photographs of which a patient has several: AUC, proportions, likelihood
ratios.

Closed forms beside the bootstrap. The eyes of a patient are alike, so the spread is that between
patients.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.metrics import roc_curve

from dr_lib.statistics.intervals import UPPER, BadSampleError, Interval

Z = float(stats.norm.ppf(UPPER))


def choose_threshold(
    positive: ArrayLike,
    probability: ArrayLike,
    *,
    sensitivity: float = 0.0,
    specificity: float = 0.0,
) -> float:
    """The threshold that just reaches a sensitivity, the highest one, or a specificity, the lowest.

    To be chosen on the validation split only; positive is called what is at least the threshold.

    Args:
        positive: (n,) 0 or 1, both present.
        probability: (n,) of being positive.
        sensitivity: least share of positives found; one of the two is given.
        specificity: least share of negatives passed. Where no probability reaches it, the threshold
            is infinite.
    """
    alarms, found, thresholds = roc_curve(positive, probability, drop_intermediate=False)
    if specificity:
        return float(thresholds[1 - alarms >= specificity - 1e-12][-1])
    return float(thresholds[found >= sensitivity][0])


def estimate_aucs(
    positive: ArrayLike, probabilities: ArrayLike, patient_id: ArrayLike
) -> tuple[np.ndarray, ...]:
    """Estimate AUCs of several tests on the same photographs, and their covariance, without
    resampling.

    The method of DeLong et al. (1988) for clustered data (Obuchowski 1997, Biometrics 53): the
    placements of a patient's photographs are added up, and the spread is that of the sums.

    Args:
        positive: (n,) whether the condition is present.
        probabilities: (tests, n) larger where the condition is likelier.
        patient_id: (n,) whose photograph it is.

    Returns:
        The AUCs, (tests,), and their covariance, (tests, tests); NaN with one patient of a kind.

    Raises:
        BadSampleError: one class only.
    """
    positive = np.asarray(positive, dtype=bool)
    probabilities = np.atleast_2d(probabilities)
    patient = np.unique(np.asarray(patient_id), return_inverse=True)[1]
    if positive.all() or not positive.any():
        raise BadSampleError("an AUC needs photographs with and without the condition")
    ranks = stats.rankdata(probabilities, axis=1)
    sums = []
    sizes = []
    for kind in (positive, ~positive):
        beaten = (ranks[:, kind] - stats.rankdata(probabilities[:, kind], axis=1)) / (
            ~kind
        ).sum()
        placement = beaten if kind is positive else 1 - beaten
        aucs = placement.mean(axis=1)
        sums.append(
            [
                np.bincount(patient[kind], row, patient.max() + 1)
                for row in placement - aucs[:, None]
            ]
        )
        sizes.append((kind.sum(), len(np.unique(patient[kind]))))
    with_it, without = map(np.array, sums)
    (m, patients_with), (n, patients_without) = sizes
    num_patients = patient.max() + 1
    if min(patients_with, patients_without) < 2:
        return aucs, np.full((len(aucs), len(aucs)), np.nan)
    covariance = patients_with / (patients_with - 1) * with_it @ with_it.T / m**2
    covariance += patients_without / (patients_without - 1) * without @ without.T / n**2
    crossed = with_it @ without.T
    covariance += num_patients / (num_patients - 1) * (crossed + crossed.T) / (m * n)
    return aucs, covariance


def delong_interval(
    positive: ArrayLike, probabilities: Sequence[ArrayLike] | ArrayLike, patient_id: ArrayLike
) -> Interval:
    """The AUC of one test, or the difference of the second's from the first's, by `estimate_aucs`;
    n is patients.

    The bounds are NaN where an AUC is 0 or 1: there the method sees no spread, which is no
    certainty.
    """
    aucs, covariance = estimate_aucs(positive, probabilities, patient_id)
    if np.isin(aucs, (0, 1)).any():
        covariance = np.full_like(covariance, np.nan)
    contrast = np.array([1.0] if len(aucs) == 1 else [-1.0, 1.0])
    value = contrast @ aucs
    half = Z * np.sqrt(np.maximum(contrast @ covariance @ contrast, 0.0))
    limit = -1.0 if len(aucs) > 1 else 0.0
    low, high = np.clip([value - half, value + half], limit, 1.0)
    return Interval(float(value), float(low), float(high), len(np.unique(patient_id)))


def proportion_interval(success: ArrayLike, patient_id: ArrayLike) -> Interval:
    """Estimate a proportion of photographs, with Wilson's interval for as many independent ones as
    they are worth.

    That number is n over the design effect, the variance between patients over the binomial one
    (Rao and Scott 1992, Biometrics 48); it is never above n. Where all are alike, which says
    nothing of the variance, each patient is one, as where each has one photograph.

    Args:
        success: (n,) truth values.
        patient_id: (n,) whose photograph it is.

    Returns:
        The share; `n` counts patients. NaN without a photograph.
    """
    from statsmodels.stats.proportion import proportion_confint  # takes a second to import

    success = np.asarray(success, dtype=float)
    patient = np.unique(np.asarray(patient_id), return_inverse=True)[1]
    n = len(success)
    num_patients = len(np.unique(patient))
    if not n:
        return Interval(np.nan, np.nan, np.nan, 0)
    share = success.mean()
    spread = (np.bincount(patient, success - share) ** 2).sum()
    if spread > 1e-12 and 1 < num_patients < n:
        variance = num_patients / (num_patients - 1) * spread / n**2
        effective = min(n, share * (1 - share) / variance)
    else:
        effective = num_patients
    low, high = proportion_confint(share * effective, effective, method="wilson")
    low = min(low, share)
    high = max(high, share)  # at 0 and 1 rounding puts a bound 1e-16 on the wrong side
    return Interval(
        float(share), float(low if share else 0), float(high if share < 1 else 1), num_patients
    )


def likelihood_ratios(
    sensitivity: Interval, specificity: Interval
) -> tuple[Interval, Interval]:
    """The likelihood ratios of a positive and of a negative answer.

    The bounds are put together from those of the two proportions on the logarithms (Zou and Donner
    2008, Stat. Med. 27), as if these were independent: eyes of one patient make them a little wider
    than need be.
    """
    missed, alarms = (
        Interval(1 - x.value, 1 - x.high, 1 - x.low, x.n) for x in (sensitivity, specificity)
    )
    return _divide(sensitivity, alarms), _divide(missed, specificity)


def at_prevalence(
    ratios: tuple[Interval, Interval], prevalence: float
) -> tuple[Interval, Interval]:
    """Predictive values, positive and negative, where another share of eyes has the condition
    (Bayes).

    Args:
        ratios: of `likelihood_ratios`.
        prevalence: above 0 and below 1.
    """
    odds = prevalence / (1 - prevalence)
    positive, negative = ratios
    ppv = [
        1.0 if np.isinf(ratio) else ratio * odds / (1 + ratio * odds) for ratio in positive[:3]
    ]
    npv = [1 / (1 + ratio * odds) for ratio in (negative.value, negative.high, negative.low)]
    return Interval(*ppv, positive.n), Interval(*npv, negative.n)


def _divide(a: Interval, b: Interval) -> Interval:
    n = min(a.n, b.n)
    if not a.value > 0 or not b.value > 0:  # all or none: the bounds alone
        value = 0.0 if b.value > 0 else np.inf if a.value > 0 else np.nan
        return Interval(
            value,
            a.low / b.high if b.high > 0 else np.nan,
            a.high / b.low if b.low > 0 else np.inf,
            n,
        )
    down = np.hypot(np.log(a.value / a.low), np.log(b.high / b.value))
    up = np.hypot(np.log(a.high / a.value), np.log(b.value / b.low))
    ratio = a.value / b.value
    return Interval(float(ratio), float(ratio * np.exp(-down)), float(ratio * np.exp(up)), n)
