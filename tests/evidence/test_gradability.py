"""The threshold of the gradability score, fitted on marks, against scikit-learn and by hand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from dr_lib.evidence import evaluation
from dr_lib.evidence.gradability import fit_gradability, read_marks
from dr_lib.evidence.predictions import read_predictions
from tests.evidence.predictions import draw_predictions, write


@pytest.fixture(scope="module")
def table():
    """Predictions whose lowest scores were mostly marked inadequate, as BRSET words it."""
    rng = np.random.default_rng(0)
    table = draw_predictions(100)
    score = rng.uniform(0.1, 0.9, len(table)).round(3)
    marked = np.where(score + rng.normal(0, 0.1, len(table)) > 0.35, "Adequate", "Inadequate")
    return table.assign(gradability=score, quality=marked)


def test_the_threshold_is_youdens_of_the_validation_split(tmp_path, table):
    """No other score of a validation photograph has a larger sum of the two shares; the AUC is
    scikit-learn's.
    """
    (model,) = read_predictions(write(tmp_path, table))
    row = fit_gradability(model).iloc[0]
    sides = [table[table["split"] == side] for side in ("validation", "test")]
    good = (sides[0]["quality"] == "Adequate").to_numpy()
    score = sides[0]["gradability"].to_numpy()
    sums = {t: (score[good] >= t).mean() + (score[~good] < t).mean() for t in score}
    assert sums[row["threshold"]] == pytest.approx(max(sums.values()))
    good = (sides[1]["quality"] == "Adequate").to_numpy()
    score = sides[1]["gradability"].to_numpy()
    assert row[["auc", "auc_delong"]].tolist() == pytest.approx([roc_auc_score(good, score)] * 2)
    assert row["auc_low"] < row["auc"] <= row["auc_high"]
    assert row["sensitivity"] == pytest.approx((score[~good] < row["threshold"]).mean())
    assert row["specificity"] == pytest.approx((score[good] >= row["threshold"]).mean())
    other = table.assign(gradability=table["gradability"].where(table["split"] != "test", 0.5))
    (model,) = read_predictions(write(tmp_path, other, "other"))
    # nothing is chosen on the test split
    assert fit_gradability(model)["threshold"][0] == row["threshold"]


@pytest.mark.parametrize("quality", ["", "Adequate", "sharp"])
def test_without_marks_of_both_kinds_nothing_is_fitted(tmp_path, table, quality):
    """No mark, one kind, other words: no threshold."""
    (model,) = read_predictions(write(tmp_path, table.assign(quality=quality)))
    assert fit_gradability(model).empty


def test_marks_are_read_as_the_data_sets_write_them():
    """mBRSET's yes and no; a column of one's own, gradable, goes before quality; numbers of
    quality mean either.
    """
    assert read_marks(pd.DataFrame({"quality": ["yes", "No"]})).tolist() == [1, 0]
    assert read_marks(
        pd.DataFrame({"gradable": [0.0, 1.0], "quality": ["yes", "no"]})
    ).tolist() == [0, 1]
    assert read_marks(pd.DataFrame({"gradable": ["1.0", "0.0", ""]})).tolist()[:2] == [1, 0]
    assert read_marks(pd.DataFrame({"quality": ["0", "1", "1"]})).isna().all()


def test_thirds_of_the_score_are_subgroups(tmp_path, table):
    """Three bands of 27 photographs or so, from the lowest to the highest score, each with its
    AUC.
    """
    (model,) = read_predictions(write(tmp_path, table))
    points = evaluation.choose_points(model, sensitivity=0.9, specificity=0.9)
    bands = evaluation.split_subgroups(model, points).query("factor == 'gradability'")
    scores = np.sort(model.test["gradability"])
    assert (
        len(bands) == 3
        and bands["num_images"].sum() == len(scores)
        and bands["num_images"].between(24, 29).all()
    )
    assert bands["level"].iloc[0].startswith(f"{scores[0]:.3f}-") and bands["auc"].notna().any()
    unscored = model._replace(test=model.test.assign(gradability=np.nan))
    assert "gradability" not in set(evaluation.split_subgroups(unscored, points)["factor"])
