"""Compute 95 % intervals of a mean, a ratio and a difference.

What disturbs a run multiplies its time (a slower clock, a busy neighbour), so times are analysed on
their logarithms (Jain 1991, chapters 13 and 21); the bounds come back in the unit of the times.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from dr_lib.errors import DrError

LEVEL = 0.95
UPPER = 0.975  # upper quantile of a two-sided 95 % interval
MIN_RUNS = 3  # fewer decide nothing


class BadSampleError(DrError):
    """These values have no such interval; the message says what to remove or add."""


class Interval(NamedTuple):
    """A value with the bounds of its 95 % interval and its sample size.

    `n` counts independent observations: runs, or patients for an AUC; for a ratio it is the smaller
    of the two counts. Fewer than two of them give NaN bounds.
    """

    value: float
    low: float
    high: float
    n: int

    def columns(self, name: str) -> dict[str, float]:
        """Write value and bounds as columns of a table: `name`, `name`_low and `name`_high."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


class Measured(NamedTuple):
    """An interval of measured times, and what it rests on."""

    value: float
    low: float
    high: float
    n: int
    scope: str = ""  # what it is true of, where that is less than it seems
    num_left_out: int = 0  # outliers that it rests without
    over_all: float = math.nan  # the value with them

    def columns(self, name: str) -> dict[str, float | str]:
        """Write columns as `Interval` does, and `name`_scope, `name`_left_out and `name`_over_all
        if there is any.
        """
        columns: dict[str, float | str] = Interval(*self[:4]).columns(name)
        if self.scope:
            columns[f"{name}_scope"] = self.scope
        if self.num_left_out:
            columns[f"{name}_left_out"] = self.num_left_out
            columns[f"{name}_over_all"] = self.over_all
        return columns


# of the AUC with its interval, and the patients
UNLEARNED = (
    "The model has not been shown to be better than chance: its AUC is {} on {} patients."
)
NOTHING = Interval(np.nan, np.nan, np.nan, 0)


def has_learned(auc_low: float) -> bool:
    """Whether a model is shown to have learned: the lower bound of its AUC's 95 % interval, over
    patients, is above 0.5, the AUC of chance. Without a bound it is not.
    """
    return auc_low > 0.5


def tabulate(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Make a table of rows; an interval becomes its value and bounds as columns."""
    lines = []
    for row in rows:
        line = {}
        for name, value in row.items():
            line.update(value.columns(name) if hasattr(value, "columns") else {name: value})
        lines.append(line)
    return pd.DataFrame(lines)


def mean_interval(times: ArrayLike) -> Interval:
    """Estimate the arithmetic mean, as the papers report, with bounds from the log times.

    For log-normal times the mean is exp(m + v / 2), m and v the mean and variance of the
    logarithms, and Cox's interval with quantiles of t covers it (Olsson 2005, J. Stat. Educ. 13-1):
    94-95 % of 20,000 simulated samples of 3 to 10 with a coefficient of variation of 2 to 60 %,
    where t on the plain times falls to 91 %. At 10 % and less the two agree. The bounds are never
    negative.

    Args:
        times: any shape, positive, any unit (seconds, milliseconds, USD).

    Raises:
        BadSampleError: a value is zero, negative or not finite.
    """
    times = check_times(times)
    n = times.size
    if n < 2:
        return Interval(float(times[0]) if n else np.nan, np.nan, np.nan, n)
    logs = np.log(times)
    variance = logs.var(ddof=1)
    centre = logs.mean() + variance / 2
    half = widen([(variance / n + variance**2 / (2 * (n - 1)), n - 1)], 1 - LEVEL)
    return Interval(
        float(times.mean()), float(np.exp(centre - half)), float(np.exp(centre + half)), n
    )


def difference_interval(a: ArrayLike, b: ArrayLike, *, level: float = LEVEL) -> Interval:
    """Estimate mean(a) - mean(b) with Welch's interval.

    Args:
        a: finite numbers, such as AUCs.
        b: the reference's.
        level: of the interval; 0.9 for two one-sided tests at 5 %.
    """
    a, b = (np.asarray(x, dtype=float).ravel() for x in (a, b))
    n = min(a.size, b.size)
    if n == 0:
        return NOTHING
    difference = a.mean() - b.mean()
    if n == 1:
        return Interval(difference, np.nan, np.nan, n)
    parts = [(side.var(ddof=1) / side.size, side.size - 1) for side in (a, b)]
    half = widen(parts, 1 - level)
    return Interval(difference, difference - half, difference + half, n)


def count_needed(found: Interval, low: float, high: float) -> int:
    """Estimate how many observations would move an interval off two bounds; its width falls with
    their root.
    """
    if not found.high > found.low:
        return MIN_RUNS
    most = 1000  # times as wide as its distance from the bound
    shares = [0.0]
    for bound in (low, high):
        half = found.value - found.low if bound < found.value else found.high - found.value
        if half > 0:
            shares.append(half / max(abs(bound - found.value), half / most))
    return max(MIN_RUNS, math.ceil(found.n * max(shares) ** 2))


def widen(parts: ArrayLike, error: float) -> float:
    """Compute half the width of an interval that misses with this probability, half on each side.

    Args:
        parts: (parts, 2) variances that add up, each with its degrees of freedom; those of the sum
            are Satterthwaite's (1946, Biometrics Bulletin 2), for two Welch's.
        error: chance to miss.
    """
    variance, dof = np.asarray(parts, dtype=float).T
    total = variance.sum()
    if not total > 0:
        return float(total)  # nothing varies, as prices do not, or nobody knows
    is_part = variance > 0
    dof = total**2 / (variance[is_part] ** 2 / dof[is_part]).sum()
    return float(stats.t.ppf(1 - error / 2, dof) * np.sqrt(total))


def check_times(times: ArrayLike) -> np.ndarray:
    """Return the times in one axis; raise BadSampleError for zero, negative or infinite times."""
    times = np.asarray(times, dtype=float).ravel()
    if not (np.isfinite(times) & (times > 0)).all():
        raise BadSampleError(
            "times must be positive and finite: leave out the runs without one, and report "
            "their number"
        )
    return times
