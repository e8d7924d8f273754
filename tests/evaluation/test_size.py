"""The size of a study: published numbers, and the intervals of simulated studies."""

import numpy as np
import pytest
from scipy import stats

from dr_lib.errors import DrError
from dr_lib.evaluation.size import Design, describe_study, find_sizes
from dr_lib.statistics.clustered import auc_interval, proportion_interval


@pytest.mark.parametrize(
    ("expected", "prevalence", "width", "number"),
    [
        # the example of pmvalsampsize (Ensor, Stata and R): C statistic 0.8, prevalence 0.018
        ({"AUC": 0.8}, 0.018, 0.1, 4252),
        # by hand, with 1.96: 0.9 * 0.1 / (0.1 / 3.92)^2 / 0.2 and 0.8 * 0.2 / (0.1 / 3.92)^2 / 0.8
        ({"sensitivity": 0.9}, 0.2, 0.1, 692),
        ({"specificity": 0.8}, 0.2, 0.1, 308),
    ],
)
def test_one_eye_a_patient_needs_the_published_number(expected, prevalence, width, number):
    """Criteria of Riley et al. 2021 and 2024."""
    (size,) = find_sizes(expected, Design(width, prevalence)).values()
    assert size.expected == number < size.assured


@pytest.mark.parametrize(("correlation", "ratio"), [(0, 2), (0.5, 4 / 3), (1, 1)])
def test_two_eyes_count_by_their_design_effect(correlation, ratio):
    """Two of a patient are worth 2 / (1 + correlation) eyes."""
    one, two = (
        find_sizes({"AUC": 0.85}, Design(0.1, 0.2, eyes, correlation))["AUC"] for eyes in (1, 2)
    )
    assert one.expected / two.expected == pytest.approx(ratio, rel=0.01)
    assert one.assured / two.assured == pytest.approx(ratio, rel=0.01)


@pytest.mark.parametrize("eyes", [1, 2])
def test_most_simulated_studies_reach_the_width(eyes):
    """Scores are normal, alike by half in the two eyes of a patient, whose label is one: of 200
    studies about 80 % have an interval of this library as narrow as that.
    """
    rng = np.random.default_rng(0)
    sizes = find_sizes({"AUC": 0.85, "sensitivity": 0.85}, Design(0.1, 0.3, eyes))
    reached = {name: [] for name in sizes}
    for name, size in sizes.items():
        patient = np.repeat(np.arange(size.assured), eyes)
        for _ in range(200):
            ill = (rng.random(size.assured) < 0.3)[patient]
            noise = rng.normal(size=size.assured)[patient] + rng.normal(size=len(patient))
            if name == "AUC":
                score = noise / np.sqrt(2) + ill * np.sqrt(2) * stats.norm.ppf(0.85)
                found = auc_interval(ill, score, patient)
            else:
                # answers that are alike by half: the other eye's with probability 1/2
                calls = rng.random(len(patient)) < 0.85
                is_same = rng.random(size.assured) < 0.5
                first = calls[np.arange(size.assured) * eyes]
                calls = np.where(is_same[patient], first[patient], calls)
                found = proportion_interval(calls[ill], patient[ill])
            reached[name].append(found.high - found.low <= 0.1)
    for name, share in reached.items():
        assert 0.7 < np.mean(share) < 0.95, name


@pytest.mark.parametrize(
    ("prevalence", "words"), [(0.004, "0.4"), (0.065, "6.5"), (0.07, "7"), (0.2, "20")]
)
def test_the_committee_reads_the_prevalence_that_was_given(prevalence, words):
    """No rounding; with a decimal comma in Portuguese."""
    design = Design(0.1, prevalence)
    text = describe_study(find_sizes({"AUC": 0.9}, design), {"AUC": 0.9}, design)
    assert f"that {words} % of the photographed" in text
    assert f"que {words.replace('.', ',')} % dos olhos" in text


@pytest.mark.parametrize(
    ("expected", "change", "words"),
    [
        ({}, {}, "give what you expect"),
        ({"AUC": 1.0}, {}, "AUC must be between 0 and 1"),
        ({"AUC": 0.8}, {"prevalence": 0}, "prevalence must be between"),
        ({"AUC": 0.8}, {"width": 1e-5}, "no study is large enough"),
        ({"AUC": 0.8}, {"correlation": 2}, "correlation must be from 0 to 1"),
    ],
)
def test_what_is_no_design_is_refused(expected, change, words):
    """Each by a sentence that names the number."""
    with pytest.raises(DrError, match=words):
        find_sizes(expected, Design(0.1, 0.2)._replace(**change))
