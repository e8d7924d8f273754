"""Time runtimes in turns."""

import time
from collections.abc import Mapping

import numpy as np
import pandas as pd

from dr_lib.serving.export.runtimes import Predict


def compare_latency(
    runtimes: Mapping[str, Predict], image: np.ndarray, *, num_rounds: int = 15
) -> pd.DataFrame:
    """Time runtimes in turns, so that disturbances of the machine affect all of them.

    Args:
        runtimes: by name, from `open_runtime`.
        image: (side, side, 3) uint8.
        num_rounds: turns; each has a new random order.

    Returns:
        A row per round and a column per runtime: the median of five calls [ms], after one that
        brings the weights back into the caches. A first round, which compiles and allocates, is
        left out.
    """
    rng = np.random.default_rng(0)
    rounds = []
    for _ in range(1 + num_rounds):
        row = {}
        for name in rng.permutation(list(runtimes)).tolist():
            calls_ms = []
            for _ in range(6):
                start = time.perf_counter()
                runtimes[name](image[None])
                calls_ms.append(1000 * (time.perf_counter() - start))
            row[name] = float(np.median(calls_ms[1:]))
        rounds.append(row)
    return pd.DataFrame(rounds[1:])
