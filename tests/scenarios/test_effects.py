"""Effects of factors, compared with Jain's worked examples, statsmodels and simulation."""

import itertools

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.formula.api import ols

from dr_lib.scenarios.effects import allocate_variation, estimate_effects
from dr_lib.statistics.intervals import BadSampleError


def design(cells, *factors):
    """One row per run from {(levels): times}, the factors, and the column of times."""
    rows = [(*key, time) for key, times in cells.items() for time in times]
    return pd.DataFrame(rows, columns=[*factors, "time"]), list(factors), "time"


def estimate_contrast(cells, weights):
    """A contrast of mean logarithms, its standard error and Satterthwaite's degrees of freedom."""
    logs = [np.log(times) for times in cells.values()]
    variances = np.array([x.var(ddof=1) / len(x) for x in logs]) * np.square(weights)
    dof = variances.sum() ** 2 / (variances**2 / [len(x) - 1 for x in logs]).sum()
    return np.dot(weights, [x.mean() for x in logs]), variances.sum() ** 0.5, dof


# Jain 1991, chapter 18: memory size x cache size, three repetitions
MEMORY_CACHE = design(
    {(4, 1): [15, 18, 12], (16, 1): [45, 48, 51], (4, 2): [25, 28, 19], (16, 2): [75, 75, 81]},
    "memory",
    "cache",
)


def test_jains_memory_and_cache():
    """Sums of squares 5547, 1083, 300 and 102 of 7032: 78.88, 15.40, 4.27 and 1.45 %; his
    numbers as logarithms.
    """
    runs, *study = MEMORY_CACHE
    found = allocate_variation(runs.assign(time=np.exp(runs["time"])), *study)
    assert found["term"].tolist() == ["memory", "cache", "memory x cache", "residual"]
    assert found["sum_of_squares"].tolist() == pytest.approx([5547, 1083, 300, 102])
    assert (100 * found["share"]).round(2).tolist() == [78.88, 15.40, 4.27, 1.45]
    assert found["dof"].tolist() == [1, 1, 1, 8]
    assert found["num_factors"].tolist() == [1, 1, 2, 0]


def test_equal_spread_is_tested_as_statsmodels_does():
    """Three factors, equal repetitions whose cells vary alike: sums of squares and F of the
    saturated model.
    """
    keys = itertools.product("ab", [32, 64], [1, 2, 3])
    cells = {key: np.exp(k % 5 + np.array([0.1, -0.1, 0])) for k, key in enumerate(keys)}
    runs, *study = design(cells, "x", "y", "z")
    found = allocate_variation(runs, *study)
    expected = sm.stats.anova_lm(ols("np.log(time) ~ C(x) * C(y) * C(z)", runs).fit(), typ=2)
    for ours, theirs in (("sum_of_squares", "sum_sq"), ("f", "F"), ("dof", "df")):
        assert found[ours].tolist() == pytest.approx(expected[theirs].tolist(), nan_ok=True)


def test_two_levels_of_unequal_spread_are_tested_as_welch_does():
    """Terms of two levels: t and Satterthwaite's degrees of freedom by hand, p by Holm."""
    rng = np.random.default_rng(3)
    spreads = {(0, 0): (0.3, 3), (0, 1): (0.02, 5), (1, 0): (0.1, 3), (1, 1): (0.02, 4)}
    cells = {
        (a, b): rng.lognormal(a + 0.1 * b, spread, n) for (a, b), (spread, n) in spreads.items()
    }
    found = allocate_variation(*design(cells, "a", "b"))[:3]
    signs = ([-1, -1, 1, 1], [-1, 1, -1, 1], [1, -1, -1, 1])
    mean, error, dof = np.transpose([estimate_contrast(cells, sign) for sign in signs])
    assert found["f"].tolist() == pytest.approx((mean / error) ** 2)
    p = np.sort(2 * stats.t.sf(abs(mean / error), dof)) * [3, 2, 1]
    expected = np.minimum(np.maximum.accumulate(p), 1)
    assert np.sort(found["p"]).tolist() == pytest.approx(expected)


def test_cells_count_equally_however_often_they_ran():
    """6, 1, 1 and 6 runs, one factor doubles the time, one halves it: half of the variation
    each, and all of it together. A cell that ran once has no spread of its own.
    """
    near = np.array([0.99, 1.01] * 3)
    cells = {("a", 1): near, ("a", 2): [0.5], ("b", 1): [2.0], ("b", 2): near}
    found = allocate_variation(*design(cells, "x", "y"))
    assert found["share"].sum() == pytest.approx(1)
    assert found["share"][:2].tolist() == pytest.approx([0.5, 0.5], abs=1e-3)
    assert found["p"].isna().all()


@pytest.mark.parametrize("num_sessions", [1, 3])
def test_a_machine_counts_sessions(num_sessions):
    """Two machines of one session each: no bounds and no p for the machine, both for what
    every session ran; with three sessions each there are some.
    """
    rng = np.random.default_rng(4)
    rows = [
        (machine, net, machine + str(run % num_sessions), rng.lognormal(net, 0.02))
        for machine, net, run in itertools.product("ab", [1, 2], range(6))
    ]
    runs = pd.DataFrame(rows, columns=["machine", "net", "session", "time"])
    study = (runs, ["machine", "net"], "time", runs["session"])
    effects = estimate_effects(*study).set_index("factor")
    p = allocate_variation(*study).set_index("term")["p"]
    is_known = effects["effect_low"].notna()
    assert is_known["machine"].tolist() == [num_sessions == 3] * 2
    assert np.isfinite(p["machine"]) == (num_sessions == 3)
    assert set(effects["n"]["machine"]) == {num_sessions}
    assert is_known["net"].all()
    assert p["net"] < 0.001


def test_a_design_without_repetitions_has_shares_and_no_test():
    """One run a cell: all variation is the factors', F and p are unknown, effects have no
    bounds.
    """
    runs, *study = MEMORY_CACHE
    found = allocate_variation(runs[::3], *study)
    assert found["share"].sum() == pytest.approx(1)
    assert found[["f", "p"]].isna().all(axis=None)
    effects = estimate_effects(runs[::3], *study)
    assert effects[["effect_low", "effect_high"]].isna().all(axis=None)


def test_effects_are_factors_on_the_mean_of_all():
    """Levels 1, 3 and 9 times a base: effects 1/3, 1 and 3, whatever the other factor and the
    numbers of runs; n is of the cell that has fewest.
    """
    cells = {
        (size, net): [size * net * 1.01, size * net / 1.01] * (1 + (size == 3))
        for size, net in itertools.product((1, 3, 9), (2, 5))
    }
    found = estimate_effects(*design(cells, "size", "net"))
    assert found["effect"].tolist() == pytest.approx([1 / 3, 1, 3, 0.4**0.5, 2.5**0.5])
    assert (found["effect_low"] < found["effect"]).all()
    assert (found["effect"] < found["effect_high"]).all()
    assert set(found["n"]) == {2}


def check_first_effect(cells, half, rel=1e-6):
    """The effect of the first of three levels beside two others, and half of its interval."""
    found = estimate_effects(*design(cells, "a", "b")).iloc[0]
    mean, *_ = estimate_contrast(cells, np.repeat([1 / 3, -1 / 6, -1 / 6], 2))
    expected = np.exp(mean + np.array([0, -half, half]))
    assert found[["effect", "effect_low", "effect_high"]].tolist() == pytest.approx(
        expected, rel=rel
    )


def test_the_interval_of_an_effect_is_satterthwaites():
    """Six cells, of which two vary more and ran less: the contrast's own variance and degrees of
    freedom, at 3 %.
    """
    rng = np.random.default_rng(8)
    cells = {
        (a, b): rng.lognormal(0, *((0.2, 3) if a == "x" else (0.02, 5)))
        for a, b in itertools.product("xyz", "pq")
    }
    _, error, dof = estimate_contrast(cells, np.repeat([1 / 3, -1 / 6, -1 / 6], 2))
    check_first_effect(cells, stats.t.ppf(0.985, dof) * error)


def test_two_runs_that_are_alike_by_chance_prove_no_effect():
    """Beside quiet cells of five runs the mean of a noisy cell of two is far from theirs. By hand:
    at 3 % t is 21.2 with one degree of freedom, and p is (5 / 3) times 2 atan(1 / t) / pi.
    """
    quiet = np.exp([-0.02, -0.01, 0.0, 0.01, 0.02])
    cells = dict.fromkeys(itertools.product("xyz", "pq"), quiet)
    cells["x", "p"] = np.exp([0.29, 0.31])
    check_first_effect(cells, 21.205 / 3 * 0.02 / 2, rel=1e-4)
    p = allocate_variation(*design(cells, "a", "b")).set_index("term")["p"]
    assert p["b"] == pytest.approx(5 / 3 * 2 / np.pi * np.arctan(0.01 / 0.3))


HOLE = r"cells without a run \(memory=16, cache=2\), so memory and cache cannot"


@pytest.mark.parametrize(
    ("change", "factors", "named"),
    [
        ({"time": 0.0}, ["memory", "cache"], "positive and finite"),
        ({"time": np.nan}, ["memory", "cache"], "positive and finite"),
        ({"cache": [None, 2.0] * 6}, ["memory", "cache"], "some runs have no cache"),
        ({"cache": 1}, ["cache"], "no factor has two levels"),
        ({"memory": [4] * 3 + [16] * 3 + [4] * 6}, ["memory", "cache"], HOLE),
    ],
)
def test_bad_samples_are_refused(change, factors, named):
    """A time that is none, a run of unknown level, nothing to compare; of a design with a hole,
    the factors that it mixes up.
    """
    with pytest.raises(BadSampleError, match=named):
        allocate_variation(MEMORY_CACHE[0].assign(**change), factors, "time")
