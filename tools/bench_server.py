"""Measured costs of the server, paired and interleaved in one run: python tools/bench_server.py
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

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import cv2
import numpy as np

from dr_lib.training.model_folder import read_folder
from tests.rooms.serving.driver import (
    ROOT,
    Process,
    find_port,
    is_listening,
    run_process,
    wait_until,
)

REPEATS = 60
CALLS = 500
STARTS = 7


def export_mobilenet(folder: Path, format_name: str = "litert_int8") -> Path:
    """MobileNet at 224 px with random weights, calibrated on crops of drawn photographs."""
    from dr_lib.data.photograph.crop import crop_fundus
    from dr_lib.data.photograph.pixels import shrink
    from dr_lib.rooms.serving.untrained import export_untrained

    crops = [
        shrink(crop_fundus(draw_photograph(1024, 768, seed)).image, 224) for seed in range(16)
    ]
    return export_untrained(
        folder / "served", "mobilenet", 224, format_name, examples=np.stack(crops)
    ).path


def draw_photograph(width: int, height: int, seed: int = 0) -> bytes:
    """A photograph of the synthetic sample, as JPEG of quality 90."""
    from dr_lib.data.synthetic import draw_eye, draw_look

    rng = np.random.default_rng(seed)
    look = draw_look(rng)._replace(width=width, height=height, coverage=0.95)
    image = draw_eye(2, "right", look, rng)[0]
    return cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes()


def time_ms(work: Callable[[], object]) -> tuple[float, object]:
    """How long the work takes, and what it gives."""
    start = time.perf_counter()
    result = work()
    return 1000 * (time.perf_counter() - start), result


def describe(values: list[float]) -> str:
    """Median, quartiles and n."""
    low, median, high = np.percentile(values, [25, 50, 75])
    return f"{median:.2f} [{low:.2f}, {high:.2f}], n = {len(values)}"


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
    command = [sys.executable, "-m", "granian", *options, "tests.rooms.serving.plain:app"]
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
    turns = range(CALLS + 5)
    times = np.array([[time_ms(partial(post, body))[0] for post in posts] for _ in turns])[5:]
    (p50, plain_p50), (p99, plain_p99) = np.percentile(times, [50, 99], axis=0)
    print(
        f"{what} of {len(body):,} bytes: p50 {p50:.2f} ms, plain granian {plain_p50:.2f};"
        f" p99 {p99:.2f} ms, plain granian {plain_p99:.2f}; one more than the other:"
        f" {describe(times[:, 0] - times[:, 1])} ms"
    )


def measure_photograph(server: Process, body: bytes) -> None:
    """Print a call's time without prediction and 1 ms, against the full decode of the same
    bytes.
    """
    post = open_client(server.port)
    encoded = np.frombuffer(body, np.uint8)
    ratios = []
    round_trips_ms = []
    decodes_ms = []
    for repeat in range(REPEATS + 5):
        round_trip_ms, answer = time_ms(lambda: post(body))
        decode_ms = time_ms(lambda: cv2.imdecode(encoded, cv2.IMREAD_COLOR).shape)[0]
        if repeat >= 5:
            round_trips_ms.append(round_trip_ms)
            decodes_ms.append(decode_ms)
            ratios.append((round_trip_ms - answer["timings_ms"]["predict"] - 1) / decode_ms)
    size = "{1}x{0}".format(*cv2.imdecode(encoded, cv2.IMREAD_COLOR).shape)
    print(
        f"call with a {size} JPEG: {describe(round_trips_ms)} ms; full decode"
        f" {describe(decodes_ms)} ms"
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
        large = (
            arguments.photograph.read_bytes()
            if arguments.photograph
            else draw_photograph(3216, 2136)
        )
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
