"""Accuracy of a test whose photographs are clustered by patient: AUC, shares, their differences.

Closed forms. The eyes of a patient are alike, so the spread is that between patients.
"""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import expit, logit
from sklearn.metrics import roc_curve

from dr_lib.statistics.intervals import LEVEL, NOTHING, UPPER, Interval

MIN_PATIENTS = 10  # with and without the condition; with fewer an AUC has no interval
MIN_SHARED = 30  # patients; fewer are counted, and have no share
TINY = 1e-14  # a variance that is rounding


def choose_threshold(
    positive: ArrayLike,
    probability: ArrayLike,
    *,
    sensitivity: float = 0.0,
    specificity: float = 0.0,
) -> float:
    """Choose the highest threshold that reaches a sensitivity, or the lowest for a specificity.

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


def auc_interval(
    positive: ArrayLike, probability: ArrayLike, patient_id: ArrayLike
) -> Interval:
    """Estimate the AUC of a test, with bounds over patients.

    The variance is that of DeLong et al. (1988) for clustered data (Obuchowski 1997, Biometrics
    53): the placements of a patient's photographs are added up, and the spread is that of the sums.
    The bounds are on the logit scale, the quantile is that of t with the patients of the rarer kind
    less one, or where few patients carry the spread, as near 1, with the degrees of freedom that
    the kurtosis gives a variance (O'Neill 2014, Am. Stat. 68). An AUC of 1 is at least 0.025^(1/n),
    as all of n patients are by Clopper and Pearson.

    Args:
        positive: (n,) whether the condition is present.
        probability: (n,) larger where the condition is likelier.
        patient_id: (n,) whose photograph it is.

    Returns:
        `n` counts patients. NaN bounds with fewer than MIN_PATIENTS patients of a kind, and where
        all photographs have one probability; no AUC of one class.
    """
    positive = np.asarray(positive, dtype=bool)
    if positive.all() or not positive.any():
        return NOTHING
    patient, names = pd.factorize(np.asarray(patient_id))
    num_patients = len(names)
    placements = place(positive, probability)
    value = float(placements[positive].mean())
    rarer = count_rarer(positive, patient)
    if rarer < MIN_PATIENTS:
        return Interval(value, np.nan, np.nan, num_patients)
    exact = (1 - UPPER) ** (1 / rarer)
    if value == 1:
        return Interval(1.0, exact, 1.0, num_patients)
    if value == 0:
        return Interval(0.0, 0.0, 1 - exact, num_patients)
    sums = []
    variance = 0.0
    for kind in (positive, ~positive):
        deviations = (placements[kind] - value) / kind.sum()
        sums.append(np.bincount(patient[kind], deviations, num_patients))
        num = len(np.unique(patient[kind]))
        variance += num / (num - 1) * (sums[-1] @ sums[-1])
    variance += 2 * num_patients / (num_patients - 1) * (sums[0] @ sums[1])
    if variance <= TINY:
        return Interval(value, np.nan, np.nan, num_patients)
    kurtosis = stats.kurtosis(sums[0] + sums[1], fisher=False)
    dof = min(rarer - 1, 2 * num_patients / max(kurtosis - 1, TINY))
    half = stats.t.ppf(UPPER, dof) * np.sqrt(variance) / (value * (1 - value))
    low, high = expit([logit(value) - half, logit(value) + half])
    return Interval(value, low, high, num_patients)


def place(positive: ArrayLike, probability: ArrayLike) -> np.ndarray:
    """Compute the placement of each photograph, (n,): the share of the other kind that it is on the
    right side of, half of those that tie with it.
    """
    positive = np.asarray(positive, dtype=bool)
    probability = np.asarray(probability, dtype=float)
    ranks = stats.rankdata(probability)
    placements = np.empty(len(ranks))
    for kind in (positive, ~positive):
        beaten = ranks[kind] - stats.rankdata(probability[kind])
        placements[kind] = beaten / (~kind).sum()
    placements[~positive] = 1 - placements[~positive]
    return placements


def count_effective(patient_id: ArrayLike) -> float:
    """Count patients as if each had as many photographs, (sum m)^2 / sum m^2 (Kish 1965)."""
    counts = pd.Series(patient_id).value_counts()
    return float(counts.sum() ** 2 / max((counts**2).sum(), 1))


def count_rarer(positive: np.ndarray, patient_id: ArrayLike) -> float:
    """Count the patients of the rarer kind as `count_effective` does."""
    patient_id = np.asarray(patient_id)
    return min(count_effective(patient_id[kind]) for kind in (positive, ~positive))


def proportion_interval(
    success: ArrayLike, patient_id: ArrayLike, level: float = LEVEL
) -> Interval:
    """Estimate a proportion of photographs, with Wilson's interval for their effective number.

    That number is n over the design effect, the variance between patients over the binomial one
    (Rao and Scott 1992, Biometrics 48); it is never above n, and made smaller for the variance is
    estimated (Korn and Graubard 1998, Surv. Methodol. 24). Where all are alike, which says nothing
    of the variance, each patient is one. Patients count as `count_effective` does.

    Args:
        success: (n,) truth values.
        patient_id: (n,) whose photograph it is.
        level: of the interval.

    Returns:
        The share; `n` counts patients. NaN with effectively fewer than MIN_SHARED patients: counts
        say more.
    """
    from statsmodels.stats.proportion import proportion_confint  # takes a second to import

    success = np.asarray(success, dtype=float)
    patient, names = pd.factorize(np.asarray(patient_id))
    num_patients = len(names)
    effective = count_effective(patient)
    if effective < MIN_SHARED:
        return NOTHING._replace(n=num_patients)
    share = float(success.mean())
    n = effective
    if 0 < share < 1 and num_patients < len(success):
        sums = np.bincount(patient, success - share)
        variance = num_patients / (num_patients - 1) * (sums @ sums) / len(success) ** 2
        n = min(len(success), share * (1 - share) / max(variance, TINY))
        upper = (1 + level) / 2
        n *= (stats.norm.ppf(upper) / stats.t.ppf(upper, effective - 1)) ** 2
    low, high = proportion_confint(share * n, n, 1 - level, method="wilson")
    # at 0 and 1 rounding puts a bound on the wrong side
    low = float(low) if share else 0.0
    high = float(high) if share < 1 else 1.0
    return Interval(share, low, high, num_patients)


def difference_interval(a: Interval, b: Interval) -> Interval:
    """Estimate a - b of two groups of other patients, from their intervals.

    Of shares with Wilson's intervals it is Newcombe's (1998, Stat. Med. 17, method 10), of any
    others Zou and Donner's (2008, Stat. Med. 27).
    """
    value = a.value - b.value
    down = np.hypot(a.value - a.low, b.high - b.value)
    up = np.hypot(a.high - a.value, b.value - b.low)
    return Interval(value, float(value - down), float(value + up), min(a.n, b.n))
