"""Simulate how often intervals, verdicts, shares and plans are wrong, and what they still decide.

A line is one design: how rows or patients are simulated, and the rates of what comes out. A line
fails where the 99 % lower bound (Clopper and Pearson 1934, Biometrika 26) of an error is above
what is required of it. PARTS lists the lines. Results go to docs/measured/rates.md.

    python -m tools.rates [--full] [--only TEXT]
"""

import argparse
import functools
import itertools
import multiprocessing
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.random import Generator, default_rng
from scipy import stats
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm, rankdata
from sklearn.metrics import cohen_kappa_score
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.multitest import multipletests
from threadpoolctl import threadpool_limits

from dr_lib.code import read_commit, shorten_commit
from dr_lib.report.select import AUC, AUC_MARGIN, STACK, judge_models
from dr_lib.report.select import measure as measure_runs
from dr_lib.rooms.claims.claims import Claim, read_claims
from dr_lib.rooms.claims.verdicts import LOOKS, WRONG_OVER_LOOKS, Cells, decide, measure
from dr_lib.rooms.claims.verdicts import judge as judge_rows
from dr_lib.rooms.evaluation.adjudication import correct_accuracy, draw_sample
from dr_lib.rooms.evaluation.size import Design as StudyDesign
from dr_lib.rooms.evaluation.size import find_sizes
from dr_lib.rooms.scenarios.effects import (
    allocate_variation,
    estimate_effects,
)
from dr_lib.rooms.serving.export.gate import measure_changes
from dr_lib.statistics.calibration import choose_recalibration, fit_slope
from dr_lib.statistics.cells import AVERAGE, Design
from dr_lib.statistics.clustered import (
    MIN_PATIENTS,
    auc_difference,
    auc_interval,
    average_precision_interval,
    brier_interval,
    estimate_aucs,
    excess_kappa,
    kappa_interval,
    likelihood_ratios,
    proportion_interval,
)
from dr_lib.statistics.clustered import difference_interval as clustered_difference
from dr_lib.statistics.intervals import NOTHING, Interval, difference_interval
from dr_lib.statistics.precision import (
    ASSURANCE,
    measure_spread,
    repetitions_for_difference,
    repetitions_for_precision,
)
from dr_lib.statistics.precision import simulate_power as find_power
from tools import measured
from tools.bench import ROOT

PAGE = ROOT / "docs" / "measured" / "rates.md"
CONFIDENCE = 0.99  # of each bound of a rate
SHORT = 200  # studies of a line
FULL = 2000
FULL_OF_MANY = 500  # where a study is judged by many cells, or refitted at each look


class Rate(NamedTuple):
    """How many studies came out so, and the largest share that is allowed."""

    count: int
    studies: int
    limit: float | None = None  # None for what is only shown

    def bounds(self) -> tuple[float, float]:
        """The lower and the upper 99 % bound of the share."""
        if not self.studies:
            return 0.0, 1.0
        test = stats.binomtest(self.count, self.studies)
        low, high = test.proportion_ci(2 * CONFIDENCE - 1, method="exact")
        return float(low), float(high)

    def fails(self) -> bool:
        """Whether the share is above its limit beyond chance."""
        return self.limit is not None and self.bounds()[0] > self.limit

    def __str__(self) -> str:
        """The share and its bounds in per cent, with the limit."""
        if not self.studies:
            return "no study"
        numbers = [100 * number for number in (self.count / self.studies, *self.bounds())]
        text = "{:.1f} [{:.1f}, {:.1f}]".format(*numbers)
        if self.limit is None:
            return text
        text += f" {'>' if self.fails() else '≤'} {100 * self.limit:.3g}"
        return f"**{text}**" if self.fails() else text


Rows = dict[str, dict[str, Rate]]  # of a line's results: a name each, and its rates by name


class Line(NamedTuple):
    """A design that is simulated."""

    name: str
    simulate: Callable[[Generator, int], Rows]
    short: int = SHORT  # studies; 0 where only the full set has it
    full: int = FULL


class Part(NamedTuple):
    """Lines whose rates have the same names."""

    title: str
    text: str
    lines: list[Line]


def make_lines(
    name: str,
    simulate: Callable[..., Rows],
    names: str,
    designs: Iterable[Sequence],
    short: int | Callable[..., int] = SHORT,
    full: int | Callable[..., int] = FULL,
) -> list[Line]:
    """A line for each design, which is named by its values; the numbers of studies may follow from
    these.
    """
    lines = []
    for values in designs:
        design = dict(zip(names.split(), values, strict=True))
        numbers = [each(*values) if callable(each) else each for each in (short, full)]
        lines.append(Line(name.format(*values), partial(simulate, **design), *numbers))
    return lines


def vary(rng: Generator, cv: float, size: int | None, *, has_mean: bool = False) -> np.ndarray:
    """Log-normal numbers of a coefficient of variation, whose median is 1, or whose mean is."""
    sigma = np.log1p(cv**2) ** 0.5
    return rng.lognormal(-(sigma**2) / 2 if has_mean else 0, sigma, size)


def count_true(marks: Sequence[bool], limit: float | None = None) -> Rate:
    """The rate of a mark over studies."""
    return Rate(int(np.sum(marks)), len(marks), limit)


def count_misses(
    intervals: Sequence[Interval], truth, *, miss: float | None, side: float | None = None
) -> dict[str, Rate]:
    """How often intervals miss the truth, and lie wholly above and below it; without bounds they do
    not.

    Args:
        truth: one, or one for each study.
        miss: the largest share that is allowed.
        side: the same, of each side.
    """
    ends = np.array([each[1:3] for each in intervals]).reshape(-1, 2)
    above = ends[:, 0] > np.asarray(truth) + 1e-9
    below = ends[:, 1] < np.asarray(truth) - 1e-9
    return {
        "truth outside": count_true(above | below, miss),
        "wholly above": count_true(above, side),
        "wholly below": count_true(below, side),
        "no interval": count_true(np.isnan(ends).any(axis=1)),
    }


# --- verdicts


JUST = 1e-3  # relative distance of the truth from the bound
MANY = 10  # cells: fewer studies are simulated
SLOWER = 1.3
FALSE = 0.03  # of verdicts of a kind
INSIDE = 0.1  # the same, where it is asked how often a true claim is confirmed


CLAIM = {"id": "A1", "source": "A", "words": "simulated", "words_pt": "simulated"}


class Situation(NamedTuple):
    """How runs are drawn, and what is judged by them."""

    name: str
    statistic: str = "mean"
    variation: float | tuple[float, float] = 0.02  # coefficient, of both sides or of each
    num_cells: int = 1
    every_cell: bool = False  # the first cell's truth is at the bound, the others' far inside
    others: float | None = None  # coefficient of variation of the other cells
    sessions: int | None = None  # of each side; None for one for each run
    lengths: tuple[int, ...] = ()  # runs of each session, where they differ
    num_slow: int = 0  # sessions that take 1.3 times as long
    power: float | None = None  # required share of "holds", 10 % inside the bound
    is_shared: bool = False  # both sides ran in the same sessions
    between: float = 0.0  # coefficient of variation between sessions
    doubled: float = 0.0  # share of the runs that a neighbour doubles
    scale: float = 2.0  # of the first side

    def list_variations(self, side: int) -> list[float]:
        """The coefficient of variation of each cell of a side."""
        pair = np.broadcast_to(self.variation, 2)
        others = pair[side] if self.others is None else self.others
        return [pair[side], *[others] * (self.num_cells - 1)]

    def list_bases(self) -> np.ndarray:
        """The mean time of each cell of the last side."""
        return np.geomspace(1, 1 if self.every_cell else 15, self.num_cells)

    def count_sides(self) -> int:
        """How many sides the statistic has."""
        return 1 if self.statistic == "mean" else 2


def draw(situation: Situation, n: int, truths: np.ndarray, rng: Generator) -> Cells:
    """Runs of every cell, n each.

    Args:
        truths: the ratio of each cell, or its mean where there is one side.
    """
    sides = []
    effects = {}
    for side in range(situation.count_sides()):
        labels = np.arange(n) % (situation.sessions or n)
        if situation.lengths:
            labels = np.repeat(np.arange(len(situation.lengths)), situation.lengths)
        place = 0 if situation.is_shared else side
        if place not in effects:
            effects[place] = vary(rng, situation.between, n, has_mean=True)
            slow = np.where(np.arange(n) < situation.num_slow, SLOWER, 1.0)
            effects[place] *= slow / slow.mean()
        cells = []
        variations = situation.list_variations(side)
        bases = situation.list_bases()
        for base, truth, variation in zip(bases, truths, variations, strict=True):
            mean = base if side else base * truth
            times = mean * vary(rng, variation, n, has_mean=True) * effects[place][labels]
            times[rng.random(n) < situation.doubled] *= 2
            cells.append({"t": times, "session": labels + 1000 * place})
        sides.append(cells)
    return Cells([], {(k,): list(both) for k, both in enumerate(zip(*sides, strict=True))})


def make_claim(situation: Situation, relation: str, distance: float) -> Claim:
    """A claim whose bound the truth is so far inside of, or outside where negative."""
    bases = situation.list_bases()
    truth = situation.scale
    if situation.statistic == "mean":
        truth *= bases.mean()
    elif situation.statistic == "difference":
        truth = (truth - 1) * bases.mean()
    elif situation.statistic == "sd_ratio":
        first, second = (situation.list_variations(side)[0] for side in (0, 1))
        truth *= first / second
    sign = 1 if relation == ">=" else -1
    return Claim(
        **CLAIM,
        column="t",
        statistic=situation.statistic,
        numerator={"t": "*"},
        denominator={"t": "*"} if situation.count_sides() == 2 else {},
        every_cell=situation.every_cell,
        cells=situation.num_cells,
        relation=relation,
        value=truth * (1 - sign * distance),
    )


def judge(claims: Sequence[Claim], cells: Cells) -> list[str]:
    """The verdicts of claims that differ in their bound alone, as `verdicts.judge` gives them."""
    parts = measure(claims[0], cells)
    verdicts = [decide(claim, parts).verdict for claim in claims]
    if any(part.num_left_out for part in parts):
        parts = measure(claims[0], cells, keep_all=True)
        for k, claim in enumerate(claims):
            if {verdicts[k], decide(claim, parts).verdict} == {"holds", "does not hold"}:
                verdicts[k] = "undecided"
    return verdicts


def simulate_verdicts(rng: Generator, studies: int, situation: Situation, n: int) -> Rows:
    """Verdicts just outside a bound, just inside and well inside; of "at least" and "at most" the
    larger share.
    """
    found = []
    for relation in (">=", "<="):
        truths = np.full(situation.num_cells, situation.scale)
        if situation.every_cell:
            truths[1:] *= 2 if relation == ">=" else 0.5
        claims = [make_claim(situation, relation, d) for d in (-JUST, JUST, INSIDE)]
        verdicts = []
        for _ in range(studies):
            cells = draw(situation, n, truths, rng)
            verdicts.append(judge(claims, cells))
        wanted = ["holds", "does not hold", "holds"]
        found.append((np.array(verdicts) == wanted).sum(axis=0))
    false, denied, _ = np.max(found, axis=0)
    inside = np.min(found, axis=0)[2]
    not_held = None if situation.power is None else 1 - situation.power
    return {
        f"{situation.name}; {n}": {
            'false "holds"': Rate(int(false), studies, FALSE),
            'false "does not hold"': Rate(int(denied), studies, FALSE),
            '10 % inside: not "holds"': Rate(studies - int(inside), studies, not_held),
        }
    }


NUMBERS = (3, 5, 10)
SITUATIONS = {  # and the numbers of runs of a cell
    **{
        Situation(f"{name}, cv {100 * cv:.0f} %", statistic, cv, cells, every_cell): NUMBERS
        for cv in (0.02, 0.1, 0.3)
        for name, statistic, cells, every_cell in (
            ("mean of a cell", "mean", 1, False),
            ("mean of 3 cells", "mean", 3, False),
            ("ratio of a cell", "ratio", 1, False),
            ("ratio in every one of 3 cells", "ratio", 3, True),
            ("difference of a cell", "difference", 1, False),
            ("ratio of sums of 3 cells", "ratio_of_sums", 3, False),
            ("ratio of deviations", "sd_ratio", 1, False),
        )
    },
    Situation(
        "24 cells in one session, one of cv 30 % on its bound, the others 2 %",
        "ratio",
        0.3,
        24,
        True,
        others=0.02,
        sessions=1,
        is_shared=True,
    ): (3, 5),
    Situation(
        "24 cells in one session, cv 5 %",
        "ratio",
        0.05,
        24,
        True,
        sessions=1,
        is_shared=True,
    ): NUMBERS,
    Situation(
        "ratio of two machines, one session each, 10 % between sessions",
        "ratio",
        sessions=1,
        between=0.1,
    ): (3, 10),
    Situation(
        "ratio of two machines, 3 sessions each, 10 % between sessions",
        "ratio",
        sessions=3,
        between=0.1,
    ): (3, 6, 12),
    Situation(
        "ratio of two machines, 10 sessions each, 10 % between sessions",
        "ratio",
        sessions=10,
        between=0.1,
    ): (10, 30),
    Situation(
        "ratio on one machine, 3 sessions that both sides share, 10 % between them",
        "ratio",
        sessions=3,
        is_shared=True,
        between=0.1,
    ): (3, 6, 12),
    **{
        Situation(
            f"{name} cells, n sessions, cv 5 % within and between them",
            statistic,
            0.05,
            num_cells,
            True,
            is_shared=is_shared,
            between=0.05,
        ): NUMBERS
        for name, statistic, num_cells, is_shared in (
            ("C3: difference in every one of 12", "difference", 12, True),
            ("C4, C5: ratio in every one of 12", "ratio", 12, True),
            ("C6: ratio of two machines in every one of 24", "ratio", 24, False),
            ("C12: mean in every one of 16", "mean", 16, False),
        )
    },
    Situation(
        "mean of a cell, 3 sessions, one run in ten doubled",
        doubled=0.1,
        sessions=3,
        power=0.8,
    ): (30,),
    Situation("mean of a cell, 3 sessions, one run in ten doubled", doubled=0.1, sessions=3): (
        15,
        60,
    ),
    Situation(
        "ratio, 3 sessions of each side, one run in ten doubled",
        "ratio",
        doubled=0.1,
        sessions=3,
    ): (30,),
    Situation("mean of a cell, four of ten sessions of one run 30 % slow", num_slow=4): (10,),
    Situation(
        "mean of a cell, sessions of 20, 1, 1 and 1 runs, 10 % between them",
        lengths=(20, 1, 1, 1),
        between=0.1,
    ): (23,),
    Situation("ratio, cv 30 % against 5 %", "ratio", (0.3, 0.05)): (*NUMBERS, 50, 200),
    Situation("ratio, cv 5 % against 30 %", "ratio", (0.05, 0.3)): (*NUMBERS, 50, 200),
}


def simulate_modes(rng: Generator, studies: int, deviation=0.01, n=10) -> Rows:
    """A training mode whose mean AUC is the margin below the paper's must not count."""
    draws = [
        (rng.normal(-AUC_MARGIN, deviation, n), rng.normal(0, deviation, n))
        for _ in range(studies)
    ]
    found = [difference_interval(*pair, level=0.9) for pair in draws]
    counts = [-AUC_MARGIN < each.low and each.high < AUC_MARGIN for each in found]
    return {"a mode that loses the margin of AUC": {"counts": count_true(counts, 0.05)}}


def simulate_models(
    rng: Generator, studies: int, n: int, difference: float, correlation: float
) -> Rows:
    """Test AUCs of n seeds, the same on both machines, that deviate by 0.01 between seeds."""
    passes = []
    for _ in range(studies):
        seed = rng.normal(0, 0.01 * correlation**0.5, n)
        sides = []
        for mean in (0.93 - difference, 0.93):
            auc = mean + seed + rng.normal(0, 0.01 * (1 - correlation) ** 0.5, n)
            sides.append(pd.DataFrame({"seed": range(n), AUC: auc}))
        passes.append(judge_models(*sides).verdict == "equal")
    if difference:
        rates = {"other models pass": count_true(passes, 0.05)}
    else:
        rates = {"equal models do not pass": count_true(~np.array(passes), 0.3)}
    name = (
        f"AUCs of {n} trainings differ by {difference:g}, correlation by seed {correlation:g}"
    )
    return {name: rates}


def simulate_looks(rng: Generator, studies: int) -> Rows:
    """The truth is on the bound, and a session is added until the claim is decided."""
    situation = Situation("", variation=0.1)
    claim = make_claim(situation, ">=", 0.0)
    truths = np.array([situation.scale])
    last = LOOKS[-1] + 2
    decided = np.full(studies, last + 1)
    for study in range(studies):
        runs = draw(situation, last, truths, rng).rows[(0,)][0]
        for n in range(3, last + 1):
            cells = Cells([], {(0,): [{name: values[:n] for name, values in runs.items()}]})
            if judge([claim], cells) != ["undecided"]:
                decided[study] = n
                break
    rows = {}
    for num_looks, percent in zip(LOOKS, WRONG_OVER_LOOKS, strict=True):
        wrong = count_true(decided <= num_looks + 2, percent / 100)
        rows[f"{num_looks + 2} sessions"] = {"wrong verdict": wrong}
    return rows


# --- reports of runs


def make_machine(
    rng: Generator, num_sessions: int, n: int, first: int = 0, between: float = 0.1
) -> tuple[pd.DataFrame, np.ndarray]:
    """Runs of a machine in sessions, and the mean of each session."""
    effects = vary(rng, between, num_sessions, has_mean=True)
    sessions = np.repeat(np.arange(num_sessions), n)
    times = effects[sessions] * rng.lognormal(0, 0.02, len(sessions))
    return pd.DataFrame({"t": times, "session": sessions + first}), effects


def simulate_machines(rng: Generator, studies: int, sessions: int, n: int) -> Rows:
    """Two machines that are alike: their ratio is 1, and no effect differs from it."""
    ratios = []
    is_found = []
    for _ in range(studies):
        sides = [make_machine(rng, sessions, n, first)[0] for first in (0, 100)]
        ratios.append(measure_runs("t", *sides))
        both = pd.concat(sides, keys=["a", "b"], names=["machine"]).reset_index("machine")
        found = allocate_variation(both, ["machine"], "t", both["session"])
        is_found.append(bool((found["p"] < 0.05).any()))
    rates = count_misses(ratios, 1.0, miss=0.05)
    if sessions < 3:
        rates["an interval below three sessions"] = count_true(
            [not np.isnan(each.low) for each in ratios], 0.0
        )
    rates["p below 0.05"] = count_true(is_found, 0.06)
    return {f"ratio of two machines alike, {sessions} sessions each of {n} runs": rates}


def simulate_within(rng: Generator, studies: int, n: int) -> Rows:
    """The mean of one session, and the interval within it."""
    found = [make_machine(rng, 1, n) for _ in range(studies)]
    truths = [effects[0] * np.exp(0.02**2 / 2) for _, effects in found]
    intervals = [measure_runs("t", runs) for runs, _ in found]
    return {f"mean within one session of {n} runs": count_misses(intervals, truths, miss=0.05)}


# --- equal arms


class Placebo(NamedTuple):
    """A null control: both arms are made in each session."""

    name: str
    sessions: int = 1
    n: int = 5  # runs of an arm in each
    variations: tuple[float, float] = (0.02, 0.02)  # of each arm, within a session
    slowed: float = 0.0  # share of the runs that take 1.2 to 2 times as long


PLACEBOS = (
    Placebo("one session, 5 runs an arm"),
    Placebo("one session, 10 runs an arm", n=10),
    Placebo("three sessions of 2 runs an arm", sessions=3, n=2),
    Placebo("three sessions of 5 runs an arm", sessions=3),
    Placebo("unequal spreads, cv 10 % and 2 %, one session of 5", variations=(0.1, 0.02)),
    Placebo("unequal spreads, cv 30 % and 5 %, three sessions of 5", 3, 5, (0.3, 0.05)),
    Placebo("one run in ten slowed, one session of 10", n=10, slowed=0.1),
    Placebo("one run in ten slowed, three sessions of 5", sessions=3, slowed=0.1),
    Placebo("three runs in ten slowed, three sessions of 5", sessions=3, slowed=0.3),
)


def draw_arms(rng: Generator, placebo: Placebo) -> pd.DataFrame:
    """Rows of both arms, cv 10 % between sessions."""
    rows = []
    place = {"machine": "one", "environment": "one", "disturbed": False, "warmth": "warm"}
    for session, effect in enumerate(vary(rng, 0.1, placebo.sessions)):
        for arm, cv in zip("ab", placebo.variations, strict=True):
            times = effect * vary(rng, cv, placebo.n, has_mean=True)
            is_slowed = rng.random(placebo.n) < placebo.slowed
            times *= np.where(is_slowed, rng.uniform(1.2, 2, placebo.n), 1)
            rows += [
                {"arm": arm, "session": session, "train_s": time_s, **place} for time_s in times
            ]
    return pd.DataFrame(rows)


def simulate_placebos(rng: Generator, studies: int, placebo: Placebo) -> Rows:
    """Verdicts on "arm a takes longer", where the truth is that both are equal."""
    arms = {"numerator": {"arm": "a"}, "denominator": {"arm": "b"}}
    claim = Claim(**CLAIM, **arms, column="train_s", statistic="ratio", relation=">=", value=1)
    found = [judge_rows(claim, draw_arms(rng, placebo)) for _ in range(studies)]
    verdicts = np.array([each.verdict for each in found])
    is_unbounded = [np.isnan(each.ours.low) for each in found]
    is_decided = np.isin(verdicts, ["holds", "does not hold"])
    limit = FALSE if placebo.slowed < 0.2 else None  # more are no outliers
    return {
        placebo.name: {
            "holds or does not hold": count_true(is_decided, limit),
            "holds": count_true(verdicts == "holds"),
            "no interval": count_true(is_unbounded),
        }
    }


# --- stack and hardware

UNLIKE = {  # what one side has instead; None is unknown
    "alike": {},
    "the backend differs": {"backend": "tensorflow", "tensorflow": "2.18.0"},
    "a compiler differs": {"jit": "False"},
    "the arithmetic differs": {"matmul_precision": "bfloat16"},
    "the arithmetic is unknown": {"matmul_precision": None},
    "Keras's minor version differs": {"keras": "3.9.0"},
    "Keras is unknown": {"keras": None},
    "the optimizer differs": {"optimizer": "adam"},
}


def draw_trainings(rng: Generator, saving: float, tpu: dict) -> pd.DataFrame:
    """Rows of two T4 and of a TPU that saves a share of their time: five sessions of two warm
    trainings each, cv 5 % between sessions and 2 % within.
    """
    claim = next(claim for claim in read_claims("A") if claim.id == "A9")
    like = dict.fromkeys(STACK, "one") | {"jax": "0.5.2", "keras": "3.8.0", "optimizer": "one"}
    like |= {term.column: term.patterns[0] for term in claim.conditions}
    rows = []
    for name, count, mean, changes in (("Tesla T4", 2, 1.0, {}), ("TPU", 1, 1 - saving, tpu)):
        place = {"accelerator": name, "num_accelerators": count, "machine": name}
        place |= {"environment": name, "disturbed": False, "warmth": "warm"}
        for session in range(5):
            effect = vary(rng, 0.05, None)
            for _ in range(2):
                time_s = mean * effect * vary(rng, 0.02, None)
                times = {"train_s": time_s, "session": f"{name} {session}"}
                scores = {"seed": len(rows) % 10, AUC: 0.93 + 1e-6 * len(rows)}
                rows.append(like | changes | place | times | scores)
    return pd.DataFrame(rows)


def simulate_hardware(rng: Generator, studies: int, saving: float, unlike: str) -> Rows:
    """Verdicts of A9, "36 % less", a claim about hardware."""
    claim = next(claim for claim in read_claims("A") if claim.id == "A9")
    found = [
        judge_rows(claim, draw_trainings(rng, saving, UNLIKE[unlike])).verdict
        for _ in range(studies)
    ]
    holds = np.array(found) == "holds"
    denied = np.array(found) == "does not hold"
    if unlike != "alike":
        rates = {"holds": count_true(holds, 0.0), "does not hold": count_true(denied, 0.0)}
    elif saving:
        rates = {"holds": count_true(holds), "does not hold": count_true(denied, FALSE)}
    else:
        rates = {"holds": count_true(holds, FALSE), "does not hold": count_true(denied)}
        rates['not "does not hold"'] = count_true(~denied, 0.2)
    return {f"{100 * saving:.0f} % less, {unlike}": rates}


# --- effects of factors

CELLS = list(itertools.product("mpt", [32, 64], [1, 2]))
FACTORS = ["f", "s", "n"]
# coefficient of variation and runs of the odd cells and of the others
DESIGNS = {
    **{f"cv 5 %, {n} runs": ((0.05, n), (0.05, n)) for n in (3, 5, 2)},
    **{
        f"{odd} 30 %, others 2 %, {n} runs": ((0.3, n), (0.02, n))
        for odd in ("a level", "a cell")
        for n in (3, 5)
    },
    "a level 20 %, 2 runs; others 2 %, 5 runs": ((0.2, 2), (0.02, 5)),
    "a level 2 %, 2 runs; others 20 %, 5 runs": ((0.02, 2), (0.2, 5)),
    **{
        f"a cell 20 %, {few} runs; others 2 %, {many} runs": ((0.2, few), (0.02, many))
        for few, many in ((2, 2), (2, 5), (2, 10), (3, 10))
    },
}


def simulate_effects(rng: Generator, studies: int, design: str) -> Rows:
    """12 cells without any effect: the worst level's interval, and any p below 0.05."""
    is_outside = []
    is_found = []
    odd, others = DESIGNS[design]
    num_odd = 1 if design.startswith("a cell") else 4  # of the cells, which lie first
    for _ in range(studies):
        rows = []
        for number, cell in enumerate(CELLS):
            rows += [(*cell, t) for t in vary(rng, *(odd if number < num_odd else others))]
        runs = pd.DataFrame(rows, columns=[*FACTORS, "t"])
        effects = estimate_effects(runs, FACTORS, "t")
        is_outside.append((effects["effect_low"] > 1) | (effects["effect_high"] < 1))
        is_found.append(bool((allocate_variation(runs, FACTORS, "t")["p"] < 0.05).any()))
    worst = int(np.sum(is_outside, axis=0).max())
    return {
        design: {
            "truth outside, worst level": Rate(worst, studies, 0.07),
            "any p below 0.05": count_true(is_found, 0.06),
        }
    }


def find_pooled_p(runs: pd.DataFrame) -> dict[str, float]:
    """p of each term by the classical F of equal spreads, by Holm's method."""
    p = anova_lm(ols("np.log(t) ~ C(f) * C(s) * C(n)", runs).fit())["PR(>F)"].dropna()
    return dict(zip(p.index, multipletests(p, method="holm")[1], strict=True))


def simulate_power(rng: Generator, studies: int, n: int, size: int, deviation=0.05) -> Rows:
    """An effect of so many standard errors where spreads are equal, beside the pooled test of F."""
    half = size / 2 * deviation * 2 / np.sqrt(len(CELLS) * n)
    signs = np.array([1 if cell[1] == 64 else -1 for cell in CELLS])
    is_ours = []
    is_pooled = []
    for _ in range(studies):
        logs = rng.normal(half * signs[:, None], deviation, (len(CELLS), n))
        rows = [(*c, np.exp(y)) for c, ys in zip(CELLS, logs, strict=True) for y in ys]
        runs = pd.DataFrame(rows, columns=[*FACTORS, "t"])
        found = allocate_variation(runs, FACTORS, "t")
        is_ours.append(bool(found.set_index("term").loc["s", "p"] < 0.05))
        is_pooled.append(find_pooled_p(runs)["C(s)"] < 0.05)
    lost = max(0, sum(is_pooled) - sum(is_ours))
    return {
        f"an effect of {size} standard errors, {n} runs": {
            "not found": count_true(~np.array(is_ours)),
            "not found by the pooled test": count_true(~np.array(is_pooled)),
            "lost of those that it finds": Rate(lost, sum(is_pooled), 0.15 if n > 2 else None),
        }
    }


# --- plans


def simulate_plan(rng: Generator, studies: int, cv: float, half_width: float) -> Rows:
    """Studies of as many sessions as the plan says, whose interval is that of reports."""
    n = repetitions_for_precision(cv, half_width)
    is_wider = []
    for _ in range(studies):
        design = Design([vary(rng, cv, n)], sessions=[[np.arange(n)]])
        found = design.estimate(AVERAGE).interval()
        is_wider.append(found.high - found.low > 2 * half_width * found.value)
    name = f"cv {100 * cv:.0f} %, half width {100 * half_width:.0f} %, {n} runs"
    return {name: {"wider than planned": count_true(is_wider, 0.2)}}


ALL = 1000  # runs of a session
# coefficients of variation and differences
SPREADS = ((0.02, 0.05), (0.05, 0.05), (0.05, 0.1), (0.1, 0.1), (0.1, 0.2))


def simulate_difference(
    rng: Generator, studies: int, cv: float, difference: float, per_session: int
) -> Rows:
    """Studies of as many runs as `plan` says, in sessions that both arms share, or in as many
    sessions of each of two machines (0); their ratio is that of reports.
    """
    n, power = repetitions_for_difference(cv, difference, per_session or np.inf)
    is_shown = []
    for _ in range(studies):
        sides = []
        sessions = np.arange(n) // per_session if per_session else np.arange(n)
        effects = rng.lognormal(0, 0.1, n) if per_session else np.ones(n)
        for side, mean in enumerate((1 + difference, 1.0)):
            times = mean * effects[sessions] * vary(rng, cv, n)
            first = 0 if per_session else 1000 * side
            sides.append(pd.DataFrame({"t": times, "session": sessions + first}))
        found = measure_runs("t", *sides)
        is_shown.append(found.low > 1 or found.high < 1)
    places = {0: "sessions of two machines", ALL: "runs in one session"}
    place = places.get(per_session, f"runs in sessions of {per_session}")
    name = f"cv {100 * cv:.0f} %, difference {100 * difference:.0f} %, {n} {place}"
    missed = count_true(~np.array(is_shown), 1 - power + 0.02)
    return {f"{name}, claimed power {100 * power:.1f} %": {"not shown": missed}}


def simulate_pilots(rng: Generator, studies: int, cv: float, difference: float, n: int) -> Rows:
    """Plans by the upper 80 % bound of n runs: the power that the study then truly has."""
    powers = []
    for _ in range(studies):
        spread = measure_spread(vary(rng, cv, n))
        planned, _ = repetitions_for_difference(spread.upper, difference)
        powers.append(find_power(cv, difference, planned, 1))
    below = count_true(np.array(powers) < ASSURANCE - 0.01, 0.2)
    name = f"planned by {n} runs, cv {100 * cv:.0f} %, difference {100 * difference:.0f} %"
    return {
        f"{name}: median power {100 * np.median(powers):.0f} %": {"power below 80 %": below}
    }


# --- intervals over patients

SHAPES: dict[
    str, Callable
] = {  # score of normal noise, of ill eyes, for a distance between them
    "binormal": lambda noise, ill, distance: noise + distance * ill,
    "ties": lambda noise, ill, distance: np.round((noise + distance * ill) / 0.75),
    "wider ill": lambda noise, ill, distance: np.where(ill, 1.8 * noise + distance, noise),
    "skewed down": lambda noise, ill, distance: distance * ill - np.exp(noise),
    "skewed up": lambda noise, ill, distance: distance * ill + np.exp(noise),
}
COHORTS = [(20, 0.5), (60, 0.2), (60, 0.5), (200, 0.05), (200, 0.2), (2000, 0.05), (2000, 0.5)]
COHORTS_OF_SHORT = [(20, 0.5), (60, 0.2), (200, 0.2)]
AUCS = (0.7, 0.9, 0.95, 0.98)
ALIKE = 0.7  # correlation of fellow eyes
MISS = 0.07  # allowed
ABOVE = 0.035
GRADE_BOUNDS = (0, 0.35, 1.05, 1.75)  # of severity
POPULATIONS = {"half without": 0.0, "three quarters without": -0.8}  # shift of severity
HEALTHY = {**POPULATIONS, "nine in ten without": -1.5}
FEW_ILL = 0.3  # share of ill eyes where patients are few
MARGIN = 0.02
GRADERS = (0.7, 0.5)  # deviations of the errors of two
READERS = (0.5, 0.5, 0.5)  # of three


class Eyes(NamedTuple):
    """Two eyes of each patient in turn."""

    ill: np.ndarray
    score: np.ndarray
    patient: np.ndarray


def draw_pairs(rng: Generator, num_patients: int, alike: float) -> np.ndarray:
    """(2 * patients,) normal numbers, those of a patient correlated."""
    shared = rng.normal(size=(num_patients, 1))
    own = rng.normal(size=(num_patients, 2))
    return (alike**0.5 * shared + (1 - alike) ** 0.5 * own).ravel()


def pair(num_patients: int) -> np.ndarray:
    """The patient of each of so many pairs of eyes."""
    return np.arange(2 * num_patients) // 2


def draw_eyes(
    rng: Generator,
    num_patients: int,
    prevalence: float,
    shape: str,
    distance: float,
    alike: float,
) -> Eyes:
    """A study of one test."""
    ill = draw_pairs(rng, num_patients, alike) < norm.ppf(prevalence)
    score = SHAPES[shape](draw_pairs(rng, num_patients, alike), ill, distance)
    return Eyes(ill, score, pair(num_patients))


def count_auc(ill: np.ndarray, score: np.ndarray) -> float:
    """The share of pairs in order."""
    num_ill = ill.sum()
    ranks = rankdata(score)[ill].sum() - num_ill * (num_ill + 1) / 2
    return float(ranks / (num_ill * (len(ill) - num_ill)))


@functools.cache
def find_distance(shape: str, auc: float) -> tuple[float, float]:
    """The distance at which a score of that shape has an AUC, and the AUC of 400,000 eyes there."""
    noise = default_rng(1).normal(size=400_000)
    ill = np.arange(len(noise)) % 2 == 0

    def excess(distance: float) -> float:
        return count_auc(ill, SHAPES[shape](noise, ill, distance)) - auc

    distance = brentq(excess, 0.01, 20, xtol=1e-3)
    return distance, auc + excess(distance)


def has_both(ill: np.ndarray) -> bool:
    """Whether there are photographs with and without the condition."""
    return bool(ill.any() and not ill.all())


def simulate_auc(
    rng: Generator,
    studies: int,
    shape: str,
    auc: float,
    cohort: tuple[int, float],
    alike: float,
) -> Rows:
    """The AUC of studies with ten patients of each kind or more, and of those with fewer."""
    distance, truth = find_distance(shape, auc)
    found = {"": [], ", too few of a kind": []}
    for _ in range(studies):
        eyes = draw_eyes(rng, *cohort, shape, distance, alike)
        kinds = [set(eyes.patient[k]) for k in (eyes.ill, ~eyes.ill)]
        if has_both(eyes.ill):
            few = ", too few of a kind" * (min(map(len, kinds)) < MIN_PATIENTS)
            found[few].append(auc_interval(*eyes))
    fellows = "alike" if alike else "independent"
    name = f"{shape}, AUC {auc}, {cohort[0]} patients, {cohort[1]:.0%} ill, eyes {fellows}"
    name = name.replace("% ill", " % ill")
    return {
        name + few: count_misses(intervals, truth, miss=MISS, side=ABOVE)
        for few, intervals in found.items()
        if len(intervals) >= studies / 4
    }


@functools.cache
def find_other_truths(shape: str, auc: float) -> tuple[float, float, float]:
    """Distance, average precision and Brier score of 200,000 patients, three in ten ill."""
    distance, _ = find_distance(shape, auc)
    eyes = draw_eyes(default_rng(3), 200_000, 0.3, shape, distance, 0.0)
    precision = average_precision_interval(*eyes).value
    return distance, precision, score_brier(eyes, distance).value


def score_brier(eyes: Eyes, distance: float) -> Interval:
    """The Brier score of probabilities as a normal score gives them."""
    log_odds = distance * eyes.score - distance**2 / 2 + np.log(0.3 / 0.7)
    return brier_interval(
        eyes.ill, 1 / (1 + np.exp(-np.clip(log_odds, -700, 700))), eyes.patient
    )


def simulate_edge(
    rng: Generator, studies: int, shape: str, auc: float, num_patients: int
) -> Rows:
    """AUC, average precision and Brier score of a test that is nearly perfect."""
    auc_truth = find_distance(shape, auc)[1]
    distance, precision, brier = find_other_truths(shape, auc)
    found = {"AUC": [], "average precision": [], "Brier score": []}
    for _ in range(studies):
        eyes = draw_eyes(rng, num_patients, 0.3, shape, distance, ALIKE)
        if has_both(eyes.ill):
            found["AUC"].append(auc_interval(*eyes))
            found["average precision"].append(average_precision_interval(*eyes))
            found["Brier score"].append(score_brier(eyes, distance))
    truths = [auc_truth, precision, brier]
    rows = {
        name: count_misses(intervals, truth, miss=0.06, side=0.04)
        for (name, intervals), truth in zip(found.items(), truths, strict=True)
    }
    imperfect = [each for each in found["AUC"] if each.value < 1]
    rows["AUC, where it is below 1"] = count_misses(imperfect, auc_truth, miss=None)
    bounded = [each for each in found["average precision"] if not np.isnan(each.low)]
    rows["average precision, where it has bounds"] = count_misses(bounded, precision, miss=None)
    return {f"{shape}, AUC {auc}, {num_patients} patients: {k}": v for k, v in rows.items()}


def draw_counts(rng: Generator, kind: str, n: int) -> np.ndarray:
    """How many photographs each patient has."""
    if kind == "geometric":
        return rng.geometric(0.3, n)
    if kind == "log-normal":
        return np.maximum(1, np.round(rng.lognormal(0.7, 1.0, n))).astype(int)
    counts = np.full(n, 2)
    if kind == "one has a fifth":
        counts[0] = int(0.25 * 2 * (n - 1))
    else:  # two have 18 % each
        counts[:2] = int(0.18 * 2 * (n - 2) / 0.64)
    return counts


def simulate_uneven(
    rng: Generator,
    studies: int,
    kind: str,
    is_same: bool,
    auc: float,
    num_patients: int,
) -> Rows:
    """The AUC where nobody has more than a fifth of the photographs."""
    distance, truth = find_distance("binormal", auc)
    found = []
    for _ in range(studies):
        counts = draw_counts(rng, kind, num_patients)
        patient = np.repeat(np.arange(num_patients), counts)
        shared = rng.normal(size=(2, num_patients))[:, patient]
        own = rng.normal(size=(2, len(patient)))
        mixed = ALIKE**0.5 * shared + (1 - ALIKE) ** 0.5 * own
        ill = (shared[0] if is_same else mixed[0]) < norm.ppf(0.4)
        if counts.max() <= 0.2001 * counts.sum() and has_both(ill):
            found.append(auc_interval(ill, mixed[1] + distance * ill, patient))
    of_patient = "one diagnosis a patient" if is_same else "a diagnosis a photograph"
    name = f"photographs a patient: {kind}; {of_patient}, AUC {auc}, {num_patients} patients"
    return {name: count_misses(found, truth, miss=MISS)}


def estimate_others(eyes: Eyes, other: np.ndarray, distance: float) -> dict[str, Interval]:
    """Intervals of what else is said of a test; probabilities are those of a normal score."""
    ill, score, patient = eyes
    log_odds = (
        norm.logpdf(score, distance) - norm.logpdf(score) + np.log(np.mean(ill) / 2 / 0.5)
    )
    called = score > distance / 2
    sensitivity = proportion_interval(called[ill], patient[ill])
    specificity = proportion_interval(~called[~ill], patient[~ill])
    plus, minus = likelihood_ratios(sensitivity, specificity)
    return {
        "average precision": average_precision_interval(*eyes),
        "Brier score": brier_interval(ill, 1 / (1 + np.exp(-log_odds)), patient),
        "difference of AUC": auc_difference(ill, [score, other], patient),
        "sensitivity": sensitivity,
        "specificity": specificity,
        "positive predictive value": proportion_interval(ill[called], patient[called]),
        "LR+": plus,
        "LR-": minus,
    }


def draw_two(
    rng: Generator,
    num_patients: int,
    prevalence: float,
    shape: str,
    distances: tuple[float, float],
) -> tuple[Eyes, np.ndarray, float]:
    """A study of two tests whose noise is alike, as `estimate_others` takes it."""
    ill = draw_pairs(rng, num_patients, ALIKE) < norm.ppf(prevalence)
    noise = draw_pairs(rng, num_patients, ALIKE)
    second = 0.9 * noise + 0.19**0.5 * draw_pairs(rng, num_patients, ALIKE)
    eyes = Eyes(ill, SHAPES[shape](noise, ill, distances[0]), pair(num_patients))
    return eyes, SHAPES[shape](second, ill, distances[1]), distances[0]


@functools.cache
def find_truths(
    shape: str, distances: tuple[float, float], prevalence: float
) -> dict[str, float]:
    """What `estimate_others` estimates, of 300,000 patients."""
    study = draw_two(default_rng(4), 300_000, prevalence, shape, distances)
    return {name: each.value for name, each in estimate_others(*study).items()}


def simulate_others(
    rng: Generator,
    studies: int,
    shape: str,
    aucs: tuple[float, float],
    cohort: tuple[int, float],
) -> Rows:
    """Scores other than the AUC of studies with ten patients of each kind."""
    distances = tuple(find_distance(shape, auc)[0] for auc in aucs)
    truths = find_truths(shape, distances, cohort[1])
    found = {name: [] for name in truths}
    for _ in range(studies):
        study = draw_two(rng, *cohort, shape, distances)
        ill, _, patient = study[0]
        if min(len(set(patient[k])) for k in (ill, ~ill)) >= MIN_PATIENTS:
            for name, each in estimate_others(*study).items():
                found[name].append(each)
    return {
        f"{name}: {shape}, AUC {aucs[0]} and {aucs[1]}, {cohort[0]} patients": count_misses(
            intervals, truths[name], miss=MISS, side=ABOVE
        )
        for name, intervals in found.items()
    }


# --- few patients


def draw_grades(
    rng: Generator, num_patients: int, shift: float, errors: Sequence[float]
) -> np.ndarray:
    """Grades of eyes by a reference, and by graders whose errors have these deviations."""
    severity = shift + 1.1 * draw_pairs(rng, num_patients, ALIKE)
    noise = rng.normal(size=(len(errors), 2 * num_patients)) * np.reshape(errors, (-1, 1))
    return np.digitize([severity, *(severity + noise)], GRADE_BOUNDS)


@functools.cache
def find_kappas(shift: float) -> tuple[float, float]:
    """The kappa of the first grader, and the second's less that, of 200,000 patients."""
    grades = draw_grades(default_rng(5), 200_000, shift, GRADERS)
    found = [cohen_kappa_score(grades[0], each, weights="quadratic") for each in grades[1:]]
    return found[0], found[1] - found[0]


def simulate_kappas(rng: Generator, studies: int, population: str, num_patients: int) -> Rows:
    """Kappa of a grader and the difference of two, of studies in which they have bounds."""
    shift = HEALTHY[population]
    patient = pair(num_patients)
    found = {"kappa": [], "difference of kappa": []}
    for _ in range(studies):
        grade, *graders = draw_grades(rng, num_patients, shift, GRADERS)
        found["kappa"].append(kappa_interval(grade, graders[0], patient_id=patient))
        found["difference of kappa"].append(kappa_interval(grade, *graders, patient_id=patient))
    return {
        f"{name}: {population}, {num_patients} patients": count_bounded(intervals, truth)
        for (name, intervals), truth in zip(found.items(), find_kappas(shift), strict=True)
    }


def count_bounded(intervals: Sequence[Interval], truth: float) -> dict[str, Rate]:
    """How often intervals with bounds miss the truth, and how many have none."""
    bounded = [each for each in intervals if not np.isnan(each.low)]
    rates = count_misses(bounded, truth, miss=MISS)
    rates["no interval"] = Rate(len(intervals) - len(bounded), len(intervals))
    return rates


def estimate_shares(
    eyes: Eyes, other: np.ndarray, distances: tuple[float, float], threshold: float
) -> dict[str, Interval]:
    """What two tests differ in at their thresholds, and the first one's gains at another."""
    ill, score, patient = eyes
    is_right = [
        (each > d / 2) == ill for each, d in zip((score, other), distances, strict=True)
    ]
    gained = is_right[1] & ~is_right[0]
    lost = is_right[0] & ~is_right[1]
    odds = threshold / (1 - threshold)
    called = score > distances[0] / 2 + (logit(threshold) - logit(FEW_ILL)) / distances[0]
    over_none = clustered_difference(called & ~ill, called & ill, patient, odds)
    return {
        "difference of sensitivities": clustered_difference(
            gained[ill], lost[ill], patient[ill]
        ),
        "difference of specificities": clustered_difference(
            gained[~ill], lost[~ill], patient[~ill]
        ),
        "gain over all": clustered_difference(~called & ~ill, ~called & ill, patient, odds),
        "gain over none": Interval(
            -over_none.value, -over_none.high, -over_none.low, over_none.n
        ),
    }


@functools.cache
def find_shares(distances: tuple[float, float], threshold: float) -> dict[str, float]:
    """What `estimate_shares` estimates, of 300,000 patients."""
    study = draw_two(default_rng(7), 300_000, FEW_ILL, "binormal", distances)
    found = estimate_shares(*study[:2], distances, threshold)
    return {name: each.value for name, each in found.items()}


def simulate_shares(rng: Generator, studies: int, num_patients: int, threshold: float) -> Rows:
    """Two tests of AUC 0.85 and 0.9, as `compare_models` and `weigh_decisions` show them."""
    distances = tuple(find_distance("binormal", auc)[0] for auc in (0.85, 0.9))
    truths = find_shares(distances, threshold)
    found = {name: [] for name in truths}
    for _ in range(studies):
        eyes, other, _ = draw_two(rng, num_patients, FEW_ILL, "binormal", distances)
        shares = estimate_shares(eyes, other, distances, threshold)
        for kind, name in ((eyes.ill, "sensitivities"), (~eyes.ill, "specificities")):
            if len(set(eyes.patient[kind])) < MIN_PATIENTS:
                shares[f"difference of {name}"] = NOTHING
        for name, each in shares.items():
            found[name].append(each)
    return {
        f"{name}: {num_patients} patients, threshold {threshold}": count_bounded(
            intervals, truths[name]
        )
        for name, intervals in found.items()
    }


# --- counts that a report hides


def simulate_hidden(rng: Generator, studies: int) -> Rows:
    """Test splits with nested, crossed and incomplete groups, audited by integer programming."""
    from tests.rooms.evaluation.test_evaluation import audit

    is_found = [bool(audit(rng)) for _ in range(studies)]
    return {"a count below five": {"can be computed": count_true(is_found, 0.0)}}


# --- the accuracy gate of exports


class Answers(NamedTuple):
    """Grades of eyes by people, by a network and by its conversion, and their scores."""

    grade: np.ndarray
    patient: np.ndarray
    scores: tuple[np.ndarray, np.ndarray]
    called: tuple[np.ndarray, np.ndarray]

    def lose(self, what: str) -> float:
        """What conversion cost of kappa or AUC."""
        if what == "kappa":
            was, now = (
                kappa_interval(self.grade, each, patient_id=self.patient).value
                for each in self.called
            )
        else:
            was, now = estimate_aucs(self.grade >= 2, self.scores, self.patient).values
        return was - now


def draw_answers(
    rng: Generator, num_patients: int, shift: float, damage: str, size: float
) -> Answers:
    """A conversion with a damage: a share of patients or photographs has one answer, or noise."""
    severity = shift + 1.1 * draw_pairs(rng, num_patients, ALIKE)
    before = severity + 0.35 * rng.normal(size=2 * num_patients)
    after = before.copy()
    if damage == "noise":
        after += size * rng.normal(size=2 * num_patients)
    elif damage.startswith("photographs"):
        after[rng.random(2 * num_patients) < size] = -9.0
    elif damage.startswith("patients"):
        is_lost = np.repeat(rng.random(num_patients) < size, 2)
        after[is_lost] = 9.0 if damage.endswith("4") else -9.0
    return Answers(
        np.digitize(severity, GRADE_BOUNDS),
        pair(num_patients),
        (before, after),
        (np.digitize(before, GRADE_BOUNDS), np.digitize(after, GRADE_BOUNDS)),
    )


@functools.cache
def find_size(shift: float, damage: str, what: str) -> float:
    """The size of a damage that truly costs the margin of AUC or kappa."""

    def excess(size: float) -> float:
        rng = default_rng(2)
        return draw_answers(rng, 100_000, shift, damage, size).lose(what) - MARGIN

    return brentq(excess, 0, 1.5 if damage == "noise" else 0.5, xtol=1e-4)


DAMAGES = ("patients called 0", "photographs called 0", "patients called 4", "noise")
LOSSES = (*itertools.product(DAMAGES, ("kappa", "AUC")), ("none", ""), ("slight noise", ""))


def simulate_gate(
    rng: Generator,
    studies: int,
    population: str,
    damage: str,
    what: str,
    num_patients: int,
) -> Rows:
    """A conversion that loses the margin of a score, or nothing."""
    shift = POPULATIONS[population]
    size = find_size(shift, damage, what) if what else 0.03
    kind = "noise" if damage == "slight noise" else damage
    num_passed = 0
    for _ in range(studies):
        grade, patient, scores, called = draw_answers(rng, num_patients, shift, kind, size)
        changes = measure_changes(grade, patient, scores, called, margin=MARGIN)
        num_passed += changes.auc.low > -MARGIN and changes.kappa.low > -MARGIN
    loss = f"{damage}, loses {MARGIN} of {what}" if what else f"{damage}, loses nothing"
    passed = Rate(num_passed, studies, 0.025 if what else None)
    return {f"{loss}: {population}, {num_patients} patients": {"passes": passed}}


# --- several readers, and another hospital


@functools.cache
def find_noise(shift: float, excess: float) -> float:
    """The deviation at which the model's kappa with readers differs by `excess` from theirs."""

    def miss(noise: float) -> float:
        rng = default_rng(6)
        _, model, first, second, _ = draw_grades(rng, 100_000, shift, (noise, *READERS))
        kappas = [
            cohen_kappa_score(first, each, weights="quadratic") for each in (model, second)
        ]
        return kappas[0] - kappas[1] - excess

    return brentq(miss, 0.2, 3, xtol=1e-3)


def simulate_readers(
    rng: Generator, studies: int, population: str, excess: float, num_patients: int
) -> Rows:
    """The difference of the model's kappa with readers from theirs, and false "within"."""
    shift = HEALTHY[population]
    noise = find_noise(shift, excess)
    patient = pair(num_patients)
    found = []
    for _ in range(studies):
        grades = draw_grades(rng, num_patients, shift, (noise, *READERS)).astype(float)
        _, model, *readers = grades
        readers[2][::3] = np.nan  # of whom one has read two thirds
        found.append(excess_kappa(model, readers, patient))
    rates = count_bounded(found, excess)
    limit = 0.025 if excess == -0.1 else None
    rates["within a margin of 0.1"] = count_true([each.low > -0.1 for each in found], limit)
    return {f"excess {excess:g}: {population}, {num_patients} patients": rates}


def simulate_shift(
    rng: Generator, studies: int, num_patients: int, shift: tuple[float, float]
) -> Rows:
    """What closed testing chooses of k patients whose log odds are moved, and the risk after it."""
    intercept, slope = shift
    others = draw_shifted(default_rng(7), 3000, shift)
    chosen = []
    missed = []
    biases = []
    for _ in range(studies):
        y, p, patient = draw_shifted(rng, num_patients, shift)
        missed.append(fit_slope(y, p, patient)[1])
        found = choose_recalibration(y, p, patient)
        if found is not None:
            chosen.append(found[0])
            biases.append(found[0](others[1]).mean() - others[0].mean())
    is_near = np.abs(biases) <= 0.05
    before = others[1].mean() - others[0].mean()
    rates = {
        "nothing": count_true([each[:2] == (0, 1) for each in chosen]),
        "intercept": count_true([each[0] != 0 and each[1] == 1 for each in chosen]),
        "intercept and slope": count_true([each[1] != 1 for each in chosen]),
        "slope missed by its interval": count_bounded(missed, slope)["truth outside"],
        "mean risk of the others within 0.05": count_true(is_near),
    }
    name = f"intercept {intercept:g}, slope {slope:g}: {num_patients} patients; before"
    return {f"{name} {before:+.3f}, mean after {np.mean(biases):+.3f}": rates}


def draw_shifted(
    rng: Generator, num_patients: int, shift: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, probabilities whose log odds are moved by an intercept and a slope, and patients."""
    truth = 2 * draw_pairs(rng, num_patients, 0.5) - 1.2
    y = rng.random(len(truth)) < expit(truth)
    return y, expit((truth - shift[0]) / shift[1]), np.arange(len(y)) // 2


def simulate_size(rng: Generator, studies: int, auc: float, design: StudyDesign) -> Rows:
    """How many studies of the size that `patients` finds have an interval as narrow."""
    size = find_sizes({"AUC": auc}, design)["AUC"]
    distance, _ = find_distance("binormal", auc)
    rates = {}
    for name, number in size._asdict().items():
        patient = np.arange(design.eyes * number) // design.eyes
        widths = []
        for _ in range(studies):
            ill, score, _ = draw_eyes(
                rng, number, design.prevalence, "binormal", distance, design.correlation
            )
            step = 2 // design.eyes
            found = auc_interval(ill[::step], score[::step], patient)
            widths.append(found.high - found.low)
        rates[f"{name} size reaches the width"] = count_true(np.array(widths) <= design.width)
    eyes = f"{design.eyes} eye{'s' * (design.eyes > 1)}"
    return {f"AUC {auc:g}, {design.prevalence:.0%} ill, {eyes}: {size}": rates}


def draw_labels(
    rng: Generator, num_patients: int, ill_share: float, wrong: tuple[float, float]
) -> pd.DataFrame:
    """Test photographs with labels that are wrong for shares of the ill and of the well eyes."""
    ill = draw_pairs(rng, num_patients, 0.6) > stats.norm.isf(ill_share)
    score = 1.8 * ill + draw_pairs(rng, num_patients, 0.5)
    label = ill ^ (rng.random(len(ill)) < np.where(ill, *wrong))
    table = {
        "image_id": [f"i{k}" for k in range(len(ill))],
        "patient_id": np.arange(len(ill)) // 2,
        "referable": label.astype(float),
        "probability_referable": stats.norm.cdf(score - 0.9),
        "is_ill": ill.astype(float),
    }
    return pd.DataFrame(table)


def simulate_adjudication(
    rng: Generator,
    studies: int,
    num_patients: int,
    ill_share: float,
    wrong: tuple[float, float],
    number: int,
) -> Rows:
    """How often the corrected interval, and that of the labels, misses the truth."""
    many = draw_labels(default_rng(8), 200_000, ill_share, wrong)
    called = many["probability_referable"] >= 0.5
    ill = many["is_ill"] == 1
    truths = {"sensitivity": called[ill].mean(), "specificity": 1 - called[~ill].mean()}
    points = pd.DataFrame({"point": ["high sensitivity"], "threshold": [0.5]})
    rows = []
    for _ in range(studies):
        test = draw_labels(rng, num_patients, ill_share, wrong)
        drawn = draw_sample(test, points, number, rng)
        rows.append(correct_accuracy(test, points, test.loc[drawn.index]).iloc[0])
    table = pd.DataFrame(rows)
    rates = {}
    means = []
    for name, truth in truths.items():
        for column, limit in ((f"{name}_corrected", 0.07), (name, None)):
            outside = ~table[f"{column}_low"].le(truth) | ~table[f"{column}_high"].ge(truth)
            rates[f"{column.replace('_', ', ')} missed"] = count_true(outside, limit)
        means.append(f"{truth:.3f} ({table[f'{name}_corrected'].mean():.3f})")
    design = f"{num_patients} patients, {ill_share:.0%} ill, wrong {wrong[0]:.0%} and"
    return {f"{design} {wrong[1]:.0%}, {number} again: {' and '.join(means)}": rates}


# --- all of them

PARTS = [  # add a part here, or lines to a part's function
    Part(
        "Verdicts",
        "The truth is a thousandth outside the bound (false holds) or inside it (false does not"
        " hold), the worst case, and 10 % inside in the last column; of at least and at most the"
        " larger rate. The name ends in the number of runs of a cell; each run has its own session"
        " unless the name has sessions.",
        make_lines(
            "{0.name}; {1}",
            simulate_verdicts,
            "situation n",
            [(situation, n) for situation, numbers in SITUATIONS.items() for n in numbers],
            lambda situation, n: SHORT // 4 if situation.num_cells >= MANY else SHORT,
            lambda situation, n: FULL_OF_MANY if situation.num_cells >= MANY else FULL,
        ),
    ),
    Part(
        "Training modes",
        "A mode's speed counts only if its AUC is equivalent: two one-sided tests at 5 %.",
        [Line("modes", simulate_modes, 5 * SHORT, 20 * FULL)],
    ),
    Part(
        "Equal models",
        "Times of two machines are compared where their test AUCs are equivalent, margin 0.02. One"
        " training a seed and machine, 0.01 between seeds.",
        make_lines(
            "models, {}, {:g}, {:g}",
            simulate_models,
            "n difference correlation",
            itertools.product((5, 10), (0.0, AUC_MARGIN), (0.0, 0.5)),
        ),
    ),
    Part(
        "Looking again",
        "The truth is on the bound. A claim on a mean (cv 10 %, a run in each session) is judged"
        " after each session from the third on, until it is decided. The limits are the rates that"
        " reasons of verdicts name.",
        [Line("looks", simulate_looks, 2 * SHORT)],
    ),
    Part(
        "Machines and sessions",
        "10 % between sessions, 2 % within, as reports show them.",
        make_lines(
            "two machines alike, {} sessions of {}",
            simulate_machines,
            "sessions n",
            ((1, 3), (1, 10), (3, 1), (3, 5), (5, 3), (10, 1)),
        )
        + make_lines("within one session, {}", simulate_within, "n", ((3,), (5,), (10,))),
    ),
    Part(
        "Equal arms",
        "Null controls: studies of two arms that are truly equal, 10 % between sessions, and 2 %"
        ' within unless it is said. The claim is "arm a takes longer"; a slowed run takes 1.2 to 2'
        " times as long.",
        make_lines("{0.name}", simulate_placebos, "placebo", zip(PLACEBOS), 5 * SHORT),
    ),
    Part(
        "Stack and hardware",
        'The claim A9, "a TPU needs 36 ± 5 % less time than two T4", by five warm sessions of two'
        " trainings a side, cv 5 % between sessions and 2 % within. Where stacks or work are unlike"
        " or unknown, there is no verdict about hardware, by rule.",
        [
            Line(
                f"{100 * saving:.0f} % less, {unlike}",
                partial(simulate_hardware, saving=saving, unlike=unlike),
                SHORT if unlike == "alike" else SHORT // 10,
                FULL if unlike == "alike" else SHORT,
            )
            for saving, unlike in itertools.product((0.0, 0.36), UNLIKE)
        ],
    ),
    Part(
        "Effects of factors",
        "3 x 2 x 2 cells without any effect. The p are Holm's of all seven terms.",
        make_lines("{}", simulate_effects, "design", [[name] for name in DESIGNS]),
    ),
    Part(
        "Power of effects",
        "Equal spread, beside the classical test that pools it.",
        make_lines(
            "power, {}, {}", simulate_power, "n size", ((3, 4), (5, 4), (2, 8), (2, 16))
        ),
    ),
    Part(
        "Plans",
        "Studies of as many runs as `plan` finds for a half width, with the interval of reports.",
        make_lines(
            "plan {} {}",
            simulate_plan,
            "cv half_width",
            ((0.02, 0.02), (0.05, 0.05), (0.1, 0.05), (0.1, 0.1), (0.3, 0.1)),
        ),
    ),
    Part(
        "Plans of differences",
        "Studies of as many runs of each arm as `plan` finds for a difference, by the ratio that"
        " reports show; a limit is the claimed error and two points. Below, the power of plans"
        " whose spread was measured by a few runs, by its upper 80 % bound.",
        make_lines(
            "difference {} {} {}",
            simulate_difference,
            "cv difference per_session",
            [(*spread, per_session) for spread in SPREADS for per_session in (ALL, 2, 1, 0)],
            5 * SHORT,
        )
        + make_lines(
            "pilot {} {} {}",
            simulate_pilots,
            "cv difference n",
            [(*spread, n) for spread in SPREADS for n in (3, 8)],
        ),
    ),
    Part(
        "AUC near 1",
        "30 % ill, eyes alike. An interval that is a word misses nothing.",
        make_lines(
            "edge {} {} {}",
            simulate_edge,
            "shape auc num_patients",
            itertools.product(SHAPES, (0.98, 0.99, 0.998, 0.999), (20, 60, 120, 300)),
            lambda shape, *_: SHORT * (shape == "binormal"),
        ),
    ),
    Part(
        "Uneven numbers of photographs",
        "Nobody has more than a fifth of the photographs; 40 % ill.",
        make_lines(
            "uneven {} {} {} {}",
            simulate_uneven,
            "kind is_same auc num_patients",
            itertools.product(
                ("one has a fifth", "geometric", "two have 18 % each", "log-normal"),
                (True, False),
                (0.7, 0.9),
                (30, 60, 120),
            ),
        ),
    ),
    Part(
        "AUC",
        "Two eyes of each patient. With fewer than ten patients of a kind, and for a perfect or"
        " constant score, the bounds are Hoeffding's.",
        make_lines(
            "{} {} {} {}",
            simulate_auc,
            "shape auc cohort alike",
            itertools.product(SHAPES, AUCS, COHORTS, (0.0, ALIKE)),
            lambda shape, auc, cohort, alike: (
                SHORT * (alike > 0 and cohort in COHORTS_OF_SHORT)
            ),
            lambda shape, auc, cohort, alike: FULL if cohort[0] < 1000 else FULL_OF_MANY,
        ),
    ),
    Part(
        "Other scores",
        "At least ten patients of each kind; eyes alike.",
        make_lines(
            "{} {} {}",
            simulate_others,
            "shape aucs cohort",
            itertools.product(
                ("binormal", "wider ill"),
                ((0.85, 0.85), (0.9, 0.95), (0.97, 0.97), (0.97, 0.99)),
                ((30, 0.5), (60, 0.2), (200, 0.2), (600, 0.2)),
            ),
            lambda shape, aucs, cohort: SHORT * (shape == "binormal" and cohort == (200, 0.2)),
        ),
    ),
    Part(
        "Few patients",
        "Of studies whose interval has bounds. Two graders, of whom the second errs less; two tests"
        " of AUC 0.85 and 0.9, 30 % ill, at their thresholds; gains of the first on referring all"
        " and none.",
        make_lines(
            "kappa {} {}",
            simulate_kappas,
            "population num_patients",
            itertools.product(HEALTHY, (15, 20, 30, 60)),
        )
        + make_lines(
            "shares {} {}",
            simulate_shares,
            "num_patients threshold",
            itertools.product((20, 30, 60, 120, 300), (0.1, FEW_ILL, 0.5)),
        ),
    ),
    Part(
        "Several readers",
        "Three readers, one of whom has read two thirds, and a model; the excess is its kappa with"
        " them less theirs. Two eyes of each patient.",
        make_lines(
            "readers {} {} {}",
            simulate_readers,
            "population excess num_patients",
            itertools.product(POPULATIONS, (0, -0.1), (60, 200)),
        ),
    ),
    Part(
        "Wrong labels",
        "Sensitivity and specificity, corrected by photographs that are graded again, and as"
        " labelled. In brackets the mean of the corrected ones beside the truth. Two eyes of each"
        " patient.",
        make_lines(
            "adjudication ({}, {}, {}, {})",
            simulate_adjudication,
            "num_patients ill_share wrong number",
            (
                (200, 0.3, (0.15, 0.05), 60),
                (200, 0.3, (0.15, 0.05), 150),
                (1000, 0.1, (0.2, 0.03), 60),
                (1000, 0.1, (0.2, 0.03), 200),
                (200, 0.3, (0.0, 0.0), 60),
            ),
        ),
    ),
    Part(
        "Another hospital",
        "What `recalibrate` chooses by k patients where the log odds are moved. Of 3,000 others the"
        " mean probability less the share of ill eyes is given before and after.",
        make_lines(
            "shift {} {}",
            simulate_shift,
            "shift num_patients",
            itertools.product(((0, 1), (1, 1), (1, 0.5)), (30, 100)),
        ),
    ),
    Part(
        "Study sizes",
        "Studies of the size that `patients` finds for an interval of 0.1; eyes are alike by half.",
        make_lines(
            "size {0} {1.prevalence} {1.eyes}",
            simulate_size,
            "auc design",
            [
                (auc, StudyDesign(0.1, prevalence, eyes))
                for auc, prevalence, eyes in itertools.product((0.8, 0.9), (0.1, 0.3), (1, 2))
            ],
        ),
    ),
    Part(
        "Hidden counts",
        "Subgroups of 40 to 800 patients, as a report shows them. The audit is that of"
        " tests/rooms/evaluation/test_evaluation.py: of groups, of two and three crossed, and of"
        " the rest.",
        [Line("hidden counts", simulate_hidden, SHORT // 4, SHORT)],
    ),
    Part(
        "The accuracy gate of exports",
        "A conversion that truly loses the margin, 0.02 of AUC or of quadratic kappa, must not"
        " pass. One that changes no probability by more than 0.01 passes without this test, so the"
        " lines that lose nothing show the power of the test alone.",
        make_lines(
            "gate {} {} {} {}",
            simulate_gate,
            "population damage what num_patients",
            [
                (population, *loss, n)
                for population in POPULATIONS
                for loss in LOSSES
                for n in (390, 520, 1500)
            ],
            lambda population, damage, what, n: (
                SHORT * (n == 1500 and POPULATIONS[population] < 0)
            ),
            FULL_OF_MANY,
        ),
    ),
]


class Task(NamedTuple):
    """A line to be simulated, and how often."""

    part: Part
    line: Line
    studies: int

    def run(self) -> tuple[Rows, float]:
        """Its rates, and the seconds of the processor; seeded by its name."""
        began = time.process_time()
        rng = default_rng(zlib.crc32(self.line.name.encode()))
        with np.errstate(all="ignore"), threadpool_limits(1):
            rows = self.line.simulate(rng, self.studies)
        return rows, time.process_time() - began


def list_tasks(*, full: bool, only: str = "") -> list[Task]:
    """The lines whose part or name holds a text, in order."""
    tasks = []
    for part in PARTS:
        for line in part.lines:
            studies = line.full if full else line.short
            if studies and only in f"{part.title}: {line.name}":
                tasks.append(Task(part, line, studies))
    return tasks


def run_place(place: int) -> tuple[Rows, float]:
    """Run the task of that place, in a process that was forked from `simulate_all`."""
    return simulate_all.tasks[place].run()


def simulate_all(tasks: list[Task], num_processes: int = 2) -> Iterator[tuple[Rows, float]]:
    """The rates of each task in order."""
    simulate_all.tasks = tasks  # partial functions and lambdas travel by fork
    with multiprocessing.get_context("fork").Pool(num_processes) as pool:
        yield from pool.imap(run_place, range(len(tasks)))


def write_table(rows: Rows) -> str:
    """A table of Markdown: a row for each design, a column for each rate."""
    lines = []
    for name, rates in rows.items():
        line = {"design": name, "studies": max(rate.studies for rate in rates.values())}
        lines.append(line | {rate_name: str(rate) for rate_name, rate in rates.items()})
    return measured.write_table(pd.DataFrame(lines).fillna(""))


def list_failures(rows: Rows) -> list[str]:
    """The rates that are above their limit beyond chance."""
    return [
        f"{name}: {rate_name} {rate}"
        for name, rates in rows.items()
        for rate_name, rate in rates.items()
        if rate.fails()
    ]


def write_page(
    found: dict[str, Rows], failures: Sequence[str], *, command: str, seconds: float
) -> str:
    """The page of all rates."""
    num_rates = sum(len(rates) for rows in found.values() for rates in rows.values())
    commit = shorten_commit(read_commit(ROOT))
    texts = {part.title: part.text for part in PARTS}
    lines = [
        "# Rates of wrong intervals and verdicts",
        f"`{command}`, {date.today()}, commit {commit}, {seconds / 60:.0f} minutes of a processor:"
        f" {num_rates} rates. [How certain the numbers are](../measuring.md) explains what is"
        " promised.",
        "Rates are per cent of simulated studies, with their 99 % lower and upper bounds (Clopper"
        " and Pearson). Behind the sign is the limit; a rate whose lower bound is above it fails"
        " and is bold. Rates without a sign are only shown.",
        f"Failed: {len(failures)}." + "".join(f"\n- {failure}" for failure in failures),
    ]
    for title, rows in found.items():
        lines += [f"## {title}", texts[title], write_table(rows)]
    return "\n\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, write the page if all lines were simulated, and print what failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="overnight")
    parser.add_argument("--only", default="", help="lines whose part or name holds this")
    options = parser.parse_args(arguments)
    tasks = list_tasks(full=options.full, only=options.only)
    found = {}
    failures = []
    total = 0.0
    for task, (rows, seconds) in zip(tasks, simulate_all(tasks), strict=True):
        found.setdefault(task.part.title, {}).update(rows)
        failures += list_failures(rows)
        total += seconds
        print(f"{seconds:6.1f} s  {task.part.title}: {task.line.name}", flush=True)
        if options.only:
            print(write_table(rows), flush=True)
    if not options.only:
        command = "make rates FULL=1" if options.full else "make rates"
        page = write_page(found, failures, command=command, seconds=total)
        PAGE.write_text(page, encoding="utf-8")
    for failure in failures:
        print(f"FAILS  {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
