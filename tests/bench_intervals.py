"""Simulate how often intervals over patients miss the truth, and how often the accuracy gate passes
an artifact that lost its margin.

Each patient has two eyes, alike or independent. An interval keeps its promise where, with ten
patients or more of each kind, it covers the truth in 93 % of studies or more and lies wholly above
it in 3.5 % or fewer; one that covers more than 97 % is marked as conservative. The gate passes a
true loss of its margin in 2.5 % or fewer.

    python tests/bench_intervals.py [--studies 1000]
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm, rankdata

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dr_lib.serving.export.gate import measure_changes
from dr_lib.statistics.clustered import (
    MIN_PATIENTS,
    auc_difference,
    auc_interval,
    average_precision_interval,
    brier_interval,
    estimate_aucs,
    kappa_interval,
    likelihood_ratios,
    proportion_interval,
)
from dr_lib.statistics.intervals import Interval

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
AUCS = (0.7, 0.9, 0.95, 0.98)
ALIKE = 0.7  # correlation of fellow eyes
COVERED = (93, 97)  # percent: the least, and the most before an interval is conservative
ABOVE = 3.5
GRADE_BOUNDS = (0, 0.35, 1.05, 1.75)  # of severity
POPULATIONS = {"half without": 0.0, "three quarters without": -0.8}  # shift of severity
MARGIN = 0.02


class Eyes(NamedTuple):
    """Two eyes of each patient in turn."""

    ill: np.ndarray
    score: np.ndarray
    patient: np.ndarray


def draw_pairs(rng: np.random.Generator, num_patients: int, alike: float) -> np.ndarray:
    """(2 * patients,) normal numbers, those of a patient correlated."""
    shared = rng.normal(size=(num_patients, 1))
    own = rng.normal(size=(num_patients, 2))
    return (alike**0.5 * shared + (1 - alike) ** 0.5 * own).ravel()


def draw_eyes(
    rng: np.random.Generator,
    num_patients: int,
    prevalence: float,
    shape: str,
    distance: float,
    alike: float,
) -> Eyes:
    """A study of one test."""
    ill = draw_pairs(rng, num_patients, alike) < norm.ppf(prevalence)
    score = SHAPES[shape](draw_pairs(rng, num_patients, alike), ill, distance)
    return Eyes(ill, score, np.arange(2 * num_patients) // 2)


def count_auc(ill: np.ndarray, score: np.ndarray) -> float:
    """The share of pairs in order."""
    num_ill = ill.sum()
    ranks = rankdata(score)[ill].sum() - num_ill * (num_ill + 1) / 2
    return float(ranks / (num_ill * (len(ill) - num_ill)))


def find_distance(shape: str, auc: float) -> tuple[float, float]:
    """The distance at which a score of that shape has an AUC, and the AUC of 400,000 eyes there."""
    noise = np.random.default_rng(1).normal(size=400_000)
    ill = np.arange(len(noise)) % 2 == 0

    def excess(distance: float) -> float:
        return count_auc(ill, SHAPES[shape](noise, ill, distance)) - auc

    distance = brentq(excess, 0.01, 20, xtol=1e-3)
    return distance, auc + excess(distance)


def count_misses(intervals: list[Interval], truth: float) -> dict[str, float]:
    """Percent of studies whose interval covers the truth, lies above it, and below it."""
    low, high = np.array([each[1:3] for each in intervals]).T
    above = 100 * np.mean(low > truth + 1e-9)
    below = 100 * np.mean(high < truth - 1e-9)
    return {"covered": 100 - above - below, "above": above, "below": below}


def bench_auc(rng: np.random.Generator, studies: int) -> Iterator[dict]:
    """A line per shape, AUC, cohort and likeness of fellow eyes."""
    for shape in SHAPES:
        for auc in AUCS:
            distance, truth = find_distance(shape, auc)
            for num_patients, prevalence in COHORTS:
                for alike in (0.0, ALIKE):
                    draw = partial(
                        draw_eyes, rng, num_patients, prevalence, shape, distance, alike
                    )
                    few = []
                    enough = []
                    for _ in range(studies if num_patients < 1000 else studies // 4):
                        eyes = draw()
                        kinds = [set(eyes.patient[k]) for k in (eyes.ill, ~eyes.ill)]
                        if min(map(len, kinds)):
                            is_few = min(map(len, kinds)) < MIN_PATIENTS
                            (few if is_few else enough).append(auc_interval(*eyes))
                    for name, found in (("10 or more", enough), ("too few", few)):
                        if len(found) >= 100:
                            yield {
                                "score": shape,
                                "auc": auc,
                                "patients": num_patients,
                                "prevalence": prevalence,
                                "fellow eyes": "alike" if alike else "independent",
                                "of a kind": name,
                                "studies": len(found),
                                **count_misses(found, truth),
                            }


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
    rng: np.random.Generator,
    num_patients: int,
    prevalence: float,
    shape: str,
    distances: tuple[float, float],
) -> tuple[Eyes, np.ndarray, float]:
    """A study of two tests whose noise is alike, as `estimate_others` takes it."""
    ill = draw_pairs(rng, num_patients, ALIKE) < norm.ppf(prevalence)
    noise = draw_pairs(rng, num_patients, ALIKE)
    second = 0.9 * noise + 0.19**0.5 * draw_pairs(rng, num_patients, ALIKE)
    eyes = Eyes(ill, SHAPES[shape](noise, ill, distances[0]), np.arange(2 * num_patients) // 2)
    return eyes, SHAPES[shape](second, ill, distances[1]), distances[0]


def bench_others(rng: np.random.Generator, studies: int) -> Iterator[dict]:
    """A line per score other than the AUC, AUC, cohort; the second test has another AUC or not."""
    for shape in ("binormal", "wider ill"):
        for aucs in ((0.85, 0.85), (0.9, 0.95), (0.97, 0.97), (0.97, 0.99)):
            distances = tuple(find_distance(shape, auc)[0] for auc in aucs)
            for num_patients, prevalence in ((30, 0.5), (60, 0.2), (200, 0.2), (600, 0.2)):
                if prevalence != 0.2 or num_patients == 60:
                    truth = estimate_others(
                        *draw_two(rng, 300_000, prevalence, shape, distances)
                    )
                found = {name: [] for name in truth}
                for _ in range(studies):
                    study = draw_two(rng, num_patients, prevalence, shape, distances)
                    ill, _, patient = study[0]
                    if min(len(set(patient[k])) for k in (ill, ~ill)) >= MIN_PATIENTS:
                        for name, each in estimate_others(*study).items():
                            found[name].append(each)
                for name, intervals in found.items():
                    yield {
                        "quantity": name,
                        "score": shape,
                        "AUCs": str(aucs),
                        "patients": num_patients,
                        "prevalence": prevalence,
                        "studies": len(intervals),
                        **count_misses(intervals, truth[name].value),
                    }


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
    rng: np.random.Generator, num_patients: int, shift: float, damage: str, size: float
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
        np.arange(2 * num_patients) // 2,
        (before, after),
        (np.digitize(before, GRADE_BOUNDS), np.digitize(after, GRADE_BOUNDS)),
    )


def find_size(shift: float, damage: str, what: str) -> float:
    """The size of a damage that truly costs the margin of AUC or kappa."""

    def excess(size: float) -> float:
        rng = np.random.default_rng(2)
        return draw_answers(rng, 200_000, shift, damage, size).lose(what) - MARGIN

    return brentq(excess, 0, 1.5 if damage == "noise" else 0.5, xtol=1e-4)


def bench_gate(rng: np.random.Generator, studies: int) -> Iterator[dict]:
    """A line per population, damage, score that lost the margin, and number of patients."""
    damages = [
        (damage, what)
        for damage in (
            "patients called 0",
            "photographs called 0",
            "patients called 4",
            "noise",
        )
        for what in ("kappa", "AUC")
    ]
    for population, shift in POPULATIONS.items():
        for damage, what in [*damages, ("none", ""), ("slight", "")]:
            size = find_size(shift, damage, what) if what else 0.03
            kind = "noise" if damage == "slight" else damage
            draw = partial(draw_answers, rng, shift=shift, damage=kind, size=size)
            needed = 0
            for num_patients in (390, 520, 1500, "needed"):
                if num_patients == "needed":
                    if what:
                        continue
                    num_patients = needed
                changes = []
                for _ in range(studies):
                    grade, patient, scores, called = draw(num_patients)
                    changes.append(
                        measure_changes(grade, patient, scores, called, margin=MARGIN)
                    )
                needed = int(np.median([each.needed_patients for each in changes]))
                auc = np.array([each.auc.low > -MARGIN for each in changes])
                kappa = np.array([each.kappa.low > -MARGIN for each in changes])
                yield {
                    "population": population,
                    "damage": damage,
                    "loses": f"{MARGIN} of {what}" if what else "nothing",
                    "patients": num_patients,
                    "studies": studies,
                    "AUC lets pass": 100 * auc.mean(),
                    "kappa lets pass": 100 * kappa.mean(),
                    "passes": 100 * (auc & kappa).mean(),
                    "needed": needed,
                }


def show(lines: Iterator[dict]) -> pd.DataFrame:
    """Print each line as it is known."""
    rows = []
    for line in lines:
        cells = [
            f"{v:5.1f}" if isinstance(v, float) and v > 1 else str(v) for v in line.values()
        ]
        if "covered" in line:
            cells += ["conservative"] if line["covered"] > COVERED[1] else []
            error = 200 * (ABOVE / 100 / line["studies"]) ** 0.5  # two standard errors
            misses = line["covered"] < COVERED[0] - error or line["above"] > ABOVE + error
            cells += ["MISSES"] if misses else []
        if not rows:
            print(*line, sep=" | ")
        print(*cells, sep=" | ", flush=True)
        rows.append(line)
    return pd.DataFrame(rows)


def main() -> None:
    """Print a table of intervals of the AUC, of other scores, and of the gate, and their worst."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--parts", default="auc,others,gate")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    parts = {"auc": bench_auc, "others": bench_others, "gate": bench_gate}
    for name in options.parts.split(","):
        table = show(parts[name](rng, options.studies))
        if name == "gate":
            lost = table[table["loses"] != "nothing"]
            print(f"gate: a loss of the margin passes in {lost['passes'].max():.1f} % at most")
        else:
            misses = f"covered in {table['covered'].min():.1f} % at least"
            print(f"{name}: {misses}, wholly above in {table['above'].max():.1f} % at most")


if __name__ == "__main__":
    main()
