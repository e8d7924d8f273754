"""Measured costs of the server, paired and interleaved in one run: python -m tools.bench_server
[--model DIR].
"""

import argparse
import contextlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import cv2
import numpy as np

from dr_lib.training.model_folder import read_folder
from tests.processes import find_port, is_listening, wait_until
from tests.serving.driver import Process, run_process
from tools.bench import ROOT, describe, draw_photograph, time_in_turn

REPEATS = 60
CALLS = 500
STARTS = 7


def export_mobilenet(folder: Path, format_name: str = "litert_int8") -> Path:
    """MobileNet at 224 px with random weights, calibrated on crops of drawn photographs."""
    from dr_lib.serving.untrained import export_untrained

    crops = draw_crops(224, 16)
    served = folder / "served"
    return export_untrained(served, "mobilenet", 224, format_name, examples=crops).path


def draw_crops(side: int, number: int) -> np.ndarray:
    """The crops of drawn photographs, (number, side, side, 3)."""
    from dr_lib.data.photograph.crop import crop_fundus
    from dr_lib.data.photograph.pixels import shrink

    photographs = [draw_photograph(1024, 768, seed) for seed in range(number)]
    return np.stack([shrink(crop_fundus(each).image, side) for each in photographs])


def open_client(port: int) -> Callable[[bytes], dict]:
    """A client that keeps its connection, as a load balancer does."""
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def post(body: bytes) -> dict:
        connection.request("POST", "/invocations", body, {"Content-Type": "image/jpeg"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        assert response.status == 200, answer
        return answer

    return post


@contextlib.contextmanager
def run_plain(model: Path) -> Iterator[Process]:
    """Serve the same model by granian alone."""
    port = find_port()
    options = ["--interface", "asginl", "--no-ws", "--port", str(port)]
    command = [sys.executable, "-m", "granian", *options, "tests.serving.plain:app"]
    environment = os.environ | {"MODEL": str(model), "GRANIAN_LOG_ENABLED": "false"}
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        try:
            wait_until(lambda: is_listening(port))
            yield Process(process, port, model)
        finally:
            process.terminate()


def measure_beside(server: Process, plain: Process, body: bytes, what: str) -> None:
    """Print p50 and p99 of calls, in turns with the same model behind plain granian."""
    posts = [open_client(served.port) for served in (server, plain)]
    assert posts[0](body)["probabilities"] == posts[1](body)["probabilities"]
    (times_s,) = time_in_turn(*(partial(post, body) for post in posts), repeats=CALLS)
    times = 1000 * times_s
    (p50, plain_p50), (p99, plain_p99) = np.percentile(times, [50, 99], axis=1)
    print(
        f"{what} of {len(body):,} bytes: p50 {p50:.2f} ms, plain granian {plain_p50:.2f};"
        f" p99 {p99:.2f} ms, plain granian {plain_p99:.2f}; one more than the other:"
        f" {describe(times[0] - times[1])} ms"
    )


def measure_photograph(server: Process, body: bytes) -> None:
    """Print a call's time without prediction and 1 ms, against the full decode of the same
    bytes.
    """
    post = open_client(server.port)
    encoded = np.frombuffer(body, np.uint8)
    predict_ms = []
    (times_s,) = time_in_turn(
        lambda: predict_ms.append(post(body)["timings_ms"]["predict"]),
        lambda: cv2.imdecode(encoded, cv2.IMREAD_COLOR),
        repeats=REPEATS,
    )
    call_ms, decode_ms = 1000 * times_s
    ratios = (call_ms - predict_ms[1:] - 1) / decode_ms
    size = "{1}x{0}".format(*cv2.imdecode(encoded, cv2.IMREAD_COLOR).shape)
    print(
        f"call with a {size} JPEG: {describe(call_ms)} ms; full decode {describe(decode_ms)} ms"
    )
    print(f"(call - predict - 1 ms) / full decode, {size}: {describe(ratios)} (goal 0.45)")


def measure_starts(model: Path, log: Path) -> None:
    """Print the seconds from the start of the process to a /ping that says 200."""
    starts_s = []
    for _ in range(STARTS):
        start = time.perf_counter()
        with run_process(model, log):
            starts_s.append(time.perf_counter() - start)
    print(f"ready: {describe(starts_s)} s (goal 1.5)")


def main() -> None:
    """Print all; one thread of OpenCV here as in the server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--model", type=Path, help="a served folder; else MobileNet int8 with random weights"
    )
    parser.add_argument(
        "--photograph", type=Path, help="a large JPEG; else one is drawn, 3216x2136"
    )
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = arguments.model or export_mobilenet(scratch)
        folder = read_folder(model)
        given = arguments.photograph
        large = given.read_bytes() if given else draw_photograph(3216, 2136)
        print(
            "{model}, {format}, {bytes:,} bytes".format(**folder.facts),
            f"on {os.cpu_count()} cores",
        )
        measure_starts(model, scratch / "log")
        server = stack.enter_context(run_process(model, scratch / "log"))
        print(f"resident when ready: {server.measure_resident_mb():.0f} MB")
        plain = stack.enter_context(run_plain(model))
        measure_beside(server, plain, draw_photograph(400, 320), "a small JPEG")
        measure_beside(server, plain, large, "the photograph")
        print(f"resident, plain granian: {plain.measure_resident_mb():.0f} MB")
        measure_photograph(server, large)
        print(
            f"resident after these calls: {server.measure_resident_mb():.0f} MB (goal 104 with"
            " MobileNet int8)"
        )


if __name__ == "__main__":
    main()
