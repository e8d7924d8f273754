"""Train the networks of the comparison in one framework: python one_framework.py FRAMEWORK OUT.npz.

Runs in the framework's own environment, so it needs no pytest; `test_frameworks.py` compares what
the frameworks leave.
"""

import sys

import numpy as np

from dr_lib.data.small_images import load_images
from dr_lib.scenarios.frameworks.architecture import draw_weights
from dr_lib.scenarios.frameworks.base import FixedBatches, Start
from dr_lib.scenarios.frameworks.program import PACKAGES, open_network
from dr_lib.training.versions import read_versions

CASES = [(1, "mnist", 64), (2, "cifar10", 32)]


def train_case(
    framework: str, network: int, dataset: str, image_size: int
) -> dict[str, np.ndarray]:
    """Logits before and after, losses, weights and the order of the images of one network."""
    images = load_images(dataset, image_size, "synthetic", share=0.0032, seed=5)
    shape = images.x_train.shape[1:]
    first = draw_weights(network, image_size, shape[-1], seed=7)
    batches = FixedBatches(images.x_train[:160], images.y_train[:160], 32, seed=3)
    model = open_network(framework, Start(first, shape, learning_rate=0.001))
    losses = []
    evaluated = []

    def note(epoch: int, loss: float, epoch_s: float) -> None:
        losses.append(loss)
        evaluated.append(model.forward(images.x_test))

    before = model.forward(images.x_test)
    model.fit(batches, 2, note)
    return {
        "before": before,
        "evaluated": np.stack(evaluated),
        "losses": np.array(losses),
        "after": model.forward(images.x_test),
        "first": np.concatenate([w.ravel() for w in first]),
        "order": np.stack([batches.draw_order(epoch) for epoch in range(2)]),
        "versions": np.array(str(read_versions(*PACKAGES[framework]))),
    }


if __name__ == "__main__":
    found = {}
    for case in CASES:
        results = train_case(sys.argv[1], *case)
        found |= {"-".join(map(str, (*case, name))): each for name, each in results.items()}
    np.savez(sys.argv[2], **found)
