"""Timing: known delays, turns, and hand-made tables."""

import numpy as np
import pandas as pd
import pytest

from dr_lib.rooms.serving.export.runtimes import open_runtime
from dr_lib.rooms.serving.export.timing import compare_latency, pair_latency

CROP = np.zeros((32, 32, 3), np.uint8)


def test_compares_in_turns(served_folder):
    """One row per runtime and round, every runtime once in each, in orders of their own."""
    names = ["litert_float32", "litert_float16", "litert_int8"]
    runtime = open_runtime("litert_float32", served_folder / "model.tflite")
    times = compare_latency(dict.fromkeys(names, runtime), CROP, num_rounds=6)
    assert times.columns.tolist() == ["runtime", "round", "ms"] and (times["ms"] > 0).all()
    assert times.groupby("round")["runtime"].agg(set).tolist() == [set(names)] * 6
    assert len(set(times.groupby("round")["runtime"].agg(tuple))) > 1


def test_pairs_within_rounds():
    """A machine twice as slow from the third round on changes no speedup; medians and quartiles
    by hand.
    """
    rows = [
        ("reference", k, 10.0 * s * r)
        for k, (s, r) in enumerate(zip([1, 1, 2, 2], [2, 3, 4, 5], strict=True))
    ]
    rows += [("ours", k, 10.0 * s) for k, s in enumerate([1, 1, 2, 2])]
    times = pd.DataFrame(rows, columns=["runtime", "round", "ms"])
    pair = pair_latency(times, "reference").loc["ours"]
    assert (pair.speedup_low, pair.speedup, pair.speedup_high) == pytest.approx(
        (2.75, 3.5, 4.25)
    )
    assert (pair.ms, pair.n) == (15, 4)  # of 10, 10, 20, 20
    assert pair.difference_ms == -40  # of 10, 20, 60, 80
