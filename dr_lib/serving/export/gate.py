"""Decide whether an artifact may be served, by the loss of AUC, kappa and agreement."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dr_lib.data.labels.grades import GRADES, REFERABLE_FROM, sum_referable
from dr_lib.errors import DrError
from dr_lib.serving.export.losses import bound_changes, patients_for_non_inferiority
from dr_lib.statistics.clustered import auc_interval, estimate_aucs, kappa_interval
from dr_lib.statistics.intervals import NOTHING, Interval
from dr_lib.training.metrics import find_doubt

MIN_IMAGES = 30  # fewer show nothing, not even where no prediction changed
ROUNDING = 0.01  # of a probability: an artifact that changes less has lost nothing


class Labelled(NamedTuple):
    """Graded crops by which artifacts are judged."""

    images: np.ndarray  # (n, side, side, 3) uint8
    grade: np.ndarray  # (n,) 0-4
    patient_id: np.ndarray  # (n,)
    split_sha256: str = ""  # of the split table that they are from
    status: Sequence[str] = ()  # (n,) of their fields of view, where they are known


def compare(
    grade: np.ndarray,
    patient_id: np.ndarray,
    before: np.ndarray,
    after: np.ndarray,
    *,
    threshold: float = 0.5,
    margin: float = 0.02,
) -> dict[str, Any]:
    """Compare a network's predictions for graded photographs before and after conversion.

    A test of non-inferiority: the artifact passes where the photographs show that the AUC of
    referable disease and the quadratic weighted kappa drop by less than the margin, that is, where
    the lower bounds of the 95 % intervals of both changes (`measure_changes`) lie above -margin.
    Photographs too few to show it refuse what may be good.

    Args:
        grade: (n,) 0-4, as graded by people.
        patient_id: (n,) whose photograph it is.
        before, after: (n, 5) probabilities of the network and of the artifact.
        threshold: of the probability of referable disease.
        margin: non-inferiority margin of AUC and kappa, above 0.

    Returns:
        num_images, num_patients, worse_patients (whose grades are further from the truth); for auc
        and kappa _before with _before_low and _high, _after, and _difference with _low and _high;
        agreement of the most probable grade and agreement_referable at the threshold;
        sensitivity_before and _after at the threshold, which the artifact keeps though its
        probabilities may have moved (NaN where no eye is referable);
        max_abs_difference of a probability; needed_patients for the margin at this spread (0: not
        known); margin, passes, reason (empty where it passes); the warning of `find_doubt`.

    Raises:
        DrError: a row is no probabilities.
    """
    _check_probabilities("before", before)
    _check_probabilities("after", after)
    is_referable = grade >= REFERABLE_FROM
    referable = [sum_referable(rows) for rows in (before, after)]
    called = [rows.argmax(axis=1) for rows in (before, after)]
    is_referred = np.array(referable) >= threshold
    sensitivity = [np.nan, np.nan]
    if is_referable.any():
        sensitivity = is_referred[:, is_referable].mean(axis=1).tolist()
    max_abs_difference = float(np.abs(before - after).max())
    auc_before = kappa_before = NOTHING
    changes = Changes(NOTHING, NOTHING, 0, 0)
    if is_referable.any() and not is_referable.all():
        auc_before = auc_interval(is_referable, referable[0], patient_id)
        kappa_before = kappa_interval(grade, called[0], patient_id=patient_id)
        changes = measure_changes(
            grade,
            patient_id,
            referable,
            called,
            margin=margin,
            is_rounded=max_abs_difference <= ROUNDING,
        )
    reason = _find_reason(changes, len(grade), margin)
    return {
        "num_images": len(grade),
        "num_patients": len(np.unique(patient_id)),
        "worse_patients": changes.worse_patients,
        **auc_before.columns("auc_before"),
        "auc_after": auc_before.value + changes.auc.value,
        **changes.auc.columns("auc_difference"),
        **kappa_before.columns("kappa_before"),
        "kappa_after": float(kappa_before.value + changes.kappa.value),
        **changes.kappa.columns("kappa_difference"),
        "agreement": float((called[0] == called[1]).mean()),
        "agreement_referable": float((is_referred[0] == is_referred[1]).mean()),
        "sensitivity_before": sensitivity[0],
        "sensitivity_after": sensitivity[1],
        "max_abs_difference": max_abs_difference,
        "needed_patients": changes.needed_patients,
        "margin": margin,
        "passes": not reason,
        "reason": reason,
        "warning": find_doubt(auc_before),
    }


def _check_probabilities(name: str, rows: np.ndarray) -> None:
    is_sound = rows.shape[1] == len(GRADES) and rows.min() >= 0
    # the softmax of an int8 network is rounded to 1/256 in each of five grades
    if not is_sound or not np.abs(rows.sum(axis=1) - 1).max() <= 0.02:
        raise DrError(
            f"{name}: a row does not hold probabilities (finite, 0 or more, sum 1): the "
            "artifact is broken"
        )


def check_model(probabilities: np.ndarray) -> None:
    """Refuse a model that tells no photographs apart: every format would lose nothing of it.

    Args:
        probabilities: (n, 5) of the network, before any conversion.

    Raises:
        DrError: referable disease is as probable for all, but for what a format may round.
    """
    referable = sum_referable(probabilities)
    low = referable.min()
    high = referable.max()
    if len(referable) >= MIN_IMAGES and high - low <= ROUNDING:
        raise DrError(
            f"the model gives all {len(referable)} photographs the same probability of referable "
            f"disease ({low:.3f} to {high:.3f}), so it has nothing to lose in any format: train it "
            "again, from pretrained weights if it is recipe few"
        )


class Changes(NamedTuple):
    """The changes of AUC and kappa by a conversion, and the number of patients needed to decide."""

    auc: Interval
    kappa: Interval
    worse_patients: int
    needed_patients: int


def measure_changes(
    grade: np.ndarray,
    patient_id: np.ndarray,
    referable: Sequence[np.ndarray],
    called: Sequence[np.ndarray],
    *,
    margin: float,
    is_rounded: bool = False,
) -> Changes:
    """Compute the changes of AUC and kappa as sums over the patients whose answers change.

    Their bounds (`bound_changes`) allow for patients lost of whom none was seen: of those who would
    be answered worse if all got one same grade, or who rank behind all others, what one costs.

    Args:
        grade: (n,) 0-4, referable and other grades among them.
        patient_id: (n,) whose photograph it is.
        referable: (n,) probabilities of the network and of the artifact.
        called: (n,) grades of the two.
        margin: non-inferiority margin.
        is_rounded: the artifact gives the network's probabilities but for rounding, so it loses no
            patient.
    """
    patient = np.unique(patient_id, return_inverse=True)[1]
    aucs = estimate_aucs(grade >= REFERABLE_FROM, referable, patient)
    auc_parts = np.zeros(patient.max() + 1)
    auc_unseen = 0.0
    for kind in (grade >= REFERABLE_FROM, grade < REFERABLE_FROM):
        moved = aucs.placements[1, kind] - aucs.placements[0, kind]
        # where others lose their place, all of a kind move a little
        parts = np.bincount(patient[kind], moved - np.median(moved), len(auc_parts))
        auc_parts += parts / kind.sum()
        lost = np.bincount(patient[kind], aucs.placements[0, kind]) / kind.sum()
        auc_unseen = max(auc_unseen, _weigh_losses(-lost))
    was, now = (grades.astype(float) for grades in called)
    kappa_parts = _split_kappa(grade, was, now, patient) / _disagree_by_chance(grade, now)
    of_one_grade = [
        _split_kappa(grade, was, np.full_like(was, same), patient)
        for same in range(len(GRADES))
    ]
    kappa_unseen = max(map(_weigh_losses, of_one_grade)) / _disagree_by_chance(grade, was)
    if is_rounded:
        auc_unseen = kappa_unseen = 0.0
    return Changes(
        auc=_add_reach(aucs.values[1] - aucs.values[0], auc_parts, auc_unseen),
        kappa=_add_reach(kappa_parts.sum(), kappa_parts, kappa_unseen),
        worse_patients=int((kappa_parts < 0).sum()),
        needed_patients=max(
            patients_for_non_inferiority(parts, unseen, margin)
            for parts, unseen in ((auc_parts, auc_unseen), (kappa_parts, kappa_unseen))
        ),
    )


def describe_gate(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the gate's decision on an exported model in columns of a run's row."""
    gate = facts.get("gate") or {}
    ends = ("", "_low", "_high")
    changes = [f"{score}_difference{end}" for score in ("auc", "kappa") for end in ends]
    return {f"gate_{name}": gate.get(name) for name in ["passes", *changes]}


def _split_kappa(
    grade: np.ndarray, before: np.ndarray, after: np.ndarray, patient: np.ndarray
) -> np.ndarray:
    """Compute each patient's part in the change of kappa, (patients,), times e after.

    Kappa is 1 - o / e, mean squared disagreement over that by chance. Its change is exactly
    ((1 - kappa before) * change of e - change of o) / e after.
    """
    disagreement = (grade - before) ** 2
    share = disagreement.mean() / _disagree_by_chance(grade, before)
    more_by_chance = after**2 - before**2 - 2 * grade.mean() * (after - before)
    parts = share * more_by_chance - (grade - after) ** 2 + disagreement
    return np.bincount(patient, parts) / len(grade)


def _disagree_by_chance(grade: np.ndarray, called: np.ndarray) -> float:
    return (grade**2).mean() + (called**2).mean() - 2 * grade.mean() * called.mean()


def _weigh_losses(parts: np.ndarray) -> float:
    """Compute the mean of losses weighted by size, so that few large losses count."""
    losses = parts[parts < 0]
    return float((losses**2).sum() / -losses.sum()) if len(losses) else 0.0


def _add_reach(value: float, parts: np.ndarray, unseen: float) -> Interval:
    down, up = bound_changes(parts, unseen)
    return Interval(float(value), float(value - down), float(value + up), len(parts))


def _find_reason(changes: Changes, num_images: int, margin: float) -> str:
    """Explain why the artifact does not pass; empty if it passes."""
    if num_images < MIN_IMAGES:
        return f"{num_images} labelled photographs are too few to decide: give {MIN_IMAGES} or more"
    scores = {"auc": changes.auc, "kappa": changes.kappa}
    if not np.isfinite([change.low for change in scores.values()]).all():
        return "the labelled photographs are all of one class: give referable and other eyes"
    large = {name: change for name, change in scores.items() if change.low <= -margin}
    if not large:
        return ""
    losses = " and ".join(
        f"{name} changes by {change.value:+.3f} and may drop by {-change.low:.3f}"
        for name, change in large.items()
    )
    worse = f"{changes.worse_patients} of {changes.auc.n} patients get worse answers"
    reason = f"{losses}, margin {margin:g}: {worse}"
    if any(change.value <= -margin for change in large.values()):
        return reason
    return (
        f"{reason}; about {changes.needed_patients} patients would decide, here are "
        f"{changes.auc.n}"
    )
