"""Evaluate predictions as the field asks for it: by patient, at points that were frozen before.

Discrimination, calibration, clinical utility and the distributions behind them (Van Calster et al.
2025, Lancet Digital Health). All intervals are 95 % and over patients; the operating points come
from the validation split or from outside. Every table has the bounds of x in x_low and x_high.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import precision_recall_curve, roc_curve

from dr_lib.errors import DrError
from dr_lib.evidence.predictions import SUBGROUPS, Predictions
from dr_lib.statistics.bootstrap import (
    Score,
    bootstrap_patients,
    score_kappa,
    score_roc,
    score_shares,
)
from dr_lib.statistics.calibration import (
    bin_probabilities,
    fit_recalibration,
    fit_slope,
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
    likelihood_ratios,
    proportion_interval,
)
from dr_lib.statistics.intervals import Interval

POINTS = ("high sensitivity", "high specificity")
SOURCES = ("validation", "given elsewhere", "carried over unchanged")  # of the operating points
HANDLING = ("excluded", "counted as referred")  # of ungradable eyes
AGES = (40, 60)  # years, where bands begin
# of the decision curve: a miss is 19 to 1 times a needless referral
THRESHOLDS = np.linspace(0.05, 0.5, 46).round(2)
SPECIFICITIES = np.linspace(1, 0, 101)
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
UNKNOWN = Interval(np.nan, np.nan, np.nan, 0)
NO_POINT = {
    "point": np.nan,
    "threshold": np.nan,
    "sensitivity": UNKNOWN,
    "specificity": UNKNOWN,
}


class Eyes(NamedTuple):
    """Photographs as arrays (n,): is it referable, the probability that it is, whose it is."""

    y: np.ndarray
    p: np.ndarray
    patient: np.ndarray


def count_flow(predictions: Predictions) -> pd.DataFrame:
    """Count photographs and patients from what was offered to what is evaluated.

    Returns:
        A row per stage of STAGES with `stage`, `reason`, `num_images`, `num_patients`; those of
        `not usable`, `excluded` and `ungradable` once for each reason.
    """
    table = predictions.table
    is_evaluated = table.index.isin(predictions.test.index)
    rows = []
    for stage, side in STAGES.items():
        part = table[table["split"] == side] if side else table
        if stage in ("ungradable", "evaluated"):
            part = part[is_evaluated[table["split"] == side] == (stage == "evaluated")]
        has_reasons = stage in ("not usable", "excluded", "ungradable") and "reason" in table
        reasons = part["reason"] if has_reasons else pd.Series("", part.index)
        for reason, photographs in part.groupby(reasons):
            patients = set(photographs["patient_id"]) - {""}
            rows.append((stage, reason, len(photographs), len(patients)))
    return pd.DataFrame(rows, columns=["stage", "reason", "num_images", "num_patients"])


def summarise(predictions: Predictions) -> pd.DataFrame:
    """One row: photographs, patients, prevalence, and what each score of the whole range is.

    Returns:
        `model`, `num_images`, `num_patients`, `num_referable`, `rarer_patients` (with or
        without the disease), `prevalence`, `auc`, `average_precision`, `brier`; with grades `kappa`
        (quadratic weights) and `grade_accuracy`. Bounds of kappa are NaN where all draws of
        patients have the same, as of a perfect model.
    """
    test = predictions.test
    y, p, patient = _unpack(test)
    kappa = accuracy = None
    if predictions.has_grades:
        grade = test["grade"]
        predicted = test["predicted_grade"]
        kappa = bootstrap_patients(score_kappa(grade, predicted), patient)
        accuracy = proportion_interval(grade == predicted, patient)
    summary = {
        "model": predictions.name,
        "num_images": len(test),
        "num_patients": test["patient_id"].nunique(),
        "num_referable": int(y.sum()),
        "rarer_patients": min(len(np.unique(patient[kind])) for kind in (y, ~y)),
        "prevalence": proportion_interval(y, patient),
        "auc": auc_interval(y, p, patient),
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
        A row per point: `point` of POINTS, `threshold`, `source` of SOURCES and, where it was
        chosen here, `chosen_on` (the data set), the `validation_patients` that it rests on, and
        what it reaches there, `validation_sensitivity` and `validation_specificity`. Without those
        that no threshold reaches; empty without validation photographs and without thresholds.
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
                "thresholds: give two between 0 and 1, as 0.21,0.75: that of high sensitivity and"
                " then that of high specificity, which is not below it"
            )
        return pd.DataFrame({"point": POINTS, "threshold": thresholds, "source": SOURCES[1]})
    if predictions.validation.empty:
        return pd.DataFrame(columns=["point", "threshold", "source"])
    y, p, patient = _unpack(predictions.validation)
    if y.all() or not y.any():
        raise DrError(
            "the validation split has one class only: no operating point can be chosen on it"
        )
    chosen = [
        choose_threshold(y, p, sensitivity=sensitivity),
        choose_threshold(y, p, specificity=specificity),
    ]
    points = pd.DataFrame(
        {
            "point": POINTS,
            "threshold": sorted(chosen),
            "source": SOURCES[0],
            "chosen_on": predictions.dataset,
            "validation_patients": len(np.unique(patient)),
            "validation_sensitivity": [(p[y] >= t).mean() for t in sorted(chosen)],
            "validation_specificity": [(p[~y] < t).mean() for t in sorted(chosen)],
        }
    )
    return points[np.isfinite(points["threshold"])]


def freeze_points(models: Sequence[Predictions], **choice) -> list[pd.DataFrame]:
    """Choose the points of each by `choose_points`; without validation rows a model takes its own.

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
    """How each model does on each data set, at the thresholds of `freeze_points`.

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
        y, p, patient = eyes = _unpack(model.test)
        auc = auc_interval(y, p, patient)
        for at in [_measure(eyes, point) for point in own.itertuples()] or [NO_POINT]:
            row = {
                "model": model.name,
                "trained_on": model.dataset if home else homes.get(model.version, ""),
                "data_kind": "synthetic" if model.is_synthetic else "photographs",
                "tested_on": model.dataset,
                "num_images": len(y),
                "num_patients": len(np.unique(patient)),
                "auc": auc,
                "point": at["point"],
                "threshold": at["threshold"],
                "sensitivity": at["sensitivity"],
                "specificity": at["specificity"],
            }
            rows.append(row)
    return _tabulate(rows)


def measure_points(predictions: Predictions, points: pd.DataFrame) -> pd.DataFrame:
    """What each operating point does on the test split.

    Returns:
        A row per point, and once more with ungradable eyes counted as referred where there are any
        (`ungradable`, of HANDLING): `point`, `threshold`, counts `tp`, `fn`, `fp`, `tn`, and
        `sensitivity`, `specificity`, `ppv`, `npv`, `lr_plus`, `lr_minus`.
    """
    tables = [predictions.test]
    if len(predictions.ungradable):
        referred = predictions.ungradable.assign(probability_referable=np.inf)
        tables.append(pd.concat([predictions.test, referred]))
    rows = []
    for table, handling in zip(tables, HANDLING, strict=False):
        rows += [_measure(_unpack(table), point, handling) for point in points.itertuples()]
    return _tabulate(rows)


def move_prevalence(measured: pd.DataFrame, prevalences: Sequence[float]) -> pd.DataFrame:
    """What an answer would be worth where more or fewer eyes are referable: enriched data mislead.

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
    """The ROC curve with a pointwise band, and the precision-recall curve.

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
    """Compare probabilities with what came true, as they are and recalibrated.

    Returns:
        A row for `as predicted` and, where the validation split allows it, `recalibrated`
        (`probabilities`): `predicted` and `observed` shares of referable eyes, `intercept`,
        `slope`, `brier`; and the bins of `bin_probabilities` for each.
    """
    y, p, patient = _unpack(predictions.test)
    versions = {CALIBRATED[0]: p}
    if len(predictions.validation):
        validation = _unpack(predictions.validation)
        recalibrate = fit_recalibration(validation.y, validation.p)
        if recalibrate:
            versions[CALIBRATED[1]] = recalibrate(p)
    num_bins = min(10, len(y) // 20 or 1)
    rows = []
    bins = {}
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
        bins[name] = pd.DataFrame(bin_probabilities(y, probability, patient, num_bins=num_bins))
    return _tabulate(rows), bins


def weigh_decisions(predictions: Predictions) -> pd.DataFrame:
    """The decision curve (Vickers and Elkin 2006): the gain over referring all or none.

    Net benefit is the share of true referrals less that of false ones, weighed by the odds of the
    threshold.

    Returns:
        A row per threshold of THRESHOLDS: `threshold`, `net_benefit`, `refer_all` (referring none
        is 0), and with bounds `gain`, the model's net benefit less that of the better of the two,
        in the same draws.
    """
    y, p, patient = _unpack(predictions.test)
    value = np.where(y[:, None], 1, -THRESHOLDS / (1 - THRESHOLDS))
    benefit = score_shares((p[:, None] >= THRESHOLDS) * value)
    everybody = score_shares(value)

    def gain(weights: np.ndarray) -> np.ndarray:
        return benefit(weights) - np.maximum(everybody(weights), 0)

    once = np.ones(len(y))
    curve = {
        "threshold": THRESHOLDS,
        "net_benefit": benefit(once),
        "refer_all": everybody(once),
    }
    return pd.DataFrame(curve | bootstrap_patients(gain, patient).columns("gain"))


def count_grades(predictions: Predictions) -> pd.DataFrame:
    """The confusion matrix of the test split: true grades in rows, predicted ones in columns."""
    names = ["grade", "predicted_grade"]
    grades = [pd.Categorical(predictions.test[name], range(5)) for name in names]
    return pd.crosstab(*grades, dropna=False, rownames=names[:1], colnames=names[1:])


def split_subgroups(predictions: Predictions, points: pd.DataFrame) -> pd.DataFrame:
    """Score subgroups by camera, eye, quality, sex and age.

    Returns:
        A row per `factor` and `level`: `num_images`, `num_patients`, `num_referable`, `auc` and,
        where there are operating points, `sensitivity` and `specificity` at the one of high
        sensitivity. Without scores where fewer than MIN_PATIENTS patients have the disease or have
        an eye without it.
    """
    test = predictions.test
    rows = []
    for factor in [name for name in SUBGROUPS if name in test]:
        levels = band_ages(test[factor]) if factor == "age" else test[factor].str.strip()
        for level, part in test[levels != ""].groupby(levels, observed=True):
            y, p, patient = _unpack(part)
            auc = sensitivity = specificity = None
            if min(len(np.unique(patient[y])), len(np.unique(patient[~y]))) >= MIN_PATIENTS:
                auc = auc_interval(y, p, patient)
                if len(points):
                    called = p >= points["threshold"].iloc[0]
                    sensitivity = proportion_interval(called[y], patient[y])
                    specificity = proportion_interval(~called[~y], patient[~y])
            row = {
                "factor": factor,
                "level": level,
                "num_images": len(part),
                "num_patients": len(np.unique(patient)),
                "num_referable": int(y.sum()),
                "auc": auc,
                "sensitivity": sensitivity,
                "specificity": specificity,
            }
            rows.append(row)
    return _tabulate(rows)


def abstain(predictions: Predictions, points: pd.DataFrame) -> pd.DataFrame:
    """What is left to the model if the photographs nearest to the threshold go to a person.

    Near is meant on the logit, to the point of high sensitivity.

    Returns:
        A row per share of ABSTAINED: `abstained`, `num_images` left, `sensitivity` and
        `specificity` of these.
    """
    y, p, patient = _unpack(predictions.test)
    threshold = points["threshold"].iloc[0]
    surest = np.argsort(-np.abs(to_logit(p) - to_logit(threshold)), kind="stable")
    rows = []
    for share in ABSTAINED:
        left = surest[: len(surest) - round(share * len(surest))]
        called = p[left] >= threshold
        truth = y[left]
        people = patient[left]
        row = {
            "abstained": share,
            "num_images": len(left),
            "sensitivity": proportion_interval(called[truth], people[truth]),
            "specificity": proportion_interval(~called[~truth], people[~truth]),
        }
        rows.append(row)
    return _tabulate(rows)


def list_errors(predictions: Predictions, points: pd.DataFrame, number: int) -> pd.DataFrame:
    """The worst errors at the point of high sensitivity: the highest grades missed come first.

    Returns:
        At most `number` of each: `error` (missed or false alarm), `line` in the file (of an
        ensemble, the first one), `image_id`, `grade`, or `referable` where no grade is known, and
        `probability_referable`.
    """
    test = predictions.test
    label = "grade" if "grade" in test else "referable"
    is_referable = test["referable"] == 1
    is_called = test["probability_referable"] >= points["threshold"].iloc[0]
    missed = test[~is_called & is_referable].sort_values(
        [label, "probability_referable"], ascending=[False, True]
    )
    alarms = test[is_called & ~is_referable].sort_values(
        "probability_referable", ascending=False
    )
    parts = [missed.head(number), alarms.head(number)]
    errors = pd.concat(part.assign(error=e) for part, e in zip(parts, ERRORS, strict=True))
    columns = ["error", "line", "image_id", label, "probability_referable"]
    return errors.reset_index(names="line")[columns]


def compare_models(
    models: Sequence[Predictions], points: Sequence[pd.DataFrame]
) -> pd.DataFrame:
    """Compare each further model with the first, on the same patients in the same draws.

    Args:
        models: of `read_predictions`, the reference first; those of other test photographs are
            passed over.
        points: of each, its own.

    Returns:
        A row per further `model`: `reference`, and the differences `delta_auc`, at each one's
        own point of high sensitivity `delta_sensitivity` and
        `delta_specificity`, and with grades `delta_kappa`.
    """
    reference = models[0]
    ours = reference.test.set_index("image_id")
    y, p, patient = _unpack(ours)

    def subtract(a: Score, b: Score) -> Interval:
        return bootstrap_patients(lambda weights: a(weights) - b(weights), patient)

    rows = []
    for other, theirs_at in zip(models[1:], points[1:], strict=True):
        if set(other.test["image_id"]) != set(ours.index):
            continue
        theirs = other.test.set_index("image_id").loc[ours.index]
        q = _unpack(theirs).p
        sensitivity = specificity = kappa = None
        if len(theirs_at) and len(points[0]):
            called = (q >= theirs_at["threshold"].iloc[0], p >= points[0]["threshold"].iloc[0])
            sensitivity = subtract(*(score_shares(c & y, y) for c in called))
            specificity = subtract(*(score_shares(~c & ~y, ~y) for c in called))
        if reference.has_grades and other.has_grades:
            grades = [table["predicted_grade"] for table in (theirs, ours)]
            kappa = subtract(*(score_kappa(ours["grade"], graded) for graded in grades))
        row = {
            "model": other.name,
            "reference": reference.name,
            "delta_auc": auc_difference(y, [p, q], patient),
            "delta_sensitivity": sensitivity,
            "delta_specificity": specificity,
            "delta_kappa": kappa,
        }
        rows.append(row)
    return _tabulate(rows)


def band_ages(levels: pd.Series) -> pd.Series:
    """The band of AGES of each age [years], in the order of the bands, empty for no number."""
    years = pd.to_numeric(levels, errors="coerce")
    names = [f"< {AGES[0]}", f"{AGES[0]}-{AGES[1] - 1}", f">= {AGES[1]}"]
    bands = pd.cut(years, [-np.inf, *AGES, np.inf], right=False, labels=names)
    return bands.cat.add_categories("").fillna("")


def _check_share(name: str, share: float) -> None:
    if not 0 < share < 1:
        raise DrError(f"{name} has to lie between 0 and 1: {share:g} does not")


def _measure(eyes: Eyes, point, handling: str = HANDLING[0]) -> dict:
    """What an operating point does: a row of `measure_points`."""
    y, p, patient = eyes
    called = p >= point.threshold
    sensitivity = proportion_interval(called[y], patient[y])
    specificity = proportion_interval(~called[~y], patient[~y])
    lr_plus, lr_minus = likelihood_ratios(sensitivity, specificity)
    return {
        "point": point.point,
        "ungradable": handling,
        "threshold": point.threshold,
        "tp": (called & y).sum(),
        "fn": (~called & y).sum(),
        "fp": (called & ~y).sum(),
        "tn": (~called & ~y).sum(),
        "sensitivity": sensitivity,
        "specificity": specificity,
        "ppv": proportion_interval(y[called], patient[called]),
        "npv": proportion_interval(~y[~called], patient[~called]),
        "lr_plus": lr_plus,
        "lr_minus": lr_minus,
    }


def _unpack(table: pd.DataFrame) -> Eyes:
    return Eyes(
        (table["referable"] == 1).to_numpy(),
        table["probability_referable"].to_numpy(),
        table["patient_id"].to_numpy(),
    )


def _tabulate(rows: Iterable[Mapping]) -> pd.DataFrame:
    """A table of rows: three columns for an interval, none for None.

    Where no draw of patients changes a score, it has no bounds: a kappa of 1 would be 1 [1, 1], of
    three patients too.
    """
    lines = []
    for row in rows:
        line = {}
        for name, value in row.items():
            if isinstance(value, Interval):
                if np.isclose(value.low, value.high, rtol=1e-9, atol=0):
                    value = value._replace(low=np.nan, high=np.nan)
                line.update(value.columns(name))
            elif value is not None:
                line[name] = value
        lines.append(line)
    return pd.DataFrame(lines)
