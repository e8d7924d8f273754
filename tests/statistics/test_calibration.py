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


def maximise(positive, x, patient) -> tuple[float, float]:
    """Slope of a logistic regression by Newton's method, and its standard error over patients with
    the usual correction for their number (Liang and Zeger 1986).
    """
    design = np.column_stack([np.ones_like(x), x])
    beta = np.zeros(2)
    for _ in range(200):
        risk = expit(design @ beta)
        bread = np.linalg.inv(design.T * (risk * (1 - risk)) @ design)
        beta = beta + 0.5 * bread @ design.T @ (positive - risk)
    scores = (positive - expit(design @ beta))[:, None] * design
    sums = np.stack([scores[patient == each].sum(axis=0) for each in np.unique(patient)])
    n, k = len(x), len(sums)
    covariance = bread @ (sums.T @ sums) @ bread * k / (k - 1) * (n - 1) / (n - 2)
    return beta[1], float(np.sqrt(covariance[1, 1]))


@pytest.mark.parametrize("seed", range(4))
def test_few_patients_have_a_slope_and_its_whole_error(seed):
    """Forty photographs of twenty patients, ten of them ill, whom all but two probabilities tell
    apart: a generalised linear model stopped there, or gave an error near 0. The bounds are
    Student's, of nine degrees of freedom.
    """
    rng = np.random.default_rng(seed)
    patient = np.arange(40) // 2
    positive = (patient < 10).astype(float)
    x = rng.uniform(-13.8, 0, 40)
    x[:20] = rng.uniform(0, 2, 20)
    x[[0, 39]] = np.sort(rng.uniform(0, 0.3, 2))  # the wrong way round
    expected, error = maximise(positive, x, patient)
    slope = fit_calibration(positive, expit(x), patient)[1]
    assert slope.value == pytest.approx(expected, rel=1e-4) and slope.n == 20
    assert (slope.high - slope.low) / 2 == pytest.approx(2.262157 * error, rel=1e-3)


@pytest.mark.parametrize(
    "probability",
    [
        np.repeat([0.1, 0.9], 10),
        np.repeat([0.9, 0.1], 10),
        np.repeat([0.1, 0.5, 0.9], [8, 4, 8]),  # parted but for one value, which both have
        np.full(20, 0.5),
    ],
)
def test_what_is_not_estimable_has_no_slope(probability):
    """No finite slope is the likeliest; one probability for all has none."""
    positive = np.repeat([0, 1], 10)
    for found in fit_calibration(positive, probability, range(20)):
        assert np.isnan(found[:3]).all()


def test_fewer_than_ten_of_a_kind_have_no_slope():
    """Nine of nineteen are positive."""
    probability = np.linspace(0.1, 0.9, 19)
    positive = np.tile([0, 1], 10)[:19]
    assert np.isnan(
        [found.value for found in fit_calibration(positive, probability, range(19))]
    ).all()
