"""Measure whether intervals by patient cover the truth in 95 % of simulated studies, and how long
2,000 draws take.

python tests/bench_evaluation.py [--studies 1000]: 200 patients with two eyes each, alike in disease
and in the error of the model; the truth is that of a million patients. Then 2,000 draws of 5,000
photographs for each score.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from dr_lib.statistics.bootstrap import (
    bootstrap_patients,
    score_auc,
    score_average_precision,
    score_kappa,
    score_roc,
    score_shares,
)
from dr_lib.statistics.clustered import delong_interval, likelihood_ratios, proportion_interval

THRESHOLD = 0.5


def draw_study(
    rng: np.random.Generator, num_patients: int, alike: float = 0.7
) -> tuple[np.ndarray, ...]:
    """Whether each eye is referable, its probability, its patient; `alike` is the correlation of
    fellow eyes.
    """
    shared = rng.normal(size=(2, num_patients, 1))
    own = rng.normal(size=(2, num_patients, 2))
    disease, error = (alike**0.5 * shared + (1 - alike) ** 0.5 * own).reshape(2, -1)
    return (
        disease > 0.7,
        1 / (1 + np.exp(-1.5 * (disease + error) + 0.8)),
        np.arange(2 * num_patients) // 2,
    )


def estimate(
    y: np.ndarray, p: np.ndarray, patient: np.ndarray, resamples: int
) -> dict[str, tuple]:
    """The bounds of each kind of interval; of a million patients the values alone."""
    called = p >= THRESHOLD
    once = np.ones(len(y))
    sensitivity = proportion_interval(called[y], patient[y])
    specificity = proportion_interval(~called[~y], patient[~y])
    ratios = likelihood_ratios(sensitivity, specificity)
    found = {"AUC, DeLong": delong_interval(y, p, patient)[:3], "sensitivity": sensitivity[:3]}
    found |= {"specificity": specificity[:3], "LR+": ratios[0][:3], "LR-": ratios[1][:3]}
    found["positive predictive value"] = proportion_interval(y[called], patient[called])[:3]
    scores = {"AUC, bootstrap": score_auc(y, p), "Brier, bootstrap": score_shares((p - y) ** 2)}
    for name, score in scores.items():
        found[name] = (
            bootstrap_patients(score, patient, resamples=resamples)[:3]
            if resamples
            else (score(once),)
        )
    naive = delong_interval(y, p, np.arange(len(y)))[:3]
    return found | {"AUC, as if eyes were independent": naive}


def main() -> None:
    """Print a line per interval, then a line per score."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=1000, help="simulated studies (1000)")
    parser.add_argument("--patients", type=int, default=200, help="of each (200)")
    parser.add_argument(
        "--resamples", type=int, default=1000, help="draws of each bootstrap (1000)"
    )
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    truth = {
        name: values[0]
        for name, values in estimate(*draw_study(rng, 1_000_000), resamples=0).items()
    }
    covered = dict.fromkeys(truth, 0)
    for _ in range(options.studies):
        for name, (_, low, high) in estimate(
            *draw_study(rng, options.patients), options.resamples
        ).items():
            covered[name] += low <= truth[name] <= high
    error = 100 * np.sqrt(0.95 * 0.05 / options.studies)
    print(
        f"{options.studies} studies of {options.patients} patients with two eyes; error of a"
        f" coverage {error:.1f} %"
    )
    for name, count in covered.items():
        print(
            f"{name:34} truth {truth[name]:6.3f}  covered {100 * count / options.studies:5.1f} %"
        )
    y, p, patient = draw_study(rng, 2500)
    grades = rng.integers(0, 5, (2, len(y)))
    scores = {
        "AUC": score_auc(y, p),
        "average precision": score_average_precision(y, p),
        "kappa": score_kappa(*grades),
    }
    scores |= {
        "ROC band": score_roc(y, p, np.linspace(1, 0, 101)),
        "Brier": score_shares((p - y) ** 2),
    }
    for name, score in scores.items():
        start = time.perf_counter()
        bootstrap_patients(score, patient)
        print(
            f"{name:34} 2,000 draws of {len(y)} photographs: {time.perf_counter() - start:5.2f} s"
        )


if __name__ == "__main__":
    main()
