"""The load, put on a real server on loopback whose delays are known."""

import contextlib
import threading
import time

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
from tests.serving.fake import run_fake

GOOD = {"probabilities": [1, 0, 0, 0, 0], "timings_ms": {"decode": 2.5, "predict": 7.5}}


@pytest.fixture
def serve():
    """A function that starts a server from its answers."""
    with contextlib.ExitStack() as started:
        yield lambda answer=lambda _: (200, GOOD): started.enter_context(run_fake(answer))


@pytest.fixture
def files(tmp_path):
    """Two files to send."""
    paths = [tmp_path / name for name in ("a.jpg", "b.jpg")]
    for path in paths:
        path.write_text(path.stem)
    return paths


def wait(seconds):
    """A prediction after some time."""
    time.sleep(seconds)
    return 200, GOOD


def test_the_closed_loop_is_the_papers(serve, files):
    """One at a time, the next a gap after the last answer, 25 and 5 s if nothing else is said; a
    round trip holds all that the server took.
    """
    assert run_closed_loop.__kwdefaults__ == {"num_requests": 25, "gap_s": 5}
    server = serve(lambda _: wait(0.02))
    requests = run_closed_loop(open_sender(server.url), files, num_requests=3, gap_s=0.05)
    assert (requests["error"] == "").all()
    assert (requests[["decode_ms", "predict_ms"]] == [2.5, 7.5]).all(axis=None)
    assert (requests["round_trip_ms"] >= 20).all()
    assert np.diff(requests["sent_s"]).min() >= 0.07
    assert [seen.body for seen in server.seen] == [b"a", b"b", b"a"]
    assert {seen.headers["Content-Type"] for seen in server.seen} == {"image/jpeg"}
    summary = summarise_load(requests)
    assert summary["rate_per_s"] == summary["answered_per_s"] < 3 / (3 * 0.02 + 2 * 0.05)


def test_a_stall_is_seen_by_those_who_were_due_in_it(serve, files, monkeypatch):
    """All who are due while the server stalls wait for its end; counted from the sending only
    one request does.
    """
    monkeypatch.setattr(load, "NUM_CONNECTIONS", 1)
    server = serve(lambda request: wait(1.0 if request.number == 25 else 0.0))
    requests = run_open_loop(open_sender(server.url), files, rate_per_s=50, seconds=2)
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


def test_a_slow_answer_does_not_slow_the_questions(serve, files):
    """A server that answers nobody before 20 have asked is asked by 20."""
    all_are_here = threading.Barrier(20)
    send = open_sender(serve(lambda _: wait(0 * all_are_here.wait(20))).url)
    requests = run_open_loop(send, files, rate_per_s=100, seconds=0.2, seed=1)
    assert len(requests) == 20 and (requests["error"] == "").all()


def test_arrivals_are_poisson_and_those_of_the_seed(files):
    """Gaps of an exponential distribution: their mean 1 / rate, their deviation as large, the
    same again.
    """

    def draw(seed):
        requests = run_open_loop(
            lambda _: (200, b"{}"), files, rate_per_s=800, seconds=0.5, seed=seed
        )
        late_s = (requests["response_ms"] - requests["round_trip_ms"]) / 1e3
        return (requests["sent_s"] - late_s).round(9)

    first = draw(3)
    gaps = np.diff(first)
    assert len(first) == 400 and first.is_monotonic_increasing and first.between(0, 0.5).all()
    assert 1 / gaps.mean() == pytest.approx(800, rel=0.05)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.2)
    assert first.equals(draw(3)) and not first.equals(draw(4))


def test_percentiles_are_those_of_a_table_done_by_hand():
    """Of 1 to 200 ms the 99th is 198, which 198 of the 200 do not exceed; failed requests are
    counted apart. Of fewer answers than 100 it would be the longest, and is none.
    """
    times = np.arange(1.0, 201)
    good = pd.DataFrame({"round_trip_ms": times, "response_ms": times[::-1] + 10, "error": ""})
    good = good.assign(decode_ms=2.0, predict_ms=3.0, sent_s=0.0, rate_per_s=20.0)
    bad = good[:50].assign(round_trip_ms=1e4, response_ms=1e4, error="no")
    summary = summarise_load(pd.concat([bad, good]))
    names = ["p50_ms", "p95_ms", "p99_ms", "max_ms"]
    assert [summary[name] for name in names] == [110, 200, 208, 210]
    assert (summary["n"], summary["num_failed"], summary["error"]) == (250, 50, "no")
    assert (summary["rate_per_s"], summary["answered_per_s"]) == (20, 20)  # 200 in 10 s
    assert (summary["round_trip_ms"], summary["predict_ms"]) == (100.5, 3)
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
    """Each request has its row and its time, and why it is none; none is sent twice."""
    server = serve(lambda request: ANSWERS[request.number][:2])
    send = open_sender(server.url)
    requests = run_closed_loop(send, files, num_requests=len(ANSWERS), gap_s=0)
    for (*_, message), error in zip(ANSWERS, requests["error"], strict=True):
        assert message in error and bool(message) == bool(error), error
    assert (requests["round_trip_ms"] > 0).all() and len(server.seen) == len(ANSWERS)


@pytest.mark.parametrize("status", [None, 404, 308])
def test_an_address_where_nothing_is_predicted_stops_at_once(serve, files, status):
    """Before 25 requests and 2 minutes have been spent on it; a POST is not sent elsewhere."""
    url = serve(lambda _: (status, {})).url if status else "http://127.0.0.1:1/"
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
    tried = find_max_rate(lambda _: (200, b"{}"), files, bound_ms=100, seconds=1)
    held = tried["rate_per_s"][tried["held"]].max() if tried["held"].any() else 0
    assert most / 1.1 <= held <= most


def test_the_command_writes_one_row(serve, tmp_path):
    """Of an open loop."""
    out = tmp_path / "row.csv"
    (tmp_path / "a.jpg").write_bytes(encode(draw_photograph()))
    command = ["load", serve().url, "--images", str(tmp_path), "--out", str(out)]
    said = CliRunner().invoke(main, [*command, "--rate", "50", "--seconds", "0.1"])
    assert said.exit_code == 0, said.output
    (row,) = pd.read_csv(out).to_dict("records")
    assert (row["loop"], row["n"], row["predict_ms"]) == ("open", 5, 7.5)
