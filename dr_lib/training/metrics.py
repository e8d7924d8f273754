"""Score predictions of grades and of referable disease."""

from collections.abc import Mapping

import numpy as np
from sklearn.metrics import accuracy_score, cohen_kappa_score, recall_score, roc_auc_score

from dr_lib.data.labels.grades import GRADES, sum_referable
from dr_lib.data.prepared.folder import Photographs
from dr_lib.errors import DrError
from dr_lib.statistics import clustered
from dr_lib.statistics.intervals import UNLEARNED, Interval, has_learned

NUM_FOLDS = 5  # of the training patients, in which a recipe chooses its penalty


def check_sides(splits: Mapping[str, Photographs], recipe: str, patience: int = 0) -> None:
    """Refuse a split that nothing can be trained on or scored with; validation may be empty, but
    not where the training has a `patience`.

    Recipe upper chooses its penalty in five folds of patients, each of which has to have both
    classes; recipe few regresses the grade there.

    Raises:
        DrError: a side has too few patients of a class.
    """
    validation = splits.get("validation")
    if patience and (validation is None or not len(validation.referable)):
        fault = f"patience {patience} needs a validation split, and this split has none"
        raise DrError(f"{fault}: use scheme random, or patience 0")
    # patients to train on: of each class, and in all
    needed = {"full": (1, 1), "few": (1, NUM_FOLDS), "upper": (NUM_FOLDS, NUM_FOLDS)}
    for name, side in splits.items():
        if name == "validation" and not len(side.referable):
            continue
        each, all_ = needed[recipe if name == "train" else "full"]
        referable = set(side.patient_id[side.referable == 1])
        others = set(side.patient_id[side.referable == 0])
        counts = [len(patients) for patients in (referable, others, referable | others)]
        if min(counts[:2]) < each or counts[2] < all_:
            found = "{} patients with referable eyes, {} with others, {} in all".format(*counts)
            needed = f"recipe {recipe} needs {each} of each, and {all_} in all"
            raise DrError(f"the {name} split has {found}: {needed}")


def score_sides(
    splits: Mapping[str, Photographs],
    probabilities: Mapping[str, np.ndarray],
    *,
    task: str,
) -> tuple[dict[str, float], Interval]:
    """Score the test split at a threshold from the validation split, and give its AUC with an
    interval.
    """
    is_grades = task == "grades"
    test = splits["test"]
    referable = {
        name: sum_referable(values) if is_grades else values[:, 0]
        for name, values in probabilities.items()
    }
    threshold = 0.5
    if "validation" in splits:
        validation = splits["validation"].referable
        threshold = choose_threshold(validation, referable["validation"])
    scores = score(test.referable, referable["test"], threshold)
    if is_grades:
        scores.update(score_grades(test.grade, probabilities["test"]))
    return scores, clustered.auc_interval(test.referable, referable["test"], test.patient_id)


def choose_threshold(referable: np.ndarray, probability: np.ndarray) -> float:
    """Choose the highest threshold at which 90 % of referable eyes are found; use the validation
    split only.

    Args:
        referable: (n,) 0 or 1, both present.
        probability: (n,) of referable disease; an eye is called referable where it is at least the
            threshold.

    Raises:
        DrError: a probability is not finite.
    """
    _check(probability)
    # a high-sensitivity point, as in Voets et al. 2019
    return clustered.choose_threshold(referable, probability, sensitivity=0.9)


def score(referable: np.ndarray, probability: np.ndarray, threshold: float) -> dict[str, float]:
    """Compute the AUC, and sensitivity, specificity and accuracy at a threshold; arguments and
    errors are those of `choose_threshold`.
    """
    _check(probability)
    called = np.asarray(probability) >= threshold
    return {
        "auc": float(roc_auc_score(referable, probability)),
        "sensitivity": float(recall_score(referable, called)),
        "specificity": float(recall_score(referable, called, pos_label=0)),
        "accuracy": float(accuracy_score(referable, called)),
        "threshold": float(threshold),
    }


def find_doubt(auc: Interval) -> str:
    """Say that a model has not been shown to have learned (`has_learned`); empty where it has, and
    without an AUC, of one class.
    """
    if has_learned(auc.low) or np.isnan(auc.value):
        return ""
    return UNLEARNED.format(f"{auc.value:.2f} [{auc.low:.2f}, {auc.high:.2f}]", auc.n)


def score_grades(grade: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """Compare (n,) grades with the most probable grades of (n, 5) probabilities: kappa (quadratic
    weighted, Cohen 1968) and grade_accuracy.
    """
    graded = probabilities.argmax(axis=1)
    kappa = cohen_kappa_score(grade, graded, weights="quadratic", labels=range(len(GRADES)))
    return {"kappa": float(kappa), "grade_accuracy": float((graded == grade).mean())}


def _check(probability: np.ndarray) -> None:
    if not np.isfinite(probability).all():
        raise DrError(
            "a predicted probability is not finite: the training diverged, lower the learning "
            "rate"
        )
