"""Crop photographs in worker processes: each becomes a framed record, or the reason why there is none."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from dr_lib.data.crops import IMAGE_SIZE, encode_jpeg
from dr_lib.data.fundus import NoFundusError, UnreadableImageError, crop_fundus
from dr_lib.data.records import Record, to_example
from dr_lib.data.tfrecord import frame


class WorkerError(RuntimeError):
    """A worker process died."""


class Photograph(NamedTuple):
    """One photograph to prepare; it leaves this module as a record or as a rejection."""

    row: int  # of the label table
    path: str
    image_id: str
    patient_id: str
    eye: str
    grade: int


class Prepared(NamedTuple):
    """One photograph as its shard holds it."""

    framed: bytes
    record: Record  # without the pixels


class Rejection(NamedTuple):
    """One photograph that could not be used, and why; written to the private folder."""

    row: int
    image: str
    reason: str


def crop_photograph(photograph: Photograph, method: str) -> Prepared | Rejection:
    """Crop one photograph in a worker: a framed record, or the reason why there is none."""
    try:
        crop = crop_fundus(photograph.path, IMAGE_SIZE, method=method)
    except (UnreadableImageError, NoFundusError) as error:
        return Rejection(photograph.row, photograph.path, str(error))
    record = Record(
        encode_jpeg(crop.image),
        photograph.grade,
        photograph.patient_id,
        photograph.image_id,
        photograph.eye,
        *crop.circle,
        crop.status,
    )
    return Prepared(frame(to_example(record)), record._replace(encoded=b""))


@contextmanager
def map_over(workers: int) -> Iterator[Callable]:
    """A `map` over that many processes; they are spawned, for the caller may hold a GPU or threads."""
    if workers == 1:
        yield map
        return
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(workers, mp_context=context) as executor:
            yield partial(executor.map, chunksize=8)
    except BrokenProcessPool as error:
        raise WorkerError("a worker died, most likely for want of memory: pass --workers 1") from error
