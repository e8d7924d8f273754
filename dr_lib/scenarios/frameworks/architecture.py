"""The two networks of paper C, Rede 1 and Rede 2, as weights from which every framework builds.

The paper calls them VGG-like and gives no layers, so these are ours, after Simonyan and Zisserman
(2015): blocks of two 3x3 convolutions with "same" padding and a 2x2 max-pooling, then two dense
layers; ReLU everywhere but at the end.

    Rede 1   conv 32, conv 32, pool, conv 64, conv 64, pool, flatten, dense 128, dense 10
    Rede 2   the same with a third block: conv 128, conv 128, pool

Rede 2 has fewer weights, because its last map is smaller, yet takes 56 % more multiplications.
"""

from __future__ import annotations

import math

import numpy as np

from dr_lib.errors import DrError

BLOCKS = {1: (32, 64), 2: (32, 64, 128)}  # filters of each block of the two networks
NUM_UNITS = 128
NUM_CLASSES = 10


def draw_weights(
    network: int, image_size: int, num_channels: int, seed: int
) -> list[np.ndarray]:
    """Draw the initial weights: kernels from He's normal distribution (2015), biases 0.

    Args:
        network: 1 or 2.
        image_size: side of the square images [px], a multiple of 4 for Rede 1 and of 8 for Rede 2.
        num_channels: of the images, 1 (MNIST) or 3 (CIFAR-10).
        seed: 0 or more; it gives the same weights everywhere.

    Returns:
        float32 arrays, kernel and bias of each layer that learns, in order: kernels are (3, 3, in,
        out) of convolutions and (in, out) of dense layers, whose inputs were flattened from
        (height, width, channels).
    """
    side, rest = divmod(image_size, 2 ** len(BLOCKS[network]))
    if rest or not side:
        step = 2 ** len(BLOCKS[network])
        raise DrError(
            f"image_size {image_size!r}: Rede {network} needs a multiple of {step} px"
        )
    shapes = []
    for filters in BLOCKS[network]:
        shapes += [(3, 3, num_channels, filters), (3, 3, filters, filters)]
        num_channels = filters
    shapes += [(side * side * num_channels, NUM_UNITS), (NUM_UNITS, NUM_CLASSES)]
    rng = np.random.default_rng(seed)
    weights = []
    for shape in shapes:
        deviation = np.float32(math.sqrt(2 / math.prod(shape[:-1])))
        weights.append(rng.standard_normal(shape, dtype=np.float32) * deviation)
        weights.append(np.zeros(shape[-1], np.float32))
    return weights


def list_layers(weights: list[np.ndarray]) -> list[tuple]:
    """List the layers that weights belong to, in order: conv and dense with their inputs and
    outputs, relu, pool and flatten.
    """
    kernels = weights[::2]
    layers = []
    for number, kernel in enumerate(kernels, start=1):
        sizes = kernel.shape[-2:]
        if kernel.ndim == 4:
            layers += [("conv", *sizes), ("relu",)]
            layers += [("pool",)] * (number % 2 == 0)
        elif number < len(kernels):
            layers += [("flatten",), ("dense", *sizes), ("relu",)]
        else:
            layers.append(("dense", *sizes))
    return layers


def to_channels_first(weights: list[np.ndarray]) -> list[np.ndarray]:
    """Convert weights to the layout of PyTorch and MXNet: kernels (out, in, 3, 3) or (out, in).

    The dense layer after the flattening gets its inputs in another order, (channels, height,
    width), so its kernel's rows change places.
    """
    converted = []
    filters = 0  # of the map that is flattened next
    for array in weights:
        if array.ndim == 4:
            filters = array.shape[-1]
            array = array.transpose(3, 2, 0, 1)
        elif array.ndim == 2 and filters:
            side = math.isqrt(len(array) // filters)
            kernel = array.reshape(side, side, filters, -1).transpose(3, 2, 0, 1)
            array = kernel.reshape(len(kernel), -1)
            filters = 0
        else:
            array = array.T
        converted.append(np.ascontiguousarray(array))
    return converted
