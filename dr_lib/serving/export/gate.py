"""Decide whether an artifact may be served: what conversion cost in AUC, kappa and agreement."""

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from dr_lib.data.labels.grades import GRADES, REFERABLE_FROM
from dr_lib.training.metrics import sum_referable

MIN_IMAGES = 30  # fewer cannot show a loss of 0.02
ROUNDING = 1e-9  # 0.92 - 0.90 is more than 0.02 in binary


class GateError(ValueError):
    """These predictions cannot be compared; the message says what is wrong with them."""


class Labelled(NamedTuple):
    """Crops that somebody has graded, to judge artifacts by."""

    images: np.ndarray  # (n, side, side, 3) uint8
    grade: np.ndarray  # (n,) 0-4
    patient_id: np.ndarray  # (n,)
    data_manifest_sha256: str = ""  # of the prepared folder that they are from


def compare(
    grade: np.ndarray,
    patient_id: np.ndarray,
    before: np.ndarray,
    after: np.ndarray,
    *,
    threshold: float = 0.5,
    margin: float = 0.02,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Compare what a network said of graded photographs before and after its conversion.

    The artifact is refused where the AUC of referable disease or the quadratic weighted kappa falls by more than the
    margin. The intervals of the differences say how much these photographs can show: whole patients are drawn with
    replacement, and both predictions are scored on the same draw, for they err on the same photographs.

    Args:
        grade: (n,) 0-4, as graded by people.
        patient_id: (n,) whose photograph it is.
        before: (n, 5) probabilities of the Keras network.
        after: (n, 5) probabilities of the artifact, of the same photographs.
        threshold: of the probability of referable disease, from which on an eye is referred.
        margin: accepted fall of AUC and kappa.
        resamples: number of draws.
        seed: of the draws.

    Returns:
        num_images, num_patients; auc_before, auc_after, auc_difference (after - before) and its 95 % interval
        auc_difference_low, auc_difference_high; the same for kappa; agreement (share with the same most probable
        grade), agreement_referable, max_abs_difference (of a probability), margin, passes, reason. NaN where the
        photographs do not define a value; then, and with fewer than 30 photographs, it does not pass.

    Raises:
        GateError: lengths differ, a grade is not 0-4, or a row is no five probabilities.
    """
    grade, patient_id = np.asarray(grade), np.asarray(patient_id)
    _check_predictions(grade, patient_id, before, after)
    row: dict[str, Any] = {"num_images": len(grade), "num_patients": len(np.unique(patient_id))}
    row |= _score_both(grade, before, after)
    row |= _bound_differences(grade, patient_id, before, after, resamples, seed)
    referred = [sum_referable(rows) >= threshold for rows in (before, after)]
    row["agreement"] = float((before.argmax(1) == after.argmax(1)).mean())
    row["agreement_referable"] = float((referred[0] == referred[1]).mean())
    row["max_abs_difference"] = float(np.abs(before - after).max())
    reason = _find_reason(row, margin)
    return row | {"margin": margin, "passes": not reason, "reason": reason}


def _score_both(grade: np.ndarray, before: np.ndarray, after: np.ndarray) -> dict[str, float]:
    row = {}
    for name, score in (("auc", _auc), ("kappa", _kappa)):
        values = score(grade, before), score(grade, after)
        row |= {f"{name}_before": values[0], f"{name}_after": values[1], f"{name}_difference": values[1] - values[0]}
    return row


def _bound_differences(
    grade: np.ndarray, patient_id: np.ndarray, before: np.ndarray, after: np.ndarray, resamples: int, seed: int
) -> dict[str, float]:
    patient = np.unique(patient_id, return_inverse=True)[1]
    num_patients, rng, drawn = patient.max() + 1, np.random.default_rng(seed), []
    for _ in range(resamples):
        times = rng.multinomial(num_patients, np.full(num_patients, 1 / num_patients))
        rows = np.repeat(np.arange(len(grade)), times[patient])
        scores = _score_both(grade[rows], before[rows], after[rows])
        drawn.append([scores["auc_difference"], scores["kappa_difference"]])
    bounds = {}
    for name, values in zip(("auc", "kappa"), np.transpose(drawn), strict=True):
        values = values[np.isfinite(values)]  # a draw of one class has no AUC
        low, high = np.quantile(values, [0.025, 0.975]) if len(values) and num_patients > 1 else (np.nan, np.nan)
        bounds |= {f"{name}_difference_low": float(low), f"{name}_difference_high": float(high)}
    return bounds


def _auc(grade: np.ndarray, probabilities: np.ndarray) -> float:
    """Share of (referable, other) pairs in the right order, ties counting half, from the ranks."""
    ill = grade >= REFERABLE_FROM
    num_ill, num_other = ill.sum(), (~ill).sum()
    if not num_ill or not num_other:
        return float("nan")
    ranks = rankdata(sum_referable(probabilities))
    return float((ranks[ill].sum() - num_ill * (num_ill + 1) / 2) / (num_ill * num_other))


def _kappa(grade: np.ndarray, probabilities: np.ndarray) -> float:
    """Cohen's kappa of the most probable grade, disagreements weighted by their square."""
    called = probabilities.argmax(axis=1)
    table = np.bincount(len(GRADES) * grade + called, minlength=len(GRADES) ** 2).reshape(len(GRADES), -1)
    weights = np.subtract.outer(np.arange(len(GRADES)), np.arange(len(GRADES))) ** 2
    by_chance = (weights * np.outer(table.sum(1), table.sum(0))).sum() / len(grade)
    return float(1 - (weights * table).sum() / by_chance) if by_chance else float("nan")


def _find_reason(row: dict[str, Any], margin: float) -> str:
    """Why the artifact does not pass; empty where it does."""
    if row["num_images"] < MIN_IMAGES:
        return f"{row['num_images']} labelled photographs cannot decide: give {MIN_IMAGES} or more"
    if not np.isfinite([row["auc_difference"], row["kappa_difference"]]).all():
        return "the labelled photographs are all of one kind: give referable and other eyes"
    falls = [
        f"{name} falls by {-row[f'{name}_difference']:.3f}"
        for name in ("auc", "kappa")
        if row[f"{name}_difference"] < -margin - ROUNDING
    ]
    return f"{' and '.join(falls)}, more than {margin:g}" if falls else ""


def _check_predictions(grade: np.ndarray, patient_id: np.ndarray, before: np.ndarray, after: np.ndarray) -> None:
    n = len(grade)
    if not n or grade.shape != (n,) or patient_id.shape != (n,) or not np.isin(grade, range(len(GRADES))).all():
        raise GateError("give every photograph a grade from 0 to 4 and a patient")
    for name, rows in (("before", before), ("after", after)):
        if np.shape(rows) != (n, len(GRADES)):
            raise GateError(f"{name}: {np.shape(rows)} probabilities for {n} photographs, not ({n}, {len(GRADES)})")
        # the softmax of an int8 network is rounded to 1/256 in each of five grades
        if not np.isfinite(rows).all() or np.min(rows) < 0 or np.abs(np.sum(rows, axis=1) - 1).max() > 0.02:
            raise GateError(f"{name}: a row is no probabilities (finite, from 0 on, sum 1): the artifact is broken")
