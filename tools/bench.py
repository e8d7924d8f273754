"""What benches share: work in turn, medians in words, and photographs."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np

from dr_lib.data.synthetic import draw_eye, draw_look

ROOT = Path(__file__).resolve().parents[1]


def time_in_turn(
    *ways: Callable[[], object],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> np.ndarray:
    """Do the same in several ways, in turn after one warm-up, so that what disturbs the machine
    disturbs all: (ways, repeats) in seconds.
    """
    times = np.empty((len(ways), repeats + 1))
    for repeat in range(repeats + 1):
        for number, way in enumerate(ways):
            start = clock()
            way()
            times[number, repeat] = clock() - start
    return times[:, 1:]


def describe(values: Sequence[float]) -> str:
    """The median, its quartiles, and n."""
    median, low, high = np.percentile(values, [50, 25, 75])
    return f"{median:.2f} [{low:.2f}, {high:.2f}], n = {len(values)}"


def draw_photograph(
    width: int, height: int, seed: int = 0, *, quality: int = 90, grain: float = 0.0
) -> bytes:
    """A photograph of the synthetic sample as JPEG, with so many grey levels of noise."""
    rng = np.random.default_rng(seed)
    look = draw_look(rng)._replace(width=width, height=height, coverage=0.95)
    image = draw_eye(2, "right", look, rng)[0][..., ::-1]
    cv2.setRNGSeed(seed)
    noise = cv2.randn(np.empty(image.shape, np.int16), (0, 0, 0), (grain, grain, grain))
    noisy = cv2.add(image, noise, dtype=cv2.CV_8U)
    return cv2.imencode(".jpg", noisy, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()
