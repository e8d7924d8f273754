"""Intervals of what is computed from cells, against textbooks, SciPy and brute force."""

import numpy as np
import pytest
from scipy import stats

from dr_lib.statistics import cells
from dr_lib.statistics.intervals import BadSampleError

# the values that Rosner (1983) tests, as NIST's handbook prints them
ROSNER = [-0.25, 0.68, 0.94, 1.15, 1.20, 1.26, 1.26, 1.34, 1.38, 1.43, 1.49, 1.49, 1.55, 1.56]
ROSNER += [1.58, 1.65, 1.69, 1.70, 1.76, 1.77, 1.81, 1.91, 1.94, 1.96, 1.99, 2.06, 2.09, 2.10]
ROSNER += [2.14, 2.15, 2.23, 2.24, 2.26, 2.35, 2.37, 2.40, 2.47, 2.54, 2.62, 2.64, 2.90, 2.92]
ROSNER += [2.92, 2.93, 3.21, 3.26, 3.30, 3.59, 3.68, 4.30, 4.64, 5.34, 5.42, 6.01]


def estimate(statistic, *sides, sessions=None, error=0.05):
    """Its interval."""
    return cells.Design(*sides, sessions=sessions).estimate(statistic).interval(error)


def number(*sides, first=0):
    """A session of its own for each run."""
    places = iter(range(first, 1000))
    return [[[next(places) for _ in cell] for cell in side] for side in sides]


def test_the_mean_of_a_cell_has_the_interval_of_student():
    """At a coefficient of variation of 1 % the log interval and t on the plain times are one,
    whether runs are counted or sessions of one run.
    """
    times = np.random.default_rng(5).normal(100, 1, 10)
    wanted = (times.mean(), *stats.t.interval(0.95, 9, times.mean(), stats.sem(times)))
    for sessions in (None, number([times])):
        found = estimate(cells.AVERAGE, [times], sessions=sessions)
        assert found[:3] == pytest.approx(wanted, abs=0.01) and found.n == 10


def test_several_runs_of_a_session_are_one_observation():
    """The mean of three sessions of four runs has Student's interval of the sessions' means."""
    rng = np.random.default_rng(6)
    levels = np.repeat([0.9, 1.0, 1.1], 4) * rng.lognormal(0, 0.005, 12)
    sessions = [[np.repeat([0, 1, 2], 4)]]
    found = estimate(cells.AVERAGE, [levels], sessions=sessions)
    means = np.log(levels).reshape(3, 4).mean(axis=1)
    wanted = stats.t.interval(0.95, 2, means.mean(), stats.sem(means))
    spread = np.log(levels).var(ddof=1) / 2  # from the geometric to the arithmetic mean
    assert np.log(found[1:3]) == pytest.approx(np.add(wanted, spread), abs=0.002)
    assert found.n == 3 and found.value == pytest.approx(levels.mean())


def test_a_session_that_differs_is_no_outlier():
    """Of five runs each: what differs as a whole counts, a doubled run does not."""
    levels = np.repeat([1.0, 1.01, 0.99, 1.02, 1.4], 5) * np.tile(
        np.linspace(0.998, 1.002, 5), 5
    )
    sessions = [[np.repeat(range(5), 5)]]
    wanted = estimate(cells.AVERAGE, [levels], sessions=sessions)
    assert wanted.n == 5 and wanted.value == pytest.approx(levels.mean())
    levels[2] *= 2
    found = estimate(cells.AVERAGE, [levels], sessions=sessions)
    assert found.n == 5 and found[:3] == pytest.approx(wanted[:3], rel=0.01)


def test_the_cell_that_has_fewest_runs_says_n():
    """Five sessions of one cell do not stand for two runs of another."""
    runs = [[1.0, 1.1, 0.9, 1.05, 0.95], [2.0, 2.1]]
    sessions = [[[0, 1, 2, 3, 4], [0, 1]]]
    assert estimate(cells.AVERAGE, runs, sessions=sessions).n == 2
    assert estimate(cells.AVERAGE, runs[:1], sessions=[sessions[0][:1]]).n == 5


def test_one_session_has_no_bounds_where_it_matters():
    """Ten runs of one session say nothing of the next one; nor do two machines, a session each."""
    a, b = np.random.default_rng(7).lognormal(0, 0.1, (2, 10))
    alone = estimate(cells.AVERAGE, [a], sessions=[[[0] * 10]])
    assert alone.n == 1 and np.isnan(alone.low)
    unlike = estimate(cells.RATIO, [a], [b], sessions=[[[0] * 10], [[1] * 10]])
    assert unlike.n == 1 and np.isnan(unlike.low)
    shared = estimate(cells.RATIO, [a], [b], sessions=[[[0] * 10]] * 2)
    assert shared == estimate(cells.RATIO, [a], [b])
    design = cells.Design([a], sessions=[[[0] * 10]])
    within = design.estimate(cells.AVERAGE, within=True).interval(0.05)
    assert within == pytest.approx(estimate(cells.AVERAGE, [a])) and within.n == 10


def test_two_sessions_of_a_machine_say_too_little_of_another():
    """Of each machine three sessions are needed, of one machine's mean two."""
    runs = np.random.default_rng(8).lognormal(0, 0.1, (2, 6))
    for number, is_bounded in ((2, False), (3, True)):
        places = [[[place % number + 10 * side for place in range(6)]] for side in (0, 1)]
        found = estimate(cells.RATIO, runs[:1], runs[1:], sessions=places)
        assert found.n == number and np.isfinite(found.low) == is_bounded
        assert np.isfinite(estimate(cells.AVERAGE, runs[:1], sessions=places[:1]).low)


OF_ONE = np.linspace(0.99, 1.01, 10)
THREE = OF_ONE * np.r_[[2.0] * 3, [1.0] * 7]
TWO = [0] * 10 + [1] * 10  # sessions
FIFTEEN = 1 + 0.01 * np.tile([-1.0, 0.0, 1.0, 0.5, -0.5], 3)
FIVES = np.repeat(["a", "b", "c"], 5)


def double(runs, *places):
    """The runs, those of these places doubled."""
    return runs * np.where(np.isin(range(len(runs)), places), 2, 1)


@pytest.mark.parametrize(
    ("times", "sessions", "left_out", "is_bounded"),
    [
        # no session is left out, and no run of fewer than five
        (np.r_[np.linspace(1.29, 1.31, 4), OF_ONE[:6]], range(10), [], True),
        (np.r_[OF_ONE, 1.4, 0.7], [*TWO[:10], 1, 2], [], True),
        (np.array([1.0, 1.01, 0.99, 2.0]), [0, 0, 0, 0], [], False),
        # one in five at most: where there are more, none is, and nothing decides
        (double(OF_ONE, 0), TWO[:10], [0], False),
        (THREE, TWO[:10], [], False),
        (np.r_[THREE, OF_ONE * 1.1], TWO, [0, 1, 2], True),
        (np.r_[THREE, THREE * 1.1], TWO, [], False),
        (double(FIFTEEN, 0, 6, 12), FIVES, [0, 6, 12], True),
        (double(FIFTEEN, 0, 3, 6, 12), FIVES, [], False),
        # fast runs of a session whose slow ones are the outliers
        (double(FIFTEEN, 0), FIVES, [0], True),
        (double(FIFTEEN, 0, 1, 2), FIVES, [], False),
    ],
)
def test_one_run_in_five_at_most_is_an_outlier(times, sessions, left_out, is_bounded):
    """The mean is that of the others; with fewer than two sessions there are no bounds."""
    design = cells.Design([times], sessions=[[list(sessions)]])
    assert design.is_left_out.nonzero()[0].tolist() == left_out
    found = design.estimate(cells.AVERAGE).interval()
    assert np.isfinite(found.low) == is_bounded
    if len(set(sessions)) * 5 == len(times):
        assert found.value == pytest.approx(np.delete(times, left_out).mean(), rel=0.01)
    whole = cells.Design([times], sessions=[[list(sessions)]], keep_all=True)
    assert not whole.is_left_out.any()


def test_sessions_that_both_sides_share_are_pairs():
    """The ratio of runs in four sessions has Student's interval of the four differences."""
    rng = np.random.default_rng(8)
    effect = rng.normal(0, 0.3, 4)
    a, b = np.exp(effect + [[1.0], [0.0]] + rng.normal(0, 0.02, (2, 4)))
    found = estimate(cells.RATIO, [a], [b], sessions=[[range(4)]] * 2)
    difference = np.log(a / b)
    wanted = stats.t.interval(0.95, 3, difference.mean(), stats.sem(difference))
    assert np.log(found[1:3]) == pytest.approx(wanted, abs=1e-3) and found.n == 4


def test_what_lies_between_cells_widens_nothing():
    """Cells of 1, 10 and 100 s, each three times as long on one side: 3, within the noise of the
    repetitions.
    """
    b = [np.array([1.0, 1.02, 1.01]) * scale for scale in (1, 10, 100)]
    a = [3 * times for times in b]
    found = estimate(cells.RATIO, a, b)
    assert found.value == pytest.approx(3) and 2.9 < found.low < found.high < 3.1
    assert found.n == 3
    assert estimate(cells.DIFFERENCE, a, b).value == pytest.approx(2 * 1.01 * 111 / 3)
    assert estimate(cells.SUM, b).value == pytest.approx(1.01 * 111)
    assert estimate(cells.AVERAGE, b).value == pytest.approx(1.01 * 37)


def test_a_cell_has_a_spread_of_its_own():
    """A quiet cell beside a noisy one has the interval that it has alone."""
    rng = np.random.default_rng(9)
    quiet, noisy = rng.lognormal(0, 0.01, (2, 5)), rng.lognormal(0, 0.5, (2, 5))
    both = cells.Design([quiet[0], noisy[0]], [quiet[1], noisy[1]])
    alone = estimate(cells.RATIO, quiet[:1], quiet[1:])
    found = both.estimate(cells.RATIO.of_cell(0)).interval(0.05)
    assert found == pytest.approx(alone)


def test_outliers_are_those_of_rosner():
    """The example of NIST's handbook (1.3.5.17.3): three of 54 at 5 %. Two doubled times of ten
    do not hide each other; among four there is none.
    """
    found = cells.find_outliers(ROSNER, [0] * 54, error=0.05)
    assert found.nonzero()[0].tolist() == [51, 52, 53]
    doubled = [1.0, 1.01, 0.99, 1.02, 2.0, 0.98, 1.0, 2.02, 1.01, 0.99]
    assert cells.find_outliers(np.log(doubled), [0] * 10).nonzero()[0].tolist() == [4, 7]
    assert not cells.find_outliers([1.0, 1.0, 2.0, 1.01], [0] * 4).any()


def test_a_design_without_repetitions_has_no_bounds():
    """A value, and nothing to say how sure it is; nor do times that a clock rounded."""
    for sides in (([[1.0], [2.0]], [[2.0], [4.0]]), ([[3.0] * 3], [[6.0] * 3])):
        found = estimate(cells.RATIO, *sides)
        assert found.value == pytest.approx(0.5) and np.isnan([found.low, found.high]).all()


@pytest.mark.parametrize("side", [[], [[]], [[1.0, 0.0]], [[1.0, np.inf]]])
def test_refuses_what_are_no_times(side):
    """No cell, an empty one, nothing, or for ever."""
    with pytest.raises(BadSampleError, match="positive and finite|must have a cell"):
        cells.Design(side)


def test_a_difference_has_the_interval_of_welch():
    """At a coefficient of variation of 1 %, of a lower mean less a higher one: below 0."""
    rng = np.random.default_rng(6)
    low, high = rng.normal(100, 1, 8), rng.normal(120, 1, 9)
    found = estimate(cells.DIFFERENCE, [low], [high])
    welch = stats.ttest_ind(low, high, equal_var=False).confidence_interval(0.95)
    assert found[:3] == pytest.approx((low.mean() - high.mean(), *welch), abs=0.05)
    assert found.high < 0
