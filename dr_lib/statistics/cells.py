"""Bound what is computed from the cells of a design: means over cells, ratios, differences, sums,
shares of variation.

What disturbs a run multiplies its time, so the runs of a cell are taken as log-normal. The
logarithms of a cell's runs have a mean m and a variance v, and what m and v may truly be is drawn:
v = s2 d / chi2(d), m = mean + z sqrt(v / n). Whatever is computed from the draws has quantiles, and
those bound it (generalised confidence intervals; Weerahandi 1993, JASA 88; Krishnamoorthy and
Mathew 2003, J. Stat. Plan. Inference 115). The ratio of two cells gets the interval of Behrens and
Fisher, and what has no formula, as a difference of log-normal means, is bounded in the same way.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dr_lib.statistics.effects import pool_variance
from dr_lib.statistics.intervals import BadSampleError, Interval

NUM_DRAWS = 10_000
# nominal, of an interval called 95 %: of three runs that vary by 30 % its bounds miss more often
ERROR = 0.035
# of logarithms: a factor of 20,000 between runs; what is drawn wider overflows
MAX_VARIANCE = 100.0


class Cells(NamedTuple):
    """The cells of one side of a comparison, measured or drawn; each field is (..., cells)."""

    mean: np.ndarray  # arithmetic, of the times
    median: np.ndarray  # the geometric mean
    deviation: np.ndarray  # standard deviation of the times
    variance: np.ndarray  # of the logarithms


Statistic = Callable[..., np.ndarray]  # Cells of one side or of two -> (...) numbers


def average(side: Cells) -> np.ndarray:
    """The mean over cells of the mean within each, however often it was repeated."""
    return side.mean.mean(axis=-1)


def add(side: Cells) -> np.ndarray:
    """What one run of every cell takes together."""
    return side.mean.sum(axis=-1)


def divide(a: Cells, b: Cells) -> np.ndarray:
    """How many times as long `a` takes as `b`: the geometric mean over cells of the ratio within
    each.
    """
    return np.exp((np.log(a.median) - np.log(b.median)).mean(axis=-1))


def divide_sums(a: Cells, b: Cells) -> np.ndarray:
    """How many times as much all cells of `a` take together as all of `b`."""
    return add(a) / add(b)


def subtract(a: Cells, b: Cells) -> np.ndarray:
    """How much longer `a` takes than `b`: the mean over cells of the difference within each."""
    return (a.mean - b.mean).mean(axis=-1)


def divide_deviations(a: Cells, b: Cells) -> np.ndarray:
    """How many times as wide `a` spreads as `b`, by standard deviations of the times."""
    return average(Cells(a.deviation, *a[1:])) / average(Cells(b.deviation, *b[1:]))


def share_of_variation(levels: Sequence) -> Statistic:
    """The share of the variation of log times that a factor explains alone, in a design with every
    cell once.

    Args:
        levels: of the factor, one for each cell.
    """
    _, level = np.unique(np.asarray(levels).astype(str), return_inverse=True)
    member = np.eye(level.max() + 1)[level]  # (cells, levels)

    def share(side: Cells) -> np.ndarray:
        logs = np.log(side.median)
        logs = logs - logs.mean(axis=-1, keepdims=True)
        explained = ((logs @ (member / member.sum(axis=0))) ** 2 @ member.sum(axis=0)) / len(
            level
        )
        return explained / ((logs**2).mean(axis=-1) + side.variance.mean(axis=-1))

    return share


def bound(statistic: Statistic, *sides: Sequence[ArrayLike], error: float = ERROR) -> Interval:
    """Estimate a statistic of all cells, with the bounds of its interval.

    The spread is pooled over the cells of a side, for three to ten runs of one cell say little of
    it: a side is one machine and one kind of work, whose runs vary by about the same percentage.

    Args:
        statistic: of the cells of each side.
        sides: for each, the runs of its cells; any positive numbers in one unit.
        error: chance that the interval misses, half of it on each side.

    Returns:
        The statistic of the cells as measured; `n` is the number of runs of the smaller side.
        Without a cell that was repeated on each side there are no bounds.

    Raises:
        BadSampleError: a side has no cell, a cell has no run, or a number is not positive and
            finite.
    """
    return _summarise(statistic, *_sample(sides), error)


def bound_each(
    statistic: Statistic, *sides: Sequence[ArrayLike], error: float = ERROR
) -> list[Interval]:
    """Estimate a statistic of each cell alone; with `error` for all intervals together
    (Bonferroni).

    Args and errors as for `bound`, with which it shares the pooled spread.
    """
    measured, drawn, n = _sample(sides)
    num_cells = len(sides[0])
    found = []
    for k in range(num_cells):
        alone, spread = (
            [Cells(*(field[..., [k]] for field in side)) for side in both]
            for both in (measured, drawn)
        )
        found.append(_summarise(statistic, alone, spread, n, error / num_cells))
    return found


def _summarise(
    statistic: Statistic, measured: list[Cells], drawn: list[Cells], n: int, error: float
) -> Interval:
    value = float(statistic(*measured))
    low, high = np.quantile(statistic(*drawn), [error / 2, 1 - error / 2])
    return Interval(value, float(low), float(high), n)


def _sample(sides: Sequence[Sequence[ArrayLike]]) -> tuple[list[Cells], list[Cells], int]:
    """The cells of each side as measured, what they may truly be, and the runs of the smaller
    side.
    """
    rng = np.random.default_rng(0)
    measured = []
    drawn = []
    counts = []
    for side in sides:
        runs = [np.asarray(cell, dtype=float).ravel() for cell in side]
        if not runs or not all(
            len(cell) and np.all(np.isfinite(cell) & (cell > 0)) for cell in runs
        ):
            raise BadSampleError(
                "runs have to be positive and finite, one at least in each cell"
            )
        logs = [np.log(cell) for cell in runs]
        sizes = np.array([len(cell) for cell in runs])
        counts.append(int(sizes.sum()))
        variance, dof = pool_variance(logs)
        log_means = np.array([np.mean(x) for x in logs])
        means = np.array([np.mean(cell) for cell in runs])
        deviations = np.array([cell.std(ddof=1) if len(cell) > 1 else np.nan for cell in runs])
        measured.append(
            Cells(means, np.exp(log_means), deviations, np.full(len(runs), variance))
        )

        variances = np.full((NUM_DRAWS, 1), np.nan)
        if dof:
            variances = variance * dof / rng.chisquare(dof, (NUM_DRAWS, 1))
        variances = np.minimum(variances, MAX_VARIANCE)
        errors = rng.standard_normal((NUM_DRAWS, len(runs))) * np.sqrt(variances / sizes)
        log_means = log_means + errors
        means = np.exp(log_means + variances / 2)
        deviations = means * np.sqrt(np.expm1(variances))
        variances = np.broadcast_to(variances, means.shape)
        drawn.append(Cells(means, np.exp(log_means), deviations, variances))
    return measured, drawn, min(counts)
