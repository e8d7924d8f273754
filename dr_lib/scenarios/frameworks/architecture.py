"""The two networks of paper C, Rede 1 and Rede 2, as data from which every framework builds.

The paper calls them VGG-like and gives no layers, so these are ours, after Simonyan and Zisserman
(2015): blocks of two 3x3 convolutions with "same" padding and a 2x2 max-pooling, then two dense
layers; ReLU everywhere but at the end.

    Rede 1   conv 32, conv 32, pool, conv 64, conv 64, pool, flatten, dense 128, dense 10
    Rede 2   the same with a third block: conv 128, conv 128, pool

Rede 2 has fewer weights, because its last map is smaller, yet takes 56 % more multiplications.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dr_lib.errors import DrError

BLOCKS = {1: (32, 64), 2: (32, 64, 128)}  # filters of each block of the two networks
NUM_CLASSES = 10


class Layer(NamedTuple):
    """One layer; shapes are those of one image's feature map, (height, width, channels) or
    (units,).
    """

    kind: str  # conv, pool, flatten or dense
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    relu: bool = False

    @property
    def kernel_shape(self) -> tuple[int, ...]:
        """(3, 3, in, out) or (in, out); empty where there is nothing to learn."""
        if self.kind not in ("conv", "dense"):
            return ()
        window = (3, 3) if self.kind == "conv" else ()
        return (*window, self.input_shape[-1], self.output_shape[-1])


def build_layers(network: int, image_size: int, num_channels: int) -> tuple[Layer, ...]:
    """List the layers of a network, in order.

    Args:
        network: 1 or 2.
        image_size: side of the square images [px], a multiple of 4 for Rede 1 and of 8 for Rede 2.
        num_channels: of the images, 1 (MNIST) or 3 (CIFAR-10).
    """
    step = 2 ** len(BLOCKS[network])
    if image_size < step or image_size % step:
        raise DrError(
            f"image_size {image_size!r}: Rede {network} needs a multiple of {step} px"
        )
    shape = (image_size, image_size, num_channels)
    layers = []

    def add(kind: str, output_shape: tuple[int, ...], relu: bool = False) -> None:
        nonlocal shape
        layers.append(Layer(kind, shape, output_shape, relu))
        shape = output_shape

    side = image_size
    for filters in BLOCKS[network]:
        add("conv", (side, side, filters), relu=True)
        add("conv", (side, side, filters), relu=True)
        side //= 2
        add("pool", (side, side, filters))
    add("flatten", (math.prod(shape),))
    add("dense", (128,), relu=True)
    add("dense", (NUM_CLASSES,))
    return tuple(layers)


def draw_weights(layers: tuple[Layer, ...], seed: int) -> list[np.ndarray]:
    """Draw the initial weights: kernels from He's normal distribution (2015), biases 0.

    The same seed, 0 or more, gives the same weights in every kernel.

    Returns:
        float32 arrays, kernel and bias of each layer that learns, in order: kernels are (3, 3, in,
        out) of convolutions and (in, out) of dense layers, whose inputs were flattened from
        (height, width, channels).
    """
    rng = np.random.default_rng(seed)
    weights = []
    for shape in (layer.kernel_shape for layer in layers if layer.kernel_shape):
        deviation = np.float32(math.sqrt(2 / math.prod(shape[:-1])))
        weights.append(rng.standard_normal(shape, dtype=np.float32) * deviation)
        weights.append(np.zeros(shape[-1], np.float32))
    return weights


def to_channels_first(layers: tuple[Layer, ...], weights: list[np.ndarray]) -> list[np.ndarray]:
    """Convert weights to the layout of PyTorch and MXNet: kernels (out, in, 3, 3) or (out, in).

    The dense layer after the flattening gets its inputs in another order, (channels, height,
    width), so its kernel's rows change places.
    """
    converted = []
    arrays = iter(weights)
    map_shape = ()  # of the map that was flattened just before
    for layer in layers:
        if layer.kernel_shape:
            kernel = next(arrays)
            if layer.kind == "conv":
                kernel = kernel.transpose(3, 2, 0, 1)
            elif map_shape:
                kernel = kernel.reshape(*map_shape, -1).transpose(3, 2, 0, 1)
                kernel = kernel.reshape(len(kernel), -1)
            else:
                kernel = kernel.T
            converted += [np.ascontiguousarray(kernel), next(arrays)]
        map_shape = layer.input_shape if layer.kind == "flatten" else ()
    return converted
