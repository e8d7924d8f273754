"""AUC, proportions and likelihood ratios of photographs of which patients have two, against
other sources.
"""

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from dr_lib.statistics.bootstrap import bootstrap_patients, score_auc
from dr_lib.statistics.clustered import (
    at_prevalence,
    choose_threshold,
    delong_interval,
    estimate_aucs,
    likelihood_ratios,
    proportion_interval,
)
from dr_lib.statistics.intervals import Interval

POSITIVE = [1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0]  # of two eyes each of six patients
PROBABILITY = [0.9, 0.8, 0.7, 0.65, 0.6, 0.55, 0.4, 0.35, 0.3, 0.2, 0.15, 0.1]
PATIENT = np.arange(12) // 2


def draw_eyes(num_patients: int, seed: int = 0, alike: float = 0.7) -> tuple[np.ndarray, ...]:
    """Two eyes of each patient, alike in disease and in probability."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(2, num_patients, 1))
    own = rng.normal(size=(2, num_patients, 2))
    disease, noise = (alike**0.5 * shared + (1 - alike) ** 0.5 * own).reshape(2, -1)
    return disease > 0.5, 1 / (1 + np.exp(-(disease + noise))), np.arange(2 * num_patients) // 2


def test_one_photograph_a_patient_is_the_method_of_delong():
    """Nine independent scores whose variance pROC gives, in R: AUC 0.8, 95 % from 0.4677 to 1."""
    positive = [0, 1, 0, 0, 1, 1, 0, 1, 0]
    scores = [0.21, 0.32, 0.63, 0.35, 0.92, 0.79, 0.82, 0.99, 0.04]
    aucs, covariance = estimate_aucs(positive, scores, range(9))
    assert (aucs[0], covariance[0, 0]) == pytest.approx((0.8, 0.02875))
    assert delong_interval(positive, scores, range(9))[1:3] == pytest.approx(
        (0.4677, 1), abs=1e-4
    )


def test_two_photographs_a_patient_as_obuchowski_adds_them_up():
    """The paper's sums S10, S01 and S11 in fractions: 30 of 35 pairs in order, variance 23819 /
    1800750.
    """
    aucs, covariance = estimate_aucs(POSITIVE, PROBABILITY, PATIENT)
    assert (aucs[0], covariance[0, 0]) == pytest.approx((30 / 35, 23819 / 1800750))


def test_the_same_picture_twice_tells_nothing_new():
    """Each photograph copied within its patient: AUC, proportion and their bounds stay as they
    were.
    """
    twice = [np.repeat(x, 2) for x in (POSITIVE, PROBABILITY, PATIENT)]
    assert delong_interval(*twice) == pytest.approx(
        delong_interval(POSITIVE, PROBABILITY, PATIENT)
    )
    once = proportion_interval(POSITIVE, range(12))
    copied = proportion_interval(twice[0], np.arange(24) // 2)
    assert copied[:3] == pytest.approx(once[:3], abs=0.01)


def test_bootstrap_and_delong_agree_where_patients_are_many():
    """400 patients: the bounds of an AUC and of a paired difference are the same within a few
    thousandths.
    """
    positive, first, patient = draw_eyes(400)
    second = first + np.random.default_rng(1).normal(0, 0.1, len(first))
    scores = [score_auc(positive, x) for x in (first, second)]
    bounds = bootstrap_patients(scores[0], patient)[1:3]
    assert delong_interval(positive, first, patient)[1:3] == pytest.approx(bounds, abs=0.004)
    bounds = bootstrap_patients(
        lambda weights: scores[1](weights) - scores[0](weights), patient
    )[1:3]
    assert delong_interval(positive, [first, second], patient)[1:3] == pytest.approx(
        bounds, abs=0.003
    )


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


def test_a_perfect_auc_has_no_interval_of_delong():
    """The two classes are parted without an error: the variance that the method sees is 0, at
    any number of eyes.
    """
    perfect = delong_interval([0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9], range(4))
    assert perfect.value == 1 and np.isnan(perfect[1:3]).all()


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
