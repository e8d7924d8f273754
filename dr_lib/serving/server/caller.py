"""One connection to a served model: send a body, say what came back and how long it took."""

import contextlib
import http.client
import json
import math
import time
from typing import Any
from urllib.parse import urlsplit

CLOSED = (ConnectionResetError, BrokenPipeError)  # how a connection says that the other side ended it


class LoadError(ValueError):
    """No load can be put on this address; the message says what to change."""


class Caller:
    """One connection, kept open between calls; for one thread at a time."""

    def __init__(self, url: str, content_type: str, timeout_s: float, *, connect: bool = True):
        """Open it, or leave that to the first call."""
        try:
            address = urlsplit(url)
            port = address.port
        except ValueError as error:
            raise LoadError(f"{url!r} is no address: {error}") from error
        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        if address.scheme not in kinds or not address.hostname:
            raise LoadError(f"{url!r} is no address: give one like http://127.0.0.1:8080/invocations")
        self._connection = kinds[address.scheme](address.hostname, port, timeout=timeout_s)
        self._path = (address.path or "/") + (f"?{address.query}" if address.query else "")
        self._headers = {"Content-Type": content_type, "Accept": "application/json"}
        if connect:
            try:
                self._connection.connect()
            except (OSError, UnicodeError) as error:
                raise LoadError(f"nobody listens at {url}: {error}: start the server first") from error

    def call(self, body: bytes) -> dict[str, Any]:
        """Send one request, and say what came back; a connection that was closed while idle is opened anew."""
        start, attempts = time.perf_counter(), 1
        try:
            try:
                status, content = self._exchange(body)
            except CLOSED:
                self.close()
                attempts = 2
                status, content = self._exchange(body)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            call_ms = 1e3 * (time.perf_counter() - start)
            return fail(f"{type(error).__name__}: {error}") | {"call_ms": call_ms, "attempts": attempts}
        call_ms = 1e3 * (time.perf_counter() - start)
        return _read_answer(status, content) | {"call_ms": call_ms, "attempts": attempts}

    def close(self) -> None:
        """Close the connection; the next call opens it anew."""
        self._connection.close()

    def _exchange(self, body: bytes) -> tuple[int, bytes]:
        with contextlib.suppress(BrokenPipeError):  # who refuses early answers before the body is read
            self._connection.request("POST", self._path, body, self._headers)
        response = self._connection.getresponse()
        return response.status, response.read()


def fail(error: str, status: int = 0) -> dict[str, Any]:
    """What stands in the row of a request that has no prediction."""
    nothing = {"call_ms": 0.0, "decode_ms": math.nan, "predict_ms": math.nan}
    return nothing | {"status": status, "error": error, "attempts": 0, "model": None, "model_version": None}


def _read_answer(status: int, content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        return fail(f"the answer of {len(content)} bytes is no JSON object", status)
    if status != http.client.OK:
        return fail(str(answer.get("error") or f"status {status}"), status)
    timings = answer.get("timings_ms")
    timings = timings if isinstance(timings, dict) else {}
    times = {f"{part}_ms": _read_ms(timings.get(part)) for part in ("decode", "predict")}
    return fail("", status) | times | {name: answer.get(name) for name in ("model", "model_version")}


def _read_ms(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
