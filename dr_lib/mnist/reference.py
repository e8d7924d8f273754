"""Paper D's network in Keras on TensorFlow or JAX, on the CPU: the reference for CUDA C.

    conv 6 filters 5x5, sigmoid -> 6 maps 24x24
    -> ONE filter 4x4, stride 4, shared by the maps, sigmoid -> 6 maps 6x6
    -> flatten 216 -> dense 10: 156 + 17 + 2,170 = 2,343 parameters

The filter's patches do not overlap, so it is a dense layer on 216 patches of 16 values each: of
three ways to write it in Keras the fastest, twice as fast as `Conv3D` and `TimeDistributed(Conv2D)`
at batch 32 on TensorFlow.

At batch 1 the reference learns as the original: sigmoid outputs, binary cross-entropy summed over
the ten, plain SGD. In larger batches that learns slowly, and the reference trains as one would
today: softmax cross-entropy and Adam.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dr_lib.errors import DrError
from dr_lib.hardware import import_keras
from dr_lib.mnist.cuda import unflatten

BACKENDS = ("tensorflow", "jax")
CHUNK = 1000  # images of a forward pass at a time


class MnistReference:
    """The network in Keras, at one batch size."""

    def __init__(
        self,
        backend: str,
        weights: Mapping[str, np.ndarray],
        *,
        batch_size: int,
        learning_rate: float,
    ):
        """Build the network on the CPU; raise HardwareError if the backend is not available.

        Args:
            backend: tensorflow or jax; a process can have one of them.
            weights: to begin with, from `cuda.mnist.initial_weights`, in the order of the layers.
            batch_size: images a step; 1 chooses the original's loss and SGD, more softmax and Adam.
            learning_rate: of SGD, 0.1 in the original, or of Adam.
        """
        keras = import_keras(backend)
        from dr_lib.training import keras_backend

        keras_backend.choose_device(backend, "cpu")  # CUDA C may have the GPU of this process
        self.keras = keras
        self.keras_backend = keras_backend
        self.batch_size = batch_size
        self.is_original = batch_size == 1

        layers = keras.layers
        # zeros until the weights are set: JAX would compile a draw for each shape
        self.model = keras.Sequential(
            [
                keras.Input((28, 28, 1)),
                layers.Conv2D(6, 5, activation="sigmoid", kernel_initializer="zeros"),
                # row, row in the patch, column, column in the patch, map
                layers.Reshape((6, 4, 6, 4, 6)),
                layers.Permute((1, 3, 5, 2, 4)),
                layers.Reshape((216, 16)),
                layers.Dense(1, activation="sigmoid", kernel_initializer="zeros"),
                layers.Flatten(),
                layers.Dense(10, kernel_initializer="zeros"),  # logits
            ]
        )
        arrays = zip(weights.values(), self.model.weights, strict=True)
        self.model.set_weights([np.reshape(array, weight.shape) for array, weight in arrays])
        if self.is_original:
            optimizer = keras.optimizers.SGD(learning_rate)
            loss = self._sum_cross_entropy
        else:
            optimizer = keras.optimizers.Adam(learning_rate)
            loss = keras.losses.CategoricalCrossentropy(from_logits=True)
        # XLA makes TensorFlow's steps longer on a CPU; JAX has nothing else
        self.model.compile(optimizer, loss, jit_compile=backend == "jax")

    def train(
        self,
        x_train: np.ndarray,
        y_train: np.ndarray,
        x_test: np.ndarray,
        y_test: np.ndarray,
        *,
        epochs: int,
        on_epoch_end: Callable[[int], None] = lambda epoch: None,
    ) -> tuple[list[float], list[float]]:
        """Train in one call of `fit`, without shuffling, as the original program does.

        Args:
            x_train: (n, 28, 28) uint8.
            y_train: (n,) 0 to 9.
            x_test: as x_train, to look at after each epoch, while the clock stands still.
            y_test: as y_train.
            epochs: passes over the training images.
            on_epoch_end: called with the epochs done.

        Returns:
            What `mnist.cuda.train` returns; the first epoch counts the compilation.
        """
        n = len(x_train)
        if not 0 < self.batch_size <= n:
            raise DrError(f"{n} images in batches of {self.batch_size}: nothing to train")
        epoch_s = []
        accuracies = []

        def note(epoch: int, loss: float, seconds: float) -> None:
            epoch_s.append(seconds)
            accuracies.append(float((self.forward(x_test).argmax(axis=1) == y_test).mean()))
            on_epoch_end(epoch + 1)

        self.keras_backend.fit_timed(
            self.model,
            _to_pixels(x_train),
            _to_targets(y_train),
            batch_size=self.batch_size,
            epochs=epochs,
            on_epoch_end=note,
        )
        return epoch_s, accuracies

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Compute outputs of images (n, 28, 28): (n, 10) sigmoids at batch 1, else
        probabilities.
        """
        activation = self.keras.ops.sigmoid if self.is_original else self.keras.ops.softmax
        logits = self.model.predict(_to_pixels(x), batch_size=CHUNK, verbose=0)
        return np.asarray(activation(logits))

    def gradients(self, x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
        """Compute gradients of one batch's mean loss by automatic differentiation."""
        pixels = _to_pixels(x)
        targets = _to_targets(y)

        def find_loss(weights: list) -> Any:
            logits, _ = self.model.stateless_call(weights, [], pixels)
            return self.keras.ops.mean(self.model.loss(targets, logits))

        weights = [
            self.keras.ops.convert_to_tensor(array) for array in self.model.get_weights()
        ]
        gradients = self.keras_backend.differentiate(find_loss, weights)
        return unflatten(np.concatenate([np.ravel(gradient) for gradient in gradients]))

    def _sum_cross_entropy(self, targets: Any, logits: Any) -> Any:
        """Binary cross-entropy summed over the outputs: its gradient is output - target."""
        ops = self.keras.ops
        return ops.sum(ops.binary_crossentropy(targets, logits, from_logits=True), axis=-1)


def _to_pixels(images: np.ndarray) -> np.ndarray:
    return images.reshape(-1, 28, 28, 1) * np.float32(1 / 255)


def _to_targets(digits: np.ndarray) -> np.ndarray:
    return np.eye(10, dtype=np.float32)[digits]
