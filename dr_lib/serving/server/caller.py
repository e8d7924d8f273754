"""One connection to a served model: send a body, measure the round trip, read the answer."""

import contextlib
import http.client
import json
import math
import time
from typing import Any
from urllib.parse import urlsplit

CLOSED = (ConnectionResetError, BrokenPipeError)  # how a connection says that the other side ended it
SCHEMES = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


class LoadError(ValueError):
    """No load can be put on this address; the message says what to change."""


class Caller:
    """One connection, kept open between calls; for one thread at a time."""

    def __init__(self, url: str, content_type: str, timeout_s: float):
        """Read the address; the first call, or `connect`, opens the connection."""
        try:
            address = urlsplit(url)
            if not address.hostname:
                raise ValueError("it names no machine")
            self._connection = SCHEMES[address.scheme](address.hostname, address.port, timeout=timeout_s)
        except (ValueError, KeyError, http.client.HTTPException) as error:
            raise LoadError(f"{url!r} is no address: give one like http://127.0.0.1:8080/invocations") from error
        self._url, self._path = url, (address.path or "/") + (f"?{address.query}" if address.query else "")
        self._headers = {"Content-Type": content_type, "Accept": "application/json"}

    def connect(self) -> None:
        """Open the connection now, or raise LoadError."""
        try:
            self._connection.connect()
        except (OSError, UnicodeError) as error:
            raise LoadError(f"nobody listens at {self._url}: {error}: start the server first") from error

    def call(self, body: bytes) -> dict[str, Any]:
        """Send one request and describe its answer; a connection that was closed while idle is opened anew."""
        start, attempts = time.perf_counter(), 1
        try:
            try:
                response = self._exchange(body)
            except CLOSED:
                self.close()
                attempts = 2
                response = self._exchange(body)
            round_trip_s = time.perf_counter() - start
            answer = _read_answer(*response)
        except (OSError, http.client.HTTPException, ValueError) as error:
            round_trip_s = time.perf_counter() - start
            self.close()
            answer = describe_failure(f"{type(error).__name__}: {error}")
        return answer | {"round_trip_ms": 1e3 * round_trip_s, "attempts": attempts}

    def close(self) -> None:
        """Close the connection; the next call opens it anew."""
        self._connection.close()

    def _exchange(self, body: bytes) -> tuple[int, bytes]:
        with contextlib.suppress(BrokenPipeError):  # who refuses early answers before the body is read
            self._connection.request("POST", self._path, body, self._headers)
        response = self._connection.getresponse()
        return response.status, response.read()


def describe_failure(error: str, status: int = 0) -> dict[str, Any]:
    """What stands in the row of a request that has no prediction."""
    nothing = {"round_trip_ms": 0.0, "decode_ms": math.nan, "predict_ms": math.nan}
    return nothing | {"status": status, "error": error, "attempts": 0, "model": None, "model_version": None}


def _read_answer(status: int, content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        return describe_failure(f"the answer of {len(content)} bytes is no JSON object", status)
    if status != http.client.OK:
        return describe_failure(str(answer.get("error") or f"status {status}"), status)
    row, timings = describe_failure("", status), answer.get("timings_ms")
    for part, ms in timings.items() if isinstance(timings, dict) else ():
        if part in ("decode", "predict") and isinstance(ms, int | float):
            row[f"{part}_ms"] = float(ms)
    return row | {name: answer.get(name) for name in ("model", "model_version")}
