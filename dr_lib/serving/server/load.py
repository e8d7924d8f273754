"""Ask a served model in a closed loop, one request after another, and in an open loop, at a rate
that does not wait.

A client that waits for each answer before it asks again stops asking while the server stalls, and
so measures the stall once where its users would have met it many times (coordinated omission: Tene,
How NOT to Measure Latency, 2015). In the open loop, therefore, requests are due at times drawn
beforehand. The response time counts from when a request was due, the service time (`round_trip_ms`)
from when it was sent.

Any http or https address will do, or sagemaker:NAME for an endpoint of SageMaker, whose requests
are signed.
"""

import contextlib
import http.client
import json
import math
import queue
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from dr_lib.serving.server import sagemaker

QUANTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p95_ms": 0.95, "p99_ms": 0.99, "max_ms": 1.0}
SCHEMES = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
# how a connection says that the other side ended it
CLOSED = (ConnectionResetError, BrokenPipeError)
NOT_HERE = (http.client.NOT_FOUND, http.client.METHOD_NOT_ALLOWED)  # what no later request changes
# what a busy server may answer
OVERLOADED = (http.client.REQUEST_TIMEOUT, http.client.TOO_MANY_REQUESTS)
START_PER_S = 8.0
PRECISION = 0.1
MAX_STEPS = 40  # of a search for the largest rate


class LoadError(ValueError):
    """No load can be put on this address; the message says what to change."""


class MaxRate(NamedTuple):
    """The largest rate that a server held, and all that were tried."""

    rate_per_s: float  # 0 where none was held
    tried: pd.DataFrame  # a row of `summarise_load` for each, in the order tried, with `held`
    # every request of every try, from `run_open_loop`; `rate_per_s` tells the tries apart
    requests: pd.DataFrame


def ask(url: str, body: bytes, *, content_type: str = "image/jpeg") -> dict[str, Any]:
    """Send one request and return its answer, a table; a LoadError where it is none."""
    client = _Client(url, content_type, timeout_s=60)
    client.connect()
    row = client.call(body)
    client.connection.close()
    if row["error"]:
        raise LoadError(f"{url}: {row['error']}")
    return json.loads(client.content)


def run_closed_loop(
    url: str,
    bodies: Sequence[bytes],
    *,
    content_type: str = "image/jpeg",
    num_requests: int = 25,
    gap_s: float = 5.0,
    timeout_s: float = 60.0,
) -> pd.DataFrame:
    """Send requests one at a time, as the paper did: the next one `gap_s` after the answer to the
    last.

    Args:
        url: where predictions are asked for, http://127.0.0.1:8080/invocations say.
        bodies: what is sent, in turn, begun anew at the end.
        content_type: of the bodies.
        num_requests: the paper's are 25.
        gap_s: pause between the end of a request and the start of the next.
        timeout_s: a server that says nothing for so long has failed.

    Returns:
        A row per request, failed ones too: `load` (closed), `request` (from 0), `sent_s` since the
        first, `round_trip_ms` (to the answer's last byte), `decode_ms` and `predict_ms` as the
        server says, `status` (0 without an answer), `error` (empty where there is a prediction),
        `attempts` (2 where the server had closed the idle connection, both inside `round_trip_ms`),
        `model` and `model_version`.

    Raises:
        LoadError: the address is none, nobody listens or nothing is predicted there, or a number is
            none.
    """
    _check(bodies, num_requests=num_requests, timeout_s=timeout_s)
    if not 0 <= gap_s < math.inf:
        raise LoadError(f"gap_s = {gap_s} is no pause: give seconds from 0 on")
    client = _Client(url, content_type, timeout_s)
    rows = []
    client.connect()
    start = time.perf_counter()
    for request in range(num_requests):
        time.sleep(gap_s if request else 0)
        row = {"load": "closed", "request": request, "sent_s": time.perf_counter() - start}
        rows.append(row | client.call(bodies[request % len(bodies)]))
        if rows[-1]["status"] in NOT_HERE:
            raise LoadError(
                f"nothing is predicted at {url} (status {rows[-1]['status']}): "
                "give an address like http://127.0.0.1:8080/invocations"
            )
    client.connection.close()
    return pd.DataFrame(rows)


def run_open_loop(
    url: str,
    bodies: Sequence[bytes],
    *,
    rate_per_s: float,
    seconds: float,
    seed: int,
    num_connections: int = 64,
    content_type: str = "image/jpeg",
    timeout_s: float = 10.0,
) -> pd.DataFrame:
    """Send requests at a rate, whether or not the earlier ones are answered.

    Arrivals are those of many users who know nothing of each other: a Poisson process, given its
    number of requests, which is a uniform draw of each one's time. What finds no free connection
    waits here, and its response time runs.

    Args:
        url, bodies, content_type: as in `run_closed_loop`.
        rate_per_s: requests a second.
        seconds: time over which requests are due; rate times seconds, rounded, is their number.
        seed: of the arrivals.
        num_connections: requests that may be under way at once.
        timeout_s: a server that says nothing for so long has failed, and a request that could not
            be sent for so long after it was due is given up.

    Returns:
        The columns of `run_closed_loop` (`load` is open) and `rate_per_s`, `due_s`, and
        `response_ms` from when the request was due; `round_trip_ms` counts from when it was sent.

    Raises:
        LoadError: as there.
    """
    _check(
        bodies,
        rate_per_s=rate_per_s,
        seconds=seconds,
        num_connections=num_connections,
        timeout_s=timeout_s,
    )
    num_requests = max(1, round(rate_per_s * seconds))
    due = np.sort(np.random.default_rng(seed).uniform(0, seconds, num_requests)).tolist()
    idle = queue.LifoQueue()  # the last used first: the server does not close what is in use
    for _ in range(num_connections):
        idle.put(client := _Client(url, content_type, timeout_s))
    client.connect()
    start = time.perf_counter()

    def send(request: int) -> dict[str, Any]:
        time.sleep(max(0.0, due[request] - (time.perf_counter() - start)))
        client = idle.get()
        sent_s = time.perf_counter() - start
        if sent_s - due[request] > timeout_s:
            answer = _describe("not sent: no connection was free in time")
        else:
            answer = client.call(bodies[request % len(bodies)])
        idle.put(client)
        row = {
            "load": "open",
            "rate_per_s": rate_per_s,
            "request": request,
            "due_s": due[request],
            "sent_s": sent_s,
        }
        return (
            row | answer | {"response_ms": 1e3 * (sent_s - due[request]) + answer["round_trip_ms"]}
        )

    with ThreadPoolExecutor(num_connections) as threads:
        rows = list(threads.map(send, range(num_requests)))
    while not idle.empty():
        idle.get().connection.close()
    return pd.DataFrame(rows)


def summarise_load(requests: pd.DataFrame) -> dict[str, float]:
    """Say in numbers how one load went.

    Args:
        requests: of one `run_closed_loop` or one `run_open_loop`.

    Returns:
        `n`; `rate_per_s` offered (in a closed loop what was answered) and `answered_per_s`;
        `share_503` and `share_failed` (any other way of not being answered) of all requests; of the
        answered ones p50_ms to max_ms of the response time, and service_p50_ms to service_max_ms of
        the service time, which hides stalls. A percentile is the smallest time that so many do not
        exceed; NaN where nothing was answered.
    """
    answered = requests["error"] == ""
    busy = requests["status"] == http.client.SERVICE_UNAVAILABLE
    service = requests["round_trip_ms"]
    answered_per_s = float(answered.sum() / (requests["sent_s"] + service / 1e3).max())
    summary = {
        "n": len(requests),
        "rate_per_s": (
            float(requests["rate_per_s"].iloc[0]) if "rate_per_s" in requests else answered_per_s
        ),
        "answered_per_s": answered_per_s,
        "share_503": float(busy.mean()),
        "share_failed": float((~answered & ~busy).mean()),
    }
    for prefix, times in {"": requests.get("response_ms", service), "service_": service}.items():
        values = times[answered] if answered.any() else [math.nan]
        found = np.quantile(values, list(QUANTILES.values()), method="inverted_cdf")
        summary |= {prefix + name: float(ms) for name, ms in zip(QUANTILES, found, strict=True)}
    return summary


def find_max_rate(
    url: str,
    bodies: Sequence[bytes],
    *,
    bound_ms: float,
    seconds: float = 10.0,
    seed: int = 0,
    content_type: str = "image/jpeg",
) -> MaxRate:
    """Find the largest rate at which 99 of 100 response times stay within a bound and all requests
    are answered.

    The rate is doubled or halved until the answer turns, then the interval is bisected on a
    logarithmic scale, until the smallest rate missed is at most a tenth above the largest one held.
    One request that is not counted goes before each try, so that what the last one left behind is
    worked off. Of fewer than 100 requests all must meet the bound.

    Args:
        url, bodies, content_type: as in `run_closed_loop`.
        bound_ms: of the response time.
        seconds: of each try. A rate just above what the server can do shows only in time.
        seed: of the arrivals.

    Raises:
        LoadError: as there, or the server refuses a body (4xx) at any rate.
    """
    _check(bodies, bound_ms=bound_ms, seconds=seconds)
    load = {
        "seconds": seconds,
        "timeout_s": max(1.0, 4e-3 * bound_ms),
        "content_type": content_type,
    }
    held = 0.0
    missed = math.inf
    rate = START_PER_S
    tried = []
    sent = []
    while missed > (1 + PRECISION) * held and rate * seconds >= 1 and len(tried) < MAX_STEPS:
        run_closed_loop(url, bodies[:1], content_type=content_type, num_requests=1)
        requests = run_open_loop(url, bodies, rate_per_s=rate, seed=seed + len(tried), **load)
        refused = requests[
            requests["status"].between(400, 499) & ~requests["status"].isin(OVERLOADED)
        ]
        if len(refused):
            raise LoadError(
                f"{refused['error'].iloc[0]}: a refused request says nothing of a rate, leave its"
                " body out"
            )
        summary = summarise_load(requests)
        is_held = (requests["error"] == "").all() and summary["p99_ms"] <= bound_ms
        tried.append(summary | {"held": bool(is_held)})
        sent.append(requests)
        held, missed = (rate, missed) if is_held else (held, rate)
        rate = (
            2 * held if missed == math.inf else missed / 2 if not held else math.sqrt(held * missed)
        )
    return MaxRate(
        held, pd.DataFrame(tried), pd.concat(sent, ignore_index=True) if sent else pd.DataFrame()
    )


class _Client:
    """One connection, kept open between calls; for one thread at a time."""

    def __init__(self, url: str, content_type: str, timeout_s: float):
        self._sign = None
        if url.startswith(sagemaker.SCHEME):
            url, self._sign = sagemaker.find_endpoint(url)[:2]
        try:
            address = urlsplit(url)
            if not address.hostname:
                raise ValueError("it names no machine")
            self.connection = SCHEMES[address.scheme](
                address.hostname, address.port, timeout=timeout_s
            )
        except (ValueError, KeyError, http.client.HTTPException) as error:
            raise LoadError(
                f"{url!r} is no address: give one like http://127.0.0.1:8080/invocations"
            ) from error
        self._url = url
        self._path = (address.path or "/") + (f"?{address.query}" if address.query else "")
        self._headers = {"Content-Type": content_type, "Accept": "application/json"}

    def connect(self) -> None:
        """Connect now, so that an address where nobody listens is an error at once."""
        try:
            self.connection.connect()
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise LoadError(
                f"nobody listens at {self._url}: {reason}: start the server first"
            ) from error

    def call(self, body: bytes) -> dict[str, Any]:
        """Send one request and describe its answer; a connection that was closed while idle is
        opened anew.
        """
        start = time.perf_counter()
        attempts = 1
        try:
            try:
                status = self._exchange(body)
            except CLOSED:
                self.connection.close()
                attempts = 2
                status = self._exchange(body)
            round_trip_s = time.perf_counter() - start
            row = _read_answer(status, self.content)
        except (OSError, http.client.HTTPException, ValueError) as error:
            round_trip_s = time.perf_counter() - start
            self.connection.close()
            row = _describe(f"{type(error).__name__}: {error}")
        return row | {"round_trip_ms": 1e3 * round_trip_s, "attempts": attempts}

    def _exchange(self, body: bytes) -> int:
        """Send one request, keep the content of its answer and return its status."""
        headers = self._sign(body, self._headers) if self._sign else self._headers
        # who refuses early answers before the body is read
        with contextlib.suppress(BrokenPipeError):
            self.connection.request("POST", self._path, body, headers)
        response = self.connection.getresponse()
        self.content = response.read()
        return response.status


def _read_answer(status: int, content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
        timings = answer.get("timings_ms") or {}
        row = {f"{part}_ms": timings.get(part, math.nan) for part in ("decode", "predict")}
    except (ValueError, RecursionError, AttributeError):  # a list has no `get`
        return _describe(f"the answer of {len(content)} bytes is no JSON object", status)
    if status != http.client.OK:
        return _describe(str(answer.get("error") or f"status {status}"), status)
    return (
        _describe("", status)
        | row
        | {name: answer.get(name) for name in ("model", "model_version")}
    )


def _describe(error: str, status: int = 0) -> dict[str, Any]:
    """The columns of a request that has no prediction."""
    nothing = {"round_trip_ms": 0.0, "decode_ms": math.nan, "predict_ms": math.nan}
    return nothing | {
        "status": status,
        "error": error,
        "attempts": 0,
        "model": None,
        "model_version": None,
    }


def _check(bodies: Sequence[bytes], **numbers: float) -> None:
    if (
        isinstance(bodies, bytes)
        or not len(bodies)
        or not all(isinstance(body, bytes) for body in bodies)
    ):
        raise LoadError(
            "there is nothing to send: give a list of pictures, each as the bytes of its file"
        )
    for name, value in numbers.items():
        if not 0 < value < math.inf:
            raise LoadError(f"{name} = {value}: give a number above 0")
