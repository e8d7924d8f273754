"""Calibration, against the truth of what was drawn and scikit-learn."""

import numpy as np
import pytest
from scipy.special import expit, logit
from statsmodels.nonparametric.smoothers_lowess import lowess

from dr_lib.statistics import calibration
from dr_lib.statistics.calibration import (
    fit_recalibration,
    fit_slope,
    smooth_calibration,
    to_logit,
)
from dr_lib.statistics.recalibration import NEAR

RNG = np.random.default_rng(0)
TRUE = RNG.random(4000)  # probabilities that are right
POSITIVE = RNG.random(4000) < TRUE
EXTREME = expit(2 * logit(TRUE) + 1)  # the logit doubled and moved: slope 0.5


def test_slope_and_intercept_are_those_that_were_drawn():
    """1 and 0 of right probabilities; a doubled logit has the slope 0.5, and a mean too high an
    intercept below 0.
    """
    patients = np.arange(4000)
    intercept, slope = fit_slope(POSITIVE, TRUE, patients)
    assert intercept.low < 0 < intercept.high and slope.low < 1 < slope.high
    intercept, slope = fit_slope(POSITIVE, EXTREME, patients)
    assert intercept.high < 0 and slope.value == pytest.approx(0.5, abs=0.03)


def test_probabilities_of_0_and_1_have_an_intercept():
    """By hand, of hard answers: 34 of 100 eyes are positive and 60 are called so."""
    positive = np.repeat([1, 0, 1, 0], [30, 30, 4, 36])
    probability = np.repeat([1.0, 0.0], [60, 40])
    intercept, _ = fit_slope(positive, probability, np.arange(100))
    assert intercept.value == pytest.approx(logit(34 / 60) - logit(1 - NEAR), abs=1e-8)
    assert intercept.low < intercept.value < intercept.high < 0
    for seed in range(4):  # 95 of 100 are hard
        rng = np.random.default_rng(seed)
        positive = rng.random(200) < 0.3
        probability = expit(rng.normal(positive, 1.5))
        probability = np.where(rng.random(200) < 0.95, probability > 0.5, probability)
        intercept, _ = fit_slope(positive, probability, np.arange(200) // 2)
        assert expit(intercept.value + to_logit(probability)).sum() == pytest.approx(
            positive.sum()
        )


def test_copies_of_photographs_do_not_narrow_the_interval():
    """Each photograph twice in its patient: the bounds stay, as twice as many patients would not
    let them.
    """
    once = fit_slope(POSITIVE, TRUE, np.arange(4000))[1]
    twice = fit_slope(POSITIVE.repeat(2), TRUE.repeat(2), np.arange(8000) // 2)[1]
    assert twice.low == pytest.approx(once.low, abs=0.002)


def maximise(positive, x, patient) -> tuple[float, float]:
    """Slope of a logistic regression by Newton's method in float64, and its standard error over
    patients with the usual correction for their number (Liang and Zeger 1986).
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


@pytest.mark.parametrize("seed", [2, 4, 5, 6, 7, 14])
def test_few_patients_have_a_slope_and_its_whole_error(seed):
    """Twenty photographs of ten patients, four of them ill, whom all but two probabilities tell
    apart: a generalised linear model stopped there at a singular matrix (seed 4), or gave an error
    near 0. The bounds are Student's, of nine degrees of freedom.
    """
    rng = np.random.default_rng(seed)
    patient = np.arange(20) // 2
    positive = (patient < 4).astype(float)
    x = rng.uniform(-13.8, 0, 20)
    x[:8] = rng.uniform(0, 2, 8)
    x[[0, 19]] = np.sort(rng.uniform(0, 0.3, 2))  # the wrong way round
    probability = expit(x)
    expected, error = maximise(positive, x, patient)
    slope = fit_slope(positive, probability, patient)[1]
    assert slope.value == pytest.approx(expected, rel=1e-4) and slope.n == 10
    half = 2.262157 * error
    assert (slope.high - slope.low) / 2 == pytest.approx(half, rel=1e-3)


def test_recalibration_undoes_what_was_done():
    """Learned on one half, the other half's probabilities are right again within 0.05."""
    recalibrate = fit_recalibration(POSITIVE[:2000], EXTREME[:2000])
    assert recalibrate(EXTREME[2000:]) == pytest.approx(TRUE[2000:], abs=0.05)


def test_classes_without_an_overlap_have_no_slope():
    """No finite slope is the likeliest; and one probability for all has none."""
    # parted, parted but for one value, which both have, and alike
    for probability in ([0.1, 0.2, 0.8, 0.9], [0.1, 0.5, 0.5, 0.9], [0.5] * 4):
        assert np.isnan([x.value for x in fit_slope([0, 0, 1, 1], probability, range(4))]).all()
        assert fit_recalibration([0, 0, 1, 1], probability) is None


def test_the_smooth_curve_is_that_of_statsmodels(monkeypatch):
    """Local lines through the nearest three quarters, without its steps; bounds about it, and
    wider the fewer patients there are; NaN where there are no photographs. The same in parts, as
    of many patients.
    """
    p = TRUE[:400]
    y = POSITIVE[:400]
    grid = np.linspace(p.min(), p.max(), 9)
    expected = lowess(y.astype(float), p, frac=0.75, it=0, delta=0, xvals=grid)
    curve = smooth_calibration(y, p, np.arange(400), grid)
    assert curve.value == pytest.approx(np.clip(expected, 0, 1), abs=0.002)
    assert (curve.low <= curve.value).all() and (curve.value <= curve.high).all()
    paired = smooth_calibration(
        np.tile(y[:200], 2), np.tile(p[:200], 2), np.arange(400) % 200, grid
    )
    assert np.nanmean(paired.high - paired.low) > 1.2 * np.nanmean(curve.high - curve.low)
    assert np.isnan(smooth_calibration(y, p / 2, np.arange(400), [0.9]).value).all()
    monkeypatch.setattr(calibration, "NUM_SUMS", 2 * 400)
    in_parts = smooth_calibration(y, p, np.arange(400), grid)
    for whole, joined in zip(curve, in_parts, strict=True):
        assert joined == pytest.approx(whole, abs=1e-12)
