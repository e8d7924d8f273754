"""Plan how many repetitions a mean needs, from the spread of those at hand."""

import bisect
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from dr_lib.statistics.cells import ERROR
from dr_lib.statistics.intervals import BadSampleError

MAX_RUNS = 1_000_000_000  # more are not feasible
ASSURANCE = 0.8  # of planned studies are as precise as planned


class Spread(NamedTuple):
    """How much repetitions vary: the deviation of the logarithms of their times."""

    cv: float
    upper: float  # its upper 80 % bound
    n: int


def measure_spread(times: Sequence[float]) -> Spread:
    """Measure the spread of positive times; NaN of one alone."""
    n = len(times)
    if n < 2:
        return Spread(math.nan, math.nan, n)
    cv = float(np.std(np.log(times), ddof=1))
    return Spread(cv, cv * math.sqrt((n - 1) / stats.chi2.ppf(1 - ASSURANCE, n - 1)), n)


def repetitions_for_precision(cv: float, half_width: float) -> int:
    """Find the number of runs whose mean has, in 80 % of studies, an interval of at most this
    half width, with the nominal ERROR of reports.

    A study's own deviation is by chance above or below cv, so the usual formula gives a width that
    half of the studies miss (Kupper and Hafner 1989, Am. Stat. 43).

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
        largest = half_width * math.sqrt(n) / stats.t.ppf(1 - ERROR / 2, n - 1)
        return stats.chi2.cdf((n - 1) * (largest / cv) ** 2, n - 1) >= ASSURANCE

    n = 2 + bisect.bisect_left(range(2, MAX_RUNS), True, key=is_enough)
    if n == MAX_RUNS:
        raise BadSampleError(
            f"that takes {MAX_RUNS:,} runs or more: choose a larger half_width"
        )
    return n
