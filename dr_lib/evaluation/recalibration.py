"""Recalibrate a model for another hospital from few labelled patients, and see it on the others."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dr_lib.data.labels.groups import unite
from dr_lib.errors import DrError
from dr_lib.evaluation.curves import score_calibration
from dr_lib.evaluation.points import choose_points, freeze_points, measure
from dr_lib.evaluation.predictions import Predictions
from dr_lib.evaluation.scores import tabulate_scores, unpack
from dr_lib.files import write_json
from dr_lib.statistics.calibration import choose_recalibration
from dr_lib.statistics.intervals import Interval
from dr_lib.statistics.recalibration import Recalibration

AIM = {"sensitivity": 0.9, "specificity": 0.9}  # of the new thresholds
NUM_DRAWS = 50  # of k patients, for the curve
STEPS = (10, 20, 30, 50, 75, 100, 150, 200, 300, 500)  # patients of the curve


class Local(NamedTuple):
    """A recalibration from k patients of a hospital, and what it does for the others."""

    recalibration: Recalibration
    p_values: tuple[float, float]  # of intercept and slope together, of the slope
    points: pd.DataFrame  # new thresholds, of `choose_points`
    after: Predictions  # of the others, recalibrated


def recalibrate_locally(
    there: Predictions, num_patients: int, rng: np.random.Generator
) -> Local | None:
    """Recalibrate from a random draw of patients, in whole groups where the predictions have them;
    None as for `choose_recalibration`, and where the others are of one class.
    """
    units = there.test["patient_id"]
    if "group" in there.test:
        group = there.test["group"].reset_index(drop=True)
        place = group.index.to_series()
        first = place.groupby(group).transform("first")
        units = unite(units, np.column_stack([place, first])[group != ""])
    order = rng.permutation(np.unique(units))
    counts = there.test["patient_id"].groupby(units).nunique()[order]
    is_drawn = units.isin(order[counts.cumsum() - counts < num_patients])
    y, p, patient = unpack(there.test[is_drawn])
    found = choose_recalibration(y, p, patient)
    if found is None or there.test.loc[~is_drawn, "referable"].nunique() < 2:
        return None
    recalibration, p_values = found
    moved = recalibration(there.test["probability_referable"])
    table = there.test.assign(probability_referable=moved)
    after = there._replace(validation=table[is_drawn], test=table[~is_drawn])
    return Local(recalibration, p_values, choose_points(after, **AIM), after)


def choose_hospital(models: Sequence[Predictions]) -> tuple[Predictions, pd.DataFrame]:
    """Choose the predictions of the new hospital, and the model's own frozen thresholds: empty
    without the file that they were chosen in.

    Raises:
        DrError: not one file is without validation rows, or it does not name the model's version.
    """
    points = freeze_points(models, **AIM)
    found = [place for place, model in enumerate(models) if model.validation.empty]
    if len(found) != 1:
        raise DrError(
            f"{len(found)} files are without validation rows: give the predictions of one new "
            "hospital, and of the model's own data set if you have them"
        )
    there = models[found[0]]
    if not there.version:
        raise DrError(
            "the predictions name no model_version: make them with predict --external"
        )
    return there, points[found[0]]


def compare(there: Predictions, old: pd.DataFrame, local: Local) -> pd.DataFrame:
    """Compare the other patients before and after.

    Returns:
        Two rows, `probabilities` as predicted and recalibrated: `num_patients` and `num_images`,
        `intercept`, `slope`, `brier`, and at the point of high sensitivity `threshold`,
        `sensitivity`, `specificity`: before at the model's own threshold, where it is known.
    """
    is_other = there.test["image_id"].isin(local.after.test["image_id"])
    before = there._replace(test=there.test[is_other])
    rows = []
    for name, predictions, points in (
        ("as predicted", before, old),
        ("recalibrated", local.after, local.points),
    ):
        y, p, patient = unpack(predictions.test)
        row = {
            "probabilities": name,
            "num_patients": len(np.unique(patient)),
            "num_images": len(y),
            **score_calibration(y, p, patient),
        }
        for measured in measure(predictions.test, points)[:1]:
            row["threshold"] = measured["threshold"]
            for score in ("sensitivity", "specificity"):
                row[score] = Interval(*measured[score][:4])
        rows.append(row)
    return tabulate_scores(rows)


def trace_patients(there: Predictions) -> pd.DataFrame:
    """Trace what more labelled patients would give, over draws of k of them.

    Returns:
        A row per `k` of STEPS up to half of the patients: `num_draws` of NUM_DRAWS that allowed a
        recalibration, and of the others the mean `excess_risk`, mean probability less share of
        referable photographs, `brier`, and `sensitivity` and `specificity` at the new point of high
        sensitivity, with the range of 95 % of the draws as bounds.
    """
    rows = []
    half = there.test["patient_id"].nunique() // 2
    for k in [step for step in STEPS if step <= half]:
        rng = np.random.default_rng(k)
        found = []
        for _ in range(NUM_DRAWS):
            local = recalibrate_locally(there, k, rng)
            if local is not None:
                y, p, _ = unpack(local.after.test)
                called = p >= local.points["threshold"].iloc[0]
                scores = (p.mean() - y.mean(), ((p - y) ** 2).mean())
                found.append((*scores, called[y].mean(), (~called[~y]).mean()))
        row: dict[str, Any] = {"k": k, "num_draws": len(found)}
        names = ("excess_risk", "brier", "sensitivity", "specificity")
        for name, values in zip(names, np.transpose(found), strict=False):
            row[name] = Interval(values.mean(), *np.quantile(values, [0.025, 0.975]), k)
        rows.append(row)
    return tabulate_scores(rows)


def write_recalibration(path: Path, there: Predictions, local: Local) -> None:
    """Write the file that `predict` and `serve` take."""
    intercept, slope = local.recalibration[:2]
    method = "intercept" if intercept else "none: these patients do not ask for one"
    if slope != 1:
        method = "intercept and slope"
    drawn = local.after.validation
    facts = {
        "model": there.name,
        "model_version": there.version,
        "dataset": there.dataset,
        "method": method,
        "intercept": intercept,
        "slope": slope,
        "p_intercept_and_slope": local.p_values[0],
        "p_slope": local.p_values[1],
        "thresholds": dict(zip(local.points["point"], local.points["threshold"], strict=True)),
        "aim": AIM,
        "num_patients": int(drawn["patient_id"].nunique()),
        "num_diseased": int(local.points["validation_diseased"].iloc[0]),
        "num_images": len(drawn),
        "patients": sorted(drawn["patient_id"].unique()),
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    write_json(path, facts)
