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


def test_a_shorter_last_call_is_of_fewer_steps():
    """Two epochs of nine steps of 3 s in calls of eight and one, which Keras names by 15: the first
    call compiled for 5 s and took its steps 24 s, not as long as a call on average.
    """
    calls = Calls()
    for compile_s in (5.0, 0.0):
        calls.ends.update({7: compile_s + 24, 15: compile_s + 27})
        calls.finish(0.0, compile_s + 27, [0.0] * 9)
    assert calls.compile_s == pytest.approx(5)
    assert calls.input_s == 0
