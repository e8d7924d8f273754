"""Intervals: a value with its bounds, and the mean of scores."""

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
    """A value with the bounds of its 95 % interval, NaN without one, and its sample size.

    `n` counts independent observations: runs, sessions, or patients for an AUC; of a ratio of two
    machines it is the smaller of the two counts.
    """

    value: float
    low: float
    high: float
    n: int

    def columns(self, name: str) -> dict[str, float]:
        """Write value and bounds as columns of a table: `name`, `name`_low and `name`_high."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


class Measured(NamedTuple):
    """An interval of measured times, and what it is true of, or why it has no bounds."""

    value: float
    low: float
    high: float
    n: int
    scope: str = ""

    def columns(self, name: str) -> dict[str, float | str]:
        """Write columns as `Interval` does, and `name`_scope if there is any."""
        columns: dict[str, float | str] = Interval(*self[:4]).columns(name)
        return {**columns, f"{name}_scope": self.scope} if self.scope else columns


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


def mean_interval(values: ArrayLike) -> Interval:
    """Estimate a mean of finite numbers, such as scores, with Student's interval; fewer than three,
    and equal ones, have no bounds.
    """
    values = np.asarray(values, dtype=float).ravel()
    n = values.size
    value = float(values.mean()) if n else np.nan
    if n < MIN_RUNS or not np.ptp(values):
        return Interval(value, np.nan, np.nan, n)
    low, high = stats.ttest_1samp(values, 0.0).confidence_interval()
    return Interval(value, float(low), float(high), n)
