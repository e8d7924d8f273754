"""Predictions that commit 87acb15 wrote are evaluated as they were."""

import pytest

from dr_lib.evaluation import scores
from dr_lib.evaluation.predictions import read_predictions
from tests.test_old import OLD


def test_predictions_have_the_same_scores():
    """AUC, its interval, and the others of a table that it wrote."""
    (model,) = read_predictions(OLD / "predictions.csv")
    found = scores.summarise(model).iloc[0]
    expected = {
        "num_images": 18,
        "num_patients": 9,
        "num_referable": 5,
        "auc": 0.6,
        "auc_low": 0.028389413797669908,
        "auc_high": 0.9953195992362197,
        "average_precision": 0.37976190476190474,
        "brier": 0.19913237366884096,
        "kappa": 0.0,
        "grade_accuracy": 0.5555555555555556,
    }
    assert found[list(expected)].to_dict() == pytest.approx(expected)
