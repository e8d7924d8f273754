"""Open a network in the framework asked for, or say what is missing."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

from dr_lib.training.frameworks.architecture import Layer, NetworkError, check_weights
from dr_lib.training.frameworks.base import FrameworkError, Network, Setting


class _Home(NamedTuple):
    """Where a framework's network is, and what it needs."""

    module: str
    name: str
    packages: tuple[str, ...]


HOMES = {
    "tensorflow": _Home("keras_network", "KerasNetwork", ("keras", "tensorflow")),
    "keras_jax": _Home("keras_network", "KerasNetwork", ("keras", "jax")),
    "keras_torch": _Home("keras_network", "KerasNetwork", ("keras", "torch")),
    "pytorch": _Home("torch_network", "TorchNetwork", ("torch",)),
    "mxnet": _Home("mxnet_network", "MxnetNetwork", ("mxnet",)),
}


def open_network(
    framework: str,
    layers: tuple[Layer, ...],
    weights: list[np.ndarray],
    *,
    learning_rate: float = 0.01,
    momentum: float = 0.9,
    accelerator: str = "cpu",
) -> Network:
    """Build a network in a framework, with these weights, ready to train.

    Args:
        framework: tensorflow (Keras on it), keras_jax, keras_torch, pytorch or mxnet.
        layers: of the network, from `build_layers`.
        weights: that it begins with, from `draw_weights`.
        learning_rate: of stochastic gradient descent, positive.
        momentum: from 0 to less than 1.
        accelerator: cpu, never a GPU; or gpu, the framework's first.

    Raises:
        FrameworkError: the framework is unknown, is not installed here, sees no GPU, or runs otherwise already.
        NetworkError: the weights do not fit the layers, or the learning rate or the momentum is out of range.
    """
    if framework not in HOMES:
        raise FrameworkError(f"framework {framework!r}: choose from {', '.join(HOMES)}")
    if accelerator not in ("cpu", "gpu"):
        raise FrameworkError(f"accelerator {accelerator!r}: choose from cpu, gpu")
    if not (learning_rate > 0 and 0 <= momentum < 1):
        settings = f"learning_rate {learning_rate} and momentum {momentum}"
        raise NetworkError(f"{settings}: the first must be positive, the second from 0 to less than 1")
    check_weights(layers, weights)
    check_packages(framework, HOMES[framework].packages)
    return _import_class(framework, accelerator)(Setting(layers, weights, learning_rate, momentum, accelerator))


def check_packages(framework: str, needed: tuple[str, ...]) -> None:
    """Say what is missing before anything is imported by halves."""
    missing = [name for name in needed if name not in sys.modules and find_spec(name) is None]
    if missing:
        advice = "pip install them; `python -m dr_lib kernels` sets up the kernels of PyTorch and MXNet"
        raise FrameworkError(f"{framework} needs {' and '.join(missing)}, which this kernel has not: {advice}")


def _import_class(framework: str, accelerator: str) -> type[Network]:
    """Import the network's class, and with it the framework."""
    home = HOMES[framework]
    try:
        if "keras" in home.packages:
            choose_backend(home.packages[1], accelerator)
        module = importlib.import_module(f"dr_lib.training.frameworks.{home.module}")
    except (ImportError, AttributeError, OSError) as error:  # MXNet with NumPy 1.24 or later is an AttributeError
        advice = "its versions may not go together; `python -m dr_lib kernels` sets up kernels where they do"
        raise FrameworkError(f"{framework} cannot be imported ({error}): {advice}") from error
    return getattr(module, home.name)


def choose_backend(backend: str, accelerator: str) -> None:
    """Tell Keras its backend and the backend its device, which they read once, when they are imported."""
    if "keras" in sys.modules and sys.modules["keras"].config.backend() != backend:
        running = sys.modules["keras"].config.backend()
        raise FrameworkError(f"Keras runs on {running} already: restart the kernel to train on {backend}")
    os.environ["KERAS_BACKEND"] = backend
    if backend == "torch":
        import torch

        on_gpu = accelerator == "gpu" and torch.cuda.is_available()
        os.environ["KERAS_TORCH_DEVICE"] = "cuda:0" if on_gpu else "cpu"
