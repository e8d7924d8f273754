"""Load a served model in a closed loop, one request after another, or in an open loop, at a rate.

A client that waits for each answer before it asks again stops asking while the server stalls, and
so measures the stall once where its users would have met it many times (coordinated omission: Tene,
How NOT to Measure Latency, 2015). In the open loop, therefore, requests are due at times drawn
beforehand, and the response time counts from when a request was due.

Any http or https address will do, or sagemaker:NAME for an endpoint of SageMaker.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException, responses
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, build_opener

import numpy as np
import pandas as pd

from dr_lib.errors import DrError
from dr_lib.serving.sagemaker.account import SCHEME, open_endpoint
from dr_lib.serving.server.process import DIRECT

PERCENTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
TIMES = ["round_trip_ms", "decode_ms", "predict_ms"]
TIMEOUT_S = 60.0  # a server that says nothing for so long has failed
NUM_CONNECTIONS = 64  # requests that an open loop has under way at once

Send = Callable[[bytes], tuple[int, bytes]]  # body -> status and content


def open_sender(url: str, content_type: str = "image/jpeg") -> Send:
    """Open an address: a function that any number of threads may call.

    Each request to http or https opens a connection of its own, as users do; to this machine it
    takes no proxy.
    """
    if url.startswith(SCHEME):
        return open_endpoint(url, content_type)
    opener = DIRECT if urlsplit(url).hostname in ("127.0.0.1", "localhost") else build_opener()

    def send(body: bytes) -> tuple[int, bytes]:
        request = Request(url, body, {"Content-Type": content_type})
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            return error.code, error.read()

    return send


def run_closed_loop(
    send: Send, files: Sequence[Path], *, num_requests: int = 25, gap_s: float = 5.0
) -> pd.DataFrame:
    """Send requests one at a time, as in the paper.

    Args:
        send: of `open_sender`.
        files: sent in turn, and again from the first one.
        num_requests: the paper's are 25.
        gap_s: pause between the end of a request and the start of the next.

    Returns:
        A row per request, failed ones too: `sent_s` since the first; `round_trip_ms`, from opening
        the connection to the answer's last byte, which is `response_ms` too; `decode_ms` and
        `predict_ms`, as the server says; `error`, empty where there is a prediction.

    Raises:
        DrError: the first one is not answered with a prediction.
    """
    rows = []
    start = time.perf_counter()
    for request in range(num_requests):
        time.sleep(gap_s if request else 0)
        sent_s = time.perf_counter() - start
        row = _measure(send, files[request % len(files)])
        if row["error"] and not rows:
            raise DrError(f"the first request failed, {row['error']}: check the address")
        rows.append({"sent_s": sent_s, **row, "response_ms": row["round_trip_ms"]})
    return pd.DataFrame(rows)


def run_open_loop(
    send: Send, files: Sequence[Path], *, rate_per_s: float, seconds: float, seed: int = 0
) -> pd.DataFrame:
    """Send requests at a fixed rate, without waiting for earlier answers.

    Arrivals are those of many users who know nothing of each other: a Poisson process, given its
    number of requests, which is a uniform draw of each one's time. What finds none of
    NUM_CONNECTIONS free waits here, and its response time runs.

    Args:
        send, files: as in `run_closed_loop`.
        rate_per_s: requests a second.
        seconds: time over which requests are due; rate times seconds, rounded, is their number.
        seed: of the arrivals.

    Returns:
        The columns of `run_closed_loop`, but `response_ms` from when the request was due, and
        `rate_per_s`.
    """
    num_requests = max(1, round(rate_per_s * seconds))
    due = np.sort(np.random.default_rng(seed).uniform(0, seconds, num_requests)).tolist()
    start = time.perf_counter()

    def send_when_due(request: int) -> dict[str, Any]:
        time.sleep(max(0.0, due[request] - (time.perf_counter() - start)))
        sent_s = time.perf_counter() - start
        late_s = sent_s - due[request]
        row = _measure(send if late_s <= TIMEOUT_S else _give_up, files[request % len(files)])
        response_ms = 1e3 * late_s + row["round_trip_ms"]
        return {"sent_s": sent_s, **row, "response_ms": response_ms}

    with ThreadPoolExecutor(NUM_CONNECTIONS) as threads:
        rows = list(threads.map(send_when_due, range(num_requests)))
    return pd.DataFrame(rows).assign(rate_per_s=rate_per_s)


def summarise_load(requests: pd.DataFrame) -> dict[str, Any]:
    """Summarise a load test in one row.

    Args:
        requests: of one `run_closed_loop` or one `run_open_loop`.

    Returns:
        `loop` (closed or open), `n`, `num_failed`, the first `error`, `rate_per_s` offered (in a
        closed loop what was answered), `answered_per_s`, the means of TIMES, and p50_ms to max_ms
        of the response times. A percentile is the smallest time that so many do not exceed; NaN
        where only the longest time is such, as the 99th of fewer than 100 answers.
    """
    is_answered = requests["error"] == ""
    answered = requests[is_answered]
    ends_s = requests["sent_s"] + requests["round_trip_ms"] / 1e3
    answered_per_s = float(len(answered) / ends_s.max())
    is_open = "rate_per_s" in requests
    response = answered["response_ms"]
    return {
        "loop": "open" if is_open else "closed",
        "n": len(requests),
        "num_failed": int((~is_answered).sum()),
        "error": next(iter(requests["error"][~is_answered]), ""),
        "rate_per_s": requests["rate_per_s"].iloc[0] if is_open else answered_per_s,
        "answered_per_s": answered_per_s,
        **answered[TIMES].mean().to_dict(),
        **{name: _find_percentile(response, share) for name, share in PERCENTILES.items()},
        "max_ms": float(response.max()),
    }


def find_max_rate(
    send: Send, files: Sequence[Path], *, bound_ms: float, seconds: float = 10.0, seed: int = 0
) -> pd.DataFrame:
    """Find the largest rate at which all requests are answered and 99 % of the response times are
    within a bound.

    The rate is doubled or halved until the answer turns, then the interval is bisected on a
    logarithmic scale, until the smallest rate missed is at most a tenth above the largest one held.
    One request that is not counted goes before each try, so that what the last one left behind is
    worked off. Of fewer than 100 requests all must meet the bound.

    Args:
        send, files: as in `run_closed_loop`.
        bound_ms: of the response time.
        seconds: of each try. A rate just above what the server can do shows only in time.
        seed: of the arrivals.

    Returns:
        A row of `summarise_load` for each rate tried, in this order, with `held`.
    """
    held = 0.0
    missed = math.inf
    rate = 8.0
    tried = []
    while missed > 1.1 * held and rate * seconds >= 1:
        _measure(send, files[0])
        requests = run_open_loop(
            send, files, rate_per_s=rate, seconds=seconds, seed=seed + len(tried)
        )
        is_held = bool((requests["error"] == "").all())
        is_held = is_held and (requests["response_ms"] > bound_ms).mean() <= 0.01
        tried.append({**summarise_load(requests), "held": is_held})
        if is_held:
            held = rate
        else:
            missed = rate
        if missed == math.inf:
            rate = 2 * held
        else:
            rate = math.sqrt(held * missed) if held else missed / 2
    return pd.DataFrame(tried)


def _give_up(body: bytes) -> tuple[int, bytes]:
    raise ConnectionError("not sent: no connection was free in time")


def _measure(send: Send, file: Path) -> dict[str, Any]:
    """Send one request and time it, until it has failed if it does."""
    body = file.read_bytes()
    facts = {}
    error = ""
    start = time.perf_counter()
    try:
        status, content = send(body)
    except (OSError, ValueError, HTTPException) as fault:
        error = f"{type(fault).__name__}: {fault}"
    round_trip_ms = 1e3 * (time.perf_counter() - start)
    if not error:
        facts, error = read_answer(status, content)
    timings = facts.get("timings_ms", {})
    return {
        "round_trip_ms": round_trip_ms,
        "decode_ms": timings.get("decode", math.nan),
        "predict_ms": timings.get("predict", math.nan),
        "error": error,
    }


def read_answer(status: int, content: bytes) -> tuple[dict[str, Any], str]:
    """Read the object in an answer, and why it holds no probabilities; empty if it does."""
    try:
        facts = dict(json.loads(content))
    except (ValueError, TypeError):
        facts = {}
    if status == 200 and facts.get("probabilities"):
        return facts, ""
    words = facts.get("error") or responses.get(status, "")
    if status == 200:
        words = f"no probabilities in the answer: {words}"
    return facts, f"status {status}: {words}"[:300]


def _find_percentile(times: pd.Series, share: float) -> float:
    if len(times) * (1 - share) <= 1 - 1e-9:  # rounding; only the longest time is such
        return math.nan
    return float(np.quantile(times, share, method="inverted_cdf"))
