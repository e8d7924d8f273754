"""Estimate the effects of factors in a designed experiment, and the repetitions that it needs.

A factorial design runs every level of every factor with every other; a cell is one combination, its
repetitions are its runs. Times are analysed on their logarithms, where a factor that multiplies
adds, and interactions that plain times pretend disappear (Jain 1991, The Art of Computer Systems
Performance Analysis, chapters 17 to 22).
"""

import bisect
import itertools
import math
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from dr_lib.statistics.intervals import UPPER, BadSampleError, check_times

RESIDUAL = "residual"  # the variation between the repetitions of a cell
MAX_RUNS = 1_000_000_000  # what needs more is no experiment


def allocate_variation(runs: pd.DataFrame, factors: Sequence[str], column: str) -> pd.DataFrame:
    """Allocate the variation of a column's logarithms to the factors, their interactions and the
    repetitions.

    Args:
        runs: one row per run, every cell of the design at least once.
        factors: columns; those of one level are left out.
        column: positive numbers, a time say.

    Returns:
        A row per term in the order of its number of factors, `residual` last: `term` (factors
        joined by " x "), `num_factors`, `sum_of_squares` (type II), `dof`, `share` of the total sum
        of squares, `f` and `p`, by Holm's method for all terms together, NaN where no cell is
        repeated. The shares add up to one where all cells are repeated equally often.

    Raises:
        BadSampleError: a column is missing, a level is, a number is not positive, a cell of the
            design has no run, or no factor has two levels.
    """
    from statsmodels.formula.api import ols  # takes a second to import
    from statsmodels.stats.anova import anova_lm
    from statsmodels.stats.multitest import multipletests

    factors, cells = _read_cells(runs, factors, column)
    table = pd.DataFrame([(*key, value) for key, values in cells.items() for value in values])
    names = [f"f{position}" for position in range(len(factors))]
    table.columns = [*names, "y"]
    is_repeated = len(table) > len(cells)
    fitted = ols("y ~ " + " * ".join(f"C({name})" for name in names), table).fit()
    with np.errstate(divide="ignore", invalid="ignore"):  # F without repetitions
        found = anova_lm(fitted, typ=2 if is_repeated else 1)
    found = found.rename(
        columns={"sum_sq": "sum_of_squares", "df": "dof", "F": "f", "PR(>F)": "p"}
    )
    found = found[["sum_of_squares", "dof", "f", "p"]]
    if not is_repeated:  # every effect is exact, and nothing is left to test it against
        found = found.assign(f=np.nan, p=np.nan).fillna({"sum_of_squares": 0.0})
    terms = [
        [factors[int(part[3:-1])] for part in term.split(":")] if term != "Residual" else []
        for term in found.index
    ]
    found.insert(0, "term", [" x ".join(term) or RESIDUAL for term in terms])
    found.insert(1, "num_factors", [len(term) for term in terms])
    total = ((table["y"] - table["y"].mean()) ** 2).sum()
    is_tested = found["p"].notna()
    if is_tested.any():
        found.loc[is_tested, "p"] = multipletests(found.loc[is_tested, "p"], method="holm")[1]
    found.insert(4, "share", found["sum_of_squares"] / total if total else np.nan)
    return found.reset_index(drop=True)


def estimate_effects(runs: pd.DataFrame, factors: Sequence[str], column: str) -> pd.DataFrame:
    """Estimate the factor by which each level of each factor multiplies a time.

    The effect is the geometric mean over the level's cells divided by that over all cells; every
    cell counts the same, however often it was repeated. The interval comes from the spread between
    repetitions, pooled over the cells (Jain 1991, chapter 22); without repetitions it has no
    bounds.

    Takes and raises what `allocate_variation` does.

    Returns:
        A row per level: `factor`, `level`, `effect` with `effect_low` and `effect_high`, and `n`
        runs.
    """
    factors, cells = _read_cells(runs, factors, column)
    keys = list(cells)
    counts = np.array([len(values) for values in cells.values()])
    means = np.array([np.mean(values) for values in cells.values()])
    variance, dof = pool_variance(cells.values())
    lines = []
    for position, factor in enumerate(factors):
        for level in _find_levels(runs[factor]):
            member = np.array([key[position] == level for key in keys])
            contrast = member / member.sum() - 1 / len(keys)
            half = np.nan
            if dof:
                spread = math.sqrt(variance * (contrast**2 / counts).sum())
                half = stats.t.ppf(UPPER, dof) * spread
            bounds = np.exp(contrast @ means + np.array([0, -half, half]))
            lines.append((factor, level, *bounds, int(counts[member].sum())))
    names = ["factor", "level", "effect", "effect_low", "effect_high", "n"]
    return pd.DataFrame(lines, columns=names)


def pool_variance(groups: Collection[np.ndarray]) -> tuple[float, int]:
    """Pool the variance within groups, (n,) each, with its degrees of freedom; NaN and 0 if no
    group
    has two values.
    """
    dof = sum(len(group) - 1 for group in groups)
    if not dof:
        return np.nan, 0
    return sum(((group - np.mean(group)) ** 2).sum() for group in groups) / dof, dof


def pool_spread(times: Iterable[Sequence[float]]) -> tuple[float, int]:
    """Pool the variation of repetitions within scenarios, from the positive times of each.

    Returns:
        The deviation of the logarithms, which is a coefficient of variation, and the number of
        scenarios it rests on: those that were repeated.
    """
    logs = [np.log(group) for group in times if len(group) > 1]
    return math.sqrt(pool_variance(logs)[0]), len(logs)


def repetitions_for_precision(cv: float, half_width: float) -> int:
    """Find the smallest number of runs whose mean has a 95 % interval of at most this half width.

    Args:
        cv: coefficient of variation of one run.
        half_width: relative to the mean, 0.05 for 5 %.

    Raises:
        BadSampleError: a number is not positive and finite, or more than a billion runs would be
            needed.
    """
    if not (0 < cv < math.inf and 0 < half_width < math.inf):
        raise BadSampleError(f"cv {cv} and half_width {half_width} must be positive and finite")

    def is_enough(n: int) -> bool:
        return stats.t.ppf(UPPER, n - 1) * cv / math.sqrt(n) <= half_width

    n = 2 + bisect.bisect_left(range(2, MAX_RUNS), True, key=is_enough)
    if n == MAX_RUNS:
        raise BadSampleError(
            f"that takes {MAX_RUNS:,} runs or more: choose a larger half_width"
        )
    return n


def _read_cells(
    runs: pd.DataFrame, factors: Sequence[str], column: str
) -> tuple[list[str], dict[tuple, np.ndarray]]:
    """Read the factors with at least two levels, and the logarithms of each cell."""
    missing = [name for name in (*factors, column) if name not in runs]
    if missing:
        raise BadSampleError(
            f"no column {', '.join(missing)}: the rows have {', '.join(map(str, runs.columns))}"
        )
    nameless = [name for name in factors if runs[name].isna().any()]
    if nameless:
        raise BadSampleError(
            f"some runs have no {', '.join(nameless)}: fill it in, or leave out these runs"
        )
    factors = [name for name in factors if runs[name].nunique() > 1]
    if not factors:
        raise BadSampleError("no factor has two levels: there is nothing to compare")
    groups = dict(list(runs.groupby(factors)[column]))
    designed = itertools.product(*(_find_levels(runs[name]) for name in factors))
    empty = [
        ", ".join(map("{}={}".format, factors, key)) for key in designed if key not in groups
    ]
    if empty:
        named = "; ".join(empty[:3]) + "; ..." * (len(empty) > 3)
        raise BadSampleError(
            f"the design has cells without a run ({named}): run them, or leave out the level"
        )
    return factors, {key: np.log(check_times(values)) for key, values in groups.items()}


def _find_levels(levels: pd.Series) -> list:
    """Sort the levels, numbers as numbers and mixtures as text."""
    levels = levels.unique().tolist()
    try:
        return sorted(levels)
    except TypeError:
        return sorted(levels, key=str)
