"""Decide whether an artifact may be served: what conversion cost in AUC, kappa and agreement."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dr_lib.data.labels.grades import GRADES, REFERABLE_FROM, sum_referable
from dr_lib.serving.export.convert import ExportError
from dr_lib.serving.grader.folder import ModelFolder
from dr_lib.statistics.bootstrap import Score, bootstrap_patients, score_auc, score_kappa
from dr_lib.statistics.equivalence import observations_for_non_inferiority
from dr_lib.training.train_once import PREDICTIONS

MIN_IMAGES = 30  # fewer show nothing, not even where no prediction changed
# what happened to none of n happens, with 95 % confidence, in 3 / n at most (Hanley and others
# 1983)
NONE_OF_N = 3
ROUNDING = 0.01  # of a probability: an artifact that changes less has lost nothing
HALF_WIDTH = 1.96  # standard errors on each side of a 95 % interval
# of the most probable grade after full int8; MobileNet kept 0.85 to 0.93 of 60 photographs
TYPICAL_AGREEMENT = 0.9


class Labelled(NamedTuple):
    """Crops that somebody has graded, to judge artifacts by."""

    images: np.ndarray  # (n, side, side, 3) uint8
    grade: np.ndarray  # (n,) 0-4
    patient_id: np.ndarray  # (n,)
    split_sha256: str = ""  # of the split table that they are from
    image_id: Sequence[str] = ()


def find_why_unjudged(model: ModelFolder, labelled: Labelled) -> str:
    """Say why photographs cannot judge a trained model: it learned from some of them, or nobody
    knows.

    They can where they are the test side of the split that it was trained by. For another split,
    the predictions that a training leaves beside its model name the photographs that it learned
    from.

    Returns:
        The reason; empty where they can judge it, or it was never trained.
    """
    if model.facts["split_sha256"] in ("", labelled.split_sha256):
        return ""
    path = model.path.parent / PREDICTIONS
    if path.is_file():
        offered = pd.read_csv(path, dtype=str, keep_default_na=False)
        learned = offered[offered["split"].isin(["train", "validation"])]
        image_id = pd.Series(labelled.image_id, dtype=str)
        patient_id = pd.Series(labelled.patient_id).astype(str)
        is_seen = image_id.isin(learned["image_id"]) | patient_id.isin(learned["patient_id"])
        if is_seen.any():
            return (
                f"the model learned from {is_seen.sum()} of these {len(is_seen)} test photographs,"
                " or their patients"
            )
        if image_id.isin(offered["image_id"]).any():  # pseudonyms of one salt
            return ""
    return (
        "the model was trained by another split, and may have learned from these test photographs"
    )


def mark_unjudged(row: dict[str, Any], why: str) -> dict[str, Any]:
    """The gate's row of photographs that cannot judge the model: its scores are no scores."""
    scores = [name for name in row if name.startswith(("auc_", "kappa_"))]
    said = {"needed_patients": 0, "passes": False, "reason": f"not judged: {why}", "warning": ""}
    return {**row, **dict.fromkeys(scores, math.nan), **said}


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
    few to show it refuse what may be good: `find_needed_patients` says how many it takes.

    Args:
        grade: (n,) 0-4, as graded by people.
        patient_id: (n,) whose photograph it is.
        before: (n, 5) probabilities of the Keras network.
        after: (n, 5) probabilities of the artifact, of the same photographs.
        threshold: of the probability of referable disease, from which on an eye is referred.
        margin: non-inferiority margin of AUC and kappa.
        resamples: number of draws.

    Returns:
        num_images, num_patients, rarer_patients (with referable or with other eyes, the fewer);
        auc_before, auc_after, auc_difference (after - before), with the 95 % intervals
        auc_before_low, auc_before_high, auc_difference_low and auc_difference_high; the same for
        kappa; agreement (share with the same most probable grade), agreement_referable,
        max_abs_difference (of a probability), margin, needed_patients (that would show it with a
        power of 80 % where nothing was lost, by the spread found here), passes, reason; warning,
        where the network itself may be guessing: what guesses loses nothing. NaN where the
        photographs do not define a value; then, and with fewer than 30 photographs, it does not
        pass; nor with so few patients of a kind that a loss in a few per cent of them may not have
        shown.

    Raises:
        ExportError: a row is no five probabilities.
    """
    for name, rows in (("before", before), ("after", after)):
        # the softmax of an int8 network is rounded to 1/256 in each of five grades
        if (
            rows.shape[1] != len(GRADES)
            or not np.min(rows) >= 0
            or not np.abs(np.sum(rows, axis=1) - 1).max() <= 0.02
        ):
            raise ExportError(
                f"{name}: a row is no probabilities (finite, from 0 on, sum 1): the artifact is"
                " broken"
            )
    row = {"num_images": len(grade), "num_patients": len(np.unique(patient_id))}
    is_referable = grade >= REFERABLE_FROM
    row["rarer_patients"] = min(
        len(np.unique(patient_id[kind])) for kind in (is_referable, ~is_referable)
    )
    aucs = [score_auc(grade >= REFERABLE_FROM, sum_referable(rows)) for rows in (before, after)]
    kappas = [score_kappa(grade, rows.argmax(axis=1)) for rows in (before, after)]
    for name, scores in {"auc": aucs, "kappa": kappas}.items():

        def score(weights: np.ndarray, scores: list[Score] = scores) -> np.ndarray:
            was, now = (each(weights) for each in scores)
            return np.stack([was, now, now - was], axis=-1)

        value, low, high, _ = bootstrap_patients(score, patient_id, resamples=resamples)
        columns = dict(zip(("before", "after", "difference"), value, strict=True))
        columns |= {
            "before_low": low[0],
            "before_high": high[0],
            "difference_low": low[2],
            "difference_high": high[2],
        }
        row |= {f"{name}_{column}": float(value) for column, value in columns.items()}
    referred = [sum_referable(rows) >= threshold for rows in (before, after)]
    row |= {
        "agreement": float((before.argmax(axis=1) == after.argmax(axis=1)).mean()),
        "agreement_referable": float((referred[0] == referred[1]).mean()),
        "max_abs_difference": float(np.abs(before - after).max()),
    }
    widths = [
        row[f"{name}_difference_high"] - row[f"{name}_difference_low"] for name in ("auc", "kappa")
    ]
    spread = max(widths) / (2 * HALF_WIDTH) * row["num_patients"] ** 0.5
    row["needed_patients"] = (
        observations_for_non_inferiority(spread, margin) if np.isfinite(widths).all() else 0
    )
    reason = _find_reason(row, margin)
    is_shown = row["auc_before_low"] > 0.5 and row["kappa_before_low"] > 0
    kept = (
        "AUC {auc_before:.2f} [{auc_before_low:.2f}, {auc_before_high:.2f}], kappa"
        " {kappa_before:.2f} "
    )
    kept += "[{kappa_before_low:.2f}, {kappa_before_high:.2f}]"
    warning = (
        "" if is_shown else f"the network itself has not been shown to grade: {kept.format(**row)}"
    )
    return row | {"margin": margin, "passes": not reason, "reason": reason, "warning": warning}


def find_needed_patients(
    grade: np.ndarray, patient_id: np.ndarray, before: np.ndarray, *, margin: float = 0.02
) -> int:
    """Say before a conversion how many patients show that it loses less than the margin, with a
    power of 80 %.

    What a conversion will change is not known yet. It is played: noise on the logits of the
    network's own predictions, as much as leaves TYPICAL_AGREEMENT of the most probable grades, and
    the spread of the paired difference with it. A float32 artifact changes nothing and needs fewer.

    Arguments and errors are those of `compare`.
    """
    logits = np.log(np.clip(before, 1e-7, 1))
    rng = np.random.default_rng(0)
    noise = rng.normal(size=logits.shape)
    for scale in np.geomspace(0.01, 10, 60):  # to the first that is enough
        after = np.exp(logits + scale * noise)
        if (after.argmax(axis=1) == before.argmax(axis=1)).mean() <= TYPICAL_AGREEMENT:
            break
    after /= after.sum(axis=1, keepdims=True)
    return compare(grade, patient_id, before, after, margin=margin, resamples=300)[
        "needed_patients"
    ]


def _find_reason(row: dict[str, Any], margin: float) -> str:
    """Why the artifact does not pass; empty where it does."""
    if row["num_images"] < MIN_IMAGES:
        return f"{row['num_images']} labelled photographs cannot decide: give {MIN_IMAGES} or more"
    lows = {name: row[f"{name}_difference_low"] for name in ("auc", "kappa")}
    if not np.isfinite([*lows.values(), *(row[f"{name}_difference"] for name in lows)]).all():
        return "the labelled photographs are all of one kind: give referable and other eyes"
    large = [name for name, low in lows.items() if low <= -margin]
    if (
        not large
        and row["max_abs_difference"] > ROUNDING
        and row["rarer_patients"] * margin < NONE_OF_N
    ):
        return (
            f"{row['rarer_patients']} patients with referable or with other eyes: a loss of"
            f" {margin:g} may not show; give {math.ceil(NONE_OF_N / margin)} of either kind"
        )
    if not large:
        return ""
    told = [
        f"{name} changes by {row[f'{name}_difference']:+.3f} and may drop by {-lows[name]:.3f}"
        for name in large
    ]
    is_lost = any(row[f"{name}_difference"] <= -margin for name in large)
    advice = (
        ""
        if is_lost
        else (
            f"; about {row['needed_patients']} patients would tell, these are {row['num_patients']}"
        )
    )
    return f"{' and '.join(told)}, margin {margin:g}{advice}"
