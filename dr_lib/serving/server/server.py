"""The server process: open the model, listen, serve, and shut down cleanly."""

import asyncio
import ctypes
import logging
import os
import signal
import socket
import sys
from pathlib import Path

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server as Granian

from dr_lib.errors import DrError
from dr_lib.hardware.cpus import count_cpus
from dr_lib.training.model_folder import read_folder

HEAD_S = 60  # granian's longest
MAX_CONNECTIONS = 1024
BUFFER_BYTES = 2**16  # of a connection, for a head, and for answers that nobody reads


class Server:
    """granian in this process, in front of one model.

    What granian sets, and why it is enough behind SageMaker or a proxy: a connection without a
    head, or idle, is closed after 60 s. A client that never reads an answer occupies one of
    MAX_CONNECTIONS and BUFFER_BYTES until SIGTERM, and no thread. One that closes its sending side
    gets no answer.
    """

    def __init__(self, service, app, host: str, port: int):
        """Take a service, its application, and the address to listen on.

        Raises:
            DrError: the port is taken or not allowed, or the host is not this machine.
        """
        self._service = service
        self._granian = Granian(
            app,
            address=_find_address(host, port),
            port=port,
            interface=Interfaces.ASGINL,
            http=HTTPModes.http1,
            http1_settings=HTTP1Settings(
                header_read_timeout=1000 * HEAD_S, max_buffer_size=BUFFER_BYTES
            ),
            websockets=False,
            backlog=MAX_CONNECTIONS,
            log_enabled=False,  # it would hold addresses
        )
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._stopping = asyncio.Event()

    def run(self) -> None:
        """Serve until `stop`, then answer the accepted requests."""
        with self._runner:
            self._runner.run(self._serve())

    def stop(self) -> None:
        """Stop the server, from a signal or another thread."""
        self._loop.call_soon_threadsafe(self._stopping.set)

    async def _serve(self) -> None:
        serving = self._loop.create_task(self._granian.serve())
        stopping = self._loop.create_task(self._stopping.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            raise DrError(f"the server ended by itself: {serving.exception()}")
        self._service.is_stopping = True
        await asyncio.sleep(0.5)  # for requests on their way over connections that are open
        self._granian.stop()
        await asyncio.wait({serving}, timeout=20)  # for predictions


def _find_address(host: str, port: int) -> str:
    """Resolve the host; raise if the port is in use, because granian would share it."""
    try:
        with socket.create_server((host, port)) as bound:
            return bound.getsockname()[0]
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]  # which repeats the address
        raise DrError(
            f"cannot listen on port {port} of {host} ({reason}): choose another --port, or --host"
        ) from error


def serve(
    model: Path,
    *,
    host: str,
    port: int,
    threads: int | None,
    max_body: float,
) -> None:
    """Serve a model until SIGTERM or SIGINT, then finish the accepted requests.

    Args:
        model: a model folder.
        host, port: to listen at.
        threads: predictions at a time; default one per core.
        max_body: of a request [MB].

    Raises:
        ModelFolderError: there is no such model, or it cannot be served.
        DrError: nobody can listen there.
    """
    _find_address(host, port)  # better now than after the model is loaded
    # OpenCV reads it when it is imported; what is wrong with a picture is said to who sent it
    os.environ.setdefault("OPENCV_LOG_LEVEL", "SILENT")
    # each thread's buffers count as resident
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # predictions are made by the processor, a SavedModel's too
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import cv2

    from dr_lib.serving.grader.predict import Predictor
    from dr_lib.serving.server.app import Service, build_app

    _limit_heap()
    cv2.setNumThreads(1)
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    threads = threads or count_cpus()
    predictor = Predictor(read_folder(model), threads)
    predictor.warm_up()
    service = Service(predictor, threads=threads, max_body=int(1e6 * max_body))
    server = Server(service, build_app(service), host, port)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    facts = predictor.facts
    logging.info(
        f"ready: {facts['model']} {facts['format']}, version {predictor.version}, at"
        f" http://{host}:{port}"
    )
    server.run()
    service.pool.shutdown(wait=False, cancel_futures=True)


def _limit_heap() -> None:
    """Return the memory of large photographs to the system instead of keeping it in each thread.

    It costs no time that can be measured for a JPEG. Where the C library is not glibc, nothing is
    done.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if hasattr(library, "mallopt"):
        library.mallopt(-8, 2)  # M_ARENA_MAX
        library.mallopt(-3, 2**22)  # M_MMAP_THRESHOLD
        library.mallopt(-1, 2**22)  # M_TRIM_THRESHOLD
