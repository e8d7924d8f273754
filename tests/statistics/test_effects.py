"""Effects of factors, held against Jain's worked examples, statsmodels and simulation."""

import itertools

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.formula.api import ols

from dr_lib.statistics.effects import (
    allocate_variation,
    estimate_effects,
    pool_spread,
    repetitions_for_precision,
)
from dr_lib.statistics.intervals import BadSampleError


def make_runs(cells: dict, factors: tuple[str, ...]) -> pd.DataFrame:
    """One row per run from {(levels): times}."""
    return pd.DataFrame(
        [(*key, time) for key, times in cells.items() for time in times],
        columns=[*factors, "time"],
    )


# Jain 1991, chapter 18: memory size x cache size, three repetitions
MEMORY_CACHE = make_runs(
    {(4, 1): [15, 18, 12], (16, 1): [45, 48, 51], (4, 2): [25, 28, 19], (16, 2): [75, 75, 81]},
    ("memory", "cache"),
)


def test_jains_memory_and_cache():
    """Sums of squares 5547, 1083, 300 and 102 of 7032: 78.88, 15.40, 4.27 and 1.45 %; his
    numbers as logarithms.
    """
    found = allocate_variation(
        MEMORY_CACHE.assign(time=np.exp(MEMORY_CACHE["time"])), ["memory", "cache"], "time"
    )
    assert found["term"].tolist() == ["memory", "cache", "memory x cache", "residual"]
    assert found["sum_of_squares"].tolist() == pytest.approx([5547, 1083, 300, 102])
    assert (100 * found["share"]).round(2).tolist() == [78.88, 15.40, 4.27, 1.45]
    assert found["dof"].tolist() == [1, 1, 1, 8] and found["num_factors"].tolist() == [
        1,
        1,
        2,
        0,
    ]


def test_the_logarithms_are_allocated_as_statsmodels_does():
    """Three factors, unequal repetitions: type II sums of squares, F and p of the saturated
    model.
    """
    rng = np.random.default_rng(3)
    cells = itertools.product("ab", [32, 64], [1, 2, 3])
    runs = make_runs(
        {cell: rng.lognormal(cell[2], 0.1, 2 + cell[2] % 2) for cell in cells}, ("x", "y", "z")
    )
    found = allocate_variation(runs, ["x", "y", "z"], "time").set_index("term")
    fitted = ols("np.log(time) ~ C(x) * C(y) * C(z)", runs).fit()
    wanted = sm.stats.anova_lm(fitted, typ=2)
    assert found["sum_of_squares"].tolist() == pytest.approx(wanted["sum_sq"].tolist())
    assert found["f"].tolist() == pytest.approx(wanted["F"].tolist(), nan_ok=True)
    # Holm 1979: the smallest of k times k, the next times k - 1, ...
    ranked = wanted["PR(>F)"].dropna().sort_values()
    adjusted = (
        (ranked * np.arange(len(ranked), 0, -1)).cummax().clip(upper=1).reindex(wanted.index)
    )
    assert found["p"].tolist() == pytest.approx(adjusted.tolist(), nan_ok=True)


def test_a_design_without_repetitions_has_shares_and_no_test():
    """One run a cell: all variation is the factors', F and p are unknown, effects have no
    bounds.
    """
    runs = MEMORY_CACHE.iloc[::3]
    found = allocate_variation(runs, ["memory", "cache"], "time")
    assert found["share"].sum() == pytest.approx(1) and found[["f", "p"]].isna().all(axis=None)
    assert (
        estimate_effects(runs, ["memory", "cache"], "time")[["effect_low", "effect_high"]]
        .isna()
        .all(axis=None)
    )


def test_effects_are_factors_on_the_mean_of_all():
    """Levels 1, 3 and 9 times a base: effects 1/3, 1 and 3, whatever the other factor and the
    numbers of runs.
    """
    cells = {
        (size, net): [size * net * 1.01, size * net / 1.01] * (1 + (size == 3))
        for size in (1, 3, 9)
        for net in (2, 5)
    }
    found = estimate_effects(
        make_runs(cells, ("size", "net")), ["size", "net"], "time"
    ).set_index(["factor", "level"])
    assert found["effect"]["size"].tolist() == pytest.approx([1 / 3, 1, 3])
    assert found["effect"]["net"].tolist() == pytest.approx([(2 / 5) ** 0.5, (5 / 2) ** 0.5])
    assert (found["effect_low"] < found["effect"]).all()
    assert (found["effect"] < found["effect_high"]).all()
    assert found["n"]["size"].tolist() == [4, 8, 4]


def test_the_interval_of_an_effect_is_the_linear_models():
    """Balanced: the half width is that of the contrast in statsmodels' sum coding."""
    rng = np.random.default_rng(8)
    runs = make_runs(
        {(a, b): rng.lognormal(0, 0.2, 4) for a in "xyz" for b in "pq"}, ("a", "b")
    )
    found = estimate_effects(runs, ["a", "b"], "time").set_index(["factor", "level"])
    bounds = ols("np.log(time) ~ C(a, Sum) * C(b, Sum)", runs).fit().conf_int()
    for level in "xy":
        wanted = np.exp(bounds.loc[f"C(a, Sum)[S.{level}]"]).tolist()
        effect = found.loc[("a", level), ["effect_low", "effect_high"]]
        assert effect.tolist() == pytest.approx(wanted)


def test_repetitions_for_a_precision():
    """The half width is 1.24 cv at n = 5 and 0.72 cv at n = 10."""
    assert (
        repetitions_for_precision(0.1, 0.1242) == 5
        and repetitions_for_precision(0.1, 0.1241) == 6
    )
    assert (
        repetitions_for_precision(0.1, 0.0716) == 10
        and repetitions_for_precision(1e-6, 0.05) == 2
    )


def test_the_spread_is_that_within_scenarios():
    """Two repetitions a factor e^0.1 apart have log times with a deviation of 0.1 / sqrt(2),
    whatever they take.
    """
    spread, num_repeated = pool_spread([[1.0, np.exp(0.1)], [5.0, 5 * np.exp(0.1)], [9.0]])
    assert spread == pytest.approx(0.1 / 2**0.5) and num_repeated == 2
    assert np.isnan(pool_spread([[1.0], [2.0]])[0])


@pytest.mark.parametrize(
    ("change", "factors", "told"),
    [
        ({}, ["memory", "disk"], "no column disk"),
        ({"time": 0.0}, ["memory", "cache"], "positive and finite"),
        ({"time": np.nan}, ["memory", "cache"], "positive and finite"),
        ({"cache": [None, 2.0] * 6}, ["memory", "cache"], "some runs have no cache"),
        ({"cache": 1}, ["cache"], "no factor has two levels"),
    ],
)
def test_bad_samples_are_told(change, factors, told):
    """A column that is not there, a time that is none, a run of unknown level, nothing to
    compare.
    """
    with pytest.raises(BadSampleError, match=told):
        allocate_variation(MEMORY_CACHE.assign(**change), factors, "time")


def test_an_empty_cell_is_named():
    """A design with a hole has no effects."""
    with pytest.raises(BadSampleError, match=r"cells without a run \(memory=16, cache=2\)"):
        allocate_variation(
            MEMORY_CACHE.query("memory == 4 or cache == 1"), ["memory", "cache"], "time"
        )


def test_bad_numbers_of_repetitions_are_told():
    """A spread of nothing, or more runs than there can be."""
    for numbers in ((0.0, 0.1), (1.0, 1e-9)):
        with pytest.raises(BadSampleError):
            repetitions_for_precision(*numbers)
