"""Crop photographs in processes here or on a Dask cluster; the results do not depend on which.

A worker imports this module alone, so it needs no tables.
"""

import errno
import hashlib
import multiprocessing
import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import cv2

from dr_lib.command import write_install
from dr_lib.data.labels.near_duplicates import perceptual_hash
from dr_lib.data.photograph.crop import NoFundusError, UnreadableImageError, crop_fundus
from dr_lib.data.photograph.pixels import encode_jpeg
from dr_lib.data.prepared.records import Record, frame, to_example
from dr_lib.errors import DrError

PHOTOGRAPHS_PER_TASK = 2  # so that all workers end at about the same time
# a scheduler hands out some hundred tasks a second, see tests/bench_scale.py
PHOTOGRAPHS_PER_DASK_TASK = 16
# handed out at a time: enough that none waits, and memory does not grow with the photographs
TASKS_PER_WORKER = 8
PATIENCE_S = 20.0  # with a Dask cluster that does not answer or has no workers
LOST = {errno.EIO, errno.ENOENT, errno.ESTALE, errno.EACCES}  # of a disk that went away

# like the built-in map: results in the order of the items
Map = Callable[[Callable, Iterable], Iterator]


def crop_photograph(
    photograph: tuple[int, str, str], method: str, size: int
) -> tuple[bytes, dict]:
    """Crop one photograph in a worker.

    Args:
        photograph: row of the label table, path and image id.
        method: of `crop.crop_fundus`.
        size: side of the crop [px].

    Returns:
        The framed record, empty where there is no crop, and what its listing says: offset in that
        record, content_id the SHA-256 of the file.

    Raises:
        DrError: the file is not there, though it was when the label table was read. A disk that
            went away must not end in a data set of rejections.
    """
    row, path, image_id = photograph
    try:
        crop = crop_fundus(path, size, method=method)
        with open(path, "rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except (UnreadableImageError, NoFundusError, OSError) as error:
        if getattr(error.__cause__ or error, "errno", 0) in LOST or not os.path.exists(path):
            raise DrError(
                f"the photograph of row {row} cannot be read (any more): see to it that every"
                " worker has the folder of the photographs under the same path, and start again"
            ) from error
        return b"", {"image_id": image_id, "reason": str(error)}
    encoded = encode_jpeg(crop.image)
    digest = perceptual_hash(encoded)
    record = Record(encoded, image_id, size, *crop.circle, crop.status, digest)
    framed = frame(to_example(record))
    return framed, {
        "image_id": image_id,
        "offset": framed.index(encoded),
        "length": len(encoded),
        "status": crop.status,
        **crop.circle._asdict(),
        "perceptual_hash": digest.hex(),
        "reason": "",
        "content_id": sha256,
    }


@contextmanager
def map_over(workers: int, dask: str = "") -> Iterator[Map]:
    """Give a `map` over worker processes, which works a bounded number of items ahead.

    Args:
        workers: processes here; they are spawned, for the caller may hold a GPU or threads. 1 is
            this process.
        dask: address of a Dask scheduler, whose workers are then taken instead.

    Raises:
        DrError: nobody answers at the address, or a worker died.
    """
    if dask:
        with _connect(dask) as client:
            executor = client.get_executor(pure=False)
            num_ahead = TASKS_PER_WORKER * sum(client.nthreads().values())
            results = partial(_wait, client)
            try:
                yield partial(
                    _map_ahead, executor.submit, results, PHOTOGRAPHS_PER_DASK_TASK, num_ahead
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
            submit = partial(threads.submit, _hand_over, idle)
            num_ahead = TASKS_PER_WORKER * workers
            yield partial(_map_ahead, submit, Future.result, PHOTOGRAPHS_PER_TASK, num_ahead)


def _map_ahead(
    submit: Callable[..., Future],
    results: Callable[[Future], list],
    task_size: int,
    num_ahead: int,
    function: Callable,
    items: Iterable,
) -> Iterator:
    """Submit `num_ahead` tasks, and one more for each whose results were taken.

    joblib's generator works as far ahead as its workers can, however slowly results are taken.
    """
    items = iter(items)
    tasks = deque()
    while part := list(islice(items, task_size)):
        tasks.append(submit(_map_part, function, part))
        if len(tasks) == num_ahead:
            yield from results(tasks.popleft())
    while tasks:
        yield from results(tasks.popleft())


def _map_part(function: Callable, part: list) -> list:
    cv2.setNumThreads(1)  # there is a process for each core already
    return [function(item) for item in part]


def _start_worker(ends: ExitStack) -> Connection:
    """Start a process that works on what comes through a pipe, until this end of it is closed.

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
    with suppress(EOFError, OSError):
        while True:
            function, *arguments = tasks.recv()
            try:
                answer = function(*arguments)
            except Exception as error:
                error.add_note(traceback.format_exc())
                answer = error
            tasks.send(answer)


def _hand_over(idle: SimpleQueue[Connection], *task: Any) -> list:
    """Give a task to an idle worker, and wait for its answer."""
    worker = idle.get()
    try:
        worker.send(task)
        answer = worker.recv()
    except (EOFError, OSError) as error:
        raise DrError(
            "a worker died, most likely for want of memory: take fewer (--workers 1)"
        ) from error
    finally:
        idle.put(worker)
    if isinstance(answer, Exception):
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
        raise DrError(f"a Dask cluster needs the package distributed: {install}") from error
    except (OSError, ValueError) as error:
        raise DrError(
            f"no Dask scheduler with workers answers at {address}: start them, and give its"
            " address, tcp://HOST:8786"
        ) from error
    return client


def _wait(client: Any, task: Future) -> list:
    """Wait for a task as long as there are workers; Dask repeats those of a lost worker."""
    try:
        while not wait([task], PATIENCE_S).done:
            if not client.nthreads():
                raise DrError(
                    "all workers of the Dask cluster are gone: start some, and start again"
                )
        return task.result()
    except DrError:
        raise
    except (Exception, CancelledError) as error:
        raise DrError(
            f"the Dask cluster failed ({error!r}): see to it that all workers have this repository"
            " at the same commit, with its requirements, and memory enough, and start again"
        ) from error
