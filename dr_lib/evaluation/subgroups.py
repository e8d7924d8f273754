"""Score subgroups, and hide those whose counts could name a patient."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dr_lib.data.labels.schema import EVALUATED, OWN, fold_name
from dr_lib.errors import DrError
from dr_lib.evaluation.points import find_called
from dr_lib.evaluation.predictions import SUBGROUPS, Predictions
from dr_lib.evaluation.scores import (
    FEW,
    find_worse_eyes,
    score_calls,
    tabulate_scores,
    unpack,
)
from dr_lib.statistics.clustered import MIN_PATIENTS, auc_interval

AGES = (40, 60)  # years, where bands begin
MAX_LEVELS = 20  # of a subgroup: names of people have more


def find_crowded(predictions: Predictions) -> pd.Series:
    """Count the values of those of SUBGROUPS that are none: they have more than MAX_LEVELS."""
    names = [name for name in SUBGROUPS if name != "age"]
    counts = predictions.test.filter(names).replace("", np.nan).nunique()
    return counts[counts > MAX_LEVELS]


def split_subgroups(
    predictions: Predictions,
    points: pd.DataFrame,
    further: Sequence[str] = (),
    *,
    by_patient: bool = False,
) -> pd.DataFrame:
    """Score subgroups by camera, eye, quality, sex, age and further columns of the file; by patient
    as `measure_points` does.

    Returns:
        A row per `factor` and `level`: `num_patients`, `num_diseased` of them with a referable eye,
        `num_images`, `auc` and, where there are operating points, `sensitivity` and `specificity`
        at the one of high sensitivity. Without scores where fewer than MIN_PATIENTS patients have
        the disease or have an eye without it. None of those in `find_crowded`.

    Raises:
        DrError: a further column is not there, or has more levels than MAX_LEVELS.
    """
    test = predictions.test
    crowded = find_crowded(predictions)
    named = [fold_name(name) for name in further]
    for name in named:
        column = _find_column(name)
        if column not in test or test[column].nunique() > MAX_LEVELS:
            raise DrError(
                f"subgroups: {name} is not a column with 2 to {MAX_LEVELS} groups in the "
                "predictions"
            )
    usual = [name for name in SUBGROUPS if name in test and name not in crowded]
    rows = []
    for factor in dict.fromkeys(named + usual):
        levels = _find_levels(test, factor)
        is_known = levels != ""
        for level, part in test[is_known].groupby(levels[is_known], observed=True):
            part = find_worse_eyes(part) if by_patient else part
            y, p, patient = unpack(part)
            auc = sensitivity = specificity = None
            num_diseased = len(np.unique(patient[y]))
            if min(num_diseased, len(np.unique(patient[~y]))) >= MIN_PATIENTS:
                auc = auc_interval(y, p, patient)
                if len(points):
                    called = find_called(part, points)
                    sensitivity, specificity = score_calls(called, y, patient)
            row = {
                "factor": factor,
                "level": level,
                "num_patients": len(np.unique(patient)),
                "num_diseased": num_diseased,
                "num_images": len(part),
                "auc": auc,
                "sensitivity": sensitivity,
                "specificity": specificity,
            }
            rows.append(row)
    return tabulate_scores(rows)


def hide_subgroups(subgroups: pd.DataFrame, predictions: Predictions) -> pd.DataFrame:
    """Mask the table of `split_subgroups`: factors whose counts could lead to fewer than FEW
    patients have – for each count, and no scores.

    Shown is a factor each level of which has at least FEW patients without the disease, and with it
    at least as many or none, alone and crossed with each factor shown before. No level counts as a
    level, and who has several is counted apart, so that no difference of shown counts is few.
    """
    if subgroups.empty:
        return subgroups
    test = predictions.test
    shown = []
    masked = subgroups.astype(object)
    for factor, rows in subgroups.groupby("factor", sort=False):
        levels = _find_levels(test, factor).astype(str).rename("level")
        ill = test.groupby(["patient_id", levels])["referable"].max().reset_index("level")
        group = (ill["level"] + ill["referable"].astype(str)).groupby(level=0).sum()
        fewest = min(
            cells.value_counts().min() for cells in (group, *(group + each for each in shown))
        )
        if fewest >= FEW and (rows["num_diseased"] < rows["num_patients"]).all():
            shown.append(group)
        else:
            masked.loc[rows.index, list(rows.columns[2:])] = np.nan
    counts = ["num_patients", "num_diseased", "num_images"]
    return masked.fillna(dict.fromkeys(counts, "–")).infer_objects()


def _find_column(factor: str) -> str:
    return factor if factor in EVALUATED else OWN + factor


def _find_levels(test: pd.DataFrame, factor: str) -> pd.Series:
    """Find the level of each photograph, empty where it is not known."""
    levels = test[_find_column(factor)]
    return band_ages(levels) if factor == "age" else levels.astype(str)


def band_ages(levels: pd.Series) -> pd.Series:
    """Find the band of AGES for each age [years], in the order of the bands; empty for no
    number.
    """
    years = pd.to_numeric(levels, errors="coerce")
    names = [f"< {AGES[0]}", f"{AGES[0]}-{AGES[1] - 1}", f">= {AGES[1]}"]
    bands = pd.cut(years, [-np.inf, *AGES, np.inf], right=False, labels=names)
    return bands.cat.add_categories("").fillna("")
