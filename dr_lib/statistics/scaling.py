"""How a training's time falls with the number of machines: Amdahl's law, fitted to repeated
runs.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import brentq, minimize_scalar

from dr_lib.statistics.intervals import BadSampleError, Interval

# natural logarithms: the largest number of machines takes 1/400 to 400 times as long as one
REACH = 6.0


class Amdahl(NamedTuple):
    """Amdahl's law (1967): n machines take s + (1 - s) / n of the time of one."""

    share: Interval  # s; above 1 where more machines take longer than one
    # of the lack of fit; not a number for two numbers of machines, or where none is repeated
    p: float

    def predict(self, machines: float) -> Interval:
        """How many times as fast so many machines are as one, with the bounds that those of the
        share give.
        """
        with np.errstate(divide="ignore"):
            faster = [float(1 / np.maximum(s + (1 - s) / machines, 0.0)) for s in self.share[:3]]
        return Interval(faster[0], faster[2], faster[1], self.share.n)


def fit_amdahl(machines: ArrayLike, times: ArrayLike) -> Amdahl:
    """Fit the share of one machine's time that more machines do not shorten.

    Least squares on the logarithms of the times, for what disturbs a run multiplies its time. The
    interval holds the shares that an F test does not refuse against the best one (the profile of
    the likelihood), at 95 %; a bound that lies beyond what times can tell apart is that end. The
    lack of fit is tested against the repetitions.

    Args:
        machines: (runs,) how many each run trained on.
        times: (runs,) of an epoch, any unit, positive.

    Raises:
        BadSampleError: a time is not positive, there are not two numbers of machines, or not three
            runs.
    """
    machines = np.asarray(machines, float)
    times = np.asarray(times, float)
    levels, where = np.unique(machines, return_inverse=True)
    if not (np.isfinite(times) & (times > 0)).all() or len(levels) < 2 or len(times) < 3:
        raise BadSampleError(
            "a law needs three runs or more, on two numbers of machines, with positive times"
        )
    logs = np.log(times)
    most = levels[-1]

    # where the most machines take exp(reached) of one's time
    def share_of(reached: float) -> float:
        return (np.exp(reached) - 1 / most) / (1 - 1 / most)

    def misfit(reached: float) -> float:
        share = share_of(reached)
        rest = logs - np.log(np.maximum(share + (1 - share) / machines, 1e-300))
        return float(((rest - rest.mean()) ** 2).sum())

    grid = np.linspace(-REACH, REACH, 241)
    start = grid[np.argmin([misfit(reached) for reached in grid])]
    step = grid[1] - grid[0]
    best = minimize_scalar(
        misfit, bounds=(start - step, start + step), method="bounded", options={"xatol": 1e-10}
    ).x
    num_rest = len(times) - 2
    allowed = misfit(best) * (1 + stats.f.ppf(0.95, 1, num_rest) / num_rest) + 1e-18

    def find_bound(end: float) -> float:
        return (
            end
            if misfit(end) <= allowed
            else brentq(lambda reached: misfit(reached) - allowed, best, end)
        )

    bounds = [share_of(find_bound(end)) for end in (-REACH, REACH)]
    repeated = sum(
        ((logs[where == k] - logs[where == k].mean()) ** 2).sum() for k in range(len(levels))
    )
    spare = len(times) - len(levels)
    lacking = len(levels) - 2
    p = float("nan")
    if spare > 0 and lacking > 0 and repeated > 0:
        p = float(
            stats.f.sf((misfit(best) - repeated) / lacking / (repeated / spare), lacking, spare)
        )
    return Amdahl(Interval(share_of(best), *bounds, len(times)), p)
