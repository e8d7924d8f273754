"""Bounds of what patients lose and gain, against tables."""

import numpy as np
import pytest

from dr_lib.serving.export.losses import bound_changes, patients_for_non_inferiority
from dr_lib.statistics.intervals import BadSampleError


def test_how_many_patients_a_margin_takes():
    """(1.96 + 0.84)^2 x 4 = 31.4 for a margin of half a deviation, 3.69 x 0.5 / 0.02 patients for
    losses of a half that were not seen.
    """
    changes = np.tile([0.04, -0.04], 50) / 100
    assert patients_for_non_inferiority(changes, 0.0, 0.02) == 32
    assert patients_for_non_inferiority(np.zeros(10), 0.05, 0.02) == 93
    with pytest.raises(BadSampleError, match="give one above 0"):
        patients_for_non_inferiority(changes, 0.0, 0.0)


@pytest.mark.parametrize(
    ("events", "low", "high"), [(0, 0, 3.6889), (3, 0.6187, 8.7673), (10, 4.7954, 18.3904)]
)
def test_losses_of_one_size_have_the_exact_bounds_of_rare_events(events, low, high):
    """As the tables of the Poisson distribution have them (Garwood 1936), here in tenths; gains
    mirror losses, and many of both have the bounds of a normal sum.
    """
    losses = np.r_[np.full(events, -0.1), np.zeros(50)]
    down, _ = bound_changes(losses, 0.1)
    assert down == pytest.approx((high - events) / 10, abs=1e-5)
    below, above = bound_changes(losses, 0.0)
    assert above == pytest.approx((events - low) / 10, abs=1e-5)
    assert bound_changes(-losses, 0.0) == (above, below)
    both = np.random.default_rng(0).normal(size=4000)
    assert bound_changes(both, 0.0) == pytest.approx([1.96 * 4000**0.5] * 2, rel=0.05)
