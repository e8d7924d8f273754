"""Load a served model in a closed loop, one request after another, or in an open loop, at a rate.

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
import re
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import numpy as np
import pandas as pd
from scipy import stats

from dr_lib.errors import DrError
from dr_lib.numbers import write_interval
from dr_lib.serving.server import sagemaker
from dr_lib.statistics.intervals import UPPER, Interval

QUANTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p95_ms": 0.95, "p99_ms": 0.99}
# how a connection says that the other side ended it
CLOSED = (ConnectionResetError, BrokenPipeError)
EXAMPLE = "give an address such as http://127.0.0.1:8080/invocations"
PREDICTION = re.compile(
    "(?i)predict|probab|referable|grade|score|logit|label|^class|^outputs?$"
)
FAILURE = re.compile("(?i)^(error_?(message|type|code)?|errors|exception)$")


class MaxRate(NamedTuple):
    """The largest rate that a server sustained, and all rates tried."""

    rate_per_s: float  # 0 where none was held
    tried: pd.DataFrame  # a row of `summarise_load` for each, in the order tried, with `held`
    # every request of every try, from `run_open_loop`; `rate_per_s` tells the tries apart
    requests: pd.DataFrame


class Answer(NamedTuple):
    """The outcome of one request."""

    round_trip_ms: float = 0.0  # to the answer's last byte
    decode_ms: float = math.nan  # as the server says
    predict_ms: float = math.nan
    status: int = 0  # 0 without an answer
    error: str = ""  # empty where there is a prediction
    # 2 where the server had closed the idle connection, both inside `round_trip_ms`
    attempts: int = 0
    model: str | None = None
    model_version: str | None = None


def ask(url: str, body: bytes, *, content_type: str = "image/jpeg") -> dict[str, Any]:
    """Send one request and return its answer, a dictionary; raise DrError for any other answer."""
    client = _Client(url, content_type, timeout_s=60)
    client.connect()
    answer = client.call(body)
    client.connection.close()
    if answer.error:
        raise DrError(f"{url}: {answer.error}")
    return json.loads(client.content)


def run_closed_loop(
    url: str,
    bodies: Sequence[bytes | Path],
    *,
    content_type: str = "image/jpeg",
    num_requests: int = 25,
    gap_s: float = 5.0,
    timeout_s: float = 60.0,
) -> pd.DataFrame:
    """Send requests one at a time, as in the paper.

    Args:
        url: of predictions, such as http://127.0.0.1:8080/invocations.
        bodies: contents of files, or paths of files, which are read one by one; sent in turn, and
            again from the first one.
        content_type: of the bodies.
        num_requests: the paper's are 25.
        gap_s: pause between the end of a request and the start of the next.
        timeout_s: a server that says nothing for so long has failed.

    Returns:
        A row per request, failed ones too: `load` (closed), `request` (from 0), `sent_s` since the
        first, and the fields of `Answer`.

    Raises:
        DrError: the address or a number is not valid, no server listens there, or it predicts
            nothing.
    """
    _check(bodies, num_requests=num_requests, timeout_s=timeout_s)
    if not 0 <= gap_s < math.inf:
        raise DrError(f"gap_s = {gap_s} is not a pause: give 0 seconds or more")
    client = _Client(url, content_type, timeout_s)
    client.connect()
    rows = []
    start = time.perf_counter()
    for request in range(num_requests):
        time.sleep(gap_s if request else 0)
        sent_s = time.perf_counter() - start
        answer = client.call(bodies[request % len(bodies)])
        if answer.status // 100 == 3:
            raise DrError(f"{url} does not predict: {answer.error}")
        if answer.status in (404, 405):  # no later request changes that
            raise DrError(f"{url} does not predict ({answer.error}): {EXAMPLE}")
        rows.append(
            {"load": "closed", "request": request, "sent_s": sent_s, **answer._asdict()}
        )
    client.connection.close()
    return pd.DataFrame(rows)


def run_open_loop(
    url: str,
    bodies: Sequence[bytes | Path],
    *,
    rate_per_s: float,
    seconds: float,
    seed: int,
    num_connections: int = 64,
    content_type: str = "image/jpeg",
    timeout_s: float = 10.0,
) -> pd.DataFrame:
    """Send requests at a fixed rate, without waiting for earlier answers.

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
        `response_ms` from when the request was due.
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
        idle.put(_Client(url, content_type, timeout_s))
    idle.queue[-1].connect()
    start = time.perf_counter()

    def send(request: int) -> dict[str, Any]:
        time.sleep(max(0.0, due[request] - (time.perf_counter() - start)))
        client = idle.get()
        sent_s = time.perf_counter() - start
        answer = Answer(error="not sent: no connection was free in time")
        if sent_s - due[request] <= timeout_s:
            answer = client.call(bodies[request % len(bodies)])
        idle.put(client)
        return {
            "load": "open",
            "rate_per_s": rate_per_s,
            "request": request,
            "due_s": due[request],
            "sent_s": sent_s,
            **answer._asdict(),
            "response_ms": 1e3 * (sent_s - due[request]) + answer.round_trip_ms,
        }

    with ThreadPoolExecutor(num_connections) as threads:
        rows = list(threads.map(send, range(num_requests)))
    while not idle.empty():
        idle.get().connection.close()
    return pd.DataFrame(rows)


def summarise_load(requests: pd.DataFrame) -> dict[str, float]:
    """Summarise a load test in numbers.

    Args:
        requests: of one `run_closed_loop` or one `run_open_loop`.

    Returns:
        `n`; `rate_per_s` offered (in a closed loop what was answered) and `answered_per_s`;
        `share_503` and `share_failed` (any other way of not being answered) of all requests; of the
        answered ones p50_ms to max_ms of the response time, and service_p50_ms to service_max_ms of
        the service time, which hides stalls. A percentile is the smallest time that so many do not
        exceed; NaN where only the longest time is such, as the 99th of fewer than 100 answers.
    """
    is_answered = requests["error"] == ""
    is_busy = requests["status"] == 503
    service = requests["round_trip_ms"]
    response = requests.get("response_ms", service)
    answered_per_s = float(is_answered.sum() / (requests["sent_s"] + service / 1e3).max())
    is_open = "rate_per_s" in requests
    summary = {
        "n": len(requests),
        "rate_per_s": float(requests["rate_per_s"].iloc[0]) if is_open else answered_per_s,
        "answered_per_s": answered_per_s,
        "share_503": float(is_busy.mean()),
        "share_failed": float((~is_answered & ~is_busy).mean()),
    }
    for prefix, times in (("", response[is_answered]), ("service_", service[is_answered])):
        for name, share in QUANTILES.items():
            summary[prefix + name] = _find_percentile(times, share)
        summary[f"{prefix}max_ms"] = float(times.max())
    return summary


def bound_percentile(times: pd.Series, share: float) -> Interval:
    """Bound a percentile of times that are not independent, as those of one queue are not.

    The count of longer times in each of ten stretches of the test varies more than by
    chance; that excess, taken at its upper quartile, says how many independent times the test is
    worth, and the bounds are the order statistics of so many. In simulated queues of one server
    they held the true 50th to 99th percentile in 91 to 99 % of tests at half of its capacity, in 73
    to 99 % at four fifths.

    Args:
        times: in the order of the requests.
        share: 0.99 for the 99th percentile.

    Returns:
        The percentile, NaN where no longer time was measured; its upper bound is infinite where the
        test was too short for one. `n` counts the times.
    """
    n = len(times)
    value = _find_percentile(times, share)
    if math.isnan(value):
        return Interval(math.nan, math.nan, math.nan, n)
    is_longer = np.asarray(times) > value
    num_blocks = 10
    counts = [block.sum() for block in np.array_split(is_longer, num_blocks)]
    chance = n / num_blocks * is_longer.mean() * (1 - is_longer.mean())
    freedom = num_blocks - 1
    excess = np.var(counts, ddof=1) / chance if chance else 1.0
    excess = max(1.0, excess * freedom / stats.chi2.ppf(0.25, freedom))
    worth = n / excess
    low = stats.beta.ppf(1 - UPPER, worth * share, worth * (1 - share) + 1)
    high = stats.beta.ppf(UPPER, worth * share + 1, worth * (1 - share))
    bounds = np.quantile(times, [low, high], method="inverted_cdf")
    is_bounded = high <= 1 - 1 / n
    return Interval(value, float(bounds[0]), float(bounds[1]) if is_bounded else math.inf, n)


def describe_load(requests: pd.DataFrame) -> list[str]:
    """Describe a load test in lines: percentiles with 95 % bounds, the first answer apart, errors.

    Args:
        requests: of one `run_closed_loop` or one `run_open_loop`.
    """
    summary = summarise_load(requests)
    answered = requests[requests["error"] == ""]
    times = answered.get("response_ms", answered["round_trip_ms"])
    lines = [
        f"{len(answered)} of {len(requests)} requests answered, {summary['answered_per_s']:.1f} a"
        " second"
    ]
    if len(times):
        lines.append(f"first answer {times.iloc[0]:.1f} ms, not counted below")
    for name in ("p50_ms", "p95_ms", "p99_ms"):
        bound = bound_percentile(times.iloc[1:], QUANTILES[name])
        if not math.isnan(bound.value):
            lines.append(f"{name[:3]} {write_interval(*bound[:3])} ms, n = {bound.n}")
    kinds = requests.loc[requests["error"] != "", "error"].value_counts()
    lines += [f"{number} not answered: {error}" for error, number in kinds.items()]
    return lines


def find_max_rate(
    url: str,
    bodies: Sequence[bytes | Path],
    *,
    bound_ms: float,
    seconds: float = 10.0,
    seed: int = 0,
    content_type: str = "image/jpeg",
) -> MaxRate:
    """Find the largest rate at which all requests are answered and 99 % of the response times are
    within a bound.

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
        DrError: as there, or the server refuses a body (4xx) at any rate.
    """
    _check(bodies, bound_ms=bound_ms, seconds=seconds)
    held = 0.0
    missed = math.inf
    rate = 8.0
    tried = []
    sent = []
    while missed > 1.1 * held and rate * seconds >= 1:
        run_closed_loop(url, bodies[:1], content_type=content_type, num_requests=1)
        requests = run_open_loop(
            url,
            bodies,
            rate_per_s=rate,
            seconds=seconds,
            seed=seed + len(tried),
            content_type=content_type,
            timeout_s=max(1.0, 4e-3 * bound_ms),
        )
        status = requests["status"]
        is_busy = status.isin([408, 429])
        refused = requests[status.between(400, 499) & ~is_busy]
        if len(refused):
            raise DrError(
                f"{refused['error'].iloc[0]}: a refused request cannot measure a rate: leave "
                "its body out"
            )
        is_held = bool((requests["error"] == "").all())
        is_held = is_held and (requests["response_ms"] > bound_ms).mean() <= 0.01
        tried.append({**summarise_load(requests), "held": is_held})
        sent.append(requests)
        if is_held:
            held = rate
        else:
            missed = rate
        if missed == math.inf:
            rate = 2 * held
        else:
            rate = math.sqrt(held * missed) if held else missed / 2
    all_requests = pd.concat(sent, ignore_index=True) if sent else pd.DataFrame()
    return MaxRate(held, pd.DataFrame(tried), all_requests)


class _Client:
    """One connection, kept open between calls, for one thread at a time."""

    def __init__(self, url: str, content_type: str, timeout_s: float):
        self.content = b""  # of the last answer
        self._sign = None
        if url.startswith(sagemaker.SCHEME):
            url, self._sign, _ = sagemaker.find_endpoint(url)
        try:
            address = urlsplit(url)
            self._path = (address.path or "/") + (f"?{address.query}" if address.query else "")
            if not address.hostname or not re.fullmatch("[!-~]+", self._path):
                raise ValueError("no host name, or a blank or accent in the path")
            kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
            self.connection = kinds[address.scheme](
                address.hostname, address.port, timeout=timeout_s
            )
        except (ValueError, KeyError, http.client.HTTPException) as error:
            raise DrError(f"{url!r} is not a valid address: {EXAMPLE}") from error
        self._url = url
        self._headers = {"Content-Type": content_type, "Accept": "application/json"}

    def connect(self) -> None:
        """Connect now, so that an address without a server raises at once."""
        try:
            self.connection.connect()
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DrError(
                f"no server at {self._url}: {reason}: start the server first, or correct the "
                "address"
            ) from error

    def call(self, body: bytes | Path) -> Answer:
        """Send one request; reopen a connection that was closed while idle."""
        if isinstance(body, Path):
            body = body.read_bytes()
        start = time.perf_counter()
        attempts = 1
        try:
            try:
                response = self._exchange(body)
            except CLOSED:
                self.connection.close()
                attempts = 2
                response = self._exchange(body)
            round_trip_ms = 1e3 * (time.perf_counter() - start)
            answer = _read_answer(self._url, len(body), response, self.content)
        except (OSError, http.client.HTTPException, ValueError, zlib.error) as error:
            round_trip_ms = 1e3 * (time.perf_counter() - start)
            self.connection.close()
            answer = Answer(error=f"{type(error).__name__}: {error}")
        return answer._replace(round_trip_ms=round_trip_ms, attempts=attempts)

    def _exchange(self, body: bytes) -> http.client.HTTPResponse:
        """Send one request, store the content of its answer and return its head."""
        headers = self._sign(body, self._headers) if self._sign else self._headers
        # who refuses early answers before the body is read
        with contextlib.suppress(*CLOSED):
            self.connection.request("POST", self._path, body, headers)
        response = self.connection.getresponse()
        self.content = response.read()
        if response.getheader("Content-Encoding") in ("gzip", "deflate"):
            self.content = zlib.decompressobj(47).decompress(self.content)
        return response


def _read_answer(
    url: str, num_bytes: int, response: http.client.HTTPResponse, content: bytes
) -> Answer:
    """Read the answer to a body of so many bytes; all but a prediction is an error."""
    status = response.status
    is_success = status // 100 == 2
    pairs = []  # of all objects in the answer
    try:
        answer = json.loads(
            content, object_pairs_hook=lambda own: pairs.extend(own) or dict(own)
        )
        facts = answer if isinstance(answer, dict) else {}
        timings = facts.get("timings_ms") or {}
        words = facts.get("error") or json.dumps(answer)
        named = [value for name, value in pairs if PREDICTION.search(name)]
        has_prediction = any(value not in (None, "", [], {}) for value in named)
        has_failed = any(value and FAILURE.search(name) for name, value in pairs)
        if is_success and has_prediction and not has_failed:
            return Answer(
                decode_ms=timings.get("decode", math.nan),
                predict_ms=timings.get("predict", math.nan),
                status=status,
                model=facts.get("model"),
                model_version=facts.get("model_version"),
            )
    except (ValueError, RecursionError, AttributeError):
        words = re.sub("(?s)<style.*?/style>|<[^>]*>", "\n", content.decode("utf-8", "replace"))
    line = next(filter(None, map(str.strip, str(words).splitlines())), response.reason)
    line = "".join(filter(str.isprintable, line.removeprefix(str(status)).strip()))[:200]
    if is_success:
        line = f"no prediction as JSON in the answer: {line}"
    location = response.getheader("Location")
    if location:
        line = f"give {urljoin(url, location)}"
    if status == http.client.REQUEST_ENTITY_TOO_LARGE:
        line += f" ({num_bytes / 1e6:.2f} MB sent, SageMaker's limit is 6.29 MB)"
    delay = response.getheader("Retry-After")
    if delay:
        line += f" (Retry-After: {delay})"
    return Answer(status=status, error=f"status {status}: {line}")


def _find_percentile(times: pd.Series, share: float) -> float:
    if len(times) * (1 - share) <= 1 - 1e-9:  # rounding; only the longest time is such
        return math.nan
    return float(np.quantile(times, share, method="inverted_cdf"))


def _check(bodies: Sequence[bytes], **numbers: float) -> None:
    is_list = not isinstance(bodies, bytes) and len(bodies)
    if not is_list or not all(isinstance(body, bytes | Path) for body in bodies):
        raise DrError("nothing to send: give a list of pictures, each a path or a file's bytes")
    for name, value in numbers.items():
        if not 0 < value < math.inf:
            raise DrError(f"{name} = {value}: give a number above 0")
