"""Time two ways of doing the same in turn, so that what disturbs the machine disturbs both."""

import time
from collections.abc import Callable

import numpy as np


def time_in_turn(
    ours: Callable[[], object], peer: Callable[[], object], repeats: int
) -> np.ndarray:
    """Run both in turn after one warm-up: their wall times, (2, repeats) in seconds."""
    times = np.empty((2, repeats + 1))
    for repeat in range(repeats + 1):
        for row, run in enumerate((ours, peer)):
            start = time.perf_counter()
            run()
            times[row, repeat] = time.perf_counter() - start
    return times[:, 1:]
