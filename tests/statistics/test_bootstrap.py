"""The bootstrap over patients, against theory and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, roc_auc_score

from dr_lib.statistics.bootstrap import bootstrap_patients, score_auc, score_kappa


def test_weighted_aucs_are_those_of_scikit_learn():
    """With weights of 0 to 4 and tied probabilities, two draws at once."""
    rng = np.random.default_rng(0)
    grade, *weights = rng.integers(0, 5, (3, 200))
    probability = (grade + rng.normal(0, 2, 200)).round()
    found = score_auc(grade >= 2, probability)(np.array(weights))
    expected = [roc_auc_score(grade >= 2, probability, sample_weight=draw) for draw in weights]
    assert found == pytest.approx(expected)


def test_a_weighted_kappa_is_that_of_scikit_learn():
    """With quadratic weights; one grade alone has none."""
    rng = np.random.default_rng(0)
    grade, *weights = rng.integers(0, 5, (3, 200))
    called = np.clip(grade + rng.integers(-1, 2, 200), 0, 4)
    expected = [
        cohen_kappa_score(grade, called, weights="quadratic", sample_weight=draw)
        for draw in weights
    ]
    assert score_kappa(grade, called)(np.array(weights)) == pytest.approx(expected)
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


def test_a_patient_of_many_photographs_makes_few_of_many():
    """70 of one and one of 60 are 130^2 / 3670 = 5; a score that no draw changes has no bounds."""
    patient = np.maximum(np.arange(130) - 59, 0)
    found = bootstrap_patients(average(np.arange(130)), np.arange(130) % 2, patient)
    alike = bootstrap_patients(average(np.ones(130)), np.arange(130) % 2, np.arange(130))
    assert found.n == 71 and np.isnan([*found[1:3], *alike[1:3]]).all()


@pytest.mark.parametrize(("patients", "of_kind"), [(59, 25), (60, 19)])
def test_few_patients_have_no_bounds(patients, of_kind):
    """Fewer than 60 in all, or than 20 of a kind."""
    value, low, high, n = bootstrap_patients(
        average(np.ones(patients)), np.arange(patients) < of_kind, range(patients)
    )
    assert (value, n) == (1, patients) and np.isnan([low, high]).all()
