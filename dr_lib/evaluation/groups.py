"""Count the photographs from offered to evaluated, and score groups of patients, without a number
that may name one.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dr_lib.data.labels.schema import EVALUATED, OWN, fold_name
from dr_lib.errors import DrError
from dr_lib.evaluation.points import measure_points
from dr_lib.evaluation.scores import FEW, find_worse_eyes, round_count, take_interval, unpack
from dr_lib.evaluation.table import Predictions
from dr_lib.statistics.clustered import auc_interval, difference_interval
from dr_lib.statistics.intervals import LEVEL, NOTHING, Interval, tabulate

FACTORS = ("camera", "eye", "quality", "sex", "age")
SHARES = ("sensitivity", "specificity")  # that are compared
AGES = ("0-39", "40-59", "60+")  # bands of years
HIDDEN = "not shown"  # a count that would tell another one
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
    """Suppress the counts below five of a table, and round the others to five, and shares to two
    decimals. Where a factor has one suppressed count, its next smallest one is not shown either,
    nor the shares of that level: what all levels have together does not tell the first.
    """
    counts = table.filter(["num_patients", "num_diseased", "num_images"])
    shares = table.select_dtypes("float")
    rounded = shares.round(2)
    published = table.assign(**rounded.mask((shares < 1) & (rounded == 1), 0.99))
    for name in counts:
        published[name] = table[name].map(round_count)
        for _, same in table.groupby("factor")[name] if "factor" in table else ():
            others = same[same >= FEW]
            if same.between(1, FEW - 1).sum() == 1 and len(others):
                published.loc[others.idxmin(), name] = HIDDEN
                published.loc[others.idxmin(), shares.columns] = np.nan
    return published


def score_groups(
    predictions: Predictions, points: pd.DataFrame, further: Sequence[str] = ()
) -> pd.DataFrame:
    """Score groups of patients by FACTORS and further columns of the file, by the worse eye.

    Returns:
        A row per `factor` and `level`: `num_patients`, `num_diseased` of them, `auc` and, where
        there are operating points, `sensitivity` and `specificity` at the one of high sensitivity,
        and whether each is shown to be lower than that of all other patients,
        `sensitivity_is_lower` and `specificity_is_lower`, None where too few can be compared. Of
        all comparisons together 5 % may err (Bonferroni; each has one side).

    Raises:
        DrError: a further column is not there, or has more levels than MAX_LEVELS.
    """
    test = predictions.tested
    named = [fold_name(name) for name in further]
    rows = []
    pairs = []  # of a group and the other patients
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
            group = test[of_level]
            is_other = (
                ~of_level & (levels != "") & ~test["patient_id"].isin(group["patient_id"])
            )
            pairs.append((group, test[is_other]))
            rows.append(
                {"factor": factor, "level": level, **_score(predictions, group, points)}
            )
    if len(points):
        for row, lower in zip(rows, _compare(predictions, pairs, points), strict=True):
            row |= lower
    return tabulate(rows)


def _score(predictions: Predictions, group: pd.DataFrame, points: pd.DataFrame) -> dict:
    """Count a group, and score it by the worse eye."""
    people = find_worse_eyes(group)
    y, p, patient = unpack(people[people["probability_referable"].notna()])
    auc = auc_interval(y, p, patient) if y.any() and not y.all() else NOTHING
    scores = {
        "num_patients": len(people),
        "num_diseased": (people["referable"] == 1).sum(),
        "auc": auc if np.isfinite(auc.low) else NOTHING,  # few patients may be known by it
    }
    return scores if points.empty else {**scores, **_share(predictions, group, points)}


def _share(
    predictions: Predictions, group: pd.DataFrame, points: pd.DataFrame, level: float = LEVEL
) -> dict[str, Interval]:
    """Estimate a group's SHARES at the first point, of patients."""
    of_group = predictions._replace(test=group, unscored=None)
    row = measure_points(of_group, points, level).iloc[0]
    return {name: take_interval(row, name) for name in SHARES}


def _compare(
    predictions: Predictions,
    pairs: Sequence[tuple[pd.DataFrame, pd.DataFrame]],
    points: pd.DataFrame,
) -> list[dict[str, bool | None]]:
    """Find which SHARES of groups are lower than those of others, for each pair of both."""

    def subtract(level: float) -> list[dict[str, Interval]]:
        differences = []
        for pair in pairs:
            here, there = (_share(predictions, table, points, level) for table in pair)
            differences.append({n: difference_interval(here[n], there[n]) for n in SHARES})
        return differences

    number = sum(np.isfinite(found.high) for row in subtract(LEVEL) for found in row.values())
    wide = max(LEVEL, 1 - 2 * (1 - LEVEL) / max(number, 1))
    return [
        {
            f"{name}_is_lower": bool(found.high < 0) if np.isfinite(found.high) else None
            for name, found in row.items()
        }
        for row in subtract(wide)
    ]


def _find_levels(test: pd.DataFrame, factor: str) -> pd.Series:
    """Find the level of each photograph, of ages a band; empty where it is not known."""
    column = factor if factor in EVALUATED else OWN + factor
    levels = test.get(column, pd.Series("", test.index)).astype(str)
    if factor != "age":
        return levels
    years = pd.to_numeric(levels, errors="coerce")
    bands = pd.cut(years, [-np.inf, 40, 60, np.inf], right=False, labels=AGES)
    return bands.astype(object).fillna("")
