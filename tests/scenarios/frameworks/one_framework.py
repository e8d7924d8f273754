"""Train the networks of the comparison in one framework: python one_framework.py FRAMEWORK OUT.npz.

Runs in the framework's own environment, so it needs no pytest; `test_frameworks.py` compares what
the frameworks leave.
"""

import json
import sys

import numpy as np

from dr_lib.data.small_images import load_images
from dr_lib.scenarios.frameworks.architecture import build_layers, draw_weights
from dr_lib.scenarios.frameworks.batches import FixedBatches
from dr_lib.scenarios.frameworks.program import PACKAGES, open_network
from dr_lib.training.versions import read_versions

CASES = [(1, "mnist", 64), (2, "cifar10", 32)]
BATCH_SIZE = 32
STEPS = 5
EPOCHS = 2
LEARNING_RATE = 0.001


def train_case(
    framework: str, network: int, dataset: str, image_size: int
) -> dict[str, np.ndarray]:
    """Logits before and after, losses, seconds, weights and the order of the images of one
    network.
    """
    images = load_images(dataset, image_size, "synthetic", share=0.0032, seed=5)
    layers = build_layers(network, image_size, images.x_train.shape[3])
    first = draw_weights(layers, seed=7)
    batches = FixedBatches(
        images.x_train[: BATCH_SIZE * STEPS],
        images.y_train[: BATCH_SIZE * STEPS],
        BATCH_SIZE,
        seed=3,
    )
    model = open_network(framework, layers, first, learning_rate=LEARNING_RATE)
    losses = []
    seconds = []
    evaluated = []

    def note(epoch: int, loss: float, epoch_s: float) -> None:
        losses.append((epoch, loss))
        seconds.append(epoch_s)
        evaluated.append(model.forward(images.x_test))

    before = model.forward(images.x_test)
    model.fit(batches, EPOCHS, note)
    return {
        "before": before,
        "evaluated": np.stack(evaluated),
        "losses": np.array(losses),
        "seconds": np.array(seconds),
        "after": model.forward(images.x_test),
        "first": np.concatenate([w.ravel() for w in first]),
        "order": np.concatenate(
            [labels for epoch in range(EPOCHS) for _, labels in batches.epoch(epoch)]
        ),
        "versions": np.array(json.dumps(read_versions(*PACKAGES[framework]))),
    }


if __name__ == "__main__":
    found = {}
    for case in CASES:
        results = train_case(sys.argv[1], *case)
        found.update(
            {"-".join(map(str, (*case, name))): array for name, array in results.items()}
        )
    np.savez(sys.argv[2], **found)
