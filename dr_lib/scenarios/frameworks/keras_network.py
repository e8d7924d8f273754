"""A network in Keras on TensorFlow, JAX or PyTorch: one call of `fit` on the same batches."""

from __future__ import annotations

import keras
import numpy as np
from keras import layers as keras_layers

from dr_lib.scenarios.frameworks.architecture import Layer
from dr_lib.scenarios.frameworks.base import MOMENTUM, Network, OnEpochEnd
from dr_lib.scenarios.frameworks.batches import FixedBatches
from dr_lib.training.keras_backend import choose_device, fit_timed


class KerasNetwork(Network):
    """A compiled `keras.Sequential` on images with their channels last."""

    def __init__(
        self,
        layers: tuple[Layer, ...],
        weights: list[np.ndarray],
        learning_rate: float,
        accelerator: str,
    ):
        """Build the network on the CPU or the first GPU."""
        backend = keras.config.backend()
        choose_device(backend, accelerator)
        inputs = keras.Input(layers[0].input_shape, dtype="uint8")
        self.model = keras.Sequential([inputs, _Floats(), *map(_build, layers)])
        self.model.set_weights(weights)
        self.model.compile(
            optimizer=keras.optimizers.SGD(learning_rate, momentum=MOMENTUM),
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


class _Floats(keras_layers.Layer):
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


def _build(layer: Layer) -> keras.Layer:
    """Build a Keras layer of zeros; random weights would make JAX compile a draw for each shape."""
    if layer.kind == "pool":
        return keras_layers.MaxPooling2D(2)
    if layer.kind == "flatten":
        return keras_layers.Flatten()
    units = layer.output_shape[-1]
    activation = "relu" if layer.relu else None
    if layer.kind == "dense":
        return keras_layers.Dense(units, activation, kernel_initializer="zeros")
    return keras_layers.Conv2D(
        units, 3, padding="same", activation=activation, kernel_initializer="zeros"
    )
