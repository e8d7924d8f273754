"""Simulate how often verdicts are wrong, and how often one is given, on runs as people measure
them: cells that spread unlike, sessions that differ, a neighbour that doubles a time.

A truth just outside a claim's bound must not be called "holds", one just inside must not be called
"does not hold". What is estimated is the arithmetic mean of undisturbed runs over sessions. The
table is that of docs/measuring.md.

    python tests/bench_verdicts.py [--studies 2000] [--only TEXT]
"""

import argparse
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dr_lib.evidence.claims import Claim
from dr_lib.evidence.training_time import AUC_MARGIN
from dr_lib.evidence.verdicts import Cells, decide, measure
from dr_lib.statistics.intervals import difference_interval

JUST = 1e-3  # relative distance of the truth from the bound
MANY = 10  # cells: fewer studies are simulated
INSIDE = 0.1  # the same, where it is asked how often a true claim is confirmed


class Situation(NamedTuple):
    """How runs are drawn, and what is judged by them."""

    name: str
    statistic: str = "mean"
    variation: float | tuple[float, float] = 0.02  # coefficient, of both sides or of each
    num_cells: int = 1
    every_cell: bool = False  # the first cell's truth is at the bound, the others' far inside
    others: float | None = None  # coefficient of variation of the other cells
    sessions: int | None = None  # of each side; None for one for each run
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


def draw(situation: Situation, n: int, truths: np.ndarray, rng: np.random.Generator) -> Cells:
    """Runs of every cell, n each.

    Args:
        truths: the ratio of each cell, or its mean where there is one side.
    """
    sides = []
    effects = {}
    for side in range(situation.count_sides()):
        is_first = side == 0
        labels = np.arange(n) % (situation.sessions or n)
        place = 0 if situation.is_shared else side
        if place not in effects:
            sigma = np.sqrt(np.log1p(situation.between**2))
            effects[place] = rng.lognormal(-(sigma**2) / 2, sigma, n)
        cells = []
        for base, truth, variation in zip(
            situation.list_bases(),
            truths,
            situation.list_variations(side),
            strict=True,
        ):
            sigma = np.sqrt(np.log1p(variation**2))
            mean = base * truth if is_first else base
            times = mean * rng.lognormal(-(sigma**2) / 2, sigma, n) * effects[place][labels]
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
        id="A1",
        words=situation.name,
        words_pt=situation.name,
        column="t",
        statistic=situation.statistic,
        numerator={"t": "*"},
        denominator={"t": "*"} if situation.count_sides() == 2 else {},
        every_cell=situation.every_cell,
        cells=situation.num_cells,
        relation=relation,
        value=truth * (1 - sign * distance),
    )


def count(situation: Situation, n: int, studies: int) -> dict[str, float]:
    """The shares of studies that are wrong at a bound, and that confirm what is well inside; of
    the two relations, the larger.
    """
    rng = np.random.default_rng([n, zlib.crc32(situation.name.encode())])
    shares = {"false holds": 0.0, "false does not hold": 0.0, "true holds": 0.0}
    for relation in (">=", "<="):
        truths = np.full(situation.num_cells, situation.scale)
        if situation.every_cell:
            truths[1:] *= 2 if relation == ">=" else 0.5
        outside, at, inside = (
            make_claim(situation, relation, d) for d in (-JUST, JUST, INSIDE)
        )
        verdicts = []
        for _ in range(studies):
            parts = measure(at, draw(situation, n, truths, rng))
            verdicts.append([decide(claim, parts).verdict for claim in (outside, at, inside)])
        wanted = ["holds", "does not hold", "holds"]
        found = (np.array(verdicts) == wanted).mean(axis=0)
        for name, share in zip(shares, found, strict=True):
            shares[name] = max(shares[name], float(share))
    return shares


NUMBERS = (3, 5, 10)
SITUATIONS = {  # and the numbers of runs of a cell
    **{
        Situation(f"{name}, cv {cv:.0%}", statistic, cv, cells, every_cell): NUMBERS
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
    Situation("mean of a cell, one run in ten doubled", doubled=0.1): (*NUMBERS, 20, 50),
    Situation("mean of a cell, cv 10 %, one run in ten doubled", "mean", 0.1, doubled=0.1): (
        *NUMBERS,
        20,
    ),
    Situation("ratio, one run in ten doubled", "ratio", doubled=0.1): (*NUMBERS, 20),
    Situation("ratio, cv 30 % against 5 %", "ratio", (0.3, 0.05)): (*NUMBERS, 50, 200),
    Situation("ratio, cv 5 % against 30 %", "ratio", (0.05, 0.3)): (*NUMBERS, 50, 200),
}


def count_false_modes(studies: int, rng, deviation: float = 0.01, n: int = 10) -> float:
    """The share of studies in which a mode counts whose mean AUC is the margin below the
    paper's.
    """
    draws = [
        (rng.normal(-AUC_MARGIN, deviation, n), rng.normal(0, deviation, n))
        for _ in range(studies)
    ]
    found = [difference_interval(*pair, level=0.9) for pair in draws]
    return float(np.mean([-AUC_MARGIN < each.low and each.high < AUC_MARGIN for each in found]))


def list_lines(studies: int, only: str) -> Iterator[str]:
    """The rows of the table: in each cell a share [%] for each number of runs."""
    yield (
        '| situation | n | runs of a cell | false "holds" | false "does not hold" |'
        ' 10 % inside: "holds" |'
    )
    yield "| --- | --- | --- | --- | --- | --- |"
    for situation, numbers in SITUATIONS.items():
        if only in situation.name:
            repeats = studies if situation.num_cells < MANY else studies // 4
            counted = [count(situation, n, repeats).values() for n in numbers]
            shares = [
                ", ".join(f"{100 * share:.1f}" for share in column)
                for column in zip(*counted, strict=True)
            ]
            runs = ", ".join(map(str, numbers))
            yield f"| {situation.name} | {repeats} | {runs} | {' | '.join(shares)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--only", default="", help="situations whose names hold this")
    arguments = parser.parse_args()
    for line in list_lines(arguments.studies, arguments.only):
        print(line, flush=True)
    rng = np.random.default_rng(0)
    share = count_false_modes(20 * arguments.studies, rng)
    print(f"modes: an AUC that is the margin lower counts in {share:.1%}; 5 % is the limit")


if __name__ == "__main__":
    main()
