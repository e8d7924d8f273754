"""Time runtimes in turns, and compare them with a reference round by round."""

import time
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from dr_lib.serving.export.runtimes import Predict


def compare_latency(
    runtimes: Mapping[str, Predict],
    image: np.ndarray,
    *,
    num_rounds: int = 15,
    clock: Callable[[], float] = time.perf_counter,
) -> pd.DataFrame:
    """Time runtimes in turns, so that disturbances of the machine affect all of them.

    Args:
        runtimes: by name, from `open_runtime`.
        image: (side, side, 3) uint8.
        num_rounds: turns; each has a new random order.
        clock: seconds; `time.process_time` is not disturbed where others use the machine.

    Returns:
        One row per runtime and round: runtime, round, ms (median of five calls, after one that
        brings the weights back into the caches). A first round, which compiles and allocates, is
        left out.
    """
    rng = np.random.default_rng(0)
    rows = []
    for turn in range(-1, num_rounds):
        for name in rng.permutation(list(runtimes)):
            calls_ms = []
            for _ in range(6):
                start = clock()
                runtimes[name](image[None])
                calls_ms.append(1000 * (clock() - start))
            ms = float(np.median(calls_ms[1:]))
            rows.append({"runtime": str(name), "round": turn, "ms": ms})
    return pd.DataFrame(rows[len(runtimes) :])


def pair_latency(times: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Compare each runtime with a reference, round by round of `compare_latency`.

    Returns:
        A row per runtime, by name: speedup (median of the reference's time / its own) with
        speedup_low and speedup_high (quartiles), n rounds, ms (median) and difference_ms (median
        of its own - the reference's).
    """
    rounds = times.pivot(index="round", columns="runtime", values="ms")
    ratios = rounds.rdiv(rounds[reference], axis=0).quantile([0.25, 0.5, 0.75]).T
    return ratios.set_axis(["speedup_low", "speedup", "speedup_high"], axis=1).assign(
        n=len(rounds),
        ms=rounds.median(),
        difference_ms=rounds.sub(rounds[reference], axis=0).median(),
    )
