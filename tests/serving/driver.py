"""What the tests and the benchmark of the server share: a model folder, photographs, a client
and processes.
"""

import contextlib
import os
import re
import socket
import struct
import sys
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import psutil
import requests

from dr_lib.serving.grader.predict import Predictor
from dr_lib.serving.server.app import Service, build_app
from dr_lib.serving.server.process import ServerProcess
from dr_lib.serving.server.server import Server
from dr_lib.training.model_folder import read_folder
from tests.processes import find_port, is_listening, wait_until

ROOT = Path(__file__).resolve().parents[2]
SERVING = ROOT / "dr_lib" / "serving"
LIMIT = 6_291_456  # bytes of a body, from SageMaker's contract


def draw_photograph(seed: int = 0, width: int = 640, height: int = 480) -> np.ndarray:
    """A mottled disc on black, (height, width, 3) uint8 BGR, unlike that of any other seed."""
    rng = np.random.default_rng(seed)
    mottle = cv2.resize(rng.integers(0, 110, (12, 12, 3), np.uint8), (width, height))
    disc = cv2.circle(
        np.zeros_like(mottle), (width // 2, height // 2), height * 2 // 5, (40, 90, 140), -1
    )
    return np.where(disc > 0, disc + mottle, 0).astype(np.uint8)


def encode(photograph: np.ndarray, suffix: str = ".jpg") -> bytes:
    """Encode a BGR photograph as OpenCV does."""
    return cv2.imencode(suffix, photograph)[1].tobytes()


def claim_size(png: bytes, width: int, height: int) -> bytes:
    """The same PNG with a header that promises a size."""
    header = b"IHDR" + struct.pack(">2I", width, height) + png[24:29]
    return png[:12] + header + struct.pack(">I", zlib.crc32(header)) + png[33:]


def call(port: int, path: str = "/ping", method: str = "GET", **how: Any) -> requests.Response:
    """Send one request over a connection of its own; a body that is an iterator goes in chunks."""
    return requests.request(method, f"http://127.0.0.1:{port}{path}", timeout=60, **how)


def post(port: int, body: Any, media_type: str | None = "image/jpeg") -> requests.Response:
    """POST to /invocations."""
    headers = {"Content-Type": media_type} if media_type else {}
    return call(port, "/invocations", "POST", data=body, headers=headers)


def read_facts(answer: requests.Response) -> dict[str, Any]:
    """The JSON, without its times and the machine, which two processes need not share."""
    facts = answer.json()
    return {name: facts[name] for name in facts.keys() - {"timings_ms", "machine"}}


def send_raw(port: int, data: bytes) -> bytes:
    """Send bytes over a connection of their own; return all that comes until the server closes
    it.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(data)
        received = b""
        with contextlib.suppress(ConnectionResetError):  # closed before all was read
            while more := connection.recv(65536):
                received += more
        return received


def head(length: int | str, *extra: str) -> bytes:
    """The head of a POST to /invocations that promises a body of `length` bytes."""
    lines = ["POST /invocations HTTP/1.1", "Host: x", f"Content-Length: {length}", *extra]
    return "\r\n".join([*lines, "", ""]).encode()


def open_service(folder: Path, *, max_body: int = LIMIT) -> Service:
    """A service of the folder with two threads."""
    return Service(Predictor(read_folder(folder), 2), threads=2, max_body=max_body)


@contextlib.contextmanager
def run_in_thread(service: Service) -> Iterator[int]:
    """Serve over real sockets from a thread of this process; yields the port."""
    port = find_port()
    server = Server(service, build_app(service), "127.0.0.1", port)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: is_listening(port))
        yield port
    finally:
        server.stop()
        thread.join()
        service.pool.shutdown()


class Process(ServerProcess):
    """A server in a process of its own, whose memory is measured."""

    def measure_resident_mb(self) -> float:
        """Memory now, shared pages by their share (PSS) [MB]."""
        return psutil.Process(self.pid).memory_full_info().pss / 1e6

    def measure_peak_mb(self) -> float:
        """The most resident memory so far [MB]."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def run_process(
    model: Path,
    log: Path,
    *options: str,
    python: Sequence[str | Path] = (sys.executable,),
    cwd: Path = ROOT,
    **env: str,
) -> Process:
    """Serve a model from a process of its own, in the environment that the Dockerfile sets."""
    text = (SERVING / "Dockerfile").read_text().replace("\\\n", " ")
    (words,) = re.findall("(?m)^ENV (.*)", text)
    set_there = dict(word.split("=") for word in words.split())
    environment = {"PATH": os.environ["PATH"]} | set_there | env
    return Process(model, log, *options, python=python, cwd=cwd, env=environment)
