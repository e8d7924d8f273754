"""Effects of factors, compared with Jain's worked example, sums by hand and simulation."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dr_lib.scenarios.effects import (
    EffectsError,
    allocate_variation,
    estimate_effects,
)


def design(cells, *factors):
    """One row per run from {(levels): times}, the factors, the column of times, and the session."""
    rows = [(*key, time) for key, times in cells.items() for time in times]
    runs = pd.DataFrame(rows, columns=[*factors, "time"])
    return runs, list(factors), "time", pd.Series("one", runs.index)


def measure(groups, weights):
    """A weighted sum of the mean logarithms of groups and its standard error: HC3 divides each
    residual by 1 - 1/n, so the variance of a mean is s^2 / (n - 1).
    """
    logs = [np.log(times) for times in groups]
    variances = [x.var(ddof=1) / (len(x) - 1) for x in logs]
    value = np.dot(weights, [x.mean() for x in logs])
    return value, np.dot(np.square(weights), variances) ** 0.5


# Jain 1991, chapter 18: memory size x cache size, three repetitions
MEMORY_CACHE = design(
    {(4, 1): [15, 18, 12], (16, 1): [45, 48, 51], (4, 2): [25, 28, 19], (16, 2): [75, 75, 81]},
    "memory",
    "cache",
)
HOLE = r"cells without a run, such as memory=16, cache=2: run them"


def test_jains_memory_and_cache():
    """Sums of squares 5547, 1083, 300 and 102 of 7032: 78.88, 15.40, 4.27 and 1.45 %; his
    numbers as logarithms.
    """
    runs, *study = MEMORY_CACHE
    found = allocate_variation(runs.assign(time=np.exp(runs["time"])), *study)
    assert found["term"].tolist() == ["memory", "cache", "memory x cache", "residual"]
    assert found["sum_of_squares"].tolist() == pytest.approx([5547, 1083, 300, 102])
    assert (100 * found["share"]).round(2).tolist() == [78.88, 15.40, 4.27, 1.45]
    assert found["share"].sum() == pytest.approx(1)
    assert found["dof"].tolist() == [1, 1, 1, 8]
    assert found["num_factors"].tolist() == [1, 1, 2, 0]


UNEQUAL = {(0, 0): (0.3, 3), (0, 1): (0.02, 5), (1, 0): (0.1, 4), (1, 1): (0.02, 4)}


def test_cells_of_unequal_spread_are_tested_by_hand():
    """F of each contrast, and p with the degrees of freedom of the smallest cell, 2; the interval
    of a level's effect likewise. Shares add up to one however often a cell ran.
    """
    rng = np.random.default_rng(3)
    cells = {
        (a, b): rng.lognormal(a + 0.1 * b, spread, n) for (a, b), (spread, n) in UNEQUAL.items()
    }
    study = design(cells, "a", "b")
    found = allocate_variation(*study)
    assert found["share"].sum() == pytest.approx(1)
    signs = ([-1, -1, 1, 1], [-1, 1, -1, 1], [1, -1, -1, 1])
    value, error = np.transpose([measure(cells.values(), sign) for sign in signs])
    assert found["f"][:3].tolist() == pytest.approx((value / error) ** 2)
    assert found["p"][:3].tolist() == pytest.approx(2 * stats.t.sf(abs(value / error), 2))
    effect = estimate_effects(*study).iloc[1]
    value, error = measure(cells.values(), [-0.25, -0.25, 0.25, 0.25])
    half = stats.t.ppf(0.975, 2) * error
    expected = np.exp([value, value - half, value + half])
    assert effect[["effect", "effect_low", "effect_high"]].tolist() == pytest.approx(expected)
    assert (effect["factor"], effect["level"], effect["n"]) == ("a", 1, 3)


@pytest.mark.parametrize("num_sessions", [2, 3])
def test_a_machine_counts_sessions(num_sessions):
    """Two machines of fewer than three sessions each: no bounds and no p for the machine, both for
    what every session ran. With three sessions each, those of their means.
    """
    rng = np.random.default_rng(4)
    rows = [
        (machine, net, f"{machine}{run % num_sessions}", rng.lognormal(net, 0.02))
        for machine, net, run in itertools.product("ab", [1, 2], range(6))
    ]
    runs = pd.DataFrame(rows, columns=["machine", "net", "session", "time"])
    study = (runs, ["machine", "net"], "time", runs["session"])
    effects = estimate_effects(*study).set_index("factor")
    p = allocate_variation(*study).set_index("term")["p"]
    is_known = effects["effect_low"].notna()
    assert is_known["machine"].tolist() == [num_sessions == 3] * 2
    assert set(effects["n"]["machine"]) == {num_sessions}
    assert is_known["net"].all() and p["net"] < 0.01
    if num_sessions == 3:
        means = np.exp(np.log(runs["time"]).groupby(runs["session"]).mean())
        value, error = measure([means[:3], means[3:]], [-1, 1])
        assert p["machine"] == pytest.approx(2 * stats.t.sf(abs(value / error), 2))
    else:
        assert np.isnan(p["machine"])


def test_fewer_than_three_runs_of_a_cell_have_shares_and_no_test():
    """Two runs that are alike by chance prove no effect."""
    table = MEMORY_CACHE[0]
    runs = table.groupby(["memory", "cache"]).head(2)
    study = (runs, *MEMORY_CACHE[1:3], pd.Series("one", runs.index))
    found = allocate_variation(*study)
    assert found["share"].sum() == pytest.approx(1)
    assert found[["f", "p"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("change", "factors", "named"),
    [
        ({"time": np.nan}, ["memory", "cache"], "positive and finite"),
        ({"cache": [None, 2.0] * 6}, ["memory", "cache"], "some runs have no level"),
        ({"memory": [4] * 3 + [16] * 3 + [4] * 6}, ["memory", "cache"], HOLE),
        ({"group": ["old", "new"] * 6}, ["memory", "cache"], "runs of several groups"),
    ],
)
def test_bad_samples_are_refused(change, factors, named):
    """A time that is none, a run of unknown level, nothing to compare, a design with a hole."""
    runs, _, _, sessions = MEMORY_CACHE
    with pytest.raises(EffectsError, match=named):
        allocate_variation(runs.assign(**change), factors, "time", sessions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("levels", "num_runs", "noise"),
    [
        ((2, 2), 3, 0.3),
        ((3, 2, 2, 2), 5, 0.3),
    ],
)
def test_one_noisy_cell_makes_no_other_factor_significant(levels, num_runs, noise):
    """No factor has an effect, one cell spreads 15 times as much: each term errs in at most 6 % of
    1,000 studies, where 5 is nominal and 1.4 twice the standard error.
    """
    rng = np.random.default_rng(5)
    names = list("abcd"[: len(levels)])
    table = pd.DataFrame(list(itertools.product(*map(range, levels))) * num_runs, columns=names)
    spread = np.where((table[names] == 0).all(axis=1), noise, 0.02)
    errors = 0
    for _ in range(1000):
        runs = table.assign(time=np.exp(rng.normal(0, spread)))
        found = allocate_variation(runs, names, "time", pd.Series("one", runs.index))
        errors += (found["p"] < 0.05).to_numpy()
    assert errors.max() <= 60
