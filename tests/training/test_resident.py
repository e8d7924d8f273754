"""Photographs on the device: the same training, fed by row numbers."""

import keras
import numpy as np
import pytest

from dr_lib.data.prepared.batches import Batches
from dr_lib.training.callbacks import Checkpoint
from dr_lib.training.checkpoint import read_variables
from dr_lib.training.fit import compile_model, train
from dr_lib.training.models import build_model
from dr_lib.training.resident import keep_on_device
from tests.training.simulation import DROPPING, draw


@pytest.mark.parametrize(
    "jit", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["plain", "xla"]
)
def test_trains_what_the_host_would(tmp_path, jit):
    """Seven steps an epoch in calls of three: history, steps and weights are those of one step a
    call from the host.
    """
    images, labels = draw(57)
    ends = []
    histories = []
    for resident in (False, True):
        keras.utils.set_random_seed(1)
        network = build_model(DROPPING, 32, augmentation="colour", seed=1)
        model = network
        inputs = {"train": images, "validation": images[:20]}
        if resident:
            model, inputs = keep_on_device(network, inputs)
        compile_model(
            model, optimizer="adam", jit=jit, steps_per_execution=3 if resident else 1
        )
        train_batches = Batches(inputs["train"], labels, 8, shuffle_seed=1)
        validation_batches = Batches(inputs["validation"], labels[:20], 8)
        checkpoint = Checkpoint(tmp_path / str(resident), monitor="val_auc")
        train(model, train_batches, validation_batches, checkpoint, epochs=2)
        assert int(model.optimizer.iterations) == 14
        # a checkpoint holds no pixels
        assert len(read_variables(model)["model"]) == len(network.variables)
        ends.append(network.get_weights())
        histories.append([list(epoch.values()) for epoch in checkpoint.history])
    assert max(np.abs(a - b).max() for a, b in zip(*ends, strict=True)) < 1e-5
    np.testing.assert_allclose(*histories, rtol=1e-4)
