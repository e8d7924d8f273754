"""What benches share: work in turn, medians in words, photographs, and origins of figures."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import cv2
import numpy as np
import pandas as pd

from dr_lib import hardware
from dr_lib.code import read_commit, shorten_commit
from dr_lib.data.synthetic import draw_eye, draw_look
from dr_lib.statistics.intervals import Interval
from dr_lib.statistics.times import compare_pairs

ROOT = Path(__file__).resolve().parents[1]


def time_in_turn(
    *ways: Callable[[], object],
    repeats: int,
    clocks: Sequence[Callable[[], float]] = (time.perf_counter,),
) -> np.ndarray:
    """Do the same in several ways, in turn after one warm-up, so that what disturbs the machine
    disturbs all: (clocks, ways, repeats) in seconds.
    """
    times = np.empty((len(clocks), len(ways), repeats + 1))
    for repeat in range(repeats + 1):
        for number, way in enumerate(ways):
            start = np.array([clock() for clock in clocks])
            way()
            times[:, number, repeat] = [clock() for clock in clocks] - start
    return times[..., 1:]


def describe(
    values: Sequence[float], form: str = "{:.2f}", ends: Sequence[float] = (25, 75)
) -> str:
    """The median, its quartiles or other percentiles, and n."""
    median, low, high = map(form.format, np.percentile(values, [50, *ends]))
    return f"{median} [{low}, {high}], n = {len(values)}"


def compare_speeds(speeds: Sequence[float], others: Sequence[float]) -> Interval:
    """How many times as fast, by t on the logarithms of pairs that were measured in turn."""
    logs = [np.log(pd.Series(each)) for each in (speeds, others)]
    return Interval(*compare_pairs(logs[0] - logs[1])[:4])


def draw_photograph(
    width: int,
    height: int,
    seed: int = 0,
    *,
    suffix: str = ".jpg",
    quality: int = 90,
    grain: float = 0.0,
) -> bytes:
    """A photograph of the synthetic sample as a file, with so many grey levels of noise."""
    rng = np.random.default_rng(seed)
    look = draw_look(rng)._replace(width=width, height=height, coverage=0.95)
    image = draw_eye(2, "right", look, rng)[0][..., ::-1]
    cv2.setRNGSeed(seed)
    noise = cv2.randn(np.empty(image.shape, np.int16), (0, 0, 0), (grain, grain, grain))
    noisy = cv2.add(image, noise, dtype=cv2.CV_8U)
    options = [cv2.IMWRITE_JPEG_QUALITY, quality] if suffix == ".jpg" else []
    return cv2.imencode(suffix, noisy, options)[1].tobytes()


def find_origin(*, has_gpu: bool = False) -> dict[str, str]:
    """The machine that was measured, the commit and the day."""
    facts = hardware.probe()
    cpu = f"{facts.cpu}, {facts.num_cpus} cores"
    return {
        "hardware": ", ".join(facts.gpus) if has_gpu else cpu,
        "commit": shorten_commit(read_commit(ROOT)),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }
