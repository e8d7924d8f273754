"""The lines that are written for a GPU, run by threads of the system: the same results, and no
data race.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dr_lib.mnist import build
from dr_lib.mnist import cuda as mnist

HERE = Path(__file__).resolve().parent
FLAGS = (
    "-x",
    "c++",
    "-std=c++17",
    "-O1",
    "-shared",
    "-fPIC",
    "-include",
    str(HERE / "gpu_on_threads.h"),
)


def compile_for_threads(folder: Path, *flags: str, without_sync: int | None = None) -> Path:
    """The GPU's branch as a library, if asked to without one of its barriers."""
    for path in build.SOURCE.parent.glob("*.cu*"):
        shutil.copy(path, folder)
    source = folder / build.SOURCE.name
    library = folder / "threads.so"
    parts = source.read_text().split("  SYNC;\n")
    if without_sync is not None:
        parts[without_sync] += parts.pop(without_sync + 1)
    source.write_text("  SYNC;\n".join(parts))
    compiler = shutil.which(os.environ.get("CXX") or "g++") or "c++"
    subprocess.run([compiler, *FLAGS, *flags, str(source), "-o", str(library)], check=True)
    return library


@pytest.fixture(scope="module")
def threads(tmp_path_factory) -> build.Library:
    """The GPU's branch on threads."""
    return build.Library(compile_for_threads(tmp_path_factory.mktemp("threads")), "gpu")


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


TRAIN = """
import sys
from pathlib import Path
import numpy as np
from dr_lib.mnist import build, cuda as mnist
library, rng = build.Library(Path(sys.argv[1]), "gpu"), np.random.default_rng(0)
data = rng.integers(0, 256, (4, 28, 28)).astype(np.uint8), np.arange(4, dtype=np.uint8)
mnist.train_weights(library, "fused", data, 1, 1, 0.1, 0)
mnist.train_weights(library, "minibatch", data, 1, 2, 0.1, 0)
images = data[0].repeat(8, axis=0)[:20]
mnist.forward(library, mnist.initial_weights(0), images, implementation="fused")
"""


def find_races(folder: Path, without_sync: int | None = None) -> bool:
    """Whether ThreadSanitizer sees a race in a short training and evaluation."""
    library = compile_for_threads(folder, "-g", "-fsanitize=thread", without_sync=without_sync)
    compiler = shutil.which("g++") or "c++"
    asked = [compiler, "-print-file-name=libtsan.so"]
    runtime = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    environment = {**os.environ, "LD_PRELOAD": runtime, "PYTHONPATH": str(HERE.parents[1])}
    environment["TSAN_OPTIONS"] = (
        "ignore_noninstrumented_modules=1 report_signal_unsafe=0 exitcode=0"
    )
    command = [sys.executable, "-c", TRAIN, str(library)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return "data race" in ran.stderr


@pytest.mark.slow
def test_threads_never_race(tmp_path):
    """No thread reads or writes what another one writes without a barrier between them; without
    one of the seven, all of which were tried, a race is seen.
    """
    assert not find_races(tmp_path)
    assert find_races(tmp_path, without_sync=2)
