"""Compare models on the same patients, and each model on several data sets."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dr_lib.evaluation.points import find_called, measure, measure_points
from dr_lib.evaluation.predictions import Predictions
from dr_lib.evaluation.scores import tabulate_scores, unbind, unpack
from dr_lib.statistics.clustered import (
    MIN_PATIENTS,
    auc_difference,
    auc_interval,
    difference_interval,
    kappa_interval,
)

AT = ("point", "threshold", "sensitivity", "specificity")


def compare_data_sets(
    models: Sequence[Predictions], points: Sequence[pd.DataFrame]
) -> pd.DataFrame:
    """Score each model on each data set, at the thresholds of `freeze_points`.

    Returns:
        A row per prediction and operating point, or one with none: `model`, `trained_on` (where its
        file with training or validation rows is among them), `data_kind`, `tested_on`,
        `num_images`, `num_patients`, `auc`, and of `measure_points` `point`, `threshold`,
        `sensitivity`, `specificity`.
    """
    is_home = [m.table["split"].isin(["train", "validation"]).any() for m in models]
    homes = {m.version: m.dataset for m, home in zip(models, is_home, strict=True) if home}
    homes[""] = ""  # no version says which model it is
    rows = []
    for model, own, home in zip(models, points, is_home, strict=True):
        y, p, patient = unpack(model.test)
        auc = auc_interval(y, p, patient)
        for at in measure(model.test, own) or [dict.fromkeys(AT, np.nan)]:
            row = {
                "model": model.name,
                "trained_on": model.dataset if home else homes.get(model.version, ""),
                "data_kind": "synthetic" if model.is_synthetic else "photographs",
                "tested_on": model.dataset,
                "num_images": len(y),
                "num_patients": len(np.unique(patient)),
                "auc": auc,
                **{name: at[name] for name in AT},
            }
            rows.append(row)
    return tabulate_scores(rows)


def list_elsewhere(
    models: Sequence[Predictions], points: Sequence[pd.DataFrame]
) -> list[tuple[int, Predictions, pd.DataFrame]]:
    """List the first model's predictions on other data sets, by their number from 1, and their
    operating points.
    """
    first = models[0]
    return [
        (number, model, own)
        for number, (model, own) in enumerate(zip(models, points, strict=True), 1)
        if model.name == first.name and model.dataset != first.dataset
    ]


def follow_first(models: Sequence[Predictions], points: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Follow the first model to the other data sets that it is tested on.

    Returns:
        A row per data set: `tested_on`, `auc`, and `tp` and `fn`, patients at the first of its
        operating points.
    """
    rows = []
    for _, other, at in list_elsewhere(models, points):
        auc = auc_interval(*unpack(other.test))
        row = {"tested_on": other.dataset, "auc": auc}
        for found in measure_points(other, at, by_patient=True)[:1].to_dict("records"):
            row.update(tp=found["tp"], fn=found["fn"])
        rows.append(row)
    return tabulate_scores(rows)


def read_trainings(
    models: Sequence[Predictions], paths: Sequence[Path]
) -> dict[str, dict[str, Any]]:
    """Read how models were trained, from the folder `model` beside each file of predictions.

    Returns:
        By a model's name its notebook's parameters and `crop_method`; of an ensemble, what all its
        networks have in common. Empty where the `model_version` of one is in none of the folders.
    """
    known = {}
    for path in paths:
        try:
            manifest = json.loads((Path(path).parent / "model" / "manifest.json").read_bytes())
            training = {"crop_method": manifest["crop_method"], **manifest["trained_with"]}
            known[manifest["sha256"][:12]] = training
        except (OSError, ValueError, KeyError, TypeError):
            continue  # of another program
    found = {}
    for model in models:
        first, *others = [known.get(v, {}) for v in model.version.split()] or [{}]
        found[model.name] = {
            name: value
            for name, value in first.items()
            if all(other.get(name) == value for other in others)
        }
    return found


def compare_models(
    models: Sequence[Predictions], points: Sequence[pd.DataFrame]
) -> pd.DataFrame:
    """Compare each further model with the first, on the same patients.

    Args:
        models: of `read_predictions`, the reference first; those of other test photographs are
            passed over.
        points: of each, its own.

    Returns:
        A row per further `model`: `reference`, `num_patients`, `num_diseased` of them, and the
        differences `delta_auc`, at each one's own point of high sensitivity `delta_sensitivity`
        and `delta_specificity`, and with grades `delta_kappa`.
    """
    reference = models[0]
    ours = reference.test.set_index("image_id")
    y, p, patient = unpack(ours)
    rows = []
    for other, theirs_at in zip(models[1:], points[1:], strict=True):
        if set(other.test["image_id"]) != set(ours.index):
            continue
        theirs = other.test.set_index("image_id").loc[ours.index]
        q = unpack(theirs).p
        sensitivity = specificity = kappa = None
        if len(theirs_at) and len(points[0]):
            is_right = [
                find_called(ours, points[0]) == y,
                find_called(theirs, theirs_at) == y,
            ]
            is_same = np.array_equal(p, q) and np.array_equal(*is_right)
            differences = []
            for kind in (y, ~y):
                lost, gained = (is_right[k][kind] & ~is_right[1 - k][kind] for k in (0, 1))
                difference = difference_interval(gained, lost, patient[kind])
                is_bare = is_same or difference.n < MIN_PATIENTS
                differences.append(unbind(difference, is_bare))
            sensitivity, specificity = differences
        both = reference.graded.merge(other.graded, on="image_id", suffixes=("", "_other"))
        if len(both):
            predicted = (both["predicted_grade"], both["predicted_grade_other"])
            kappa = kappa_interval(both["grade"], *predicted, patient_id=both["patient_id"])
        row = {
            "model": other.name,
            "reference": reference.name,
            "num_patients": len(np.unique(patient)),
            "num_diseased": len(np.unique(patient[y])),
            "delta_auc": auc_difference(y, [p, q], patient),
            "delta_sensitivity": sensitivity,
            "delta_specificity": specificity,
            "delta_kappa": kappa,
        }
        rows.append(row)
    return tabulate_scores(rows)
