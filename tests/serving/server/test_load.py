"""The load, put on a real server on loopback whose delays are known."""

import itertools
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest

from dr_lib.serving.server.load import (
    LoadError,
    find_max_rate,
    find_percentile,
    load_at_rate,
    request_in_sequence,
    summarise_latency,
)

GOOD = {"model": "mobilenet", "model_version": "0123456789ab", "timings_ms": {"decode": 2.5, "predict": 7.5}}


class Server(ThreadingHTTPServer):
    """Answers request k as `answer(k, body)` says: status and content; one at a time where there is a lock."""

    daemon_threads, request_queue_size = True, 128

    def __init__(self, answer, lock=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.lock, self.count, self.seen = answer, lock or threading.Semaphore(999), itertools.count(), []
        self.closes = False  # connections that are idle, saying nothing
        self.url = f"http://127.0.0.1:{self.server_port}/invocations"


class Handler(BaseHTTPRequestHandler):
    """Keeps connections open, as the served model does."""

    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

    def do_POST(self):  # noqa: N802
        """Read the body, ask the server what to say, say it."""
        begun, body = time.perf_counter(), self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            status, content = self.server.answer(next(self.server.count), body)
        self.server.seen.append((begun, time.perf_counter(), body, self.headers["Content-Type"], self.path))
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.close_connection = self.server.closes or status is None
        if status is None:  # it dies
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture
def serve():
    """A function that starts a server from its answers."""
    started = []

    def start(answer=lambda k, body: (200, GOOD), lock=None):
        started.append(Server(answer, lock))
        threading.Thread(target=started[-1].serve_forever, args=(0.01,), daemon=True).start()
        return started[-1]

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def wait(seconds, then=(200, GOOD)):
    """An answer after some time."""
    time.sleep(seconds)
    return then


def test_requests_in_sequence_are_the_papers(serve):
    """One at a time, the next a gap after the last answer; the server's times beside the whole call's."""
    server = serve(lambda k, body: wait(0.02))
    requests = request_in_sequence(server.url, [b"a", b"b"], num_requests=5, gap_s=0.05)
    assert len(requests) == 5 and (requests["load"] == "sequence").all()
    assert (requests[["status", "decode_ms", "predict_ms"]] == [200, 2.5, 7.5]).all(axis=None)
    assert (requests[["model", "model_version", "error"]] == ["mobilenet", "0123456789ab", ""]).all(axis=None)
    assert requests["call_ms"].between(20, 300).all()
    pauses = [later[0] - earlier[1] for earlier, later in itertools.pairwise(server.seen)]
    assert 0.05 <= min(pauses) and max(pauses) < 0.5
    assert [seen[2] for seen in server.seen] == [b"a", b"b", b"a", b"b", b"a"]
    assert {seen[3:] for seen in server.seen} == {("image/jpeg", "/invocations")}


def test_the_default_is_the_papers_experiment():
    """25 requests, 5 s apart."""
    assert request_in_sequence.__kwdefaults__ | {"num_requests": 25, "gap_s": 5.0} == request_in_sequence.__kwdefaults__


def test_a_stall_is_seen_by_those_who_were_due_in_it(serve):
    """One stall of 1 s in 4 s makes a quarter of the users wait; counted from the sending, one request in 200."""
    server = serve(lambda k, body: wait(1.0 if k == 50 else 0.0))
    requests = load_at_rate(server.url, [b"x"], rate_per_s=50, seconds=4, seed=0, num_connections=1)
    told = summarise_latency(requests)
    assert told["n"] == 200 and told["share_failed"] == told["share_503"] == 0
    assert told["service_p99_ms"] < 100 and 1000 < told["service_max_ms"] < 1300
    assert 800 < told["p99_ms"] <= told["max_ms"] < 1300
    assert 0.2 < (requests["latency_ms"] > 50).mean() < 0.4
    due_in_it = requests[
        (requests["due_s"] > requests["due_s"][50]) & (requests["due_s"] < requests["due_s"][50] + 0.9)
    ]
    waited = requests["due_s"][50] + 1 - due_in_it["due_s"]
    assert (due_in_it["latency_ms"] / 1e3 - waited).between(-0.01, 0.3).all()


def test_a_slow_answer_does_not_slow_the_questions(serve):
    """At 100/s to a server that takes 200 ms, 20 requests are under way at once, and none waits for another."""
    requests = load_at_rate(serve(lambda k, body: wait(0.2)).url, [b"x"], rate_per_s=100, seconds=1, seed=1)
    assert (1e3 * (requests["sent_s"] - requests["due_s"])).quantile(0.9) < 20
    assert requests["latency_ms"].quantile(0.9) < 260


def test_arrivals_are_poisson_and_those_of_the_seed(serve):
    """Gaps of an exponential distribution: their mean 1 / rate, their deviation as large, the same again."""
    url = serve().url
    load = {"rate_per_s": 400, "seconds": 1, "num_connections": 8}
    first, again, other = (load_at_rate(url, [b"x"], seed=seed, **load)["due_s"] for seed in (3, 3, 4))
    gaps = np.diff(first)
    assert len(first) == 400 and first.is_monotonic_increasing and first.between(0, 1).all()
    assert 1 / gaps.mean() == pytest.approx(400, rel=0.05) and gaps.std() == pytest.approx(gaps.mean(), rel=0.2)
    assert first.equals(again) and not first.equals(other)


def test_percentiles_are_those_of_a_table_done_by_hand():
    """Of 1 to 200 ms the 99th is 198, which 198 of the 200 do not exceed; failed requests are counted apart."""
    good = pd.DataFrame({"call_ms": np.arange(1.0, 201), "latency_ms": np.arange(1.0, 201)[::-1] + 10})
    good = good.assign(status=200, error="", sent_s=0.0, rate_per_s=20.0).sample(frac=1, random_state=0)
    bad = pd.DataFrame({"call_ms": [1e4] * 50, "latency_ms": 1e4, "status": [503] * 30 + [0] * 20})
    told = summarise_latency(pd.concat([good, bad.assign(error="no", sent_s=0.0, rate_per_s=20.0)]))
    assert [told[name] for name in ("p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms")] == [110, 190, 200, 208, 210]
    assert [told[f"service_{name}_ms"] for name in ("p50", "p90", "p95", "p99", "max")] == [100, 180, 190, 198, 200]
    assert (told["n"], told["share_503"], told["share_failed"]) == (250, 0.12, 0.08)
    assert (told["rate_per_s"], told["answered_per_s"]) == (20, 20)  # 200 answered in 10 s
    assert find_percentile([], 0.5) != find_percentile([], 0.5)


def test_a_sequence_is_summarised_by_its_calls(serve):
    """It offers what was answered, and nothing was due before it was sent."""
    told = summarise_latency(request_in_sequence(serve().url, [b"x"], num_requests=4, gap_s=0.1))
    assert told["p50_ms"] == told["service_p50_ms"]
    assert told["rate_per_s"] == told["answered_per_s"] == pytest.approx(4 / 0.3, rel=0.1)


def test_what_is_not_answered_has_its_row(serve):
    """Refusals, nonsense and a connection cut in the middle are rows with a reason; the rest is right."""
    answers = {
        0: (503, {"error": "the queue is full"}),
        1: (200, b"<html>"),
        2: (200, [1]),
        3: (500, {}),
        4: (200, {"grade": 1}),
        5: (200, b"[" * 100_000),
    }
    requests = request_in_sequence(
        serve(lambda k, body: answers.get(k, (200, GOOD))).url, [b"x"], num_requests=7, gap_s=0
    )
    assert requests["status"].tolist() == [503, 200, 200, 500, 200, 200, 200]
    told = "the answer of {} bytes is no JSON object"
    wanted = ["the queue is full", told.format(6), told.format(3), "status 500", "", told.format(100_000), ""]
    assert requests["error"].tolist() == wanted
    assert requests["predict_ms"].notna().tolist() == [False] * 6 + [True]


def test_a_server_that_dies_under_load_leaves_rows(serve):
    """Each request is tried once more, and then has failed; none is missing."""
    requests = request_in_sequence(serve(lambda k, body: (None, b"")).url, [b"x"], num_requests=3, gap_s=0)
    assert (requests["status"] == 0).all() and (requests["attempts"] == 2).all()
    assert requests["error"].str.contains("closed connection without response|reset").all()
    at_rate = load_at_rate(serve(lambda k, body: (None, b"")).url, [b"x"], rate_per_s=100, seconds=0.5, seed=0)
    told = summarise_latency(at_rate)
    assert (told["n"], told["share_failed"]) == (50, 1) and np.isnan(told["p99_ms"])


def test_a_connection_closed_while_idle_is_opened_anew(serve):
    """Servers close idle connections after some seconds, just when the next request comes: no failure."""
    server = serve()
    server.closes = True
    requests = request_in_sequence(server.url, [b"x"], num_requests=3, gap_s=0.05)
    assert (requests["error"] == "").all() and requests["attempts"].tolist() == [1, 2, 2]


def test_a_server_that_says_nothing_has_failed(serve):
    """After `timeout_s`; and at a rate what could not be sent by then is given up, so that the test ends."""
    server = serve(lambda k, body: wait(0.5))
    (request,) = request_in_sequence(server.url, [b"x"], num_requests=1, timeout_s=0.1).itertuples()
    assert (request.status, request.error) == (0, "TimeoutError: timed out") and 100 <= request.call_ms < 400
    start = time.perf_counter()
    load = {"rate_per_s": 50, "seconds": 0.5, "seed": 0, "num_connections": 1, "timeout_s": 0.2}
    requests = load_at_rate(server.url, [b"x"], **load)
    assert time.perf_counter() - start < 2 and len(requests) == 25
    assert set(requests["error"]) == {"TimeoutError: timed out", "not sent: no connection was free in time"}
    assert (requests["latency_ms"] >= 200).all()


def test_finds_the_rate_that_one_worker_can_hold(serve):
    """20 ms a request, one at a time: 50/s at most, and less where a random arrival may wait 100 ms at most."""
    url = serve(lambda k, body: wait(0.02), threading.Lock()).url
    found = find_max_rate(url, [b"x"], bound_ms=150, percentile=0.9, seconds=1, precision=0.2)
    assert 20 < found.rate_per_s < 60
    tried = found.tried
    assert tried["rate_per_s"].tolist()[:3] == [8, 16, 32]
    assert found.rate_per_s == tried.loc[tried["held"], "rate_per_s"].max()
    assert tried.loc[~tried["held"], "rate_per_s"].min() <= 1.2 * found.rate_per_s
    assert (tried.loc[tried["held"], "p90_ms"] <= 150).all() and (tried.loc[~tried["held"], "p90_ms"] > 150).all()


def test_refusals_hold_no_rate(serve):
    """A server that refuses every tenth request at once is fast, and holds nothing."""
    url = serve(lambda k, body: (503, {}) if k % 10 == 9 else (200, GOOD)).url
    found = find_max_rate(url, [b"x"], bound_ms=1000, seconds=0.5, start_per_s=40)
    assert found.rate_per_s < 40 and not found.tried["held"][0]
    assert found.tried["share_503"][0] == pytest.approx(0.1, abs=0.05)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("127.0.0.1:8080", "no address"),
        ("ftp://127.0.0.1/", "no address"),
        ("http://127.0.0.1:99999/", "no address"),
        ("http:///invocations", "no address"),
        ("http://127.0.0.1:1/", "start the server first"),
    ],
)
def test_an_address_where_nobody_is_stops_at_once(url, told):
    """Before 25 requests and 2 minutes have been spent on it."""
    for load in (
        lambda: request_in_sequence(url, [b"x"]),
        lambda: load_at_rate(url, [b"x"], rate_per_s=1, seconds=1, seed=0),
        lambda: find_max_rate(url, [b"x"], bound_ms=10),
    ):
        with pytest.raises(LoadError, match=told):
            load()


@pytest.mark.parametrize(
    "wrong",
    [{"rate_per_s": 0}, {"rate_per_s": float("nan")}, {"seconds": -1}, {"num_connections": 0}, {"timeout_s": 0}],
)
def test_refuses_numbers_that_are_no_load(wrong):
    """The number is named."""
    load = {"rate_per_s": 1, "seconds": 1, "seed": 0} | wrong
    with pytest.raises(LoadError, match=next(iter(wrong))):
        load_at_rate("http://127.0.0.1:1/", [b"x"], **load)
    with pytest.raises(LoadError, match="gap_s"):
        request_in_sequence("http://127.0.0.1:1/", [b"x"], gap_s=-1)
    with pytest.raises(LoadError, match="nothing to send"):
        request_in_sequence("http://127.0.0.1:1/", b"x")
    with pytest.raises(LoadError, match="percentile"):
        find_max_rate("http://127.0.0.1:1/", [b"x"], bound_ms=1, percentile=99)


def test_loads_at_several_rates_are_not_one():
    """A percentile over them would be of nothing."""
    with pytest.raises(LoadError, match="2 rates"):
        summarise_latency(pd.DataFrame({"rate_per_s": [1.0, 2.0]}))
    with pytest.raises(LoadError, match="0 rates"):
        summarise_latency(pd.DataFrame())
