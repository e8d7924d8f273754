"""Estimate the effects of factors in a designed experiment.

A factorial design runs every level of every factor with every other; a cell is one combination, its
repetitions are its runs. Times are analysed on their logarithms, where a factor that multiplies
adds, and interactions that plain times pretend disappear (Jain 1991, The Art of Computer Systems
Performance Analysis, chapters 17 to 22).
"""

import itertools
import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import linalg, stats

from dr_lib.statistics.cells import ERROR, MIN_SESSIONS, Design, Statistic
from dr_lib.statistics.intervals import LEVEL, BadSampleError, Measured, tabulate


def allocate_variation(
    runs: pd.DataFrame,
    factors: Sequence[str],
    column: str,
    sessions: pd.Series | None = None,
) -> pd.DataFrame:
    """Allocate the variation of a column's logarithms to the factors, their interactions and the
    repetitions.

    Cells count equally, however often each was repeated, so the shares add up to one. Each cell
    keeps its own spread in the tests, whose statistic is that of Brunner, Dette and Munk (1997, J.
    Am. Stat. Assoc. 92); no p is below that by a cell of two runs alone.

    Args:
        runs: one row per run, every cell of the design at least once.
        factors: columns; those of one level are left out.
        column: positive numbers, a time say.
        sessions: of each run, as `select.name_sessions` names them.

    Returns:
        A row per term in the order of its number of factors, `residual` last: `term` (factors
        joined by " x "), `num_factors`, `sum_of_squares` (of the cells' means; of the repetitions,
        the mean variance of the cells, those of one run left out; both times the number of runs),
        `dof`, `share` of their sum, `f` and `p`, by Holm's method for all terms together, NaN where
        a cell, or a session that a term rests on, is not repeated.

    Raises:
        BadSampleError: a level is missing, a number is not positive, a cell of the design has no
            run, or no factor has two levels.
    """
    design = _fit(runs, factors, column, sessions)
    num_levels = [len(levels) for levels in design.levels]
    num_cells = math.prod(num_levels)
    lines = []
    for number in range(1, len(num_levels) + 1):
        for term in itertools.combinations(range(len(num_levels)), number):
            contrasts = _list_contrasts(num_levels, term)
            lines.append(
                {
                    "term": " x ".join(design.factors[place] for place in term),
                    "num_factors": number,
                    "sum_of_squares": ((contrasts @ design.model.mean) ** 2).sum() / num_cells,
                    "dof": len(contrasts),
                    **_test(design.model, contrasts),
                }
            )
    num_runs = design.model.num_runs
    is_repeated = num_runs > 1
    variance = (design.model.variance * (num_runs - 1) / num_runs)[is_repeated]
    # the variation between the repetitions of a cell
    residual = {"term": "residual", "num_factors": 0, "f": np.nan, "p": np.nan}
    residual["sum_of_squares"] = variance.mean() if is_repeated.any() else 0.0
    residual["dof"] = int(num_runs.sum()) - num_cells
    found = pd.DataFrame([*lines, residual])
    # Holm 1979, Scand. J. Stat. 6: the smallest of k times k, the next times k - 1
    ranked = found["p"].dropna().sort_values()
    found["p"] = (ranked * np.arange(len(ranked), 0, -1)).cummax().clip(upper=1)
    # a cell of two runs alone moves all terms alike, and errs as its interval does
    least = found.pop("least") * (1 - LEVEL) / ERROR
    found["p"] = np.maximum(found["p"], least.clip(upper=1))
    total = found["sum_of_squares"].sum()
    found.insert(4, "share", found["sum_of_squares"] / total if total else np.nan)
    found["sum_of_squares"] *= num_runs.sum()
    return found


def estimate_effects(
    runs: pd.DataFrame,
    factors: Sequence[str],
    column: str,
    sessions: pd.Series | None = None,
) -> pd.DataFrame:
    """Estimate the factor by which each level of each factor multiplies a time.

    The effect is the geometric mean over the level's cells divided by that over all cells; every
    cell counts the same, however often it was repeated. The interval takes each cell's own spread;
    that of a machine takes the spread between sessions, of three or more.

    Takes and raises what `allocate_variation` does.

    Returns:
        A row per level: `factor`, `level`, `effect` with `effect_low` and `effect_high`, and `n`,
        which counts what is independent: runs of the cell that has fewest, or sessions.
    """
    design = _fit(runs, factors, column, sessions)
    num_left_out = int(design.model.is_left_out.sum())
    everything = _fit(runs, factors, column, sessions, keep_all=True).model
    cells = list(itertools.product(*design.levels))
    lines = []
    for place, factor in enumerate(design.factors):
        for level in design.levels[place]:
            member = np.array([cell[place] == level for cell in cells])
            contrast = member / member.sum() - 1 / len(cells)
            statistic = Statistic(
                lambda side, contrast=contrast: np.exp(np.log(side) @ contrast),
                is_geometric=True,
            )
            effect = Measured(*design.model.estimate(statistic).interval())
            if num_left_out:
                over_all = everything.estimate(statistic).interval().value
                effect = effect._replace(num_left_out=num_left_out, over_all=over_all)
            lines.append({"factor": factor, "level": level, "effect": effect, "n": effect.n})
    return tabulate(lines)


def _test(model: Design, contrasts: np.ndarray) -> dict[str, float]:
    """Test that orthonormal contrasts of the cells' mean logarithms, (r, K), are all zero.

    Returns:
        `f`, `p`, and `least`: p by the cell of two runs that says least, alone, 0 without one. NaN
        where a cell, or a session that matters, is not repeated.
    """
    weights = [model.find_weights(contrast) for contrast in contrasts]
    runs = np.array([each.runs for each in weights])
    blocks = np.array([each.blocks for each in weights])
    is_between = (blocks != 0).any(axis=0)
    is_few = is_between & (model.num_sessions < MIN_SESSIONS)
    of_block = np.where(is_between, model.between / np.maximum(model.num_sessions, 1), 0.0)
    covariance = (runs * model.noise[model.cell]) @ runs.T + (blocks * of_block) @ blocks.T
    parts = sum(map(model.list_variances, weights, contrasts))
    total = np.trace(covariance)
    if is_few.any() or model.has_many_outliers or not total > 0:
        return dict.fromkeys(("f", "p", "least"), np.nan)
    f = ((contrasts @ model.mean) ** 2).sum() / total
    dof = total**2 / (covariance**2).sum()
    is_part = parts > 0
    dof_of_total = total**2 / (parts[is_part] ** 2 / model.part_dofs[is_part]).sum()
    few = parts[: contrasts.shape[1]][model.num_runs == 2].max(initial=0.0)
    least = stats.f.sf(f * total / few, 1, 1) if few else 0.0
    return {"f": f, "p": stats.f.sf(f, dof, dof_of_total), "least": least}


def _list_contrasts(num_levels: Sequence[int], term: Collection[int]) -> np.ndarray:
    """List orthonormal contrasts of the cells' means that make up a term: (r, cells)."""
    contrasts = np.ones((1, 1))
    for place, number in enumerate(num_levels):
        of_factor = np.full((1, number), number**-0.5)
        if place in term:
            of_factor = linalg.helmert(number)
        contrasts = np.kron(contrasts, of_factor)
    return contrasts


class _Factorial(NamedTuple):
    """A fitted factorial design, whose cells are in the order of `itertools.product`."""

    factors: list[str]  # with two levels and more
    levels: list[list]
    model: Design


def _fit(
    runs: pd.DataFrame,
    factors: Sequence[str],
    column: str,
    sessions: pd.Series | None,
    *,
    keep_all: bool = False,
) -> _Factorial:
    """Fit the cells of the factors with at least two levels."""
    nameless = [name for name in factors if runs[name].isna().any()]
    if nameless:
        raise BadSampleError(
            f"some runs have no {', '.join(nameless)}: fill it in, or leave out these runs"
        )
    factors = [name for name in factors if runs[name].nunique() > 1]
    if not factors:
        raise BadSampleError("no factor has two levels: there is nothing to compare")
    levels = [_find_levels(runs[name]) for name in factors]
    places = runs.groupby(factors).indices
    cells = list(itertools.product(*levels))
    places = {key if isinstance(key, tuple) else (key,): place for key, place in places.items()}
    empty = [cell for cell in cells if cell not in places]
    if empty:
        named = "; ".join(", ".join(map("{}={}".format, factors, key)) for key in empty[:3])
        named += "; ..." * (len(empty) > 3)
        raise BadSampleError(
            f"the design has cells without a run ({named}), so"
            f" {' and '.join(_find_confounded(runs, factors))} cannot be told apart: run them, or"
            " leave out the level"
        )
    times = [runs[column].to_numpy()[places[cell]] for cell in cells]
    if sessions is not None:
        sessions = [[sessions.to_numpy()[places[cell]] for cell in cells]]
    return _Factorial(factors, levels, Design(times, sessions=sessions, keep_all=keep_all))


def _find_confounded(runs: pd.DataFrame, factors: Sequence[str]) -> list[str]:
    """Find the fewest factors of which some levels never ran together."""
    for number in range(2, len(factors) + 1):
        for some in map(list, itertools.combinations(factors, number)):
            num_cells = math.prod(runs[name].nunique() for name in some)
            if len(runs[some].drop_duplicates()) < num_cells:
                return some
    return list(factors)


def _find_levels(levels: pd.Series) -> list:
    """Sort the levels, numbers as numbers and mixtures as text."""
    levels = levels.unique().tolist()
    try:
        return sorted(levels)
    except TypeError:
        return sorted(levels, key=str)
