"""AUC, proportions and likelihood ratios of photographs of which patients have two, against
other sources.
"""

import itertools

import numpy as np
import pytest
from scipy.stats import t
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    cohen_kappa_score,
    roc_auc_score,
)
from statsmodels.stats.proportion import proportion_confint

from dr_lib.statistics.clustered import (
    at_prevalence,
    auc_difference,
    auc_interval,
    average_precision_interval,
    brier_interval,
    choose_threshold,
    difference_interval,
    estimate_aucs,
    kappa_interval,
    likelihood_ratios,
    proportion_interval,
)
from dr_lib.statistics.intervals import Interval

POSITIVE = [1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0]  # of two eyes each of six patients
PROBABILITY = [0.9, 0.8, 0.7, 0.65, 0.6, 0.55, 0.4, 0.35, 0.3, 0.2, 0.15, 0.1]
PATIENT = np.arange(12) // 2
KNOWN = [1] * 14 + [0] * 26  # of one eye each of 40 patients, with two scores in tenths
FIRST = np.array(
    [
        22,
        21,
        13,
        20,
        6,
        -5,
        30,
        18,
        -8,
        2,
        7,
        16,
        26,
        16,
        -4,
        5,
        -2,
        2,
        -7,
        -12,
        13,
        -3,
        1,
        -6,
        -5,
    ]
    + [-4, 7, 12, 5, -6, 28, 8, 9, -5, -2, 6, -17, -8, 4, 24]
)
SECOND = np.array(
    [
        25,
        13,
        3,
        28,
        0,
        -8,
        46,
        18,
        -11,
        -4,
        18,
        27,
        21,
        5,
        -5,
        16,
        2,
        -8,
        -4,
        -6,
        13,
        -2,
        1,
        -10,
    ]
    + [-10, -15, -3, -2, 8, -2, 28, 11, 9, -11, -1, 3, -19, -25, -1, 27]
)


def draw_eyes(num_patients: int, seed: int = 0, alike: float = 0.7) -> tuple[np.ndarray, ...]:
    """Two eyes of each patient, alike in disease and in probability."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(2, num_patients, 1))
    own = rng.normal(size=(2, num_patients, 2))
    disease, noise = (alike**0.5 * shared + (1 - alike) ** 0.5 * own).reshape(2, -1)
    return disease > 0.5, 1 / (1 + np.exp(-(disease + noise))), np.arange(2 * num_patients) // 2


def test_one_photograph_a_patient_is_the_method_of_delong():
    """Two tests of 14 patients with the condition and 26 without, as pROC 1.18 gives them in R:
    AUC, var(), cov(), and plogis(qlogis(auc) +- qt(0.975, 13) * sqrt(var) / (auc * (1 - auc))).
    """
    aucs = estimate_aucs(KNOWN, [FIRST, SECOND], range(40))
    variances = [0.007447899733402694, 0.007928401902408665]
    assert aucs.values == pytest.approx([0.7706043956044, 0.7348901098901])
    assert np.diag(aucs.covariance) == pytest.approx(variances, rel=1e-12)
    assert aucs.covariance[0, 1] == pytest.approx(0.007076486488997055, rel=1e-12)
    assert auc_interval(KNOWN, FIRST, range(40))[1:] == pytest.approx(
        (0.5391767545148036, 0.9060579609781793, 40), rel=1e-12
    )


def test_two_photographs_a_patient_as_obuchowski_adds_them_up():
    """The paper's sums S10, S01 and S11 in fractions: 30 of 35 pairs in order, variance 23819 /
    1800750.
    """
    aucs = estimate_aucs(POSITIVE, PROBABILITY, PATIENT)
    assert (aucs.values[0], aucs.covariance[0, 0]) == pytest.approx((30 / 35, 23819 / 1800750))


def test_the_same_picture_twice_tells_nothing_new():
    """Each photograph copied within its patient: AUC, proportion and their bounds stay as they
    were.
    """
    eyes = draw_eyes(40)
    for estimate in (auc_interval, average_precision_interval, brier_interval):
        assert estimate(*(np.repeat(x, 2) for x in eyes)) == pytest.approx(estimate(*eyes))
    twice = [np.repeat(x, 2) for x in (POSITIVE, PROBABILITY, PATIENT)]
    once = proportion_interval(POSITIVE, range(12))
    copied = proportion_interval(twice[0], np.arange(24) // 2)
    assert copied[:3] == pytest.approx(once[:3], abs=0.01)


def test_bounds_are_those_of_a_bootstrap_where_patients_are_many():
    """600 patients, 500 draws of them scored by scikit-learn: bounds of AUC, of the difference of
    two, of average precision and of the Brier score.
    """
    positive, first, patient = draw_eyes(600)
    second = np.clip(first + np.random.default_rng(1).normal(0, 0.1, len(first)), 0, 1)
    rng = np.random.default_rng(2)
    draws = []
    for _ in range(500):
        eyes = (2 * rng.integers(0, 600, 600)[:, None] + [0, 1]).ravel()
        y, p, q = positive[eyes], first[eyes], second[eyes]
        auc = roc_auc_score(y, p)
        difference = roc_auc_score(y, q) - auc
        draws.append((auc, difference, average_precision_score(y, p), brier_score_loss(y, p)))
    bounds = np.quantile(draws, [0.025, 0.975], axis=0).T
    found = [
        auc_interval(positive, first, patient),
        auc_difference(positive, [first, second], patient),
        average_precision_interval(positive, first, patient),
        brier_interval(positive, first, patient),
    ]
    wanted = [
        roc_auc_score(positive, first),
        roc_auc_score(positive, second) - roc_auc_score(positive, first),
        average_precision_score(positive, first),
        brier_score_loss(positive, first),
    ]
    assert [each.value for each in found] == pytest.approx(wanted)
    assert np.array([each[1:3] for each in found]) == pytest.approx(bounds, abs=0.006)


def test_a_proportion_of_single_photographs_has_wilsons_interval():
    """One photograph a patient is no cluster; where all succeed each patient counts once, and
    the bound is below 1.
    """
    low, high = proportion_confint(30, 41, method="wilson")
    assert proportion_interval([1] * 30 + [0] * 11, range(41)) == pytest.approx(
        (30 / 41, low, high, 41), abs=0.004
    )
    low, high = proportion_confint(12, 12, method="wilson")
    assert proportion_interval([1] * 24, np.arange(24) // 2) == pytest.approx(
        (1, low, high, 12)
    )

    none, every = (proportion_interval(x, range(9)) for x in ([0] * 9, [1] * 9))
    assert (none.low, every.high) == (0, 1) and none.high == pytest.approx(1 - every.low)


@pytest.mark.parametrize("copies", [1, 2])
def test_few_patients_and_perfect_scores_have_exact_bounds(copies):
    """2 and 30 patients of each kind, one or two eyes, all in order: as Clopper and Pearson bound 2
    of 2 and 30 of 30 pairs. A constant score of 30 has the entropies log(40) / 30 around a half.
    """
    for n in (2, 30):
        positive = np.repeat([0, 1], n * copies)
        patient = np.arange(2 * n * copies) // copies
        low, high = proportion_confint(n, n, method="beta")
        assert auc_interval(positive, positive, patient)[:3] == pytest.approx((1, low, high))
        assert auc_interval(positive, -positive, patient)[:3] == pytest.approx((0, 0, 1 - low))
        error = brier_interval(positive, positive, patient)
        assert error[:3] == pytest.approx((0, 0, 1 - 0.025 ** (1 / (2 * n))))
    low, high = auc_interval(positive, np.zeros(len(positive)), patient)[1:3]
    entropy = 0.5 * np.log(0.25 / (low * (1 - low)))
    assert (low + high, entropy) == pytest.approx((1, np.log(40) / 30))
    assert np.isnan(average_precision_interval(positive, positive, patient)[1:3]).all()


def test_an_auc_that_few_errors_lower_has_a_wide_interval():
    """Two of 30 patients with the condition lie below 6 of 30 others: AUC 74 / 75. The logit bound
    of DeLong's variance alone is 0.935; that of 28 in 30 patients right, 0.779 (Clopper, Pearson).
    """
    positive = np.repeat([1, 0], 30)
    score = np.r_[np.full(28, 2.0), 0.5, 0.5, np.arange(30) > 23]
    value, low, high, _ = auc_interval(positive, score, range(60))
    assert value == pytest.approx(74 / 75)
    assert proportion_confint(28, 30, method="beta")[0] < low < 0.92 and high < 1


def test_the_same_score_in_other_units_differs_by_nothing():
    """A difference of a score and its cube is 0, without width."""
    assert auc_difference(KNOWN, [FIRST, np.power(FIRST, 3)], range(40))[:3] == (0, 0, 0)


def test_likelihood_ratios_and_another_prevalence_by_hand():
    """90 % of 100 and 80 % of 200: 4.5 and 0.125, with the log bounds of Simel et al. (1991);
    Bayes at 1 %.
    """
    sensitivity = Interval(0.9, *proportion_confint(90, 100, method="wilson"), 100)
    specificity = Interval(0.8, *proportion_confint(160, 200, method="wilson"), 200)
    positive, negative = ratios = likelihood_ratios(sensitivity, specificity)
    for ratio, called, others in ((positive, 90, 40), (negative, 10, 160)):
        error = (1 / called - 1 / 100 + 1 / others - 1 / 200) ** 0.5
        simel = ratio.value * np.exp([-1.96 * error, 1.96 * error])
        assert ratio[1:3] == pytest.approx(simel, rel=0.06)
    assert (positive.value, negative.value) == pytest.approx((4.5, 0.125))
    ppv, npv = at_prevalence(ratios, 0.01)
    assert (ppv.value, npv.value) == pytest.approx(
        (0.9 * 0.01 / (0.9 * 0.01 + 0.2 * 0.99), 0.792 / (0.792 + 0.001))
    )
    assert ppv.low < ppv.value < ppv.high and npv.low < npv.value < npv.high


def test_without_others_no_ratio_is_known():
    """As by patient, where every patient has an eye with the condition."""
    nobody = proportion_interval([], [])
    for pair in ((Interval(0.9, 0.8, 1.0, 15), nobody), (nobody, Interval(1.0, 0.8, 1.0, 15))):
        values = [*likelihood_ratios(*pair), *at_prevalence(likelihood_ratios(*pair), 0.1)]
        assert np.isnan([value[:3] for value in values]).all()


def test_no_error_at_all_is_no_certainty():
    """All found and none alarmed: ratios of infinity and 0 still have a finite bound."""
    everything = Interval(1.0, 0.8, 1.0, 15)
    positive, negative = likelihood_ratios(everything, everything)
    assert positive[:2] == pytest.approx((np.inf, 4)) and negative[:3] == pytest.approx(
        (0, 0, 0.25)
    )


def test_thresholds_reach_what_is_asked_for_and_no_more():
    """Of five with disease 90 % are all five, the lowest at 0.3; of seven without 70 % are five,
    80 % six.
    """
    assert choose_threshold(POSITIVE, PROBABILITY, sensitivity=0.9) == 0.3
    assert choose_threshold(POSITIVE, PROBABILITY, specificity=0.7) == 0.55
    assert choose_threshold(POSITIVE, PROBABILITY, specificity=0.8) == 0.6


@pytest.mark.parametrize(
    ("gained", "lost", "n", "low", "high"),
    [
        (1, 7, 21, -0.517, -0.026),  # airways, in Fagerland et al. 2014 (Stat. Med. 33)
        (0, 0, 50, -0.0713, 0.0713),  # z^2 / (n + z^2)
        (50, 0, 50, 0.8573, 1),
    ],
)
def test_a_paired_difference_has_the_bounds_of_tango(gained, lost, n, low, high):
    """With one photograph a patient."""
    which = np.arange(n)
    found = difference_interval(which < gained, which >= n - lost, which)
    assert found[:3] == pytest.approx(((gained - lost) / n, low, high), abs=6e-4)
    for first, second in itertools.combinations(
        range(9), 2
    ):  # 0 is outside as McNemar's test is
        low = difference_interval(which < second, which >= n - first, which).low
        assert (low > 0) == ((second - first) ** 2 / (first + second) > 1.96**2)


def test_a_difference_counts_patients():
    """Eyes that are alike say no more than one; weighted, the bounds are on the weighted scale."""
    gained = np.arange(400) < 60
    lost = np.arange(400) >= 380
    once = difference_interval(gained, lost, range(400))
    twice = difference_interval(gained.repeat(2), lost.repeat(2), np.arange(800) // 2)
    assert twice == pytest.approx(once, abs=2e-3)
    # half the weight, by hand: mean 0.025, and the spread of values 0.5, 0 and -1
    half = difference_interval(gained, lost, range(400), 0.5)
    error = np.std(0.5 * gained - lost) / 20
    assert half[:3] == pytest.approx(
        (0.025, 0.025 - 1.96 * error, 0.025 + 1.96 * error), abs=0.003
    )
    assert np.isnan(difference_interval([], [], [])[:3]).all()


def test_kappa_is_that_of_scikit_learn_with_a_jackknife_over_patients():
    """Of 20 patients with two eyes, each left out in a loop; of one, and of a difference."""
    rng = np.random.default_rng(0)
    grade = rng.integers(0, 5, 40)
    first, second = (np.clip(grade + rng.integers(-1, 2, 40), 0, 4) for _ in range(2))
    patient = np.arange(40) // 2

    def score(called, left=slice(None)):
        return cohen_kappa_score(grade[left], called[left], weights="quadratic")

    def reach(values):
        squares = (values - np.mean(values)) ** 2
        dof = squares.sum() ** 2 / (squares**2).sum()
        return t.ppf(0.975, dof) * np.sqrt(19 / 20 * squares.sum())

    left = [patient != k for k in range(20)]
    one = np.arctanh([score(first, rest) for rest in left])
    middle = np.arctanh(score(first))
    wanted = (score(first), *np.tanh(middle + reach(one) * np.array([-1, 1])), 20)
    assert kappa_interval(grade, first, patient_id=patient) == pytest.approx(wanted)
    half = reach(np.array([score(second, rest) - score(first, rest) for rest in left]))
    change = score(second) - score(first)
    found = kappa_interval(grade, first, second, patient_id=patient)
    assert found == pytest.approx((change, change - half, change + half, 20))


@pytest.mark.parametrize(
    ("patients", "wrong", "has_bounds"),
    [(14, 5, False), (15, 2, True), (15, 1, False), (15, 0, False), (15, 15, True)],
)
def test_a_kappa_of_few_patients_or_errors_has_no_bounds(patients, wrong, has_bounds):
    """Two eyes each; the errors are in one eye."""
    grade = np.arange(patients).repeat(2) % 5
    eye = np.arange(2 * patients)
    called = np.where((eye % 2 == 0) & (eye < 2 * wrong), (grade + 1) % 5, grade)
    found = kappa_interval(grade, called, patient_id=eye // 2)
    assert np.isfinite([found.low, found.high]).all() == has_bounds
    assert (wrong == 0) == (found.value == 1)
    for grades, few in ((grade, 1 * (eye < 4)), (1 * (eye < 4), called)):  # of two patients
        rare = kappa_interval(grades, few, patient_id=eye // 2)
        assert np.isnan(rare.low) and np.isfinite(rare.value)
    alone = kappa_interval(0 * grade, 0 * grade, patient_id=eye // 2)
    assert np.isnan(alone[:3]).all()


def test_an_interval_does_not_depend_on_how_patients_are_named():
    """Patients may be texts or any whole numbers, of which some are not there."""
    rng = np.random.default_rng(0)
    patient = rng.integers(0, 60, 100)
    success = rng.random(100) < 0.6
    for names in (patient.astype(str), 10**12 + 3 * patient, patient - 40):
        assert proportion_interval(success, names) == proportion_interval(success, patient)
