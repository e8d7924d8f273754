"""Photographs on the device: the same training, fed by row numbers."""

import json
import time

import keras
import numpy as np
import pandas as pd
import pytest

from dr_lib.data.prepared.batches import Batches
from dr_lib.training.callbacks import Checkpoint
from dr_lib.training.checkpoint import read_variables
from dr_lib.training.fit import compile_model, train
from dr_lib.training.models import build_model
from dr_lib.training.resident import Epoch, keep_on_device
from tests.training.simulation import DROPPING, draw, read_arrays, run, run_code


@pytest.mark.slow
def test_an_epoch_in_one_program_trains_what_its_steps_would(tmp_path):
    """Weights, statistics, optimiser and scores of a network with dropout and batch
    normalisation, whose learning rate is halved on the way.
    """
    pytest.importorskip("jax")
    config = {
        "backend": "jax",
        "mode": "fast",
        "model": DROPPING,
        "augmentation": "colour",
        "epochs": 5,
    }
    asked = {"config": config, "number": 57, "impatient": True}
    runs = {
        name: asked | {"changes": {"steps_per_execution": steps}}
        for name, steps in {"step": 8, "epoch": 0}.items()
    }
    run("train_all", tmp_path, runs=runs)
    folders = [tmp_path / name for name in ("step", "epoch")]
    step, epoch = (read_arrays(folder / "checkpoint.npz") for folder in folders)
    assert step.keys() == epoch.keys()
    for name, values in step.items():
        assert abs(epoch[name] - values).max() <= 2e-6 * abs(values).max(), name
    histories = (pd.read_csv(folder / "history.csv") for folder in folders)
    np.testing.assert_allclose(*histories, rtol=1e-6)
    row = json.loads((tmp_path / "epoch" / "result.json").read_text())
    assert row["steps_per_execution"] == 0 and row["iterations"] == 5 * (57 // 8)


def test_an_epoch_in_one_program_waits_for_its_last_batch():
    """It is one call, of one batch, which is ready when the last of seven is."""
    batches = Batches(np.arange(57), np.zeros(57), 8, shuffle_seed=1)
    start = time.monotonic()
    batches.note_ready = lambda: batches.ready_s.append(start + len(batches.ready_s))
    assert Epoch(batches)[0][0].shape == (8, 7)
    assert batches.ready_s == [start + 6]


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


AHEAD = """
from pathlib import Path
import sys
from dr_lib import hardware
from dr_lib.training.config import TrainingConfig
from dr_lib.training.train_once import load_sides, set_up
from tests.training import simulation

config = TrainingConfig(data_dir="", **simulation.HERE | {
    "backend": "jax", "model": simulation.NORMALISED, "num_devices": 2, "image_size": 299})
plan = config.plan(hardware.probe(), 57)
device = hardware.distribute(hardware.activate(plan))
setup = set_up(config, device, load_sides(config, plan, simulation.draw_splits(57, 299)))
from dr_lib.training.callbacks import Checkpoint
from dr_lib.training.fit import train

model = setup.fed.model
make = model.make_train_function
take = type(setup.train_batches).__getitem__
states = []

def keep_states():
    make()
    step = model.train_function

    def keep(state, data):
        logs, state = step(state, data)
        states[:] = [state[0][0]]
        return logs, state

    model.train_function = keep

def look(batches, index):
    if states:
        print(plan.strategy, states[0].is_ready())
    return take(batches, index)

model.make_train_function = keep_states
type(setup.train_batches).__getitem__ = look
train(model, setup.train_batches, None, Checkpoint(Path(sys.argv[1]), monitor="auc"), epochs=1)
"""


@pytest.mark.slow
def test_the_next_batch_is_taken_while_several_devices_compute(tmp_path):
    """On JAX no step is waited for: there is one whose weights are not there yet when the next
    batch is taken.
    """
    pytest.importorskip("jax")
    seen = run_code(AHEAD, "jax", str(tmp_path)).splitlines()
    assert "DataParallel False" in seen, seen
