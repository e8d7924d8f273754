"""Batches of uint8 photographs for Keras, shuffled by (seed, epoch)."""

import time
from typing import Any

import keras
import numpy as np

from dr_lib.data.prepared.records import ShardError
from dr_lib.data.prepared.stream import StoredCrops
from dr_lib.errors import DrError


class Batches(keras.utils.PyDataset):
    """Full batches for `fit` and `evaluate`, of any number of photographs.

    Every batch has the same shape, so a device compiles once and any number of replicas that
    divides the batch can share it. Training, which has a shuffle seed, drops the remainder of each
    epoch's order. Evaluation fills the last batch up with copies that weigh nothing, so that every
    photograph counts exactly once.

    Keras knows the number of batches, so `optimizer.iterations` grows by exactly that an epoch; the
    order of an epoch depends on (seed, epoch) alone, so it is the same on every backend and after a
    restart. Keras's own hook `on_epoch_end` does not serve here: it is called once more before the
    first epoch.
    """

    def __init__(
        self,
        inputs: np.ndarray | StoredCrops,
        targets: np.ndarray,
        batch_size: int,
        *,
        shuffle_seed: int | None = None,
        is_mirrored: bool = False,
    ):
        """Keep references to the arrays, which stay on the host or on disk.

        Args:
            inputs: (n, ...) photographs as uint8, features, or row numbers of photographs kept on
                the device; whatever has a length and gives an array for row numbers.
            targets: (n,) float32, 1 for referable; or (n,) int64 grades.
            batch_size: over all replicas.
            shuffle_seed: None keeps the order, for evaluation.
            is_mirrored: give photographs mirrored left to right.
        """
        super().__init__()
        self.inputs = inputs
        self.targets = targets
        self.batch_size = batch_size
        self.shuffle_seed = shuffle_seed
        self.is_mirrored = is_mirrored
        # of training: when each batch of the epoch was ready, monotonic [s]
        self.ready_s: list[float] = []
        self._error = None
        if batch_size < 1 or not len(self):
            raise DrError(
                f"{len(inputs)} photographs make no batch of {batch_size}: a batch may have"
                f" {max(1, len(inputs))} at most"
            )
        self.start_epoch(0)

    @property
    def num_dropped(self) -> int:
        """Number of photographs that each epoch of training drops, not always the same ones."""
        return len(self.inputs) % self.batch_size if self.shuffle_seed is not None else 0

    def start_epoch(self, epoch: int) -> None:
        """Set the order of an epoch; `fit` with `shuffle=False` then keeps it."""
        self.ready_s.clear()
        self._order = np.arange(len(self.inputs))
        if self.shuffle_seed is not None:
            np.random.default_rng((self.shuffle_seed, epoch)).shuffle(self._order)

    def __len__(self) -> int:
        """Number of batches per epoch."""
        n = len(self.inputs)
        return (
            n // self.batch_size if self.shuffle_seed is not None else -(-n // self.batch_size)
        )

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        """Return a batch of the epoch: inputs, targets and, in evaluation, weights.

        The weights of a whole evaluation sum to the number of its places, so that Keras, which
        divides the loss of a batch by its places and not by its weights, ends at the mean over the
        photographs.
        """
        rows = self._order[index * self.batch_size : (index + 1) * self.batch_size]
        if self.shuffle_seed is not None:
            batch = self._take(rows), self.targets[rows]
            self.note_ready()
            return batch
        num_places = len(self) * self.batch_size
        num_empty = self.batch_size - len(rows)
        weights = np.full(self.batch_size, num_places / len(self.inputs), np.float32)
        weights[len(rows) :] = 0
        rows = np.pad(rows, (0, num_empty), mode="edge")
        return self._take(rows), self.targets[rows], weights

    def note_ready(self) -> None:
        """Note that the next batch of the epoch is ready."""
        self.ready_s.append(time.monotonic())

    def feed(self) -> Any:
        """Wrap the batches for fit: on TensorFlow without tf.data's autotuner.

        That thread sleeps for up to a minute, and where Keras makes the pipeline fit returns only
        when it has woken up.
        """
        if keras.backend.backend() != "tensorflow":
            return self
        import tensorflow as tf

        signature = tuple(tf.TensorSpec(array.shape, array.dtype) for array in self[0])
        options = tf.data.Options()
        options.autotune.enabled = False
        feed = tf.data.Dataset.from_generator(
            lambda: map(self.__getitem__, range(len(self))), output_signature=signature
        )
        return (
            feed.apply(tf.data.experimental.assert_cardinality(len(self)))
            .prefetch(2)
            .with_options(options)
        )

    def find_error(self) -> ShardError | None:
        """Find why these batches stopped a training, where a shard is to blame."""
        return self._error

    def _take(self, rows: np.ndarray) -> np.ndarray:
        """Return the inputs of these rows; keep an error, because TensorFlow replaces it."""
        try:
            batch = self.inputs[rows]
            return batch[:, :, ::-1] if self.is_mirrored else batch
        except ShardError as error:
            self._error = error
            raise
