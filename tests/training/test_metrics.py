"""Metrics of referable disease, against numbers worked out by hand."""

import numpy as np
import pytest

from dr_lib.errors import DrError
from dr_lib.statistics.intervals import Interval
from dr_lib.training.metrics import choose_threshold, find_doubt, score, score_grades

TRUTH = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
PROBABILITY = np.array([0.1, 0.2, 0.3, 0.6, 0.4, 0.5, 0.7, 0.8, 0.9])


def test_scores_by_hand():
    """Of 20 pairs the referable eye is ahead in 18: AUC 0.9; at 0.5, 4 of 5 are found and 3 of 4
    others passed.
    """
    assert score(TRUTH, PROBABILITY, 0.5) == pytest.approx(
        {
            "auc": 0.9,
            "sensitivity": 0.8,
            "specificity": 0.75,
            "accuracy": 7 / 9,
            "threshold": 0.5,
        }
    )


def test_threshold_is_the_highest_that_finds_enough():
    """Five referable eyes: for 90 % all five have to be found, so the threshold is the lowest of
    theirs.
    """
    assert choose_threshold(TRUTH, PROBABILITY) == 0.4


@pytest.mark.parametrize(
    ("low", "is_doubted"), [(0.1, True), (0.5, True), (0.51, False), (np.nan, True)]
)
def test_a_training_that_found_nothing_is_named(low, is_doubted):
    """Shown to be better than chance is an AUC whose lower bound is above 0.5, and no other."""
    doubt = find_doubt(Interval(0.52, low, 0.92, 8))
    assert bool(doubt) == is_doubted
    if low == 0.1:
        assert doubt == (
            "The model has not been shown to be better than chance: its AUC is "
            "0.52 [0.10, 0.92] on 8 patients."
        )


def test_a_diverged_training_is_an_error():
    """Probabilities that are not finite are not scored."""
    with pytest.raises(DrError, match="diverged"):
        score(TRUTH, np.full(9, np.nan), 0.5)


def test_grades_by_hand():
    """One of five a grade too low, one two too high: kappa is 1 - observed / expected squared
    distances.
    """
    grade = np.array([0, 1, 2, 3, 4])
    graded = np.array([0, 0, 2, 3, 2])
    probabilities = np.eye(5)[graded] * 0.8 + 0.04
    observed = 1 + 4
    expected = sum((a - b) ** 2 for a in grade for b in graded) / 5
    scores = score_grades(grade, probabilities)
    assert (
        scores["kappa"] == pytest.approx(1 - observed / expected)
        and scores["grade_accuracy"] == 0.6
    )
