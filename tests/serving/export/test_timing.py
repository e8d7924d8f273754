"""Timing in turns."""

import numpy as np

from dr_lib.serving.export.timing import compare_latency


def test_compares_in_turns():
    """A row a round, every runtime once in each, in orders of their own; the first is left out."""
    called = []
    runtimes = {name: lambda _, name=name: called.append(name) for name in "abc"}
    rounds = compare_latency(runtimes, np.zeros((1, 1, 3)), num_rounds=6)
    assert rounds.shape == (6, 3) and (rounds >= 0).all(axis=None)
    turns = np.reshape(called, (7, 3, 6))
    assert (turns == turns[..., :1]).all() and (np.sort(turns[..., 0]) == list("abc")).all()
    assert len(np.unique(turns[..., 0], axis=0)) > 1
