"""One training from photographs to its row: what the row says is what happened."""

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import get_args

import keras
import numpy as np
import pytest

from dr_lib import hardware
from dr_lib.data.prepared.batches import Batches
from dr_lib.errors import DrError
from dr_lib.training.config import TrainingConfig
from dr_lib.training.fit import predict
from dr_lib.training.model_folder import read_folder
from dr_lib.training.models import build_model
from dr_lib.training.train_once import (
    build_network,
    list_trained,
    train_once,
)
from tests.training.simulation import HERE, draw_splits, train_here

ROOT = Path(__file__).resolve().parents[2]


def test_a_row_has_the_parameters_of_its_configuration():
    """Other names of a notebook are none, and of a path the last part."""
    paths = {"data_dir": "/private/eyes", "weights": "/private/base.h5", "results": "x"}
    config = TrainingConfig.from_parameters(
        paths | {"seed": 5, "repetition": 3, "here": Path()}
    )
    row = config.describe()
    assert (config.run_seed, row["data_dir"], row["weights"]) == (8, "eyes", "base.h5")


def write_weights(folder: Path) -> str:
    """A file of weights of MobileNet, as somebody carries one in."""
    path = folder / "mobilenet.weights.h5"
    build_model("mobilenet", 32).get_layer("base").save_weights(path)
    return str(path)


def test_a_recipe_stands_in_the_row_by_its_parts(tmp_path):
    """The layer at which the base ends, and what is averaged in predictions."""
    trained = train_here(
        tmp_path,
        draw_splits(33),
        model="mobilenet",
        weights=write_weights(tmp_path),
        recipe="few",
    )
    row = {**trained.config.describe(), **trained.row}
    assert (row["last_layer"], row["test_time_augmentation"]) == ("conv_pw_7_relu", True)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"task": "referral"}, "task is 'referral': it should be 'referable' or 'grades'"),
        ({"model": "no_such:vit"}, "model 'no_such:vit': there is no module no_such"),
        ({"recipe": "few", "augmentation": "none"}, "its mirror image, .* none: leave it out"),
        (
            {"recipe": "few", "model": "mobilenet", "weights": "none"},
            "weights none are random: give imagenet or the path of a weights file",
        ),
        ({"epochs": 0}, "^epochs is 0: it should be greater than or equal to 1"),
    ],
)
def test_what_cannot_be_or_would_be_ignored_is_refused(asked, message):
    """Before anything runs, from whatever calls it."""
    with pytest.raises(DrError, match=message):
        TrainingConfig(data_dir="", **asked)


@pytest.mark.parametrize(
    ("task", "mode", "on_device"), [("grades", "fast", True), ("referable", "paper", False)]
)
def test_the_row_says_where_the_photographs_were(tmp_path, task, mode, on_device):
    """Mode fast keeps them on the device, and the row says so."""
    splits = draw_splits(17)
    if on_device:
        splits["validation"].referable = splits["validation"].grade = np.zeros(0)
    trained = train_here(tmp_path, splits, task=task, mode=mode)
    row = trained.row
    assert row["on_device"] == on_device
    assert row["steps_per_execution"] == (1 if mode == "paper" else 8)
    counts = [row[f"num_images_{name}"] for name in ("train", "test", "dropped")]
    assert counts == [17, 9, 1]
    assert row["num_patients_train"] == 17
    kept = keras.models.load_model(tmp_path / "best.keras")
    assert kept.count_params() == row["num_parameters"]
    assert trained.probabilities["test"].shape == (9, 5 if task == "grades" else 1)
    assert 0 <= row["metric_auc_test"] <= 1
    assert np.isnan(row["metric_auc_test_low"])  # below ten patients of a kind: no interval


@pytest.mark.parametrize(("side", "number"), [("validation", 0), ("test", 4)])
def test_a_split_that_cannot_be_scored_is_refused_before_it_is_trained(tmp_path, side, number):
    """Else hours of training would end without a score; validation alone may be empty."""
    splits = draw_splits(17)
    splits[side].referable = np.ones(number)
    splits[side].patient_id = np.arange(number).astype(str)
    how = {}
    fault = (
        f"the {side} split has {number} patients with referable eyes, 0 with others.*: recipe"
    )
    if (side, number) == ("validation", 0):
        how = {"patience": 10}
        fault = (
            "^patience 10 needs a validation split, and this split has none: use scheme rand"
        )
    with pytest.raises(DrError, match=fault):
        train_here(tmp_path, splits, **how)
    assert not list(tmp_path.iterdir())


def test_a_training_that_diverges_keeps_its_best_epoch(tmp_path, monkeypatch):
    """The reason is given, and no score."""
    start_epoch = Batches.start_epoch

    def spoil(batches, epoch):
        start_epoch(batches, epoch)
        if epoch == 2:
            batches.targets = batches.targets * np.nan

    monkeypatch.setattr(Batches, "start_epoch", spoil)
    fault = r"^the loss is nan in epoch 3: lower .*, [12], is kept in best.keras$"
    with pytest.raises(DrError, match=fault):
        train_here(tmp_path, draw_splits(17), epochs=9)
    kept = keras.models.load_model(tmp_path / "best.keras")
    assert all(np.isfinite(array).all() for array in kept.get_weights())


def test_test_time_augmentation_averages_mirror_images():
    """The prediction is the mean of those of the photograph and of its mirror image, of 9 in
    batches of 8 in order.
    """
    network = build_model("small_cnn", 32)
    images = np.random.default_rng(0).integers(0, 255, (9, 32, 32, 3), dtype=np.uint8)
    one = np.array(network(images))
    other = np.array(network(images[:, :, ::-1]))
    augmented = predict(network, images, 8, average_mirrored=True)
    assert augmented == pytest.approx((one + other) / 2, abs=1e-6)
    assert np.abs(one - other).max() > 1e-4
    assert predict(network, images, 8) == pytest.approx(one, abs=1e-6)


@pytest.mark.parametrize("batch_norm", ["local", "global"])
def test_normalisation_over_a_whole_step_is_that_of_every_layer(batch_norm):
    """Where several devices divide a step on TensorFlow, and the plan says so."""
    config = TrainingConfig(data_dir="", **HERE | {"model": "mobilenet"})
    plan = replace(config.plan(hardware.probe(), 17), strategy="MirroredStrategy")
    network = build_network(config, replace(plan, batch_norm=batch_norm))
    kind = keras.layers.BatchNormalization
    found = [each for each in network.get_layer("base").layers if isinstance(each, kind)]
    assert len(found) == 27  # one a convolution
    assert {each.synchronized for each in found} == {batch_norm == "global"}


CHANGED = {  # the value to try of a parameter for which `change` finds none that differs here
    "mode": "fast",
    "model": "mobilenet",
    "image_size": 48,
    "num_devices": 2,
    "batch_norm": "global",
}
NEEDS = {"batch_size_of": {"num_devices": 2}, "batch_norm": {"num_devices": 2}}
ELSEWHERE = {  # what one step cannot show, and which test does
    "task",  # test_the_row_says_where_the_photographs_were
    "data_dir",  # test_stream.py
    "split",  # data/prepared/test_folder.py
    "weights",  # test_weights_come_from_a_file
    "accelerator",  # hardware/test_plans.py
    "backend",  # hardware/test_plans.py: JAX need not be there
    "matmul_precision",  # hardware/test_devices.py
    "results",  # a folder, runs/test_run.py
    "label",  # names an arm, and changes nothing: tests/report
}


@pytest.mark.parametrize("task", ["referable", "grades"])
@pytest.mark.parametrize("name", TrainingConfig.model_fields)
def test_every_parameter_changes_something(tmp_path, name, task):
    """In each task that it applies to: plan, network, optimiser, loss, batches or call of fit."""
    if name in ELSEWHERE:
        return
    needs = NEEDS.get(name, {})
    if name == "recipe":
        needs = {"model": "mobilenet", "weights": write_weights(tmp_path)}
    before = TrainingConfig(data_dir="", task=task, **HERE | needs)
    changed = CHANGED.get(name, change(name, getattr(before, name)))
    unused = (
        f"{name} {changed} changes nothing in task {task}: use it in training/train_once.py"
    )
    assert outline(before) != outline(before.model_copy(update={name: changed})), unused


def change(name: str, value: str | float) -> str | float:
    """Another value of a parameter."""
    if isinstance(value, str):
        choices = get_args(TrainingConfig.model_fields[name].annotation)
        return next((choice for choice in choices if choice != value), value)
    if isinstance(value, float):
        return value / 2 or 0.2
    return not value if isinstance(value, bool) else value + 1


@cache
def outline(config: TrainingConfig) -> list:
    """What is made of a configuration, as far as numbers tell; nothing is trained."""
    plan = config.plan(hardware.probe(), 17)
    if plan.backend == "jax" or plan.num_replicas > 1:  # TensorFlow has one device here
        return [plan.describe()]
    calls = []

    def stop(*arguments, **settings):
        calls.append((arguments, settings))
        raise ZeroDivisionError

    keras.utils.clear_session(free_memory=False)  # layers are named from the first on
    splits = draw_splits(33, config.image_size)
    splits["train"].grade[:3] = 4
    if not config.patience:
        del splits["validation"]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr("dr_lib.training.fit.train", stop)
        patch.setattr("dr_lib.training.frozen.freeze", stop)
        train_once(config, plan, Path(), splits=splits)
    ((arguments, settings),) = calls
    if config.recipe == "few":
        return [arguments[0].to_json()]
    model, *_, checkpoint = arguments
    schedule = [(type(each).__name__, each.patience) for each in checkpoint.counting]
    images, targets = arguments[1][0]
    predicted = np.linspace(0.2, 0.6, model.output_shape[-1], dtype=np.float32)[None]
    loss = model.loss if callable(model.loss) else keras.losses.get(model.loss)
    return [
        plan.describe(),
        settings,
        schedule,
        "" if plan.on_device else model.to_json(),  # photographs there are no text
        model.optimizer.get_config(),
        [weights.sum() for weights in model.get_weights()],
        np.array(loss(np.zeros((1, 1)), predicted)).tolist(),
        [np.asarray(images, float).sum(), np.asarray(targets, float).sum(), len(images)],
    ]


@pytest.mark.slow
def test_a_clone_without_runs_has_a_network_that_learned_the_sample(small_sample, tmp_path):
    """It is trained once; a later run of a study goes before it."""
    runs = tmp_path / "papermill_runs"
    shutil.copytree(small_sample.parent, runs / "sample")
    (folder,) = list_trained(tmp_path)
    assert read_folder(folder / "model").facts["data_kind"] == "synthetic"
    before = (folder / "predictions.csv").stat().st_mtime_ns
    assert list_trained(tmp_path) == [folder]
    assert (folder / "predictions.csv").stat().st_mtime_ns == before
    later = runs / "mine" / "runs" / "C1-r00"
    later.mkdir(parents=True)
    (later / "predictions.csv").touch()
    assert list_trained(tmp_path) == [later, folder]
