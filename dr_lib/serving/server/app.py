"""The endpoint: POST /invocations, GET /ping, /metrics and /openapi.json, in front of a bounded
queue and worker threads.
"""

import asyncio
import contextlib
import json
import logging
import time
import traceback
import uuid
from concurrent.futures import ThreadPoolExecutor
from http import HTTPMethod
from pathlib import Path
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dr_lib.serving.grader.predict import Predictor, RefusedError

NUM_PENDING = 32  # largest bodies that may be received or wait at a time
OPENAPI = Path(__file__).with_name("openapi.json")
PATHS = ("/invocations", "/ping", "/metrics", "/openapi.json")

logger = logging.getLogger(__name__)


class Service:
    """A predictor, its threads, a bounded queue of requests, and what is counted of them.

    All but the predictor lives in the event loop.
    """

    def __init__(
        self,
        predictor: Predictor,
        *,
        threads: int,
        queue: int,
        request_s: float,
        max_body: int,
    ):
        """Take the options of `serve`; the predictor must be made for as many threads."""
        self.predictor = predictor
        self.request_s = request_s
        self.max_body = max_body
        self.max_accepted = threads + queue
        self.is_warm = False
        self.is_stopping = False
        self.num_accepted = 0
        self.pending_bytes = 0
        self.pool = ThreadPoolExecutor(threads, "predict")
        self.registry = CollectorRegistry()
        self.errors = Counter(
            "fundus_errors", "requests without grades", ["status"], registry=self.registry
        )
        self.seconds = Histogram(
            "fundus_request_seconds",
            "time of a request",
            buckets=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),  # upper bounds [s]
            registry=self.registry,
        )

    async def answer(self, request: Request) -> dict[str, Any]:
        """Read a request's body and predict, or raise RefusedError."""
        self._check_room()
        is_json = "json" in request.headers.get("Content-Type", "").lower()
        body = bytearray()
        try:
            await self._receive(request, body)
            self._check_room()
            self.num_accepted += 1
            loop = asyncio.get_running_loop()
            try:
                return await loop.run_in_executor(
                    self.pool, self.predictor, bytes(body), is_json
                )
            finally:
                self.num_accepted -= 1
        finally:
            self.pending_bytes -= len(body)

    async def discard_body(self, request: Request) -> None:
        """Read what a refused client still sends, because closing early would reset its
        connection.
        """
        with contextlib.suppress(TimeoutError, ClientDisconnect, RuntimeError):
            async with asyncio.timeout(self.request_s):
                async for _ in request.stream():
                    pass

    def _check_room(self) -> None:
        if not self.is_warm:
            raise RefusedError(503, "the model is being loaded")
        if self.num_accepted >= self.max_accepted:
            raise RefusedError(503, "too many requests are already waiting")

    async def _receive(self, request: Request, body: bytearray) -> None:
        """Append the request's body to `body`, and stop at the first byte over the limit."""
        too_large = RefusedError(
            413, f"the body is larger than {self.max_body / 1e6:.2f} MB, the limit (--max-body)"
        )
        if int(request.headers.get("Content-Length", 0)) > self.max_body:
            raise too_large
        try:
            async with asyncio.timeout(self.request_s):
                async for chunk in request.stream():
                    body += chunk
                    self.pending_bytes += len(chunk)
                    if len(body) > self.max_body:
                        raise too_large
                    if self.pending_bytes > NUM_PENDING * self.max_body:
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
        state = "ready" if service.is_warm else "loading"
        if service.is_stopping:
            state = "stopping"
        content = {name: service.predictor.facts[name] for name in ("model", "format")}
        content.update(status=state, model_version=service.predictor.version)
        return JSONResponse(content, 200 if state == "ready" else 503)

    async def describe(request: Request) -> Response:
        document = json.loads(OPENAPI.read_bytes())
        document["info"]["version"] = service.predictor.version
        return JSONResponse(document)

    async def measure(request: Request) -> Response:
        return Response(generate_latest(service.registry), media_type=CONTENT_TYPE_LATEST)

    async def invoke(request: Request) -> Response:
        try:
            return JSONResponse(await service.answer(request))
        except RefusedError as error:
            response = _refuse(error.status, str(error))
            if error.status != 408:
                response.background = BackgroundTask(service.discard_body, request)
            return response
        except Exception as error:  # its message may hold what was sent, so it is not logged
            place = traceback.extract_tb(error.__traceback__)[-1]
            logger.error("%s in %s:%d", type(error).__name__, place.filename, place.lineno)
            return _refuse(500, "internal error of the server; the request may be valid")

    async def refuse(request: Request, error: HTTPException) -> Response:
        return _refuse(error.status_code, f"{error.detail}: use POST {', GET '.join(PATHS)}")

    app = Starlette(
        routes=[
            Route("/invocations", invoke, methods=["POST"]),
            Route("/ping", ping),
            Route("/metrics", measure),
            Route("/openapi.json", describe),
        ],
        middleware=[Middleware(_Log, service)],
        exception_handlers={HTTPException: refuse},
    )
    # a redirect would repeat the path and the host that were sent
    app.router.redirect_slashes = False
    return app


def _refuse(status: int, words: str) -> JSONResponse:
    headers = {408: {"Connection": "close"}, 503: {"Retry-After": "1"}}
    return JSONResponse({"error": words}, status, headers.get(status))


class _Log:
    """Log a line a request, with nothing of a person; while stopping, have connections closed.

    Every answer names the request and the model's version.
    """

    def __init__(self, app, service: Service):
        self.app = app
        self.service = service

    async def __call__(self, scope, receive, send):
        """Pass a request on and log its answer."""
        start = time.perf_counter()
        service = self.service
        request_id = uuid.uuid4().hex[:16]
        added = [
            (b"x-request-id", request_id.encode()),
            (b"x-model-version", service.predictor.version.encode()),
        ]
        method = scope["method"] if scope["method"] in HTTPMethod.__members__ else "-"
        path = scope["path"] if scope["path"] in PATHS else "-"

        async def send_and_log(message):
            if message["type"] != "http.response.start":
                return await send(message)
            closing = [(b"connection", b"close")] * service.is_stopping
            message["headers"] = [*message["headers"], *added, *closing]
            await send(message)
            status = message["status"]
            seconds = time.perf_counter() - start
            logger.info(f"{method} {path} {status} {1000 * seconds:.1f} ms id={request_id}")
            if path == "/invocations":
                service.seconds.observe(seconds)
                if status != 200:
                    service.errors.labels(status).inc()

        await self.app(scope, receive, send_and_log)
