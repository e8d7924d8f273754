"""The load, put on a real server on loopback whose delays are known."""

import gzip
import itertools
import json
import math
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest

from dr_lib.errors import DrError
from dr_lib.rooms.serving.server.load import (
    bound_percentile,
    describe_load,
    find_max_rate,
    run_closed_loop,
    run_open_loop,
    summarise_load,
)

GOOD = {
    "model": "mobilenet",
    "model_version": "0123456789ab",
    "timings_ms": {"decode": 2.5, "predict": 7.5},
}


class Server(ThreadingHTTPServer):
    """Answers request k as `answer(k, body)` says: status and content; one at a time where there
    is a lock.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, answer, lock=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.lock = lock or threading.Semaphore(999)
        self.count = itertools.count()
        self.seen = []
        self.closes = False  # connections that are idle, saying nothing
        self.headers = {}  # further ones of every answer
        self.url = f"http://127.0.0.1:{self.server_port}/invocations"


class Handler(BaseHTTPRequestHandler):
    """Keeps connections open, as the served model does."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):  # noqa: N802
        """Read the body, ask the server what to say, say it."""
        begun = time.perf_counter()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            status, content = self.server.answer(next(self.server.count), body)
        self.server.seen.append(
            (begun, time.perf_counter(), body, self.headers["Content-Type"], self.path)
        )
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.close_connection = self.server.closes or status is None
        if status is None:  # it dies
            return
        self.send_response(status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
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


def test_the_closed_loop_is_the_papers(serve):
    """One at a time, the next a gap after the last answer, 25 and 5 s if nothing else is said."""
    assert run_closed_loop.__kwdefaults__.items() >= {"num_requests": 25, "gap_s": 5}.items()
    server = serve(lambda k, body: wait(0.02))
    requests = run_closed_loop(server.url, [b"a", b"b"], num_requests=5, gap_s=0.05)
    assert len(requests) == 5 and (requests["load"] == "closed").all()
    assert (requests[["status", "decode_ms", "predict_ms"]] == [200, 2.5, 7.5]).all(axis=None)
    assert (
        requests[["model", "model_version", "error"]] == ["mobilenet", "0123456789ab", ""]
    ).all(axis=None)
    assert (requests["round_trip_ms"] >= 20).all()
    assert (
        min(later[0] - earlier[1] for earlier, later in itertools.pairwise(server.seen)) >= 0.05
    )
    assert [seen[2] for seen in server.seen] == [b"a", b"b", b"a", b"b", b"a"]
    assert {seen[3:] for seen in server.seen} == {("image/jpeg", "/invocations")}
    summary = summarise_load(requests)
    assert summary["p50_ms"] == summary["service_p50_ms"]  # nothing was due before it was sent
    assert summary["rate_per_s"] == summary["answered_per_s"] < 5 / (5 * 0.02 + 4 * 0.05)


def test_a_stall_is_seen_by_those_who_were_due_in_it(serve):
    """All who are due while the server stalls wait for its end; counted from the sending only
    one request does.
    """
    server = serve(lambda k, body: wait(1.0 if k == 25 else 0.0))
    requests = run_open_loop(
        server.url, [b"x"], rate_per_s=50, seconds=2, seed=0, num_connections=1
    )
    stalled_s = requests["sent_s"][25]
    due_in_it = requests[requests["due_s"].between(stalled_s, stalled_s + 1)]
    assert len(due_in_it) > 30 and (requests["round_trip_ms"] > 1000).sum() == 1
    assert (due_in_it["response_ms"] >= 1e3 * (stalled_s + 1 - due_in_it["due_s"])).all()
    summary = summarise_load(requests)
    assert summary["n"] == 100 and summary["share_failed"] == summary["share_503"] == 0
    assert summary["p99_ms"] > 800 and summary["service_max_ms"] > 1000


def test_a_slow_answer_does_not_slow_the_questions(serve):
    """A server that answers nobody before 20 have asked is asked by 20: none of them waits for
    another's answer.
    """
    all_are_here = threading.Barrier(20)

    def answer(k, body):
        all_are_here.wait(20)
        return 200, GOOD

    requests = run_open_loop(
        serve(answer).url, [b"x"], rate_per_s=100, seconds=0.2, seed=1, timeout_s=30
    )
    assert len(requests) == 20 and (requests["error"] == "").all()


def test_arrivals_are_poisson_and_those_of_the_seed(serve):
    """Gaps of an exponential distribution: their mean 1 / rate, their deviation as large, the
    same again.
    """
    url = serve().url
    load = {"rate_per_s": 800, "seconds": 0.5, "num_connections": 8}
    first, again, other = (
        run_open_loop(url, [b"x"], seed=seed, **load)["due_s"] for seed in (3, 3, 4)
    )
    gaps = np.diff(first)
    assert len(first) == 400 and first.is_monotonic_increasing and first.between(0, 0.5).all()
    assert 1 / gaps.mean() == pytest.approx(800, rel=0.05) and gaps.std() == pytest.approx(
        gaps.mean(), rel=0.2
    )
    assert first.equals(again) and not first.equals(other)


def test_percentiles_are_those_of_a_table_done_by_hand():
    """Of 1 to 200 ms the 99th is 198, which 198 of the 200 do not exceed; failed requests are
    counted apart. Of fewer answers than 100 it would be the longest, and is none.
    """
    good = pd.DataFrame(
        {"round_trip_ms": np.arange(1.0, 201), "response_ms": np.arange(1.0, 201)[::-1] + 10}
    )
    good = good.assign(status=200, error="", sent_s=0.0, rate_per_s=20.0).sample(
        frac=1, random_state=0
    )
    bad = pd.DataFrame(
        {"round_trip_ms": [1e4] * 50, "response_ms": 1e4, "status": [503] * 30 + [0] * 20}
    )
    summary = summarise_load(
        pd.concat([good, bad.assign(error="no", sent_s=0.0, rate_per_s=20.0)])
    )
    assert [summary[name] for name in ("p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms")] == [
        110,
        190,
        200,
        208,
        210,
    ]
    assert [summary[f"service_{name}_ms"] for name in ("p50", "p90", "p95", "p99", "max")] == [
        100,
        180,
        190,
        198,
        200,
    ]
    assert (summary["n"], summary["share_503"], summary["share_failed"]) == (250, 0.12, 0.08)
    assert (summary["rate_per_s"], summary["answered_per_s"]) == (
        20,
        20,
    )  # 200 answered in 10 s
    for number, known in (
        (100, "p50 p90 p95 p99"),
        (99, "p50 p90 p95"),
        (19, "p50 p90"),
        (1, ""),
    ):
        summary = summarise_load(good[:number])
        names = [name for name in ("p50", "p90", "p95", "p99") if summary[f"{name}_ms"] > 0]
        assert (
            names == known.split() and summary["max_ms"] == good["response_ms"][:number].max()
        )


def test_what_is_not_answered_has_its_row(serve):
    """Refusals, nonsense and a connection cut in the middle are rows with a reason; the rest is
    right.
    """
    answers = {
        0: (503, {"error": "the queue is full"}),
        1: (200, b"<html>"),
        2: (200, ["a"]),
        3: (500, {}),
        4: (200, {"most_probable_grade": 1}),
        5: (200, b"[" * 100_000),
    }
    requests = run_closed_loop(
        serve(lambda k, body: answers.get(k, (200, GOOD))).url, [b"x"], num_requests=7, gap_s=0
    )
    assert requests["status"].tolist() == [503, 200, 200, 500, 200, 200, 200]
    no_json = "status 200: no prediction as JSON in the answer: "
    assert requests["error"].tolist() == [
        "status 503: the queue is full",
        f"{no_json}OK",
        f'{no_json}["a"]',
        "status 500: {}",
        "",
        no_json + "[" * 200,
        "",
    ]
    assert requests["predict_ms"].notna().tolist() == [False] * 6 + [True]


NO_PREDICTION = [
    {"error": "model not loaded"},
    {"errorMessage": "Task timed out after 3.00 seconds"},
    {"error": {"code": 5, "message": "no quota"}, "predictions": None},
    {"status": "healthy"},
    {"code": 500, "message": "internal error"},
    {"predictions": []},
    {"predictions": [{"error": "bad image"}]},
    [1, 2],  # of what?
    "ok",
    None,
]
PREDICTIONS = [
    {"predictions": [[0.1, 0.2, 0.3, 0.2, 0.2]]},
    {"error": None, "prediction": "moderate"},
    {"outputs": [{"name": "p", "shape": [1, 2], "data": [0.1, 0.9]}]},
    {"outputs": [[0.1, 0.9]]},
    {"data": {"referable": False}},
    [{"label": "2", "score": 0.98}],
]


@pytest.mark.parametrize("answer", [*NO_PREDICTION, *PREDICTIONS], ids=str)
def test_only_a_prediction_is_an_answer(serve, answer):
    """Services put errors into answers of status 200; each kind of prediction is one, as
    TensorFlow Serving, KServe and Hugging Face document theirs.
    """
    requests = run_closed_loop(serve(lambda *_: (200, answer)).url, [b"x"], num_requests=1)
    assert (requests["error"][0] == "") == (answer in PREDICTIONS)
    if answer in NO_PREDICTION[:2]:
        assert next(iter(answer.values())) in requests["error"][0]


@pytest.mark.parametrize(
    ("status", "content", "headers", "message"),
    [
        (
            502,
            b"<html>\n<title>502 Bad Gateway</title>",
            {},
            "status 502: Bad Gateway",
        ),
        (504, b"", {}, "status 504: Gateway Timeout"),
        (
            413,
            b"<html>413 Request Entity Too Large</html>",
            {},
            r"status 413: Request Entity Too Large \(2.50 MB sent, SageMaker's limit is 6.29 MB",
        ),
        (
            429,
            {"message": "slow down"},
            {"Retry-After": "30"},
            r"slow down.*\(Retry-After: 30\)",
        ),
        (
            200,
            b"<style>a{}</style><p>Sign in",
            {},
            "no prediction as JSON in the answer: Sign in",
        ),
        (
            502,
            gzip.compress(b"<h1>Bad", mtime=0),
            {"Content-Encoding": "gzip"},
            "status 502: Bad$",
        ),
        (500, {"error": "\33[2Jred"}, {}, r"status 500: \[2Jred"),  # no command to the terminal
    ],
)
def test_what_a_gateway_says_is_shown(serve, status, content, headers, message):
    """The status, and the first line that a browser would show."""
    server = serve(lambda *_: (status, content))
    server.headers = headers
    requests = run_closed_loop(server.url, [bytes(2_500_000)], num_requests=1)
    assert re.search(message, requests["error"][0]), requests["error"][0]


def test_a_redirect_names_the_address(serve):
    """A POST is not sent elsewhere; one request says where to send it."""
    server = serve(lambda *_: (301, b"<html>moved</html>"))
    server.headers = {"Location": "/v2/invocations"}
    new = server.url.replace("/invocations", "/v2/invocations")
    with pytest.raises(DrError, match=f"status 301: give {new}"):
        run_closed_loop(server.url, [b"x"])
    assert len(server.seen) == 1


def test_files_are_read_when_they_are_sent(serve, tmp_path):
    """Only those that are sent are read, so that a folder may be larger than memory."""
    (tmp_path / "a.jpg").write_bytes(b"eye")
    server = serve()
    paths = [tmp_path / "a.jpg", tmp_path / "not there.jpg"]
    assert len(run_closed_loop(server.url, paths, num_requests=1)) == 1
    assert server.seen[0][2] == b"eye"


def test_a_server_that_dies_under_load_leaves_rows(serve):
    """Each request is tried once more, and then has failed; none is missing."""
    requests = run_closed_loop(
        serve(lambda k, body: (None, b"")).url, [b"x"], num_requests=3, gap_s=0
    )
    assert (requests["status"] == 0).all() and (requests["attempts"] == 2).all()
    assert requests["error"].str.contains("closed connection without response|reset").all()
    summary = summarise_load(
        run_open_loop(
            serve(lambda k, body: (None, b"")).url, [b"x"], rate_per_s=100, seconds=0.5, seed=0
        )
    )
    assert (summary["n"], summary["share_failed"]) == (50, 1) and np.isnan(summary["p99_ms"])


def test_a_connection_closed_while_idle_is_opened_anew(serve):
    """Servers close idle connections after some seconds, just when the next request comes: no
    failure.
    """
    server = serve()
    server.closes = True
    requests = run_closed_loop(server.url, [b"x"], num_requests=3, gap_s=0.05)
    assert (requests["error"] == "").all() and requests["attempts"].tolist() == [1, 2, 2]


def test_a_server_that_says_nothing_has_failed(serve):
    """After `timeout_s`; and in an open loop what could not be sent by then is given up, so that
    the test ends.
    """
    server = serve(lambda k, body: wait(0.5))
    (request,) = run_closed_loop(server.url, [b"x"], num_requests=1, timeout_s=0.1).itertuples()
    assert (request.status, request.error) == (
        0,
        "TimeoutError: timed out",
    ) and request.round_trip_ms >= 100
    load = {"rate_per_s": 50, "seconds": 0.5, "seed": 0, "num_connections": 1, "timeout_s": 0.2}
    requests = run_open_loop(server.url, [b"x"], **load)
    assert len(requests) == 25 and (requests["status"] == 0).all()
    assert set(requests["error"]) == {
        "TimeoutError: timed out",
        "not sent: no connection was free in time",
    }
    assert (requests["response_ms"] >= 200).all()


@pytest.mark.slow
def test_finds_the_rate_that_one_worker_can_hold(serve):
    """20 ms a request, one at a time: 50/s at most, and less where a random arrival may wait 100
    ms at most.
    """
    url = serve(lambda k, body: wait(0.02), threading.Lock()).url
    found = find_max_rate(url, [b"x"], bound_ms=150, seconds=1)
    tried = found.tried
    sent = found.requests.groupby("rate_per_s").size()  # every one is kept, with its rate
    assert (found.requests["load"] == "open").all() and sent.to_dict() == tried.set_index(
        "rate_per_s"
    )["n"].to_dict()
    assert found.rate_per_s < 60 and tried["rate_per_s"].tolist()[:2] == [
        8,
        16 if tried["held"][0] else 4,
    ]
    assert found.rate_per_s == tried.loc[tried["held"], "rate_per_s"].max()
    assert tried.loc[~tried["held"], "rate_per_s"].min() <= 1.1 * found.rate_per_s
    assert (tried.loc[tried["held"], "max_ms"] <= 150).all() and (
        tried.loc[~tried["held"], "max_ms"] > 150
    ).all()


def test_refusals_hold_no_rate(serve):
    """A server that refuses every other request at once is fast, and holds nothing."""
    url = serve(lambda k, body: (503, {}) if k % 2 else (200, GOOD)).url
    found = find_max_rate(url, [b"x"], bound_ms=1000, seconds=0.5)
    assert (
        found.rate_per_s < 8
        and not found.tried["held"][0]
        and found.tried["share_503"][0] == 0.5
    )


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("127.0.0.1:8080", "not a valid address"),
        ("ftp://127.0.0.1/", "not a valid address"),
        ("http://127.0.0.1:99999/", "not a valid address"),
        ("http:///invocations", "not a valid address"),
        ("http://127.0.0.1/a b", "not a valid address"),
        ("http://[::1]:1/", "start the server first, or correct the address"),
        ("http://127.0.0.1:1/", "127.0.0.1:1/: Connection refused: start the server first"),
    ],
)
def test_an_address_where_nobody_is_stops_at_once(url, message):
    """Before 25 requests and 2 minutes have been spent on it."""
    with pytest.raises(DrError, match=message):
        run_closed_loop(url, [b"x"])
    with pytest.raises(DrError, match=message):
        run_open_loop(url, [b"x"], rate_per_s=1, seconds=1, seed=0)


@pytest.mark.parametrize("status", [404, 405])
def test_an_address_where_nothing_is_predicted_stops_at_once(serve, status):
    """No later request is answered otherwise: one is sent, and the path that is meant is named."""
    server = serve(lambda k, body: (status, {"error": "Not Found"}))
    with pytest.raises(
        DrError, match=f"status {status}.* such as http://127.0.0.1:8080/invocations"
    ):
        run_closed_loop(server.url, [b"x"], gap_s=0)
    assert len(server.seen) == 1


def test_refuses_numbers_that_are_no_load():
    """The number is named."""
    for name, wrong in (
        ("rate_per_s", 0),
        ("rate_per_s", float("nan")),
        ("seconds", -1),
        ("timeout_s", 0),
    ):
        load = {"rate_per_s": 1, "seconds": 1, "seed": 0} | {name: wrong}
        with pytest.raises(DrError, match=name):
            run_open_loop("http://127.0.0.1:1/", [b"x"], **load)
    with pytest.raises(DrError, match="gap_s"):
        run_closed_loop("http://127.0.0.1:1/", [b"x"], gap_s=-1)
    with pytest.raises(DrError, match="nothing to send"):
        run_closed_loop("http://127.0.0.1:1/", b"x")


def test_a_percentile_has_the_bounds_of_as_many_independent_times_as_it_is_worth():
    """The 95th percentile of 1,000 independent times lies between the 936th and the 963rd
    (scipy.stats.binom), or a little wider; a stall of one stretch widens it; too few have none.
    """
    rng = np.random.default_rng(2)
    times = pd.Series(rng.permutation(1000) + 1.0)
    bound = bound_percentile(times, 0.95)
    assert (bound.value, bound.n) == (950, 1000)
    assert 915 <= bound.low <= 940 and 960 <= bound.high <= 975
    stalled = pd.Series(np.sort(times))
    assert bound_percentile(stalled, 0.95).low < 700
    assert bound_percentile(times[:100], 0.99).high == math.inf
    assert math.isnan(bound_percentile(times[:99], 0.99).value)


def test_a_load_test_is_described_with_its_errors_by_kind():
    """The first answer is apart, and each kind of error is counted."""
    requests = pd.DataFrame(
        {
            "request": range(6),
            "sent_s": np.arange(6.0),
            "round_trip_ms": [500.0, 10, 20, 30, 40, 1],
            "status": [200, 200, 200, 200, 200, 503],
            "error": [""] * 5 + ["status 503: too many"],
        }
    )
    assert describe_load(requests)[:2] == [
        "5 of 6 requests answered, 1.0 a second",
        "first answer 500.0 ms, not counted below",
    ]
    assert describe_load(requests)[2] == "p50 20.0 [10.0, ∞] ms, n = 4"
    assert describe_load(requests)[-1] == "1 not answered: status 503: too many"
