"""Calibration, against the truth of what was drawn and another implementation."""

import numpy as np
import pytest
from scipy.special import expit, logit

from dr_lib.statistics.calibration import fit_calibration

RNG = np.random.default_rng(0)
TRUE = RNG.random(4000)  # probabilities that are right
POSITIVE = RNG.random(4000) < TRUE
EXTREME = expit(2 * logit(TRUE) + 1)  # the logit doubled and moved: slope 0.5


def test_slope_and_intercept_are_those_that_were_drawn():
    """1 and 0 of right probabilities; a doubled logit has the slope 0.5, and a mean too high an
    intercept below 0; each photograph twice in its patient leaves the bounds.
    """
    patients = np.arange(4000)
    intercept, slope = fit_calibration(POSITIVE, TRUE, patients)
    assert intercept.low < 0 < intercept.high and slope.low < 1 < slope.high
    twice = fit_calibration(POSITIVE.repeat(2), TRUE.repeat(2), np.arange(8000) // 2)[1]
    assert twice.low == pytest.approx(slope.low, abs=0.002)
    intercept, slope = fit_calibration(POSITIVE, EXTREME, patients)
    assert intercept.high < 0 and slope.value == pytest.approx(0.5, abs=0.03)


def test_a_wrong_probability_of_0_or_1_has_no_intercept():
    """No intercept makes it likely, and where it is cut decides; a right one says nothing."""
    certain = np.append(TRUE, 1.0)
    patients = np.arange(4001)
    right = fit_calibration(np.append(POSITIVE, True), certain, patients)
    assert right[0].value == pytest.approx(
        fit_calibration(POSITIVE, TRUE, patients[1:])[0].value
    )
    for found in fit_calibration(np.append(POSITIVE, False), certain, patients):
        assert np.isnan(found[:3]).all()


@pytest.mark.parametrize(
    ("positive", "probability"),
    [
        (np.repeat([0, 1], 10), np.repeat([0.1, 0.9], 10)),
        # parted but for one value, which both have
        (np.repeat([0, 1], 10), np.repeat([0.1, 0.5, 0.9], [8, 4, 8])),
        (np.repeat([0, 1], 10), np.full(20, 0.5)),
        # nine of nineteen are positive
        (np.tile([0, 1], 10)[:19], np.linspace(0.1, 0.9, 19)),
    ],
)
def test_what_is_not_estimable_has_no_slope(positive, probability):
    """No finite slope is the likeliest; one probability for all has none, nor have few."""
    for found in fit_calibration(positive, probability, range(len(positive))):
        assert np.isnan(found[:3]).all()
