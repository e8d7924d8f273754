"""Intervals of what is computed from cells, against textbooks, SciPy and brute force."""

import numpy as np
import pytest
from scipy import stats

from dr_lib.statistics import cells
from dr_lib.statistics.equivalence import (
    bound_changes,
    patients_for_non_inferiority,
    repetitions_for_equivalence,
)
from dr_lib.statistics.intervals import BadSampleError

# prey sizes [mm] of two spiders, the worked example of Penn State's STAT 415, lesson 4.3
DEINOPIS = [12.9, 10.2, 7.4, 7.0, 10.5, 11.9, 7.1, 9.9, 14.4, 11.3]
MENNEUS = [10.2, 6.9, 10.9, 11.0, 10.1, 5.3, 7.5, 10.3, 9.2, 8.8]


def test_the_mean_of_a_cell_has_the_interval_of_student():
    """At a coefficient of variation of 1 % the log interval and t on the plain times are one."""
    times = np.random.default_rng(5).normal(100, 1, 10)
    found = cells.bound(cells.average, [times], error=0.05)
    wanted = (times.mean(), *stats.t.interval(0.95, 9, times.mean(), stats.sem(times)))
    assert found[:3] == pytest.approx(wanted, abs=0.05) and found.n == 10


def test_the_ratio_of_spreads_is_near_that_of_the_textbook():
    """STAT 415: variances 0.433 to 7.033 apart, for normal values: beside 1 m, spreads of mm are
    normal.
    """
    a, b = (1000 + np.array(prey) for prey in (DEINOPIS, MENNEUS))
    found = cells.bound(cells.divide_deviations, [a], [b], error=0.05)
    assert found.value == pytest.approx(2.51 / 1.90, rel=5e-3)
    assert (found.low**2, found.high**2) == pytest.approx((0.433, 7.033), rel=0.05)


def test_what_lies_between_cells_widens_nothing():
    """Cells of 1, 10 and 100 s, each three times as long on one side: 3, within the noise of the
    repetitions.
    """
    b = [np.array([1.0, 1.02]) * scale for scale in (1, 10, 100)]
    a = [3 * times for times in b]
    found = cells.bound(cells.divide, a, b)
    assert (
        found.value == pytest.approx(3) and 2.9 < found.low < found.high < 3.1 and found.n == 6
    )
    assert cells.bound(cells.subtract, a, b).value == pytest.approx(2 * 1.01 * 111 / 3)
    assert cells.bound(cells.add, b).value == pytest.approx(1.01 * 111)
    assert cells.bound(cells.average, b).value == pytest.approx(1.01 * 37)


def test_intervals_of_every_cell_hold_together():
    """Four cells at once miss in no more studies than one does, and each is wider than alone."""
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(100):
        a, b = ([rng.lognormal(0, 0.1, 3) for _ in range(4)] for _ in range(2))
        found = cells.bound_each(cells.divide, a, b)
        missed += any(not part.low <= 1 <= part.high for part in found)
    alone = cells.bound(cells.divide, a[:1], b[:1])
    assert missed <= 8 and len(found) == 4 and alone.n == 3 and found[0].n == 12


def test_a_design_without_repetitions_has_no_bounds():
    """A value, and nothing to say how sure it is; a constant is sure."""
    found = cells.bound(cells.divide, [[1.0], [2.0]], [[2.0], [4.0]])
    assert found.value == 0.5 and np.isnan([found.low, found.high]).all()
    assert cells.bound(cells.divide, [[3.0] * 3], [[2.0] * 3])[:3] == pytest.approx([1.5] * 3)


@pytest.mark.parametrize("side", [[], [[]], [[1.0, 0.0]], [[1.0, np.inf]]])
def test_refuses_what_are_no_times(side):
    """No cell, an empty one, nothing, or for ever."""
    with pytest.raises(BadSampleError, match="positive and finite"):
        cells.bound(cells.average, side)


def test_how_many_observations_a_margin_takes():
    """(1.96 + 0.84)^2 x 4 = 31.4 for a margin of half a deviation, 3.69 x 0.5 / 0.02 patients for
    losses of a half that were not seen; a margin that no spread reaches takes two runs.
    """
    changes = np.tile([0.04, -0.04], 50) / 100
    assert patients_for_non_inferiority(changes, 0.0, 0.02) == 32
    assert patients_for_non_inferiority(np.zeros(10), 0.05, 0.02) == 93
    assert repetitions_for_equivalence(0.0, 0.02) == 2
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
