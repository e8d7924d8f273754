"""The bootstrap over patients, against theory and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, roc_auc_score

from dr_lib.statistics.bootstrap import bootstrap_patients, score_auc, score_kappa


def test_weighted_scores_are_those_of_scikit_learn():
    """With weights of 0 to 4, two draws at once: the AUC of tied probabilities, and kappa with
    quadratic weights, which one grade alone has not.
    """
    rng = np.random.default_rng(0)
    grade, called, *weights = rng.integers(0, 5, (4, 200))
    aucs = [roc_auc_score(grade >= 2, called, sample_weight=draw) for draw in weights]
    assert score_auc(grade >= 2, called)(np.array(weights)) == pytest.approx(aucs)
    kappas = [
        cohen_kappa_score(grade, called, weights="quadratic", sample_weight=draw)
        for draw in weights
    ]
    assert score_kappa(grade, called)(np.array(weights)) == pytest.approx(kappas)
    assert np.isnan(score_kappa([1, 1], [1, 1])(np.ones((1, 2))))


def average(values):
    """The mean as a function of weights."""
    return lambda weights: weights @ values / weights.sum(axis=1)


def test_the_mean_over_patients_has_the_bounds_of_its_theory():
    """100 patients of two equal photographs: those of 100 values, not of 200; the same again."""
    values = np.random.default_rng(0).normal(5, 1, 100).repeat(2)
    kinds = np.arange(200) < 60
    found = bootstrap_patients(average(values), kinds, np.arange(200) // 2)
    half = 1.96 * values.std() / 10
    expected = (values.mean(), values.mean() - half, values.mean() + half, 100)
    assert found == pytest.approx(expected, abs=0.03)
    assert found == bootstrap_patients(average(values), kinds, np.arange(200) // 2)


@pytest.mark.parametrize(
    ("patient", "of_kind", "is_known"),
    [
        (range(60), 20, True),
        (range(59), 25, False),
        (range(60), 19, False),
        # 70 of one and one of 60 are 130^2 / 3670 = 5
        (np.maximum(np.arange(130) - 59, 0), 60, False),
    ],
)
def test_few_patients_have_no_bounds(patient, of_kind, is_known):
    """Fewer than 60 in all, or than 20 of a kind; nor has a score that no draw changes."""
    numbers = np.arange(len(patient))
    for values in (numbers, np.ones(len(patient))):
        found = bootstrap_patients(average(values), numbers < of_kind, patient)
        assert found.value == values.mean() and found.n == len(set(patient))
        assert np.isfinite([found.low, found.high]).all() == (is_known and values is numbers)
