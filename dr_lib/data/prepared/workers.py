"""Crop photographs in processes; the results do not depend on their number.

A worker imports this module alone, so it needs no tables.
"""

import hashlib
import multiprocessing
import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cache, partial
from importlib import metadata
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import cv2
import numpy as np
import PIL
import simplejpeg

from dr_lib.data.labels.near_duplicates import perceptual_hash
from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.decode import read_file
from dr_lib.data.photograph.errors import NoFundusError, UnreadableImageError
from dr_lib.data.photograph.pixels import encode_jpeg
from dr_lib.data.prepared.records import make_record
from dr_lib.errors import DrError

# of the crop and its record: raise it with every change of their bytes or of what is rejected
VERSION = 3
# decode, too, where they are installed
OTHERS = ("imagecodecs", "pillow-heif", "pydicom", "tifffile")
# photographs handed out at a time: enough that none waits, and memory does not grow
TASKS_PER_WORKER = 16

DIED = (
    "workers died, most likely out of memory: use fewer (--workers 1); in a script, call this below"
    ' `if __name__ == "__main__":`'
)
# like the built-in map: results in the order of the items
Map = Callable[[Callable, Iterable], Iterator]


@cache
def name_versions() -> str:
    """Name the versions of the crop and of what decodes pictures: others may give other pixels."""
    names = [
        f"crop {VERSION}",
        f"opencv {cv2.__version__}",
        f"pillow {PIL.__version__}",
        f"simplejpeg {simplejpeg.__version__}",
    ]
    for package in OTHERS:
        try:
            names.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            names.append(f"{package} none")
    return " ".join(names)


def crop_photograph(
    photograph: tuple[int, str, str], method: str, size: int
) -> tuple[bytes, dict]:
    """Crop one photograph in a worker.

    Args:
        photograph: row of the label table, path and image id.
        method: of `crop.crop_fundus`.
        size: side of the crop [px].

    Returns:
        The record, empty where there is no crop, and what its listing says: offset in that
        record, content_id the SHA-256 of the file; empty where it cannot be read.

    Raises:
        DrError: the system cannot read the file, which was there when the label table was read. A
            disk that went away, or too many open files, must not end in a data set of rejections.
    """
    row, path, image_id = photograph
    listed = {"image_id": image_id, "content_id": "", "reason": ""}
    try:
        encoded = read_file(Path(path))
        # of the bytes that are decoded: the file may change
        listed["content_id"] = hashlib.sha256(encoded).hexdigest()
        crop = crop_fundus(encoded, size, method=method)
    except (UnreadableImageError, NoFundusError, OSError) as error:
        # of the machine, not of the file
        if getattr(error.__cause__ or error, "errno", 0) or not os.path.exists(path):
            raise DrError(
                f"the photograph of row {row} cannot be read: make sure that every worker has "
                "the folder of the photographs under the same path, and start again"
            ) from error
        return b"", listed | {"reason": str(error)}
    encoded = encode_jpeg(crop.image)
    listed |= {
        "length": len(encoded),
        "status": crop.status,
        **crop.circle._asdict(),
        "perceptual_hash": perceptual_hash(encoded).hex(),
    }
    record = make_record(encoded, size, listed)
    return record, {**listed, "offset": record.index(encoded)}


def read_content(path: str) -> str:
    """Read the SHA-256 of a file as `crop_photograph` does; empty where it cannot be read."""
    try:
        return hashlib.sha256(read_file(Path(path))).hexdigest()
    except UnreadableImageError:
        return ""


@contextmanager
def map_over(
    workers: int | AbstractContextManager[Map], lost: Callable[[Any], Any] | None = None
) -> Iterator[Map]:
    """Yield a `map` over worker processes that works a bounded number of items ahead.

    A worker that dies is replaced, and the item is tried once more.

    Args:
        workers: processes; they are spawned, for the caller may hold a GPU or threads. 0 is this
            process. Or what yields a map over workers elsewhere.
        lost: the result of an item over which two workers died; without it that is an error.

    Raises:
        DrError: two workers died over one item.
    """
    if not isinstance(workers, int):
        with workers as map_there:
            yield map_there
        return
    if workers == 0:
        _keep_freed_memory()
        yield map
        return
    with ExitStack() as ends:
        idle: SimpleQueue[Connection] = SimpleQueue()
        for _ in range(workers):
            idle.put(_start_worker(ends))
        threads = ThreadPoolExecutor(workers)  # one waits for each worker

        # joblib's generator works ahead as far as it can, however slowly results are taken
        def map_ahead(function: Callable, items: Iterable) -> Iterator:
            submit = partial(threads.submit, _hand_over, ends, idle, lost, function)
            for task in start_ahead(submit, items, workers):
                yield task.result()

        try:
            yield map_ahead
        finally:
            threads.shutdown(cancel_futures=True)


def start_ahead(
    submit: Callable[[Any], Future], items: Iterable, workers: int
) -> Iterator[Future]:
    """Submit a bounded number of items ahead, and yield their tasks in order."""
    tasks = deque()
    for item in items:
        tasks.append(submit(item))
        if len(tasks) == TASKS_PER_WORKER * workers:
            yield tasks.popleft()
    yield from tasks


def _start_worker(ends: ExitStack) -> Connection:
    """Start a process that serves tasks from a pipe until this end of it is closed.

    Each worker has a pipe of its own, which breaks when it dies. Those of concurrent.futures and
    joblib share a queue: when one is killed while it hands over a result, the others wait forever.
    """
    here, there = multiprocessing.Pipe()
    worker = multiprocessing.get_context("spawn").Process(
        target=_work, args=(there,), daemon=True
    )
    worker.start()
    there.close()
    ends.callback(worker.join)
    return ends.enter_context(here)


def _work(tasks: Connection) -> None:
    # Ctrl-C is for the process that hands out the work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cv2.setNumThreads(1)  # there is a process for each core already
    _keep_freed_memory()
    with suppress(EOFError, OSError):
        while True:
            function, item = tasks.recv()
            try:
                answer = function(item)
            except Exception as error:
                error.add_note(traceback.format_exc())
                answer = error
            tasks.send(answer)


def _keep_freed_memory() -> None:
    """Let the C library keep up to 64 MB that were freed: fetching them again for every photograph
    costs a tenth of its time.

    glibc keeps twice what the largest block freed so far had, counting blocks of up to 32 MiB;
    untouched, this one takes no memory.
    """
    np.empty(31 * 2**20, np.uint8)


def _hand_over(
    ends: ExitStack,
    idle: SimpleQueue[Connection],
    lost: Callable[[Any], Any] | None,
    function: Callable,
    item: Any,
) -> Any:
    """Send an item to an idle worker and wait for its answer; to a new one if that one is dead."""
    worker = idle.get()
    try:
        for _ in range(2):
            try:
                worker.send((function, item))
                answer = worker.recv()
            except (EOFError, OSError):
                worker = _start_worker(ends)
            else:
                if isinstance(answer, Exception):
                    raise answer
                return answer
    finally:
        idle.put(worker)
    if lost is None:
        raise DrError(DIED)
    return lost(item)
