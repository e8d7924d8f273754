"""Where the seconds of a training go."""

import pytest

from dr_lib.training.calls import Calls


def test_the_first_call_compiles_and_later_ones_wait():
    """Three steps to 12.5 s: 9.05 s of the first call are compiling, for the others took 0.95 s
    and waited 0.2 and 0.4 s.
    """
    calls = Calls()
    calls.ends.update({1: 11.0, 0: 10.0, 2: 12.0})  # as they come, from several threads
    calls.finish(0.0, 12.5, [0.5, 10.2, 11.4])
    assert calls.input_s == pytest.approx(0.6)
    assert calls.compile_s == pytest.approx(10 - 0.95)
