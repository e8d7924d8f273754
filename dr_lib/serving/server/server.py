"""The server process: open the model, listen, serve, and shut down cleanly."""

import asyncio
import ctypes
import logging
import os
import signal
import sys
import time
from pathlib import Path

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server as Granian

from dr_lib.errors import DrError
from dr_lib.hardware.cpus import count_cpus
from dr_lib.training.model_folder import ModelFolderError, read_folder

HEAD_S = 60  # granian's longest
MAX_CONNECTIONS = 1024
BUFFER_BYTES = 2**16  # of a connection, for a head, and for answers that nobody reads


class Server:
    """granian in this process, in front of one model, which is warmed up while it listens.

    What granian sets, and why it is enough behind SageMaker or a proxy: a connection without a
    head, or idle, is closed after 60 s. A client that never reads an answer occupies one of
    MAX_CONNECTIONS and BUFFER_BYTES until SIGTERM, and no thread. One that closes its sending side
    gets no answer.
    """

    def __init__(self, service, app, host: str, port: int):
        """Take a service, its application, and the address to listen on."""
        self.failure: Exception | None = None
        self._service = service
        self._app = app
        self._host = host
        self._port = port
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._stopping = asyncio.Event()

    def run(self) -> None:
        """Serve until `stop`, then answer the accepted requests.

        Raises:
            DrError: the port is taken or not allowed, or the host is not this machine.
        """
        with self._runner:
            self._runner.run(self._serve())

    def stop(self) -> None:
        """Stop the server, from a signal or another thread."""
        self._loop.call_soon_threadsafe(self._stopping.set)

    async def _serve(self) -> None:
        granian = Granian(
            self._app,
            address=await self._find_address(),
            port=self._port,
            interface=Interfaces.ASGINL,
            http=HTTPModes.http1,
            http1_settings=HTTP1Settings(
                header_read_timeout=1000 * HEAD_S, max_buffer_size=BUFFER_BYTES
            ),
            websockets=False,
            backlog=MAX_CONNECTIONS,
            log_enabled=False,  # it would hold addresses
        )
        serving = self._loop.create_task(granian.serve())
        stopping = self._loop.create_task(self._stopping.wait())
        warming = self._loop.create_task(self._warm_up())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done() and not self._stopping.is_set():
            self.failure = DrError(f"the server ended by itself: {serving.exception()}")
        self._service.is_stopping = True
        # for requests on their way over connections that are open
        await asyncio.sleep(0 if self.failure else 0.5)
        granian.stop()
        warming.cancel()
        await asyncio.wait({serving}, timeout=20)  # for predictions

    async def _find_address(self) -> str:
        """Resolve the host; raise if the port is in use, because granian would share it."""
        try:
            bound = await self._loop.create_server(
                asyncio.Protocol, self._host, self._port, start_serving=False
            )
        except OSError as error:
            reason = str(error.strerror or error).rpartition(": ")[2]
            raise DrError(
                f"cannot listen on port {self._port} of {self._host} ({reason}): choose another"
                " --port, or --host"
            ) from error
        address = bound.sockets[0].getsockname()[0]
        bound.close()
        return address

    async def _warm_up(self) -> None:
        service = self._service
        try:
            await self._loop.run_in_executor(service.pool, service.predictor.warm_up)
            service.is_warm = True
            facts = service.predictor.facts
            logging.info(
                f"ready: {facts['model']} {facts['format']}, version {service.predictor.version},"
                f" at http://{self._host}:{self._port}"
            )
        except Exception as error:  # of any kind: this model will never answer
            self.failure = DrError(f"the warm-up failed: {error}")
            self._stopping.set()


def serve(
    model: Path,
    *,
    host: str,
    port: int,
    threads: int | None,
    queue: int,
    request_seconds: float,
    max_body: float,
) -> None:
    """Serve a model until SIGTERM or SIGINT, then finish the accepted requests.

    Args:
        model: a model folder.
        host, port: to listen at.
        threads: predictions at a time; default one per core.
        queue: how many requests may wait for a thread; the next gets 503.
        request_seconds: a client has that long to send the body of a request.
        max_body: of a request [MB].

    Raises:
        ModelFolderError: there is no such model, or it cannot be served.
        DrError: nobody can listen there.
    """
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
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        format="%(asctime)s.%(msecs)03dZ %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
        level=logging.INFO,
    )
    threads = threads or count_cpus()
    folder = read_folder(model)
    predictor = Predictor(folder, threads)
    service = Service(
        predictor,
        threads=threads,
        queue=queue,
        request_s=request_seconds,
        max_body=int(1e6 * max_body),
    )
    server = Server(service, build_app(service), host, port)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    server.run()
    service.pool.shutdown(wait=False, cancel_futures=True)
    if server.failure:
        raise ModelFolderError(f"{model}: {server.failure}")


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
