"""Count the photographs from offered to evaluated, and score groups of patients, without a number
that may name one.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dr_lib.data.labels.schema import EVALUATED, OWN, fold_name
from dr_lib.errors import DrError
from dr_lib.evaluation.points import measure_points
from dr_lib.evaluation.scores import find_worse_eyes, round_count, take_interval, unpack
from dr_lib.evaluation.table import Predictions
from dr_lib.statistics.clustered import auc_interval, difference_interval
from dr_lib.statistics.intervals import NOTHING, tabulate

FACTORS = ("camera", "eye", "quality", "sex", "age")
AGES = ("0-39", "40-59", "60+")  # bands of years
MAX_LEVELS = 20  # of a factor; more are numbers, or names of people, and form no groups
STAGES = {  # of the flow, by the side of the split
    "rejected": "not usable",
    "excluded": "excluded",
    "train": "learned from",
    "validation": "validation",
    "test": "evaluated",
}


def count_flow(predictions: Predictions) -> pd.DataFrame:
    """Count the photographs and patients that were offered, by what became of them.

    Returns:
        A row per stage of STAGES, or `ungradable`, and per reason: `stage`, `reason`,
        `num_patients`, `num_images`.
    """
    table = predictions.table
    is_lost = (table["split"] == "test") & ~table["image_id"].isin(predictions.photographs)
    stages = table["split"].map(STAGES).mask(is_lost, "ungradable")
    counted = pd.DataFrame(
        {
            "stage": pd.Categorical(stages, [*STAGES.values(), "ungradable"]),
            "reason": table.get("reason", ""),
            "patient_id": table["patient_id"].replace("", np.nan),
        }
    )
    of_stage = counted.groupby(["stage", "reason"], observed=True)["patient_id"]
    return of_stage.agg(num_patients="nunique", num_images="size").reset_index()


def publish(table: pd.DataFrame) -> pd.DataFrame:
    """Suppress the counts below five of a table, and round the others to five."""
    counts = ["num_patients", "num_diseased", "num_images"]
    rounded = {name: table[name].map(round_count) for name in counts if name in table}
    return table.assign(**rounded)


def score_groups(
    predictions: Predictions, points: pd.DataFrame, further: Sequence[str] = ()
) -> pd.DataFrame:
    """Score groups of patients by FACTORS and further columns of the file, by the worse eye.

    Returns:
        A row per `factor` and `level`: `num_patients`, `num_diseased` of them, `auc` and, where
        there are operating points, `sensitivity` and `specificity` at the one of high sensitivity,
        and whether each is shown to be lower than that of all other patients,
        `sensitivity_is_lower` and `specificity_is_lower`.

    Raises:
        DrError: a further column is not there, or has more levels than MAX_LEVELS.
    """
    test = predictions.tested
    named = [fold_name(name) for name in further]
    rows = []
    for factor in dict.fromkeys([*named, *FACTORS]):
        levels = _find_levels(test, factor)
        known = sorted(set(levels) - {""})
        if not 0 < len(known) <= MAX_LEVELS:
            if factor in named:
                raise DrError(
                    f"subgroups: {factor} is not a column with 1 to {MAX_LEVELS} groups in the "
                    "predictions"
                )
            continue
        for level in known:
            of_level = levels == level
            row = {"factor": factor, "level": level}
            row |= _score(predictions, test[of_level], test[~of_level & (levels != "")], points)
            rows.append(row)
    return tabulate(rows)


def _score(
    predictions: Predictions, group: pd.DataFrame, others: pd.DataFrame, points: pd.DataFrame
) -> dict:
    """Score a group, and compare it with other patients: who is in both counts in the group."""
    people = find_worse_eyes(group)
    y, p, patient = unpack(people[people["probability_referable"].notna()])
    auc = auc_interval(y, p, patient) if y.any() and not y.all() else NOTHING
    scores = {
        "num_patients": len(people),
        "num_diseased": (people["referable"] == 1).sum(),
        "auc": auc if np.isfinite(auc.low) else NOTHING,  # few patients may be known by it
    }
    if points.empty:
        return scores
    others = others[~others["patient_id"].isin(group["patient_id"])]
    here, there = (
        measure_points(predictions._replace(test=table, unscored=None), points).iloc[0]
        for table in (group, others)
    )
    for name in ("sensitivity", "specificity"):
        scores[name] = take_interval(here, name)
        difference = difference_interval(scores[name], take_interval(there, name))
        scores[f"{name}_is_lower"] = bool(difference.high < 0)
    return scores


def _find_levels(test: pd.DataFrame, factor: str) -> pd.Series:
    """Find the level of each photograph, of ages a band; empty where it is not known."""
    column = factor if factor in EVALUATED else OWN + factor
    levels = test.get(column, pd.Series("", test.index)).astype(str)
    if factor != "age":
        return levels
    years = pd.to_numeric(levels, errors="coerce")
    bands = pd.cut(years, [-np.inf, 40, 60, np.inf], right=False, labels=AGES)
    return bands.astype(object).fillna("")
