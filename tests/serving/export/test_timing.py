"""Timing: turns, and hand-made tables."""

import numpy as np
import pandas as pd
import pytest

from dr_lib.serving.export.timing import compare_latency, pair_latency


def test_compares_in_turns():
    """A row a round, every runtime once in each, in orders of their own; the first is left out."""
    called = []
    runtimes = {name: lambda _, name=name: called.append(name) for name in "abc"}
    rounds = compare_latency(runtimes, np.zeros((1, 1, 3)), num_rounds=6)
    assert (
        sorted(rounds.columns) == list("abc")
        and len(rounds) == 6
        and (rounds >= 0).all(axis=None)
    )
    turns = np.reshape(called, (7, 3, 6))
    assert (turns == turns[..., :1]).all() and (np.sort(turns[..., 0]) == list("abc")).all()
    assert len({tuple(turn) for turn in turns[..., 0]}) > 1


def test_pairs_within_rounds():
    """A machine twice as slow from the third round on changes no speedup; medians and quartiles
    by hand.
    """
    ours = [10.0, 10.0, 20.0, 20.0]
    rounds = pd.DataFrame({"reference": np.multiply(ours, [2, 3, 4, 5]), "ours": ours})
    pair = pair_latency(rounds, "reference").loc["ours"]
    speedup = [pair.speedup_low, pair.speedup, pair.speedup_high]
    assert speedup == pytest.approx([2.75, 3.5, 4.25])
    assert pair.ms == 15  # of 10, 10, 20, 20
