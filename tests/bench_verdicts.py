"""Simulate how often verdicts are wrong: those on claims, and those on modes.

A truth just inside a claim's bound must not be called "does not hold", one just outside must not be
called "holds". No mode must count whose AUC is the margin away. The accuracy gate's rates are in
bench_intervals.py.

    python tests/bench_verdicts.py [--studies 2500]
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dr_lib.evidence.claims import Claim
from dr_lib.evidence.training_time import AUC_MARGIN
from dr_lib.evidence.verdicts import Cells, decide, measure
from dr_lib.statistics.intervals import difference_interval

AGAIN = 4
JUST = 1e-3  # relative distance of the truth from the bound
SIDES = {  # statistic: how many sides, how many cells, whether each is judged
    "mean of a cell": ("mean", 1, 1, False),
    "mean of 3 cells": ("mean", 1, 3, False),
    "ratio of a cell": ("ratio", 2, 1, False),
    "ratio in every one of 3 cells": ("ratio", 2, 3, True),
    "difference of a cell": ("difference", 2, 1, False),
    "ratio of sums of 3 cells": ("ratio_of_sums", 2, 3, False),
    "ratio of deviations": ("sd_ratio", 2, 1, False),
}


def draw_cells(rng, means, variation: float, n: int) -> list[dict[str, np.ndarray]]:
    """Log-normal times of each cell."""
    sigma = np.sqrt(np.log1p(variation**2))
    return [{"t": m * rng.lognormal(-(sigma**2) / 2, sigma, n)} for m in means]


def count_wrong(what: str, variation: float, n: int, studies: int, rng) -> dict[str, float]:
    """The shares of studies with a wrong verdict, the truth just inside and just outside each
    bound.
    """
    statistic, num_sides, num_cells, every_cell = SIDES[what]
    base = np.geomspace(1, 15, num_cells)
    truth = {"mean": base.mean(), "difference": base.sum()}.get(statistic, 2.0)
    side = {"t": "*"}
    claim = Claim(
        id="A1",
        words=what,
        words_pt=what,
        column="t",
        statistic=statistic,
        numerator=side,
        denominator=side if num_sides == 2 else {},
        every_cell=every_cell,
        value=truth,
    )
    wrong = dict.fromkeys(("inside >=", "outside >=", "inside <=", "outside <="), 0)
    for _ in range(studies):
        sides = [draw_cells(rng, base * 2 ** (num_sides - 1), variation, n)]
        sides += [draw_cells(rng, base, variation, n)] if num_sides == 2 else []
        cells = {(k,): list(both) for k, both in enumerate(zip(*sides, strict=True))}
        parts = measure(claim, Cells([], cells))
        for case in wrong:
            place, relation = case.split()
            is_above = (place == "inside") == (
                relation == "<="
            )  # the bound lies above the truth
            value = truth * (1 + JUST if is_above else 1 - JUST)
            asked = claim.model_copy(update={"relation": relation, "value": value})
            verdict = decide(asked, parts).verdict
            wrong[case] += verdict == ("does not hold" if place == "inside" else "holds")
    return {case: count / studies for case, count in wrong.items()}


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


def main() -> None:
    """Print the table of error rates and the worst of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=2500)
    studies = parser.parse_args().studies
    rng = np.random.default_rng(0)
    lines = []
    print(
        "modes: an AUC that is the margin lower counts in"
        f" {count_false_modes(20 * studies, rng):.1%}; 5 % is the limit"
    )
    for what in SIDES:
        for variation in (0.02, 0.1, 0.3):
            for n in (3, 5, 10):
                shares = count_wrong(what, variation, n, studies, rng)
                lines.append({"claim": what, "cv": variation, "n": n} | shares)
                print(
                    f"{what:32} cv {variation:4.0%} n {n:2d} ",
                    *(f"{k} {v:6.2%}" for k, v in shares.items()),
                    flush=True,
                )
    table = pd.DataFrame(lines)
    table["worst"] = table.drop(columns=["claim", "cv", "n"]).max(axis=1)
    print(
        f"claims: at most {table['worst'].max():.2%} of {studies} studies judged wrongly; 3 % is"
        " the limit"
    )
    print(
        f"the worst of {len(table)} is large by chance too; the five worst again, with"
        f" {AGAIN * studies} other studies:"
    )
    for row in table.nlargest(5, "worst").itertuples():
        again = max(count_wrong(row.claim, row.cv, row.n, AGAIN * studies, rng).values())
        print(
            f"{row.claim:32} cv {row.cv:4.0%} n {row.n:2d}  {row.worst:.2%}, again {again:.2%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
