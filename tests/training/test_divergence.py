"""What cannot succeed is told from what may, by its losses."""

import pytest

from dr_lib.training.divergence import find_fault


@pytest.mark.parametrize(
    ("losses", "says"),
    [
        ([0.7, 0.6], ""),
        ([0.7, float("inf")], "the loss is inf in epoch 2"),
        ([0.7, 7.1, 8.0], ""),  # they may come back
        ([0.7, 7.1, 8.0, 7.0], ""),  # ten times, and not above
        (
            [0.7, 7.1, 8.0, 7.2],
            "the loss of epochs 2 to 4 is above 7 (that of the first is 0.7)",
        ),
        ([0.7, 0.1, 7.1, 7.1, 7.1], "the loss of epochs 3 to 5"),
        (
            [1e19, 1e12, 1e6],
            "the loss of epochs 1 to 3 is above 1e+03 (that of the first is 1e+19)",
        ),
        ([1e19, 12.0, 13.0], ""),
        ([1e-6, 0.5, 0.6, 0.7], ""),  # a head that was fitted; guessing costs 0.69
        ([1e-6, 1.5, 1.6, 1.7], "the loss of epochs 2 to 4"),
    ],
)
def test_what_cannot_succeed_is_told_from_what_may(losses, says):
    """By the rule: not finite, or three epochs in a row above ten times the first, and above 1."""
    fault = find_fault(losses)
    assert fault.startswith(says) if says else not fault
