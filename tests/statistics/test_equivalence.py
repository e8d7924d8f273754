"""Whether two sides' scores are equivalent, against SciPy's t tests."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dr_lib.statistics.equivalence import (
    bound_changes,
    compare_scores,
    is_equivalent,
    patients_for_non_inferiority,
    repetitions_for_equivalence,
)
from dr_lib.statistics.intervals import BadSampleError, Interval

SEEDS = np.array([0.93, 0.90, 0.95, 0.91, 0.94])
NOISE = np.array([0.001, -0.001, 0.002, 0.0, 0.001])
OTHERS = SEEDS[[1, 2, 0, 4, 3]] + NOISE


@pytest.mark.parametrize(
    ("scores", "first_seed", "expected"),
    [
        # what a seed does cancels
        (SEEDS + NOISE, 20, stats.ttest_rel(SEEDS + NOISE, SEEDS).confidence_interval(0.925)),
        # seeds matter on no side alike: pairs would only cost degrees of freedom
        (
            OTHERS,
            20,
            stats.ttest_ind(OTHERS, SEEDS, equal_var=False).confidence_interval(0.925),
        ),
        # no common seed
        (OTHERS, 40, stats.ttest_ind(OTHERS, SEEDS, equal_var=False).confidence_interval(0.9)),
    ],
)
def test_scores_are_paired_by_seed_where_that_helps(scores, first_seed, expected):
    """SciPy's paired and Welch intervals; the level of each makes up for the choice."""
    theirs = pd.Series(SEEDS, index=range(20, 25))
    ours = pd.Series(scores, index=range(first_seed, first_seed + 5))
    found = compare_scores(ours, theirs)
    assert found[:3] == pytest.approx((scores.mean() - SEEDS.mean(), *expected))
    assert found.n == 5
    both = pd.concat([ours, ours + 0.001, ours - 0.001])  # trainings of one seed repeat nothing
    assert compare_scores(both, theirs) == pytest.approx(found)


@pytest.mark.parametrize(
    ("low", "high", "n", "expected"),
    [
        (-0.019, 0.019, 5, True),
        (0.0, 0.0, 3, True),
        (-0.019, 0.021, 5, None),
        (-0.021, 0.0, 5, None),
        (-0.05, 0.05, 5, None),
        (0.0201, 0.03, 5, False),
        (-0.44, -0.42, 5, False),
        (0.0, 0.0, 2, None),
        (np.nan, np.nan, 1, None),
    ],
)
def test_only_a_whole_interval_decides(low, high, n, expected):
    """Inside, outside, or neither; fewer than three show nothing."""
    assert is_equivalent(Interval((low + high) / 2, low, high, n), 0.02) is expected


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
