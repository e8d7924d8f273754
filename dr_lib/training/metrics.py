"""Score predictions of grades and of referable disease."""

from collections.abc import Mapping

import numpy as np
from sklearn.metrics import accuracy_score, cohen_kappa_score, recall_score, roc_auc_score

from dr_lib.data.labels.grades import GRADES, sum_referable
from dr_lib.data.prepared.folder import Photographs
from dr_lib.errors import DrError
from dr_lib.numbers import write_interval
from dr_lib.statistics import clustered
from dr_lib.statistics.intervals import UNLEARNED, Interval, has_learned
from dr_lib.training.config import NUM_FOLDS


def check_sides(splits: Mapping[str, Photographs], recipe: str, patience: int = 0) -> None:
    """Refuse a split that nothing can be trained on or scored with; validation may be empty, but
    not where the training has a `patience`.

    Raises:
        DrError: a side has too few patients of a class.
    """
    validation = splits.get("validation")
    if patience and (validation is None or not len(validation.referable)):
        raise DrError(
            f"patience {patience} needs a validation split, and this split has none: use scheme"
            " random, or patience 0"
        )
    for name, side in splits.items():
        if name == "validation" and not len(side.referable):
            continue
        least = NUM_FOLDS if name == "train" and recipe == "few" else 1
        referable = len(set(side.patient_id[side.referable == 1]))
        others = len(set(side.patient_id[side.referable == 0]))
        in_all = len(set(side.patient_id))
        if min(referable, others) < 1 or in_all < least:
            raise DrError(
                f"the {name} split has {referable} patients with referable eyes, {others} with"
                f" others, {in_all} in all: recipe {recipe} needs 1 of each, and {least} in all"
            )


def score_sides(
    splits: Mapping[str, Photographs],
    probabilities: Mapping[str, np.ndarray],
    *,
    task: str,
) -> tuple[dict[str, float], Interval]:
    """Score the test split, and give its AUC with an interval.

    The threshold is the highest at which 90 % of the referable eyes of the validation split are
    found (a high-sensitivity point, as in Voets et al. 2019); 0.5 without that split.

    Raises:
        DrError: a probability is not finite.
    """
    if not all(np.isfinite(values).all() for values in probabilities.values()):
        raise DrError(
            "a predicted probability is not finite: the training diverged, lower the learning "
            "rate"
        )
    is_grades = task == "grades"
    test = splits["test"]
    referable = {
        name: sum_referable(values) if is_grades else values[:, 0]
        for name, values in probabilities.items()
    }
    threshold = 0.5
    if "validation" in splits:
        threshold = clustered.choose_threshold(
            splits["validation"].referable, referable["validation"], sensitivity=0.9
        )
    scores = score(test.referable, referable["test"], threshold)
    if is_grades:
        scores.update(score_grades(test.grade, probabilities["test"]))
    return scores, clustered.auc_interval(test.referable, referable["test"], test.patient_id)


def score(referable: np.ndarray, probability: np.ndarray, threshold: float) -> dict[str, float]:
    """Compute the AUC, and sensitivity, specificity and accuracy at a threshold.

    Args:
        referable: (n,) 0 or 1, both present.
        probability: (n,) of referable disease; an eye is called referable where it is at least the
            threshold.
        threshold: see `score_sides`.
    """
    called = probability >= threshold
    return {
        "auc": roc_auc_score(referable, probability),
        "sensitivity": recall_score(referable, called),
        "specificity": recall_score(referable, called, pos_label=0),
        "accuracy": accuracy_score(referable, called),
        "threshold": threshold,
    }


def find_doubt(auc: Interval) -> str:
    """Say that a model has not been shown to have learned (`has_learned`); empty where it has, and
    without an AUC, of one class.
    """
    if has_learned(auc.low) or np.isnan(auc.value):
        return ""
    return UNLEARNED.format(write_interval(*auc[:3]), auc.n)


def score_grades(grade: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """Compare (n,) grades with the most probable grades of (n, 5) probabilities: kappa (quadratic
    weighted, Cohen 1968) and grade_accuracy.
    """
    graded = probabilities.argmax(axis=1)
    kappa = cohen_kappa_score(grade, graded, weights="quadratic", labels=range(len(GRADES)))
    return {"kappa": float(kappa), "grade_accuracy": float((graded == grade).mean())}
