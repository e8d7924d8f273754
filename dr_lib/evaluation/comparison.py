"""Compare models on the same patients, and each model on several data sets."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dr_lib.evaluation.points import UNITS, measure_points
from dr_lib.evaluation.scores import unpack
from dr_lib.evaluation.table import Predictions
from dr_lib.statistics.bootstrap import bootstrap_patients, score_auc
from dr_lib.statistics.clustered import auc_interval
from dr_lib.statistics.intervals import tabulate


def compare_data_sets(
    models: Sequence[Predictions], points: Sequence[pd.DataFrame]
) -> pd.DataFrame:
    """Score each model on each data set, at the thresholds of `freeze_points`.

    Returns:
        A row per prediction and operating point, or one with none: `model`, `trained_on` (where its
        file with training or validation rows is among them), `data_kind`, `tested_on`,
        `num_patients`, `auc`, and what `measure_points` finds of photographs.
    """
    homes = {}
    for model in models:
        if model.table["split"].isin(["train", "validation"]).any():
            homes[model.name] = model.dataset
    tables = []
    for model, own in zip(models, points, strict=True):
        auc = auc_interval(*unpack(model.test))
        scores = {
            "model": model.name,
            "trained_on": homes.get(model.name, ""),
            "data_kind": "synthetic" if model.is_synthetic else "photographs",
            "tested_on": model.dataset,
            "num_patients": auc.n,
            "auc": auc,
        }
        at = pd.DataFrame({"point": [np.nan]})
        if len(own):
            at = measure_points(model, own).query(f"unit == '{UNITS[1]}'")
        tables.append(tabulate([scores]).merge(at, how="cross"))
    return pd.concat(tables, ignore_index=True)


def compare_models(models: Sequence[Predictions]) -> pd.DataFrame:
    """Compare each further model with the first, the reference, on the same photographs.

    Returns:
        A row per further `model`: `auc`, `reference`, `reference_auc`, `num_patients`, and the
        difference `delta_auc`, with bounds of the bootstrap.
    """
    ours = models[0].test.set_index("image_id")
    y, p, patient = unpack(ours)
    auc = auc_interval(y, p, patient)
    score = score_auc(y, p)
    rows = []
    for other in models[1:]:
        q = unpack(other.test.set_index("image_id").loc[ours.index]).p
        score_other = score_auc(y, q)
        difference = bootstrap_patients(
            lambda weights, other=score_other: other(weights) - score(weights), y, patient
        )
        row = {
            "model": other.name,
            "auc": auc_interval(y, q, patient),
            "reference": models[0].name,
            "reference_auc": auc,
            "delta_auc": difference,
            "num_patients": auc.n,
        }
        rows.append(row)
    return tabulate(rows)


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
        # those of another program have none
        with suppress(OSError, ValueError, KeyError, TypeError):
            manifest = json.loads((Path(path).parent / "model" / "manifest.json").read_bytes())
            training = {"crop_method": manifest["crop_method"], **manifest["trained_with"]}
            known[manifest["sha256"][:12]] = training
    found = {}
    for model in models:
        networks = [known.get(version, {}).items() for version in model.version.split(" ")]
        found[model.name] = dict(set.intersection(*map(set, networks)))
    return found
