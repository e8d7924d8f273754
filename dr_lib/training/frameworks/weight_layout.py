"""Weights between channels last, as they are drawn, and channels first, as PyTorch and MXNet hold them."""

from __future__ import annotations

import numpy as np

from dr_lib.training.frameworks.architecture import Layer


def to_channels_first(layers: tuple[Layer, ...], weights: list[np.ndarray]) -> list[np.ndarray]:
    """Lay weights out for (channels, height, width).

    The dense layer after the flattening gets its inputs in another order, so its kernel's rows change places.

    Args:
        layers: of the network.
        weights: kernel and bias of each layer that learns: (3, 3, in, out) or (in, out), and (out,).

    Returns:
        The same with kernels (out, in, 3, 3) or (out, in).
    """
    converted = list(weights)
    for index, layer, flattened in _kernels(layers):
        kernel = weights[index]
        if layer.kind == "conv":
            kernel = kernel.transpose(3, 2, 0, 1)
        elif flattened:
            kernel = kernel.reshape(*flattened, -1).transpose(3, 2, 0, 1).reshape(kernel.shape[::-1])
        else:
            kernel = kernel.T
        converted[index] = np.ascontiguousarray(kernel)
    return converted


def to_channels_last(layers: tuple[Layer, ...], weights: list[np.ndarray]) -> list[np.ndarray]:
    """Undo `to_channels_first`."""
    converted = list(weights)
    for index, layer, flattened in _kernels(layers):
        kernel = weights[index]
        if layer.kind == "conv":
            kernel = kernel.transpose(2, 3, 1, 0)
        elif flattened:
            height, width, channels = flattened
            kernel = kernel.reshape(-1, channels, height, width).transpose(2, 3, 1, 0).reshape(kernel.shape[::-1])
        else:
            kernel = kernel.T
        converted[index] = np.ascontiguousarray(kernel)
    return converted


def _kernels(layers: tuple[Layer, ...]) -> list[tuple[int, Layer, tuple[int, ...]]]:
    """Place in the list of weights, layer, and the map that was flattened right before it, of each kernel."""
    found, flattened = [], ()
    for layer in layers:
        if layer.kernel_shape:
            found.append((2 * len(found), layer, flattened))
        flattened = layer.input_shape if layer.kind == "flatten" else ()
    return found
