"""Whether two models are equal."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW, ttost_paired

from dr_lib.statistics.equivalence import compare_scores, is_equivalent
from dr_lib.statistics.intervals import Interval

A = pd.Series([0.93, 0.91, 0.94, 0.92], range(4))
B = pd.Series([0.92, 0.915, 0.93, 0.92], range(4))


def test_scores_are_paired_by_seed_where_all_have_one():
    """statsmodels' paired interval, of which two one-sided tests are the same; else Welch's."""
    found = compare_scores(A, B)
    assert found[1:3] == pytest.approx(DescrStatsW(A - B).tconfint_mean(0.1), rel=1e-9)
    p, *_ = ttost_paired(A.to_numpy(), B.to_numpy(), -0.02, 0.02)
    assert is_equivalent(found) == (p < 0.05)
    for others in (B.set_axis(range(4, 8)), B.set_axis([np.nan] * 4)):
        welch = CompareMeans(DescrStatsW(A), DescrStatsW(B)).tconfint_diff(
            0.1, usevar="unequal"
        )
        assert compare_scores(A, others)[1:3] == pytest.approx(welch, rel=1e-9)


def test_few_scores_show_nothing_and_the_same_ones_are_equal():
    """Two a side have no bounds; a machine that repeats each score differs by exactly nothing."""
    assert np.isnan(compare_scores(A[:2], B[:2]).low)
    assert compare_scores(A, A) == (0, 0, 0, 4)
    assert compare_scores(A, B[:0]).n == 0


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.019, 0.019, True),
        (0.021, 0.03, False),
        (-0.05, -0.03, False),
        (0.0, 0.03, None),
        (np.nan, np.nan, None),
    ],
)
def test_only_a_whole_interval_decides(low, high, expected):
    """Inside, outside, or neither."""
    assert is_equivalent(Interval((low + high) / 2, low, high, 5)) is expected
