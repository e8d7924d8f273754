"""Use Keras on each of its backends: choose the device, time `fit`, wait, average the replicas,
differentiate.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from dr_lib.errors import DrError
from dr_lib.hardware.facts import HardwareError
from dr_lib.training.divergence import find_fault


def choose_device(backend: str, accelerator: str) -> None:
    """Let Keras compute on the CPU or on the first GPU; `import_network` has chosen the backend.

    Raises:
        HardwareError: the backend sees no GPU, or runs on another device already.
    """
    if backend == "tensorflow":
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")[:1] if accelerator == "gpu" else []
        try:
            tf.config.set_visible_devices(gpus, "GPU")
        except RuntimeError as error:
            message = "TensorFlow already runs on other devices: restart the kernel"
            raise HardwareError(message) from error
        device = "gpu" if gpus else "cpu"
    elif backend == "jax":
        import jax

        if accelerator == "cpu":
            jax.config.update("jax_platforms", "cpu")
        device = jax.default_backend()
    else:
        device = keras.ops.zeros(1).device.type.replace("cuda", "gpu")

    if device != accelerator:
        advice = "restart the kernel"
        if accelerator == "gpu":
            advice = "install its build for CUDA, or restart the kernel"
        raise HardwareError(
            f"Keras on {backend} computes on the {device}, not on the {accelerator}: {advice}"
        )


def fit_timed(
    model: keras.Model,
    *data: Any,
    epochs: int,
    on_epoch_end: Callable[[int, float, float], None],
    on_epoch_begin: Callable[[int], None] = lambda epoch: None,
    batch_size: int | None = None,
) -> None:
    """Call `model.fit` once, without shuffling, and time each epoch as `Network.fit` does."""

    def begin(epoch: int, logs: dict | None) -> None:
        nonlocal start
        if epoch:  # the first epoch began when fit was called
            start = time.perf_counter()
        on_epoch_begin(epoch)

    def end(epoch: int, logs: dict | None) -> None:
        wait_for(model)
        seconds = time.perf_counter() - start
        losses.append(float(logs["loss"]))
        if fault := find_fault(losses):
            raise DrError(fault)
        on_epoch_end(epoch, losses[-1], seconds)

    losses: list[float] = []
    timer = keras.callbacks.LambdaCallback(on_epoch_begin=begin, on_epoch_end=end)
    start = time.perf_counter()
    model.fit(
        *data, batch_size=batch_size, epochs=epochs, shuffle=False, callbacks=[timer], verbose=0
    )


def wait_for(model: keras.Model) -> None:
    """Wait until the device has finished its steps, by fetching a number that they all change."""
    keras.ops.convert_to_numpy(model.optimizer.iterations)
    keras.ops.convert_to_numpy(model.trainable_variables[-1])


def average_replicas(model: keras.Model) -> None:
    """Give all replicas of a MirroredStrategy the mean of their moving statistics.

    Keras lets each replica move its own, validates each part of a batch by them, and saves those of
    the first. On JAX there is one copy.
    """
    if keras.config.backend() != "tensorflow":
        return
    import tensorflow as tf

    strategy = tf.distribute.get_strategy()
    if strategy.num_replicas_in_sync == 1:
        return
    for variable in model.non_trainable_variables:
        if keras.backend.is_float_dtype(variable.dtype):  # states of random numbers are alike
            copies = strategy.experimental_local_results(variable.value)
            variable.assign(np.mean([copy.numpy() for copy in copies], axis=0))


def differentiate(function: Callable[[Any], Any], at: Any) -> Any:
    """Differentiate a number by a tensor, or by each of a list, on TensorFlow or JAX."""
    if keras.config.backend() == "jax":
        import jax

        return jax.grad(function)(at)
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(at)
        value = function(at)
    return tape.gradient(value, at)
