"""Decide whether an artifact may be served: what conversion cost in AUC, kappa and agreement."""

from typing import Any, NamedTuple

import numpy as np

from dr_lib.data.labels.grades import GRADES, REFERABLE_FROM, sum_referable
from dr_lib.serving.export.convert import ExportError
from dr_lib.statistics.bootstrap import Score, bootstrap_patients, score_auc, score_kappa

MIN_IMAGES = 30  # fewer cannot show a loss of 0.02
ROUNDING = 1e-9  # 0.92 - 0.90 is more than 0.02 in binary


class Labelled(NamedTuple):
    """Crops that somebody has graded, to judge artifacts by."""

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
    margin: float = 0.02,
    resamples: int = 1000,
) -> dict[str, Any]:
    """Compare a network's predictions of graded photographs before and after its conversion.

    The artifact is refused where the AUC of referable disease or the quadratic weighted kappa drops by more than the
    non-inferiority margin. The intervals of the differences show how much these photographs can tell: both predictions
    are scored on the same draws of patients, for they err on the same photographs.

    Args:
        grade: (n,) 0-4, as graded by people.
        patient_id: (n,) whose photograph it is.
        before: (n, 5) probabilities of the Keras network.
        after: (n, 5) probabilities of the artifact, of the same photographs.
        threshold: of the probability of referable disease, from which on an eye is referred.
        margin: non-inferiority margin of AUC and kappa.
        resamples: number of draws.

    Returns:
        num_images, num_patients; auc_before, auc_after, auc_difference (after - before) and its 95 % interval
        auc_difference_low, auc_difference_high; the same for kappa; agreement (share with the same most probable
        grade), agreement_referable, max_abs_difference (of a probability), margin, passes, reason. NaN where the
        photographs do not define a value; then, and with fewer than 30 photographs, it does not pass.

    Raises:
        ExportError: lengths differ, a grade is not 0-4, or a row is no five probabilities.
    """
    grade, patient_id = np.asarray(grade), np.asarray(patient_id)
    _check_predictions(grade, patient_id, before, after)
    row = {"num_images": len(grade), "num_patients": len(np.unique(patient_id))}
    aucs = [score_auc(grade >= REFERABLE_FROM, sum_referable(rows)) for rows in (before, after)]
    kappas = [score_kappa(grade, rows.argmax(axis=1)) for rows in (before, after)]
    once = np.ones(len(grade))
    for name, scores in {"auc": aucs, "kappa": kappas}.items():

        def subtract(weights: np.ndarray, scores: list[Score] = scores) -> float:
            return scores[1](weights) - scores[0](weights)

        low, high = bootstrap_patients(subtract, patient_id, seed=0, resamples=resamples)
        columns = {"before": scores[0](once), "after": scores[1](once), "difference": subtract(once)}
        columns |= {"difference_low": low, "difference_high": high}
        row |= {f"{name}_{column}": value for column, value in columns.items()}
    referred = [sum_referable(rows) >= threshold for rows in (before, after)]
    row |= {
        "agreement": float((before.argmax(axis=1) == after.argmax(axis=1)).mean()),
        "agreement_referable": float((referred[0] == referred[1]).mean()),
        "max_abs_difference": float(np.abs(before - after).max()),
    }
    reason = _find_reason(row, margin)
    return row | {"margin": margin, "passes": not reason, "reason": reason}


def _find_reason(row: dict[str, Any], margin: float) -> str:
    """Why the artifact does not pass; empty where it does."""
    if row["num_images"] < MIN_IMAGES:
        return f"{row['num_images']} labelled photographs cannot decide: give {MIN_IMAGES} or more"
    drops = {name: -row[f"{name}_difference"] for name in ("auc", "kappa")}
    if not np.isfinite([*drops.values()]).all():
        return "the labelled photographs are all of one kind: give referable and other eyes"
    large = [f"{name} drops by {drop:.3f}" for name, drop in drops.items() if drop > margin + ROUNDING]
    return f"{' and '.join(large)}, more than {margin:g}" if large else ""


def _check_predictions(grade: np.ndarray, patient_id: np.ndarray, before: np.ndarray, after: np.ndarray) -> None:
    n = len(grade)
    if not n or grade.shape != (n,) or patient_id.shape != (n,) or not np.isin(grade, range(len(GRADES))).all():
        raise ExportError("give every photograph a grade from 0 to 4 and a patient")
    for name, rows in (("before", before), ("after", after)):
        if np.shape(rows) != (n, len(GRADES)):
            raise ExportError(f"{name}: {np.shape(rows)} probabilities for {n} photographs, not ({n}, {len(GRADES)})")
        # the softmax of an int8 network is rounded to 1/256 in each of five grades
        if not np.isfinite(rows).all() or np.min(rows) < 0 or np.abs(np.sum(rows, axis=1) - 1).max() > 0.02:
            raise ExportError(f"{name}: a row is no probabilities (finite, from 0 on, sum 1): the artifact is broken")
