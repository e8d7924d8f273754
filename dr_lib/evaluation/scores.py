"""Score a test split by patient: what every table of an evaluation is made of.

All intervals are 95 % and over patients. Every table has the bounds of x in x_low and x_high.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import confusion_matrix

from dr_lib.data.labels.grades import GRADES, REFERABLE_FROM
from dr_lib.errors import DrError
from dr_lib.evaluation.predictions import Predictions
from dr_lib.statistics.clustered import (
    average_precision_interval,
    brier_interval,
    estimate_aucs,
    kappa_interval,
    proportion_interval,
)
from dr_lib.statistics.intervals import Interval, tabulate

FEW = 5  # patients; a smaller count may name one
COUNTED = 30  # patients; fewer are counted, and have no percentage


class Eyes(NamedTuple):
    """Photographs as arrays (n,): referable or not, its probability, and the patient's number."""

    y: np.ndarray
    p: np.ndarray
    patient: np.ndarray


class Share(NamedTuple):
    """A share with its interval, of `n` patients."""

    value: float
    low: float
    high: float
    n: int
    size: int  # photographs or patients that it is of

    def columns(self, name: str) -> dict[str, float]:
        """Write columns as `Interval` does, and `name`_counted, the size, for few patients."""
        size = self.size if self.n < COUNTED else np.nan
        return {**Interval(*self[:4]).columns(name), f"{name}_counted": size}


def score_share(success: np.ndarray, patient: np.ndarray) -> Share:
    """Score a share of photographs; args as for `proportion_interval`."""
    return Share(*proportion_interval(success, patient), len(success))


def summarise(predictions: Predictions) -> pd.DataFrame:
    """Summarise a test split in one row: photographs, patients, prevalence and threshold-free
    scores.

    Returns:
        `model`, `num_images`, `num_patients`, `num_referable`, `rarer_patients` (with or
        without the disease, counted as if each had as many photographs), `prevalence`, `auc`,
        `average_precision`, `brier`; with grades `kappa` (quadratic weights) and `grade_accuracy`.
    """
    test = predictions.test
    y, p, patient = unpack(test)
    kappa = accuracy = None
    graded = predictions.graded
    if len(graded):
        grade = graded["grade"]
        predicted = graded["predicted_grade"]
        kappa = kappa_interval(grade, predicted, patient_id=graded["patient_id"])
        accuracy = score_share(grade == predicted, graded["patient_id"])
    aucs = estimate_aucs(y, p, patient)
    summary = {
        "model": predictions.name,
        "num_images": len(test),
        "num_patients": test["patient_id"].nunique(),
        "num_referable": int(y.sum()),
        "rarer_patients": int(aucs.rarer),
        "prevalence": score_share(y, patient),
        "auc": aucs.bound(0),
        "average_precision": average_precision_interval(y, p, patient),
        "brier": brier_interval(y, p, patient),
        "kappa": kappa,
        "grade_accuracy": accuracy,
    }
    return tabulate_scores([summary])


def find_worse_eyes(table: pd.DataFrame) -> pd.DataFrame:
    """Make one row per patient, of all visits: the highest label and probability."""
    worst = ("fold", "grade", "referable", "probability_referable")
    by_patient = table.groupby("patient_id", as_index=False)
    return by_patient[[name for name in worst if name in table]].max()


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


def count_grades(predictions: Predictions) -> pd.DataFrame:
    """Count the confusion matrix of the test split: true grades in rows, predicted in columns."""
    graded = predictions.graded
    grades = range(len(GRADES))
    counts = confusion_matrix(graded["grade"], graded["predicted_grade"], labels=grades)
    return pd.DataFrame(counts)


def take_interval(row: Mapping | pd.Series, name: str, n: int = 0) -> Interval:
    """Take an interval from a row of `tabulate_scores`, whose n it does not have."""
    return Interval(*(row.get(f"{name}{end}", np.nan) for end in ("", "_low", "_high")), n)


def write_few(count: int) -> str:
    """Write a count of patients or photographs; one below FEW as < 5."""
    return f"< {FEW}" if 0 < count < FEW else str(count)


def read_shares(name: str, text: str) -> list[float]:
    """Read shares as people write them: 0.05,0.2; or, with semicolons, 0,05;0,2; or 5%.

    Raises:
        DrError: one is no number.
    """
    text = str(text).replace(" ", "")
    cells = text.replace(",", ".").split(";") if ";" in text else text.split(",")
    try:
        return [float(cell.rstrip("%")) / 10 ** (2 * ("%" in cell)) for cell in cells if cell]
    except ValueError as error:
        raise DrError(
            f"{name} {text}: give numbers with decimal points, such as 0.05,0.2"
        ) from error


def check_share(name: str, share: float) -> None:
    """Refuse what is no share between 0 and 1."""
    if not 0 < share < 1:
        raise DrError(f"{name} must be between 0 and 1, not {share:g}")


def score_calls(called: np.ndarray, y: np.ndarray, patient: np.ndarray) -> tuple[Share, Share]:
    """Sensitivity and specificity."""
    return (
        score_share(called[y], patient[y]),
        score_share(~called[~y], patient[~y]),
    )


def name_fold(table: pd.DataFrame) -> np.ndarray:
    """Name the fold of each photograph, (n,): 0 where there are none."""
    return table.get("fold", pd.Series(0, table.index)).to_numpy()


def unpack(table: pd.DataFrame) -> Eyes:
    """Take the label, probability and patient of each photograph; patients by name from 0 on."""
    return Eyes(
        (table["referable"] == 1).to_numpy(),
        table["probability_referable"].to_numpy(),
        pd.factorize(table["patient_id"], sort=True)[0],
    )


def unbind(interval: Interval, is_bare: bool = True) -> Interval:
    """Take the bounds away, if that is to be."""
    return interval._replace(low=np.nan, high=np.nan) if is_bare else interval


def tabulate_scores(rows: Iterable[Mapping]) -> pd.DataFrame:
    """Make a table of rows: three columns for an interval, none for None.

    Where no draw of patients changes a score, it has no bounds: a kappa of 1 would be 1 [1, 1], of
    three patients too.
    """
    lines = []
    for row in rows:
        line = {name: value for name, value in row.items() if value is not None}
        for name, value in line.items():
            if isinstance(value, (Interval, Share)) and np.isclose(
                value.low, value.high, rtol=1e-9, atol=0
            ):
                line[name] = unbind(value)
        lines.append(line)
    return tabulate(lines)
