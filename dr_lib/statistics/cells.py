"""Bound statistics of a design's cells: means over cells, ratios, differences, sums.

What disturbs a run multiplies its time, so the runs of a cell are taken as log-normal: a cell's
logarithms have a mean m and a variance v of its own, and its arithmetic mean is exp(m + v / 2). All
times of one session share its host, neighbours and temperature, so a run's logarithm is its cell's
mean, its session's effect and its own noise, fitted by least squares. Where sessions cancel, as in
the ratio of two cells that one session ran, what is estimated rests on runs; where they do not, as
in a mean or in the ratio of two machines, on sessions.

Bounds come by the delta method from all that varies, with the degrees of freedom of Satterthwaite
(1946, Biometrics Bulletin 2). For the mean of one cell they are Cox's (Olsson 2005, J. Stat. Educ.
13-1), for the ratio of two Welch's, of the logarithms.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from scipy.sparse.csgraph import connected_components

from dr_lib.statistics.intervals import BadSampleError, Interval, check_times, widen

# nominal, of an interval called 95 %: approximation and outliers take the rest
ERROR = 0.03
STEP = 1e-4  # of a logarithm, for slopes
ROUNDING = 1e-12
OUTLIER_ERROR = 0.005  # chance that runs without outliers lose one
MAX_OUTLIERS = 0.4  # of the runs of a cell
MIN_RUNS_TOLD = 5  # of a cell: among fewer no outlier can be told


class Statistic(NamedTuple):
    """A statistic of the mean times of cells, of one side or of two."""

    compute: Callable[..., np.ndarray]  # (..., cells) of each side -> (...)
    is_positive: bool = True  # its interval is that of its logarithm

    def of_cell(self, k: int) -> "Statistic":
        """The same statistic of one cell per side."""
        return Statistic(
            lambda *sides: self.compute(*(side[..., [k]] for side in sides)), self.is_positive
        )


# over cells, of the mean within each, however often it was repeated
AVERAGE = Statistic(lambda side: side.mean(axis=-1))
# what one run of every cell takes together
SUM = Statistic(lambda side: side.sum(axis=-1))
# the geometric mean over cells of the ratio of means within each
RATIO = Statistic(lambda a, b: np.exp(np.log(a / b).mean(axis=-1)))
RATIO_OF_SUMS = Statistic(lambda a, b: a.sum(axis=-1) / b.sum(axis=-1))
# the mean over cells of the difference within each
DIFFERENCE = Statistic(lambda a, b: (a - b).mean(axis=-1), is_positive=False)


class Estimate(NamedTuple):
    """An estimate of a statistic."""

    value: float  # of the means as measured; it and `centre` are logarithms where `is_log`
    centre: float  # of the interval
    parts: np.ndarray  # (parts, 2) variances that add up, each with its degrees of freedom
    # runs of the cell that has fewest, or sessions where their effects do not cancel and are fewer
    n: int
    is_log: bool

    def interval(self, error: float = ERROR) -> Interval:
        """The interval that misses with this probability, half of it on each side.

        Without a repetition of what `n` counts there are no bounds.
        """
        half = widen(self.parts, error)
        centre = (
            self.centre if half else self.value
        )  # what never varied is sure to the last digit
        ends = np.array([self.value, centre - half, centre + half])
        if self.is_log:
            ends = np.exp(ends)
        return Interval(*map(float, ends), self.n)


class Design:
    """The runs of a comparison, their cells and sessions, and the fitted model.

    N runs, K cells over all sides, S sessions. A block is what cells and sessions connect.
    """

    def __init__(
        self,
        *sides: Sequence[ArrayLike],
        sessions: Sequence[Sequence[Sequence[Hashable]]] | None = None,
    ) -> None:
        """Fit cells and sessions.

        Args:
            sides: for each, the runs of its cells; any positive numbers in one unit.
            sessions: of each run; None where what was measured is no matter of a machine.

        Raises:
            BadSampleError: a side has no cell, a cell has no run, or a number is not positive and
                finite.
        """
        self.ends = np.cumsum([len(side) for side in sides])[:-1]  # of each side's cells
        runs = [check_times(cell) for side in sides for cell in side]
        if not all(map(len, sides)) or not all(map(len, runs)):
            raise BadSampleError("each side must have a cell, and each cell a run")
        self.times = np.concatenate(runs)
        self.cell = np.repeat(np.arange(len(runs)), list(map(len, runs)))  # (N,) places
        self.session = np.zeros(len(self.times), dtype=int)  # (N,) places
        of_session = np.empty((len(self.times), 0))
        if sessions is not None:  # no matter of a machine has outliers
            labels = np.concatenate([cell for side in sessions for cell in side])
            is_outlier = np.concatenate([find_outliers(np.log(times)) for times in runs])
            # runs of a session that are all far off show how far sessions differ
            alike = pd.Series(is_outlier).groupby([self.cell, labels])
            is_level = alike.transform("all") & (alike.transform("size") > 1)
            is_inlier = ~is_outlier | is_level.to_numpy()
            self.times = self.times[is_inlier]
            self.cell = self.cell[is_inlier]
            self.session, labels = pd.factorize(labels[is_inlier])
            of_session = np.eye(len(labels))[self.session]
        of_cell = np.eye(len(runs))[self.cell]

        factors = np.hstack([of_cell, of_session])
        self.inverse = np.linalg.pinv(factors)  # (K + S, N)
        logs = np.log(self.times)
        fitted = self.inverse @ logs
        residuals = logs - factors @ fitted
        residuals[np.abs(residuals) < ROUNDING] = 0.0
        leverage = np.einsum("ij,ji->i", factors, self.inverse)
        self.num_runs = of_cell.sum(axis=0)
        # within a cell and its sessions
        self.dof = (of_cell.T @ (1 - leverage)).round(9)
        self.noise = np.full(len(self.dof), np.nan)
        np.divide(of_cell.T @ residuals**2, self.dof, out=self.noise, where=self.dof > 0)
        # within a cell, whatever its session
        deviations = logs - (of_cell.T @ logs / self.num_runs)[self.cell]
        deviations[np.abs(deviations) < ROUNDING] = 0.0
        self.variance = of_cell.T @ deviations**2 / np.maximum(self.num_runs - 1, 1)

        met = factors.T @ factors  # which cells and sessions do
        _, block = connected_components(met, directed=False)
        self.block, self.session_block = np.split(block, [len(self.num_runs)])
        # of the logarithms, in a session as on average
        self.mean, self.effects = np.split(fitted, [len(self.num_runs)])
        for one in set(self.session_block):
            level = self.effects[self.session_block == one].mean()
            self.effects[self.session_block == one] -= level
            self.effects[np.abs(self.effects) < ROUNDING] = 0.0
            self.mean[self.block == one] += level

    def estimate(self, statistic: Statistic) -> Estimate:
        """Estimate a statistic of the cells of each side."""
        slopes = self._find_slopes(statistic)
        session_slopes, parts = self._weigh_sessions(slopes)
        variance, dof = self.variance, np.maximum(self.num_runs - 1, 1)
        times = self.times
        if len(self.effects) and not parts:  # sessions cancel
            variance, dof = self.noise, self.dof
            times = times / np.exp(self.effects[self.session])

        n = [*self.num_runs[slopes != 0], *(dof + 1 for _, dof in parts)]
        weights = np.concatenate([slopes, session_slopes]) @ self.inverse  # of the runs
        if parts:  # without what the spread between sessions holds already
            weights -= (session_slopes / np.bincount(self.session))[self.session]
        squares = np.bincount(self.cell, weights**2, len(slopes))
        is_weighed = squares > ROUNDING * (slopes**2).max()
        parts += zip(np.where(is_weighed, squares * self.noise, 0.0), self.dof, strict=True)
        # half of the variance lies between the mean of the logarithms and that of the times
        parts += zip((slopes * variance) ** 2 / (2 * dof), dof, strict=True)

        means = np.bincount(self.cell, times) / self.num_runs
        return Estimate(
            value=float(self._compute(statistic, np.log(means))),
            centre=float(self._compute(statistic, self.mean + variance / 2)),
            parts=np.array(parts),
            n=int(min(n)),
            is_log=statistic.is_positive,
        )

    def _weigh_sessions(self, slopes: np.ndarray) -> tuple[np.ndarray, list[tuple]]:
        """Compute each session's effect on a statistic, and the variance that results.

        Args:
            slopes: of the statistic, by each cell's log mean.

        Returns:
            (S,) slopes, and for each block whose sessions do not cancel the variance and its
            degrees of freedom.
        """
        session_slopes = np.zeros(len(self.effects))
        parts = []
        for block in set(self.session_block):
            slope = slopes[self.block == block].sum()
            if abs(slope) > STEP * np.abs(slopes).max():
                is_here = self.session_block == block
                num_sessions = is_here.sum()
                session_slopes[is_here] = slope / num_sessions
                between = np.nan
                if num_sessions > 1:
                    between = self.effects[is_here].var(ddof=1)
                parts.append((slope**2 * between / num_sessions, num_sessions - 1))
        return session_slopes, parts

    def _find_slopes(self, statistic: Statistic) -> np.ndarray:
        """Differentiate the statistic by the logarithm of each cell's mean: (K,)."""
        centre = self.mean + self.variance / 2
        steps = STEP * np.eye(len(centre))
        up = self._compute(statistic, centre + steps)
        down = self._compute(statistic, centre - steps)
        return (up - down) / (2 * STEP)

    def _compute(self, statistic: Statistic, logs: np.ndarray) -> np.ndarray:
        """Compute the statistic, or its logarithm, from the logarithms of cells' means: (...,
        K).
        """
        found = statistic.compute(*np.split(np.exp(logs), self.ends, axis=-1))
        return np.log(found) if statistic.is_positive else found


def divide_deviations(a: ArrayLike, b: ArrayLike, error: float = ERROR) -> Interval:
    """Compute the ratio of the standard deviations of `a` and `b`.

    The interval is F's, of the deviations of the logarithms, and Welch's of their means, added in
    squares (MOVER; Zou and Donner 2008, Stat. Med. 27).

    Args:
        a: positive times, (n,).
        b: the reference's, in the same unit.
        error: chance that the interval misses.
    """
    a = check_times(a)
    b = check_times(b)
    n = min(a.size, b.size)
    if n < 2 or not np.ptp(a) or not np.ptp(b):  # times that a clock rounded have no spread
        return Interval(np.nan, np.nan, np.nan, n)
    value = np.log(a.std(ddof=1) / b.std(ddof=1))
    ends = 0.5 * np.log(stats.f.ppf([1 - error / 2, error / 2], a.size - 1, b.size - 1))
    variances = [np.log(side).var(ddof=1) / side.size for side in (a, b)]
    dofs = [a.size - 1, b.size - 1]
    half = np.hypot(ends, widen(np.column_stack([variances, dofs]), error))
    return Interval(*map(float, np.exp([value, value - half[0], value + half[1]])), n)


def find_outliers(values: ArrayLike, error: float = OUTLIER_ERROR) -> np.ndarray:
    """Mark outliers by the generalised ESD test (Rosner 1983, Technometrics 25), on both sides.

    Args:
        values: normal but for the outliers, (n,); fewer than five have none.
        error: chance that values without outliers have one marked.
    """
    values = np.asarray(values, dtype=float)
    is_left = np.ones(len(values), dtype=bool)
    is_inlier = is_left.copy()
    if len(values) < MIN_RUNS_TOLD:
        return ~is_inlier
    for _ in range(int(MAX_OUTLIERS * len(values))):
        left = values[is_left]
        distance = np.where(is_left, np.abs(values - left.mean()), -1.0)
        n = len(left)
        t = stats.t.ppf(1 - error / (2 * n), n - 2)
        limit = (n - 1) * t / np.sqrt((n - 2 + t**2) * n)
        is_beyond = distance.max() > limit * left.std(ddof=1)
        is_left[distance.argmax()] = False
        if is_beyond:
            is_inlier = is_left.copy()
    return ~is_inlier
