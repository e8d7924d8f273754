"""Evaluate predictions as guidelines ask: by patient, at operating points frozen beforehand.

Discrimination, calibration, clinical utility and the distributions behind them (Van Calster et al.
2025, Lancet Digital Health). All intervals are 95 % and over patients; the operating points come
from the validation split or from outside. Every table has the bounds of x in x_low and x_high.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import precision_recall_curve, roc_curve

from dr_lib.data.labels.grades import GRADES, REFERABLE_FROM
from dr_lib.data.labels.schema import EVALUATED, OWN, fold_name
from dr_lib.errors import DrError
from dr_lib.rooms.evaluation.predictions import SUBGROUPS, Predictions
from dr_lib.statistics.bootstrap import bootstrap_patients, score_roc
from dr_lib.statistics.calibration import (
    fit_recalibration,
    fit_slope,
    smooth_calibration,
    to_logit,
)
from dr_lib.statistics.clustered import (
    MIN_PATIENTS,
    at_prevalence,
    auc_difference,
    auc_interval,
    average_precision_interval,
    brier_interval,
    choose_threshold,
    difference_interval,
    estimate_aucs,
    kappa_interval,
    likelihood_ratios,
    proportion_interval,
)
from dr_lib.statistics.intervals import Interval, tabulate

POINTS = ("high sensitivity", "high specificity")
SOURCES = ("validation", "given elsewhere", "carried over unchanged")  # of the operating points
HANDLING = ("excluded", "counted as referred")  # of ungradable eyes
AGES = (40, 60)  # years, where bands begin
FEW = 5  # patients; a smaller count may name one
MAX_LEVELS = 20  # of a subgroup: names of people have more
SEVERE_FROM = 3  # the first grade that threatens sight
# of the decision curve: a miss is 19 to 1 times a needless referral
THRESHOLDS = np.linspace(0.05, 0.5, 46).round(2)
SPECIFICITIES = np.linspace(1, 0, 101)
CELLS = np.linspace(0, 1, 26)  # of probabilities, from edge to edge
ABSTAINED = np.linspace(0, 0.5, 11)
STAGES = {  # of the flow: the side of the split
    "offered": "",
    "not usable": "rejected",
    "excluded": "excluded",
    "learned from": "train",
    "validation": "validation",
    "test": "test",
    "ungradable": "test",
    "evaluated": "test",
}
CALIBRATED = ("as predicted", "recalibrated")
ERRORS = ("missed", "false alarm")
AT = ("point", "threshold", "sensitivity", "specificity")


class Eyes(NamedTuple):
    """Photographs as arrays (n,): referable or not, its probability, and the patient."""

    y: np.ndarray
    p: np.ndarray
    patient: np.ndarray


def count_flow(predictions: Predictions) -> pd.DataFrame:
    """Count photographs and patients at each stage, from offered to evaluated.

    Returns:
        A row per stage of STAGES with `stage`, `reason`, `num_patients`, `num_images`; those of
        `not usable`, `excluded` and `ungradable` once for each reason.
    """
    table = predictions.table
    is_evaluated = table["image_id"].isin(predictions.test["image_id"])
    rows = []
    for stage, side in STAGES.items():
        part = table[table["split"] == side] if side else table
        if stage in ("ungradable", "evaluated"):
            part = part[is_evaluated[table["split"] == side] == (stage == "evaluated")]
        has_reasons = stage in ("not usable", "excluded", "ungradable") and "reason" in table
        reasons = part["reason"] if has_reasons else pd.Series("", part.index)
        for reason, photographs in part.groupby(reasons):
            patients = set(photographs["patient_id"]) - {""}
            rows.append((stage, reason, len(patients), len(photographs)))
    return pd.DataFrame(rows, columns=["stage", "reason", "num_patients", "num_images"])


def summarise(predictions: Predictions) -> pd.DataFrame:
    """Summarise a test split in one row: photographs, patients, prevalence and threshold-free
    scores.

    Returns:
        `model`, `num_images`, `num_patients`, `num_referable`, `rarer_patients` (with or
        without the disease, counted as if each had as many photographs), `prevalence`, `auc`,
        `average_precision`, `brier`; with grades `kappa` (quadratic weights) and `grade_accuracy`.
    """
    test = predictions.test
    y, p, patient = _unpack(test)
    kappa = accuracy = None
    graded = predictions.graded
    if len(graded):
        grade = graded["grade"]
        predicted = graded["predicted_grade"]
        kappa = kappa_interval(grade, predicted, patient_id=graded["patient_id"])
        accuracy = proportion_interval(grade == predicted, graded["patient_id"])
    aucs = estimate_aucs(y, p, patient)
    summary = {
        "model": predictions.name,
        "num_images": len(test),
        "num_patients": test["patient_id"].nunique(),
        "num_referable": int(y.sum()),
        "rarer_patients": int(aucs.rarer),
        "prevalence": proportion_interval(y, patient),
        "auc": aucs.bound(0),
        "average_precision": average_precision_interval(y, p, patient),
        "brier": brier_interval(y, p, patient),
        "kappa": kappa,
        "grade_accuracy": accuracy,
    }
    return _tabulate([summary])


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
    _check_share("sensitivity", sensitivity)
    _check_share("specificity", specificity)
    if len(thresholds):
        if len(thresholds) != 2 or not 0 <= thresholds[0] <= thresholds[1] <= 1:
            raise DrError(
                "thresholds: give two between 0 and 1, such as 0.21,0.75: first for high "
                "sensitivity, then, not below it, for high specificity"
            )
        return pd.DataFrame({"point": POINTS, "threshold": thresholds, "source": SOURCES[1]})
    if predictions.validation.empty:
        return pd.DataFrame(columns=["point", "threshold", "source"])
    points = [_choose(part, sensitivity, specificity) for part in _part(predictions.validation)]
    points = pd.concat(points).assign(source=SOURCES[0], chosen_on=predictions.dataset)
    is_reached = np.isfinite(points["threshold"]).groupby(points["point"]).transform("all")
    return points[is_reached].sort_values("point", kind="stable", ignore_index=True)


def _choose(validation: pd.DataFrame, sensitivity: float, specificity: float) -> pd.DataFrame:
    """Choose the operating points of one model on its validation photographs."""
    y, p, patient = _unpack(validation)
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
    return pd.DataFrame(
        {
            "point": POINTS,
            **({"fold": validation["fold"].iloc[0]} if "fold" in validation else {}),
            "threshold": chosen,
            "validation_patients": len(np.unique(patient)),
            "validation_diseased": len(np.unique(patient[y])),
            "validation_sensitivity": [(p[y] >= t).mean() for t in chosen],
            "validation_specificity": [(p[~y] < t).mean() for t in chosen],
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
        y, p, patient = _unpack(model.test)
        auc = auc_interval(y, p, patient)
        for at in _measure(model.test, own) or [dict.fromkeys(AT, np.nan)]:
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
    return _tabulate(rows)


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
            continue  # of an older version, or of another program
    found = {}
    for model in models:
        first, *others = [known.get(v, {}) for v in model.version.split()] or [{}]
        found[model.name] = {
            name: value
            for name, value in first.items()
            if all(other.get(name) == value for other in others)
        }
    return found


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
        rows += _measure(find_worse_eyes(table) if by_patient else table, points, handling)
    return _tabulate(rows)


def find_worse_eyes(table: pd.DataFrame) -> pd.DataFrame:
    """Make one row per patient, of all visits: the highest label and probability."""
    worst = ("fold", "grade", "referable", "probability_referable")
    by_patient = table.groupby("patient_id", as_index=False)
    return by_patient[[name for name in worst if name in table]].max()


def count_below(table: pd.DataFrame) -> int:
    """Count the photographs that are referable below the grade from which all are."""
    is_below = f"grade < {REFERABLE_FROM} and referable == 1"
    return len(table.query(is_below)) if "grade" in table else 0


def seems_confidence(predictions: Predictions) -> bool:
    """Whether the test probabilities may be those of the predicted class, whichever it is.

    Of two to five classes none of these is below 0.2, and photographs that are not referable have
    high ones too.
    """
    y, p, _ = _unpack(predictions.test)
    return bool(np.ptp(p) > 0 and p.min() >= 1 / len(GRADES) and np.median(p[~y]) > 0.5)


def find_thresholds(table: pd.DataFrame, points: pd.DataFrame, name: str) -> np.ndarray:
    """Find each photograph's threshold at a point, (n,): with pooled folds, that of its fold."""
    at = points[points["point"] == name]
    if "fold" in at:
        return table["fold"].map(at.set_index("fold")["threshold"]).to_numpy()
    return np.full(len(table), at["threshold"].iloc[0])


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
        _check_share("prevalence", prevalence)
    rows = []
    for row in measured.itertuples():
        plus = Interval(row.lr_plus, row.lr_plus_low, row.lr_plus_high, 0)
        minus = Interval(row.lr_minus, row.lr_minus_low, row.lr_minus_high, 0)
        for prevalence in prevalences if row.ungradable == HANDLING[0] else ():
            ppv, npv = at_prevalence([plus, minus], prevalence)
            rows.append({"point": row.point, "prevalence": prevalence, "ppv": ppv, "npv": npv})
    return _tabulate(rows)


def trace_curves(predictions: Predictions) -> dict[str, pd.DataFrame]:
    """Trace the ROC curve with a pointwise band, and the precision-recall curve.

    Returns:
        roc: `specificity`, `sensitivity`; band: `specificity`, `sensitivity_low`,
        `sensitivity_high`; precision_recall: `recall`, `precision`.
    """
    y, p, patient = _unpack(predictions.test)
    alarms, hits, _ = roc_curve(y, p)
    band = bootstrap_patients(score_roc(y, p, SPECIFICITIES), patient)
    bounds = {"sensitivity_low": band.low, "sensitivity_high": band.high}
    precision, recall, _ = precision_recall_curve(y, p)
    return {
        "roc": pd.DataFrame({"specificity": 1 - alarms, "sensitivity": hits}),
        "band": pd.DataFrame({"specificity": SPECIFICITIES} | bounds),
        "precision_recall": pd.DataFrame({"recall": recall, "precision": precision}),
    }


def calibrate(predictions: Predictions) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Compare probabilities with outcomes, before and after recalibration.

    Returns:
        A row for `as predicted` and, where the validation split allows it, `recalibrated`
        (`probabilities`): `predicted` and `observed` shares of referable eyes, `intercept`,
        `slope`, `brier`; and for each a curve, a row per CELLS: `predicted` (its middle),
        `observed` of `smooth_calibration`, and `num_referable` and `num_others` photographs in it.
    """
    y, p, patient = _unpack(predictions.test)
    versions = {CALIBRATED[0]: p}
    recalibrated = recalibrate(predictions)
    if recalibrated is not None:
        versions[CALIBRATED[1]] = recalibrated
    rows = []
    curves = {}
    middle = (CELLS[1:] + CELLS[:-1]) / 2
    for name, probability in versions.items():
        intercept, slope = fit_slope(y, probability, patient)
        row = {
            "probabilities": name,
            "predicted": probability.mean(),
            "observed": y.mean(),
            "intercept": intercept,
            "slope": slope,
            "brier": brier_interval(y, probability, patient),
        }
        rows.append(row)
        curve = smooth_calibration(y, probability, patient, middle)
        curves[name] = pd.DataFrame(
            {
                "predicted": middle,
                **curve.columns("observed"),
                "num_referable": np.histogram(probability[y], CELLS)[0],
                "num_others": np.histogram(probability[~y], CELLS)[0],
            }
        )
    return _tabulate(rows), curves


def recalibrate(predictions: Predictions) -> np.ndarray | None:
    """Recalibrate the test probabilities, (n,), on the validation split, for folds on their own;
    None if that is impossible.
    """
    p = predictions.test["probability_referable"].to_numpy().copy()
    fold = _name_fold(predictions.test)
    for number in np.unique(fold):
        learned = predictions.validation[_name_fold(predictions.validation) == number]
        change = fit_recalibration(*_unpack(learned)[:2])
        if change is None:
            return None
        p[fold == number] = change(p[fold == number])
    return p


def weigh_decisions(predictions: Predictions, prevalence: float | None = None) -> pd.DataFrame:
    """Compute the decision curve (Vickers and Elkin 2006): the gain over referring all and none.

    Net benefit is the share of true referrals less that of false ones, weighed by the odds of the
    threshold.

    Args:
        predictions: whose test split it is.
        prevalence: share of referable photographs that the curve is for, if not that of the test
            split; sensitivity and specificity are taken to be the same there.

    Returns:
        A row per threshold of THRESHOLDS: `threshold`, `net_benefit`, that of the `recalibrated`
        probabilities where there are any, `refer_all` (referring none is 0), and with bounds
        `gain_over_all` and `gain_over_none`, how much more the model's is. Without bounds where the
        model decides alike for every photograph.
    """
    y, p, patient = _unpack(predictions.test)
    whose = np.unique(patient, return_inverse=True)[1]
    share = y.mean() if prevalence is None else prevalence
    weight = np.where(y, share / y.mean(), (1 - share) / (1 - y.mean()))
    recalibrated = recalibrate(predictions)
    rows = []
    for threshold in THRESHOLDS:
        odds = threshold / (1 - threshold)
        called = p >= threshold
        if prevalence is None:
            over_all = difference_interval(~called & ~y, ~called & y, whose, odds)
            loss = difference_interval(called & ~y, called & y, whose, odds)
            over_none = Interval(-loss.value, -loss.high, -loss.low, loss.n)
        else:  # Zou and Donner 2008, of two independent shares
            parts = np.array([each[:3] for each in _score_calls(called, y, whose)])
            parts *= [[share], [odds * (1 - share)]]
            reach = np.hypot(*(parts - parts[:, :1])) * [0, -1, 1]
            both = parts[:, 0].sum() + reach
            over_all = Interval(*(both - share), len(y))
            over_none = Interval(*(both - odds * (1 - share)), len(y))
        benefit = np.where(y, 1, -odds) * weight  # of each photograph, if it is referred
        row = {
            "threshold": threshold,
            "net_benefit": over_none.value,
            "recalibrated": np.nan,
            "refer_all": benefit.mean(),
            "gain_over_all": _unbind(over_all, called.all()),
            "gain_over_none": _unbind(over_none, not called.any()),
        }
        if recalibrated is not None:
            row["recalibrated"] = (benefit * (recalibrated >= threshold)).mean()
        rows.append(row)
    return _tabulate(rows)


def count_grades(predictions: Predictions) -> pd.DataFrame:
    """Count the confusion matrix of the test split: true grades in rows, predicted in columns."""
    names = ["grade", "predicted_grade"]
    grades = [pd.Categorical(predictions.graded[name], range(5)) for name in names]
    return pd.crosstab(*grades, dropna=False, rownames=names[:1], colnames=names[1:])


def find_crowded(predictions: Predictions) -> pd.Series:
    """Count the values of those of SUBGROUPS that are none: they have more than MAX_LEVELS."""
    names = [name for name in SUBGROUPS if name != "age"]
    counts = predictions.test.filter(names).replace("", np.nan).nunique()
    return counts[counts > MAX_LEVELS]


def split_subgroups(
    predictions: Predictions, points: pd.DataFrame, further: Sequence[str] = ()
) -> pd.DataFrame:
    """Score subgroups by camera, eye, quality, sex, age and further columns of the file.

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
        for level, part in test[levels != ""].groupby(levels, observed=True):
            y, p, patient = _unpack(part)
            auc = sensitivity = specificity = None
            num_diseased = len(np.unique(patient[y]))
            if min(num_diseased, len(np.unique(patient[~y]))) >= MIN_PATIENTS:
                auc = auc_interval(y, p, patient)
                if len(points):
                    called = p >= find_thresholds(part, points, points["point"].iloc[0])
                    sensitivity, specificity = _score_calls(called, y, patient)
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
    return _tabulate(rows)


def write_few(count: int) -> str:
    """Write a count of patients or photographs; one below FEW as < 5."""
    return f"< {FEW}" if 0 < count < FEW else str(count)


def hide_flow(flow: pd.DataFrame) -> pd.DataFrame:
    """Mask the table of `count_flow`: counts below FEW become < 5; sums that contain them become –,
    or they could be found by subtraction.
    """
    counts = ["num_patients", "num_images"]
    stage = flow["stage"]
    is_few = flow[counts].gt(0) & flow[counts].lt(FEW)
    is_hidden = is_few.any(axis=1)
    shown = flow.astype(dict.fromkeys(counts, object))
    shown.loc[is_hidden, "num_images"] = "–"
    for name in counts:
        shown.loc[is_few[name], name] = f"< {FEW}"
    for parts, sums in (
        (stage == "ungradable", ["offered", "test"]),
        (stage != "", ["offered"]),
    ):
        if (parts & is_hidden).any():
            shown.loc[stage.isin(sums), counts] = "–"
    return shown


def hides_test(flow: pd.DataFrame) -> bool:
    """Whether `hide_flow` hides the sum of the test split: few of it could not be used."""
    shown = hide_flow(flow)
    return bool((shown.loc[shown["stage"] == "test", "num_images"] == "–").any())


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


def abstain(predictions: Predictions, points: pd.DataFrame) -> pd.DataFrame:
    """Score what is left to the model if a person grades the photographs nearest to the threshold.

    Near is meant on the logit, to the point of high sensitivity.

    Returns:
        A row per share of ABSTAINED: `abstained`, `num_images` left, `sensitivity` and
        `specificity` of these.
    """
    # photographs as near as each other go in random order, not in that of the file
    test = predictions.test.sample(frac=1, random_state=0)
    y, p, patient = _unpack(test)
    threshold = find_thresholds(test, points, points["point"].iloc[0])
    surest = np.argsort(-np.abs(to_logit(p) - to_logit(threshold)), kind="stable")
    rows = []
    for share in ABSTAINED:
        left = surest[: len(surest) - round(share * len(surest))]
        called = p[left] >= threshold[left]
        sensitivity, specificity = _score_calls(called, y[left], patient[left])
        row = {
            "abstained": share,
            "num_images": len(left),
            "sensitivity": sensitivity,
            "specificity": specificity,
        }
        rows.append(row)
    return _tabulate(rows)


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
    threshold = find_thresholds(test, points, points["point"].iloc[0])
    is_called = test["probability_referable"] >= threshold
    missed = test[~is_called & is_referable].sort_values(
        [label, "probability_referable"], ascending=[False, True]
    )
    alarms = test[is_called & ~is_referable].sort_values(
        "probability_referable", ascending=False
    )
    parts = [missed.head(number), alarms.head(number)]
    errors = pd.concat(part.assign(error=e) for part, e in zip(parts, ERRORS, strict=True))
    columns = ["error", "fold", "line", "image_id", label, "probability_referable"]
    errors = errors.reset_index(names="line")
    return errors[[column for column in columns if column in errors]]


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
    y, p, patient = _unpack(ours)
    rows = []
    for other, theirs_at in zip(models[1:], points[1:], strict=True):
        if set(other.test["image_id"]) != set(ours.index):
            continue
        theirs = other.test.set_index("image_id").loc[ours.index]
        q = _unpack(theirs).p
        sensitivity = specificity = kappa = None
        if len(theirs_at) and len(points[0]):
            is_right = [
                (score >= find_thresholds(ours, at, at["point"].iloc[0])) == y
                for score, at in ((p, points[0]), (q, theirs_at))
            ]
            is_same = np.array_equal(p, q) and np.array_equal(*is_right)
            differences = []
            for kind in (y, ~y):
                lost, gained = (is_right[k][kind] & ~is_right[1 - k][kind] for k in (0, 1))
                difference = difference_interval(gained, lost, patient[kind])
                is_bare = is_same or difference.n < MIN_PATIENTS
                differences.append(_unbind(difference, is_bare))
            sensitivity, specificity = differences
        graded = [m.graded.set_index("image_id") for m in (reference, other)]
        both = graded[0].index.intersection(graded[1].index)
        if len(both):
            true = graded[0].loc[both]
            predicted = [g.loc[both, "predicted_grade"] for g in graded]
            kappa = kappa_interval(true["grade"], *predicted, patient_id=true["patient_id"])
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
    return _tabulate(rows)


def band_ages(levels: pd.Series) -> pd.Series:
    """Find the band of AGES for each age [years], in the order of the bands; empty for no
    number.
    """
    years = pd.to_numeric(levels, errors="coerce")
    names = [f"< {AGES[0]}", f"{AGES[0]}-{AGES[1] - 1}", f">= {AGES[1]}"]
    bands = pd.cut(years, [-np.inf, *AGES, np.inf], right=False, labels=names)
    return bands.cat.add_categories("").fillna("")


def read_shares(name: str, text: str) -> list[float]:
    """Read shares as people write them: 0.05,0.2; or, with semicolons, 0,05;0,2; or 5%.

    Raises:
        DrError: one is no number.
    """
    text = str(text).replace(" ", "")
    cells = text.replace(",", ".").split(";") if ";" in text else text.split(",")
    try:
        return [float(cell.rstrip("%")) / 10 ** (2 * ("%" in cell)) for cell in cells if cell]
    except ValueError as error:
        raise DrError(
            f"{name} {text}: give numbers with decimal points, such as 0.05,0.2"
        ) from error


def _unbind(interval: Interval, is_bare: bool = True) -> Interval:
    """Take the bounds away, if that is to be."""
    return interval._replace(low=np.nan, high=np.nan) if is_bare else interval


def _check_share(name: str, share: float) -> None:
    if not 0 < share < 1:
        raise DrError(f"{name} must be between 0 and 1, not {share:g}")


def _measure(
    table: pd.DataFrame, points: pd.DataFrame, handling: str = HANDLING[0]
) -> list[dict]:
    """Score the operating points: rows of `measure_points`."""
    y, p, patient = _unpack(table)
    rows = []
    for name in points["point"].unique():
        thresholds = find_thresholds(table, points, name)
        called = p >= thresholds
        sensitivity, specificity = _score_calls(called, y, patient)
        lr_plus, lr_minus = likelihood_ratios(sensitivity, specificity)
        severe = None
        if "grade" in table:
            is_severe = (table["grade"] >= SEVERE_FROM).to_numpy()
            severe = proportion_interval(called[is_severe], patient[is_severe])
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
            "ppv": proportion_interval(y[called], patient[called]),
            "npv": proportion_interval(~y[~called], patient[~called]),
            "lr_plus": lr_plus,
            "lr_minus": lr_minus,
        }
        rows.append(row)
    return rows


def _score_calls(
    called: np.ndarray, y: np.ndarray, patient: np.ndarray
) -> tuple[Interval, Interval]:
    """Sensitivity and specificity."""
    return (
        proportion_interval(called[y], patient[y]),
        proportion_interval(~called[~y], patient[~y]),
    )


def _name_fold(table: pd.DataFrame) -> np.ndarray:
    return table.get("fold", pd.Series(0, table.index)).to_numpy()


def _part(table: pd.DataFrame) -> list[pd.DataFrame]:
    return [part for _, part in table.groupby(_name_fold(table))]


def _unpack(table: pd.DataFrame) -> Eyes:
    return Eyes(
        (table["referable"] == 1).to_numpy(),
        table["probability_referable"].to_numpy(),
        table["patient_id"].to_numpy(),
    )


def _tabulate(rows: Iterable[Mapping]) -> pd.DataFrame:
    """Make a table of rows: three columns for an interval, none for None.

    Where no draw of patients changes a score, it has no bounds: a kappa of 1 would be 1 [1, 1], of
    three patients too.
    """
    lines = []
    for row in rows:
        line = {name: value for name, value in row.items() if value is not None}
        for name, value in line.items():
            if isinstance(value, Interval) and np.isclose(
                value.low, value.high, rtol=1e-9, atol=0
            ):
                line[name] = _unbind(value)
        lines.append(line)
    return tabulate(lines)
