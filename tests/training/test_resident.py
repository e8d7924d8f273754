"""Photographs on the device: the same training, fed by row numbers."""

import keras
import numpy as np
import pytest

from dr_lib.data.shards.batches import Batches
from dr_lib.training.checkpoint import read_variables
from dr_lib.training.fit import compile_model, train
from dr_lib.training.models import build_model
from dr_lib.training.recorder import Recorder
from dr_lib.training.resident import keep_on_device
from tests.training.simulation import draw


def test_rows_find_their_photographs():
    """The network sees the pixels of the row, of every split, as uint8."""
    rng = np.random.default_rng(0)
    inputs = {
        "train": rng.integers(0, 256, (5, 4, 4, 3), np.uint8),
        "validation": rng.integers(0, 256, (3, 4, 4, 3), np.uint8),
    }
    pixels = keras.Input((4, 4, 3), dtype="uint8")
    network = keras.Model(pixels, keras.layers.Rescaling(1.0, dtype="float32")(pixels))
    model, rows = keep_on_device(network, inputs)
    assert {name: r.tolist() for name, r in rows.items()} == {"train": [0, 1, 2, 3, 4], "validation": [5, 6, 7]}
    for name, images in inputs.items():
        assert (model.predict(rows[name], verbose=0) == images).all()


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["plain", "xla"])
def test_trains_what_the_host_would(tmp_path, jit):
    """Seven steps an epoch in calls of three: history, steps and weights are those of one step a call from the host."""
    images, labels = draw(57)
    ends = []
    for resident in (False, True):
        keras.utils.set_random_seed(1)
        network = build_model("small_cnn", 32, augmentation="colour", dropout=0.3, seed=1)
        model, inputs = network, {"train": images, "validation": images[:20]}
        if resident:
            model, inputs = keep_on_device(network, inputs)
        compile_model(model, optimizer="adam", jit=jit, steps_per_execution=3 if resident else 1)
        train_batches = Batches(inputs["train"], labels, 8, shuffle_seed=1)
        validation_batches = Batches(inputs["validation"], labels[:20], 8)
        train(model, train_batches, validation_batches, Recorder(tmp_path / str(resident)), epochs=2)
        assert int(model.optimizer.iterations) == 14
        ends.append(network.get_weights())
    assert max(np.abs(a - b).max() for a, b in zip(*ends, strict=True)) < 1e-5


def test_photographs_are_no_state_of_the_training():
    """A checkpoint holds the network's variables and not the pixels."""
    network = build_model("small_cnn", 32)
    model, _ = keep_on_device(network, {"train": np.zeros((9, 32, 32, 3), np.uint8)})
    compile_model(model)
    assert len(read_variables(model)["model"]) == len(network.variables)
    assert all(array.dtype != np.uint8 for array in read_variables(model)["model"])
