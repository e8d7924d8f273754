"""Measured costs of the server: python -m tools.bench_server [--model DIR] [--photograph JPEG]."""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import cv2
import numpy as np

from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.serving.server.load import open_sender
from dr_lib.serving.untrained import export_untrained
from tests.serving.driver import Process, run_process
from tools.bench import describe, draw_photograph, time_in_turn

REPEATS = 60
STARTS = 7


def export_mobilenet(folder: Path) -> Path:
    """MobileNet at 224 px as int8, with random weights, calibrated on drawn photographs."""
    drawn = [draw_photograph(1024, 768, seed) for seed in range(16)]
    crops = np.stack([crop_fundus(each, size=224).image for each in drawn])
    how = {"format_name": "litert_int8", "examples": crops}
    return export_untrained(folder, "mobilenet", 224, **how).path


def measure_starts(model: Path, log: Path) -> None:
    """Print the seconds from the start of the process to a /ping that says 200."""
    starts_s = []
    for _ in range(STARTS):
        start = time.perf_counter()
        with run_process(model, log):
            starts_s.append(time.perf_counter() - start)
    print(f"ready: {describe(starts_s)} s")


def measure_calls(server: Process, photograph: bytes) -> None:
    """Print what a call takes, and beyond its prediction beside a full decode, in turns."""
    encoded = np.frombuffer(photograph, np.uint8)
    send = open_sender(f"{server.url}/invocations")
    predict_ms = []

    def call() -> None:
        _, content = send(photograph)
        predict_ms.append(json.loads(content)["timings_ms"]["predict"])

    times_s = time_in_turn(
        call, lambda: cv2.imdecode(encoded, cv2.IMREAD_COLOR), repeats=REPEATS
    )
    call_ms, decode_ms = 1000 * times_s
    print(f"a call with {len(photograph) / 1e6:.2f} MB: {describe(call_ms)} ms")
    print(f"its prediction: {describe(predict_ms[1:])} ms")
    print(f"the rest of a full decode: {describe((call_ms - predict_ms[1:]) / decode_ms)}")


def main() -> None:
    """Print all; one thread of OpenCV here as in the server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--model", type=Path, help="a served folder; else MobileNet int8 with random weights"
    )
    parser.add_argument("--photograph", type=Path, help="a JPEG; else one is drawn, 3216x2136")
    given = parser.parse_args()
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as folder:
        model = given.model or export_mobilenet(Path(folder, "served"))
        log = Path(folder, "log")
        measure_starts(model, log)
        photograph = (
            given.photograph.read_bytes() if given.photograph else draw_photograph(3216, 2136)
        )
        with run_process(model, log) as server:
            print(f"resident when ready: {server.measure_resident_mb():.0f} MB")
            measure_calls(server, photograph)
            print(f"resident after these calls: {server.measure_resident_mb():.0f} MB")


if __name__ == "__main__":
    main()
