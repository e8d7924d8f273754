"""All five frameworks do the same: each trains in a process of its own environment, and the results are compared."""

import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = Path(__file__).with_name("one_framework.py")
KERNELS = {"keras_torch": "dr-torch", "pytorch": "dr-torch", "mxnet": "dr-mxnet"}
BACKENDS = {"keras_jax": "jax", "keras_torch": "torch", "pytorch": "torch", "mxnet": "mxnet"}
NAMES = ("tensorflow", *BACKENDS)
CASES = ["1-mnist-32", "2-cifar10-32", "1-cifar10-64"]

pytestmark = pytest.mark.slow


def find_python(framework: str) -> str:
    """The interpreter of a framework: that of its Jupyter kernel, or this one."""
    if framework not in KERNELS:
        if framework == "keras_jax" and importlib.util.find_spec("jax") is None:
            pytest.skip("JAX is not installed here")
        return sys.executable
    try:
        return KernelSpecManager().get_kernel_spec(KERNELS[framework]).argv[0]
    except NoSuchKernel:
        pytest.skip(f"no kernel {KERNELS[framework]}: python -m dr_lib kernels sets it up")


@functools.cache
def train_in(framework: str) -> dict[str, np.ndarray]:
    """What the framework left of all cases."""
    python = find_python(framework)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KERAS_")}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "results.npz")
        command = [python, str(SCRIPT), framework, str(out)]
        environment |= {"PYTHONPATH": str(ROOT)}
        ran = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=300)
        assert ran.returncode == 0, ran.stderr[-2000:]
        with np.load(out, allow_pickle=False) as file:
            return dict(file)


@pytest.mark.parametrize("framework", BACKENDS)
@pytest.mark.parametrize("case", CASES)
def test_the_forward_pass_is_the_same(framework, case):
    """The same weights give the logits of TensorFlow, which is held against NumPy, to 1e-4 of the largest."""
    wanted, found = (train_in(name)[f"{case}-before"] for name in ("tensorflow", framework))
    assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()


@pytest.mark.parametrize("framework", BACKENDS)
@pytest.mark.parametrize("case", CASES)
def test_the_loss_falls_alike(framework, case):
    """Two epochs of five steps have the losses of TensorFlow to 1e-3, and the second is lower."""
    wanted, found = (train_in(name)[f"{case}-losses"][:, 1] for name in ("tensorflow", framework))
    assert found == pytest.approx(wanted, rel=1e-3)
    assert found[1] < found[0]


@pytest.mark.parametrize("framework", NAMES)
@pytest.mark.parametrize("case", CASES)
def test_weights_and_batches_are_the_same_to_the_bit(framework, case):
    """Every kernel's NumPy draws the same weights and orders."""
    wanted, found = train_in("tensorflow"), train_in(framework)
    for name in ("first", "order"):
        assert (found[f"{case}-{name}"] == wanted[f"{case}-{name}"]).all()


@pytest.mark.parametrize("framework", NAMES)
@pytest.mark.parametrize("case", CASES)
def test_an_evaluation_sees_the_weights_of_its_epoch(framework, case):
    """At the end of an epoch the network already has that epoch's weights, and evaluating leaves them alone."""
    found = train_in(framework)
    first, last = found[f"{case}-evaluated"]
    assert np.abs(first - found[f"{case}-before"]).max() > 1e-3
    assert np.abs(last - found[f"{case}-after"]).max() <= 1e-5


@pytest.mark.parametrize("framework", NAMES)
def test_each_says_what_computes(framework):
    """The backend is the one asked for."""
    versions = json.loads(str(train_in(framework)["1-mnist-32-versions"]))
    assert versions["backend"] == BACKENDS.get(framework, "tensorflow") and versions[versions["backend"]]
