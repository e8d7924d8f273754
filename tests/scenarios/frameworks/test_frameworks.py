"""All five frameworks do the same: each trains in a process of its own environment."""

import functools
import tempfile
from pathlib import Path

import pytest

from dr_lib.data.small_images import load_images
from dr_lib.runs.run import UnavailableError
from dr_lib.scenarios.frameworks.architecture import draw_weights
from dr_lib.scenarios.frameworks.program import PACKAGES
from dr_lib.scenarios.trainer import Trainer

SETTINGS = {
    "learning_rate": 0.001,
    "batch_size": 32,
    "seed": 3,
    "epochs": 2,
    "evaluate_every": 1,
    "accelerator": "cpu",
}


@functools.cache
def train_in(framework: str, network: int, dataset: str, side: int) -> dict:
    """Losses, accuracies and versions of a small training."""
    images = load_images(dataset, side, "synthetic", share=0.0032, seed=5)
    weights = draw_weights(network, side, images.x_train.shape[-1], seed=7)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        try:
            trainer = Trainer(images, weights, log, framework=framework, **SETTINGS)
        except UnavailableError as error:
            pytest.skip(str(error))
        losses = [loss for loss, _ in trainer.train()]
        return {"losses": losses, **trainer.finish(), **trainer.versions}


@pytest.mark.slow
@pytest.mark.parametrize("framework", PACKAGES)
@pytest.mark.parametrize("case", [(1, "mnist", 64), (2, "cifar10", 32)])
def test_frameworks_do_the_same(framework, case):
    """As TensorFlow, which is held against NumPy: losses of two epochs are alike to 1e-3 and fall,
    and so do they grade, but for a hundredth of the images.
    """
    found = train_in(framework, *case)
    expected = train_in("tensorflow", *case)
    first, second = found["losses"]
    assert [first, second] == pytest.approx(expected["losses"], rel=1e-3) and second < first
    for name in ("epoch_accuracy", "metric_accuracy_test"):
        assert found[name] == pytest.approx(expected[name], abs=0.01)
    assert found["backend"] == PACKAGES[framework][-1]
