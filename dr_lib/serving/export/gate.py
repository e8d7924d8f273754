"""Decide whether an artifact may be served: what conversion cost in AUC, kappa and agreement."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dr_lib.data.labels.grades import GRADES, REFERABLE_FROM, sum_referable
from dr_lib.errors import DrError
from dr_lib.statistics.bootstrap import Score, bootstrap_patients, score_auc, score_kappa
from dr_lib.statistics.equivalence import observations_for_non_inferiority
from dr_lib.statistics.intervals import Interval

MIN_IMAGES = 30  # fewer show nothing, not even where no prediction changed
# what happened to none of n happens, with 95 % confidence, in 3 / n at most (Hanley and others
# 1983)
NONE_OF_N = 3
ROUNDING = 0.01  # of a probability: an artifact that changes less has lost nothing
HALF_WIDTH = 1.96  # standard errors on each side of a 95 % interval
SHOWN = [  # of the gate's row in the row of a run, with gate_ before the name
    "passes",
    *(f"auc_difference{bound}" for bound in ("", "_low", "_high")),
    *(f"kappa_difference{bound}" for bound in ("", "_low", "_high")),
]


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

    A test of non-inferiority: the artifact passes where the photographs show that the AUC of
    referable disease and the quadratic weighted kappa drop by less than the margin, that is, where
    the lower bounds of the 95 % intervals of both differences lie above -margin. Both predictions
    are scored on the same draws of patients, for they err on the same photographs. Photographs too
    few to show it refuse what may be good.

    Args:
        grade: (n,) 0-4, as graded by people.
        patient_id: (n,) whose photograph it is, for the bootstrap.
        before, after: (n, 5) probabilities of the network and of the artifact.
        threshold: of the probability of referable disease.
        margin: non-inferiority margin of AUC and kappa, above 0.
        resamples: of the bootstrap.

    Returns:
        num_images, num_patients, rarer_patients (of the rarer of referable and other eyes); for auc
        and kappa _before with _before_low and _high, _after, and _difference with _low and _high;
        agreement of the most probable grade and agreement_referable at the threshold;
        max_abs_difference of a probability; needed_patients for the margin at this spread (0: not
        known); margin, passes, reason (empty where it passes) and warning, where the network itself
        may be guessing: what guesses loses nothing.

    Raises:
        DrError: a row is no probabilities.
    """
    for name, rows in {"before": before, "after": after}.items():
        is_sound = rows.shape[1] == len(GRADES) and np.min(rows) >= 0
        # the softmax of an int8 network is rounded to 1/256 in each of five grades
        if not is_sound or not np.abs(np.sum(rows, axis=1) - 1).max() <= 0.02:
            raise DrError(
                f"{name}: a row is no probabilities (finite, from 0 on, sum 1): the artifact is"
                " broken"
            )
    is_referable = grade >= REFERABLE_FROM
    referable = [sum_referable(rows) for rows in (before, after)]
    called = [rows.argmax(axis=1) for rows in (before, after)]
    aucs = [score_auc(is_referable, probability) for probability in referable]
    kappas = [score_kappa(grade, grades) for grades in called]
    auc = _compare_scores(aucs, patient_id, resamples)
    kappa = _compare_scores(kappas, patient_id, resamples)
    num_patients = len(np.unique(patient_id))
    width = max(changed.difference.high - changed.difference.low for changed in (auc, kappa))
    needed = 0
    if np.isfinite([*auc.difference[1:3], *kappa.difference[1:3]]).all():
        spread = width / (2 * HALF_WIDTH) * num_patients**0.5
        needed = observations_for_non_inferiority(spread, margin)
    is_referred = [probability >= threshold for probability in referable]
    row = {
        "num_images": len(grade),
        "num_patients": num_patients,
        "rarer_patients": min(
            len(np.unique(patient_id[kind])) for kind in (is_referable, ~is_referable)
        ),
        **auc.columns("auc"),
        **kappa.columns("kappa"),
        "agreement": float((called[0] == called[1]).mean()),
        "agreement_referable": float((is_referred[0] == is_referred[1]).mean()),
        "max_abs_difference": float(np.abs(before - after).max()),
        "needed_patients": needed,
        "margin": margin,
    }
    reason = _find_reason(row, margin)
    return {**row, "passes": not reason, "reason": reason, "warning": _find_warning(auc, kappa)}


def describe_gate(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the gate said of an exported model, in the columns of a run's row."""
    gate = facts.get("gate") or {}
    return {f"gate_{name}": gate.get(name) for name in SHOWN}


class _Change(NamedTuple):
    """A score of the network, and of the artifact on the same draws of patients."""

    before: Interval
    after: float
    difference: Interval

    def columns(self, name: str) -> dict[str, float]:
        return {
            **self.before.columns(f"{name}_before"),
            f"{name}_after": self.after,
            **self.difference.columns(f"{name}_difference"),
        }


def _compare_scores(scores: Sequence[Score], patient_id: np.ndarray, resamples: int) -> _Change:
    def score(weights: np.ndarray) -> np.ndarray:
        was, now = (each(weights) for each in scores)
        return np.stack([was, now, now - was], axis=-1)

    value, low, high, n = bootstrap_patients(score, patient_id, resamples=resamples)
    before, _, difference = (
        Interval(float(value[k]), float(low[k]), float(high[k]), n) for k in range(3)
    )
    return _Change(before, float(value[1]), difference)


def _find_reason(row: Mapping[str, Any], margin: float) -> str:
    """Why the artifact does not pass; empty where it does."""
    if row["num_images"] < MIN_IMAGES:
        return (
            f"{row['num_images']} labelled photographs cannot decide: give {MIN_IMAGES} or more"
        )
    changes = {name: row[f"{name}_difference"] for name in ("auc", "kappa")}
    lows = {name: row[f"{name}_difference_low"] for name in changes}
    if not np.isfinite([*changes.values(), *lows.values()]).all():
        return "the labelled photographs are all of one kind: give referable and other eyes"
    large = [name for name in changes if lows[name] <= -margin]
    is_rounded = row["max_abs_difference"] <= ROUNDING
    if not large and not is_rounded and row["rarer_patients"] * margin < NONE_OF_N:
        return (
            f"{row['rarer_patients']} patients with referable or with other eyes: a loss of"
            f" {margin:g} may not show; give {math.ceil(NONE_OF_N / margin)} of either kind"
        )
    if not large:
        return ""
    losses = " and ".join(
        f"{name} changes by {changes[name]:+.3f} and may drop by {-lows[name]:.3f}"
        for name in large
    )
    reason = f"{losses}, margin {margin:g}"
    if any(changes[name] <= -margin for name in large):
        return reason
    return (
        f"{reason}; about {row['needed_patients']} patients would tell, these are"
        f" {row['num_patients']}"
    )


def _find_warning(auc: _Change, kappa: _Change) -> str:
    """That the network itself may be guessing; empty where it was shown to grade."""
    if auc.before.low > 0.5 and kappa.before.low > 0:
        return ""
    return (
        "the network itself has not been shown to grade:"
        f" AUC {auc.before.value:.2f} [{auc.before.low:.2f}, {auc.before.high:.2f}],"
        f" kappa {kappa.before.value:.2f} [{kappa.before.low:.2f}, {kappa.before.high:.2f}]"
    )
