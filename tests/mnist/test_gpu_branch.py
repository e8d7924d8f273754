"""The lines that are written for a GPU, run by threads of the system: the same results."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dr_lib.mnist import build
from dr_lib.mnist import cuda as mnist

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def threads(tmp_path_factory) -> build.Library:
    """The GPU's branch on threads."""
    library = tmp_path_factory.mktemp("threads") / "threads.so"
    compiler = shutil.which(os.environ.get("CXX") or "c++")
    flags = f"-x c++ -std=c++17 -O1 -shared -fPIC -include {HERE / 'gpu_on_threads.h'}".split()
    subprocess.run([compiler, *flags, build.SOURCE, "-o", library], check=True)
    return build.Library(library, "gpu")


@pytest.mark.parametrize(("implementation", "batch_size"), [("fused", 1), ("minibatch", 2)])
def test_it_computes_what_the_cpu_does(threads, library, digits, implementation, batch_size):
    """Gradients, which are compared with automatic differentiation on the CPU, outputs where some
    blocks have no image, and the weights of two epochs of 5 images, the last batch not full.
    """
    weights = mnist.initial_weights(3)
    x, y = (array[:5] for array in digits[:2])
    asked = {"implementation": implementation}
    trained = (implementation, [x, y], 2, batch_size, 0.05, 0)
    for found, wanted in (
        [
            mnist.flatten(mnist.gradients(on, weights, x, y, **asked))
            for on in (threads, library)
        ],
        [mnist.forward(on, weights, x, **asked) for on in (threads, library)],
        [mnist.train_weights(on, *trained)[0] for on in (threads, library)],
    ):
        assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.slow
def test_the_papers_way_trains_as_fused_does(threads, library, digits):
    """Many small kernels and one launch end in the same weights after an image."""
    # 20 s, all threads of a GPU on a CPU
    asked = ([array[:1] for array in digits[:2]], 1, 1, 0.1, 0)
    found = mnist.train_weights(threads, "paper", *asked)[0]
    assert np.abs(found - mnist.train_weights(library, "fused", *asked)[0]).max() <= 1e-6
