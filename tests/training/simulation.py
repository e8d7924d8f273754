"""Trainings in small, in a process of their own: python -m tests.training.simulation COMMAND
FOLDER JSON.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from dr_lib import hardware
from dr_lib.training.config import TrainingConfig
from dr_lib.training.train_once import BEST, Trained, train_once

ROOT = Path(__file__).resolve().parents[2]
SIZE = 32  # side of the pictures [px]
HERE = {"accelerator": "cpu", "backend": "tensorflow", "image_size": SIZE, "epochs": 1}
NORMALISED = "tests.training.simulation:build_normalised"
DROPPING = "tests.training.simulation:build_dropping"


def draw(number: int, size: int = SIZE) -> tuple[np.ndarray, np.ndarray]:
    """Noisy pictures whose upper half is brighter where the label is 1."""
    rng = np.random.default_rng(0)
    labels = (np.arange(number) % 2).astype(np.float32)
    images = rng.integers(60, 180, (number, size, size, 3))
    images[:, : size // 2] += (labels * 12).astype(int)[:, None, None, None]
    return images.astype(np.uint8), labels


def draw_splits(number: int, size: int = SIZE) -> dict[str, Any]:
    """So many pictures to train on, and the first half of them for validation and test."""
    images, labels = draw(number, size)
    patients = np.arange(number).astype(str)
    columns = {
        "images": images,
        "referable": labels,
        "grade": 2 * labels.astype(int),
        "patient_id": patients,
    }
    half = {name: column[: number // 2 + 1] for name, column in columns.items()}
    parts = {"train": columns, "validation": half, "test": half}
    return {name: SimpleNamespace(**rows) for name, rows in parts.items()}


def assert_same(arrays: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> None:
    """Two lists of arrays are the same to the bit."""
    for one, other in zip(arrays, others, strict=True):
        np.testing.assert_array_equal(one, other)


def build_normalised(image_size: int, weights: None):
    """Two convolutions with batch normalisation, one of them in a model of its own; no bias before
    it, as in keras.applications.
    """
    import keras
    from keras import layers

    def build_block(filters: int) -> list:
        convolution = layers.Conv2D(filters, 3, strides=2, padding="same", use_bias=False)
        return [convolution, layers.BatchNormalization(), layers.ReLU()]

    inputs = keras.Input((image_size, image_size, 3))
    x = layers.Rescaling(1 / 127.5, -1)(inputs)
    for layer in build_block(8):
        x = layer(x)
    maps = keras.Sequential(build_block(16))(x)
    return keras.Model(inputs, layers.GlobalMaxPooling2D()(maps))


def build_dropping(image_size: int, weights: None):
    """The same network, which drops a third of its features in training."""
    import keras

    network = build_normalised(image_size, weights)
    return keras.Model(network.input, keras.layers.Dropout(0.3)(network.output))


def train_here(
    folder: Path,
    splits: dict | None = None,
    *,
    source: str = "",
    **asked: Any,
) -> Trained:
    """Train in this process, on one CPU by TensorFlow; from a source that is not the plan's."""
    config = TrainingConfig(**{"data_dir": "", **HERE, **asked})
    plan = config.plan(hardware.probe(), 48)
    return train_once(config, replace(plan, input=source or plan.input), folder, splits)


def train(
    folder: Path,
    config: Mapping[str, Any],
    *,
    number: int,
    impatient: bool = False,
    changes: Mapping[str, Any] = {},  # noqa: B006
) -> None:
    """One training as the notebooks make it; leaves the history, best.keras, result.json and
    weights.npz.

    One that is impatient calls no epoch better than another: its learning rate is halved again and
    again.
    """
    how = {"data_dir": "", "accelerator": "cpu", "image_size": SIZE, "learning_rate": 0.003}
    asked = TrainingConfig(**how | config)
    plan = replace(asked.plan(hardware.probe(), number), **changes)
    if impatient:
        hardware.activate(plan)  # before Keras is imported
        from keras import callbacks

        plateau = callbacks.ReduceLROnPlateau
        callbacks.ReduceLROnPlateau = lambda **how: plateau(
            **how | {"patience": 3, "min_delta": 100.0}
        )
    splits = None if asked.data_dir else draw_splits(number)
    trained = train_once(asked, plan, folder, splits=splits)
    import keras

    from dr_lib.training.fit import predict

    with trained.device.scope():
        loaded = keras.models.load_model(folder / BEST)
        validation = trained.splits["validation"]
        probability = predict(loaded, validation.images, 8)[:, 0]
    counters = [
        int(array)
        for name, array in read_arrays(folder / "checkpoint.npz").items()
        if name.startswith("optimizer/") and not array.shape and array.dtype.kind in "iu"
    ]
    kept_auc = roc_auc_score(validation.referable, probability)
    result = {**trained.row, "kept_auc": kept_auc, "iterations": max(counters)}
    (folder / "result.json").write_text(json.dumps(result))


def train_all(folder: Path, runs: Mapping[str, dict[str, Any]]) -> None:
    """Several trainings of one backend, each in a folder of its name."""
    for name, arguments in runs.items():
        train(folder / name, **arguments)


def read_arrays(checkpoint: Path) -> dict[str, np.ndarray]:
    """Weights, statistics, random state and optimiser of a checkpoint, and its best weights."""
    with np.load(checkpoint) as file:
        return {name: file[name] for name in file.files if name != "meta"}


def start(
    what: str,
    folder: Path,
    environment: Mapping[str, str] = {},
    **arguments: Any,  # noqa: B006
) -> subprocess.Popen:
    """Start this script in a process of its own."""
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.training.simulation",
            what,
            folder,
            json.dumps(arguments),
        ],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_code(code: str, backend: str, *arguments: str) -> str:
    """What code prints in a process of its own, in Keras on a backend."""
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def run(what: str, folder: Path, **arguments: Any) -> None:
    """Run this script in a process of its own."""
    process = start(what, folder, **arguments)
    out, _ = process.communicate()
    assert process.returncode == 0, out[-3000:]


def fork(folder: Path, arguments: dict) -> int:
    """Start the training in a child of this process, which has imported the backend and used
    nothing of it.
    """
    child = os.fork()
    if child == 0:
        folder.mkdir(parents=True, exist_ok=True)
        status = 1
        try:
            train(folder, **arguments)
            status = 0
        finally:
            os._exit(status)
    return child


def kill_at_random(
    folder: Path, arguments: dict, *, kills: int, window_s: float, seed: int
) -> None:
    """Train once into `straight`; then kill trainings at random moments, and inside the writing of
    a checkpoint, until there were enough of both and one left a checkpoint to go on from.

    A life ends at random between its start and `window_s` after its first epoch; a training that
    ends is kept, and the next one begins.
    """
    os.environ["KERAS_BACKEND"] = arguments["config"]["backend"]
    import keras  # noqa: F401, the children find it imported

    assert os.waitpid(fork(folder / "straight", arguments), 0)[1] == 0
    chance = random.Random(seed)
    done = 0
    found = 0
    left = 0
    trainings = 0
    while done < kills or found < 3 or left < 1:
        here = folder / f"training-{trainings}"
        unfinished = here / "checkpoint.npz.tmp"
        history = here / "history.csv"
        unfinished.unlink(missing_ok=True)
        before = history.stat().st_mtime_ns if history.exists() else 0
        child = fork(here, arguments)
        aims_inside = chance.random() < 0.4
        end = float("inf")
        if chance.random() < 0.2:  # so early that nothing may have happened
            end = time.monotonic() + chance.uniform(0, window_s)
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if (
                end == float("inf")
                and history.exists()
                and history.stat().st_mtime_ns != before
            ):
                end = time.monotonic() + chance.uniform(0, window_s)
            if unfinished.exists() if aims_inside else time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                done = done + 1
                found = found + unfinished.exists()
                left = left + (here / "checkpoint.npz").exists()
                break
            time.sleep(0.0002)
        else:
            trainings += 1
    os.waitpid(fork(folder / f"training-{trainings}", arguments), 0)
    (folder / "kills.json").write_text(json.dumps({"kills": done, "inside": found}))


if __name__ == "__main__":
    _, what, where, given = sys.argv
    folder = Path(where)
    folder.mkdir(parents=True, exist_ok=True)
    commands = {"train": train, "train_all": train_all, "kill": kill_at_random}
    commands[what](folder, **json.loads(given))
