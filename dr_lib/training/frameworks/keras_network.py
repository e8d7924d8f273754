"""A network in Keras on TensorFlow, JAX or PyTorch: one call of `fit`, fed with the very same
batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import layers as keras_layers

from dr_lib.hardware import machines
from dr_lib.training.frameworks.architecture import Layer
from dr_lib.training.frameworks.base import (
    MOMENTUM,
    FrameworkError,
    Network,
    OnEpochEnd,
    check_loss,
)
from dr_lib.training.frameworks.batches import FixedBatches


class KerasNetwork(Network):
    """A compiled `keras.Sequential` on images with their channels last."""

    def __init__(
        self,
        layers: tuple[Layer, ...],
        weights: list[np.ndarray],
        learning_rate: float,
        accelerator: str,
        place: machines.Place = machines.Place(),  # noqa: B008
    ):
        """Build the network on the CPU or the first GPU, of each of several machines; see
        `choose_device`.
        """
        backend = keras.config.backend()
        choose_device(backend, accelerator)
        self.layers = layers
        self.packages = ("keras", backend)
        self.place = place
        if place.count > 1:
            import jax

            keras.distribution.set_distribution(
                machines.distribute(machines.take_evenly(jax.devices(), 1))
            )
        self.learning_rate = learning_rate
        self._compile(weights)

    def _compile(self, weights: list[np.ndarray]) -> None:
        self.model = keras.Sequential(
            [keras.Input(self.layers[0].input_shape), *map(_build, self.layers)]
        )
        self.model.set_weights(weights)
        self.model.compile(
            optimizer=keras.optimizers.SGD(self.learning_rate, momentum=MOMENTUM),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            # XLA makes TensorFlow's steps 4 times as long on a CPU
            jit_compile=keras.config.backend() == "jax",
            run_eagerly=False,
        )

    def fit(self, batches: FixedBatches, epochs: int, on_epoch_end: OnEpochEnd) -> None:
        """Train, and time each epoch, as `Network.fit` says, in Keras's own loop; several
        machines then part.
        """
        feed = _Feed(batches, self.place)
        with machines.losing_one(self.place.count):
            fit_timed(
                self.model,
                feed,
                epochs=epochs,
                on_epoch_begin=feed.start_epoch,
                on_epoch_end=on_epoch_end,
            )
        if self.place.count > 1:
            weights = self.model.get_weights()
            machines.leave(self.place.count)
            keras.distribution.set_distribution(None)
            self._compile(weights)

    def _forward(self, images: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict_on_batch(images))


def fit_timed(
    model: keras.Model,
    *data: Any,
    epochs: int,
    on_epoch_end: OnEpochEnd,
    on_epoch_begin: Callable[[int], None] = lambda epoch: None,
    **settings: Any,
) -> None:
    """Call `model.fit` once, without shuffling, and time each epoch as `Network.fit` says."""

    def begin(epoch: int, logs: dict | None) -> None:
        nonlocal start
        start = time.perf_counter() if epoch else start  # the first epoch began when fit was called
        on_epoch_begin(epoch)

    def end(epoch: int, logs: dict | None) -> None:
        wait_for(model)
        seconds = time.perf_counter() - start
        loss = float(logs["loss"])
        check_loss(loss, epoch, epochs)
        on_epoch_end(epoch, loss, seconds)

    timer = keras.callbacks.LambdaCallback(on_epoch_begin=begin, on_epoch_end=end)
    start = time.perf_counter()
    model.fit(*data, epochs=epochs, shuffle=False, callbacks=[timer], verbose=0, **settings)


def wait_for(model: keras.Model) -> None:
    """Return when the device has finished the steps given to it: fetch a number that they all
    change.
    """
    keras.ops.convert_to_numpy(model.optimizer.iterations)
    keras.ops.convert_to_numpy(model.trainable_variables[-1])


def differentiate(function: Callable[[Any], Any], at: Any) -> Any:
    """The gradient of a number at a tensor, or at each of a list, on TensorFlow or JAX."""
    if keras.config.backend() == "jax":
        import jax

        return jax.grad(function)(at)
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(at)
        value = function(at)
    return tape.gradient(value, at)


class _Feed(keras.utils.PyDataset):
    """The batches of an epoch, as Keras asks for them."""

    def __init__(self, batches: FixedBatches, place: machines.Place):
        super().__init__()
        self.batches, size = batches, batches.batch_size // place.count
        self.part = slice(place.rank * size, (place.rank + 1) * size)
        self.start_epoch(0)

    def start_epoch(self, epoch: int) -> None:
        """Take the order of that epoch; Keras's own hook `on_epoch_end` is called once more
        before the first.
        """
        self.order = self.batches.draw_order(epoch)

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return self.batches.take(self.order[index][self.part])


def _build(layer: Layer) -> keras.Layer:
    """The Keras layer of a layer; zeros until its weights are set, for JAX would compile a draw
    for each shape.
    """
    how = {"activation": "relu" if layer.relu else None, "kernel_initializer": "zeros"}
    if layer.kind == "conv":
        return keras_layers.Conv2D(layer.output_shape[-1], 3, padding="same", **how)
    if layer.kind == "pool":
        return keras_layers.MaxPooling2D(2)
    if layer.kind == "flatten":
        return keras_layers.Flatten()
    return keras_layers.Dense(layer.output_shape[-1], **how)


def choose_device(backend: str, accelerator: str) -> None:
    """Let Keras compute on the CPU or on the first GPU; `import_network` has chosen the backend.

    Raises:
        FrameworkError: the backend sees no GPU, or runs on another device already.
    """
    if backend == "tensorflow":
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")[:1] if accelerator == "gpu" else []
        try:
            tf.config.set_visible_devices(gpus, "GPU")
        except RuntimeError as error:
            raise FrameworkError(
                "TensorFlow runs on other devices already: restart the kernel"
            ) from error
        found = "gpu" if gpus else "cpu"
    elif backend == "jax":
        import jax

        if accelerator == "cpu":
            jax.config.update("jax_platforms", "cpu")
        found = jax.default_backend()
    else:
        found = keras.ops.zeros(1).device.type.replace("cuda", "gpu")
    if found != accelerator:
        advice = (
            "restart the kernel"
            if accelerator == "cpu"
            else "install its build for CUDA, or restart the kernel"
        )
        raise FrameworkError(
            f"Keras on {backend} computes on the {found}, not on the {accelerator}: {advice}"
        )
