"""List the worst errors of a test split, and, in private, the patients who were missed."""

import pandas as pd

from dr_lib.evaluation.points import find_called
from dr_lib.evaluation.scores import find_worse_eyes
from dr_lib.evaluation.table import Predictions

ERRORS = ("missed", "false alarm")


def list_errors(predictions: Predictions, points: pd.DataFrame, number: int) -> pd.DataFrame:
    """List the worst errors at the point of high sensitivity, highest missed grades first.

    Returns:
        At most `number` of each: `error` of ERRORS, `fold` and `line` in the file (of an ensemble,
        the first one), `image_id`, `grade`, or `referable` where no grade is known, and
        `probability_referable`.
    """
    label = "grade" if "grade" in predictions.test else "referable"
    test = predictions.test.sort_values("probability_referable")
    is_referable = test["referable"] == 1
    is_called = find_called(test, points)
    missed = test[~is_called & is_referable]
    missed = missed.sort_values(label, ascending=False, kind="stable")
    alarms = test[is_called & ~is_referable][::-1]
    errors = pd.concat([missed.head(number), alarms.head(number)], keys=ERRORS)
    errors = errors.reset_index(names=["error", "line"])
    return errors.filter(["error", "fold", "line", "image_id", label, "probability_referable"])


def list_missed_patients(
    predictions: Predictions, points: pd.DataFrame, names: pd.DataFrame
) -> pd.DataFrame:
    """List the patients with the disease who would be sent home, for private use only.

    Args:
        predictions: whose test split it is.
        points: of `choose_points`.
        names: `image_id`, `file` and `patient`, as the private folder has them.

    Returns:
        A row per photograph of these patients, both eyes, the worst patient first: `patient` (the
        record number), `file`, `eye`, `visit`, `grade` or `referable`, `probability_referable`, NaN
        of what was not scored.
    """
    test = predictions.tested
    people = find_worse_eyes(test)
    label = "grade" if "grade" in test else "referable"
    is_missed = (people["referable"] == 1) & ~find_called(people, points)
    missed = people[is_missed].sort_values(label, ascending=False)
    photographs = missed[["patient_id"]].merge(test, on="patient_id")
    named = photographs.merge(names, on="image_id", how="left")
    return named.filter(["patient", "file", "eye", "visit", label, "probability_referable"])
