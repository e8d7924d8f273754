"""Timing: known delays, turns, and hand-made tables."""

import itertools

import numpy as np
import pandas as pd
import pytest

from dr_lib.serving.export.timing import compare_latency, pair_latency


def test_compares_in_turns():
    """One row per runtime and round, every runtime once in each, in orders of their own."""
    names = ["litert_float32", "litert_float16", "litert_int8"]
    ticks = itertools.count()
    times = compare_latency(
        dict.fromkeys(names, len), np.zeros((1, 1, 3)), num_rounds=6, clock=ticks.__next__
    )
    assert times.columns.tolist() == ["runtime", "round", "ms"] and (times["ms"] == 1000).all()
    turns = times.groupby("round")["runtime"].agg(tuple)
    assert [sorted(turn) for turn in turns] == [sorted(names)] * 6
    assert len(set(turns)) > 1


def test_pairs_within_rounds():
    """A machine twice as slow from the third round on changes no speedup; medians and quartiles
    by hand.
    """
    ours = [10.0, 10.0, 20.0, 20.0]
    rounds = pd.DataFrame({"reference": np.multiply(ours, [2, 3, 4, 5]), "ours": ours})
    times = rounds.rename_axis("round").reset_index().melt("round", None, "runtime", "ms")
    pair = pair_latency(times, "reference").loc["ours"]
    speedup = [pair.speedup_low, pair.speedup, pair.speedup_high]
    assert speedup == pytest.approx([2.75, 3.5, 4.25])
    assert (pair.ms, pair.n) == (15, 4)  # of 10, 10, 20, 20
    assert pair.difference_ms == -40  # of 10, 20, 60, 80
