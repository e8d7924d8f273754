"""Decide whether an exported format may be served, by the patients whose referral it changes."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from dr_lib.data.labels.grades import GRADES, REFERABLE_FROM, sum_referable
from dr_lib.errors import DrError
from dr_lib.statistics.clustered import auc_interval
from dr_lib.training.metrics import find_doubt

ROUNDING = 0.01  # of a probability: a format that changes less has lost nothing
MAX_LOSS = 0.05  # of sensitivity and of specificity


class Labelled(NamedTuple):
    """Graded crops by which formats are judged."""

    images: np.ndarray  # (n, side, side, 3) uint8
    grade: np.ndarray  # (n,) 0-4
    patient_id: np.ndarray  # (n,)
    split_sha256: str = ""  # of the split table that they are from


def compare(
    grade: np.ndarray,
    patient_id: np.ndarray,
    before: np.ndarray,
    after: np.ndarray,
    *,
    threshold: float = 0.5,
) -> dict[str, Any]:
    """Compare a network's predictions for graded photographs before and after conversion.

    A format passes if no probability, of a grade or of referable disease, moves by more than
    ROUNDING. Otherwise it must lose few patients, who are referable if one photograph is, and
    referred if one reaches the threshold. Of the referable ones whom the network refers some may no
    longer be, of the others whom it does not some may be now: the upper bounds of both shares must
    be below MAX_LOSS, whatever is gained elsewhere. A network that refers nobody, or everybody,
    cannot be judged so, and a format that tells no photographs apart never passes.

    Args:
        grade, patient_id: (n,) 0-4, as graded by people, and whose photograph it is.
        before, after: (n, 5) probabilities of the network and of the format.
        threshold: of the probability of referable disease.

    Returns:
        num_images, num_patients, max_abs_difference; by patient sensitivity and specificity _before
        and _after, lost_sensitivity_high and lost_specificity_high; passes, reason (empty where it
        passes); the warning of `find_doubt`.

    Raises:
        DrError: a row is no probabilities.
    """
    _check_probabilities(before)
    _check_probabilities(after)
    is_referable = grade >= REFERABLE_FROM
    columns = {
        "is_referable": is_referable,
        "was_referred": sum_referable(before) >= threshold,
        "is_referred": sum_referable(after) >= threshold,
    }
    patients = pd.DataFrame(columns).groupby(np.asarray(patient_id)).any()
    change = before - after
    largest = max(np.abs(change).max(), np.abs(sum_referable(change)).max())  # of a sum too
    row = {
        "num_images": len(grade),
        "num_patients": len(patients),
        "max_abs_difference": float(largest),
    }
    reasons = []
    for name, kind, right in (
        ("sensitivity", "rightly referred", True),
        ("specificity", "rightly not referred", False),
    ):
        rows = patients[patients["is_referable"] == right]
        was_right = rows["was_referred"] == right
        is_right = rows["is_referred"] == right
        num_right = int(was_right.sum())
        num_lost = int((was_right & ~is_right).sum())
        high = bound_share(num_lost, num_right)
        row[f"{name}_before"] = float(was_right.mean())
        row[f"{name}_after"] = float(is_right.mean())
        row[f"lost_{name}_high"] = high
        if high >= MAX_LOSS:
            reasons.append(
                f"{num_lost} of {num_right} {kind} patients lose their right answer, so up to"
                f" {high:.1%} of {name} may be lost, {MAX_LOSS:.0%} are allowed: at least"
                f" {find_needed(num_lost)} such patients would be needed to pass"
            )
    if patients["was_referred"].nunique() == 1:
        referred = "all" if patients["was_referred"].all() else "none"
        reasons = [
            f"the network refers {referred} of {len(patients)} patients at its threshold of"
            f" {threshold:.3g}, so what a format loses cannot be judged"
        ]
    if largest <= ROUNDING:
        reasons = []
    if same := _describe_same(after):
        reasons.append(f"the format gives {same}")
    warning = ""
    if patients["is_referable"].nunique() == 2:
        warning = find_doubt(auc_interval(is_referable, sum_referable(before), patient_id))
    return {**row, "warning": warning, "passes": not reasons, "reason": "; ".join(reasons)}


def bound_share(number: int, total: int) -> float:
    """Upper one-sided 95 % bound of a share (Clopper and Pearson 1934); 1 of nothing."""
    if number == total:
        return 1.0
    return float(stats.beta.ppf(0.95, number + 1, total - number))


def find_needed(number: int) -> int:
    """How many patients it takes to pass if so many of them, and no more, lose their answer."""
    total = 1 + int(number / MAX_LOSS)
    while bound_share(number, total) >= MAX_LOSS:
        total += 1
    return total


def check_model(probabilities: np.ndarray) -> None:
    """Refuse a model that tells no photographs apart: every format would lose nothing of it.

    Args:
        probabilities: (n, 5) of the network, before any conversion.

    Raises:
        DrError: referable disease is as probable for all, but for what a format may round.
    """
    if same := _describe_same(probabilities):
        raise DrError(
            f"the model gives {same}, so it has nothing to lose in any format: train it again, from"
            " pretrained weights if it is recipe few"
        )


def _check_probabilities(rows: np.ndarray) -> None:
    is_sound = rows.shape[1] == len(GRADES) and rows.min() >= 0
    # the softmax of an int8 network is rounded to 1/256 in each of five grades
    if not is_sound or not np.allclose(rows.sum(axis=1), 1, rtol=0, atol=0.02):
        raise DrError("the model or the format gives no probabilities: export it again")


def _describe_same(probabilities: np.ndarray) -> str:
    """Describe the one probability that all photographs have; empty if they differ."""
    referable = sum_referable(probabilities)
    low = referable.min()
    high = referable.max()
    if high - low > ROUNDING:
        return ""
    return (
        f"all {len(referable)} photographs the same probability of referable disease"
        f" ({low:.3f} to {high:.3f})"
    )
