"""Ask a served model in a closed loop, one request after another, and in an open loop, at a rate that does not wait.

A client that waits for each answer before it asks again stops asking while the server stalls, and so measures the stall
once where its users would have met it many times (coordinated omission: Tene, How NOT to Measure Latency, 2015). In the
open loop, therefore, requests are due at times drawn beforehand. The response time counts from when a request was due,
the service time (`round_trip_ms`) from when it was sent.

Any http or https address will do. SageMaker's endpoints want signed requests: a signing proxy on this machine, whose
address is given here, signs what passes through it.
"""

import http.client
import math
import queue
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dr_lib.serving.server.caller import Caller, LoadError, describe_failure

QUANTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p95_ms": 0.95, "p99_ms": 0.99, "max_ms": 1.0}
OVERLOADED = (http.client.REQUEST_TIMEOUT, http.client.TOO_MANY_REQUESTS)  # what a busy server may answer
MAX_STEPS = 40  # of a search for the largest rate


class MaxRate(NamedTuple):
    """The largest rate that a server held, and all that were tried."""

    rate_per_s: float  # 0 where none was held
    tried: pd.DataFrame  # a row of `summarise_load` for each, in the order tried, with `held`


def run_closed_loop(
    url: str,
    bodies: Sequence[bytes],
    *,
    content_type: str = "image/jpeg",
    num_requests: int = 25,
    gap_s: float = 5.0,
    timeout_s: float = 60.0,
) -> pd.DataFrame:
    """Send requests one at a time, as the paper did: the next one `gap_s` after the answer to the last.

    Args:
        url: where predictions are asked for, http://127.0.0.1:8080/invocations say.
        bodies: what is sent, in turn, begun anew at the end.
        content_type: of the bodies.
        num_requests: how many; the paper's are 25.
        gap_s: pause between the end of a request and the start of the next.
        timeout_s: a server that says nothing for so long has failed.

    Returns:
        A row per request, failed ones too: `load` (closed), `request` (from 0), `sent_s` since the first,
        `round_trip_ms` (to the answer's last byte), `decode_ms` and `predict_ms` as the server says, `status` (0
        without an answer), `error` (empty where there is a prediction), `attempts` (2 where the server had closed the
        idle connection, both inside `round_trip_ms`), `model` and `model_version`.

    Raises:
        LoadError: the address is none, nobody listens there, or a number is none.
    """
    _check(bodies, num_requests=num_requests, timeout_s=timeout_s)
    if not 0 <= gap_s < math.inf:
        raise LoadError(f"gap_s = {gap_s} is no pause: give seconds from 0 on")
    caller, rows = Caller(url, content_type, timeout_s), []
    caller.connect()
    start = time.perf_counter()
    for request in range(num_requests):
        time.sleep(gap_s if request else 0)
        row = {"load": "closed", "request": request, "sent_s": time.perf_counter() - start}
        rows.append(row | caller.call(bodies[request % len(bodies)]))
    caller.close()
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

    Arrivals are those of many users who know nothing of each other: a Poisson process, given its number of requests,
    which is a uniform draw of each one's time. What finds no free connection waits here, and its response time runs.

    Args:
        url: as in `run_closed_loop`, like `bodies` and `content_type`.
        bodies: what is sent, in turn.
        rate_per_s: requests a second.
        seconds: time over which requests are due; rate times seconds, rounded, is their number.
        seed: of the arrivals.
        num_connections: requests that may be under way at once.
        content_type: of the bodies.
        timeout_s: a server that says nothing for so long has failed, and a request that could not be sent for so long
            after it was due is given up.

    Returns:
        The columns of `run_closed_loop` (`load` is open) and `rate_per_s`, `due_s`, and `response_ms` from when the
        request was due; `round_trip_ms` counts from when it was sent.

    Raises:
        LoadError: as there.
    """
    _check(bodies, rate_per_s=rate_per_s, seconds=seconds, num_connections=num_connections, timeout_s=timeout_s)
    num_requests = max(1, round(rate_per_s * seconds))
    due = np.sort(np.random.default_rng(seed).uniform(0, seconds, num_requests)).tolist()
    callers = [Caller(url, content_type, timeout_s) for _ in range(num_connections)]
    callers[-1].connect()
    idle = queue.LifoQueue()  # the last used first: the server does not close what is in use
    for caller in callers:
        idle.put(caller)
    start = time.perf_counter()

    def send(request: int) -> dict[str, Any]:
        time.sleep(max(0.0, due[request] - (time.perf_counter() - start)))
        caller, sent_s = idle.get(), time.perf_counter() - start
        if sent_s - due[request] > timeout_s:
            answer = describe_failure("not sent: no connection was free in time")
        else:
            answer = caller.call(bodies[request % len(bodies)])
        idle.put(caller)
        row = {"load": "open", "rate_per_s": rate_per_s, "request": request, "due_s": due[request], "sent_s": sent_s}
        return row | answer | {"response_ms": 1e3 * (sent_s - due[request]) + answer["round_trip_ms"]}

    with ThreadPoolExecutor(num_connections) as threads:
        rows = list(threads.map(send, range(num_requests)))
    for caller in callers:
        caller.close()
    return pd.DataFrame(rows)


def summarise_load(requests: pd.DataFrame) -> dict[str, float]:
    """Say in numbers how one load went.

    Args:
        requests: of one `run_closed_loop` or one `run_open_loop`.

    Returns:
        `n`; `rate_per_s` offered (in a closed loop what was answered) and `answered_per_s`; `share_503` and
        `share_failed` (any other way of not being answered) of all requests; of the answered ones p50_ms to max_ms of
        the response time, and service_p50_ms to service_max_ms of the service time, which hides stalls. A percentile is
        the smallest time that so many do not exceed; NaN where nothing was answered.

    Raises:
        LoadError: the table has no rows, or is of several rates.
    """
    rates = requests.get("rate_per_s", pd.Series([math.nan] * len(requests))).unique()
    if len(rates) != 1:
        raise LoadError(f"requests at {len(rates)} rates: summarise one load at a time")
    answered, busy = requests["error"] == "", requests["status"] == http.client.SERVICE_UNAVAILABLE
    answered_per_s = answered.sum() / (requests["sent_s"] + requests["round_trip_ms"] / 1e3).max()
    summary = {
        "n": len(requests),
        "rate_per_s": float(answered_per_s if math.isnan(rates[0]) else rates[0]),
        "answered_per_s": float(answered_per_s),
        "share_503": float(busy.mean()),
        "share_failed": float((~answered & ~busy).mean()),
    }
    service = requests["round_trip_ms"]
    for prefix, times in {"": requests.get("response_ms", service), "service_": service}.items():
        summary |= {prefix + name: find_percentile(times[answered], share) for name, share in QUANTILES.items()}
    return summary


def find_percentile(times: Sequence[float], quantile: float) -> float:
    """The smallest of the times that at least this share of them does not exceed; NaN without any."""
    return float(np.quantile(times, quantile, method="inverted_cdf")) if len(times) else math.nan


def find_max_rate(
    url: str,
    bodies: Sequence[bytes],
    *,
    bound_ms: float,
    percentile: float = 0.99,
    seconds: float = 10.0,
    start_per_s: float = 8.0,
    precision: float = 0.1,
    seed: int = 0,
    **connection: Any,
) -> MaxRate:
    """Find the largest rate at which a percentile of the response time stays within a bound and all are answered.

    The rate is doubled or halved until the answer turns, then the interval is bisected on a logarithmic scale. One
    request that is not counted goes before each try, so that what the last one left behind is worked off.

    Args:
        url: as in `run_closed_loop`.
        bodies: what is sent, in turn.
        bound_ms: of the response time.
        percentile: the share of requests that have to meet it. Of fewer than 100 requests all have to meet 0.99.
        seconds: of each try. A rate just above what the server can do shows only in time.
        start_per_s: the first rate tried.
        precision: the search ends when the smallest rate missed is at most so much larger than the largest one held.
        seed: of the arrivals.
        connection: `num_connections` and `content_type` of `run_open_loop`.

    Raises:
        LoadError: as there, the percentile is no share, or the server refuses a body (4xx) at any rate.
    """
    _check(bodies, bound_ms=bound_ms, start_per_s=start_per_s, seconds=seconds, precision=precision)
    if not 0 < percentile <= 1:
        raise LoadError(f"percentile = {percentile} is no share: give 0.99 for the 99th")
    load = connection | {"seconds": seconds, "timeout_s": max(1.0, 4e-3 * bound_ms)}
    single = {"num_requests": 1} | {name: value for name, value in connection.items() if name == "content_type"}
    held, missed, rate, tried = 0.0, math.inf, start_per_s, []
    while missed > (1 + precision) * held and rate * seconds >= 1 and len(tried) < MAX_STEPS:
        run_closed_loop(url, bodies[:1], **single)
        requests = run_open_loop(url, bodies, rate_per_s=rate, seed=seed + len(tried), **load)
        refused = requests[requests["status"].between(400, 499) & ~requests["status"].isin(OVERLOADED)]
        if len(refused):
            raise LoadError(f"{refused['error'].iloc[0]}: a refused request says nothing of a rate, leave its body out")
        is_held = (requests["error"] == "").all() and find_percentile(requests["response_ms"], percentile) <= bound_ms
        tried.append(summarise_load(requests) | {"held": bool(is_held)})
        held, missed = (rate, missed) if is_held else (held, rate)
        rate = 2 * held if missed == math.inf else missed / 2 if not held else math.sqrt(held * missed)
    return MaxRate(held, pd.DataFrame(tried))


def _check(bodies: Sequence[bytes], **numbers: float) -> None:
    if isinstance(bodies, bytes) or not len(bodies) or not all(isinstance(body, bytes) for body in bodies):
        raise LoadError("there is nothing to send: give a list of pictures, each as the bytes of its file")
    for name, value in numbers.items():
        if not 0 < value < math.inf:
            raise LoadError(f"{name} = {value}: give a number above 0")
