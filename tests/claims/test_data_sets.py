"""Paper E is judged by the intervals that an evaluation gives."""

import re

import pandas as pd
import pytest

from dr_lib.claims.verdicts import judge_data_sets
from tests.report.predictions import AUTHORS, draw_predictions

evaluation = "dr_lib.evaluation"
comparison = pytest.importorskip(f"{evaluation}.comparison")
operating = pytest.importorskip(f"{evaluation}.points")
predictions = pytest.importorskip(f"{evaluation}.predictions")


@pytest.mark.parametrize(
    ("model", "interval", "verdict"),
    [
        ("ensemble of 10: inception_v3_299", (0.850, 0.840, 0.860), "holds"),
        ("ensemble of 10: inception_v3_299", (0.850, 0.810, 0.890), "undecided"),
        ("ensemble of 10: inception_v3_299", (0.80, 0.79, 0.81), "does not hold"),
        ("inception_v3_299", (0.850, 0.840, 0.860), "not comparable"),
        ("ensemble of 10: mobilenet_224", (0.850, 0.840, 0.860), "not comparable"),
    ],
)
def test_a_published_auc_is_judged_by_the_interval_over_patients(model, interval, verdict):
    """Voets et al. print 0.853 [0.835, 0.871] on Messidor-2 for ten averaged InceptionV3; one is
    not comparable.
    """
    row = {
        "model": model,
        "trained_on": "eyepacs",
        "tested_on": "messidor2",
        "num_patients": 874,
    }
    row |= dict(zip(("auc", "auc_low", "auc_high"), interval, strict=True))
    row["data_kind"] = "photographs"
    twice = pd.DataFrame([row, row])  # a row per operating point
    judged = judge_data_sets(twice, {model: AUTHORS}).set_index("id")
    assert (judged.loc["E2", "verdict"], judged.loc["E2", "n"]) == (verdict, 874)
    assert judged.loc["E1", "verdict"] == "not measured"
    assert "E4" not in judged.index  # no row can judge it: docs/papers.md


@pytest.mark.parametrize(
    ("changes", "unmet"),
    [
        ({}, ""),
        ({"patience": 10}, ""),  # their code counts to ten, and stops an epoch later
        ({"seed": 21, "repetition": 3, "data_dir": "mine", "backend": "jax"}, ""),
        (
            {"optimizer": "adam", "learning_rate": 0.003},
            "learning_rate=0.001, optimizer=rmsprop_voets",
        ),
        ({"patience": 0}, "patience=10|11"),
        ({"crop_method": "robust"}, "crop_method=voets"),
        (
            None,
            "augmentation=colour, batch_size=32, crop_method=voets, epochs=200, image_size.*",
        ),
    ],
)
def test_another_training_than_the_authors_is_not_compared(changes, unmet):
    """What their code sets has to be set, in each network; who knows nothing of it compares
    nothing. The reason names each value of theirs.
    """
    name = "ensemble of 10: inception_v3"
    row = {"model": name, "trained_on": "eyepacs", "tested_on": "eyepacs", "num_patients": 900}
    row |= {"auc": 0.95, "auc_low": 0.945, "auc_high": 0.955, "data_kind": "photographs"}
    training = {} if changes is None else AUTHORS | changes
    judged = judge_data_sets(pd.DataFrame([row]), {name: training}).set_index("id").loc["E1"]
    if unmet:
        assert judged["verdict"] == "not comparable"
        assert re.fullmatch(f"it differs in {unmet}".replace("|", "[|]"), judged["reason"])
    else:
        assert judged["verdict"] == "holds"


def judge_ensemble(folder, **columns):
    """The claims of paper E on predictions that an ensemble of ten makes in a file of this name."""
    table = draw_predictions(300).assign(model="ensemble of 10: inception_v3", **columns)
    table.to_csv(folder / "eyepacs.csv", index=False)
    found = predictions.read_predictions(folder / "eyepacs.csv")
    points = [operating.choose_points(p) for p in found]
    trainings = {"ensemble of 10: inception_v3": AUTHORS}
    return judge_data_sets(comparison.compare_data_sets(found, points), trainings).set_index(
        "id"
    )


def test_a_data_set_is_photographs_that_are_said_to_be_its(tmp_path):
    """Neither drawings with its name nor photographs in a file with its name are EyePACS."""
    assert judge_ensemble(tmp_path, dataset="eyepacs").loc["E1", "verdict"] != "not comparable"
    drawn = judge_ensemble(tmp_path, dataset="eyepacs", data_kind="synthetic")
    assert drawn.loc["E1", "verdict"] == "not comparable"
    assert drawn.loc["E1", "reason"].endswith("differs in data_kind=photographs")
    assert judge_ensemble(tmp_path).loc["E1", "verdict"] == "not measured"
