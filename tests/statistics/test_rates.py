"""How often intervals over patients miss the truth, by simulation: nominal is 5 %."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from dr_lib.statistics.bootstrap import bootstrap_patients, score_auc, score_kappa
from dr_lib.statistics.calibration import fit_calibration
from dr_lib.statistics.clustered import auc_interval, proportion_interval

pytestmark = pytest.mark.slow
STUDIES = 5000
CLOSED_FORM = 0.065  # may miss so often
RESAMPLED = 0.08  # of 500 studies
MANY = 200_000


def number_photographs(patients: int, photographs: str, rng) -> np.ndarray:
    """The patient of each photograph: one, two, or from one to many, or of one patient 20."""
    counts = {
        "one": np.ones(patients, int),
        "two": np.full(patients, 2),
        "one of 20": 1 + 19 * (np.arange(patients) == 0),
        "many": 1 + np.minimum(rng.poisson(rng.gamma(0.8, 2, patients)), 12),
    }
    return np.arange(patients).repeat(counts[photographs])


def draw_normal(patient: np.ndarray, rng, alike: float = 0.5) -> np.ndarray:
    """Numbers that are normal, and alike within a patient."""
    shared = rng.normal(size=patient.max() + 1)[patient]
    return alike**0.5 * shared + (1 - alike) ** 0.5 * rng.normal(size=len(patient))


def count_missed(study, truth: float, number: int = STUDIES) -> float:
    """The share of intervals without the truth, of what a study returns; what has no interval says
    nothing.
    """
    rng = np.random.default_rng(0)
    bounds = np.array([study(rng)[1:3] for _ in range(number)])
    low, high = bounds[np.isfinite(bounds).all(axis=1)].T
    return np.mean((low > truth) | (high < truth))


@pytest.mark.parametrize(
    ("auc", "ill", "well", "photographs", "step"),
    [
        (0.80, 15, 15, "two", 0),
        (0.80, 20, 200, "one", 0),
        (0.90, 30, 90, "two", 1.0),  # many ties
        (0.97, 100, 300, "many", 0),
        (0.998, 50, 200, "two", 0),
    ],
)
def test_an_auc_misses_in_no_more_than_six_and_a_half_percent(
    auc, ill, well, photographs, step
):
    """Binormal, patients of one kind each, from 0.80 to 0.998."""
    away = 2**0.5 * stats.norm.ppf(auc)
    if step:
        edges = step * (np.arange(-200, 200) + 0.5)
        others, with_it = (np.diff(stats.norm.cdf(edges - mean)) for mean in (0, away))
        auc = with_it @ (np.cumsum(others) - others / 2)

    def study(rng):
        patient = number_photographs(ill + well, photographs, rng)
        positive = patient < ill
        score = draw_normal(patient, rng) + away * positive
        score = step * np.round(score / step) if step else score
        return auc_interval(positive, score, patient)

    assert count_missed(study, auc) <= CLOSED_FORM


@pytest.mark.parametrize(
    ("share", "patients", "photographs"),
    [(0.5, 30, "two"), (0.9, 100, "many"), (0.9, 200, "one of 20")],
)
def test_a_share_misses_in_no_more_than_six_and_a_half_percent(share, patients, photographs):
    """Of eyes that are alike."""

    def study(rng):
        patient = number_photographs(patients, photographs, rng)
        return proportion_interval(draw_normal(patient, rng) < stats.norm.ppf(share), patient)

    assert count_missed(study, share) <= CLOSED_FORM


@pytest.mark.parametrize(("patients", "true"), [(40, 1.0), (100, 0.5)])
def test_a_slope_misses_in_no_more_than_six_and_a_half_percent(patients, true):
    """Of two eyes that are alike, whose logits are right, or twice too extreme."""
    patient = np.arange(patients).repeat(2)

    def study(rng):
        logit = 1.5 * draw_normal(patient, rng) - 0.5
        positive = draw_normal(patient, rng, 0.3) < stats.norm.ppf(expit(logit))
        return fit_calibration(positive, expit(logit / true), patient)[1]

    assert count_missed(study, true) <= CLOSED_FORM


@pytest.mark.parametrize("what", ["auc difference", "kappa"])
@pytest.mark.parametrize("patients", [80, 200])
def test_the_bootstrap_misses_in_no_more_than_eight_percent(what, patients):
    """500 studies of two eyes of each patient with their grades, and of two tests of them; the
    truth is that of 200,000 patients.
    """
    levels = [0, 0.7, 1.4, 2.1]

    def study(rng, patients=patients):
        patient = np.arange(patients).repeat(2)
        severity = draw_normal(patient, rng)
        first, second = (severity + error * draw_normal(patient, rng) for error in (0.7, 1.0))
        y = severity > 0.7
        score = score_kappa(np.digitize(severity, levels), np.digitize(first, levels))
        if what == "auc difference":
            aucs = score_auc(y, first), score_auc(y, second)
            score = lambda weights: aucs[1](weights) - aucs[0](weights)  # noqa: E731
        if patients == MANY:
            return score(np.ones((1, len(y))))
        return bootstrap_patients(score, y, patient)

    (truth,) = study(np.random.default_rng(0), MANY)
    assert count_missed(study, truth, 500) <= RESAMPLED
