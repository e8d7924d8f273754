"""Time runtimes in turns, and compare two of them round by round."""

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.serving.export.runtimes import Predict, open_runtime

CPUINFO = Path("/proc/cpuinfo")


class Pair(NamedTuple):
    """A runtime beside a reference."""

    runtime: str
    n: int  # rounds
    ms: float  # median
    # the median of the reference's time / the runtime's, and its quartiles
    speedup: float
    speedup_low: float
    speedup_high: float
    difference_ms: float  # median of the runtime's - the reference's


def time_runtime(
    predict: Predict, image: np.ndarray, *, num_calls: int = 100, warmup: int = 10
) -> np.ndarray:
    """Time single predictions of an image, (side, side, 3) uint8: (num_calls,) milliseconds.

    The calls of the warm-up are not timed: the first one compiles, allocates and fills the caches.
    """
    times = np.empty(warmup + num_calls)
    for call in range(len(times)):
        start = time.perf_counter()
        predict(image[None])
        times[call] = 1000 * (time.perf_counter() - start)
    return times[warmup:]


def compare_latency(
    paths: Mapping[str, Path], image: np.ndarray, *, num_rounds: int = 15, num_threads: int = 1
) -> pd.DataFrame:
    """Time runtimes in turns, so that what disturbs the machine disturbs all of them.

    TensorFlow has to be unused in this process, or pinned to `num_threads` (`pin_tensorflow`).

    Args:
        paths: of the artifact or model folder of each runtime, by its name in RUNTIMES.
        image: (side, side, 3) uint8.
        num_rounds: turns; the order within each is drawn anew.
        num_threads: of one prediction.

    Returns:
        One row per runtime and round: runtime, round, ms (median of five calls, after one that
        brings the weights back into the caches). Errors are those of `open_runtime`.
    """
    runtimes = {
        name: open_runtime(name, path, num_threads=num_threads) for name, path in paths.items()
    }
    for predict in runtimes.values():
        time_runtime(predict, image, num_calls=1, warmup=3)
    rng = np.random.default_rng(0)
    rows = []
    for turn in range(num_rounds):
        for name in rng.permutation(list(runtimes)):
            ms = np.median(time_runtime(runtimes[name], image, num_calls=5, warmup=1))
            rows.append({"runtime": str(name), "round": turn, "ms": float(ms)})
    return pd.DataFrame(rows)


def pair_latency(times: pd.DataFrame, runtime: str, reference: str) -> Pair:
    """Compare a runtime with a reference, both by name, round by round of `compare_latency`."""
    rounds = times.pivot(index="round", columns="runtime", values="ms")
    low, speedup, high = (rounds[reference] / rounds[runtime]).quantile([0.25, 0.5, 0.75])
    return Pair(
        runtime,
        n=len(rounds),
        ms=rounds[runtime].median(),
        speedup=speedup,
        speedup_low=low,
        speedup_high=high,
        difference_ms=(rounds[runtime] - rounds[reference]).median(),
    )


def read_cpu_flags() -> set[str]:
    """The instructions that this processor has, as Linux names them; none elsewhere."""
    text = CPUINFO.read_text(encoding="utf-8") if CPUINFO.is_file() else ""
    return {
        flag
        for line in re.findall(r"(?m)^(?:flags|Features)\s*:(.*)", text)
        for flag in line.split()
    }
