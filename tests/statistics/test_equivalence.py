"""Whether two sides' scores are equivalent, against SciPy's t tests."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dr_lib.statistics.equivalence import (
    compare_scores,
    is_equivalent,
    repetitions_for_equivalence,
)
from dr_lib.statistics.intervals import Interval

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


def test_a_margin_that_no_spread_reaches_takes_two_runs():
    """Fewer have no spread."""
    assert repetitions_for_equivalence(0.0, 0.02) == 2
