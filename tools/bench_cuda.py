"""Measured comparisons of the CUDA network: python -m tools.bench_cuda [mnist.npz].

The library built for this CPU against Keras on TensorFlow, or on JAX where there is no other: the
same network, batch, optimiser and images in memory, wall time of an epoch, in turns.
tools/bench_gpu.py asks a GPU.
"""

import os
import sys
from functools import partial
from importlib.util import find_spec

BACKEND = os.environ["KERAS_BACKEND"] = "tensorflow" if find_spec("tensorflow") else "jax"

import keras
import numpy as np

from dr_lib.data.small_images import load_mnist
from dr_lib.rooms.mnist import cuda as mnist
from dr_lib.rooms.mnist.build import build
from dr_lib.rooms.mnist.reference import MnistReference
from tools.bench import describe, time_in_turn

REPEATS = 11
CASES = (  # implementation, batch size, images of an epoch, times that ours shall be as fast
    ("fused", 1, 2_000, 100),
    ("minibatch", 32, 12_000, 7),
    ("minibatch", 128, 24_000, 4),
)


def main() -> None:
    """Print, of each case, microseconds an image of Keras and of the library on all cores of this
    CPU, and the ratio.
    """
    data = load_mnist(sys.argv[1] if len(sys.argv) > 1 else "keras")
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
        # one test image: the comparison is of training
        images = (x, y, x[:1], y[:1])
        (times,) = time_in_turn(
            partial(mnist.train, library, *images, **asked),
            partial(reference_network.train, *images, epochs=1),
            repeats=REPEATS,
        )
        us, reference_us = 1e6 * np.median(times, axis=1) / number
        ratio = times[1] / times[0]
        verdict = "reached" if np.median(ratio) >= goal else "missed"
        print(
            f"Keras / {implementation}, batch {batch_size}, CPU: {reference_us:.1f} us / {us:.2f}"
            f" us an image = {describe(ratio)} times, goal {goal} {verdict}"
        )


if __name__ == "__main__":
    main()
