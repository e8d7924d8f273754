"""The three rules for times: against statsmodels, and simulated."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

from dr_lib.statistics.times import (
    EQUAL,
    FEW_PAIRS,
    FEW_RUNS,
    FEW_SESSIONS,
    WITHIN,
    bound_mean,
    compare_machines,
    compare_pairs,
)

NUM_STUDIES = 5000


def name_runs(values):
    """A time of each session and run, (sessions, runs), as the rules take them."""
    places = [range(number) for number in values.shape]
    index = pd.MultiIndex.from_product(places, names=["session", "pair"])
    return pd.Series(values.ravel(), index)


def draw(*shape, seed=1):
    """Logarithms of times of about 60 s that spread by 10 %."""
    return np.random.default_rng(seed).normal(np.log(60), 0.1, shape)


def logs(*shape):
    """The same as the rules take them."""
    return name_runs(draw(*shape))


def check(found, value, low, high, n, scope=""):
    """Equal to 1e-9, and what it rests on."""
    expected = np.exp([value, low, high])
    assert np.allclose(found[:3], expected, rtol=1e-9, atol=0) and found[3:5] == (n, scope)


def test_one_mean_is_that_of_sessions_or_of_one_sessions_runs():
    """statsmodels' t on four medians; on five runs, where the interval says nothing of the next
    session.
    """
    several = draw(4, 5)
    medians = DescrStatsW(np.median(several, axis=1))
    check(bound_mean(name_runs(several)), medians.mean, *medians.tconfint_mean(), 4)
    runs = DescrStatsW(several[0])
    check(bound_mean(name_runs(several[:1])), runs.mean, *runs.tconfint_mean(), 5, WITHIN)


def test_two_groups_of_one_machine_are_compared_by_pairs():
    """statsmodels' t on five differences."""
    differences = draw(1, 5) - draw(1, 5, seed=2)
    pairs = DescrStatsW(differences[0])
    check(compare_pairs(name_runs(differences)), pairs.mean, *pairs.tconfint_mean(), 5)


def test_two_machines_are_compared_by_the_medians_of_their_sessions():
    """statsmodels' Welch on three and four numbers, however many runs they are of."""
    sides = draw(3, 5), draw(4, 2, seed=2)
    medians = [np.median(side, axis=1) for side in sides]
    welch = CompareMeans(*map(DescrStatsW, medians))
    value = medians[0].mean() - medians[1].mean()
    found = compare_machines(*map(name_runs, sides))
    check(found, value, *welch.tconfint_diff(usevar="unequal"), 3)


@pytest.mark.parametrize(
    ("found", "scope"),
    [
        (lambda: bound_mean(logs(1, 2)), FEW_RUNS),
        (lambda: bound_mean(logs(2, 9)), FEW_SESSIONS),
        (lambda: compare_pairs(logs(1, 2)), FEW_PAIRS),
        (lambda: compare_machines(logs(9, 2), logs(2, 9)), FEW_SESSIONS),
        (lambda: bound_mean(0 * logs(1, 3)), EQUAL),
        (lambda: compare_machines(logs(3, 3), 0 * logs(3, 3)), EQUAL),
    ],
)
def test_fewer_than_three_of_what_counts_have_no_interval(found, scope):
    """Nor have times that a clock rounded; a word says why."""
    bound = found()
    assert np.isnan(bound.low) and np.isnan(bound.high) and bound.scope == scope
    assert np.isfinite(bound.value)


@pytest.mark.slow
@pytest.mark.parametrize("rule", [bound_mean, compare_pairs, compare_machines])
@pytest.mark.parametrize(
    ("n", "spreads", "between", "doubled"),
    [
        (3, (0.02, 0.02), 0, 0),
        (10, (0.3, 0.3), 0, 0),
        (5, (0.02, 0.02), 0.1, 0),
        (10, (0.05, 0.05), 0, 0.1),
        (5, (0.02, 0.3), 0, 0),
    ],
    ids="three noisy sessions doubled unequal".split(),
)
def test_an_interval_of_95_percent_misses_at_most_6(rule, n, spreads, between, doubled):
    """Below and above counted together, in 5,000 studies whose true value is 1, of n sessions or
    pairs, whose runs spread, one in ten of them doubled. Sessions change both runs of a pair alike,
    and each machine has its own.
    """
    rng = np.random.default_rng(0)
    shape = (n, 1 if rule is compare_pairs else 3)
    missed = 0
    for _ in range(NUM_STUDIES):
        sides = []
        for spread in spreads:
            if not sides or rule is compare_machines:
                sessions = rng.normal(0, between, (n, 1))
            runs = rng.normal(0, spread, shape) + np.log(2) * (rng.random(shape) < doubled)
            sides.append(name_runs(runs + sessions))
        if rule is compare_pairs:
            sides = [sides[0] - sides[1]]
        bound = rule(*sides) if rule is compare_machines else rule(sides[0])
        missed += not bound.low <= 1 <= bound.high
    assert missed <= 0.06 * NUM_STUDIES
