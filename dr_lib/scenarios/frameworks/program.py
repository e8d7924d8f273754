"""The program of a framework's process: build one network, train it and test it.

`Trainer` of `dr_lib.scenarios.trainer` starts it with a folder of arrays and settings in JSON. It
answers in lines of JSON, and trains when its input ends.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dr_lib.errors import DrError
from dr_lib.processes import end_with_parent
from dr_lib.scenarios.frameworks.base import FixedBatches, Network, Start
from dr_lib.training.versions import read_versions

# that each framework needs; the first one names the module of its network, the last computes
PACKAGES = {
    "tensorflow": ("keras", "tensorflow"),
    "keras_jax": ("keras", "jax"),
    "keras_torch": ("keras", "torch"),
    "pytorch": ("torch",),
    "mxnet": ("mxnet",),
}


def open_network(framework: str, start: Start) -> Network:
    """Build a network in a framework, one of PACKAGES, ready to train.

    Raises:
        DrError: the framework sees no GPU, or runs otherwise already.
    """
    name = PACKAGES[framework][0]
    if name == "keras":
        from dr_lib.hardware.devices import import_keras  # not for MXNet's Python

        import_keras(PACKAGES[framework][-1])
    module = importlib.import_module(f"dr_lib.scenarios.frameworks.{name}_network")
    return getattr(module, f"{name.title()}Network")(start)


def work(folder: str, settings: dict[str, Any], answer: Callable[..., None]) -> None:
    """Build a network, train it when the input ends, and test it.

    Args:
        folder: with the images, and the weights to begin with, in `arrays.npz`.
        settings: those of `Trainer`.
        answer: is given columns: the versions, each epoch's, and what was measured.
    """
    with np.load(Path(folder, "arrays.npz")) as file:
        arrays = dict(file)
    start = Start(
        [array for name, array in arrays.items() if name.startswith("arr_")],
        arrays["x_train"].shape[1:],
        settings["learning_rate"],
        settings["accelerator"],
    )
    network = open_network(settings["framework"], start)
    versions = read_versions(*PACKAGES[settings["framework"]])
    answer(**versions)
    sys.stdin.read()
    measured = train(network, arrays, settings, answer)
    device_peak_mib = None
    if versions["backend"] != "mxnet":
        from dr_lib.hardware import devices  # not for MXNet's Python

        device_peak_mib = devices.measure_device_peak(versions["backend"])
    answer(**measured, device_peak_mib=device_peak_mib)


def train(
    network: Network,
    arrays: dict[str, np.ndarray],
    settings: dict[str, Any],
    answer: Callable[..., None],
) -> dict[str, Any]:
    """Train a network, answer each epoch, and test it; return seconds and accuracies."""
    batches = FixedBatches(
        arrays["x_train"], arrays["y_train"], settings["batch_size"], settings["seed"]
    )
    every = settings["evaluate_every"]
    accuracies = []

    def measure_accuracy() -> float:
        found = network.forward(arrays["x_test"]).argmax(axis=1)
        return float((found == arrays["y_test"]).mean())

    def note(epoch: int, loss: float, seconds: float) -> None:
        answer(loss=loss, seconds=seconds)
        if every and (epoch + 1) % every == 0:
            accuracies.append(measure_accuracy())

    cpu_before = time.process_time()
    start = time.monotonic()
    network.fit(batches, settings["epochs"], note)
    return {
        "train_s": time.monotonic() - start,
        "cpu_s": time.process_time() - cpu_before,
        "epoch_accuracy": accuracies,
        "metric_accuracy_test": measure_accuracy(),
    }


def main(folder: str, settings: str) -> None:
    """Work as the settings say; end with the process that started this one."""
    end_with_parent()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a framework prints is no answer

    def answer(**columns: Any) -> None:
        print(json.dumps(columns), file=answers, flush=True)

    try:
        work(folder, json.loads(settings), answer)
    except DrError as error:
        answer(error=str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
