"""The bootstrap over patients, against plain loops and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, roc_curve

from dr_lib.statistics.bootstrap import (
    bootstrap_patients,
    score_kappa,
    score_roc,
    score_shares,
)


@pytest.mark.parametrize("seed", range(3))
def test_weighted_scores_are_those_of_scikit_learn(seed):
    """With weights of 0 to 4 and tied probabilities, two draws at once: ROC curve, kappa."""
    rng = np.random.default_rng(seed)
    grade, predicted, *weights = rng.integers(0, 5, (4, 200))
    probability = (grade + rng.normal(0, 2, 200)).round()
    weights = np.array(weights)
    for draw, found in zip(
        weights, score_roc(grade >= 2, probability, [0.9, 0.5])(weights), strict=True
    ):
        alarms, sensitivity, _ = roc_curve(grade >= 2, probability, sample_weight=draw)
        assert found == pytest.approx(np.interp([0.1, 0.5], alarms, sensitivity), abs=1e-12)
    wanted = [
        cohen_kappa_score(grade, predicted, weights="quadratic", sample_weight=draw)
        for draw in weights
    ]
    assert score_kappa(grade, predicted)(weights) == pytest.approx(wanted, abs=1e-12)


def test_what_is_not_defined_is_nan():
    """The kappa of two graders who know one grade."""
    assert np.isnan(score_kappa([3, 3, 3], [3, 3, 3])(np.ones(3)))


def test_the_mean_over_unlike_patients_has_the_bounds_of_its_theory():
    """100 patients of two equal photographs: the mean's bounds are those of 100 values, not of
    200.
    """
    values = np.random.default_rng(0).normal(5, 1, 100).repeat(2)
    found = bootstrap_patients(score_shares(values), np.arange(200) // 2, seed=1)
    half = 1.96 * values.std() / 10
    assert found == pytest.approx(
        (values.mean(), values.mean() - half, values.mean() + half, 100), abs=0.03
    )


def test_a_difference_is_paired():
    """Two scores that differ by a constant on every draw have an interval without width."""
    values = np.random.default_rng(0).normal(size=50)
    shifted = score_shares(values + 0.25)
    plain = score_shares(values)
    found = bootstrap_patients(lambda w: shifted(w) - plain(w), np.arange(50), resamples=100)
    assert found[:3] == pytest.approx([0.25] * 3)


def test_draws_that_define_nothing_do_not_count():
    """One of five patients is a share's whole, and missing from a third of the draws; with none at
    all there are no bounds.
    """
    assert bootstrap_patients(
        score_shares([1, 1, 1, 1, 1], [1, 0, 0, 0, 0]), range(5), resamples=100
    ) == (1, 1, 1, 5)
    assert np.isnan(
        bootstrap_patients(score_shares([0, 0], [0, 0]), ["a", "b"], resamples=10)[:3]
    ).all()
    value, low, high, n = bootstrap_patients(score_shares([1, 0]), ["a", "a"])
    assert (value, n) == (0.5, 1) and np.isnan([low, high]).all()
