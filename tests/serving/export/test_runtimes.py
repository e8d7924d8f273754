"""One way to call every artifact: the same probabilities, the threads asked for, and errors that
say what to do.
"""

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import psutil
import pytest

from dr_lib.errors import DrError
from dr_lib.serving.export.convert import FORMATS, convert
from dr_lib.serving.export.runtimes import (
    RUNTIMES,
    open_runtime,
    pin_tensorflow,
)
from dr_lib.training.model_folder import read_folder
from tests.serving.stand_in import ROOT, draw_crops

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def artifacts(source, exported):
    """The artifact in every format; read only."""
    folders = {"keras": source} | {name: exported[0] / name for name in FORMATS}
    return {name: read_folder(folder).artifact for name, folder in folders.items()}


@pytest.mark.parametrize("name", RUNTIMES)
def test_every_runtime_takes_any_number(artifacts, name):
    """(n, 5) float32, one by one the same as together, and its own array each time."""
    crops = draw_crops(4, seed=3)
    predict = open_runtime(name, artifacts[RUNTIMES[name]], num_threads=0)
    together = predict(crops)
    assert together.shape == (4, 5) and together.dtype == np.float32
    kept = together.copy()
    single = np.concatenate([predict(crop[None]) for crop in crops])
    # a dynamic format rounds by what it is given
    assert np.abs(single - together).max() < (0.05 if "dynamic" in name else 1e-5)
    assert (together == kept).all()


def test_refuses_what_cannot_be_opened(artifacts, tmp_path):
    """Nothing there, another kind of file, and a folder without a model."""
    for name in ("keras_predict", "savedmodel", "litert_int8"):
        other = artifacts["litert_float32" if name == "keras_predict" else "keras"]
        for wrong in (other, tmp_path, tmp_path / "missing"):
            with pytest.raises(DrError, match=f"cannot be opened as {name}"):
                open_runtime(name, wrong, num_threads=0)


def test_tensorflow_that_has_computed_keeps_its_threads(network):
    """It would go on with the old number without a word; the message says when to call."""
    network.predict(draw_crops(1), verbose=0)
    with pytest.raises(DrError, match=r"call pin_tensorflow\(3\) before any use"):
        pin_tensorflow(3)


def print_shares(folder, *names):
    """Print for each runtime which share of the work one thread of this process does."""

    def read_times():
        return {thread.id: sum(thread[1:]) for thread in psutil.Process().threads()}

    image = np.zeros((1, 128, 128, 3), np.uint8)
    for name in names:
        predict = open_runtime(name, Path(folder) / name)
        for _ in range(3):
            predict(image)
        before = read_times()
        for _ in range(40):
            predict(image)
        used = [time - before.get(thread, 0) for thread, time in read_times().items()]
        print(name, max(used) / sum(used))


def test_one_thread_is_one_thread(tmp_path):
    """One of the process's threads does most of the work of 40 predictions, whatever else the
    machine does: two that shared it would do half each.
    """
    names = ["savedmodel", "litert_int8"]
    crops = draw_crops(2, side=128)
    inputs = keras.Input((128, 128, 3), dtype="uint8")
    # work enough for many threads
    x = keras.layers.Conv2D(64, 3)(keras.layers.Rescaling(1 / 255)(inputs))
    x = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(64, 3)(x))
    network = keras.Model(inputs, keras.layers.Dense(5, activation="softmax")(x))
    for name in names:
        convert(network, name, tmp_path / name, calibration=crops)
    code = f"from {__name__} import print_shares as p; p({str(tmp_path)!r}, *{names})"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [line.split() for line in ran.stdout.splitlines()[-len(names) :]]
    assert [name for name, _ in lines] == names
    assert min(float(share) for _, share in lines) >= 0.65, lines
