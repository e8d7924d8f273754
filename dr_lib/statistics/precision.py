"""Plan how many repetitions a mean or a difference needs, from the spread of those at hand."""

import bisect
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from dr_lib.statistics.cells import ERROR
from dr_lib.statistics.intervals import MIN_RUNS

ASSURANCE = 0.8  # of planned studies are as precise as planned


class Spread(NamedTuple):
    """How much repetitions vary: the deviation of the logarithms of their times."""

    cv: float
    upper: float  # its upper 80 % bound
    n: int  # values of one group that say as much


def measure_spread(*groups: Sequence[float]) -> Spread:
    """Measure the spread of positive times within their groups; NaN if each has one alone."""
    logs = [np.log(times) for times in groups]
    dof = sum(len(times) - 1 for times in logs)
    if dof < 1:
        return Spread(math.nan, math.nan, dof + 1)
    cv = math.sqrt(sum(len(times) * times.var() for times in logs) / dof)
    return Spread(cv, cv * math.sqrt(dof / stats.chi2.ppf(1 - ASSURANCE, dof)), dof + 1)


def repetitions_for_precision(cv: float, half_width: float) -> int:
    """Find the number of runs whose mean has, in 80 % of studies, an interval of at most this
    half width, with the nominal ERROR of reports.

    A study's own deviation is by chance above or below cv, so the usual formula gives a width that
    half of the studies miss (Kupper and Hafner 1989, Am. Stat. 43).

    Args:
        cv: coefficient of variation of one run, positive.
        half_width: relative to the mean, 0.05 for 5 %.
    """

    def is_enough(n: int) -> bool:
        largest = half_width * math.sqrt(n) / stats.t.ppf(1 - ERROR / 2, n - 1)
        return stats.chi2.cdf((n - 1) * (largest / cv) ** 2, n - 1) >= ASSURANCE

    return 2 + bisect.bisect_left(range(2, 10**9), True, key=is_enough)


def repetitions_for_difference(
    cv: float, difference: float, per_session: float = math.inf
) -> tuple[int, float]:
    """Find the number of runs of each of two kinds that show a difference in 80 % of studies.

    Args:
        cv: coefficient of variation of one run, of both kinds.
        difference: of their means, 0.05 for 5 %.
        per_session: runs of each that share a session.

    Returns:
        The number, and its power, by simulation.
    """
    quantiles = stats.norm.ppf(1 - ERROR / 2) + stats.norm.ppf(ASSURANCE)
    n = max(MIN_RUNS, int(2 * (quantiles * cv / math.log1p(difference)) ** 2))
    while (power := simulate_power(cv, difference, n, max(1, n / per_session))) < ASSURANCE:
        n += max(1, n // 100)
    return n, power


def simulate_power(cv: float, difference: float, n: int, num_sessions: float) -> float:
    """Simulate the share of studies in which the interval of a ratio, with the nominal ERROR of
    reports, shows a difference.

    Args:
        cv, difference: see `repetitions_for_difference`.
        n: runs of each of two kinds.
        num_sessions: that these runs share.
    """
    generator = np.random.default_rng(0)
    dof = n - (num_sessions + 1) / 2  # of each kind: both estimate the sessions
    variances = cv**2 / n * generator.chisquare(dof, (4000, 2)) / dof
    ratios = generator.normal(math.log1p(difference), cv * math.sqrt(2 / n), 4000)
    total = variances.sum(axis=1)
    dofs = dof * total**2 / (variances**2).sum(axis=1)
    half = stats.t.ppf(1 - ERROR / 2, dofs) * np.sqrt(total)
    return float((np.abs(ratios) > half).mean())
