"""Crops that stay on disk; threads read, decode and shrink them when a batch needs them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

from dr_lib.data.photograph.pixels import decode_jpeg
from dr_lib.data.prepared.records import ShardError
from dr_lib.hardware.cpus import count_cpus


class StoredCrops:
    """Crops of a prepared folder, indexed by row numbers like an array; a row costs 150 bytes.

    Threads, not processes: decoders release Python's lock, so threads need less CPU time than
    processes, which send every pixel back, and neither time to start nor memory of their own.
    """

    def __init__(self, data_dir: Path, photographs: pd.DataFrame, image_size: int):
        """Store where the crops are; see `Prepared.open_crops`."""
        self.paths = [Path(data_dir, name) for name in photographs["shard"].unique()]
        paths = photographs["shard"].map({path.name: path for path in self.paths})
        self._places = list(
            zip(paths, photographs["offset"], photographs["length"], strict=True)
        )
        self._num_threads = count_cpus()
        # starts a thread when there is work for it
        self._pool = ThreadPoolExecutor(self._num_threads)
        self.shape = (len(photographs), image_size, image_size, 3)

    def __len__(self) -> int:
        """Number of crops."""
        return self.shape[0]

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        """Decode these rows: (rows, size, size, 3) uint8 RGB, with any number of threads."""
        rows = np.arange(len(self))[rows]
        images = np.empty((len(rows), *self.shape[1:]), np.uint8)

        def fill(places: np.ndarray) -> None:
            for place in places:
                images[place] = decode_jpeg(self.read_jpeg(rows[place]), self.shape[1])

        parts = np.array_split(np.arange(len(rows)), self._num_threads)
        list(self._pool.map(fill, parts))
        return images

    def read_jpeg(self, row: int) -> bytes:
        """Read a crop's JPEG; each read opens the shard, so that threads share nothing."""
        path, offset, length = self._places[row]
        try:
            with path.open("rb", buffering=0) as file:
                file.seek(offset)
                encoded = file.read(length)
        except OSError as error:
            raise ShardError(
                f"{path.name}: can no longer be read ({error.strerror})"
            ) from error
        if len(encoded) < length:
            raise ShardError(f"{path.name}: was cut short after it was opened")
        return encoded
