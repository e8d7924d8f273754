"""One way to call every artifact: the same probabilities, the threads asked for, and errors that
say what to do.
"""

import re
import subprocess
import sys

import keras
import numpy as np
import pytest

from dr_lib.command import write_install
from dr_lib.errors import DrError
from dr_lib.rooms.serving.export.convert import FORMATS, convert
from dr_lib.rooms.serving.export.runtimes import (
    RUNTIMES,
    open_runtime,
    pin_tensorflow,
)
from dr_lib.training.model_folder import read_folder
from tests.rooms.serving.stand_in import ROOT, draw_crops

pytestmark = pytest.mark.slow
CLOSE = {"float32": 1e-4, "": 1e-4, "predict": 1e-6, "float16": 0.02}  # int8: 0.3


@pytest.fixture(scope="module")
def artifacts(source, exported):
    """The artifact in every format; read only."""
    folders = {"keras": source} | {name: exported[0] / name for name in FORMATS}
    return {name: read_folder(folder).artifact for name, folder in folders.items()}


@pytest.mark.parametrize("name", RUNTIMES)
def test_every_runtime_gives_the_networks_probabilities(network, artifacts, name):
    """(n, 5) float32 for any n, one by one the same as together, and its own array each time."""
    crops = draw_crops(20, seed=3)
    predict = open_runtime(name, artifacts[RUNTIMES[name]], num_threads=0)
    together = predict(crops)
    assert together.shape == (20, 5) and together.dtype == np.float32
    difference = np.abs(together - network.predict(crops, verbose=0)).max()
    assert difference < CLOSE.get(name.partition("_")[2], 0.3)
    kept = together.copy()
    single = np.concatenate([predict(crop[None]) for crop in crops])
    # a dynamic format rounds by what it is given
    assert np.abs(single - together).max() < (0.05 if "dynamic" in name else 1e-5)
    assert (together == kept).all()


def test_a_missing_runtime_is_named(artifacts, monkeypatch):
    """The message is the command that installs it, whatever a module's own name is."""
    for module in ("ai_edge_litert", "ai_edge_litert.interpreter"):
        # what Python does for a package that is not there
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "dr_lib.rooms.serving.grader.litert", raising=False)
    with pytest.raises(DrError, match=re.escape(write_install("ai-edge-litert"))):
        open_runtime("litert_int8", artifacts["litert_int8"])


def test_refuses_what_cannot_be_opened(artifacts, tmp_path):
    """Negative threads, nothing there, another kind of file, and a folder without a manifest."""
    with pytest.raises(DrError, match="give 1 or more"):
        open_runtime("savedmodel", artifacts["savedmodel"], num_threads=-1)
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


def test_one_thread_is_one_thread(tmp_path):
    """One of the process's threads does most of the work of 40 predictions, whatever else the
    machine does: two that shared it would do half each, and Keras's own Python, in a thread of its
    own, takes up to a quarter.
    """
    crops = draw_crops(2, side=128)
    inputs = keras.Input((128, 128, 3), dtype="uint8")
    # work enough for many threads
    x = keras.layers.Conv2D(64, 3)(keras.layers.Rescaling(1 / 255)(inputs))
    x = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(64, 3)(x))
    network = keras.Model(inputs, keras.layers.Dense(5, activation="softmax")(x))
    network.save(tmp_path / "keras.keras")
    for name in ("savedmodel", "litert_int8"):
        convert(network, name, tmp_path / name, calibration=crops)
    code = (
        "import pathlib, sys, numpy as np, psutil\nfrom dr_lib.rooms.serving.export.runtimes import"
        " RUNTIMES, open_runtime\nimage = np.zeros((1, 128, 128, 3), np.uint8)\nfor name in"
        " sys.argv[2:]:\n    format_name = RUNTIMES[name].replace('keras', 'keras.keras')\n   "
        " predict = open_runtime(name, pathlib.Path(sys.argv[1]) / format_name)\n    for _ in"
        " range(3): predict(image)\n    before = {thread.id: thread.user_time + thread.system_time"
        " for thread in psutil.Process().threads()}\n    for _ in range(40): predict(image)\n   "
        " used = [t.user_time + t.system_time - before.get(t.id, 0) for t in"
        " psutil.Process().threads()]\n    print(name, max(used) / sum(used))\n"
    )
    names = ["keras_predict", "savedmodel", "litert_int8"]
    command = [sys.executable, "-c", code, str(tmp_path), *names]
    output = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    used = {
        name: float(share)
        for name, share in (line.split() for line in output.splitlines()[-len(names) :])
    }
    assert list(used) == names and min(used.values()) >= 0.65, used
