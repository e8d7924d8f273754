"""Checkpoints: whole or not at all, and never of something else."""

import keras
import numpy as np
import pytest

from dr_lib.data.shards.batches import Batches
from dr_lib.training.checkpoint import (
    CheckpointError,
    assign_variables,
    read_checkpoint,
    read_variables,
    write_checkpoint,
)
from dr_lib.training.fit import compile_model, train
from dr_lib.training.models import build_model
from dr_lib.training.recorder import Recorder


def build(image_size: int = 32, **how) -> keras.Model:
    """The small network, compiled."""
    model = build_model("small_cnn", image_size, seed=3)
    compile_model(model, optimizer="adam", **how)
    return model


def test_comes_back_as_it_was(tmp_path):
    """Every array to the bit, and what is not an array, infinities and all."""
    arrays = {"a": [np.arange(6, dtype=np.float32).reshape(2, 3), np.uint32(7)[None]], "none": []}
    write_checkpoint(tmp_path / "c.npz", {"epoch": 3, "best": float("inf")}, arrays)
    progress, back = read_checkpoint(tmp_path / "c.npz")
    assert progress == {"epoch": 3, "best": float("inf")} and back["none"] == []
    assert all((x == y).all() and x.dtype == y.dtype for x, y in zip(back["a"], arrays["a"], strict=True))
    assert [path.name for path in tmp_path.iterdir()] == ["c.npz"]


def test_holds_all_that_training_changes():
    """Weights, the random state of augmentation and dropout, and the optimiser go over into another model."""
    one, other = build(), build()
    for variable in [*one.variables, *one.optimizer.variables]:
        variable.assign(keras.ops.ones_like(variable))
    assign_variables(other, read_variables(one))
    kept = [*other.variables, *other.optimizer.variables]
    assert all((keras.ops.convert_to_numpy(variable) == 1).all() for variable in kept)
    assert any("seed_generator" in variable.path for variable in other.variables)


@pytest.mark.parametrize("keep", [0, 100, -1])
def test_a_damaged_file_is_named(tmp_path, keep):
    """Empty, cut short early or by one byte: the message says what to delete."""
    path = tmp_path / "checkpoint.npz"
    write_checkpoint(path, {}, {"a": [np.zeros(1000)]})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match="checkpoint.npz is damaged.*delete it"):
        read_checkpoint(path)


def test_another_network_is_refused():
    """Arrays of other shapes do not enter half."""
    small = build_model("mobilenet", 32)
    compile_model(small)
    with pytest.raises(CheckpointError, match="another model"):
        assign_variables(build(), read_variables(small))


def test_a_training_asked_for_otherwise_is_refused(tmp_path):
    """Other parameters do not go on from it, and the message names them."""
    images, labels = np.zeros((8, 32, 32, 3), np.uint8), np.arange(8, dtype=np.float32) % 2
    batches = Batches(images, labels, 8, shuffle_seed=0)
    train(build(), batches, None, Recorder(tmp_path, identity={"dropout": 0.0, "seed": 1}), epochs=1)
    with pytest.raises(CheckpointError, match="written with other dropout: delete it"):
        train(build(), batches, None, Recorder(tmp_path, identity={"dropout": 0.5, "seed": 1}), epochs=2)
