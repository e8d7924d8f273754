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
    for index, (height, width, channels) in _windows(layers):
        kernel = weights[index].reshape(height, width, channels, -1).transpose(3, 2, 0, 1)
        is_dense = weights[index].ndim == 2
        converted[index] = np.ascontiguousarray(kernel.reshape(len(kernel), -1) if is_dense else kernel)
    return converted


def to_channels_last(layers: tuple[Layer, ...], weights: list[np.ndarray]) -> list[np.ndarray]:
    """Undo `to_channels_first`."""
    converted = list(weights)
    for index, (height, width, channels) in _windows(layers):
        kernel = weights[index].reshape(-1, channels, height, width).transpose(2, 3, 1, 0)
        is_dense = weights[index].ndim == 2
        converted[index] = np.ascontiguousarray(kernel.reshape(-1, kernel.shape[-1]) if is_dense else kernel)
    return converted


def _windows(layers: tuple[Layer, ...]) -> list[tuple[int, tuple[int, ...]]]:
    """Place in the list of weights, and (height, width, channels) of what a unit sees, of each kernel."""
    found, flattened = [], ()
    for layer in layers:
        if layer.kernel_shape:
            window = layer.kernel_shape[:-1] if layer.kind == "conv" else flattened or (1, 1, layer.input_shape[0])
            found.append((2 * len(found), window))
        flattened = layer.input_shape if layer.kind == "flatten" else ()
    return found
