"""A network in Keras on TensorFlow, JAX or PyTorch: one call of `fit` on the same batches."""

from __future__ import annotations

from functools import partial

import keras
import numpy as np
from keras import layers

from dr_lib.scenarios.frameworks.architecture import list_layers
from dr_lib.scenarios.frameworks.base import (
    MOMENTUM,
    FixedBatches,
    Network,
    OnEpochEnd,
    Start,
)
from dr_lib.training.keras_backend import choose_device, fit_timed

# of zeros: random weights would make JAX compile a draw for each shape
CONV = partial(layers.Conv2D, kernel_size=3, padding="same", kernel_initializer="zeros")
LAYERS = {
    "conv": lambda _, filters: CONV(filters),
    "relu": partial(layers.Activation, "relu"),
    "pool": partial(layers.MaxPooling2D, 2),
    "flatten": layers.Flatten,
    "dense": lambda _, units: layers.Dense(units, kernel_initializer="zeros"),
}


class KerasNetwork(Network):
    """A compiled `keras.Sequential` on images with their channels last."""

    def __init__(self, start: Start):
        """Build the network on the CPU or the first GPU."""
        backend = keras.config.backend()
        choose_device(backend, start.accelerator)
        inputs = keras.Input(start.image_shape, dtype="uint8")
        parts = [LAYERS[kind](*sizes) for kind, *sizes in list_layers(start.weights)]
        self.model = keras.Sequential([inputs, _Floats(), *parts])
        self.model.set_weights(start.weights)
        self.model.compile(
            optimizer=keras.optimizers.SGD(start.learning_rate, momentum=MOMENTUM),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            # XLA makes TensorFlow's steps 4 times as long on a CPU
            jit_compile=backend == "jax",
            run_eagerly=False,
        )

    def fit(self, batches: FixedBatches, epochs: int, on_epoch_end: OnEpochEnd) -> None:
        """Train and time as in `Network.fit`, in Keras's own loop."""
        feed = _Feed(batches)
        fit_timed(
            self.model,
            feed,
            epochs=epochs,
            on_epoch_begin=feed.start_epoch,
            on_epoch_end=on_epoch_end,
        )

    def _forward(self, images: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict_on_batch(images))


class _Floats(layers.Layer):
    """Casts bytes to floats in [0, 1] on the device, which gets a quarter of what floats take."""

    def call(self, images):
        return keras.ops.cast(images, "float32") * (1 / 255)


class _Feed(keras.utils.PyDataset):
    """The batches of an epoch, as Keras requests them."""

    def __init__(self, batches: FixedBatches):
        super().__init__()
        self.batches = batches
        self.start_epoch(0)

    def start_epoch(self, epoch: int) -> None:
        """Set the order of an epoch; Keras calls its own hook once too often, before the first."""
        self.order = self.batches.draw_order(epoch)

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return self.batches.take(self.order[index])
