"""Cut images into batches, equal in every framework, with a new order each epoch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


class FixedBatches:
    """Full batches only, so that every step costs the same; (seed, epoch) determine the order."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, batch_size: int, seed: int):
        """Keep (n, height, width, channels) uint8 images and (n,) labels from 0 to 9, without a
        copy.
        """
        n = len(images)
        if not 1 <= batch_size <= n:
            raise ValueError(f"batch_size {batch_size} of {n} images: choose from 1 to {n}")
        self.images = images
        self.labels = labels
        self.batch_size = batch_size
        self.seed = seed

    def __len__(self) -> int:
        """Number of batches per epoch."""
        return len(self.images) // self.batch_size

    @property
    def num_dropped(self) -> int:
        """Number of images that each epoch drops, not always the same ones."""
        return len(self.images) % self.batch_size

    def draw_order(self, epoch: int) -> np.ndarray:
        """Draw the row numbers of an epoch's images, (batches, batch_size)."""
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.images))
        return order[: len(self) * self.batch_size].reshape(-1, self.batch_size)

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the images of these rows, uint8, and their labels, int64."""
        return self.images[rows], self.labels[rows].astype(np.int64)

    def epoch(self, number: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the batches of an epoch; epochs count from 0."""
        return map(self.take, self.draw_order(number))
