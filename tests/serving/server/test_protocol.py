"""Connections that are slow, or promise what they do not keep."""

import contextlib
import socket

from tests.serving.driver import head, open_service, post, run_in_thread, send_raw

CLOSE = "Connection: close"


def test_a_false_length_harms_only_its_own_connection(port, jpeg):
    """Too short, and the rest is no request; no number, and nothing is served."""
    assert send_raw(port, head(10) + jpeg).startswith(b"HTTP/1.1 400")
    for length in ("-1", "1e3", "9" * 5000):
        assert b" 200 " not in send_raw(port, head(length, CLOSE) + jpeg)[:20]
    assert post(port, jpeg).status_code == 200


def test_a_client_that_does_not_finish_its_head_is_closed(served_folder, monkeypatch):
    """After the seconds that it has, and without an answer, for there was no request."""
    monkeypatch.setattr("dr_lib.serving.server.server.HEAD_S", 1)
    with run_in_thread(open_service(served_folder)) as port:
        for sent in (b"", b"GET /ping HTTP/1.1\r\nHost: x\r\nX-Slow: "):
            assert send_raw(port, sent) == b""


def test_a_slow_body_is_408_and_its_connection_closed(port):
    """The clock counts the whole body: drops do not wind it up again."""
    with socket.create_connection(("127.0.0.1", port), timeout=0.2) as connection:
        connection.sendall(head(1000))
        answer = b""
        for _ in range(100):
            with contextlib.suppress(TimeoutError):
                answer = connection.recv(65536)
                break
            connection.sendall(b"x")
        assert answer.startswith(b"HTTP/1.1 408")


def test_a_connection_is_used_again_also_after_a_refusal(port, jpeg):
    """A body that was refused unread does not run into the next request."""
    requests = head(len(jpeg)) + b"x" * len(jpeg) + head(len(jpeg), CLOSE) + jpeg
    answers = send_raw(port, requests)
    assert [answers.count(b"HTTP/1.1 %d" % status) for status in (415, 200)] == [1, 1]
