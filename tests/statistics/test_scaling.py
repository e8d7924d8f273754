"""Amdahl's law: the share that made the times is found, with intervals that hold it as often as
they say.
"""

import numpy as np
import pytest
from scipy.optimize import curve_fit

from dr_lib.statistics.intervals import BadSampleError
from dr_lib.statistics.scaling import fit_amdahl

MACHINES = np.repeat([1, 2, 4], 5)


def draw(share: float, deviation: float, seed: int) -> np.ndarray:
    """Times of an epoch by the law, each multiplied by log-normal noise."""
    noise = np.random.default_rng(seed).normal(0, deviation, len(MACHINES))
    return 10 * (share + (1 - share) / MACHINES) * np.exp(noise)


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0, 1.5])
def test_times_by_the_law_give_its_share(share):
    """Without noise exactly; a share above 1 is a training that more machines make longer."""
    law = fit_amdahl(MACHINES, draw(share, 0.0, 0))
    assert law.share.value == pytest.approx(share, abs=1e-6) and law.share.n == 15
    assert law.share.low <= share + 1e-6 and law.share.high >= share - 1e-6
    # by hand: 1 / (0.2 + 0.8 / 8) = 3.33
    assert law.predict(8).value == pytest.approx(1 / (share + (1 - share) / 8), rel=1e-4)


def test_the_fit_is_that_of_another_library():
    """SciPy's curve_fit on the logarithms."""
    times = draw(0.3, 0.1, 1)
    (_, share), _ = curve_fit(
        lambda n, a, s: a + np.log(s + (1 - s) / n), MACHINES, np.log(times), p0=(2.3, 0.5)
    )
    assert fit_amdahl(MACHINES, times).share.value == pytest.approx(share, abs=1e-5)


def test_intervals_hold_the_share_in_95_of_100_studies():
    """100 studies of 15 runs: in 95, give or take 2.2, share and speed-up lie within; 5 are
    refused as no such law.
    """
    laws = [fit_amdahl(MACHINES, draw(0.05, 0.1, seed)) for seed in range(100)]
    assert 89 <= sum(law.share.low <= 0.05 <= law.share.high for law in laws) <= 99
    faster = 1 / (0.05 + 0.95 / 16)
    assert 89 <= sum(p.low <= faster <= p.high for p in (law.predict(16) for law in laws)) <= 99
    assert 1 <= sum(law.p < 0.05 for law in laws) <= 11


def test_a_law_that_does_not_fit_is_told():
    """Two machines twice as fast, four as slow as one: no share does that."""
    times = np.where(MACHINES == 2, 5.0, 10.0) * np.exp(
        np.random.default_rng(0).normal(0, 0.05, 15)
    )
    assert fit_amdahl(MACHINES, times).p < 0.001
    assert np.isnan(fit_amdahl([1, 1, 2, 2], [4.0, 4.1, 2.0, 2.2]).p)


@pytest.mark.parametrize(
    ("machines", "times"),
    [([1, 1, 1], [1.0, 1.1, 1.2]), ([1, 2], [2.0, 1.0]), ([1, 2, 4], [2.0, 0.0, 1.0])],
)
def test_what_has_no_law_is_refused(machines, times):
    """One number of machines, too few runs, a time of nothing."""
    with pytest.raises(BadSampleError, match="three runs or more, on two numbers of machines"):
        fit_amdahl(machines, times)
