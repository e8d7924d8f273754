"""The load, put on a real server on loopback whose delays are known."""

import contextlib
import gzip
import math
import re
import threading
import time

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.errors import DrError
from dr_lib.serving.server.load import (
    bound_percentile,
    describe_load,
    find_max_rate,
    run_closed_loop,
    run_open_loop,
    summarise_load,
)
from tests.serving.driver import draw_photograph, encode
from tests.serving.fake import run_fake

GOOD = {
    "model": "mobilenet",
    "model_version": "0123456789ab",
    "timings_ms": {"decode": 2.5, "predict": 7.5},
}
NO_JSON = "status 200: no prediction as JSON in the answer: "


@pytest.fixture
def serve():
    """A function that starts a server from its answers."""
    with contextlib.ExitStack() as started:
        yield lambda answer=lambda _: (200, GOOD): started.enter_context(run_fake(answer))


def wait(seconds):
    """A prediction after some time."""
    time.sleep(seconds)
    return 200, GOOD


def test_the_closed_loop_is_the_papers(serve):
    """One at a time, the next a gap after the last answer, 25 and 5 s if nothing else is said."""
    assert run_closed_loop.__kwdefaults__.items() >= {"num_requests": 25, "gap_s": 5}.items()
    times = []

    def answer(_):
        times.append(time.perf_counter())
        said = wait(0.02)
        times.append(time.perf_counter())
        return said

    server = serve(answer)
    requests = run_closed_loop(server.url, [b"a", b"b"], num_requests=5, gap_s=0.05)
    assert len(requests) == 5 and (requests["load"] == "closed").all()
    assert (requests[["status", "decode_ms", "predict_ms"]] == [200, 2.5, 7.5]).all(axis=None)
    said = requests[["model", "model_version", "error"]]
    assert (said == ["mobilenet", "0123456789ab", ""]).all(axis=None)
    assert (requests["round_trip_ms"] >= 20).all()
    assert np.diff(times)[1::2].min() >= 0.05
    assert [seen.body for seen in server.seen] == [b"a", b"b", b"a", b"b", b"a"]
    asked = {(seen.headers["Content-Type"], seen.path) for seen in server.seen}
    assert asked == {("image/jpeg", "/invocations")}
    summary = summarise_load(requests)
    assert summary["p50_ms"] == summary["service_p50_ms"]  # nothing was due before it was sent
    assert summary["rate_per_s"] == summary["answered_per_s"] < 5 / (5 * 0.02 + 4 * 0.05)


def test_a_stall_is_seen_by_those_who_were_due_in_it(serve):
    """All who are due while the server stalls wait for its end; counted from the sending only
    one request does.
    """
    server = serve(lambda request: wait(1.0 if request.number == 25 else 0.0))
    load = {"rate_per_s": 50, "seconds": 2, "seed": 0, "num_connections": 1}
    requests = run_open_loop(server.url, [b"x"], **load)
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
    url = serve(lambda _: wait(0 * all_are_here.wait(20))).url
    requests = run_open_loop(url, [b"x"], rate_per_s=100, seconds=0.2, seed=1, timeout_s=30)
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
    assert 1 / gaps.mean() == pytest.approx(800, rel=0.05)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.2)
    assert first.equals(again) and not first.equals(other)


def test_percentiles_are_those_of_a_table_done_by_hand():
    """Of 1 to 200 ms the 99th is 198, which 198 of the 200 do not exceed; failed requests are
    counted apart. Of fewer answers than 100 it would be the longest, and is none.
    """
    times = np.arange(1.0, 201)
    good = pd.DataFrame({"round_trip_ms": times, "response_ms": times[::-1] + 10})
    good = good.assign(status=200, error="").sample(frac=1, random_state=0)
    bad = {"round_trip_ms": [1e4] * 50, "response_ms": 1e4, "status": [503] * 30 + [0] * 20}
    requests = pd.concat([good, pd.DataFrame(bad).assign(error="no")])
    summary = summarise_load(requests.assign(sent_s=0.0, rate_per_s=20.0))
    names = ["p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms"]
    assert [summary[name] for name in names] == [110, 190, 200, 208, 210]
    assert [summary[f"service_{name}"] for name in names] == [100, 180, 190, 198, 200]
    assert (summary["n"], summary["share_503"], summary["share_failed"]) == (250, 0.12, 0.08)
    assert (summary["rate_per_s"], summary["answered_per_s"]) == (20, 20)  # 200 in 10 s
    few = summarise_load(good[:99].assign(sent_s=0.0))
    assert math.isnan(few["p99_ms"]) and few["max_ms"] == good["response_ms"][:99].max()


ANSWERS = [  # status, content, further headers, and what is said of it: nothing of a prediction
    (503, {"error": "the queue is full"}, {}, "status 503: the queue is full$"),
    (200, b"<html>", {}, f"{NO_JSON}OK"),
    (200, ["a"], {}, re.escape(f'{NO_JSON}["a"]')),
    (500, {}, {}, "status 500: {}"),
    (200, b"[" * 100_000, {}, re.escape(f"{NO_JSON}{'[' * 200}") + "$"),
    # services put errors into answers of status 200
    (200, {"error": "model not loaded"}, {}, "model not loaded"),
    (200, {"errorMessage": "Task timed out after 3.00 seconds"}, {}, "Task timed out after"),
    (200, {"error": {"code": 5, "message": "no quota"}, "predictions": None}, {}, NO_JSON),
    (200, {"status": "healthy"}, {}, NO_JSON),
    (200, {"predictions": []}, {}, NO_JSON),
    (200, {"predictions": [{"error": "bad image"}]}, {}, NO_JSON),
    (200, [1, 2], {}, NO_JSON),  # of what?
    (200, None, {}, NO_JSON),
    # as TensorFlow Serving, KServe and Hugging Face document their predictions
    (200, {"predictions": [[0.1, 0.2, 0.3, 0.2, 0.2]]}, {}, ""),
    (200, {"error": None, "prediction": "moderate"}, {}, ""),
    (200, {"outputs": [{"name": "p", "shape": [1, 2], "data": [0.1, 0.9]}]}, {}, ""),
    (200, {"data": {"referable": False}}, {}, ""),
    (200, [{"label": "2", "score": 0.98}], {}, ""),
    # of a gateway the first line that a browser would show, and no command to the terminal
    (502, b"<html>\n<title>502 Bad Gateway</title>", {}, "status 502: Bad Gateway"),
    (504, b"", {}, "status 504: Gateway Timeout"),
    (413, b"<b>Too Large", {}, r"Too Large \(2.50 MB sent, SageMaker's limit is 6.29 MB"),
    (429, {"message": "slow"}, {"Retry-After": "30"}, r"slow.*\(Retry-After: 30\)"),
    (200, b"<style>a{}</style><p>Sign in", {}, f"{NO_JSON}Sign in"),
    (502, gzip.compress(b"<h1>Bad"), {"Content-Encoding": "gzip"}, "status 502: Bad$"),
    (500, {"error": "\33[2Jred"}, {}, r"status 500: \[2Jred"),
]


def test_only_a_prediction_is_an_answer(serve):
    """Each request has its row, with the status, and why it is none."""
    server = serve(lambda request: ANSWERS[request.number][:2])
    for status, content, headers, message in ANSWERS:
        server.headers = headers
        (row,) = run_closed_loop(server.url, [bytes(2_500_000)], num_requests=1).itertuples()
        assert row.status == status
        assert re.match(f".*{message}" if message else "$", row.error), (content, row.error)


@pytest.mark.parametrize(
    ("status", "headers", "message"),
    [
        (301, {"Location": "/v2/invocations"}, "status 301: give http://.*/v2/invocations"),
        (404, {}, "status 404.* such as http://127.0.0.1:8080/invocations"),
        (405, {}, "status 405.* such as http://127.0.0.1:8080/invocations"),
    ],
)
def test_an_address_where_nothing_is_predicted_stops_at_once(serve, status, headers, message):
    """No later request is answered otherwise, and a POST is not sent elsewhere: one is sent, and
    the address that is meant is named.
    """
    server = serve(lambda _: (status, {"error": "Not Found"}))
    server.headers = headers
    with pytest.raises(DrError, match=message):
        run_closed_loop(server.url, [b"x"], gap_s=0)
    assert len(server.seen) == 1


def test_files_are_read_when_they_are_sent(serve, tmp_path):
    """Only those that are sent are read, so that a folder may be larger than memory."""
    (tmp_path / "a.jpg").write_bytes(b"eye")
    server = serve()
    paths = [tmp_path / "a.jpg", tmp_path / "not there.jpg"]
    assert len(run_closed_loop(server.url, paths, num_requests=1)) == 1
    assert server.seen[0].body == b"eye"


def test_a_server_that_dies_under_load_leaves_rows(serve):
    """Each request is tried once more, and then has failed; none is missing."""
    url = serve(lambda _: (None, b"")).url
    requests = run_closed_loop(url, [b"x"], num_requests=3, gap_s=0)
    assert (requests["status"] == 0).all() and (requests["attempts"] == 2).all()
    assert requests["error"].str.contains("closed connection without response|reset").all()
    requests = run_open_loop(url, [b"x"], rate_per_s=100, seconds=0.5, seed=0)
    summary = summarise_load(requests)
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
    url = serve(lambda _: wait(0.5)).url
    (request,) = run_closed_loop(url, [b"x"], num_requests=1, timeout_s=0.1).itertuples()
    assert (request.status, request.error) == (0, "TimeoutError: timed out")
    assert request.round_trip_ms >= 100
    load = {"rate_per_s": 50, "seconds": 0.5, "seed": 0, "num_connections": 1, "timeout_s": 0.2}
    requests = run_open_loop(url, [b"x"], **load)
    assert len(requests) == 25 and (requests["status"] == 0).all()
    unsent = "not sent: no connection was free in time"
    assert set(requests["error"]) == {"TimeoutError: timed out", unsent}
    assert (requests["response_ms"] >= 200).all()


@pytest.mark.slow
def test_finds_the_rate_that_one_worker_can_hold(serve):
    """20 ms a request, one at a time: 50/s at most, and less where a random arrival may wait 100
    ms at most.
    """
    worker = threading.Lock()

    def answer(_):
        with worker:
            return wait(0.02)

    found = find_max_rate(serve(answer).url, [b"x"], bound_ms=150, seconds=1)
    tried = found.tried.set_index("rate_per_s")
    sent = found.requests.groupby("rate_per_s").size()  # every one is kept, with its rate
    assert (found.requests["load"] == "open").all()
    assert sent.to_dict() == tried["n"].to_dict()
    held = tried[tried["held"]]
    missed = tried[~tried["held"]]
    assert list(tried.index[:2]) == [8, 16 if 8 in held.index else 4]
    assert found.rate_per_s == held.index.max() < 60
    assert missed.index.min() <= 1.1 * found.rate_per_s
    assert (held["max_ms"] <= 150).all() and (missed["max_ms"] > 150).all()


def test_refusals_hold_no_rate(serve):
    """A server that refuses every other request at once is fast, and holds nothing."""
    url = serve(lambda request: (503, {}) if request.number % 2 else (200, GOOD)).url
    found = find_max_rate(url, [b"x"], bound_ms=1000, seconds=0.5)
    assert found.rate_per_s < 8 and not found.tried["held"][0]
    assert found.tried["share_503"][0] == 0.5


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


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("rate_per_s", 0), ("rate_per_s", math.nan), ("seconds", -1), ("timeout_s", 0)],
)
def test_refuses_numbers_that_are_no_load(name, wrong):
    """The number is named."""
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
            "sent_s": np.arange(6.0),
            "round_trip_ms": [500.0, 10, 20, 30, 40, 1],
            "status": [200] * 5 + [503],
            "error": [""] * 5 + ["status 503: too many"],
        }
    )
    assert describe_load(requests) == [
        "5 of 6 requests answered, 1.0 a second",
        "first answer 500.0 ms, not counted below",
        "p50 20.0 [10.0, ∞] ms, n = 4",
        "1 not answered: status 503: too many",
    ]


def test_the_command_says_what_an_endpoint_answered(serve, tmp_path):
    """A row per request; where nothing is answered, or there is nothing to send, the command
    fails and says why.
    """
    server = serve(
        lambda request: (200, GOOD) if request.number < 3 else (415, {"error": "no"})
    )
    out = tmp_path / "requests.csv"
    command = ["load", server.url, "--images", str(tmp_path), "--out", str(out)]
    command += ["--requests", "3", "--gap", "0"]
    (tmp_path / "a.jpg").write_bytes(encode(draw_photograph()))
    said = CliRunner().invoke(main, command)
    assert said.exit_code == 0 and "3 of 3 requests answered" in said.output
    assert len(out.read_text().splitlines()) == 4
    said = CliRunner().invoke(main, command)
    assert said.exit_code == 1 and "no request was answered: status 415: no" in said.output
    (tmp_path / "a.jpg").rename(tmp_path / "a.png")
    said = CliRunner().invoke(main, command)
    assert (
        said.exit_code == 1 and f"no JPEG files below {tmp_path}: set --images" in said.output
    )
