"""Operating points: chosen on the validation split or elsewhere, frozen, and scored on the test
split.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.errors import DrError
from dr_lib.evaluation.scores import find_worse_eyes, unpack
from dr_lib.evaluation.table import Predictions
from dr_lib.statistics.clustered import choose_threshold, proportion_interval
from dr_lib.statistics.intervals import LEVEL, tabulate

POINTS = ("high sensitivity", "high specificity")
SOURCES = ("validation", "given elsewhere", "carried over unchanged")  # of the operating points
THRESHOLDS = (
    "thresholds: give two between 0 and 1, such as 0.21,0.75: first for high sensitivity, then, "
    "not below it, for high specificity"
)
UNITS = ("patients", "photographs")  # that are counted


class Goals(NamedTuple):
    """What the thresholds of the two points are chosen for on the validation split."""

    sensitivity: float = 0.9
    specificity: float = 0.9
    # of a development set elsewhere, the lower one first; then nothing is chosen
    thresholds: Sequence[float] = ()


def read_thresholds(text: str) -> list[float]:
    """Read none or two thresholds in order, with a comma between them; else raise a DrError."""
    try:
        numbers = [float(number) for number in text.split(",") if number]
    except ValueError as error:
        raise DrError(THRESHOLDS) from error
    if numbers and not (len(numbers) == 2 and 0 <= numbers[0] <= numbers[1] <= 1):
        raise DrError(THRESHOLDS)
    return numbers


def choose_points(predictions: Predictions, goals: Goals) -> pd.DataFrame:
    """Freeze the operating points, on the validation split or elsewhere, never on the test split.

    Returns:
        A row per point, and `fold` of pooled folds: `point` of POINTS, `threshold`, `source` of
        SOURCES and, where it was chosen here, `chosen_on` (the data set) and the
        `validation_diseased` that it rests on, patients with a referable eye. Without those that no
        threshold reaches, of one fold; empty without validation photographs and without thresholds.

    Raises:
        DrError: the validation split has one class only.
    """
    if goals.thresholds:
        given = {"point": POINTS, "threshold": goals.thresholds, "source": SOURCES[1]}
        return pd.DataFrame(given)
    validation = predictions.validation
    if validation.empty:
        return pd.DataFrame(columns=["point", "threshold", "source"])
    folds = validation.groupby(validation.get("fold", 0 * validation["referable"]))
    points = pd.concat(_choose(fold, goals) for _, fold in folds)
    points = points.assign(source=SOURCES[0], chosen_on=predictions.dataset)
    is_reached = np.isfinite(points["threshold"]).groupby(points["point"]).transform("all")
    return points[is_reached].sort_values("point", kind="stable", ignore_index=True)


def _choose(validation: pd.DataFrame, goals: Goals) -> pd.DataFrame:
    """Choose the operating points of one model on its validation photographs.

    Where every threshold between the two reaches both, as of a very good model, the lower one is
    the point of high sensitivity all the same.
    """
    y, p, patient = unpack(validation)
    if y.all() or not y.any():
        raise DrError(
            "the validation split has only one class: no operating point can be chosen on it; "
            "leave out its rows, or give two thresholds"
        )
    sensitive = choose_threshold(y, p, sensitivity=goals.sensitivity)
    specific = choose_threshold(y, p, specificity=goals.specificity)
    chosen = sorted([sensitive, specific])
    points = pd.DataFrame(
        {
            "point": POINTS,
            "threshold": chosen,
            "validation_diseased": len(np.unique(patient[y])),
        }
    )
    if "fold" in validation:
        points.insert(1, "fold", validation["fold"].iloc[0])
    return points


def freeze_points(models: Sequence[Predictions], goals: Goals) -> list[pd.DataFrame]:
    """Choose each model's points as `choose_points` does; without validation rows, take those of
    the same model version, whose `source` says that they were carried over.
    """
    points = [choose_points(model, goals) for model in models]
    carried = {
        model.version: own.assign(source=SOURCES[2])
        for model, own in zip(models, points, strict=True)
        if model.version and len(model.validation)
    }
    return [
        own if len(own) else carried.get(model.version, own)
        for model, own in zip(models, points, strict=True)
    ]


def find_called(table: pd.DataFrame, points: pd.DataFrame, name: str = "") -> np.ndarray:
    """Find which photographs are referred at a point, (n,) bool, by default the first; with pooled
    folds, at the threshold of their fold.
    """
    at = points[points["point"] == (name or points["point"].iloc[0])]
    threshold = at["threshold"].iloc[0]
    if "fold" in at:
        threshold = table["fold"].map(at.set_index("fold")["threshold"])
    return (table["probability_referable"] >= threshold).to_numpy()


def measure_points(
    predictions: Predictions, points: pd.DataFrame, level: float = LEVEL
) -> pd.DataFrame:
    """Score each operating point on the test split.

    Of patients counts the worse eye at any visit, or the only one: who has an eye that is called is
    referred, who has an eye that is referable has the disease. Who has a photograph without a
    probability, and is not called by another, is missed or, without the disease, left out.

    Args:
        predictions: whose test split it is.
        points: of `choose_points`.
        level: of the intervals.

    Returns:
        A row per unit of UNITS and point: `unit`, `point`, `given` (the threshold, where it was
        given elsewhere), counts `tp`, `fn`, `fp`, `tn`, and
        `sensitivity`, `specificity`, NaN of few patients; of patients how many were `left_out`,
        and how many of `fn` have a photograph without a probability, `fn_unscored`.
    """
    people = find_worse_eyes(predictions.tested)
    test = predictions.test.assign(is_unscored=False)
    given = points[points["source"] == SOURCES[1]].set_index("point")["threshold"]
    rows = []
    for unit, everyone in zip(UNITS, (people, test), strict=True):
        for name in points["point"].unique():
            called = find_called(everyone, points, name)
            is_unsure = everyone["is_unscored"] & ~called
            is_out = is_unsure & (everyone["referable"] == 0)
            table = everyone[~is_out]
            y, _, patient = unpack(table)
            called = called[~is_out]
            row = {
                "unit": unit,
                "point": name,
                "given": given.get(name, np.nan),
                "tp": (called & y).sum(),
                "fn": (~called & y).sum(),
                "fp": (called & ~y).sum(),
                "tn": (~called & ~y).sum(),
                "sensitivity": proportion_interval(called[y], patient[y], level),
                "specificity": proportion_interval(~called[~y], patient[~y], level),
                "left_out": is_out.sum(),
                "fn_unscored": (is_unsure & ~is_out).sum(),
            }
            rows.append(row)
    return tabulate(rows)
