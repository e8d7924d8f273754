"""Crop photographs in other processes, here or on a Dask cluster: each becomes a record, or a
reason.
"""

import errno
import hashlib
import multiprocessing
import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, NamedTuple

import cv2

from dr_lib.command import write_install
from dr_lib.data.labels.near_duplicates import perceptual_hash
from dr_lib.data.photograph.crop import NoFundusError, UnreadableImageError, crop_fundus
from dr_lib.data.photograph.pixels import encode_jpeg
from dr_lib.data.prepared.records import Record

PHOTOGRAPHS_PER_TASK = 2  # so that all workers end at about the same time
# a scheduler hands out some hundred tasks a second, see tests/bench_scale.py
PHOTOGRAPHS_PER_DASK_TASK = 16
# handed out at a time: enough that none waits, and memory does not grow with the photographs
TASKS_PER_WORKER = 8
PATIENCE_S = 20.0  # with a Dask cluster that does not answer or has no workers

# like the built-in map: results in the order of the items
Map = Callable[[Callable, Iterable], Iterator]


class WorkerError(RuntimeError):
    """There are no workers, one died, or one does not see the photographs."""


class Photograph(NamedTuple):
    """One photograph to crop."""

    row: int  # of the label table
    path: str
    image_id: str
    num_bytes: int  # -1 where the file cannot be seen


class Cropped(NamedTuple):
    """What became of one photograph."""

    record: Record | None  # of its crop
    sha256: str  # of its file, where there is a crop
    reason: str  # why there is none


def crop_photograph(photograph: Photograph, method: str, size: int) -> Cropped:
    """Crop one photograph in a worker, to so many pixels.

    Raises:
        WorkerError: the file is not there, though it was when the label table was read. A disk that
            went away must not end in a data set of rejections.
    """
    try:
        crop = crop_fundus(photograph.path, size, method=method)
        with open(photograph.path, "rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except (UnreadableImageError, NoFundusError, OSError) as error:
        cause = error.__cause__ or error
        is_disk = isinstance(cause, OSError) and cause.errno in (
            errno.EIO,
            errno.ENOENT,
            errno.ESTALE,
            errno.EACCES,
        )
        if is_disk or not os.path.exists(photograph.path):
            raise WorkerError(
                f"the photograph of row {photograph.row} cannot be read (any more): see to it that"
                " every worker has the folder of the photographs under the same path, and start"
                " again"
            ) from error
        return Cropped(None, "", str(error))
    encoded = encode_jpeg(crop.image)
    record = Record(
        encoded, photograph.image_id, size, *crop.circle, crop.status, perceptual_hash(encoded)
    )
    return Cropped(record, sha256, "")


@contextmanager
def map_over(workers: int, dask: str = "") -> Iterator[Map]:
    """Give a `map` over worker processes, for results that do not depend on who did the work.

    Args:
        workers: processes here; they are spawned, for the caller may hold a GPU or threads. 1 is
            this process.
        dask: address of a Dask scheduler, whose workers are then taken instead.

    Raises:
        WorkerError: nobody answers at the address, or a worker died.
    """
    if dask:
        with _connect(dask) as client:
            executor = client.get_executor(pure=False)
            ahead = TASKS_PER_WORKER * sum(client.nthreads().values())
            submit = partial(executor.submit, _map_part)
            try:
                yield partial(
                    _map_ahead, submit, partial(_wait, client), PHOTOGRAPHS_PER_DASK_TASK, ahead
                )
            finally:
                executor.shutdown(wait=False)  # takes back what nobody will ask for
    elif workers == 1:
        yield map
    else:
        with ExitStack() as ends:
            idle: SimpleQueue[Connection] = SimpleQueue()
            for _ in range(workers):
                idle.put(_start_worker(ends))
            threads = ThreadPoolExecutor(workers)  # one waits for each worker
            ends.callback(threads.shutdown, cancel_futures=True)
            submit = partial(threads.submit, _ask, idle)
            yield partial(
                _map_ahead, submit, Future.result, PHOTOGRAPHS_PER_TASK, TASKS_PER_WORKER * workers
            )


def _map_ahead(
    submit: Callable[..., Future],
    take: Callable,
    size: int,
    ahead: int,
    function: Callable,
    items: Iterable,
) -> Iterator:
    """Hand out that many tasks ahead, each of `size` items, and one more for each whose results
    were taken.
    """
    items = iter(items)
    tasks = deque()
    while part := list(islice(items, size)):
        tasks.append(submit(function, part))
        if len(tasks) == ahead:
            yield from take(tasks.popleft())
    while tasks:
        yield from take(tasks.popleft())


def _map_part(function: Callable, part: list) -> list:
    cv2.setNumThreads(1)  # there is a process for each core already
    return [function(item) for item in part]


def _start_worker(ends: ExitStack) -> Connection:
    """Start a process that waits for tasks at the other end of a pipe, and ends when this end is
    closed.

    Each worker has a pipe of its own, whose end is seen when it dies. The queue that
    concurrent.futures shares among its workers stays locked for ever when one is killed while it
    hands over a result.
    """
    here, there = multiprocessing.Pipe()
    worker = multiprocessing.get_context("spawn").Process(target=_work, args=(there,), daemon=True)
    worker.start()
    there.close()
    ends.callback(worker.join)
    return ends.enter_context(here)


def _work(tasks: Connection) -> None:
    """Work on what comes until nothing can come any more."""
    # Ctrl-C is for the process that hands out the work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, OSError):
        while True:
            function, part = tasks.recv()
            try:
                answer = True, _map_part(function, part)
            except Exception as error:
                error.add_note(traceback.format_exc())
                answer = False, error
            tasks.send(answer)


def _ask(idle: SimpleQueue[Connection], function: Callable, part: list) -> list:
    """Give a task to a worker that has none, and wait for its answer."""
    worker = idle.get()
    try:
        worker.send((function, part))
        is_done, answer = worker.recv()
    except (EOFError, OSError) as error:
        raise WorkerError(
            "a worker died, most likely for want of memory: take fewer (--workers 1)"
        ) from error
    finally:
        idle.put(worker)
    if not is_done:
        raise answer
    return answer


def _connect(address: str) -> Any:
    """Connect a distributed.Client to a scheduler that has workers."""
    try:
        from distributed import Client

        client = Client(address, timeout=PATIENCE_S)
        client.wait_for_workers(1, timeout=PATIENCE_S)
    except ImportError as error:
        install = write_install(".[dask]")
        raise WorkerError(f"a Dask cluster needs the package distributed: {install}") from error
    except (OSError, ValueError) as error:
        raise WorkerError(
            f"no Dask scheduler with workers answers at {address}: start them, and give its"
            " address, tcp://HOST:8786"
        ) from error
    return client


def _wait(client: Any, task: Future) -> list:
    """Wait for a task as long as there are workers; Dask gives those of a lost worker to another
    by itself.
    """
    num_workers = 1
    while True:
        try:
            return task.result(timeout=PATIENCE_S)
        except WorkerError:
            raise
        except (Exception, CancelledError) as error:
            with suppress(Exception):  # a scheduler that is gone says so in the error
                num_workers = len(client.nthreads())
            if not num_workers:
                raise WorkerError(
                    "all workers of the Dask cluster are gone: start some, and start again"
                ) from error
            if not isinstance(error, TimeoutError) or task.done():
                raise WorkerError(
                    f"the Dask cluster failed ({error!r}): see to it that all workers have this"
                    " repository at the same commit, with its requirements, and memory enough, and"
                    " start again"
                ) from error
