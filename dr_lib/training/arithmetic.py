"""Detect the arithmetic of matrix products and convolutions: which bits of their inputs survive.

Foreign kernels use it too: this file needs Python 3.9 and NumPy.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial

import numpy as np

UNITS = 64  # channels in and out: wide enough for the matrix units of GPUs and TPUs
FORMATS = {  # how many bits of a fraction survive, of 18, and whether 1e5 does
    (18, True): "float32",  # Winograd's and Fourier's algorithms for convolutions err below
    (16, True): "bfloat16_3x",  # two bfloat16 numbers, here 1 and 2^-9 (1 + 2^-7)
    (10, True): "tf32",
    (10, False): "float16",
    (7, True): "bfloat16",
}


def name_arithmetic(
    apply: Callable[[np.ndarray, np.ndarray], np.ndarray], *, is_conv: bool = False
) -> str:
    """Name the format to which a layer rounds the coarser of its inputs and its kernel.

    Each output that counts is one product beside zeros, whose order of adding is of no effect. It
    shows whether 1 + 2^-k survives or, from k = 10 on, 1 + 2^-9 + 2^-k: two bfloat16 numbers hold
    any 1 + 2^-k. The last bit that is rounded away fails in every way of rounding.

    Args:
        apply: the layer, (64, 64) inputs and a (64, 64) kernel to (n, 64) outputs, 64 rows for each
            replica; of a convolution (64, 4, 4, 64) and (3, 3, 64, 64) to (n, 1, 1, 64), where the
            kernel's centre lies inside the image.
        is_conv: whether it is a convolution.

    Returns:
        One of FORMATS, or other.
    """
    bits = 2.0 ** -np.arange(1, 19)
    numbers = np.append(1 + bits + 2**-9 * (bits < 2**-9), 1e5)
    inputs = np.ones(UNITS, np.float32)
    inputs[: len(numbers)] = numbers
    kernel = np.diag(np.roll(inputs, len(numbers)))
    inputs = np.diag(inputs)
    if is_conv:
        inputs = np.tile(inputs[:, None, None], (1, 4, 4, 1))
        kernel = np.pad(kernel[None, None], [(1, 1), (1, 1), (0, 0), (0, 0)])

    outputs = np.asarray(apply(inputs, kernel)).astype(np.float32).reshape(-1, UNITS, UNITS)
    products = np.diagonal(outputs, axis1=1, axis2=2)[:, : 2 * len(numbers)]
    errors = abs(products.reshape(-1, len(numbers)) - numbers)
    survives = (errors < np.append(bits / 4, 1e3)).all(axis=0)
    return FORMATS.get((int(survives[:-1].sum()), bool(survives[-1])), "other")


def detect_arithmetic(*, jit: bool, num_replicas: int = 1) -> dict[str, str]:
    """Name the arithmetic of Keras's Dense and Conv2D, under its dtype policy and on its devices.

    Names, seeds and variables of what is built later are the same without it. Call it in the scope
    of the device.

    Returns:
        The columns matmul_precision and conv_precision.
    """
    import keras

    found = {}
    conv = partial(keras.layers.Conv2D, kernel_size=3, strides=2)  # a stride rules Winograd out
    for column, kind in (("matmul_precision", keras.layers.Dense), ("conv_precision", conv)):
        layer = kind(UNITS, use_bias=False, kernel_initializer="zeros", name=column)

        def apply(inputs, kernel, layer=layer):
            # of the layer's type, for a cast would be named and counted
            entry = keras.Input(inputs.shape[1:], dtype=layer.compute_dtype, name="inputs")
            model = keras.Model(entry, layer(entry), name="arithmetic")
            model.jit_compile = jit
            layer.set_weights([kernel])
            return model.predict_on_batch(np.concatenate([inputs] * num_replicas))

        found[column] = name_arithmetic(apply, is_conv=kind is conv)
    del layer, apply
    gc.collect()  # here rather than during the training
    return found
