"""Measured comparisons of the CUDA network: python tools/bench_cuda.py [mnist.npz].

The library built for this CPU against Keras on TensorFlow, or on JAX where there is no other: the
same network, batch, optimiser and images in memory, wall time of an epoch, in turns.
tools/bench_gpu.py asks a GPU.
"""

import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
BACKEND = os.environ["KERAS_BACKEND"] = "tensorflow" if find_spec("tensorflow") else "jax"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import keras
import numpy as np

from dr_lib.data.small_images import load_mnist
from dr_lib.rooms.mnist import cuda as mnist
from dr_lib.rooms.mnist.build import build
from dr_lib.rooms.mnist.reference import MnistReference
from tools.in_turn import time_in_turn

REPEATS = 11
CASES = (  # implementation, batch size, images of an epoch, times that ours shall be as fast
    ("fused", 1, 2_000, 100),
    ("minibatch", 32, 12_000, 7),
    ("minibatch", 128, 24_000, 4),
)


def compare(
    what: str,
    ours: Callable[[], object],
    reference: Callable[[], object],
    images: int,
    goal: float,
) -> None:
    """Run both in turn after one warm-up; print the medians in us an image, and the ratio's
    median and quartiles.
    """
    times = 1e6 * time_in_turn(ours, reference, REPEATS) / images
    low, median, high = np.percentile(times[1] / times[0], [25, 50, 75])
    medians = f"{np.median(times[1]):.1f} us / {np.median(times[0]):.2f} us an image"
    verdict = "reached" if median >= goal else "missed"
    print(
        f"{what}: {medians} = {median:.1f}x [{low:.1f}, {high:.1f}], n = {REPEATS}, goal {goal}x"
        f" {verdict}"
    )


def compare_cpu(data: tuple[np.ndarray, ...]) -> None:
    """Keras against the library on all cores of this CPU."""
    library = build("cpu")
    print(
        f"{library.device}, {library.num_multiprocessors} cores, keras {keras.__version__} on"
        f" {BACKEND}"
    )
    for implementation, batch_size, number, goal in CASES:
        x, y = (array[:number] for array in data[:2])
        weights = mnist.initial_weights(0)
        reference_network = MnistReference(
            BACKEND, weights, batch_size=batch_size, learning_rate=0.02
        )
        asked = {"implementation": implementation, "epochs": 1, "batch_size": batch_size}

        def ours(x=x, y=y, asked=asked):
            # one test image: the comparison is of training
            mnist.train(library, x, y, x[:1], y[:1], **asked)

        def reference(network=reference_network, x=x, y=y):
            network.train(x, y, x[:1], y[:1], epochs=1)

        compare(
            f"Keras / {implementation}, batch {batch_size}, CPU", ours, reference, number, goal
        )


def main() -> None:
    """Print every comparison."""
    compare_cpu(load_mnist(sys.argv[1] if len(sys.argv) > 1 else "keras"))


if __name__ == "__main__":
    main()
