"""The two networks of the methodology's study, Rede 1 and Rede 2, as data that every framework
builds from.

The paper calls them VGG-like and gives no layers, so these are ours, after Simonyan and Zisserman
(2015): blocks of two 3x3 convolutions with "same" padding and a 2x2 max-pooling, then two dense
layers; ReLU everywhere but at the end.

    Rede 1   conv 32, conv 32, pool, conv 64, conv 64, pool, flatten, dense 128, dense 10
    Rede 2   conv 32, conv 32, pool, conv 64, conv 64, pool, conv 128, conv 128, pool, flatten,
    dense 128, dense 10

Rede 2 has fewer weights, because its last map is smaller, yet takes 56 % more multiplications an
image.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

BLOCKS = {1: (32, 64), 2: (32, 64, 128)}  # filters of each block of the two networks
DENSE_UNITS = 128
NUM_CLASSES = 10


class NetworkError(ValueError):
    """There is no such network, or it cannot be trained so; the message says what there is."""


class Layer(NamedTuple):
    """One layer; shapes are those of one image's map, (height, width, channels), or (units,)."""

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

    Raises:
        NetworkError: there is no such network, or the poolings do not divide the image.
    """
    if network not in BLOCKS:
        raise NetworkError(f"network {network!r}: there are 1 (Rede 1) and 2 (Rede 2)")
    step = 2 ** len(BLOCKS[network])
    if image_size < step or image_size % step:
        raise NetworkError(
            f"image_size {image_size!r}: Rede {network} takes multiples of {step} px"
        )
    layers = []
    shape = (image_size, image_size, num_channels)

    def add(kind: str, output_shape: tuple[int, ...], relu: bool = False) -> tuple[int, ...]:
        layers.append(Layer(kind, shape, output_shape, relu))
        return output_shape

    for filters in BLOCKS[network]:
        for _ in range(2):
            shape = add("conv", (*shape[:2], filters), relu=True)
        shape = add("pool", (shape[0] // 2, shape[1] // 2, filters))
    shape = add("flatten", (math.prod(shape),))
    shape = add("dense", (DENSE_UNITS,), relu=True)
    add("dense", (NUM_CLASSES,))
    return tuple(layers)


def draw_weights(layers: tuple[Layer, ...], seed: int) -> list[np.ndarray]:
    """Draw the first weights: He's normal distribution for the kernels, zeros for the biases (He et
    al. 2015).

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
        weights += [
            rng.standard_normal(shape, dtype=np.float32) * deviation,
            np.zeros(shape[-1], np.float32),
        ]
    return weights


def to_channels_first(layers: tuple[Layer, ...], weights: list[np.ndarray]) -> list[np.ndarray]:
    """Lay weights out for (channels, height, width): kernels are (out, in, 3, 3) or (out, in), as
    in PyTorch and MXNet.

    The dense layer after the flattening gets its inputs in another order, so its kernel's rows
    change places.
    """
    converted = []
    flattened = ()
    arrays = iter(weights)
    for layer in layers:
        if layer.kernel_shape:
            window = (
                layer.kernel_shape[:-1]
                if layer.kind == "conv"
                else flattened or (1, 1, *layer.input_shape)
            )
            kernel = next(arrays).reshape(*window, -1).transpose(3, 2, 0, 1)
            shape = layer.kernel_shape[::-1] if layer.kind == "dense" else kernel.shape
            converted += [np.ascontiguousarray(kernel.reshape(shape)), next(arrays)]
        flattened = layer.input_shape if layer.kind == "flatten" else ()
    return converted


def count_multiplications(layers: tuple[Layer, ...]) -> int:
    """Multiplications of one image's forward pass; a kernel is applied once at every place of
    the output.
    """
    learnt = (layer for layer in layers if layer.kernel_shape)
    return sum(
        math.prod(layer.output_shape[:-1]) * math.prod(layer.kernel_shape) for layer in learnt
    )
