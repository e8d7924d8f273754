"""The endpoint: GET /ping and POST /invocations, in front of a bounded queue and worker threads."""

import asyncio
import contextlib
import logging
import re
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dr_lib.rooms.serving.grader.predict import Predictor, RefusedError, check_media_type
from dr_lib.rooms.serving.server.sagemaker import LIMIT, MAX_BODY_BYTES

ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
VISIBLE_ASCII = re.compile(r"[\x20-\x7e]{0,1024}")
MAX_PENDING_BYTES = 32 * MAX_BODY_BYTES  # of bodies that are being received or wait
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")
HEADERS = {408: {"Connection": "close"}, 503: {"Retry-After": "1"}}

logger = logging.getLogger(__name__)


class Service:
    """A predictor, its threads, and a bounded queue of requests.

    All but the predictor lives in the event loop.
    """

    def __init__(self, predictor: Predictor, *, threads: int, queue: int, request_s: float):
        """Take the options of `serve`; the predictor must be made for as many threads."""
        self.predictor = predictor
        self.request_s = request_s
        self.max_accepted = threads + queue
        self.is_warm = False
        self.is_stopping = False
        self.num_accepted = 0
        self.pending_bytes = 0
        self.pool = ThreadPoolExecutor(threads, "predict")

    async def answer(self, request: Request) -> dict[str, Any]:
        """Read a request's body and predict, or raise RefusedError."""
        media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        check_media_type(media_type, request.headers.get("Content-Encoding", ""))
        self._check_room()
        body = bytearray()
        try:
            await self._receive(request, body)
            self._check_room()
            self.num_accepted += 1
            try:
                return await asyncio.get_running_loop().run_in_executor(
                    self.pool, self.predictor, bytes(body), media_type
                )
            finally:
                self.num_accepted -= 1
        finally:
            self.pending_bytes -= len(body)

    async def discard_body(self, request: Request) -> None:
        """Read what a refused client still sends, because closing early would reset its
        connection.
        """
        num_bytes = 0
        with contextlib.suppress(TimeoutError, ClientDisconnect, RuntimeError):
            async with asyncio.timeout(self.request_s):
                async for chunk in request.stream():
                    num_bytes += len(chunk)
                    if num_bytes > 2 * MAX_BODY_BYTES:
                        return

    def _check_room(self) -> None:
        if not self.is_warm:
            raise RefusedError(503, "the model is being loaded")
        if self.num_accepted >= self.max_accepted:
            raise RefusedError(503, "too many requests are already waiting")

    async def _receive(self, request: Request, body: bytearray) -> None:
        """Append the request's body to `body`, and stop at the first byte over the limit."""
        too_large = RefusedError(
            413, f"the body is larger than {LIMIT} ({MAX_BODY_BYTES} bytes), the limit"
        )
        if int(request.headers.get("Content-Length", 0)) > MAX_BODY_BYTES:
            raise too_large
        try:
            async with asyncio.timeout(self.request_s):
                async for chunk in request.stream():
                    body += chunk
                    self.pending_bytes += len(chunk)
                    if len(body) > MAX_BODY_BYTES:
                        raise too_large
                    if self.pending_bytes > MAX_PENDING_BYTES:
                        raise RefusedError(503, "too many requests are already being received")
        except TimeoutError as error:
            raise RefusedError(
                408, f"the body did not arrive within {self.request_s:g} s"
            ) from error
        except ClientDisconnect as error:
            raise RefusedError(400, "the body was cut short") from error


def build_app(service: Service) -> Starlette:
    """Build the application of a service; the caller must warm up the predictor and report it."""

    async def ping(request: Request) -> Response:
        is_ready = service.is_warm and not service.is_stopping
        return Response(status_code=200 if is_ready else 503)

    async def invoke(request: Request) -> Response:
        attributes = request.headers.get(ATTRIBUTES)
        try:
            if attributes is not None and not VISIBLE_ASCII.fullmatch(attributes):
                attributes = None
                raise RefusedError(400, f"{ATTRIBUTES}: at most 1024 visible ASCII characters")
            response = JSONResponse(await service.answer(request))
        except RefusedError as error:
            response = JSONResponse(
                {"error": str(error)}, error.status, HEADERS.get(error.status)
            )
            if error.status != 408:
                response.background = BackgroundTask(service.discard_body, request)
        except MemoryError:
            response = JSONResponse(
                {"error": "not enough memory now: try again later"}, 503, HEADERS[503]
            )
        except Exception as error:  # its message may hold what was sent, so it is not logged
            place = traceback.extract_tb(error.__traceback__)[-1]
            logger.error("%s in %s:%d", type(error).__name__, place.filename, place.lineno)
            response = JSONResponse(
                {"error": "internal error of the server; the request may be valid"}, 500
            )
        if attributes is not None:
            response.headers[ATTRIBUTES] = attributes
        return response

    async def refuse(request: Request, error: HTTPException) -> Response:
        words = f"{error.detail}: use GET /ping or POST /invocations"
        return JSONResponse({"error": words}, error.status_code)

    app = Starlette(
        routes=[Route("/ping", ping), Route("/invocations", invoke, methods=["POST"])],
        middleware=[Middleware(_Log, service)],
        exception_handlers={HTTPException: refuse},
    )
    # a redirect would repeat the path and the host that were sent
    app.router.redirect_slashes = False
    return app


class _Log:
    """Log method, route, status and milliseconds; while stopping, have connections closed."""

    def __init__(self, app, service: Service):
        self.app = app
        self.service = service

    async def __call__(self, scope, receive, send):
        """Pass a request on and log its answer."""
        start = time.perf_counter()
        method = scope["method"] if scope["method"] in METHODS else "-"
        route = scope["path"] if scope["path"] in ("/ping", "/invocations") else "-"

        async def send_and_log(message):
            is_start = message["type"] == "http.response.start"
            if is_start and self.service.is_stopping:
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)
            if is_start:
                ms = 1000 * (time.perf_counter() - start)
                logger.info("%s %s %s %.1f ms", method, route, message["status"], ms)

        await self.app(scope, receive, send_and_log)
