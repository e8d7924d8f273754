"""Checkpoints: whole or not at all, and never of something else."""

import numpy as np
import pytest

from dr_lib.data.prepared.batches import Batches
from dr_lib.errors import DrError
from dr_lib.training.callbacks import Checkpoint
from dr_lib.training.checkpoint import (
    assign_variables,
    read_checkpoint,
    read_variables,
    write_checkpoint,
)
from dr_lib.training.fit import compile_model, train
from dr_lib.training.models import build_model
from tests.training.test_fit import build


@pytest.mark.parametrize("keep", [0, -1])
def test_a_damaged_file_is_named(tmp_path, keep):
    """Empty, cut short early or by one byte: the message says what to delete."""
    path = tmp_path / "checkpoint.npz"
    write_checkpoint(path, {}, {"a": [np.zeros(1000)]})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DrError, match="checkpoint.npz is damaged.*delete it"):
        read_checkpoint(path)


def test_another_network_is_refused():
    """Arrays of other shapes do not enter half."""
    grader = build_model("small_cnn", 32, task="grades")
    compile_model(grader)
    with pytest.raises(DrError, match="does not fit this model"):
        assign_variables(build(), read_variables(grader))


def test_a_training_asked_for_otherwise_is_refused(tmp_path):
    """Other parameters do not go on from it, and the message names them."""
    images = np.zeros((8, 32, 32, 3), np.uint8)
    labels = np.arange(8, dtype=np.float32) % 2
    batches = Batches(images, labels, 8, shuffle_seed=0)
    first = Checkpoint(tmp_path, monitor="auc", identity={"dropout": 0.0, "seed": 1})
    train(build(), batches, None, first, epochs=1)
    second = Checkpoint(tmp_path, monitor="auc", identity={"dropout": 0.5, "seed": 1})
    with pytest.raises(DrError, match="written with other dropout: delete it"):
        train(build(), batches, None, second, epochs=2)
