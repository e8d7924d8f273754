"""The interface of a network in any framework: train for timed epochs, and predict."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import numpy as np

from dr_lib.errors import DrError
from dr_lib.scenarios.frameworks.batches import FixedBatches
from dr_lib.training.divergence import find_fault

CHUNK = 256  # images of a forward pass at a time: 12.6 MB of floats at 64 px in colour
MOMENTUM = 0.9

OnEpochEnd = Callable[[int, float, float], None]


class Network(ABC):
    """A network of one framework, on one device; `open_network` builds it.

    Every framework takes the same step: the mean softmax cross-entropy of a batch's logits, then
    for each weight w with gradient g and velocity v, which begins at 0: v <- momentum * v -
    learning_rate * g, w <- w + v.
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
            loss = self._train_epoch(batches.epoch(epoch))
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

    def _train_epoch(self, epoch: Iterator[tuple[np.ndarray, np.ndarray]]) -> float:
        """Take a step on each batch; return the mean loss when the device has finished."""
        raise NotImplementedError

    @abstractmethod
    def _forward(self, images: np.ndarray) -> np.ndarray:
        """Compute logits, float32, of a few uint8 images."""
