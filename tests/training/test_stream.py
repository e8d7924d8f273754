"""A training on streamed photographs is the training on those in memory, to the bit."""

import json
import shutil

import keras
import numpy as np
import pytest

from dr_lib import hardware
from dr_lib.data.prepared.records import ShardError
from dr_lib.training.config import RECIPES, Recipe, TrainingConfig
from dr_lib.training.fit import OutOfTimeError
from dr_lib.training.train_once import BEST, train_once
from tests.training import simulation


@pytest.fixture(autouse=True)
def mirrored(monkeypatch):
    """Predictions are averaged with those of the mirror images."""
    monkeypatch.setitem(RECIPES, "full", Recipe(test_time_augmentation=True))


def start(data_dir, out, input, **how):
    """Two epochs on the CPU by TensorFlow."""
    config = TrainingConfig(
        data_dir,
        input=input,
        accelerator="cpu",
        backend="tensorflow",
        image_size=32,
        epochs=2,
    )
    return train_once(config, config.plan(hardware.probe(), 48), out, **how)


def test_streamed_and_in_memory_are_one_training(small_sample, tmp_path):
    """History, weights and predictions are equal, after a stop between two epochs too; the row
    says which.
    """
    memory = start(small_sample, tmp_path / "memory", "memory")
    with pytest.raises(OutOfTimeError):
        start(small_sample, tmp_path / "stream", "stream", seconds_left=lambda: 0.0)
    stream = start(small_sample, tmp_path / "stream", "stream")
    assert stream.timing.resumed == 1 and stream.history == memory.history
    assert (memory.row["input"], stream.row["input"]) == ("memory", "stream")
    assert all(
        (stream.probabilities[name] == memory.probabilities[name]).all()
        for name in ("validation", "test")
    )
    one, other = (
        keras.models.load_model(tmp_path / name / BEST).get_weights()
        for name in ("memory", "stream")
    )
    assert all(np.array_equal(*arrays) for arrays in zip(one, other, strict=True))
    assert stream.scores == memory.scores


def test_a_shard_that_is_gone_stops_the_training(small_sample, tmp_path):
    """The error is one sentence about the shard, whatever the backend makes of it."""
    folder = shutil.copytree(small_sample, tmp_path / "records")
    shards = list(folder.glob("*.tfrecord"))
    with pytest.raises(ShardError, match="can no longer be read") as caught:
        start(
            folder,
            tmp_path / "out",
            "stream",
            report=lambda *done: [shard.unlink(missing_ok=True) for shard in shards],
        )
    assert len(str(caught.value)) < 200


@pytest.mark.slow
def test_jax_is_fed_alike(small_sample, tmp_path):
    """The same on JAX, several steps per call."""
    pytest.importorskip("jax")
    config = {
        "data_dir": str(small_sample),
        "backend": "jax",
        "mode": "fast",
        "epochs": 2,
    }
    runs = {
        name: {"config": config | {"input": name}, "number": 48}
        for name in ("memory", "stream")
    }
    simulation.run("train_all", tmp_path, runs=runs)
    memory, stream = (
        json.loads((tmp_path / name / "result.json").read_text()) for name in runs
    )
    assert (memory["input"], stream["input"], memory["on_device"], stream["on_device"]) == (
        "memory",
        "stream",
        True,
        False,
    )
    one, other = ((tmp_path / name / "history.csv").read_text() for name in runs)
    assert np.allclose(
        *(np.loadtxt(text.splitlines()[1:], delimiter=",") for text in (one, other)), atol=1e-6
    )
