"""Score a test split by patient: what every table of an evaluation is made of.

All intervals are 95 % and over patients. Every table has the bounds of x in x_low and x_high.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.data.labels.grades import GRADES, REFERABLE_FROM
from dr_lib.evaluation.table import Predictions
from dr_lib.statistics.bootstrap import bootstrap_patients, score_kappa
from dr_lib.statistics.calibration import fit_calibration
from dr_lib.statistics.clustered import auc_interval, count_rarer, proportion_interval
from dr_lib.statistics.intervals import Interval, tabulate

# of the decision curve: a miss is 19 to 1 times a needless referral
THRESHOLDS = np.linspace(0.05, 0.5, 10).round(2)
NUM_BINS = 10  # of the calibration curve, with equally many photographs


class Eyes(NamedTuple):
    """Photographs as arrays (n,): referable or not, its probability, and whose it is."""

    y: np.ndarray
    p: np.ndarray
    patient: np.ndarray


def unpack(table: pd.DataFrame) -> Eyes:
    """Take the label, probability and patient of each photograph."""
    return Eyes(
        (table["referable"] == 1).to_numpy(),
        table["probability_referable"].to_numpy(),
        table["patient_id"].to_numpy(),
    )


def find_worse_eyes(table: pd.DataFrame) -> pd.DataFrame:
    """Make one row per patient who has a label, of all visits: the highest label and probability,
    and `is_unscored`, whether a photograph has no probability.
    """
    table = table.assign(is_unscored=table["probability_referable"].isna())
    worst = ["fold", "grade", "referable", "probability_referable", "is_unscored"]
    by_patient = table.filter(["patient_id", *worst]).groupby("patient_id", as_index=False)
    return by_patient.max().dropna(subset="referable")


def summarise(predictions: Predictions) -> pd.DataFrame:
    """Summarise a test split in one row: photographs, patients, prevalence and threshold-free
    scores.

    Returns:
        `model`, `num_images`, `num_patients`, `num_referable`, `rarer_patients` (with or
        without the disease, counted as if each had as many photographs), `prevalence`, `auc`,
        `brier`; with grades `kappa` (quadratic weights).
    """
    y, p, patient = unpack(predictions.test)
    error = (p - y) ** 2
    auc = auc_interval(y, p, patient)
    summary = {
        "model": predictions.name,
        "num_images": len(y),
        "num_patients": auc.n,
        "num_referable": int(y.sum()),
        "rarer_patients": int(count_rarer(y, patient)),
        "prevalence": proportion_interval(y, patient),
        "auc": auc,
        "brier": bootstrap_patients(lambda w: w @ error / w.sum(axis=1), y, patient),
    }
    graded = predictions.graded
    if len(graded):
        kappa = score_kappa(graded["grade"], graded["predicted_grade"])
        is_ill = graded["referable"] == 1
        summary["kappa"] = bootstrap_patients(kappa, is_ill, graded["patient_id"])
    return tabulate([summary])


def calibrate(predictions: Predictions) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare probabilities with outcomes.

    Returns:
        A row with `predicted` and `observed` shares of referable photographs, `intercept` and
        `slope`; and a row per bin of NUM_BINS: `predicted` (mean), `observed`, `num_images`.
    """
    y, p, patient = unpack(predictions.test)
    intercept, slope = fit_calibration(y, p, patient)
    summary = {
        "predicted": p.mean(),
        "observed": y.mean(),
        "intercept": intercept,
        "slope": slope,
    }
    ranks = predictions.test["probability_referable"].rank()  # what ties has one
    rows = []
    for _, inside in predictions.test.groupby(np.ceil(ranks * NUM_BINS / len(p))):
        y, p, patient = unpack(inside)
        observed = proportion_interval(y, patient)._replace(value=y.mean())
        rows.append({"predicted": p.mean(), "observed": observed, "num_images": len(y)})
    return tabulate([summary]), tabulate(rows)


def weigh_decisions(predictions: Predictions) -> pd.DataFrame:
    """Compute the decision curve (Vickers and Elkin 2006).

    Net benefit is the share of true referrals less that of false ones, weighed by the odds of the
    threshold; that of referring nobody is 0.

    Returns:
        A row per threshold of THRESHOLDS: `threshold`, `net_benefit`, and `refer_all`, that of
        referring everybody.
    """
    y, p, patient = unpack(predictions.test)
    odds = THRESHOLDS / (1 - THRESHOLDS)
    benefit = np.where(y[:, None], 1.0, -odds)  # of each photograph, if it is referred
    gained = benefit * (p[:, None] >= THRESHOLDS)

    def score(weights: np.ndarray) -> np.ndarray:
        return (weights @ gained / weights.sum(axis=1, keepdims=True)).T

    found = bootstrap_patients(score, y, patient)
    return pd.DataFrame(
        {
            "threshold": THRESHOLDS,
            **found.columns("net_benefit"),
            "refer_all": benefit.mean(axis=0),
        }
    )


def count_below(table: pd.DataFrame) -> int:
    """Count the photographs that are referable below the grade from which all are."""
    is_below = (table["grade"] < REFERABLE_FROM) & (table["referable"] == 1)
    return int(is_below.sum())


def seems_confidence(predictions: Predictions) -> bool:
    """Whether the test probabilities may be those of the predicted class, whichever it is.

    Of two to five classes none of these is below 0.2, and photographs that are not referable have
    high ones too.
    """
    y, p, _ = unpack(predictions.test)
    return bool(np.ptp(p) > 0 and p.min() >= 1 / len(GRADES) and np.median(p[~y]) > 0.5)


def take_interval(row: Mapping | pd.Series, name: str) -> Interval:
    """Take an interval from a row of a table, which has no n."""
    return Interval(row[name], row[f"{name}_low"], row[f"{name}_high"], 0)
