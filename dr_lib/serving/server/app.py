"""The endpoint: GET /ping and POST /invocations, in front of a bounded queue and worker threads."""

import asyncio
import logging
import re
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dr_lib.serving.grader.predict import MAX_BODY_BYTES, Predictor, RefusedError, check_media_type

ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
VISIBLE_ASCII = re.compile(r"[\x20-\x7e]{0,1024}")
MAX_PENDING_BYTES = 32 * MAX_BODY_BYTES  # of bodies that are being received or wait
# of a request target in absolute form, RFC 9112, 3.2.2
ORIGIN = re.compile(r"^https?://[^/]*", re.I)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")
HEADERS = {408: {"Connection": "close"}, 503: {"Retry-After": "1"}}

logger = logging.getLogger(__name__)


class Service:
    """A predictor, its threads, and how much may wait for them; all but the predictor lives in
    the event loop.
    """

    def __init__(self, predictor: Predictor, *, threads: int, queue: int, request_s: float):
        """Take the options of `serve`; the predictor is made for as many threads."""
        self.predictor = predictor
        self.request_s = request_s
        self.max_accepted = threads + queue
        self.is_warm = self.is_stopping = False
        self.num_accepted = self.pending_bytes = 0
        self.pool = ThreadPoolExecutor(threads, "predict")

    async def answer(self, request: Request) -> dict[str, Any]:
        """Read a request's body and predict, or raise RefusedError."""
        media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        content_encoding = request.headers.get("Content-Encoding", "").strip().lower()
        check_media_type(media_type, content_encoding)
        self._check_room()
        body = bytearray()
        try:
            await self._receive(request, body)
            self._check_room()
            work = (self.pool, self.predictor, bytes(body), media_type, content_encoding)
            self.num_accepted += 1
            try:
                return await asyncio.get_running_loop().run_in_executor(*work)
            finally:
                self.num_accepted -= 1
        finally:
            self.pending_bytes -= len(body)

    def _check_room(self) -> None:
        if not self.is_warm:
            raise RefusedError(503, "the model is being loaded")
        if self.num_accepted >= self.max_accepted:
            raise RefusedError(503, "too many requests wait already")

    async def _receive(self, request: Request, body: bytearray) -> None:
        """Append the request's body to `body` as it arrives, and stop at the first byte too
        many.
        """
        too_large = RefusedError(413, f"the body has over {MAX_BODY_BYTES} bytes")
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
                        raise RefusedError(503, "too many requests are on their way already")
        except TimeoutError as error:
            raise RefusedError(
                408, f"the body did not arrive within {self.request_s:g} s"
            ) from error
        except ClientDisconnect as error:
            raise RefusedError(400, "the body was cut short") from error


def build_app(service: Service) -> Starlette:
    """Build the ASGI application around a service; whoever runs it warms the predictor up and
    says so.
    """

    async def ping(request: Request) -> Response:
        return Response(status_code=200 if service.is_warm and not service.is_stopping else 503)

    async def invoke(request: Request) -> Response:
        attributes = request.headers.get(ATTRIBUTES)
        try:
            if attributes is not None and not VISIBLE_ASCII.fullmatch(attributes):
                attributes = None
                raise RefusedError(400, f"{ATTRIBUTES}: at most 1024 visible ASCII characters")
            response = JSONResponse(await service.answer(request))
        except RefusedError as error:
            response = JSONResponse({"error": str(error)}, error.status, HEADERS.get(error.status))
        except MemoryError:
            response = JSONResponse(
                {"error": "too little memory now: ask again later"}, 503, HEADERS[503]
            )
        except Exception as error:  # its message may hold what was sent, so it is not logged
            place = traceback.extract_tb(error.__traceback__)[-1]
            logger.error("%s in %s:%d", type(error).__name__, place.filename, place.lineno)
            response = JSONResponse({"error": "the server failed; the request may be right"}, 500)
        if attributes is not None:
            response.headers[ATTRIBUTES] = attributes
        return response

    async def refuse(request: Request, error: HTTPException) -> Response:
        return JSONResponse(
            {"error": f"{error.detail}: there are GET /ping and POST /invocations"},
            error.status_code,
        )

    routes = [Route("/ping", ping), Route("/invocations", invoke, methods=["POST"])]
    log = Middleware(_Log, service)
    app = Starlette(routes=routes, middleware=[log], exception_handlers={HTTPException: refuse})
    # a redirect would repeat the path and the host that were sent
    app.router.redirect_slashes = False
    return app


class _Log:
    """Log method, route, status and milliseconds, nothing else; while stopping, have connections
    closed.
    """

    def __init__(self, app, service: Service):
        self.app = app
        self.service = service

    async def __call__(self, scope, receive, send):
        """Pass a request on and log its answer."""
        start = time.perf_counter()
        status = "-"

        async def send_noting(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if self.service.is_stopping:
                    message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
            await send(message)

        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        scope["path"] = ORIGIN.sub("", scope["path"])
        await self.app(scope, receive, send_noting)
        method = scope["method"] if scope["method"] in METHODS else "-"
        route = scope["path"] if scope["path"] in ("/ping", "/invocations") else "-"
        logger.info("%s %s %s %.1f ms", method, route, status, 1000 * (time.perf_counter() - start))
