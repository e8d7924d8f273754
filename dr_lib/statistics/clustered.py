"""Accuracy of a test on photographs clustered by patient: AUC, average precision, Brier score,
    proportions and their differences, kappa, likelihood ratios.

Closed forms. The eyes of a patient are alike, so the spread is that between
patients.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import brentq
from scipy.special import expit, logit, rel_entr
from sklearn.metrics import roc_curve

from dr_lib.statistics.intervals import NOTHING, UPPER, BadSampleError, Interval

Z = float(stats.norm.ppf(UPPER))
MIN_PATIENTS = 10  # with and without the condition; with fewer a score has the widest bounds
MIN_GRADED = 15  # patients of a kappa with bounds
MIN_UNUSUAL = 3  # of them without the commonest grade: agreement by chance rests on these
FEW_CARRIERS = 5  # patients who carry an error; fewer say little of how often it occurs
TINY = 1e-14  # a variance that is rounding
NEAR = 1e-9  # a difference of shares that is rounding


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


class Aucs(NamedTuple):
    """AUCs of several tests on the same photographs, and the data behind their covariance."""

    values: np.ndarray  # (tests,)
    covariance: np.ndarray  # (tests, tests); NaN with one patient of a kind
    placements: (
        np.ndarray
    )  # (tests, n), the share of the other kind that a photograph is right of
    deviations: np.ndarray  # (tests, patients), the part of each in the error
    patients_with: int  # who have a photograph with the condition
    patients_without: int
    rarer: float  # effective number of patients of the rarer kind, see `_count_effective`
    independent_pairs: float  # of a photograph with the condition and one without

    def bound(self, test: int) -> Interval:
        """Bound the AUC of a test as `auc_interval` does."""
        value = float(self.values[test])
        num_patients = self.deviations.shape[1]
        variance = self.covariance[test, test]
        exact = bound_mean_exactly(value, self.independent_pairs)
        if self.rarer < MIN_PATIENTS or not variance > TINY or value in (0, 1):
            return Interval(value, *exact, num_patients)

        # Hanley and McNeil 1982: exponential scores, a patient of each kind counting once
        usual = value * (1 - value)
        usual += (self.patients_with - 1) * (value / (2 - value) - value**2)
        usual += (self.patients_without - 1) * (2 * value**2 / (1 + value) - value**2)
        usual /= self.patients_with * self.patients_without
        bounds = _bound_on_logit(value, variance, self.deviations[test], usual, self.rarer - 1)
        return Interval(value, *_intersect(bounds, exact), num_patients)


def estimate_aucs(positive: ArrayLike, probabilities: ArrayLike, patient_id: ArrayLike) -> Aucs:
    """Estimate AUCs of several tests on the same photographs, and their covariance.

    The method of DeLong et al. (1988) for clustered data (Obuchowski 1997, Biometrics 53): the
    placements of a patient's photographs are added up, and the spread is that of the sums.

    Args:
        positive: (n,) whether the condition is present.
        probabilities: (tests, n) larger where the condition is likelier.
        patient_id: (n,) whose photograph it is.

    Raises:
        BadSampleError: one class only.
    """
    positive = np.asarray(positive, dtype=bool)
    probabilities = np.atleast_2d(probabilities)
    patient, num_patients = _number_patients(patient_id)
    if positive.all() or not positive.any():
        raise BadSampleError("an AUC needs photographs with and without the condition")
    ranks = stats.rankdata(probabilities, axis=1)
    placements = np.empty(probabilities.shape)
    for kind in (positive, ~positive):
        beaten = ranks[:, kind] - stats.rankdata(probabilities[:, kind], axis=1)
        placements[:, kind] = beaten / (~kind).sum()
    placements[:, ~positive] = 1 - placements[:, ~positive]
    aucs = placements[:, positive].mean(axis=1)
    with_it, without = (
        _add_by_patient((placements - aucs[:, None])[:, kind], patient[kind], num_patients)
        / kind.sum()
        for kind in (positive, ~positive)
    )
    counts = [
        np.bincount(patient[kind], minlength=num_patients) for kind in (positive, ~positive)
    ]
    shares = [count / count.sum() for count in counts]
    patients_with, patients_without = (np.count_nonzero(count) for count in counts)
    covariance = np.full((len(aucs), len(aucs)), np.nan)
    if min(patients_with, patients_without) > 1:
        covariance = patients_with / (patients_with - 1) * with_it @ with_it.T
        covariance += patients_without / (patients_without - 1) * without @ without.T
        crossed = with_it @ without.T
        covariance += num_patients / (num_patients - 1) * (crossed + crossed.T)
    return Aucs(
        values=aucs,
        covariance=covariance,
        placements=placements,
        deviations=with_it + without,
        patients_with=int(patients_with),
        patients_without=int(patients_without),
        rarer=min(map(_count_effective, counts)),
        independent_pairs=float(1 / np.sum(shares, axis=0).max()),
    )


def auc_interval(
    positive: ArrayLike, probability: ArrayLike, patient_id: ArrayLike
) -> Interval:
    """Estimate the AUC of a test, with bounds over patients on the logit scale.

    The variance is that of `estimate_aucs`, the quantile that of t with the patients of the rarer
    kind less one. The AUC of a good test rests on few errors, and their spread says little: where
    few patients carry it, the variance is drawn towards that of Hanley and McNeil (1982), if that
    is larger.

    With fewer than MIN_PATIENTS patients of a kind, and where no patient's error is seen (a perfect
    or a constant score), the bounds are Hoeffding's (1963): they hold for any score.

    Args:
        positive: (n,) whether the condition is present.
        probability: (n,) larger where the condition is likelier.
        patient_id: (n,) whose photograph it is.

    Returns:
        `n` counts patients.

    Raises:
        BadSampleError: one class only.
    """
    return estimate_aucs(positive, probability, patient_id).bound(0)


def auc_difference(
    positive: ArrayLike, probabilities: Sequence[ArrayLike], patient_id: ArrayLike
) -> Interval:
    """Estimate the difference of the second test's AUC from the first's.

    As `auc_interval`, on the plain scale: where few patients carry the difference, its variance is
    drawn towards that of patients who change from all right to all wrong. Args and Raises as for
    `estimate_aucs`, of two tests.

    Returns:
        NaN bounds with fewer than MIN_PATIENTS patients of a kind.
    """
    aucs = estimate_aucs(positive, probabilities, patient_id)
    positive = np.asarray(positive, dtype=bool)
    moved = np.abs(aucs.placements[1] - aucs.placements[0])
    deviations = aucs.deviations[1] - aucs.deviations[0]
    difference = float(aucs.values[1] - aucs.values[0])
    half = np.nan
    if not moved.any():
        half = 0.0
    elif aucs.rarer >= MIN_PATIENTS:
        variance = aucs.covariance[0, 0] + aucs.covariance[1, 1] - 2 * aucs.covariance[0, 1]
        usual = max(
            moved[positive].mean() / aucs.patients_with,
            moved[~positive].mean() / aucs.patients_without,
        )
        half = stats.t.ppf(UPPER, aucs.rarer - 1)
        half *= np.sqrt(_steady(variance, deviations, usual))
    return Interval(difference, difference - half, difference + half, len(deviations))


def average_precision_interval(
    positive: ArrayLike, probability: ArrayLike, patient_id: ArrayLike
) -> Interval:
    """Estimate the average precision, with bounds over patients on the logit scale.

    It is the mean over positives of the precision at the threshold that just finds them, the area
    under the precision-recall curve without interpolation. Its variance is that of the patients'
    influences, drawn towards that of as many findings as patients have the condition.

    Args and Raises as for `auc_interval`.

    Returns:
        NaN bounds with fewer than MIN_PATIENTS patients of a kind, and where fewer than
        FEW_CARRIERS have a photograph in the wrong order.
    """
    positive = np.asarray(positive, dtype=bool)
    patient, num_patients = _number_patients(patient_id)
    if positive.all() or not positive.any():
        raise BadSampleError(
            "an average precision needs photographs with and without the condition"
        )
    place = np.unique(-np.asarray(probability, dtype=float), return_inverse=True)[1]
    found_here = np.bincount(place, positive)
    found = np.cumsum(found_here)
    called = np.cumsum(np.bincount(place))
    precision = found / called
    value = float(found_here @ precision / found[-1])
    is_misplaced = np.where(positive, precision[place] < 1, found[place] < found[-1])
    num_carriers = len(np.unique(patient[is_misplaced]))
    rarer = min(_count_effective(np.bincount(patient[kind])) for kind in (positive, ~positive))
    if rarer < MIN_PATIENTS or num_carriers < FEW_CARRIERS:
        return Interval(value, np.nan, np.nan, num_patients)

    # one more photograph at a threshold moves the precision there and at all lower ones
    with_one_more = _sum_from_here(found_here * (called - found) / called**2)
    without_one_more = -_sum_from_here(found_here * found / called**2)
    influence = np.where(
        positive, precision[place] - value + with_one_more[place], without_one_more[place]
    )
    deviations = _add_by_patient(influence / found[-1], patient, num_patients)
    variance = num_patients / (num_patients - 1) * (deviations**2).sum()
    usual = value * (1 - value) / len(np.unique(patient[positive]))
    low, high = _bound_on_logit(value, variance, deviations, usual, rarer - 1)
    auc_low = auc_interval(positive, probability, patient_id).low
    return Interval(value, max(low, _least_precision(auc_low, positive)), high, num_patients)


def _least_precision(auc: float, positive: np.ndarray) -> float:
    """Compute the least average precision of any score with this AUC.

    Its precision falls most where the false alarms are the same share 1 - AUC at every sensitivity
    u: then it is the mean of u / (u + k) over u from 0 to 1.
    """
    k = (1 - auc) * (~positive).sum() / positive.sum()
    return float(1 - k * np.log1p(1 / k)) if k else 1.0


def brier_interval(
    positive: ArrayLike, probability: ArrayLike, patient_id: ArrayLike
) -> Interval:
    """Estimate the Brier score, the mean squared error of probabilities, with bounds over patients.

    On the logit scale, its variance drawn towards that of errors that are 0 or 1, the largest that
    a mean allows; Hoeffding's bounds with fewer than MIN_PATIENTS patients, or where all have one
    error. Args as for `auc_interval`, probabilities of the condition.
    """
    error = (np.asarray(probability, dtype=float) - np.asarray(positive, dtype=float)) ** 2
    patient, num_patients = _number_patients(patient_id)
    value = float(error.mean())
    deviations = _add_by_patient((error - value) / len(error), patient, num_patients)
    spread = (deviations**2).sum()
    counts = np.bincount(patient)
    exact = bound_mean_exactly(value, len(error) / counts.max())
    effective = _count_effective(counts)
    if effective < MIN_PATIENTS or spread <= TINY:
        return Interval(value, *exact, num_patients)
    variance = num_patients / (num_patients - 1) * spread
    usual = value * (1 - value) / num_patients
    bounds = _bound_on_logit(value, variance, deviations, usual, effective - 1)
    return Interval(value, *_intersect(bounds, exact), num_patients)


def bound_mean_exactly(value: float, n: float) -> tuple[float, float]:
    """Bound (95 %) the mean of any n independent numbers between 0 and 1.

    Hoeffding's inequality (1963, J. Am. Stat. Assoc. 58): the means whose relative entropy is at
    most log(40) / n. It holds for an AUC of n independent pairs of photographs, too (his section
    5b): a perfect one is at least 0.025^(1/n), which no method can raise for all scores.
    """

    def excess(mean: float) -> float:
        entropy = rel_entr(value, mean) + rel_entr(1 - value, 1 - mean)
        return float(entropy - np.log(2 / (2 - 2 * UPPER)) / n)

    low = brentq(excess, 0, value) if value > 0 else 0.0
    high = brentq(excess, value, 1) if value < 1 else 1.0
    return float(low), float(high)


def proportion_interval(success: ArrayLike, patient_id: ArrayLike) -> Interval:
    """Estimate a proportion of photographs, with Wilson's interval for their effective number.

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
    patient, num_patients = _number_patients(patient_id)
    n = len(success)
    if not n:
        return Interval(np.nan, np.nan, np.nan, 0)
    share = success.mean()
    effective = _count_independent(success, patient, num_patients)
    low, high = proportion_confint(share * effective, effective, method="wilson")
    # at 0 and 1 rounding puts a bound 1e-16 on the wrong side
    low = min(low, share) if share else 0
    high = max(high, share) if share < 1 else 1
    return Interval(*map(float, (share, low, high)), num_patients)


def difference_interval(
    gained: ArrayLike, lost: ArrayLike, patient_id: ArrayLike, weight: float = 1.0
) -> Interval:
    """Estimate weight * share(gained) - share(lost) of the same photographs, with score bounds.

    Of two tests, `gained` are the photographs that the second alone gets right, `lost` those that
    the first alone does. With weight 1 and one photograph a patient the interval is Tango's (1998,
    Stat. Med. 17): the differences that a score test does not reject. Photographs count by their
    effective number, as in `proportion_interval`; where that is estimated, the quantile is t's.

    Args:
        gained: (n,) truth values.
        lost: (n,) truth values, false where `gained` is true.
        patient_id: (n,) whose photograph it is.
        weight: of a photograph gained, above 0.

    Returns:
        `n` counts patients. NaN without a photograph.
    """
    gained = np.asarray(gained, dtype=float)
    lost = np.asarray(lost, dtype=float)
    patient, num_patients = _number_patients(patient_id)
    if not num_patients:
        return NOTHING
    values = weight * gained - lost
    value = float(values.mean())
    n = _count_independent(values, patient, num_patients)
    counts = np.bincount(patient)
    quantile = Z
    if counts.max() > 1:
        quantile = stats.t.ppf(UPPER, max(1, _count_effective(counts) - 1))
    share_gained = gained.mean()
    share_lost = lost.mean()

    def excess(difference: float) -> float:
        # the likeliest share lost, if this is the difference, solves a x^2 + b x = c
        rest = 1 - difference / weight
        a = 1 + 1 / weight
        b = a * difference * (1 - share_gained) - rest * (share_gained + share_lost)
        c = share_lost * difference * rest
        lost_then = (np.sqrt(max(b**2 + 4 * a * c, 0)) - b) / (2 * a)
        lost_then = max(lost_then, -difference, 0)
        variance = weight * (lost_then + difference) + lost_then - difference**2
        return n * (value - difference) ** 2 - quantile**2 * variance

    low = brentq(excess, -1, value - NEAR) if value - NEAR > -1 else -1.0
    high = brentq(excess, value + NEAR, weight) if value + NEAR < weight else weight
    return Interval(value, low, high, num_patients)


def kappa_interval(grade: ArrayLike, *predicted: ArrayLike, patient_id: ArrayLike) -> Interval:
    """Estimate Cohen's kappa with quadratic weights (1968), or the difference of the second
    predictions' kappa from the first's.

    The mean squared disagreement over that of independent graders, both from sums of the grades and
    of their products. The bounds are those of a jackknife over patients, of one kappa on Fisher's
    scale, artanh, of a difference on the plain one; the quantile is that of t with as many degrees
    of freedom as patients carry the spread, for those of few errors vary in size.

    Args:
        grade: (n,) whole numbers.
        predicted: (n,) whole numbers, of one or of two graders.
        patient_id: (n,) whose photograph it is.

    Returns:
        `n` counts patients. NaN bounds with fewer than MIN_GRADED patients, where fewer than two of
        them have a disagreement, with the grade or between the two graders, and where somebody
        gives fewer than MIN_UNUSUAL another grade than the commonest.
    """
    grade = np.asarray(grade, dtype=float)
    graders = np.asarray(predicted, dtype=float)
    patient, num_patients = _number_patients(patient_id)
    kappas = [_compute_kappas(grade, called, patient, num_patients) for called in graders]
    is_difference = len(graders) == 2
    kappa = kappas[1] - kappas[0] if is_difference else kappas[0]
    is_unlike = graders[0] != (graders[1] if is_difference else grade)
    is_few = num_patients < MIN_GRADED or len(np.unique(patient[is_unlike])) < 2
    for grades in (grade, *graders):
        is_unusual = grades != stats.mode(grades).mode
        is_few = is_few or len(np.unique(patient[is_unusual])) < MIN_UNUSUAL
    if is_few:
        return Interval(float(kappa[0]), np.nan, np.nan, num_patients)
    with np.errstate(divide="ignore", invalid="ignore"):  # of -1
        bounds = _bound_jackknife(kappa if is_difference else np.arctanh(kappa))
    low, high = bounds if is_difference else np.tanh(bounds)
    return Interval(float(kappa[0]), float(low), float(high), num_patients)


def likelihood_ratios(
    sensitivity: Interval, specificity: Interval
) -> tuple[Interval, Interval]:
    """Estimate the likelihood ratios of a positive and of a negative answer.

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
    """Compute positive and negative predictive values at another prevalence (Bayes).

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


def _compute_kappas(
    grade: np.ndarray, called: np.ndarray, patient: np.ndarray, num_patients: int
) -> np.ndarray:
    """Compute kappa with quadratic weights of all patients, then without each of them."""
    terms = [np.ones_like(grade), grade, called, grade**2 + called**2, grade * called]
    sums = _add_by_patient(np.stack(terms), patient, num_patients)
    left = sums.sum(axis=1, keepdims=True) - np.insert(sums, 0, 0, axis=1)
    n, of_grade, of_called, squares, products = left
    by_chance = n * squares - 2 * of_grade * of_called
    with np.errstate(invalid="ignore"):  # NaN of one grade alone
        return 1 - n * (squares - 2 * products) / by_chance


def _bound_jackknife(scores: np.ndarray) -> np.ndarray:
    """Bound a score: of all patients, then without each of them."""
    deviations = scores[1:] - scores[1:].mean()
    half = np.sqrt((len(deviations) - 1) * (deviations**2).mean())
    half *= stats.t.ppf(UPPER, _count_carriers(deviations))
    return scores[0] + half * np.array([-1, 1])


def _bound_on_logit(
    value: float, variance: float, deviations: np.ndarray, usual: float, dof: int
) -> tuple[float, float]:
    """Bound a score between 0 and 1 on the logit scale.

    Args:
        value: above 0 and below 1.
        variance: estimated from the deviations.
        deviations: (patients,) the part of each in the error.
        usual: variance that such a score has.
        dof: degrees of freedom.
    """
    variance = _steady(variance, deviations, usual)
    half = stats.t.ppf(UPPER, dof) * np.sqrt(variance) / (value * (1 - value))
    low, high = expit(logit(value) + half * np.array([-1, 1]))
    carriers = _count_carriers(deviations)
    if carriers < FEW_CARRIERS:  # errors so rare are Poisson's
        least = stats.chi2.ppf(1 - UPPER, 2 * carriers) / (2 * carriers)
        if value > 0.5:
            high = max(high, 1 - least * (1 - value))
        else:
            low = min(low, least * value)
    return float(low), float(high)


def _intersect(bounds: tuple[float, float], exact: tuple[float, float]) -> tuple[float, float]:
    """Keep the tighter of two lower and of two upper bounds, of which each pair holds by itself."""
    return max(bounds[0], exact[0]), min(bounds[1], exact[1])


def _count_effective(counts: np.ndarray) -> float:
    """Count patients as if each had as many photographs: (sum m)^2 / sum m^2 (Kish 1965)."""
    return float(counts.sum() ** 2 / (counts**2).sum())


def _count_independent(values: np.ndarray, patient: np.ndarray, num_patients: int) -> float:
    """Count photographs as if independent: n over the design effect of the values, at most n."""
    n = len(values)
    spread = (np.bincount(patient, values - values.mean()) ** 2).sum()
    if spread <= 1e-12 or not 1 < num_patients < n:
        return num_patients
    variance = num_patients / (num_patients - 1) * spread / n**2
    return min(n, values.var() / variance)


def _steady(variance: float, deviations: np.ndarray, usual: float) -> float:
    """Shrink a variance towards a larger usual one, as if two more patients had that.

    An estimated variance is worth as many patients as carry it: all, where their deviations are of
    one size, and one, where a single patient's is left.
    """
    return variance + 2 / (2 + _count_carriers(deviations)) * max(usual - variance, 0)


def _count_carriers(deviations: np.ndarray) -> float:
    """Count the patients who carry an error as if each had the same part in it."""
    return float((deviations**2).sum() ** 2 / (deviations**4).sum())


def _number_patients(patient_id: ArrayLike) -> tuple[np.ndarray, int]:
    """Number the patients of the photographs from 0 on, and count the patients."""
    patient, names = pd.factorize(np.asarray(patient_id), sort=True)
    return patient, len(names)


def _add_by_patient(values: np.ndarray, patient: np.ndarray, num_patients: int) -> np.ndarray:
    """Sum (..., n) numbers of photographs by patient: (..., patients)."""
    return np.apply_along_axis(lambda row: np.bincount(patient, row, num_patients), -1, values)


def _sum_from_here(values: np.ndarray) -> np.ndarray:
    return np.cumsum(values[::-1])[::-1]


def _divide(a: Interval, b: Interval) -> Interval:
    n = min(a.n, b.n)
    if not a.value > 0 or not b.value > 0:  # all or none: the bounds alone
        if np.isnan(a.value + b.value) or a.value == b.value:
            return NOTHING._replace(n=n)
        return Interval(
            0.0 if b.value > 0 else np.inf,
            a.low / b.high if b.high > 0 else np.nan,
            a.high / b.low if b.low > 0 else np.inf,
            n,
        )
    down = np.hypot(np.log(a.value / a.low), np.log(b.high / b.value))
    up = np.hypot(np.log(a.high / a.value), np.log(b.value / b.low))
    ratio = a.value / b.value
    return Interval(float(ratio), float(ratio * np.exp(-down)), float(ratio * np.exp(up)), n)
