"""The mean of scores."""

import numpy as np
import pytest
from statsmodels.stats.weightstats import DescrStatsW

from dr_lib.statistics.intervals import mean_interval


def test_a_mean_has_students_interval():
    """That of statsmodels."""
    scores = [0.91, 0.88, 0.93, 0.9]
    expected = DescrStatsW(scores).tconfint_mean()
    assert mean_interval(scores)[1:3] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("scores", [[], [0.9], [0.9, 0.8], [0.9, 0.9, 0.9]])
def test_fewer_than_three_scores_and_equal_ones_have_no_bounds(scores):
    """That is NaN, not a crash and not a false certainty."""
    bound = mean_interval(scores)
    assert np.isnan([bound.low, bound.high]).all() and bound.n == len(scores)
