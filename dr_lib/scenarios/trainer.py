"""Train a network of paper C in a process of its framework's environment, watched from here."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dr_lib.command import ROOT
from dr_lib.data.small_images import ARRAYS, ImageSet
from dr_lib.errors import DrError
from dr_lib.processes import explain_end
from dr_lib.runs.run import UnavailableError
from dr_lib.scenarios.environments import find_python


class Trainer:
    """A process that has built a network in a framework, and waits: `train`, then `finish`.

    It ends with this process on Linux, elsewhere with its epoch.
    """

    def __init__(
        self, images: ImageSet, weights: Sequence[np.ndarray], log: Path, **settings: Any
    ):
        """Start the process, and wait until the network is built.

        Args:
            images: to train and test on.
            weights: that the network begins with, from `draw_weights`.
            log: file that gets what the framework prints.
            settings: framework, learning_rate, batch_size, seed, epochs, evaluate_every, and
                accelerator, cpu or gpu.

        Raises:
            UnavailableError: the framework is not installed, or sees no GPU.
            DrError: the process died; the message has its last words.
        """
        framework = settings["framework"]
        python = find_python(framework)
        self._epochs = settings["epochs"]
        self._log = log
        with tempfile.TemporaryDirectory() as folder, log.open("wb") as file:
            arrays = zip(ARRAYS, images, strict=False)
            np.savez(Path(folder, "arrays.npz"), *weights, **dict(arrays))
            program = ["-m", "dr_lib.scenarios.frameworks.program"]
            self._process = subprocess.Popen(
                [python, *program, folder, json.dumps(settings)],
                cwd=ROOT,
                env=_set_environment(python, framework, settings["accelerator"]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                encoding="utf-8",
            )
            self.pid = self._process.pid
            self.versions: dict[str, str] = self._read(UnavailableError)

    def train(self) -> Iterator[tuple[float, float]]:
        """Train; yield each epoch's mean loss and seconds when it has ended.

        Raises:
            DrError: the training diverged, or the process died.
        """
        self._process.stdin.close()
        try:
            for _ in range(self._epochs):
                answer = self._read(DrError)
                yield answer["loss"], answer["seconds"]
        except BaseException:  # an interrupt, too
            with self._process:
                self._process.kill()
            raise

    def finish(self) -> dict[str, Any]:
        """Wait for the test of the trained network, and the end of the process.

        Returns:
            Columns of the row: train_s, cpu_s, epoch_accuracy, metric_accuracy_test,
            device_peak_mib.

        Raises:
            DrError: the process died.
        """
        with self._process:  # closes its pipes
            return self._read(DrError)

    def _read(self, fault: type[DrError]) -> dict[str, Any]:
        """Read an answer; raise what it says is wrong, or how the process died."""
        line = self._process.stdout.readline()
        answer = json.loads(line or "{}")
        if answer and "error" not in answer:
            return answer
        with self._process:
            code = self._process.wait()
        if answer:
            raise fault(answer["error"])
        printed = self._log.read_text(encoding="utf-8", errors="replace")
        raise DrError(f"the framework's process {explain_end(code, printed)}")


def _set_environment(python: str, framework: str, accelerator: str) -> dict[str, str]:
    """Set the process's variables: a CPU's sees no GPU, and MXNet the libraries that pip brought,
    which it does not find by itself.
    """
    environment = dict(os.environ)
    if accelerator == "cpu":
        environment.update(CUDA_VISIBLE_DEVICES="-1", KERAS_TORCH_DEVICE="cpu")
    if framework == "mxnet":
        folders = Path(python).parents[1].glob("lib/python3*/site-packages/nvidia/*/lib")
        paths = [*map(str, folders), environment.get("LD_LIBRARY_PATH")]
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    return environment
