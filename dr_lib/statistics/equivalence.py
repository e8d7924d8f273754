"""Show that two things are equally good within a margin, and say how many observations that takes.

No difference found is no equality shown. Two one-sided tests (Schuirmann 1987, J. Pharmacokinet.
Biopharm. 15) reject that the difference is as low as -margin, and that it is as high as +margin:
both at 5 % if the 90 % interval of the difference lies between the two. Non-inferiority is the
lower test alone.
"""

import math

from scipy import stats

from dr_lib.statistics.intervals import BadSampleError

POWER = 0.8


def repetitions_for_difference(
    difference: float, power: float = POWER, alternative: str = "two-sided"
) -> int:
    """How many runs of each side a t test at 5 % takes to find a difference of means, in
    standard deviations of one.
    """
    from statsmodels.stats.power import TTestIndPower  # takes a second to import

    ask = {"effect_size": difference, "alpha": 0.05, "alternative": alternative}
    is_plain = TTestIndPower().power(nobs1=2, **ask) >= power
    return 2 if is_plain else math.ceil(TTestIndPower().solve_power(power=power, **ask))


def repetitions_for_equivalence(deviation: float, margin: float) -> int:
    """How many runs of each side show with a power of 80 % that equal means are equal within the
    margin.

    Args:
        deviation: standard deviation of one run, in the unit of the margin.
        margin: above 0.
    """
    both = 1 - (1 - POWER) / 2  # either test may fail
    return repetitions_for_difference(margin / max(deviation, 1e-9), both, "larger")


def observations_for_non_inferiority(deviation: float, margin: float) -> int:
    """How many observations show with a power of 80 % that what lost nothing lost less than the
    margin.

    By the lower bound of a 95 % interval (a test at 2.5 %).

    Args:
        deviation: standard deviation of one paired difference, in the unit of the margin.
        margin: in that unit, too.

    Raises:
        BadSampleError: the margin is not above 0.
    """
    if not 0 < margin < math.inf:
        raise BadSampleError(f"a margin of {margin}: give one above 0")
    return math.ceil(
        ((stats.norm.ppf(0.975) + stats.norm.ppf(POWER)) * deviation / margin) ** 2
    )
