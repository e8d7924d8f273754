"""Count the photographs from offered to evaluated, and score groups of patients, without a number
that may name one.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from dr_lib.data.labels.schema import EVALUATED, OWN, fold_name
from dr_lib.errors import DrError
from dr_lib.evaluation.points import count_at
from dr_lib.evaluation.scores import find_worse_eyes, unpack
from dr_lib.evaluation.table import Predictions
from dr_lib.statistics.clustered import auc_interval, difference_interval
from dr_lib.statistics.intervals import LEVEL, NOTHING, tabulate

FEW = 5  # patients; a smaller count may name one
FACTORS = ("camera", "eye", "quality", "sex", "age")
SHARES = ("sensitivity", "specificity")  # that are compared
HIDDEN = "not shown"  # a count below FEW, or one that would tell it
MAX_LEVELS = 20  # of a factor; more are numbers, or names of people, and form no groups
STAGES = {  # of the flow, by the side of the split
    "rejected": "not usable",
    "excluded": "excluded",
    "train": "learned from",
    "validation": "validation",
    "test": "evaluated",
    "ungradable": "ungradable",  # of test, or without a probability
}


def count_flow(predictions: Predictions) -> pd.DataFrame:
    """Count the photographs and patients that were offered, by what became of them.

    Returns:
        A row per stage of STAGES and per reason: `stage`, `reason`, `num_patients`, `num_images`.
    """
    # each is tested in one of pooled folds, whose test rows come last
    table = predictions.table.drop_duplicates("image_id", keep="last")
    is_lost = (table["split"] == "test") & table["probability_referable"].isna()
    stage = table["split"].mask(is_lost, "ungradable").map(STAGES)
    counted = table.assign(
        stage=pd.Categorical(stage, [*STAGES.values()]),
        patient_id=table["patient_id"].replace("", np.nan),
    )
    of_stage = counted.groupby(["stage", "reason"], observed=True)["patient_id"]
    return of_stage.agg(num_patients="nunique", num_images="size").reset_index()


def round_count(count: int) -> str:
    """Write a count of patients or photographs as statistical offices publish it: < 5, or rounded
    to five, so that no difference of two names anybody.
    """
    if 0 < count < FEW:
        return f"< {FEW}"
    return str(FEW * round(count / FEW))


def publish(table: pd.DataFrame) -> pd.DataFrame:
    """Round the counts of a table to five, and shares to two decimals.

    Groups are safe beside the exact counts of the whole test split. Of a count below five nothing
    is shown, nor of the next smallest of its factor where the hidden ones together are fewer than
    five, so that none is what the others leave. Shares are hidden with the counts they are of.
    """
    shares = table.select_dtypes("float")
    rounded = shares.round(2)
    published = table.assign(**rounded.mask((shares < 1) & (rounded == 1), 0.99))
    for name, counts in table.filter(["num_patients", "num_diseased", "num_images"]).items():
        published[name] = counts.map(round_count)
    if "factor" not in table:
        return published
    ill = table["num_diseased"]
    is_small = _find_small(table, table["num_patients"], pd.Series(False, table.index))
    is_few_ill = _find_small(table, ill, is_small)
    is_few_well = _find_small(table, table["num_patients"] - ill, is_small)
    published.loc[is_small, "num_patients"] = HIDDEN
    published.loc[is_few_ill, "num_diseased"] = HIDDEN
    for name, is_hidden in (
        ("auc", is_few_ill | is_few_well),
        ("sensitivity", is_few_ill),
        ("specificity", is_few_well),
    ):
        published.loc[is_hidden, shares.filter(like=name).columns] = np.nan
    return published


def _find_small(groups: pd.DataFrame, counts: pd.Series, is_hidden: pd.Series) -> pd.Series:
    """Find the groups whose count is hidden: below five, and what would tell it."""
    found = is_hidden | counts.between(1, FEW - 1)
    for _, same in counts.groupby(groups["factor"]):
        hidden = found[same.index]
        others = same[~hidden & (same >= FEW)]
        if hidden.any() and same[hidden].sum() < FEW:
            found[others.idxmin() if len(others) else same.index] = True
    return found


def score_groups(
    predictions: Predictions, points: pd.DataFrame, further: Sequence[str] = ()
) -> pd.DataFrame:
    """Score groups of patients by FACTORS and further columns of the file, by the worse eye.

    Returns:
        A row per `factor` and `level`: `num_patients`, `num_diseased` of them, `auc` and, where
        there are operating points, `sensitivity` and `specificity` at the first, and whether each
        is shown to be lower than that of all other patients, `sensitivity_is_lower` and
        `specificity_is_lower`, None where too few can be compared. Of all comparisons together 5 %
        may err (Bonferroni; each has one side).

    Raises:
        DrError: a further column is not there, or has more levels than MAX_LEVELS.
    """
    test = predictions.tested
    named = [fold_name(name) for name in further]
    rows = []
    pairs = []  # of a group and the other patients
    for factor in dict.fromkeys([*named, *FACTORS]):
        column = factor if factor in EVALUATED else OWN + factor
        # of pooled folds one may lack the column
        levels = test.get(column, pd.Series("", test.index)).fillna("").astype(str)
        known = sorted(set(levels) - {""})
        if factor in named and not 0 < len(known) <= MAX_LEVELS:
            raise DrError(
                f"subgroups: {factor} is not a column with 1 to {MAX_LEVELS} groups in the "
                "predictions"
            )
        for level in known if len(known) <= MAX_LEVELS else ():
            group = test[levels == level]
            others = test[(levels != "") & ~test["patient_id"].isin(group["patient_id"])]
            pairs.append((find_worse_eyes(group), find_worse_eyes(others)))
            rows.append({"factor": factor, "level": level, **_score(pairs[-1][0], points)})
    if len(points):
        _compare(rows, pairs, points)
    return tabulate(rows)


def _score(people: pd.DataFrame, points: pd.DataFrame) -> dict[str, Any]:
    """Count a group, and score it."""
    auc = auc_interval(*unpack(people.dropna(subset="probability_referable")))
    scores = {
        "num_patients": len(people),
        "num_diseased": (people["referable"] == 1).sum(),
        "auc": auc if np.isfinite(auc.low) else NOTHING,  # few patients may be known by it
    }
    if len(points):
        found = count_at(people, points)
        scores.update({name: found[name] for name in SHARES})
    return scores


def _compare(
    rows: Sequence[dict],
    pairs: Sequence[tuple[pd.DataFrame, pd.DataFrame]],
    points: pd.DataFrame,
) -> None:
    """Add to each row which of its SHARES are lower than those of the other patients."""
    number = sum(np.isfinite(row[name].value) for row in rows for name in SHARES)
    wide = 1 - 2 * (1 - LEVEL) / max(number, 2)
    for row, pair in zip(rows, pairs, strict=True):
        here, there = (count_at(people, points, level=wide) for people in pair)
        for name in SHARES:
            high = difference_interval(here[name], there[name]).high
            row[f"{name}_is_lower"] = bool(high < 0) if np.isfinite(high) else None
