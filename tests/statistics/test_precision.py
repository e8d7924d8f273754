"""How many runs show a difference."""

import numpy as np
import pytest
from scipy import stats

from dr_lib.statistics.precision import repetitions_for_difference, simulate_power


@pytest.mark.parametrize(
    ("cv", "difference", "n"), [(0.02, 0.05, 6), (0.05, 0.1, 8), (0.1, 0.2, 9)]
)
def test_the_power_of_a_comparison_is_that_of_the_t_test(cv, difference, n):
    """Of equal spreads Welch's interval is nearly Student's, whose power is the noncentral t's."""
    distance = np.log1p(difference) / (cv * np.sqrt(2 / n))
    limit = stats.t.ppf(0.985, 2 * n - 2)
    power = stats.nct.sf(limit, 2 * n - 2, distance)
    assert simulate_power(cv, difference, n, 1) == pytest.approx(power, abs=0.03)


def test_pairs_have_half_of_the_degrees_of_freedom():
    """One run of each kind in each of ten sessions: a paired t test with nine."""
    distance = np.log1p(0.1) / (0.07 * np.sqrt(2 / 10))
    power = stats.nct.sf(stats.t.ppf(0.985, 9), 9, distance)
    assert simulate_power(0.07, 0.1, 10, 10) == pytest.approx(power, abs=0.03)


@pytest.mark.parametrize("cv", [0.001, 0.05, 0.3])
def test_so_many_runs_are_enough_and_fewer_are_not(cv):
    """Eight in ten studies show it, from three runs on; one in five fewer show it less often."""
    n, power = repetitions_for_difference(cv, 0.1)
    assert n >= 3 and 0.8 <= power == simulate_power(cv, 0.1, n, 1)
    assert n == 3 or simulate_power(cv, 0.1, int(0.8 * n), 1) < 0.8
