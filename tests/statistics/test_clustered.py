"""AUC and shares of photographs of which patients have several, against other sources."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from dr_lib.statistics.clustered import (
    auc_interval,
    choose_threshold,
    difference_interval,
    proportion_interval,
)

POSITIVE = [1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0]
PROBABILITY = [0.9, 0.8, 0.7, 0.65, 0.6, 0.55, 0.4, 0.35, 0.3, 0.2, 0.15, 0.1]
SCORE = (
    "22 21 13 20 6 -5 30 18 -8 2 7 16 26 16 -4 5 -2 2 -7 -12 13 -3 1 -6 -5 -4 7 12 5 -6 28 8 9"
)
SCORE = [int(text) for text in f"{SCORE} -5 -2 6 -17 -8 4 24".split()]


def test_one_photograph_a_patient_is_the_method_of_delong():
    """14 patients with the condition and 26 without, as pROC 1.18 gives them in R:
    plogis(qlogis(auc) +- qt(0.975, 13) * sqrt(var) / (auc * (1 - auc))).
    """
    expected = (0.7706043956044, 0.5391767545148036, 0.9060579609781793, 40)
    assert auc_interval([1] * 14 + [0] * 26, SCORE, range(40)) == pytest.approx(expected)


def test_several_photographs_a_patient_as_obuchowski_adds_them_up():
    """Both kinds in one patient, ties, one to four photographs each. The bounds are those of her
    sums over pairs of photographs (1997) in plain loops, on the logit scale.
    """
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(2, 60, 1))
    own = rng.normal(size=(2, 60, 2))
    disease, noise = (0.7**0.5 * shared + 0.3**0.5 * own).reshape(2, -1)
    positive = disease > 0.5
    score = (1 / (1 + np.exp(-(disease + noise)))).round(1)
    patient = np.sort(np.random.default_rng(1).choice(45, 120))
    found = auc_interval(positive, score, patient)
    assert found.value == pytest.approx(roc_auc_score(positive, score))
    assert found[1:3] == pytest.approx((0.7071167889553336, 0.8588660882905463), rel=1e-9)


def test_perfect_few_and_constant_scores():
    """All in order, or reversed: as Clopper and Pearson bound 30 of 30; nine patients of a kind,
    and one probability for all, have no interval; one class has no AUC.
    """
    positive = np.repeat([0, 1], 60)
    patient = np.arange(120) // 2
    low, high = proportion_confint(30, 30, method="beta")
    assert auc_interval(positive, positive, patient)[:3] == pytest.approx((1, low, high))
    assert auc_interval(positive, -positive, patient)[:3] == pytest.approx((0, 0, 1 - low))
    constant = auc_interval(positive, 0 * positive, patient)
    few = auc_interval(positive[42:], positive[42:], patient[42:])
    assert constant.value == 0.5 and np.isnan(constant[1:3]).all()
    assert few.value == 1 and np.isnan(few[1:3]).all()
    assert np.isnan(auc_interval(positive * 0, positive, patient).value)


def test_a_share_of_single_photographs_has_wilsons_interval():
    """One photograph a patient is no cluster; where all succeed each patient counts once; fewer
    than 30 patients have no share.
    """
    low, high = proportion_confint(30, 41, method="wilson")
    found = proportion_interval([1] * 30 + [0] * 11, range(41))
    assert found == pytest.approx((30 / 41, low, high, 41))
    low, _ = proportion_confint(32, 32, method="wilson")
    every = proportion_interval([1] * 64, np.arange(64) // 2)
    assert every == pytest.approx((1, low, 1, 32))
    # 40 patients of one and one of twenty are 60^2 / 440 = 8
    lumpy = proportion_interval(np.arange(60) % 4 > 0, np.maximum(np.arange(60) - 19, 0))
    for few in (lumpy, proportion_interval([1] * 58, np.arange(58) // 2)):
        assert np.isnan(few[:3]).all()


def test_the_difference_of_two_groups_is_newcombes():
    """56 of 70 and 48 of 80, his example: 0.2 [0.052, 0.334]; as statsmodels has it."""
    groups = [proportion_interval(np.arange(n) < k, range(n)) for k, n in ((56, 70), (48, 80))]
    found = difference_interval(*groups)
    expected = confint_proportions_2indep(56, 70, 48, 80, method="newcomb", compare="diff")
    assert expected == pytest.approx((0.0524, 0.3339), abs=1e-4)
    assert found[1:3] == pytest.approx(expected)
    assert found.value == pytest.approx(0.2) and found.n == 70


def test_thresholds_reach_what_is_asked_for_and_no_more():
    """Of five with disease 90 % are all five, the lowest at 0.3; of seven without 70 % are five,
    80 % six.
    """
    assert choose_threshold(POSITIVE, PROBABILITY, sensitivity=0.9) == 0.3
    assert choose_threshold(POSITIVE, PROBABILITY, specificity=0.7) == 0.55
    assert choose_threshold(POSITIVE, PROBABILITY, specificity=0.8) == 0.6
