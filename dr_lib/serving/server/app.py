"""The endpoint: POST /invocations, GET /ping, /metrics and /openapi.json, in front of a bounded
queue and worker threads.
"""

import asyncio
import contextlib
import logging
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Summary,
    generate_latest,
)
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dr_lib.serving.grader.predict import Predictor

NUM_PENDING = 8  # largest bodies that may be received or wait at a time
NUM_WAITING = 64  # requests that may wait for a thread
REQUEST_S = 10.0  # for a client to send its body
OPENAPI = Path(__file__).with_name("openapi.json")

logger = logging.getLogger(__name__)


class Service:
    """A predictor, its threads, a bounded queue of requests, and what is counted of them.

    All but the predictor lives in the event loop.
    """

    def __init__(self, predictor: Predictor, *, threads: int, max_body: int):
        """Take the options of `serve`; the predictor must be made for as many threads."""
        self.predictor = predictor
        self.max_body = max_body
        self.max_accepted = threads + NUM_WAITING
        self.is_stopping = False
        self.num_accepted = 0
        self.pending_bytes = 0
        self.pool = ThreadPoolExecutor(threads, "predict")
        self.registry = CollectorRegistry()
        self.errors = Counter(
            "fundus_errors", "requests without grades", ["status"], registry=self.registry
        )
        self.seconds = Summary(
            "fundus_request_seconds", "time of a request", registry=self.registry
        )

    async def invoke(self, request: Request) -> Response:
        """Answer a request with grades or a refusal, and log a line with nothing of a person."""
        start = time.perf_counter()
        try:
            response = JSONResponse(await self._predict(request))
        except HTTPException as error:
            response = _refuse(error.status_code, error.detail)
            if error.status_code != 408:
                response.background = BackgroundTask(self._discard_body, request)
        except Exception as error:  # its message may hold what was sent, so it is not logged
            place = traceback.extract_tb(error.__traceback__)[-1]
            logger.error("%s in %s:%d", type(error).__name__, place.filename, place.lineno)
            response = _refuse(500, "internal error of the server; the request may be valid")
        if self.is_stopping:
            response.headers["Connection"] = "close"
        seconds = time.perf_counter() - start
        status = response.status_code
        self.seconds.observe(seconds)
        if status != 200:
            self.errors.labels(status).inc()
        logger.info("POST /invocations %d %.1f ms", status, 1000 * seconds)
        return response

    async def ping(self, request: Request) -> Response:
        """Say whether a request would be answered, and by which model."""
        content = {
            "status": "stopping" if self.is_stopping else "ready",
            "model": self.predictor.facts["model"],
            "format": self.predictor.facts["format"],
            "model_version": self.predictor.version,
        }
        return JSONResponse(content, 503 if self.is_stopping else 200)

    async def measure(self, request: Request) -> Response:
        """Write the counts for Prometheus."""
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)

    async def _predict(self, request: Request) -> dict[str, Any]:
        is_json = "json" in request.headers.get("Content-Type", "").lower()
        body = bytearray()
        try:
            await self._receive(request, body)
            if self.num_accepted >= self.max_accepted:
                raise HTTPException(503, "too many requests are already waiting")
            self.num_accepted += 1
            loop = asyncio.get_running_loop()
            try:
                return await loop.run_in_executor(self.pool, self.predictor, body, is_json)
            finally:
                self.num_accepted -= 1
        finally:
            self.pending_bytes -= len(body)

    async def _discard_body(self, request: Request) -> None:
        """Read what a refused client still sends, because closing early would reset its
        connection.
        """
        with contextlib.suppress(TimeoutError, ClientDisconnect, RuntimeError):
            async with asyncio.timeout(REQUEST_S):
                async for _ in request.stream():
                    pass

    async def _receive(self, request: Request, body: bytearray) -> None:
        """Append the request's body to `body`, and stop at the first byte over the limit."""
        too_large = HTTPException(
            413, f"the body is larger than {self.max_body / 1e6:.2f} MB, the limit (--max-body)"
        )
        try:
            async with asyncio.timeout(REQUEST_S):
                async for chunk in request.stream():
                    body += chunk
                    self.pending_bytes += len(chunk)
                    if len(body) > self.max_body:
                        raise too_large
                    if self.pending_bytes > NUM_PENDING * self.max_body:
                        raise HTTPException(503, "too many requests are already being received")
        except TimeoutError as error:
            raise HTTPException(
                408, f"the body did not arrive within {REQUEST_S:g} s"
            ) from error
        except ClientDisconnect as error:
            raise HTTPException(400, "the body was cut short") from error


def build_app(service: Service) -> Starlette:
    """Build the application of a service, whose predictor is warm."""

    async def describe(request: Request) -> Response:
        return Response(OPENAPI.read_bytes(), media_type="application/json")

    async def refuse(request: Request, error: HTTPException) -> Response:
        names = "POST /invocations, GET /ping, GET /metrics and GET /openapi.json"
        response = _refuse(error.status_code, f"there are only {names}")
        response.headers.update(error.headers or {})
        return response

    app = Starlette(
        routes=[
            Route("/invocations", service.invoke, methods=["POST"]),
            Route("/ping", service.ping),
            Route("/metrics", service.measure),
            Route("/openapi.json", describe),
        ],
        exception_handlers={HTTPException: refuse},
    )
    app.router.redirect_slashes = False  # to where the client's Host header says
    return app


def _refuse(status: int, words: str) -> JSONResponse:
    headers = {408: {"Connection": "close"}, 503: {"Retry-After": "1"}}
    return JSONResponse({"error": words}, status, headers.get(status))
