"""A network in Keras on TensorFlow, JAX or PyTorch: one call of `fit`, fed with the very same batches."""

from __future__ import annotations

import importlib
import time

import keras
import numpy as np
from keras import layers as keras_layers

from dr_lib.training.frameworks.architecture import Layer
from dr_lib.training.frameworks.base import FrameworkError, Network, OnEpochEnd, Setting, check_loss
from dr_lib.training.frameworks.batches import FixedBatches


class KerasNetwork(Network):
    """A compiled `keras.Sequential` on images with their channels last."""

    def __init__(self, setting: Setting):
        """Build the network on the CPU or the first GPU; `open_network` has chosen the backend.

        Raises:
            FrameworkError: the backend sees no GPU, or runs on another device already.
        """
        self.layers = setting.layers
        self.backend = keras.config.backend()
        CHOOSE_DEVICE[self.backend](setting.accelerator)
        self.model = keras.Sequential([keras.Input(self.layers[0].input_shape), *map(_build, self.layers)])
        self.model.set_weights(setting.weights)
        self.model.compile(
            optimizer=keras.optimizers.SGD(setting.learning_rate, momentum=setting.momentum),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=self.backend == "jax",  # XLA makes TensorFlow's steps 4 times as long on a CPU
            run_eagerly=False,
        )

    def fit(self, batches: FixedBatches, epochs: int, on_epoch_end: OnEpochEnd) -> None:
        """Train, and time each epoch, as `Network.fit` says, in Keras's own loop."""
        feed, start = _Feed(batches), 0.0

        def begin(epoch: int, logs: dict | None) -> None:
            nonlocal start
            start = time.perf_counter()
            feed.start_epoch(epoch)

        def end(epoch: int, logs: dict | None) -> None:
            # fetch what every step changes: the device has finished then
            keras.ops.convert_to_numpy(self.model.optimizer.iterations)
            keras.ops.convert_to_numpy(self.model.trainable_variables[-1])
            loss = float(logs["loss"])
            seconds = time.perf_counter() - start
            check_loss(loss, epoch, epochs)
            on_epoch_end(epoch, loss, seconds)

        timer = keras.callbacks.LambdaCallback(on_epoch_begin=begin, on_epoch_end=end)
        self.model.fit(feed, epochs=epochs, shuffle=False, callbacks=[timer], verbose=0)

    def weights(self) -> list[np.ndarray]:
        """The weights as they are now, laid out as `draw_weights` does."""
        return [np.array(keras.ops.convert_to_numpy(variable)) for variable in self.model.weights]

    def _forward(self, images: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict_on_batch(images))

    def _framework_versions(self) -> dict[str, str]:
        module = importlib.import_module(self.backend)
        return {"backend": self.backend, "keras": keras.__version__, self.backend: module.__version__}


class _Feed(keras.utils.PyDataset):
    """The batches of an epoch, as Keras asks for them."""

    def __init__(self, batches: FixedBatches):
        super().__init__()
        self.batches = batches
        self.start_epoch(0)

    def start_epoch(self, epoch: int) -> None:
        """Take the order of that epoch; Keras's own hook `on_epoch_end` is called once more before the first."""
        self.order = self.batches.draw_order(epoch)

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return self.batches.take(self.order[index])


def _build(layer: Layer) -> keras.Layer:
    """The Keras layer of a layer."""
    activation = "relu" if layer.relu else None
    if layer.kind == "conv":
        return keras_layers.Conv2D(layer.output_shape[-1], 3, padding="same", activation=activation)
    if layer.kind == "pool":
        return keras_layers.MaxPooling2D(2)
    if layer.kind == "flatten":
        return keras_layers.Flatten()
    return keras_layers.Dense(layer.output_shape[-1], activation=activation)


def _choose_tensorflow(accelerator: str) -> None:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    wanted = gpus[:1] if accelerator == "gpu" else []
    if accelerator == "gpu" and not gpus:
        raise FrameworkError("TensorFlow sees no GPU: install tensorflow[and-cuda], or ask for accelerator cpu")
    try:
        tf.config.set_visible_devices(wanted, "GPU")
    except RuntimeError as error:
        raise FrameworkError("TensorFlow runs on other devices already: restart the kernel") from error


def _choose_jax(accelerator: str) -> None:
    import jax

    if accelerator == "cpu":
        jax.config.update("jax_platforms", "cpu")
    found = jax.default_backend()
    if found == accelerator:
        return
    if accelerator == "gpu":
        raise FrameworkError(f"JAX computes on {found}, not on a GPU: install jax[cuda12], or ask for accelerator cpu")
    raise FrameworkError(f"JAX runs on {found} already: restart the kernel to train on the cpu")


def _choose_torch(accelerator: str) -> None:
    import torch

    if accelerator == "gpu" and not torch.cuda.is_available():
        raise FrameworkError("PyTorch sees no GPU: install its build for CUDA, or ask for accelerator cpu")
    # Keras reads KERAS_TORCH_DEVICE once, when it is imported
    found = keras.ops.zeros(1).device.type
    if found != ("cuda" if accelerator == "gpu" else "cpu"):
        raise FrameworkError(f"Keras runs on {found} already: restart the kernel to train on the {accelerator}")


CHOOSE_DEVICE = {"tensorflow": _choose_tensorflow, "jax": _choose_jax, "torch": _choose_torch}
