"""The intervals, against textbooks, SciPy and scikit-learn."""

import numpy as np
import pytest

from dr_lib.statistics.cells import RATIO, Design
from dr_lib.statistics.intervals import BadSampleError, mean_interval

# carbon monoxide levels, the worked example of Olsson 2005, J. Stat. Educ. 13-1
OLSSON = [12.5, 20, 4, 20, 25, 170, 15, 20, 15]


def test_the_mean_and_its_bounds_are_those_of_the_textbook():
    """Olsson's example: mean 33.5 ppm, modified Cox interval 12.31 to 78.72."""
    interval = mean_interval(OLSSON)
    assert interval.n == 9
    assert interval[:3] == pytest.approx((33.5, 12.30929, 78.72254), rel=1e-6)


def test_the_ratio_is_of_what_the_papers_average():
    """Times that spread by 60 % beside times that do not: the ratio of the arithmetic means is
    covered, which is 1.17 times that of the geometric means.
    """
    rng = np.random.default_rng(4)
    sigma = np.sqrt(np.log1p(0.6**2))
    covered = [
        interval.low < 1 < interval.high
        for interval in (
            Design([rng.lognormal(-(sigma**2) / 2, sigma, 50)], [rng.lognormal(0, 0.01, 50)])
            .estimate(RATIO)
            .interval(0.05)
            for _ in range(500)
        )
    ]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.025)


@pytest.mark.parametrize("times", [[], [3.0]])
def test_fewer_than_two_runs_have_no_bounds(times):
    """One run says nothing about the next; that is NaN, not a crash and not a false certainty."""
    result = mean_interval(times)
    assert np.isnan([result.low, result.high]).all()
    assert result.n == len(times)


@pytest.mark.parametrize("bad", [0, -1, np.nan, np.inf])
def test_refuses_impossible_times(bad):
    """A time that is not positive and finite is a failed run."""
    with pytest.raises(BadSampleError, match="positive"):
        mean_interval([5, bad])
    with pytest.raises(BadSampleError, match="positive"):
        Design([[1, 2]], [[5, bad]])
