"""Bound statistics of a design's cells: means over cells, ratios, differences, sums.

What disturbs a run multiplies its time, so the runs of a cell are taken as log-normal: a cell's
logarithms have a mean m and a variance v of its own, and its arithmetic mean is exp(m + v / 2). All
times of one session share its host, neighbours and temperature, so a run's logarithm is its cell's
mean, its session's effect and its own noise, fitted by least squares. Where sessions cancel, as in
the ratio of two cells that one session ran, what is estimated rests on runs; where they do not, as
in a mean or in the ratio of two machines, on sessions. A mean of a single session has bounds
within this session alone, which say nothing of the next one.

Bounds come by the delta method from all that varies, with the degrees of freedom of Satterthwaite
(1946, Biometrics Bulletin 2). For the mean of one cell they are Cox's (Olsson 2005, J. Stat. Educ.
13-1), for the ratio of two Welch's, of the logarithms.
"""

import math
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
MAX_OUTLIERS = 0.2  # of the runs of a cell, in sessions of five of them or more
MIN_SESSIONS = 3  # of each machine that is compared with another


class Statistic(NamedTuple):
    """A statistic of the mean times of cells, of one side or of two."""

    compute: Callable[..., np.ndarray]  # (..., cells) of each side -> (...)
    is_positive: bool = True  # its interval is that of its logarithm
    is_geometric: bool = False  # of the geometric means of cells

    def of_cell(self, k: int) -> "Statistic":
        """The same statistic of one cell per side."""
        return Statistic(
            lambda *sides: self.compute(*(side[..., [k]] for side in sides)), *self[1:]
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

    value: float  # of the means as measured
    centre: float  # of the interval, a logarithm where `is_log`
    parts: np.ndarray  # (parts, 2) variances that add up, each with its degrees of freedom
    few: np.ndarray  # the variances of cells of two runs among them
    # runs of the cell that has fewest, or sessions where their effects do not cancel and are fewer
    n: int
    is_log: bool
    is_exact: bool

    def interval(self, error: float = ERROR) -> Interval:
        """The interval that misses with this probability, half of it on each side.

        It is at least as wide as by each cell of two runs alone: where these are alike by chance,
        the sum of the variances hides how little is known of it. Without a repetition of what `n`
        counts there are no bounds, and none where equal times come from a clock that rounds.
        """
        alone = [widen([(variance, 1)], error) for variance in self.few]
        half = max([widen(self.parts, error), *alone])
        if not half:
            end = self.value if self.is_exact else np.nan
            return Interval(self.value, end, end, self.n)
        ends = self.centre + half * np.array([-1, 1])
        if self.is_log:
            ends = np.exp(ends)
        return Interval(self.value, *map(float, ends), self.n)


class Weights(NamedTuple):
    """What a contrast of cells' logarithms takes of each run, and of each block's sessions."""

    runs: np.ndarray  # (N,)
    blocks: np.ndarray  # (B,) 0 where sessions cancel


class Design:
    """The runs of a comparison, their cells and sessions, and the fitted model.

    N runs, K cells over all sides, S sessions. A block is what cells and sessions connect.
    `is_left_out` marks the outliers among all runs as they were given. Where more than one run in
    five of a cell is one, or one is fast, so that the slow runs of its session may be the outliers,
    none is left out, and nothing has bounds: `has_many_outliers`.
    """

    def __init__(
        self,
        *sides: Sequence[ArrayLike],
        sessions: Sequence[Sequence[Sequence[Hashable]]] | None = None,
        keep_all: bool = False,
        is_exact: bool = False,
    ) -> None:
        """Fit cells and sessions.

        Args:
            sides: for each, the runs of its cells; any positive numbers in one unit.
            sessions: of each run; None where what was measured is no matter of a machine.
            keep_all: outliers, too.
            is_exact: equal numbers are sure, as prices are and times are not.

        Raises:
            BadSampleError: a side has no cell, a cell has no run, or a number is not positive and
                finite.
        """
        self.is_exact = is_exact
        self.ends = np.cumsum([len(side) for side in sides])[:-1]  # of each side's cells
        runs = [check_times(cell) for side in sides for cell in side]
        if not all(map(len, sides)) or not all(map(len, runs)):
            raise BadSampleError("each side must have a cell, and each cell a run")
        self.times = np.concatenate(runs)
        self.cell = np.repeat(np.arange(len(runs)), list(map(len, runs)))  # (N,) places
        self.session = np.zeros(len(self.times), dtype=int)  # (N,) places
        self.is_left_out = np.zeros(len(self.times), dtype=bool)
        self.has_many_outliers = False
        of_session = np.empty((len(self.times), 0))
        if sessions is not None:  # no matter of a machine has outliers
            labels = np.concatenate([cell for side in sessions for cell in side])
            if not keep_all:
                self._mark_outliers(labels)
            self.times = self.times[~self.is_left_out]
            self.cell = self.cell[~self.is_left_out]
            self.session, labels = pd.factorize(labels[~self.is_left_out])
            of_session = np.eye(len(labels))[self.session]
        of_cell = np.eye(len(runs))[self.cell]
        self.num_runs = of_cell.sum(axis=0)
        self._fit(of_cell, np.hstack([of_cell, of_session]))
        # of the parts of any contrast: the noise of each cell, the sessions of each block
        self.part_dofs = np.concatenate([self.dof, self.num_sessions - 1])

    def _mark_outliers(self, labels: np.ndarray) -> None:
        """Mark the outliers of each cell that has few of them, all slow."""
        for k in range(self.cell.max() + 1):
            is_here = self.cell == k
            signs = find_outliers(np.log(self.times[is_here]), labels[is_here])
            if signs.min() < 0 or signs.mean() > MAX_OUTLIERS:
                self.has_many_outliers = True
            else:
                self.is_left_out[is_here] = signs > 0

    def _fit(self, of_cell: np.ndarray, factors: np.ndarray) -> None:
        """Fit the logarithms by cells and sessions, and estimate what varies within each cell.

        Args:
            of_cell: (N, K), which cell each run is of.
            factors: (N, K + S), and which session.
        """
        self.inverse = np.linalg.pinv(factors)  # (K + S, N)
        logs = np.log(self.times)
        fitted = self.inverse @ logs
        residuals = logs - factors @ fitted
        residuals[np.abs(residuals) < ROUNDING] = 0.0
        leverage = np.einsum("ij,ji->i", factors, self.inverse)
        # within a cell and its sessions
        self.dof = (of_cell.T @ (1 - leverage)).round(9)
        self.noise = of_cell.T @ residuals**2 / np.where(self.dof > 0, self.dof, np.nan)
        # within a cell, over its sessions
        deviations = logs - (of_cell.T @ logs / self.num_runs)[self.cell]
        deviations[np.abs(deviations) < ROUNDING] = 0.0
        self.variance = of_cell.T @ deviations**2 / np.maximum(self.num_runs - 1, 1)
        met = factors.T @ factors  # which cells and sessions do
        self._find_blocks(*connected_components(met, directed=False), fitted)

    def _find_blocks(self, num_blocks: int, block: np.ndarray, fitted: np.ndarray) -> None:
        """Split the fit into the mean of each cell and the effect of each session, which is 0 on
        average over a block's.
        """
        self.block, self.session_block = np.split(block, [len(self.num_runs)])
        # of the logarithms, in a session as on average
        self.mean, self.effects = np.split(fitted, [len(self.num_runs)])
        self.num_sessions = np.bincount(self.session_block, minlength=num_blocks)
        self.between = np.full(num_blocks, np.nan)  # variance between the sessions of a block
        for one in set(self.session_block):
            is_here = self.session_block == one
            level = self.effects[is_here].mean()
            self.effects[is_here] -= level
            self.effects[np.abs(self.effects) < ROUNDING] = 0.0
            self.mean[self.block == one] += level
            if self.num_sessions[one] > 1:
                self.between[one] = self.effects[is_here].var(ddof=1)

    def estimate(self, statistic: Statistic, *, within: bool = False) -> Estimate:
        """Estimate a statistic of the cells of each side.

        Args:
            statistic: of their means.
            within: the interval is for the sessions that were run alone.
        """
        slopes = self._find_slopes(statistic)
        weights = self.find_weights(slopes, within=within)
        is_between = weights.blocks != 0
        if is_between.sum() > 1 and (self.num_sessions[is_between] < MIN_SESSIONS).any():
            weights = weights._replace(blocks=np.where(is_between, np.nan, 0.0))
        variances = self.list_variances(weights, slopes)
        dofs = self.part_dofs
        if self.has_many_outliers:
            variances = np.full_like(variances, np.nan)
        few = variances[: len(slopes)][self.num_runs == 2]
        n = [*self.num_runs[slopes != 0]]
        variance = self.variance
        dof = np.maximum(self.num_runs - 1, 1)
        times = self.times
        if is_between.any():
            n += [*self.num_sessions[is_between]]
        elif len(self.effects):  # sessions cancel
            variance = self.noise
            dof = self.dof
            times = times / np.exp(self.effects[self.session])

        means = self._average(times)
        centre = self.mean
        if statistic.is_geometric:
            means = np.exp(centre)
        else:  # half of the variance lies between the mean of the logarithms and that of the times
            centre = centre + variance / 2
            variances = np.append(variances, (slopes * variance) ** 2 / (2 * dof))
            dofs = np.append(dofs, dof)
        return Estimate(
            value=float(statistic.compute(*np.split(means, self.ends))),
            centre=float(self._compute(statistic, centre)),
            parts=np.column_stack([variances, dofs]),
            few=few,
            n=int(min(n)),
            is_log=statistic.is_positive,
            is_exact=self.is_exact,
        )

    def find_weights(self, slopes: np.ndarray, *, within: bool = False) -> Weights:
        """Compute what a contrast with these slopes takes of each run, and of each block."""
        blocks = np.zeros(len(self.num_sessions))
        np.add.at(blocks, self.block, slopes)
        is_cancelled = np.abs(blocks) <= STEP * np.abs(slopes).max()
        blocks = np.where(is_cancelled | (self.num_sessions == 0), 0.0, blocks)
        # each session of a block counts the same
        of_session = (blocks / np.maximum(self.num_sessions, 1))[self.session_block]
        runs = np.concatenate([slopes, of_session]) @ self.inverse
        if within:
            blocks = np.zeros_like(blocks)
        elif blocks.any():  # without what the spread between sessions has already
            runs -= (of_session / np.bincount(self.session))[self.session]
        return Weights(runs, blocks)

    def list_variances(self, weights: Weights, slopes: np.ndarray) -> np.ndarray:
        """List the variances of a contrast: of the noise of each cell, and of each block's
        sessions.
        """
        squares = np.bincount(self.cell, weights.runs**2, len(self.num_runs))
        is_weighed = squares > ROUNDING * (slopes**2).max()
        of_cells = np.where(is_weighed, squares * self.noise, 0.0)
        of_block = self.between / np.maximum(self.num_sessions, 1)
        of_blocks = np.where(weights.blocks == 0, 0.0, weights.blocks**2 * of_block)
        return np.concatenate([of_cells, of_blocks])

    def _average(self, times: np.ndarray) -> np.ndarray:
        """Average the times of each cell: over its sessions, in each over its runs."""
        shape = (len(self.num_runs), self.session.max() + 1)
        place = self.cell * shape[1] + self.session
        counts = np.bincount(place, minlength=math.prod(shape)).reshape(shape)
        sums = np.bincount(place, times, minlength=math.prod(shape)).reshape(shape)
        means = np.divide(sums, counts, out=np.zeros(shape), where=counts > 0)
        return means.sum(axis=1) / (counts > 0).sum(axis=1)

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


def find_outliers(values: ArrayLike, sessions: ArrayLike, error: float = 0.005) -> np.ndarray:
    """Mark outliers among the runs of a cell by the generalised ESD test (Rosner 1983,
    Technometrics 25), on both sides.

    It takes all runs together, each less its session's median, so no session is an outlier. It
    looks at sessions of five runs or more: of fewer than ten runs for one outlier, of more for up
    to two in five of them, since one that is not looked for hides others.

    Args:
        values: normal within a session but for the outliers, (n,).
        sessions: of each value.
        error: chance that values without outliers have one marked.

    Returns:
        1 for an outlier above its session's median, -1 for one below, else 0.
    """
    values = pd.Series(np.asarray(values, dtype=float))
    of_session = values.groupby(np.asarray(sessions))
    is_many = (of_session.transform("size") * MAX_OUTLIERS >= 1).to_numpy()
    deviations = (values - of_session.transform("median")).to_numpy()
    num_sessions = len(np.unique(np.asarray(sessions)[is_many]))
    is_left = is_many.copy()
    is_inlier = is_many.copy()
    most = int(MAX_OUTLIERS * is_many.sum())
    for _ in range(most if most < 2 else 2 * most):
        left = deviations[is_left]
        distance = np.where(is_left, np.abs(deviations - left.mean()), -1.0)
        n = len(left)
        dof = n - num_sessions
        t = stats.t.ppf(1 - error / (2 * n), dof - 1)
        limit = t * np.sqrt((1 - 1 / n) * dof / (dof - 1 + t**2))
        is_beyond = distance.max() > limit * left.std() * np.sqrt(n / dof)
        is_left[distance.argmax()] = False
        if is_beyond:
            is_inlier = is_left.copy()
    return np.where(is_many & ~is_inlier, np.sign(deviations), 0.0)
