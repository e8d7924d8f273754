"""Operating points: chosen on the validation split or elsewhere, frozen, and scored on the test
split; the worst errors there, and, in private, the patients who are missed.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from dr_lib.errors import DrError
from dr_lib.evaluation.scores import find_worse_eyes, unpack
from dr_lib.evaluation.table import Predictions
from dr_lib.numbers import write_decimals
from dr_lib.report.style import choose_words
from dr_lib.statistics.clustered import choose_threshold, proportion_interval
from dr_lib.statistics.intervals import LEVEL, tabulate

POINTS = ("high sensitivity", "high specificity")
GIVEN = "the threshold given by you, {}"  # a point that nobody has shown to be one of these
SOURCES = ("validation", "given elsewhere", "carried over unchanged")  # of the operating points
THRESHOLDS = (
    "thresholds: give two between 0 and 1, such as 0.21,0.75: first for high sensitivity, then, "
    "not below it, for high specificity"
)
UNITS = ("patients", "photographs")  # that are counted
ERRORS = ("missed", "false alarm")


def read_thresholds(text: str) -> list[float]:
    """Read none or two thresholds in order, with a comma between them; else raise a DrError."""
    try:
        numbers = [float(number) for number in text.split(",") if number]
    except ValueError as error:
        raise DrError(THRESHOLDS) from error
    if numbers and not (len(numbers) == 2 and 0 <= numbers[0] <= numbers[1] <= 1):
        raise DrError(THRESHOLDS)
    return numbers


def choose_points(
    predictions: Predictions, sensitivity: float = 0.9, specificity: float = 0.9
) -> pd.DataFrame:
    """Choose the operating points on the validation split, never on the test split.

    Where every threshold between the two reaches both, as of a very good model, the lower one is
    the point of high sensitivity all the same.

    Args:
        predictions: of the model.
        sensitivity: that the point of high sensitivity reaches.
        specificity: that the other one reaches.

    Returns:
        A row per point, and `fold` of pooled folds: `point` of POINTS, `threshold`, `source` of
        SOURCES, `chosen_on` (the data set) and the `validation_diseased` that it rests on, patients
        with a referable eye. Without those that no threshold reaches, of one fold; empty without
        validation photographs.

    Raises:
        DrError: the validation split has one class only.
    """
    validation = predictions.validation
    if validation.empty:
        return pd.DataFrame(columns=["point", "threshold", "source"])
    tables = []
    for fold, side in validation.groupby(validation.get("fold", validation["split"])):
        y, p, patient = unpack(side)
        if y.all() or not y.any():
            raise DrError(
                "the validation split has only one class: no operating point can be chosen on it; "
                "leave out its rows, or give two thresholds"
            )
        sensitive = choose_threshold(y, p, sensitivity=sensitivity)
        specific = choose_threshold(y, p, specificity=specificity)
        chosen = {
            "point": POINTS,
            "fold": fold,
            "threshold": sorted([sensitive, specific]),
            "source": SOURCES[0],
            "chosen_on": predictions.dataset,
            "validation_diseased": len(set(patient[y])),
        }
        tables.append(pd.DataFrame(chosen))
    points = pd.concat(tables)
    if "fold" not in validation:
        points = points.drop(columns="fold")
    is_reached = np.isfinite(points["threshold"]).groupby(points["point"]).transform("all")
    return points[is_reached].sort_values("point", kind="stable", ignore_index=True)


def freeze_points(
    models: Sequence[Predictions],
    sensitivity: float = 0.9,
    specificity: float = 0.9,
    thresholds: str = "",
    lang: str = "en",
) -> list[pd.DataFrame]:
    """Freeze each model's operating points as `choose_points` does; without validation rows, take
    those of the same model version, whose `source` says that they were carried over.

    Thresholds of elsewhere, as `read_thresholds` reads them, are those of all models, and are named
    by GIVEN in the language en or pt.
    """
    if numbers := read_thresholds(thresholds):
        words = choose_words(lang)(GIVEN)
        names = [words.format(write_decimals(str(number), lang)) for number in numbers]
        given = {"point": names, "threshold": numbers, "source": SOURCES[1]}
        return [pd.DataFrame(given)] * len(models)
    homes = {model.version: model for model in models if len(model.validation)}
    points = []
    for model in models:
        home = homes.get(model.version or None, model)  # without a version it is nobody's
        own = choose_points(home, sensitivity, specificity)
        points.append(own if home is model else own.assign(source=SOURCES[2]))
    return points


def find_called(table: pd.DataFrame, points: pd.DataFrame, name: str = "") -> np.ndarray:
    """Find which photographs are referred at a point, (n,) bool, by default the first; with pooled
    folds, at the threshold of their fold.
    """
    at = points[points["point"] == (name or points["point"].iloc[0])]
    threshold = at["threshold"].iloc[0]
    if "fold" in at:
        threshold = table["fold"].map(at.set_index("fold")["threshold"])
    return (table["probability_referable"] >= threshold).to_numpy()


def measure_points(predictions: Predictions, points: pd.DataFrame) -> pd.DataFrame:
    """Score each operating point on the test split.

    Of patients counts the worse eye at any visit, or the only one: who has an eye that is called is
    referred, who has an eye that is referable has the disease.

    Args:
        predictions: whose test split it is.
        points: of `choose_points`.

    Returns:
        A row per unit of UNITS and point: `unit`, `point`, and what `count_at` finds.
    """
    everyone = {
        UNITS[0]: find_worse_eyes(predictions.tested),
        UNITS[1]: predictions.test.assign(is_unscored=False),
    }
    rows = []
    for unit, table in everyone.items():
        for name in points["point"].unique():
            rows.append({"unit": unit, "point": name, **count_at(table, points, name)})
    return tabulate(rows)


def count_at(
    table: pd.DataFrame, points: pd.DataFrame, name: str = "", level: float = LEVEL
) -> dict[str, Any]:
    """Score an operating point.

    Who has a photograph without a probability, and is not called by another, is missed or, without
    the disease, left out.

    Args:
        table: of `find_worse_eyes`, or of photographs.
        points: of `choose_points`.
        name: of the point, by default the first.
        level: of the intervals.

    Returns:
        Counts `tp`, `fn`, `fp`, `tn`, and `sensitivity`, `specificity`, NaN of few patients; how
        many were `left_out`, and how many of `fn` have a photograph without a probability,
        `fn_unscored`.
    """
    y, _, patient = unpack(table)
    called = find_called(table, points, name)
    is_unsure = table["is_unscored"].to_numpy() & ~called
    is_well = ~y & ~is_unsure
    return {
        "tp": (called & y).sum(),
        "fn": (~called & y).sum(),
        "fp": (called & ~y).sum(),
        "tn": (~called & is_well).sum(),
        "sensitivity": proportion_interval(called[y], patient[y], level),
        "specificity": proportion_interval(~called[is_well], patient[is_well], level),
        "left_out": (is_unsure & ~y).sum(),
        "fn_unscored": (is_unsure & y).sum(),
    }


def list_errors(predictions: Predictions, points: pd.DataFrame, number: int) -> pd.DataFrame:
    """List the worst errors at the first point, highest missed grades first.

    Returns:
        At most `number` of each: `error` of ERRORS, `fold` and `line` in the file (of an ensemble,
        the first one), `image_id`, `grade`, and `probability_referable`.
    """
    test = predictions.test.sort_values("probability_referable")
    is_referable = test["referable"] == 1
    is_called = find_called(test, points)
    missed = test[is_referable & ~is_called]
    missed = missed.sort_values("grade", ascending=False, kind="stable")
    alarms = test[~is_referable & is_called][::-1]
    errors = pd.concat([missed.head(number), alarms.head(number)], keys=ERRORS)
    errors = errors.reset_index(names=["error", "line"])
    return errors.filter(
        ["error", "fold", "line", "image_id", "grade", "probability_referable"]
    )


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
        record number), `file`, `eye`, `visit`, `grade`, `probability_referable`, NaN of what was
        not scored.
    """
    people = find_worse_eyes(predictions.tested)
    is_missed = (people["referable"] == 1) & ~find_called(people, points)
    missed = people[is_missed].sort_values("grade", ascending=False)
    photographs = missed[["patient_id"]].merge(predictions.tested, on="patient_id")
    named = photographs.merge(names, on="image_id", how="left")
    named = named[["patient", "file", "eye", "visit", "grade", "probability_referable"]]
    return named.loc[:, (named != "").any()]
