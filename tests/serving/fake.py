"""A server on loopback that answers as a test has it."""

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Request(NamedTuple):
    """What came, as the number of which request since the start."""

    number: int
    headers: HTTPMessage
    body: bytes


class Server(ThreadingHTTPServer):
    """Answers a POST as `answer(request)` says: status, or None where it dies, and content."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, answer: Callable[[Request], tuple[int | None, Any]]):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.count = itertools.count()
        self.seen: list[Request] = []
        self.url = f"http://127.0.0.1:{self.server_port}/invocations"


class Handler(BaseHTTPRequestHandler):
    """Answers one request a connection."""

    def do_POST(self) -> None:  # noqa: N802
        """Read the body, ask the server what to say, say it."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = Request(next(self.server.count), self.headers, body)
        status, content = self.server.answer(request)
        self.server.seen.append(request)
        if status is None:
            return
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def run_fake(answer: Callable[[Request], tuple[int | None, Any]]) -> Iterator[Server]:
    """Run such a server in a thread."""
    with Server(answer) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()
