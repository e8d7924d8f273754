"""One training from photographs to its row: what the row says is what happened."""

from dataclasses import fields
from pathlib import Path

import keras
import numpy as np
import papermill
import pytest

from dr_lib import hardware
from dr_lib.errors import DrError
from dr_lib.training import resident
from dr_lib.training.config import TrainingConfig
from dr_lib.training.train_once import predict, set_up, train_once
from tests.training.simulation import draw_splits

ROOT = Path(__file__).resolve().parents[2]
HERE = {"accelerator": "cpu", "backend": "tensorflow", "image_size": 32, "epochs": 1}


def test_every_parameter_of_the_notebook_is_in_its_config():
    """None is dropped on the way; those left over say where results go, until when, and what is
    explained.
    """
    known = papermill.inspect_notebook(str(ROOT / "notebooks" / "10_train.ipynb"))
    assert set(known) - {field.name for field in fields(TrainingConfig)} - {"explain"} == {
        "results",
        "max_hours",
    }
    parameters = {"image_size": 77, "seed": 5, "repetition": 3, "here": Path(), "results": "x"}
    config = TrainingConfig.from_parameters(
        parameters, data_dir="/private/eyes", weights="/private/base.h5"
    )
    assert (config.image_size, config.run_seed) == (77, 8)
    assert (config.describe()["data_dir"], config.describe()["weights"]) == ("eyes", "base.h5")


def test_mode_scaled_takes_a_larger_batch():
    """By hand: 4 times the batch, twice the rate, the warm-up asked for; other modes leave all
    three.
    """
    asked = {"batch_size": 8, "batch_scale": 4, "learning_rate": 0.001, "warmup_epochs": 3}
    assert TrainingConfig("", mode="scaled", **asked).schedule == (32, 4, pytest.approx(0.002), 3)
    assert TrainingConfig("", mode="fast", **asked).schedule == (8, 1, 0.001, 0)


@pytest.mark.parametrize(
    "asked",
    [
        {"task": "referral"},
        {"task": "grades", "dropout": 0.3},
        {"task": "grades", "last_frozen": "relu"},
    ]
    + [
        {"weigh_grades": True},
        {"probe_grades": True},
        {"ema_momentum": 1.0},
        {"task": "grades", "weigh_classes": True},
    ],
)
def test_what_would_be_ignored_is_refused(asked):
    """A parameter of the other task is an error before anything runs."""
    with pytest.raises((ValueError, DrError), match="choose from|leave|less than 1"):
        TrainingConfig("", **asked)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("epochs", 2.5),
        ("image_size", "96"),
        ("dropout", -0.1),
    ],
)
def test_a_value_that_cannot_be_is_named(name, value):
    """No training begins that could not end, from whatever calls it."""
    with pytest.raises(DrError, match=f"^{name} is {value!r}: give "):
        TrainingConfig("", **{name: value})


@pytest.mark.parametrize(
    ("task", "mode", "on_device"), [("grades", "fast", True), ("referable", "paper", False)]
)
def test_the_row_says_where_the_photographs_were(tmp_path, monkeypatch, task, mode, on_device):
    """Mode fast keeps them on the device, and the row says so."""
    kept = []
    keep_on_device = resident.keep_on_device
    monkeypatch.setattr(
        resident, "keep_on_device", lambda *how: kept.append(how) or keep_on_device(*how)
    )
    config = TrainingConfig("", task=task, mode=mode, **HERE)
    plan = config.plan(hardware.probe(), 17)
    trained = train_once(config, plan, tmp_path, splits=draw_splits(17), elapsed_s=lambda: 5.0)
    row = trained.row
    assert row["on_device"] == bool(kept) == on_device
    assert row["steps_per_execution"] == (1 if mode == "paper" else 8) and row["setup_s"] == 5.0
    assert (row["num_images_train"], row["num_images_test"], row["num_images_dropped"]) == (
        17,
        9,
        1,
    )
    assert row["num_patients_train"] == len(set(trained.splits["train"].patient_id))
    # one epoch has no steady one
    assert row["images_per_s"] != row["images_per_s"] and len(row["epoch_s"]) == 1
    assert keras.models.load_model(tmp_path / "best.keras").count_params() == row["num_parameters"]
    assert trained.probabilities["test"].shape == (9, 5 if task == "grades" else 1)
    assert row["metric_auc_test_low"] <= row["metric_auc_test"] <= row["metric_auc_test_high"]


def test_grades_are_weighed_on_request():
    """Without weights the loss of a photograph is -log of its grade's probability; with them
    rare grades count more.
    """
    splits = draw_splits(16)
    splits["train"].grade[:] = [0] * 12 + [2] * 4  # by hand: 16 / (2 x 12) and 16 / (2 x 4)
    probabilities = np.full((2, 5), 0.2, np.float32)
    for weighed, expected in ((False, [1, 1]), (True, [2 / 3, 2])):
        config = TrainingConfig("", task="grades", weigh_grades=weighed, **HERE)
        loss = set_up(config, config.plan(hardware.probe(), 16), splits).model.loss
        assert np.array(loss(np.array([0, 2]), probabilities)) == pytest.approx(
            -np.log(0.2) * np.array(expected)
        )


def test_referable_and_other_photographs_are_balanced_on_request():
    """Of 16 photographs 12 are referable: by hand they weigh 16 / (2 x 12), the others 16 / (2 x
    4).
    """
    splits = draw_splits(16)
    splits["train"].referable[:] = [1] * 12 + [0] * 4
    config = TrainingConfig("", weigh_classes=True, **HERE)
    loss = set_up(config, config.plan(hardware.probe(), 16), splits).model.loss
    losses = np.array(loss(np.array([1, 0], np.float32), np.array([[0.8], [0.8]], np.float32)))
    assert losses == pytest.approx([-np.log(0.8) * 2 / 3, -np.log(0.2) * 2], rel=1e-4)


def test_test_time_augmentation_averages_mirror_images():
    """The prediction is the mean of those of the photograph and of its mirror image, of 9 in
    batches of 8 in order.
    """
    config = TrainingConfig("", **HERE)
    splits = draw_splits(9)
    network = set_up(config, config.plan(hardware.probe(), 9), splits).network
    images = np.random.default_rng(0).integers(0, 255, (9, 32, 32, 3), dtype=np.uint8)
    one = np.array(network(images))
    other = np.array(network(images[:, :, ::-1]))
    augmented = predict(TrainingConfig("", test_time_augmentation=True, **HERE), network, images)
    assert (
        augmented == pytest.approx((one + other) / 2, abs=1e-6) and np.abs(one - other).max() > 1e-4
    )
    assert predict(config, network, images) == pytest.approx(one, abs=1e-6)
