"""The interface of a network in any framework: train on batches for timed epochs, and predict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from dr_lib.errors import DrError
from dr_lib.training.divergence import find_fault

CHUNK = 256  # images of a forward pass at a time: 12.6 MB of floats at 64 px in colour
MOMENTUM = 0.9

Epoch = Iterable[tuple[np.ndarray, np.ndarray]]  # its batches of images and labels
OnEpochEnd = Callable[[int, float, float], None]


class FixedBatches:
    """Full batches only, so that every step costs the same; (seed, epoch) determine the order."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, batch_size: int, seed: int):
        """Keep (n, height, width, channels) uint8 images and (n,) labels from 0 to 9, without a
        copy.
        """
        n = len(images)
        if batch_size > n:
            raise DrError(f"batch_size {batch_size} of {n} images: choose {n} at most")
        self.images = images
        self.labels = labels
        self.batch_size = batch_size
        self.seed = seed

    def __len__(self) -> int:
        """Number of batches per epoch."""
        return len(self.images) // self.batch_size

    def draw_order(self, epoch: int) -> np.ndarray:
        """Draw the row numbers of an epoch's images, (batches, batch_size); epochs count from 0."""
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.images))
        return order[: len(self) * self.batch_size].reshape(-1, self.batch_size)

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the images of these rows, uint8, and their labels, int64."""
        return self.images[rows], self.labels[rows].astype(np.int64)


class Start(NamedTuple):
    """What a network begins with."""

    weights: list[np.ndarray]  # from `draw_weights`
    image_shape: tuple[int, ...]  # (height, width, channels)
    learning_rate: float = 0.01  # of stochastic gradient descent with momentum 0.9, positive
    accelerator: str = "cpu"  # never a GPU; or gpu, the framework's first


class Network:
    """A network of one framework, on one device; `open_network` builds it from a Start.

    Every framework takes the same step: the mean softmax cross-entropy of a batch's logits, then
    for each weight w with gradient g and velocity v, which begins at 0: v <- momentum * v -
    learning_rate * g, w <- w + v.

    The class of a framework has `_train_epoch`, which takes a step on each batch and returns the
    mean loss when the device has finished, and `_forward`, which computes the logits, float32, of a
    few uint8 images.
    """

    def fit(self, batches: FixedBatches, epochs: int, on_epoch_end: OnEpochEnd) -> None:
        """Train and time each epoch; a fault of `find_fault` ends the training with a DrError.

        Args:
            batches: the same in every epoch but for their order.
            epochs: passes over them.
            on_epoch_end: called with (epoch from 0, mean loss of its batches, seconds). The seconds
                are those of the epoch alone, from before its first batch, or the call of `fit`, to
                the end of its work on the device; what the function takes itself is in no epoch.
                The first epoch includes what the framework compiles.
        """
        losses = []
        for epoch in range(epochs):
            start = time.perf_counter()
            loss = self._train_epoch(map(batches.take, batches.draw_order(epoch)))
            seconds = time.perf_counter() - start
            losses.append(loss)
            if fault := find_fault(losses):
                raise DrError(fault)
            on_epoch_end(epoch, loss, seconds)

    def forward(self, images: np.ndarray) -> np.ndarray:
        """Compute logits, (n, 10) float32, from (n, height, width, channels) uint8, in chunks."""
        starts = range(0, len(images), CHUNK)
        return np.concatenate(
            [self._forward(images[start : start + CHUNK]) for start in starts]
        )
