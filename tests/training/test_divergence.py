"""A loss that is not finite ends a training."""

import pytest

from dr_lib.training.divergence import find_fault


@pytest.mark.parametrize(
    ("losses", "says"),
    [
        ([0.7, 0.6], ""),
        ([0.7, 1e6], ""),  # it may come back
        ([0.7, float("inf")], "the loss is inf in epoch 2: lower the learning rate"),
        ([float("nan")], "the loss is nan in epoch 1: lower the learning rate"),
    ],
)
def test_a_loss_that_is_not_finite_ends_a_training(losses, says):
    """Weights that are no numbers learn nothing any more."""
    assert find_fault(losses) == says
