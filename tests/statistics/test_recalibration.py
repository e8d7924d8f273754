"""Recalibration for another hospital: the closed tests by hand, and the file."""

import json

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logit

from dr_lib.errors import DrError
from dr_lib.statistics.calibration import choose_recalibration
from dr_lib.statistics.recalibration import Recalibration, read_recalibration


def draw(num_patients, intercept, slope, seed=0):
    """Two eyes of each patient, whose true log odds are intercept + slope * the predicted ones."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(num_patients), 2)
    truth = -1 + rng.normal(size=num_patients)[patient] + rng.normal(size=2 * num_patients)
    return rng.random(len(patient)) < expit(truth), expit((truth - intercept) / slope), patient


def test_the_closed_tests_by_hand():
    """Newton's steps, the sandwich over patients with statsmodels' factor, and F."""
    y, p, patient = draw(60, 0.5, 0.7)
    design = np.column_stack([np.ones(len(y)), logit(p)])
    params = np.zeros(2)
    for _ in range(50):
        risk = expit(design @ params)
        bread = np.linalg.inv(design.T @ (design * (risk * (1 - risk))[:, None]))
        params = params + bread @ design.T @ (y - risk)
    scores = design * (y - risk)[:, None]
    sums = np.array([scores[patient == one].sum(axis=0) for one in range(60)])
    covariance = bread @ sums.T @ sums @ bread * 60 / 59 * 119 / 118
    away = params - [0, 1]
    joint = stats.f.sf(away @ np.linalg.inv(covariance) @ away / 2, 2, 58)
    of_slope = 2 * stats.t.sf(abs(away[1]) / np.sqrt(covariance[1, 1]), 58)
    _, p_values = choose_recalibration(y, p, patient)
    assert p_values == pytest.approx((joint, of_slope))


@pytest.mark.parametrize(
    ("intercept", "slope", "expected"),
    [(0, 1, (0, 1)), (1, 1, (1, 1)), (1, 0.5, (1, 0.5))],
)
def test_as_much_is_changed_as_the_patients_ask_for(intercept, slope, expected):
    """Nothing, the intercept alone, or the slope too; near the truth that was drawn."""
    found, _ = choose_recalibration(*draw(600, intercept, slope, seed=2))
    assert found[:2] == pytest.approx(expected, abs=0.2)
    assert (found.intercept == 0, found.slope == 1) == (intercept == 0, slope == 1)
    probability = np.array([0.1, 0.5])
    moved = expit(found.intercept + found.slope * logit(probability))
    assert found(probability) == pytest.approx(moved)


def test_patients_who_say_nothing_change_nothing():
    """One class alone, a slope that would turn the ranking round, fewer than 10 patients, or
    classes that overlap in one pair of photographs: the slope is huge, its error unknown.
    """
    y, p, patient = draw(60, 0, 1)
    assert choose_recalibration(np.ones(len(y), bool), p, patient) is None
    assert choose_recalibration(y, 1 - p, patient) is None
    assert choose_recalibration(y[:18], p[:18], patient[:18]) is None
    apart = np.where(y, 0.8, 0.2)
    apart[[0, 1]] = 0.501, 0.499
    y[[0, 1]] = False, True
    assert choose_recalibration(y, apart, patient) is None


def test_the_file_is_for_one_model(tmp_path):
    """What is no such file, has no finite numbers or is for another model is refused."""
    path = tmp_path / "r.json"
    facts = {
        "intercept": 1.0,
        "slope": 0.5,
        "thresholds": {"high sensitivity": 0.3},
        "model_version": "abc",
    }
    path.write_text(json.dumps(facts))
    found = read_recalibration(path, "abc")
    assert found[:4] == (1.0, 0.5, 0.3, "abc") and len(found.version) == 12
    assert read_recalibration(None, "abc") is None
    with pytest.raises(DrError, match="recalibrates the model abc, this one is def"):
        read_recalibration(path, "def")
    path.write_text(json.dumps({**facts, "slope": -1}))
    with pytest.raises(DrError, match="the slope above 0"):
        read_recalibration(path, "abc")
    path.write_text("[]")
    with pytest.raises(DrError, match="is no file of the command recalibrate"):
        read_recalibration(path, "abc")
    assert Recalibration(0.0, 1.0)([0.0, 0.25]) == pytest.approx([0, 0.25], abs=1e-5)
