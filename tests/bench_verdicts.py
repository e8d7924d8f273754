"""Simulate how often verdicts are wrong: those on claims, the accuracy gate's, and those on modes.

A truth just inside a claim's bound must not be called "does not hold", one just outside must not be called "holds". The
gate must not pass a network that lost the margin, nor a mode count whose AUC is the margin away.

    python tests/bench_verdicts.py [--studies 4000]
"""

import argparse
from types import SimpleNamespace

import numpy as np
import pandas as pd

from dr_lib.evidence.verdicts import EVERY, decide, measure

JUST = 1e-3  # relative distance of the truth from the bound
SIDES = {  # statistic: how many sides, how many cells, how judged
    "mean of a cell": ("mean", 1, 1, "overall"),
    "mean of 3 cells": ("mean", 1, 3, "overall"),
    "ratio of a cell": ("ratio", 2, 1, "overall"),
    "ratio in every one of 3 cells": ("ratio", 2, 3, EVERY),
    "difference of a cell": ("difference", 2, 1, "overall"),
    "ratio of sums of 3 cells": ("ratio_of_sums", 2, 3, "overall"),
    "ratio of deviations": ("sd_ratio", 2, 1, "overall"),
}


def draw_cells(rng, means, variation: float, n: int) -> list[dict[str, np.ndarray]]:
    """Log-normal times of each cell."""
    sigma = np.sqrt(np.log1p(variation**2))
    return [{"t": m * rng.lognormal(-(sigma**2) / 2, sigma, n)} for m in means]


def count_wrong(what: str, variation: float, n: int, studies: int, rng) -> dict[str, float]:
    """The shares of studies with a wrong verdict, the truth just inside and just outside each bound."""
    statistic, num_sides, num_cells, judged = SIDES[what]
    base = np.geomspace(1, 15, num_cells)
    truth = {"mean": base.mean(), "difference": base.sum()}.get(statistic, 2.0)
    wrong = dict.fromkeys(("inside >=", "outside >=", "inside <=", "outside <="), 0)
    for _ in range(studies):
        sides = [draw_cells(rng, base * 2 ** (num_sides - 1), variation, n)]
        sides += [draw_cells(rng, base, variation, n)] if num_sides == 2 else []
        cells = {(k,): list(both) for k, both in enumerate(zip(*sides, strict=True))}
        claim = {"id": what, "column": "t", "statistic": statistic, "judged": judged, "cells": 1, "tolerance": 0.0}
        parts = measure(SimpleNamespace(**claim), [], cells)
        for case in wrong:
            place, relation = case.split()
            is_above = (place == "inside") == (relation == "<=")  # the bound lies above the truth
            asked = claim | {"relation": relation, "value": truth * (1 + JUST if is_above else 1 - JUST)}
            verdict = decide(SimpleNamespace(**asked), parts).verdict
            wrong[case] += verdict == ("does not hold" if place == "inside" else "holds")
    return {case: count / studies for case, count in wrong.items()}


def main() -> None:
    """Print the table of error rates and the worst of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=2000)
    studies, rng, lines = parser.parse_args().studies, np.random.default_rng(0), []
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
    worst = table.drop(columns=["claim", "cv", "n"]).max(axis=None)
    print(f"claims: at most {worst:.2%} of {studies} studies judged wrongly; 3 % is the limit")


if __name__ == "__main__":
    main()
