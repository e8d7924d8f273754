"""The bootstrap over patients, against plain loops and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import roc_curve

from dr_lib.statistics.bootstrap import bootstrap_patients, score_roc


def average(values):
    """The mean as a function of weights; NaN where they add up to 0."""
    whole = ~np.isnan(values)

    def score(weights):
        with np.errstate(invalid="ignore"):
            return weights @ np.nan_to_num(values) / (weights @ whole)

    return score


@pytest.mark.parametrize("seed", range(3))
def test_weighted_scores_are_those_of_scikit_learn(seed):
    """With weights of 0 to 4 and tied probabilities, two draws at once."""
    rng = np.random.default_rng(seed)
    grade, *weights = rng.integers(0, 5, (3, 200))
    probability = (grade + rng.normal(0, 2, 200)).round()
    weights = np.array(weights)
    for draw, found in zip(
        weights, score_roc(grade >= 2, probability, [0.9, 0.5])(weights), strict=True
    ):
        alarms, sensitivity, _ = roc_curve(grade >= 2, probability, sample_weight=draw)
        assert found == pytest.approx(np.interp([0.1, 0.5], alarms, sensitivity), abs=1e-12)


def test_the_mean_over_unlike_patients_has_the_bounds_of_its_theory():
    """100 patients of two equal photographs: the mean's bounds are those of 100 values, not of
    200.
    """
    values = np.random.default_rng(0).normal(5, 1, 100).repeat(2)
    found = bootstrap_patients(average(values), np.arange(200) // 2)
    half = 1.96 * values.std() / 10
    assert found == pytest.approx(
        (values.mean(), values.mean() - half, values.mean() + half, 100), abs=0.03
    )


def test_draws_that_define_nothing_do_not_count():
    """One of five patients has a value, and is missing from a third of the draws; with none at all
    there are no bounds.
    """
    nothing = np.full(4, np.nan)
    one = np.insert(nothing, 0, 1)
    assert bootstrap_patients(average(one), range(5)) == (1, 1, 1, 5)
    assert np.isnan(bootstrap_patients(average(nothing), range(4))[:3]).all()
    value, low, high, n = bootstrap_patients(average(np.array([1.0, 0])), ["a", "a"])
    assert (value, n) == (0.5, 1) and np.isnan([low, high]).all()
