"""A model at another hospital, before and after its recalibration there."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

from dr_lib.errors import DrError
from dr_lib.evaluation.predictions import read_predictions
from dr_lib.evaluation.recalibration import (
    choose_hospital,
    compare,
    recalibrate_locally,
    trace_patients,
    write_recalibration,
)


def draw(path, num_patients, intercept=0.0, slope=1.0, sides=("test",), version="v1", seed=0):
    """Write predictions whose truth is moved by an intercept and a slope on the logit."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(num_patients), 2)
    truth = -1 + 1.5 * rng.normal(size=num_patients)[patient] + rng.normal(size=len(patient))
    table = pd.DataFrame(
        {
            "image_id": [f"{path.stem}{k}" for k in range(len(patient))],
            "patient_id": [f"{path.stem}p{k}" for k in patient],
            "split": np.array(sides)[patient % len(sides)],
            "referable": (rng.random(len(patient)) < expit(truth)).astype(int),
            "probability_referable": expit((truth - intercept) / slope),
            "model_version": version,
        }
    )
    table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model at home, and at a hospital where its log odds are twice too far apart."""
    folder = tmp_path_factory.mktemp("hospital")
    home = draw(folder / "home.csv", 200, sides=("validation", "test"))
    there = draw(folder / "there.csv", 300, intercept=1.0, slope=0.5, seed=1)
    return read_predictions(home, there)


def test_the_others_are_reported_before_and_after(tmp_path, models):
    """100 patients bring the slope near 1 on the 200 others; the file has what was found, and the
    thresholds are those of the drawn patients, frozen.
    """
    there, old = choose_hospital(models)
    local = recalibrate_locally(there, 100, np.random.default_rng(0))
    drawn = set(local.after.validation["patient_id"])
    assert len(drawn) == 100 and drawn.isdisjoint(local.after.test["patient_id"])
    table = compare(there, old, local).set_index("probabilities")
    assert table["num_patients"].tolist() == [200, 200]
    before, after = (table.loc[name] for name in ("as predicted", "recalibrated"))
    assert before["slope_high"] < 1 and after["slope_low"] < 1 < after["slope_high"]
    assert after["brier"] < before["brier"] and before["threshold"] == old["threshold"].iloc[0]
    assert abs(after["intercept"]) < abs(before["intercept"])

    write_recalibration(tmp_path / "r.json", there, local)
    facts = json.loads((tmp_path / "r.json").read_text())
    assert set(facts["patients"]) == drawn
    assert facts["method"] == "intercept and slope" and facts["num_patients"] == 100
    assert (facts["intercept"], facts["slope"]) == pytest.approx((1, 0.5), abs=0.3)
    validation = local.after.validation
    called = validation["probability_referable"] >= facts["thresholds"]["high sensitivity"]
    assert called[validation["referable"] == 1].mean() >= 0.9
    original = there.test.set_index("image_id").loc[validation["image_id"]]
    moved = facts["intercept"] + facts["slope"] * logit(original["probability_referable"])
    assert validation["probability_referable"].tolist() == pytest.approx(expit(moved).tolist())


def test_who_shares_a_picture_is_drawn_together(models):
    """A patient, or the whole group of one, is on one side, even where a patient's photographs are
    of two groups or of none.
    """
    there, _ = choose_hospital(models)
    number = there.test["patient_id"].str.extract(r"p(\d+)$", expand=False).astype(int)
    is_named = np.arange(len(number)) % 2 == 0  # the first photograph of each patient
    group = ("g" + (number // 3).astype(str)).where(is_named, "")
    grouped = there._replace(test=there.test.assign(group=group))
    local = recalibrate_locally(grouped, 50, np.random.default_rng(0))
    drawn, others = (set(table["patient_id"]) for table in local.after[2:4])
    assert len(drawn) == 51 and drawn.isdisjoint(others)
    sides = [
        {number[there.test["patient_id"] == name].iloc[0] // 3 for name in side}
        for side in (drawn, others)
    ]
    assert sides[0].isdisjoint(sides[1])


@pytest.mark.slow
def test_more_patients_bring_the_calibration_nearer(models):
    """The range of 50 draws is narrower the more patients are labelled."""
    table = trace_patients(choose_hospital(models)[0]).set_index("k")
    assert table.index.tolist() == [10, 20, 30, 50, 75, 100, 150]
    width = table["excess_risk_high"] - table["excess_risk_low"]
    assert width[150] < width[50] and (table["num_draws"] > 25).all()


def test_one_hospital_is_recalibrated(tmp_path, models):
    """A file with validation rows is the model's own; the model must be known by its version."""
    home = tmp_path / "home.csv"
    draw(home, 100, sides=("validation", "test"))
    with pytest.raises(DrError, match="0 files are without validation rows"):
        choose_hospital(read_predictions(home))
    with pytest.raises(DrError, match="name no model_version"):
        choose_hospital(read_predictions(draw(tmp_path / "x.csv", 50, version="")))
    few = choose_hospital(models)[0]
    alike = few._replace(test=few.test.assign(referable=1.0))
    assert recalibrate_locally(alike, 20, np.random.default_rng(0)) is None
