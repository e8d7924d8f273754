"""Operating points: chosen on the validation split or elsewhere, frozen, and scored on the test
split.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.errors import DrError
from dr_lib.evaluation.predictions import Predictions
from dr_lib.evaluation.scores import (
    COUNTED,
    check_share,
    find_worse_eyes,
    name_fold,
    score_calls,
    score_share,
    tabulate_scores,
    take_interval,
    unpack,
)
from dr_lib.statistics.calibration import to_logit
from dr_lib.statistics.clustered import at_prevalence, choose_threshold, likelihood_ratios

POINTS = ("high sensitivity", "high specificity")
SOURCES = ("validation", "given elsewhere", "carried over unchanged")  # of the operating points
HANDLING = ("excluded", "counted as referred")  # of ungradable eyes
ABSTAINED = np.linspace(0, 0.5, 11)
ERRORS = ("missed", "false alarm")
# why the reference says referable
REASONS = ("grade 2 or worse", "labelled referable below grade 2", "labelled referable")


def choose_points(
    predictions: Predictions,
    *,
    sensitivity: float,
    specificity: float,
    thresholds: Sequence[float] = (),
) -> pd.DataFrame:
    """Freeze the operating points, on the validation split or elsewhere, never on the test split.

    Args:
        predictions: whose points they are.
        sensitivity: of the point of high sensitivity, on the validation split.
        specificity: of the point of high specificity.
        thresholds: of the two points, the lower one first, from a development set elsewhere; then
            nothing is chosen.

    Returns:
        A row per point, and `fold` of pooled folds: `point` of POINTS, `threshold`, `source` of
        SOURCES and, where it was chosen here, `chosen_on` (the data set), the `validation_patients`
        that it rests on, `validation_diseased` of them with a referable eye, and what it reaches
        there, `validation_sensitivity` and `validation_specificity`. Without those that no
        threshold reaches, of one fold; empty without validation photographs and without thresholds.
        Where every threshold between the two reaches both, as of a very good model, the lower one
        is the point of high sensitivity all the same.

    Raises:
        DrError: not two thresholds in order, no shares between 0 and 1, or the validation split has
            one class only.
    """
    check_share("sensitivity", sensitivity)
    check_share("specificity", specificity)
    if len(thresholds):
        if len(thresholds) != 2 or not 0 <= thresholds[0] <= thresholds[1] <= 1:
            raise DrError(
                "thresholds: give two between 0 and 1, such as 0.21,0.75: first for high "
                "sensitivity, then, not below it, for high specificity"
            )
        return pd.DataFrame({"point": POINTS, "threshold": thresholds, "source": SOURCES[1]})
    if predictions.validation.empty:
        return pd.DataFrame(columns=["point", "threshold", "source"])
    folds = predictions.validation.groupby(name_fold(predictions.validation))
    points = pd.concat(_choose(fold, sensitivity, specificity) for _, fold in folds)
    points = points.assign(source=SOURCES[0], chosen_on=predictions.dataset)
    is_reached = np.isfinite(points["threshold"]).groupby(points["point"]).transform("all")
    return points[is_reached].sort_values("point", kind="stable", ignore_index=True)


def _choose(validation: pd.DataFrame, sensitivity: float, specificity: float) -> pd.DataFrame:
    """Choose the operating points of one model on its validation photographs."""
    y, p, patient = unpack(validation)
    if y.all() or not y.any():
        raise DrError(
            "the validation split has only one class: no operating point can be chosen on it; "
            "leave out its rows, or give two thresholds"
        )
    chosen = sorted(
        [
            choose_threshold(y, p, sensitivity=sensitivity),
            choose_threshold(y, p, specificity=specificity),
        ]
    )
    num_diseased, num_healthy = (len(np.unique(patient[side])) for side in (y, ~y))
    return pd.DataFrame(
        {
            "point": POINTS,
            **({"fold": validation["fold"].iloc[0]} if "fold" in validation else {}),
            "threshold": chosen,
            "validation_patients": len(np.unique(patient)),
            "validation_diseased": num_diseased,
            "validation_sensitivity": [(p[y] >= t).mean() for t in chosen],
            "validation_specificity": [(p[~y] < t).mean() for t in chosen],
            "validation_sensitivity_counted": y.sum() if num_diseased < COUNTED else np.nan,
            "validation_specificity_counted": (~y).sum() if num_healthy < COUNTED else np.nan,
        }
    )


def freeze_points(models: Sequence[Predictions], **choice) -> list[pd.DataFrame]:
    """Choose each model's points; without validation rows, take those of the same model version.

    `source` says where a threshold was carried over from another data set.
    """
    points = [choose_points(predictions, **choice) for predictions in models]
    carried = {}
    for predictions, own in zip(models, points, strict=True):
        if predictions.version and len(predictions.validation):
            carried[predictions.version] = own.assign(source=SOURCES[2])
    return [
        own if len(own) else carried.get(predictions.version, own)
        for predictions, own in zip(models, points, strict=True)
    ]


def find_thresholds(table: pd.DataFrame, points: pd.DataFrame, name: str = "") -> np.ndarray:
    """Find each photograph's threshold at a point, (n,), by default the first: with pooled folds,
    that of its fold.
    """
    at = points[points["point"] == (name or points["point"].iloc[0])]
    if "fold" in at:
        return table["fold"].map(at.set_index("fold")["threshold"]).to_numpy()
    return np.full(len(table), at["threshold"].iloc[0])


def find_called(table: pd.DataFrame, points: pd.DataFrame, name: str = "") -> np.ndarray:
    """Find which photographs are referred at a point, (n,) bool."""
    return (table["probability_referable"] >= find_thresholds(table, points, name)).to_numpy()


def measure_points(
    predictions: Predictions, points: pd.DataFrame, *, by_patient: bool = False
) -> pd.DataFrame:
    """Score each operating point on the test split.

    Args:
        predictions: whose test split it is.
        points: of `choose_points`.
        by_patient: patients are counted, by the worse eye at any visit, where there is one eye by
            that: who has an eye that is called is referred, who has an eye that is referable has
            the disease.

    Returns:
        A row per point, and once more with ungradable eyes counted as referred where there are any
        (`ungradable`, of HANDLING): `point`, `threshold`, counts `tp`, `fn`, `fp`, `tn`, and
        `sensitivity`, `specificity`, `ppv`, `npv`, `lr_plus`, `lr_minus`; where grades are known
        `sensitivity_severe`, of grades 3 and 4.
    """
    tables = [predictions.test]
    if len(predictions.ungradable):
        referred = predictions.ungradable.assign(probability_referable=np.inf)
        tables.append(pd.concat([predictions.test, referred]))
    rows = []
    for table, handling in zip(tables, HANDLING, strict=False):
        rows += measure(find_worse_eyes(table) if by_patient else table, points, handling)
    return tabulate_scores(rows)


def keep_usual(measured: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows of `measure_points` that leave ungradable eyes out."""
    return measured[measured["ungradable"] == HANDLING[0]] if len(measured) else measured


def measure(
    table: pd.DataFrame, points: pd.DataFrame, handling: str = HANDLING[0]
) -> list[dict]:
    """Score the operating points: rows of `measure_points`."""
    y, p, patient = unpack(table)
    rows = []
    for name in points["point"].unique():
        thresholds = find_thresholds(table, points, name)
        called = p >= thresholds
        sensitivity, specificity = score_calls(called, y, patient)
        lr_plus, lr_minus = likelihood_ratios(sensitivity, specificity)
        severe = None
        if "grade" in table:
            is_severe = (table["grade"] >= 3).to_numpy()  # threatens sight
            severe = score_share(called[is_severe], patient[is_severe])
        row = {
            "point": name,
            "ungradable": handling,
            "threshold": thresholds[0] if np.ptp(thresholds) == 0 else np.nan,
            "tp": (called & y).sum(),
            "fn": (~called & y).sum(),
            "fp": (called & ~y).sum(),
            "tn": (~called & ~y).sum(),
            "sensitivity": sensitivity,
            "sensitivity_severe": severe,
            "specificity": specificity,
            "ppv": score_share(y[called], patient[called]),
            "npv": score_share(~y[~called], patient[~called]),
            "lr_plus": lr_plus,
            "lr_minus": lr_minus,
        }
        rows.append(row)
    return rows


def move_prevalence(measured: pd.DataFrame, prevalences: Sequence[float]) -> pd.DataFrame:
    """Compute predictive values at other prevalences, because enriched data mislead.

    Args:
        measured: of `measure_points`.
        prevalences: shares above 0 and below 1.

    Returns:
        A row per `point` and `prevalence`: `ppv` and `npv`.

    Raises:
        DrError: a prevalence is no such share.
    """
    for prevalence in prevalences:
        check_share("prevalence", prevalence)
    rows = []
    for row in keep_usual(measured).to_dict("records"):
        ratios = [take_interval(row, name) for name in ("lr_plus", "lr_minus")]
        for prevalence in prevalences:
            ppv, npv = at_prevalence(ratios, prevalence)
            moved = {"point": row["point"], "prevalence": prevalence, "ppv": ppv, "npv": npv}
            rows.append(moved)
    return tabulate_scores(rows)


def abstain(predictions: Predictions, points: pd.DataFrame) -> pd.DataFrame:
    """Score what is left to the model if a person grades the photographs nearest to the threshold.

    Near is meant on the logit, to the point of high sensitivity.

    Returns:
        A row per share of ABSTAINED: `abstained`, `num_images` left, `sensitivity` and
        `specificity` of these.
    """
    # photographs as near as each other go in random order, not in that of the file
    test = predictions.test.sample(frac=1, random_state=0)
    y, p, patient = unpack(test)
    threshold = find_thresholds(test, points)
    surest = np.argsort(-np.abs(to_logit(p) - to_logit(threshold)), kind="stable")
    rows = []
    for share in ABSTAINED:
        left = surest[: len(surest) - round(share * len(surest))]
        called = p[left] >= threshold[left]
        sensitivity, specificity = score_calls(called, y[left], patient[left])
        row = {
            "abstained": share,
            "num_images": len(left),
            "sensitivity": sensitivity,
            "specificity": specificity,
        }
        rows.append(row)
    return tabulate_scores(rows)


def list_errors(predictions: Predictions, points: pd.DataFrame, number: int) -> pd.DataFrame:
    """List the worst errors at the point of high sensitivity, highest missed grades first.

    Returns:
        At most `number` of each: `error` (missed or false alarm), `fold` and `line` in the file
        (of an ensemble, the first one), `image_id`, `grade`, or `referable` where no grade is
        known, and `probability_referable`.
    """
    test = predictions.test
    label = "grade" if "grade" in test else "referable"
    is_referable = test["referable"] == 1
    is_called = find_called(test, points)
    missed = test[~is_called & is_referable].sort_values(
        [label, "probability_referable"], ascending=[False, True]
    )
    alarms = test[is_called & ~is_referable].sort_values(
        "probability_referable", ascending=False
    )
    errors = pd.concat([missed.head(number), alarms.head(number)], keys=ERRORS)
    errors = errors.reset_index(names=["error", "line"])
    return errors.filter(["error", "fold", "line", "image_id", label, "probability_referable"])


def list_missed(
    predictions: Predictions, points: pd.DataFrame, names: Mapping[str, str]
) -> pd.DataFrame:
    """List the missed eyes at the point of high sensitivity, for private use only: they are named.

    Args:
        predictions, points: as for `list_errors`.
        names: of files, by image id.

    Returns:
        A row per eye, as of `list_errors`: `file` where there are names, `line`, `image_id`,
        `grade` where it is known, `probability_referable`, and `why` it is referable, of REASONS.
    """
    errors = list_errors(predictions, points, len(predictions.test))
    missed = errors[errors["error"] == ERRORS[0]].drop(columns="error")
    grade = missed.get("grade", pd.Series(np.nan, missed.index))
    is_graded = [grade >= REFERABLE_FROM, grade.notna()]
    missed["why"] = np.select(is_graded, REASONS[:2], REASONS[2])
    if names:
        missed.insert(0, "file", [names.get(image, "") for image in missed["image_id"]])
    return missed.drop(columns="referable", errors="ignore")
