"""Metrics of referable disease, against numbers worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from dr_lib.errors import DrError
from dr_lib.statistics.intervals import Interval
from dr_lib.training.metrics import find_doubt, score_grades, score_sides

TRUTH = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
PROBABILITY = np.array([0.1, 0.2, 0.3, 0.6, 0.4, 0.5, 0.7, 0.8, 0.9])


def test_scores_by_hand():
    """Of 20 pairs the referable eye is ahead in 18: AUC 0.9. For 90 % all five referable eyes of
    the validation split have to be found: the threshold is the lowest of theirs, at which 3 of 4
    others pass. Without that split it is 0.5, where 4 of 5 are found.
    """
    side = SimpleNamespace(referable=TRUTH, patient_id=np.arange(9))
    probabilities = {"test": PROBABILITY[:, None], "validation": PROBABILITY[:, None]}
    sides = {"test": side, "validation": side}
    columns = ("auc", "sensitivity", "specificity", "accuracy", "threshold")
    for split, expected in (
        (sides, (0.9, 1.0, 0.75, 8 / 9, 0.4)),
        ({"test": side}, (0.9, 0.8, 0.75, 7 / 9, 0.5)),
    ):
        scores, auc = score_sides(split, probabilities, task="referable")
        assert scores == pytest.approx(dict(zip(columns, expected, strict=True)))
        assert auc.value == pytest.approx(0.9)
    with pytest.raises(DrError, match="diverged"):
        score_sides(
            sides, probabilities | {"validation": np.full((9, 1), np.nan)}, task="referable"
        )


@pytest.mark.parametrize(
    ("low", "is_doubted"),
    [
        (0.1, True),
        (0.51, False),
        (np.nan, True),
    ],
)
def test_a_training_that_found_nothing_is_named(low, is_doubted):
    """Shown to be better than chance is an AUC whose lower bound is above 0.5, and no other."""
    doubt = find_doubt(Interval(0.52, low, 0.92, 8))
    assert bool(doubt) == is_doubted
    if low == 0.1:
        assert doubt == (
            "The model has not been shown to be better than chance: its AUC is "
            "0.520 [0.100, 0.920] on 8 patients."
        )


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
    assert scores == pytest.approx({"kappa": 1 - observed / expected, "grade_accuracy": 0.6})
