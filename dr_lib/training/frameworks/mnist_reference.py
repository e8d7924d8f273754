"""The MNIST network of the CUDA C study in Keras on TensorFlow or JAX, on the CPU: what CUDA C is
held against.

    conv 6 filters 5x5, sigmoid -> 6 maps 24x24 -> ONE filter 4x4, stride 4, shared by the maps,
    sigmoid
    -> 6 maps 6x6 -> flatten 216 -> dense 10: 156 + 17 + 2,170 = 2,343 parameters

The filter's patches do not overlap, so it is a dense layer on 216 patches of 16 values each: of
three ways to write it in Keras the fastest, twice as fast as `Conv3D` and `TimeDistributed(Conv2D)`
at batch 32 on TensorFlow.

At batch 1 the reference learns as the original: sigmoid outputs, binary cross-entropy summed over
the ten, plain SGD. In larger batches that learns slowly, and the reference trains as one would
today: softmax cross-entropy and Adam.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dr_lib.training.frameworks.architecture import NetworkError
from dr_lib.training.frameworks.base import read_versions
from dr_lib.training.frameworks.batches import to_floats
from dr_lib.training.frameworks.factory import import_network

if TYPE_CHECKING:
    import pandas as pd

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
        """Build the network on the CPU.

        Args:
            backend: tensorflow or jax; a process can have one of them.
            weights: to begin with, from `cuda.mnist.initial_weights`, in the order of the layers.
            batch_size: images a step; 1 chooses the original's loss and SGD, more softmax and Adam.
            learning_rate: of SGD, 0.1 in the original, or of Adam.

        Raises:
            FrameworkError: the backend is not installed, or Keras runs on another already.
            NetworkError: there is no such backend.
        """
        if backend not in BACKENDS:
            raise NetworkError(f"backend {backend!r}: choose from {', '.join(BACKENDS)}")
        self.network = import_network(("keras", backend), "cpu")
        self.network.choose_device(backend, "cpu")  # CUDA C may have the GPU of the same process
        import keras

        self.keras, self.backend, self.batch_size, self.is_original = (
            keras,
            backend,
            batch_size,
            batch_size == 1,
        )
        self.shapes = {name: np.shape(array) for name, array in weights.items()}
        # until the weights are set: JAX would compile a draw for each shape
        zeros = {"kernel_initializer": "zeros"}
        self.model = keras.Sequential(
            [
                keras.Input((28, 28, 1)),
                keras.layers.Conv2D(6, 5, activation="sigmoid", **zeros),
                # row, row in the patch, column, column in the patch, map
                keras.layers.Reshape((6, 4, 6, 4, 6)),
                keras.layers.Permute((1, 3, 5, 2, 4)),
                keras.layers.Reshape((216, 16)),
                keras.layers.Dense(1, activation="sigmoid", **zeros),
                keras.layers.Flatten(),
                keras.layers.Dense(10, **zeros),  # logits
            ]
        )
        self.model.set_weights(
            [np.reshape(array, v.shape) for array, v in zip(weights.values(), self.model.weights)]
        )
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
        seed: int = 0,
        on_epoch_end: Callable[[int], None] = lambda epoch: None,
    ) -> pd.DataFrame:
        """Train in one call of `fit`, without shuffling, as the original does.

        Args:
            x_train: (n, 28, 28) uint8.
            y_train: (n,) 0 to 9.
            x_test: as x_train, to look at after each epoch, while the clock stands still.
            y_test: as y_train.
            seed: of the weights, for the table.
            on_epoch_end: called with the epochs done.

        Returns:
            A row per epoch with the columns of `cuda.mnist.train`; train_s counts the compilation.

        Raises:
            TrainingError: the loss is not finite.
            NetworkError: there are fewer images than a batch holds.
        """
        import pandas as pd

        if not 0 < self.batch_size <= len(x_train):
            raise NetworkError(
                f"{len(x_train)} images in batches of {self.batch_size}: nothing to train"
            )
        rows = []

        def note(epoch: int, loss: float, seconds: float) -> None:
            accuracy = float((self.forward(x_test).argmax(axis=1) == y_test).mean())
            rows.append({"epoch": epoch + 1, "train_s": seconds, "test_accuracy": accuracy})
            on_epoch_end(epoch + 1)

        settings = {"batch_size": self.batch_size, "epochs": epochs, "on_epoch_end": note}
        self.network.fit_timed(self.model, *_prepare(x_train, y_train), **settings)
        about = {
            "implementation": f"keras_{self.backend}",
            "device": "cpu",
            "batch_size": self.batch_size,
        }
        return pd.DataFrame(rows).assign(
            train_s=lambda t: t["train_s"].cumsum(), **about, replica=0, seed=seed
        )

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Outputs of images (n, 28, 28): (n, 10) sigmoids at batch 1, else probabilities."""
        activation = self.keras.ops.sigmoid if self.is_original else self.keras.ops.softmax
        chunks = [x[start : start + CHUNK] for start in range(0, len(x), CHUNK)]
        logits = [self.model.predict_on_batch(_prepare(chunk)[0]) for chunk in chunks]
        return np.concatenate([np.asarray(activation(chunk)) for chunk in logits])

    def gradients(self, x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
        """What automatic differentiation finds: gradients of the loss of one batch, its mean
        over the images.
        """
        pixels, targets = _prepare(x, y)

        def find_loss(weights: list) -> Any:
            logits, _ = self.model.stateless_call(weights, [], pixels)
            return self.keras.ops.mean(self.model.loss(targets, logits))

        weights = [self.keras.ops.convert_to_tensor(array) for array in self.model.get_weights()]
        found = zip(self.shapes.items(), self.network.differentiate(find_loss, weights))
        return {name: np.reshape(gradient, shape) for (name, shape), gradient in found}

    def versions(self) -> dict[str, str]:
        """`backend`, what computes, and the versions of Keras, of the backend, of NumPy and of
        Python.
        """
        return read_versions("keras", self.backend)

    def _sum_cross_entropy(self, targets: Any, logits: Any) -> Any:
        """Binary cross-entropy summed over the outputs: its gradient is output - target, as the
        original's.
        """
        ops = self.keras.ops
        return ops.sum(ops.binary_crossentropy(targets, logits, from_logits=True), axis=-1)


def _prepare(images: np.ndarray, digits: Any = ()) -> tuple[np.ndarray, np.ndarray]:
    """Bytes as (n, 28, 28, 1) float32 in [0, 1], and (n,) digits as (n, 10) targets."""
    return (
        to_floats(images).reshape(-1, 28, 28, 1),
        np.eye(10, dtype=np.float32)[np.asarray(digits, int)],
    )
