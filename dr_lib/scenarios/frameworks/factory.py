"""Open a network in the requested framework, or report what is missing."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.util import find_spec
from types import ModuleType

import numpy as np

from dr_lib.command import write_install
from dr_lib.hardware import import_keras
from dr_lib.hardware.facts import HardwareError
from dr_lib.scenarios.frameworks.architecture import Layer
from dr_lib.scenarios.frameworks.base import Network

# that each framework needs; the first one names the module of its network
PACKAGES = {
    "tensorflow": ("keras", "tensorflow"),
    "keras_jax": ("keras", "jax"),
    "keras_torch": ("keras", "torch"),
    "pytorch": ("torch",),
    "mxnet": ("mxnet",),
}
# a kernel of its own has none of what the command needs
ADVICE = "`python -m dr_lib kernels` sets up the kernels of PyTorch and MXNet"


def open_network(
    framework: str,
    layers: tuple[Layer, ...],
    weights: list[np.ndarray],
    *,
    learning_rate: float = 0.01,
    accelerator: str = "cpu",
) -> Network:
    """Build a network in a framework, with these weights, ready to train.

    Args:
        framework: tensorflow (Keras on it), keras_jax, keras_torch, pytorch or mxnet.
        layers: of the network, from `build_layers`.
        weights: that it begins with, from `draw_weights`.
        learning_rate: of stochastic gradient descent with momentum 0.9, positive.
        accelerator: cpu, never a GPU; or gpu, the framework's first.

    Raises:
        HardwareError: the framework is not installed here, sees no GPU, or runs otherwise already.
    """
    packages = PACKAGES[framework]
    module = import_network(packages, accelerator)
    network = getattr(module, f"{packages[0].title()}Network")
    return network(layers, weights, learning_rate, accelerator)


def import_network(packages: tuple[str, ...], accelerator: str) -> ModuleType:
    """Import the module of a framework's network, and the framework, if all its packages exist.

    Keras reads its backend once, when it is imported, and the backend its device.

    Raises:
        HardwareError: a package is missing or does not go with another, or Keras runs on another
            backend already.
    """
    missing = [name for name in packages if name not in sys.modules and find_spec(name) is None]
    if missing:
        install = write_install(*missing)
        raise HardwareError(
            f"this kernel has no {' and no '.join(missing)}: {install}; {ADVICE}"
        )
    framework = packages[0]
    try:
        if packages == ("keras", "torch"):
            on_gpu = (
                accelerator == "gpu" and importlib.import_module("torch").cuda.is_available()
            )
            os.environ["KERAS_TORCH_DEVICE"] = "cuda:0" if on_gpu else "cpu"
        if framework == "keras":
            import_keras(packages[-1])
        return importlib.import_module(f"dr_lib.scenarios.frameworks.{framework}_network")
    # MXNet with NumPy 1.24 or later is an AttributeError
    except (ImportError, AttributeError, OSError) as error:
        reason = f"{framework} cannot be imported ({error}): its versions may be incompatible"
        raise HardwareError(f"{reason}; {ADVICE}") from error
