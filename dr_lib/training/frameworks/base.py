"""The interface of a network in any framework: train for timed epochs, and predict."""

from __future__ import annotations

import math
import platform
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dr_lib.errors import DrError
from dr_lib.training.frameworks.architecture import Layer
from dr_lib.training.frameworks.batches import FixedBatches, to_floats

CHUNK = 256  # images of a forward pass at a time: 12.6 MB of floats at 64 px in colour
MOMENTUM = 0.9

OnEpochEnd = Callable[[int, float, float], None]


class FrameworkError(DrError):
    """The framework cannot be used as requested; the message says what to do."""


class Network(ABC):
    """A network of one framework, on one device; `open_network` builds it.

    Every framework takes the same step: the mean softmax cross-entropy of a batch's logits, then
    for each weight w with gradient g and velocity v, which begins at 0: v <- momentum * v -
    learning_rate * g, w <- w + v.
    """

    layers: tuple[Layer, ...]
    packages: tuple[str, ...]  # the last is what computes

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
            [self._forward(to_floats(images[start : start + CHUNK])) for start in starts]
        )

    def versions(self) -> dict[str, str]:
        """Versions of Python, NumPy and the framework, and of the computing `backend`."""
        return read_versions(*self.packages)

    def _train_epoch(self, epoch: Iterator[tuple[np.ndarray, np.ndarray]]) -> float:
        """Take a step on each batch; return the mean loss when the device has finished."""
        raise NotImplementedError

    @abstractmethod
    def _forward(self, images: np.ndarray) -> np.ndarray:
        """Compute logits of a few images, float32."""


def find_fault(losses: Sequence[float]) -> str:
    """Explain why a training with these losses of its epochs so far cannot succeed; empty if it
    may.

    Its last loss is not finite, or its last three are above the limit.
    """
    number = len(losses)
    if not math.isfinite(losses[-1]):
        return f"the loss is {losses[-1]} in epoch {number}: lower the learning rate"
    limit = find_limit(losses)
    if number > 2 and min(losses[-3:]) > limit:
        last = f"the loss of epochs {number - 2} to {number} is above {limit:.3g}"
        return f"{last} (that of the first is {losses[0]:.3g}): lower the learning rate"
    return ""


def find_limit(losses: Sequence[float]) -> float:
    """Compute ten times the first loss; at least 1, for a head that is fitted may begin near 0, and
    at most 1000, for a training may diverge at once.
    """
    return min(max(10 * losses[0], 1.0), 1000.0)


def read_versions(*packages: str) -> dict[str, str]:
    """Versions of Python, NumPy, imported packages and their CUDA; `backend`, the last of them."""
    cuda = ""
    if "torch" in packages:
        cuda = sys.modules["torch"].version.cuda or ""
    elif "tensorflow" in packages:
        cuda = sys.modules["tensorflow"].sysconfig.get_build_info().get("cuda_version", "")
    return {
        "python": platform.python_version(),
        "backend": packages[-1],
        "cuda": cuda,
        **{name: sys.modules[name].__version__ for name in ("numpy", *packages)},
    }
