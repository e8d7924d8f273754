"""The load, put on senders and on a real server on loopback whose delays are known."""

import contextlib
import itertools
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.errors import DrError
from dr_lib.serving.server import load
from dr_lib.serving.server.load import (
    find_max_rate,
    open_sender,
    run_closed_loop,
    run_open_loop,
    summarise_load,
)
from tests.serving.driver import draw_photograph, encode

GOOD = {"probabilities": [1, 0, 0, 0, 0], "timings_ms": {"decode": 2.5, "predict": 7.5}}
ANSWER = (200, json.dumps(GOOD).encode())


@pytest.fixture
def serve():
    """A function that starts a server: it gives each answer in turn, or dies of one without a
    status.
    """
    with contextlib.ExitStack() as started:

        def start(answers):
            left = iter(answers)

            class Handler(BaseHTTPRequestHandler):
                def do_POST(self):
                    self.rfile.read(int(self.headers["Content-Length"]))
                    status, content = next(left)
                    if status:
                        self.send_response(status)
                        self.end_headers()
                        self.wfile.write(json.dumps(content).encode())

            server = started.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
            started.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, args=(0.01,)).start()
            return f"http://127.0.0.1:{server.server_port}/invocations"

        yield start


@pytest.fixture
def files(tmp_path):
    """Two files to send."""
    paths = [tmp_path / name for name in ("a.jpg", "b.jpg")]
    for path in paths:
        path.write_text(path.stem)
    return paths


def test_the_closed_loop_is_the_papers(files):
    """One at a time, the next a gap after the last answer, 25 and 5 s if nothing else is said; a
    round trip holds all that the server took.
    """
    assert run_closed_loop.__kwdefaults__ == {"num_requests": 25, "gap_s": 5}
    seen = []

    def send(body):
        seen.append(body)
        time.sleep(0.02)
        return ANSWER

    requests = run_closed_loop(send, files, num_requests=3, gap_s=0.05)
    assert seen == [b"a", b"b", b"a"] and (requests["error"] == "").all()
    assert (requests[["decode_ms", "predict_ms"]] == [2.5, 7.5]).all(axis=None)
    assert (requests["round_trip_ms"] >= 20).all()
    assert np.diff(requests["sent_s"]).min() >= 0.07
    summary = summarise_load(requests)
    assert summary["rate_per_s"] == summary["answered_per_s"] < 3 / (3 * 0.02 + 2 * 0.05)


def test_a_stall_is_seen_by_those_who_were_due_in_it(files, monkeypatch):
    """All who are due while the server stalls wait for its end; counted from the sending only
    one request does.
    """
    monkeypatch.setattr(load, "NUM_CONNECTIONS", 1)
    number = itertools.count()

    def send(_):
        time.sleep(1.0 if next(number) == 25 else 0.0)
        return ANSWER

    requests = run_open_loop(send, files, rate_per_s=50, seconds=2)
    due_s = requests["sent_s"] + (requests["round_trip_ms"] - requests["response_ms"]) / 1e3
    end_s = requests["sent_s"][25] + 1
    due_in_it = due_s.between(end_s - 1, end_s)
    assert due_in_it.sum() > 30 and (requests["round_trip_ms"] > 1000).sum() == 1
    assert (requests["response_ms"] >= 1e3 * (end_s - due_s))[due_in_it].all()
    assert summarise_load(requests)["p99_ms"] > 800


def test_a_server_that_says_nothing_is_not_waited_for_by_each(files, monkeypatch):
    """Ten are due within one timeout over one connection: the third is later than a timeout."""
    monkeypatch.setattr(load, "NUM_CONNECTIONS", 1)
    monkeypatch.setattr(load, "TIMEOUT_S", 0.1)

    def send(_):
        time.sleep(0.1)
        raise TimeoutError

    requests = run_open_loop(send, files, rate_per_s=100, seconds=0.1)
    is_sent = requests["error"].str.startswith("TimeoutError")
    assert is_sent.sum() <= 2 and requests["error"][~is_sent].str.contains("not sent").all()
    assert summarise_load(requests)["num_failed"] == 10


def test_a_slow_answer_does_not_slow_the_questions(files):
    """A server that answers nobody before 20 have asked is asked by 20."""
    all_are_here = threading.Barrier(20)

    def send(_):
        all_are_here.wait(20)
        return ANSWER

    requests = run_open_loop(send, files, rate_per_s=100, seconds=0.2, seed=1)
    assert len(requests) == 20 and (requests["error"] == "").all()


def test_arrivals_are_poisson(files):
    """Gaps of an exponential distribution: their mean 1 / rate, their deviation as large."""
    requests = run_open_loop(lambda _: ANSWER, files, rate_per_s=800, seconds=0.5, seed=3)
    late_s = (requests["response_ms"] - requests["round_trip_ms"]) / 1e3
    due_s = requests["sent_s"] - late_s
    gaps = np.diff(due_s)
    assert len(due_s) == 400 and gaps.min() >= -1e-9 and due_s.between(0, 0.5).all()
    assert 1 / gaps.mean() == pytest.approx(800, rel=0.05)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.2)


def test_percentiles_are_those_of_a_table_done_by_hand():
    """Of 1 to 200 ms the 99th is 198, which 198 of the 200 do not exceed; failed requests are
    counted apart. Of fewer answers than 100 it would be the longest, and is none.
    """
    times = np.arange(1.0, 201)
    good = pd.DataFrame({"round_trip_ms": times, "response_ms": times[::-1] + 10, "error": ""})
    good = good.assign(decode_ms=2.0, predict_ms=3.0, sent_s=0.0, rate_per_s=20.0)
    bad = good[:50].assign(round_trip_ms=1e4, response_ms=1e4, error="no")
    summary = summarise_load(pd.concat([bad, good]))
    expected = {
        "p50_ms": 110,
        "p95_ms": 200,
        "p99_ms": 208,
        "max_ms": 210,
        "n": 250,
        "num_failed": 50,
        "error": "no",
        "rate_per_s": 20,
        "answered_per_s": 20,  # 200 in 10 s
        "round_trip_ms": 100.5,
        "predict_ms": 3,
    }
    assert {name: summary[name] for name in expected} == expected
    assert np.isnan(summarise_load(good[:99])["p99_ms"])


ANSWERS = [  # status, content, and what is said of it: nothing of a prediction
    (200, GOOD, ""),
    (200, ["a"], "status 200: no probabilities"),
    # services put errors into answers of status 200
    (200, {"error": "model not loaded"}, "model not loaded"),
    (503, {"error": "the queue is full"}, "status 503: the queue is full"),
    (None, "", "closed connection"),
]


def test_only_a_prediction_is_an_answer(serve, files):
    """Each request has its row and its time, and why it is none."""
    send = open_sender(serve(answer[:2] for answer in ANSWERS))
    requests = run_closed_loop(send, files, num_requests=len(ANSWERS), gap_s=0)
    for (*_, message), error in zip(ANSWERS, requests["error"], strict=True):
        assert message in error and bool(message) == bool(error), error
    assert (requests["round_trip_ms"] > 0).all()


def test_no_proxy_stands_between_this_machine_and_itself(serve, monkeypatch):
    """A university's in the environment, where nobody listens here."""
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert open_sender(serve([(200, GOOD)]))(b"") == ANSWER


@pytest.mark.parametrize("status", [None, 404, 308])
def test_an_address_where_nothing_is_predicted_stops_at_once(serve, files, status):
    """Before 25 requests and 2 minutes have been spent on it; a POST is not sent elsewhere."""
    url = serve([(status, {})]) if status else "http://127.0.0.1:1/"
    with pytest.raises(DrError, match="check the address"):
        run_closed_loop(open_sender(url), files)


@pytest.mark.parametrize(("num_late", "error", "most"), [(1, "", 50), (2, "", 0), (0, "no", 0)])
def test_the_rate_is_found_within_a_tenth(files, monkeypatch, num_late, error, most):
    """99 % within the bound hold a rate, up to 50 a second; 98 % do not, nor does what is refused
    at once.
    """

    def draw(*_, rate_per_s, **__):
        late = num_late if rate_per_s <= 50 else 50
        times = np.where(np.arange(100) < late, 200.0, 10.0)
        requests = pd.DataFrame({"response_ms": times, "round_trip_ms": times, "sent_s": 0.0})
        known = {"error": error, "decode_ms": 2.0, "predict_ms": 3.0, "rate_per_s": rate_per_s}
        return requests.assign(**known)

    monkeypatch.setattr(load, "run_open_loop", draw)
    tried = find_max_rate(lambda _: ANSWER, files, bound_ms=100, seconds=1)
    held = tried["rate_per_s"][tried["held"]].max() if tried["held"].any() else 0
    assert most / 1.1 <= held <= most


def test_the_command_writes_one_row(serve, tmp_path):
    """Of an open loop."""
    out = tmp_path / "row.csv"
    (tmp_path / "a.jpg").write_bytes(encode(draw_photograph()))
    url = serve(itertools.repeat((200, GOOD)))
    command = ["load", url, "--images", str(tmp_path), "--out", str(out)]
    said = CliRunner().invoke(main, [*command, "--rate", "50", "--seconds", "0.1"])
    assert said.exit_code == 0, said.output
    (row,) = pd.read_csv(out).to_dict("records")
    assert (row["loop"], row["n"], row["predict_ms"]) == ("open", 5, 7.5)
