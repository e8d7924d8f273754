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
        EffectsError: a number is not positive, a cell of the design has no run, or no factor has
            two levels.
    """
    of_runs, of_sessions = _fit_design(runs, factors, column, sessions)
    anova = anova_lm(of_runs.model)
    tests = pd.DataFrame(math.nan, anova.index, ["F", "p"])
    for fit in filter(None, [of_runs, of_sessions]):
        terms = anova_lm(fit.model).index.drop("Residual")
        tests.loc[terms] = math.nan
        if fit.n >= MIN_COUNT:
            robust = anova_lm(fit.model, typ=3, robust="hc3").loc[terms]
            tests.loc[terms, "F"] = robust["F"]
            tests.loc[terms, "p"] = stats.f.sf(robust["F"], robust["df"], fit.n - 1)
    involved = anova.index.str.findall(r"C\((\w+), Sum\)")
    return pd.DataFrame(
        {
            "term": involved.str.join(" x ").where(involved.str.len() > 0, "residual"),
            "num_factors": involved.str.len(),
            "sum_of_squares": anova["sum_sq"].to_numpy(),
            "dof": anova["df"].to_numpy(int),
            "share": (anova["sum_sq"] / anova["sum_sq"].sum()).to_numpy(),
            "f": tests["F"].to_numpy(),
            "p": tests["p"].to_numpy(),
        }
    )


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
    of_runs, of_sessions = _fit_design(runs, factors, column, sessions)
    lines = []
    for factor in of_runs.factors:
        is_between = of_sessions and factor in of_sessions.factors
        model, _, n = of_sessions if is_between else of_runs
        # each level but the last has a coefficient, the last one the negative of their sum
        is_own = model.params.index.str.fullmatch(rf"C\({factor}, Sum\)\[S\.[^:]*\]")
        codes = np.eye(len(is_own))[is_own]
        contrasts = np.vstack([codes, -codes.sum(axis=0)])
        logs = contrasts @ model.params.to_numpy()
        half = np.full(len(logs), math.nan)
        if n >= MIN_COUNT:
            covariance = contrasts @ model.cov_HC3 @ contrasts.T
            half = stats.t.ppf(0.975, n - 1) * np.sqrt(np.diag(covariance))
        effects = pd.DataFrame(
            {
                "factor": factor,
                "level": _sort_levels(runs[factor]),
                "effect": np.exp(logs),
                "effect_low": np.exp(logs - half),
                "effect_high": np.exp(logs + half),
                "n": n,
            }
        )
        lines.append(effects)
    return pd.concat(lines, ignore_index=True)


def _fit_design(
    runs: pd.DataFrame, factors: Sequence[str], column: str, sessions: pd.Series
) -> tuple[Fit, Fit | None]:
    """Check the design, and fit it: all runs, and the means of sessions by the factors that no
    session varies, if there are any.
    """
    if runs[[*factors]].isna().any(axis=None):
        raise EffectsError("some runs have no level of a factor: leave out these runs")
    factors = [name for name in factors if runs[name].nunique() > 1]
    if not factors:
        raise EffectsError("no factor has two levels: there is nothing to compare")
    if "group" in runs and (runs.groupby(factors)["group"].nunique() > 1).any():
        raise EffectsError(
            "a cell has runs of several groups: pool them, or choose one by only"
        )
    times = runs[column].astype(float)
    if not (np.isfinite(times) & (times > 0)).all():
        raise EffectsError(f"{column} must be positive and finite: leave out other runs")
    table = pd.DataFrame({"log": np.log(times), "session": sessions})
    for name in factors:
        table[name] = pd.Categorical(runs[name], _sort_levels(runs[name]))
    counts = table.groupby(factors, observed=False).size()
    if (counts == 0).any():
        levels = np.atleast_1d(counts.idxmin())
        cell = ", ".join(map("{}={}".format, factors, levels))
        raise EffectsError(
            f"the design has cells without a run, such as {cell}: run them, or leave out the level"
        )
    num_levels = table.groupby("session")[factors].nunique().max()
    between = [name for name in factors if num_levels[name] == 1]
    if not between:
        return _fit(table, factors), None
    means = table.groupby(["session", *between], observed=True)["log"].mean().reset_index()
    return _fit(table, factors), _fit(means, between)


def _sort_levels(column: pd.Series) -> list:
    """Sort the levels of a factor: numbers, then texts."""
    return sorted(column.unique(), key=lambda level: (isinstance(level, str), level))


def _fit(table: pd.DataFrame, factors: Sequence[str]) -> Fit:
    """Fit the factors and their pairs, each level as its difference from the mean of all."""
    terms = " + ".join(f"C({name}, Sum)" for name in factors)
    model = ols(f"log ~ ({terms}) ** 2", table).fit()
    return Fit(model, factors, table.groupby(list(factors), observed=False).size().min())
