"""Estimate the effects of factors in a designed experiment.

A factorial design runs every level of every factor with every other; a cell is one combination, its
repetitions are its runs. Times are analysed on their logarithms, where a factor that multiplies
adds, and interactions that plain times pretend disappear (Jain 1991, The Art of Computer Systems
Performance Analysis, chapters 17 to 22). The model has all factors and the pairs of them.

Standard errors are HC3, which let each cell have its own spread. A noisy cell then decides alone
how well its spread is known, so the degrees of freedom are those of the smallest cell, as in the
conservative form of Welch's test.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from dr_lib.errors import DrError

MIN_COUNT = 3  # runs of a cell, or sessions, that an interval and a test need


class EffectsError(DrError):
    """The runs are no factorial design, or have times that are none."""


class Fit(NamedTuple):
    """A fitted model of some factors."""

    model: Any  # of statsmodels
    factors: Sequence[str]
    n: int  # of what counts, in the smallest cell


def allocate_variation(
    runs: pd.DataFrame, factors: Sequence[str], column: str, sessions: pd.Series
) -> pd.DataFrame:
    """Allocate the variation of a column's logarithms to the factors and their pairs.

    Args:
        runs: one row per run, every cell of the design at least once.
        factors: columns; those of one level are left out.
        column: positive numbers, a time say.
        sessions: of each run. A factor that no session varies, such as the machine, is tested on
            the means of sessions.

    Returns:
        A row per term, `residual` last: `term` (factors joined by " x "), `num_factors`,
        `sum_of_squares`, `dof`, `share` of their sum, `f` and `p`. Both are NaN below three runs of
        a cell, or three sessions.

    Raises:
        EffectsError: a level is missing, a number is not positive, a cell of the design has no
            run, or no factor has two levels.
    """
    table, factors = _read_design(runs, factors, column, sessions)
    of_runs = _fit(table, factors)
    of_sessions = _fit_sessions(table, factors)
    tests = {**_test(of_runs), **_test(of_sessions)}
    anova = anova_lm(of_runs.model)
    lines = []
    for name, row in anova.iterrows():
        involved = [factor for factor in factors if f"C({factor}, Sum)" in name.split(":")]
        f, p = tests.get(name, (math.nan, math.nan))
        line = {
            "term": " x ".join(involved) or "residual",
            "num_factors": len(involved),
            "sum_of_squares": row["sum_sq"],
            "dof": int(row["df"]),
            "share": row["sum_sq"] / anova["sum_sq"].sum(),
            "f": f,
            "p": p,
        }
        lines.append(line)
    return pd.DataFrame(lines)


def estimate_effects(
    runs: pd.DataFrame, factors: Sequence[str], column: str, sessions: pd.Series
) -> pd.DataFrame:
    """Estimate the factor by which each level of each factor multiplies a time.

    The effect is the geometric mean over the level's cells divided by that over all cells.

    Takes and raises what `allocate_variation` does.

    Returns:
        A row per level: `factor`, `level`, `effect` with `effect_low` and `effect_high` (95 %), and
        `n`, runs of the smallest cell, or sessions.
    """
    table, factors = _read_design(runs, factors, column, sessions)
    of_runs = _fit(table, factors)
    of_sessions = _fit_sessions(table, factors)
    lines = []
    for factor in factors:
        model, _, n = of_sessions if factor in of_sessions.factors else of_runs
        is_own = [name.startswith(f"C({factor}, Sum)[S.") for name in model.params.index]
        is_main = [":" not in name for name in model.params.index]
        codes = np.eye(len(is_own))[np.array(is_own) & np.array(is_main)]
        contrasts = np.vstack([codes, -codes.sum(axis=0)])
        logs = contrasts @ model.params.to_numpy()
        half = np.full(len(logs), math.nan)
        if n >= MIN_COUNT:
            covariance = contrasts @ model.cov_HC3 @ contrasts.T
            half = stats.t.ppf(0.975, n - 1) * np.sqrt(np.diag(covariance))
        effects = pd.DataFrame(
            {
                "factor": factor,
                "level": list(table[factor].cat.categories),
                "effect": np.exp(logs),
                "effect_low": np.exp(logs - half),
                "effect_high": np.exp(logs + half),
                "n": n,
            }
        )
        lines.append(effects)
    return pd.concat(lines, ignore_index=True)


def _read_design(
    runs: pd.DataFrame, factors: Sequence[str], column: str, sessions: pd.Series
) -> tuple[pd.DataFrame, list[str]]:
    """Check the design; return its factors, the logarithms and sessions, and the factors of two
    levels and more.
    """
    nameless = [name for name in factors if runs[name].isna().any()]
    if nameless:
        raise EffectsError(
            f"some runs have no {', '.join(nameless)}: fill it in, or leave out these runs"
        )
    factors = [name for name in factors if runs[name].nunique() > 1]
    if not factors:
        raise EffectsError("no factor has two levels: there is nothing to compare")
    times = runs[column].astype(float)
    if not (np.isfinite(times) & (times > 0)).all():
        raise EffectsError(f"{column} must be positive and finite: leave out other runs")
    table = pd.DataFrame({"log": np.log(times), "session": sessions})
    for name in factors:
        levels = sorted(runs[name].unique(), key=lambda level: (isinstance(level, str), level))
        table[name] = pd.Categorical(runs[name], levels)
    counts = table.groupby(factors, observed=False).size()
    if (counts == 0).any():
        empty = counts.index[counts == 0][0]
        levels = empty if isinstance(empty, tuple) else (empty,)
        cell = ", ".join(map("{}={}".format, factors, levels))
        raise EffectsError(
            f"the design has cells without a run, such as {cell}: run them, or leave out the level"
        )
    return table, factors


def _fit(table: pd.DataFrame, factors: Sequence[str]) -> Fit:
    """Fit the factors and their pairs, each level as its difference from the mean of all."""
    terms = " + ".join(f"C({name}, Sum)" for name in factors)
    model = ols(f"log ~ ({terms}) ** 2", table).fit()
    return Fit(model, factors, table.groupby(list(factors), observed=False).size().min())


def _fit_sessions(table: pd.DataFrame, factors: Sequence[str]) -> Fit:
    """Fit the means of sessions by the factors that no session varies."""
    num_levels = table.groupby("session")[list(factors)].nunique()
    between = [name for name in factors if num_levels[name].max() == 1]
    if not between:
        return Fit(None, (), 0)
    means = table.groupby(["session", *between], observed=True)["log"].mean().reset_index()
    return _fit(means, between)


def _test(fit: Fit) -> dict[str, tuple[float, float]]:
    """Test each term of a model; return F and p by its name in statsmodels."""
    if not fit.factors:
        return {}
    if fit.n < MIN_COUNT:
        return {name: (math.nan, math.nan) for name in anova_lm(fit.model).index}
    anova = anova_lm(fit.model, typ=3, robust="hc3").drop(index=["Intercept", "Residual"])
    p = stats.f.sf(anova["F"], anova["df"], fit.n - 1)
    return dict(zip(anova.index, zip(anova["F"], p, strict=True), strict=True))
