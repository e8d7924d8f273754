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
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from dr_lib import hardware

ROOT = Path(__file__).resolve().parents[2]
SIZE = 32  # side of the pictures [px]


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


def build_normalised(image_size: int, weights: None):
    """Two convolutions with batch normalisation, as keras.applications has them: no bias before
    it.
    """
    import keras
    from keras import layers

    x = inputs = keras.Input((image_size, image_size, 3))
    for filters in (8, 16):
        x = layers.Conv2D(filters, 3, strides=2, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    return keras.Model(inputs, x)


def train(
    folder: Path,
    config: Mapping[str, Any],
    *,
    number: int,
    normalised: bool = False,
    impatient: bool = False,
    dropout: float = 0.0,
    precision: str = "",
    steps: int | None = None,
    of_machine: Mapping[str, dict[str, Any]] = {},  # noqa: B006
) -> None:
    """One training as the notebooks make it; leaves the history, best.keras, result.json and
    weights.npz.

    One that is impatient calls no epoch better than another: its learning rate is halved again and
    again.
    """
    from dr_lib.training import config as config_module
    from dr_lib.training.train_once import BEST, train_once

    how = {"data_dir": "", "accelerator": "cpu", "image_size": SIZE, "learning_rate": 0.003}
    asked = config_module.TrainingConfig(
        **how | config | of_machine.get(os.environ.get("DR_LIB_MACHINE", ""), {})
    )
    config_module.RECIPES["full"] = config_module.Recipe(dropout=dropout)
    plan = asked.plan(hardware.probe(), number)
    if precision:
        plan = replace(plan, precision=precision)
    if steps is not None:
        plan = replace(plan, steps_per_execution=steps)
    splits = None if asked.data_dir else draw_splits(number)
    if normalised or impatient:
        hardware.activate(plan)  # before Keras is imported
    if normalised:
        from dr_lib.training import models

        small_cnn = models.NETWORKS["small_cnn"]
        models.NETWORKS["small_cnn"] = small_cnn._replace(build=build_normalised)
    if impatient:
        from keras import callbacks

        plateau = callbacks.ReduceLROnPlateau
        callbacks.ReduceLROnPlateau = lambda **how: plateau(
            **how | {"patience": 3, "min_delta": 100.0}
        )
    trained = train_once(asked, plan, folder, splits=splits)
    import keras

    from dr_lib.training.fit import predict

    with trained.device.scope():
        loaded = keras.models.load_model(folder / BEST)
        validation = trained.splits["validation"]
        probability = predict(loaded, validation.images, 8)[:, 0]
    result = trained.row | {"kept_auc": roc_auc_score(validation.referable, probability)}
    if trained.device.machine.place.rank:
        return
    with np.load(folder / "checkpoint.npz") as file:
        scalars = [
            file[name]
            for name in file.files
            if name.startswith("optimizer/") and not file[name].shape
        ]
        result["iterations"] = max(int(array) for array in scalars if array.dtype.kind in "iu")
    (folder / "result.json").write_text(json.dumps(result))


def train_all(folder: Path, runs: Mapping[str, dict[str, Any]]) -> None:
    """Several trainings of one backend, each in a folder of its name."""
    for name, arguments in runs.items():
        train(folder / name, **arguments)


def read_arrays(checkpoint: Path) -> dict[str, np.ndarray]:
    """Weights, statistics, random state and optimiser of a checkpoint, and its best weights."""
    with np.load(checkpoint) as file:
        return {name: file[name] for name in file.files if name != "meta"}


def run(what: str, folder: Path, **arguments: Any) -> None:
    """Run this script in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "tests.training.simulation",
        what,
        folder,
        json.dumps(arguments),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def start_machines(
    what: str, folder: Path, count: int, port: int, **arguments: Any
) -> list[subprocess.Popen]:
    """Start this script once for each of several machines, all of them here, each in a folder of
    its own.
    """
    processes = []
    for rank in range(count):
        place = {"DR_LIB_COORDINATOR": f"127.0.0.1:{port}", "DR_LIB_NUM_MACHINES": str(count)}
        where = folder / f"machine-{rank}"
        command = [
            sys.executable,
            "-m",
            "tests.training.simulation",
            what,
            where,
            json.dumps(arguments),
        ]
        place |= {"DR_LIB_MACHINE": str(rank)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        processes.append(
            subprocess.Popen(command, cwd=ROOT, env={**os.environ, **place}, **pipes)
        )
    return processes


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
    """Kill trainings at random moments, and inside the writing of a checkpoint, until there were
    enough of both.

    A life ends at random between its start and `window_s` after its first epoch; a training that
    ends is kept, and the next one begins.
    """
    os.environ["KERAS_BACKEND"] = arguments["config"]["backend"]
    import keras  # noqa: F401, the children find it imported

    chance = random.Random(seed)
    done = 0
    inside = 0
    trainings = 0
    while done < kills or inside < 3:
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
                inside = inside + unfinished.exists()
                break
            time.sleep(0.0002)
        else:
            trainings += 1
    os.waitpid(fork(folder / f"training-{trainings}", arguments), 0)
    (folder / "kills.json").write_text(json.dumps({"kills": done, "inside": inside}))


if __name__ == "__main__":
    what = sys.argv[1]
    where = Path(sys.argv[2])
    given = json.loads(sys.argv[3])
    where.mkdir(parents=True, exist_ok=True)
    {
        "train": train,
        "train_all": train_all,
        "kill": kill_at_random,
    }[what](where, **given)
