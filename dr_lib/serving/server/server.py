"""The process: open the model, listen, serve, and end well."""

import asyncio
import contextlib
import ctypes
import logging
import os
import select
import shutil
import sys
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dr_lib.serving.grader.folder import MANIFEST, ModelFolder, ModelFolderError, read_folder

# of a photograph: a 6,300 px square, which takes 240 MB while a PNG of it is decoded
MAX_PIXELS = 40_000_000
MAX_UNPACKED_BYTES = 2**30
MAX_MEMBERS = 1_000  # of a model archive
# Read at a time. A body of known length is one piece; what may be chunks of a byte, 20 microseconds
# each, is read in small portions, so that others have their turn every 50 ms.
READ_BYTES = 2**18
READ_WARILY_BYTES = 2**14
KEEP_ALIVE_S = 75
GRACE_S = 0.5  # after SIGTERM, for requests on their way over connections that are open
STOP_S = 20  # after SIGTERM, for predictions


class PortError(ValueError):
    """Nobody can listen there; the message says what to change."""


@contextlib.contextmanager
def open_model(path: Path) -> Iterator[ModelFolder]:
    """Open a model folder, or a .tar.gz of one, which is unpacked into a private folder for as
    long.

    Raises:
        ModelFolderError: it is neither, or its artifact is not the one that its manifest names.
    """
    if not path.is_file():
        yield read_folder(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        _unpack(path, Path(folder))
        if not (Path(folder) / MANIFEST).is_file():
            raise ModelFolderError(
                f"{path} holds no model: {MANIFEST} has to lie at its top, as `export --pack`"
                " packs it"
            )
        yield read_folder(Path(folder))


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack plain files of decent size; anything else in an archive means that it is no model."""
    unpacked_bytes = 0
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for number, member in enumerate(tar, 1):
                unpacked_bytes += member.size
                path = folder / member.name
                if not (member.isreg() or member.isdir()) or not path.resolve().is_relative_to(
                    folder.resolve()
                ):
                    raise ModelFolderError(
                        f"{archive}: {member.name!r} is no plain file of a model folder"
                    )
                if number > MAX_MEMBERS or unpacked_bytes > MAX_UNPACKED_BYTES:
                    raise ModelFolderError(
                        f"{archive}: over {MAX_MEMBERS} files or {MAX_UNPACKED_BYTES >> 20} MiB"
                    )
                (path if member.isdir() else path.parent).mkdir(parents=True, exist_ok=True)
                if member.isreg():
                    with path.open("wb") as file:  # tar.extract(filter=) came with Python 3.11.4
                        shutil.copyfileobj(tar.extractfile(member), file)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise ModelFolderError(f"{archive} is no .tar.gz of a model folder: {error}") from error


class Protocol(H11Protocol):
    """uvicorn's HTTP/1.1, with a limit for slow clients, answers for half-closed ones, and a
    patient end.
    """

    def __init__(self, *args, request_s: float, **kwargs):
        """Give the client `request_s` seconds for a request; the rest is uvicorn's."""
        super().__init__(*args, **kwargs)
        self._request_s = request_s
        self._clock = None
        self._is_half_closed = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the clock: a connection that sends nothing is closed too."""
        super().connection_made(transport)
        transport.max_size = READ_WARILY_BYTES
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Stop the clock where that completes a request; read faster where it is harmless."""
        if self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            data = data.lstrip(b"\r\n")  # before a request line, RFC 9112, 2.2
            if not data:
                return
        super().data_received(data)
        is_whole = self.conn.their_state is h11.SEND_BODY and b"transfer-encoding" not in dict(
            self.headers
        )
        self.transport.max_size = READ_BYTES if is_whole else READ_WARILY_BYTES
        self._watch()

    def on_response_complete(self) -> None:
        """Go on with the next request, unless the client has said that there will be none."""
        super().on_response_complete()
        if self._is_half_closed and self.cycle.response_complete:
            self.transport.close()
        self._watch()

    def eof_received(self) -> bool:
        """Keep the connection where an answer is due: asyncio would close it, and the answer be
        lost.
        """
        self._is_half_closed = True
        if self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete:
            self.send_400_response("The body was cut short.")
        return (
            self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete
        )

    def pause_writing(self) -> None:
        """Give a client that does not read its answers as long as one that does not send."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Stop that clock."""
        super().resume_writing()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the clock."""
        if self._clock:
            self._clock.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close an idle connection only after a while: a request may be on its way."""
        self.loop.call_later(GRACE_S, self._close_unless_busy)

    def send_400_response(self, msg: str) -> None:
        """Say that the request is malformed, unless it has its answer already; whatever follows
        goes nowhere.
        """
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        if self.cycle:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def _close_unless_busy(self) -> None:
        # else half a request is there, and its answer will close the connection
        if not self.conn.trailing_data[0]:
            super().shutdown()

    def _watch(self) -> None:
        """Have a clock run while the client is to send or read something, and uvicorn's for
        keep-alive does not run.
        """
        is_sending = (
            self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
            and self.timeout_keep_alive_task is None
        )
        is_due = is_sending or self.flow.write_paused
        if is_due and self._clock is None:
            self._clock = self.loop.call_later(self._request_s, self._give_up)
        elif self._clock and not is_due:
            self._clock.cancel()
            self._clock = None

    def _give_up(self) -> None:
        """Close a connection whose request does not come; for a body that does not, the
        application says 408.
        """
        self._clock = None
        if self.flow.write_paused:
            self.transport.abort()
        elif self.cycle is None or self.cycle.response_complete:
            self.transport.close()


class Server(uvicorn.Server):
    """uvicorn's server, which warms its model up while it listens, and ends with status 0 when
    told to.
    """

    def __init__(self, service, app, host: str, port: int):
        """Set uvicorn for this contract, in front of a service's application."""
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            http=partial(Protocol, request_s=service.request_s),
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,  # it would hold addresses
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_S,
        )
        super().__init__(config)
        self._service = service
        self._warming = None
        self.failure = None

    async def startup(self, sockets=None) -> None:
        """Listen, then warm up."""
        try:  # bind before uvicorn does, which would log the error's number and exit
            listen = asyncio.get_running_loop().create_server
            (
                await listen(
                    asyncio.Protocol, self.config.host, self.config.port, start_serving=False
                )
            ).close()
        except OSError as error:
            reason = str(error.strerror or error).rpartition(": ")[2]
            where = f"port {self.config.port} of {self.config.host}"
            raise PortError(
                f"cannot listen on {where} ({reason}): choose another --port, or --host"
            ) from error
        await super().startup(sockets)
        self._warming = asyncio.create_task(self._warm_up())

    async def shutdown(self, sockets=None) -> None:
        """Accept whoever waits at the socket, for closing it would reset them; then end as
        uvicorn does.
        """
        listeners = [listener for server in self.servers for listener in server.sockets]
        end = time.monotonic() + GRACE_S
        num_quiet = 0
        # turns of the loop: accepted, a transport, a protocol
        while num_quiet < 3 and time.monotonic() < end:
            await asyncio.sleep(0)
            num_quiet = 0 if select.select(listeners, [], [], 0)[0] else num_quiet + 1
        await super().shutdown(sockets)

    async def _warm_up(self) -> None:
        service = self._service
        try:
            await asyncio.get_running_loop().run_in_executor(
                service.pool, service.predictor.warm_up
            )
            service.is_warm = True
        except Exception as error:  # whatever it is, this model will never answer
            self.failure = error
            self.should_exit = True

    def handle_exit(self, sig: int, frame) -> None:
        """Stop, and do not raise the signal again afterwards as uvicorn does."""
        self.should_exit = self._service.is_stopping = True


def serve(
    model: Path,
    *,
    host: str,
    port: int,
    threads: int,
    queue: int,
    request_s: float,
) -> None:
    """Serve a model until SIGTERM or SIGINT, then finish what was accepted.

    Args:
        model: a model folder, or a .tar.gz of one.
        host, port: to listen at.
        threads: predictions at a time.
        queue: how many requests may wait for a thread; the next gets 503.
        request_s: a client has that long to send the head of a request, and again for its body.

    Raises:
        ModelFolderError: there is no such model, or it cannot be served.
        PortError: the port is taken or not allowed, or the host is not this machine.
    """
    # OpenCV reads it when it is imported
    os.environ["OPENCV_IO_MAX_IMAGE_PIXELS"] = str(MAX_PIXELS)
    # what is wrong with a picture is said to who sent it
    os.environ.setdefault("OPENCV_LOG_LEVEL", "SILENT")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each thread's buffers count as resident
    # predictions are made by the processor, a SavedModel's too
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import cv2

    from dr_lib.serving.grader.predict import Predictor
    from dr_lib.serving.server.app import Service, build_app

    _limit_heap()
    cv2.setNumThreads(1)
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    with open_model(model) as folder:
        predictor = Predictor(folder, threads, max_pixels=MAX_PIXELS)
    service = Service(predictor, threads=threads, queue=queue, request_s=request_s)
    server = Server(service, build_app(service), host, port)
    server.run()
    service.pool.shutdown(wait=False, cancel_futures=True)
    if server.failure:
        raise ModelFolderError(f"{model}: the warm-up failed: {server.failure}") from server.failure


def _limit_heap() -> None:
    """Have the memory of large photographs go back to the system at once, and not stay with every
    thread.

    It costs no time that can be measured for a JPEG. Where the C library is not glibc, nothing is
    done.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    # M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
    for option, value in ((-8, 2), (-3, 2**22), (-1, 2**22)):
        if set_option:
            set_option(option, value)
