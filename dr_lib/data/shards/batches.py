"""Batches for Keras, its feed: shards are decoded once, stay uint8, and are shuffled by (seed, epoch)."""

from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

from dr_lib.data.photograph.pixels import IMAGE_SIZE, decode_jpeg
from dr_lib.data.shards.records import read_split


class Photographs(NamedTuple):
    """One split, decoded, in memory: 268 MB for 1,000 crops of 299 px."""

    images: np.ndarray  # (n, size, size, 3) uint8 RGB
    grade: np.ndarray  # (n,) int64, 0-4
    referable: np.ndarray  # (n,) float32, 0 or 1
    patient_id: np.ndarray  # (n,) str
    image_id: np.ndarray  # (n,) str


def load_photographs(data_dir: Path, split: str, image_size: int = IMAGE_SIZE) -> Photographs:
    """Read and decode one split of a folder that `prepare` wrote; a split that is not there has no photographs.

    Raises:
        ValueError: `image_size`, the side to shrink the stored crops to [px], is not between 1 and 299.
        ShardError: a shard does not match the manifest.
    """
    if not 1 <= image_size <= IMAGE_SIZE:
        raise ValueError(f"image_size {image_size}: the stored crops have {IMAGE_SIZE} px, ask for that or less")
    records = read_split(Path(data_dir), split)
    images = np.empty((len(records), image_size, image_size, 3), np.uint8)
    for image, record in zip(images, records, strict=True):
        image[:] = decode_jpeg(record.encoded, image_size)
    return Photographs(
        images=images,
        grade=np.array([r.grade for r in records], np.int64),
        referable=np.array([r.referable for r in records], np.float32),
        patient_id=np.array([r.patient_id for r in records], str),
        image_id=np.array([r.image_id for r in records], str),
    )


class Batches(keras.utils.PyDataset):
    """Full batches for `fit` and `evaluate`, of any number of photographs.

    Every batch has the same shape, so a device compiles once and any number of replicas that divides the batch can
    share it. Training, which has a shuffle seed, drops the remainder of each epoch's order. Evaluation fills the
    last batch up with copies that weigh nothing, so that every photograph counts exactly once.

    Keras knows the number of batches, so `optimizer.iterations` grows by exactly that an epoch; the order of an
    epoch depends on (seed, epoch) alone, so it is the same on every backend and after a restart. Keras's own
    hook `on_epoch_end` does not serve here: it is called once more before the first epoch.
    """

    def __init__(self, inputs: np.ndarray, targets: np.ndarray, batch_size: int, *, shuffle_seed: int | None = None):
        """Hold the arrays, which stay on the host and are not copied.

        Args:
            inputs: (n, ...) photographs as uint8, features, or row numbers of photographs kept on the device.
            targets: (n,) float32, 1 for referable; or (n,) int64 grades.
            batch_size: over all replicas.
            shuffle_seed: None keeps the order, for evaluation.
        """
        super().__init__()
        self.inputs, self.targets, self.batch_size = inputs, targets, batch_size
        self.shuffle_seed = shuffle_seed
        if batch_size < 1 or len(inputs) != len(targets) or not len(self):
            counts = f"{len(inputs)} photographs and {len(targets)} targets"
            raise ValueError(f"{counts} make no batch of {batch_size}: give as many of each, and a smaller batch_size")
        self.start_epoch(0)

    @property
    def num_dropped(self) -> int:
        """Photographs that an epoch of training drops, others in each: the remainder."""
        return len(self.inputs) % self.batch_size if self.shuffle_seed is not None else 0

    def start_epoch(self, epoch: int) -> None:
        """Take the order of that epoch; `fit` with `shuffle=False` then leaves it as it is."""
        self._order = np.arange(len(self.inputs))
        if self.shuffle_seed is not None:
            np.random.default_rng((self.shuffle_seed, epoch)).shuffle(self._order)

    def __len__(self) -> int:
        """Number of batches an epoch."""
        n = len(self.inputs)
        return n // self.batch_size if self.shuffle_seed is not None else -(-n // self.batch_size)

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        """The batch at that place of the epoch: inputs, targets and, in evaluation, weights.

        The weights of a whole evaluation sum to the number of its places, so that Keras, which divides the loss of a
        batch by its places and not by its weights, ends at the mean over the photographs.
        """
        rows = self._order[index * self.batch_size : (index + 1) * self.batch_size]
        if self.shuffle_seed is not None:
            return self.inputs[rows], self.targets[rows]
        num_places, num_empty = len(self) * self.batch_size, self.batch_size - len(rows)
        weights = np.full(self.batch_size, num_places / len(self.inputs), np.float32)
        weights[len(rows) :] = 0
        rows = np.pad(rows, (0, num_empty), mode="edge")
        return self.inputs[rows], self.targets[rows], weights
