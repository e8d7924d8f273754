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
from dr_lib.statistics.clustered import auc_interval, count_rarer, proportion_interval
from dr_lib.statistics.intervals import Interval, tabulate

FEW = 5  # patients; a smaller count may name one


class Eyes(NamedTuple):
    """Photographs as arrays (n,): referable or not, its probability, and the patient's number."""

    y: np.ndarray
    p: np.ndarray
    patient: np.ndarray


def unpack(table: pd.DataFrame) -> Eyes:
    """Take the label, probability and patient of each photograph."""
    return Eyes(
        (table["referable"] == 1).to_numpy(),
        table["probability_referable"].to_numpy(),
        pd.factorize(table["patient_id"], sort=True)[0],
    )


def find_worse_eyes(table: pd.DataFrame) -> pd.DataFrame:
    """Make one row per patient who has a label, of all visits: the highest label and probability,
    and `is_unscored`, whether a photograph has no probability.
    """
    table = table.assign(is_unscored=table["probability_referable"].isna())
    worst = ["fold", "grade", "referable", "probability_referable", "is_unscored"]
    by_patient = table.groupby("patient_id", as_index=False)
    people = by_patient[[name for name in worst if name in table]].max()
    return people[people["referable"].notna()]


def summarise(predictions: Predictions) -> pd.DataFrame:
    """Summarise a test split in one row: photographs, patients, prevalence and threshold-free
    scores.

    Returns:
        `model`, `num_images`, `num_patients`, `num_referable`, `rarer_patients` (with or
        without the disease, counted as if each had as many photographs), `prevalence`, `auc`,
        `brier`; with grades `kappa` (quadratic weights).
    """
    test = predictions.test
    y, p, patient = unpack(test)
    error = (p - y) ** 2
    summary = {
        "model": predictions.name,
        "num_images": len(test),
        "num_patients": test["patient_id"].nunique(),
        "num_referable": int(y.sum()),
        "rarer_patients": int(count_rarer(y, patient)),
        "prevalence": proportion_interval(y, patient),
        "auc": auc_interval(y, p, patient),
        "brier": bootstrap_patients(lambda w: w @ error / w.sum(axis=1), y, patient),
    }
    graded = predictions.graded
    if len(graded):
        kappa = score_kappa(graded["grade"], graded["predicted_grade"])
        is_ill = graded["referable"] == 1
        summary["kappa"] = bootstrap_patients(kappa, is_ill, graded["patient_id"])
    return tabulate([summary])


def count_below(table: pd.DataFrame) -> int:
    """Count the photographs that are referable below the grade from which all are."""
    is_below = f"grade < {REFERABLE_FROM} and referable == 1"
    return len(table.query(is_below)) if "grade" in table else 0


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


def round_count(count: int) -> str:
    """Write a count of patients or photographs as statistical offices publish it: < 5, or rounded
    to five, so that no difference of two names anybody.
    """
    if 0 < count < FEW:
        return f"< {FEW}"
    return str(FEW * round(count / FEW))
