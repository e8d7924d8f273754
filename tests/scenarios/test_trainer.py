"""A framework's process: it trains what it is given, and how it ends is told."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from dr_lib.data.small_images import ImageSet
from dr_lib.errors import DrError
from dr_lib.runs.monitor import Monitor
from dr_lib.runs.run import UnavailableError
from dr_lib.scenarios import environments
from dr_lib.scenarios.frameworks.architecture import draw_weights
from dr_lib.scenarios.frameworks.base import FixedBatches, Start
from dr_lib.scenarios.frameworks.program import open_network
from dr_lib.scenarios.trainer import Trainer
from tests.processes import run_python, wait_until

WEIGHTS = draw_weights(1, 8, 1, seed=3)
SETTINGS = {
    "framework": "tensorflow",
    "learning_rate": 0.01,
    "batch_size": 8,
    "seed": 1,
    "epochs": 3,
    "evaluate_every": 2,
    "accelerator": "cpu",
}
ENDLESS = """\
import sys
from pathlib import Path
from tests.scenarios.test_trainer import start
trainer = start(Path(sys.argv[1]), epochs=10**6)
for _ in trainer.train():
    print(trainer.pid, flush=True)
"""


def start(folder: Path, **changes: Any) -> Trainer:
    """A trainer on 40 small images."""
    rng = np.random.default_rng(0)
    x_train = rng.integers(0, 256, (40, 8, 8, 1), dtype=np.uint8)
    labels = np.arange(40) % 10
    images = ImageSet(x_train, labels, x_train[:10], labels[:10], "synthetic")
    return Trainer(images, WEIGHTS, folder / "log", **SETTINGS | changes)


def test_a_process_does_what_the_network_does_here(tmp_path):
    """Losses and accuracies are those of the same network in this process, to the bit; the monitor
    watches that process.
    """
    trainer = start(tmp_path)
    with Monitor(tmp_path / "samples.csv", 0.1, pid=trainer.pid) as monitor:
        epochs = list(trainer.train())
    measured = trainer.finish()
    assert not psutil.pid_exists(trainer.pid)

    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, 8, 8, 1), dtype=np.uint8)
    labels = np.arange(40) % 10
    network = open_network("tensorflow", Start(WEIGHTS, (8, 8, 1)))
    losses = []
    accuracies = []

    def note(epoch: int, loss: float, seconds: float) -> None:
        losses.append(loss)
        accuracies.append((network.forward(images[:10]).argmax(axis=1) == labels[:10]).mean())

    network.fit(FixedBatches(images, labels, 8, seed=1), 3, note)
    assert [loss for loss, _ in epochs] == losses
    assert measured["epoch_accuracy"] == accuracies[1:2]
    assert measured["metric_accuracy_test"] == accuracies[2]
    assert sum(seconds for _, seconds in epochs) <= measured["train_s"]
    assert monitor.summarise()["process_peak_mib"] > 200  # TensorFlow's


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it ends with its epoch")
def test_a_notebook_that_is_killed_takes_the_process_with_it(tmp_path):
    """In the middle of an epoch, however long that takes: here the process stands still."""
    with run_python(ENDLESS, tmp_path) as notebook:
        process = psutil.Process(int(notebook.stdout.readline()))
        process.suspend()
        notebook.send_signal(signal.SIGKILL)
        notebook.wait()
        try:
            wait_until(lambda: not process.is_running() or process.status() == "zombie")
        finally:
            with suppress(psutil.NoSuchProcess):
                process.kill()


def test_a_process_that_dies_says_why(tmp_path):
    """Killed in a training, and by an exception, whose traceback is in the log."""
    trainer = start(tmp_path, epochs=10**6)
    with pytest.raises(DrError, match=r"process died \(SIGKILL\): it was killed or out of"):
        for _ in trainer.train():
            os.kill(trainer.pid, signal.SIGKILL)
    words = r"process died \(exit status 1\): ValueError: "
    with pytest.raises(DrError, match=words):
        start(tmp_path, learning_rate="x")
    assert "Traceback" in (tmp_path / "log").read_text()


def test_a_training_that_diverges_or_is_interrupted_ends_its_process(tmp_path):
    """Nobody pays for what cannot succeed, or is not wanted any more."""
    trainer = start(tmp_path, learning_rate=1e20)
    with pytest.raises(DrError, match="the loss is .* in epoch 1: lower"):
        next(trainer.train())
    assert not psutil.pid_exists(trainer.pid)
    trainer = start(tmp_path, epochs=10**6)
    epochs = trainer.train()
    next(epochs)
    with pytest.raises(KeyboardInterrupt):
        epochs.throw(KeyboardInterrupt)
    assert not psutil.pid_exists(trainer.pid)


def test_without_a_gpu_or_the_framework_a_training_is_unavailable(tmp_path, monkeypatch):
    """Nothing is trained on a CPU in place of a GPU."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    with pytest.raises(UnavailableError, match="computes on the cpu, not on the gpu: install"):
        start(tmp_path, accelerator="gpu")
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    with pytest.raises(UnavailableError, match="-m dr_lib environments mxnet sets it up"):
        start(tmp_path, framework="mxnet")
