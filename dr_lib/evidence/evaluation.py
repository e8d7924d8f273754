"""Evaluate predictions as the field asks for it: by patient, at operating points that were frozen
before.

Discrimination, calibration, clinical utility and the distributions behind them (Van Calster et al.
2025, Lancet Digital Health). All intervals are 95 % and over patients; the operating points come
from the validation split or from outside.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from sklearn.metrics import precision_recall_curve, roc_curve

from dr_lib.evidence.predictions import SUBGROUPS, Predictions
from dr_lib.statistics.bootstrap import (
    Score,
    bootstrap_patients,
    score_auc,
    score_average_precision,
    score_kappa,
    score_roc,
    score_shares,
)
from dr_lib.statistics.calibration import bin_probabilities, fit_recalibration, fit_slope, to_logit
from dr_lib.statistics.clustered import (
    at_prevalence,
    choose_threshold,
    delong_interval,
    likelihood_ratios,
    proportion_interval,
)
from dr_lib.statistics.intervals import Interval

POINTS = ("high sensitivity", "high specificity")
SOURCES = ("validation", "given elsewhere", "carried over unchanged")  # of the operating points
HANDLING = ("excluded", "counted as referred")  # of ungradable eyes
AGES = (40, 60)  # years, where bands begin
MIN_PATIENTS = 10  # with and without disease; smaller subgroups are counted and not scored
# of the decision curve: a miss is 19 to 1 times a needless referral
THRESHOLDS = np.linspace(0.05, 0.5, 46).round(2)
SPECIFICITIES = np.linspace(1, 0, 101)
ABSTAINED = np.linspace(0, 0.5, 11)
STAGES = (
    "offered",
    "not usable",
    "excluded",
    "learned from",
    "validation",
    "test",
    "ungradable",
    "evaluated",
)
# of subgroups, as data sets word them
LEVELS = ("left", "right", "Female", "Male", "Adequate", "Inadequate")
CALIBRATED = ("as predicted", "recalibrated")
ERRORS = ("missed", "false alarm")
ENDS = ("", "_low", "_high")  # of the columns of an interval


class EvaluationError(ValueError):
    """Something cannot be evaluated; the message says what is missing."""


def count_flow(predictions: Predictions) -> pd.DataFrame:
    """Count photographs and patients from what was offered to what is evaluated.

    Returns:
        A row per stage of STAGES with `stage`, `reason`, `num_images`, `num_patients`; those of
        `not usable`, `excluded` and `ungradable` once for each reason.
    """
    table = predictions.table
    reason = table["reason"] if "reason" in table else pd.Series("", table.index)
    masks = {"offered": pd.Series(True, table.index), "not usable": table["split"] == "rejected"}
    masks |= {"excluded": table["split"] == "excluded", "learned from": table["split"] == "train"}
    masks |= {side: table["split"] == side for side in ("validation", "test")}
    evaluated = table.index.isin(predictions.test.index)
    masks |= {
        "ungradable": masks["test"] & ~evaluated,
        "evaluated": pd.Series(evaluated, table.index),
    }
    rows = []
    for stage in STAGES:
        has_reasons = stage in ("not usable", "excluded", "ungradable")
        for words, part in table[masks[stage]].groupby(
            reason if has_reasons else pd.Series("", table.index)
        ):
            patients = part.loc[part["patient_id"] != "", "patient_id"].nunique()
            rows.append(
                {"stage": stage, "reason": words, "num_images": len(part), "num_patients": patients}
            )
    return pd.DataFrame(rows)


def summarise(predictions: Predictions) -> pd.DataFrame:
    """One row: photographs, patients, prevalence, and what each score of the whole range is, with
    its interval.

    Returns:
        `model`, `num_images`, `num_patients`, `num_referable`, `prevalence`, `auc` (bootstrap),
        `auc_delong`, `average_precision`, `brier`; with grades `kappa` (quadratic weights) and
        `grade_accuracy`. Bounds in _low, _high; NaN where all draws of patients have the same
        score, as of a perfect model.
    """
    test = predictions.test
    y, p, patient = _unpack(test)
    row = {
        "model": predictions.name,
        "num_images": len(test),
        "num_patients": test["patient_id"].nunique(),
    }
    row |= {"num_referable": int(y.sum())} | _put("prevalence", proportion_interval(y, patient))
    row |= _put("auc", bootstrap_patients(score_auc(y, p), patient))
    row |= _put("auc_delong", delong_interval(y, p, patient))
    row |= _put("average_precision", bootstrap_patients(score_average_precision(y, p), patient))
    row |= _put("brier", bootstrap_patients(score_shares((p - y) ** 2), patient))
    if predictions.has_grades:
        grade = test["grade"]
        graded = test["predicted_grade"]
        row |= _put("kappa", bootstrap_patients(score_kappa(grade, graded), patient))
        row |= _put("grade_accuracy", proportion_interval(grade == graded, patient))
    return pd.DataFrame([row])


def choose_points(
    predictions: Predictions,
    *,
    sensitivity: float,
    specificity: float,
    thresholds: Sequence[float] = (),
) -> pd.DataFrame:
    """Freeze the operating points, on the validation split or as they were frozen elsewhere, never
    on the test split.

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
        EvaluationError: not two thresholds in order, no shares between 0 and 1, or the validation
            split has one class only.
    """
    _check_share("sensitivity", sensitivity)
    _check_share("specificity", specificity)
    if len(thresholds):
        if len(thresholds) != 2 or not 0 <= thresholds[0] <= thresholds[1] <= 1:
            raise EvaluationError(
                "thresholds: give two between 0 and 1, as 0.21,0.75: that of high sensitivity and"
                " then that of high specificity, which is not below it"
            )
        return pd.DataFrame({"point": POINTS, "threshold": thresholds, "source": SOURCES[1]})
    validation = predictions.validation
    if validation.empty:
        return pd.DataFrame(columns=["point", "threshold", "source"])
    y, p, patient = _unpack(validation)
    if y.all() or not y.any():
        raise EvaluationError(
            "the validation split has one class only: no operating point can be chosen on it"
        )
    found = sorted(
        [
            choose_threshold(y, p, sensitivity=sensitivity),
            choose_threshold(y, p, specificity=specificity),
        ]
    )
    about = {
        "source": SOURCES[0],
        "chosen_on": predictions.dataset,
        "validation_patients": len(np.unique(patient)),
    }
    reached = {"validation_sensitivity": [(p[y] >= threshold).mean() for threshold in found]}
    reached |= {"validation_specificity": [(p[~y] < threshold).mean() for threshold in found]}
    points = pd.DataFrame({"point": POINTS, "threshold": found, **about, **reached})
    return points[np.isfinite(points["threshold"])]


def freeze_points(found: Sequence[Predictions], **asked) -> list[pd.DataFrame]:
    """Choose the points of several predictions; on a data set without validation rows a model takes
    its own along.

    Of each it is the table of `choose_points`; `source` says where a threshold was carried over
    from another data set.
    """
    points = [choose_points(predictions, **asked) for predictions in found]
    home = {
        p.version: own
        for p, own in zip(found, points, strict=True)
        if p.version and len(p.validation)
    }
    carried = {version: own.assign(source=SOURCES[2]) for version, own in home.items()}
    return [
        own if len(own) else carried.get(predictions.version, own)
        for predictions, own in zip(found, points, strict=True)
    ]


def compare_data_sets(found: Sequence[Predictions], points: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """How each model does on each data set, at the thresholds of `freeze_points`, which only its
    own has set.

    Returns:
        A row per prediction and operating point, or one with none: `model`, `trained_on` (where its
        file with training or validation rows is among them), `data_kind`, `tested_on`,
        `num_images`, `num_patients`, `auc`, and of `measure_points` `point`, `threshold`,
        `sensitivity`, `specificity`. Bounds in _low, _high.
    """
    is_home = [p.table["split"].isin(["train", "validation"]).any() for p in found]
    homes = {
        p.version: p.dataset for p, home in zip(found, is_home, strict=True) if home and p.version
    }
    rows = []
    for predictions, own, home in zip(found, points, is_home, strict=True):
        y, p, patient = _unpack(predictions.test)
        trained_on = predictions.dataset if home else homes.get(predictions.version, "")
        row = {"model": predictions.name, "trained_on": trained_on}
        row["data_kind"] = "synthetic" if predictions.is_synthetic else "photographs"
        row |= {
            "tested_on": predictions.dataset,
            "num_images": len(y),
            "num_patients": len(np.unique(patient)),
        }
        row |= _put("auc", bootstrap_patients(score_auc(y, p), patient))
        shown = [f"{name}{end}" for name in ("sensitivity", "specificity") for end in ENDS]
        at = (
            measure_points(predictions, own).query("ungradable == @HANDLING[0]")
            if len(own)
            else pd.DataFrame([{}])
        )
        rows += [
            row | point
            for point in at.reindex(columns=["point", "threshold", *shown]).to_dict("records")
        ]
    return pd.DataFrame(rows)


def measure_points(predictions: Predictions, points: pd.DataFrame) -> pd.DataFrame:
    """Say what each operating point of `choose_points` does on the test split.

    Returns:
        A row per point, and once more with ungradable eyes counted as referred where there are any
        (`ungradable`, of HANDLING): `threshold`, counts `tp`, `fn`, `fp`, `tn`, and with bounds
        `sensitivity`, `specificity`, `ppv`, `npv`, `lr_plus`, `lr_minus`.
    """
    rows = []
    for handling in HANDLING[: 1 + (len(predictions.ungradable) > 0)]:
        table = predictions.test
        if handling == HANDLING[1]:
            table = pd.concat([table, predictions.ungradable.assign(probability_referable=np.inf)])
        y, p, patient = _unpack(table)
        for point in points.itertuples():
            row = {"point": point.point, "ungradable": handling, "threshold": point.threshold}
            rows.append(row | _count(y, p >= point.threshold, patient))
    return pd.DataFrame(rows)


def move_prevalence(measured: pd.DataFrame, prevalences: Sequence[float]) -> pd.DataFrame:
    """Say what an answer would be worth where another share of eyes is referable: enriched data
    sets mislead.

    Args:
        measured: of `measure_points`.
        prevalences: shares above 0 and below 1.

    Returns:
        A row per `point` and `prevalence`: `ppv` and `npv` with bounds.

    Raises:
        EvaluationError: a prevalence is no such share.
    """
    for prevalence in prevalences:
        _check_share("prevalence", prevalence)
    rows = []
    for row in (
        measured[measured["ungradable"] == HANDLING[0]].itertuples() if len(measured) else ()
    ):
        ratios = [
            Interval(*(getattr(row, f"{name}{end}") for end in ENDS), 0)
            for name in ("lr_plus", "lr_minus")
        ]
        for prevalence in prevalences:
            ppv, npv = at_prevalence(ratios, prevalence)
            rows.append(
                {"point": row.point, "prevalence": prevalence} | _put("ppv", ppv) | _put("npv", npv)
            )
    return pd.DataFrame(rows)


def trace_curves(predictions: Predictions) -> dict[str, pd.DataFrame]:
    """The ROC curve with a pointwise band, and the precision-recall curve.

    Returns:
        roc: `specificity`, `sensitivity`; band: `specificity`, `sensitivity_low`,
        `sensitivity_high`; precision_recall: `recall`, `precision`.
    """
    y, p, patient = _unpack(predictions.test)
    alarms, found, _ = roc_curve(y, p)
    _, low, high, _ = bootstrap_patients(score_roc(y, p, SPECIFICITIES), patient)
    precision, recall, _ = precision_recall_curve(y, p)
    band = {"specificity": SPECIFICITIES, "sensitivity_low": low, "sensitivity_high": high}
    return {
        "roc": pd.DataFrame({"specificity": 1 - alarms, "sensitivity": found}),
        "band": pd.DataFrame(band),
        "precision_recall": pd.DataFrame({"recall": recall, "precision": precision}),
    }


def calibrate(predictions: Predictions) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Hold probabilities against what came true, as they are and recalibrated on the validation
    split.

    Returns:
        A row for `as predicted` and, where the validation split allows it, `recalibrated`
        (`probabilities`): `predicted` and `observed` shares of referable eyes, `intercept`,
        `slope`, `brier`, with bounds; and the bins of `bin_probabilities` for each.
    """
    y, p, patient = _unpack(predictions.test)
    versions = {CALIBRATED[0]: p}
    if len(predictions.validation):
        recalibrate = fit_recalibration(*_unpack(predictions.validation)[:2])
        versions |= {CALIBRATED[1]: recalibrate(p)} if recalibrate else {}
    rows = []
    bins = {}
    for name, probability in versions.items():
        intercept, slope = fit_slope(y, probability, patient)
        row = {"probabilities": name, "predicted": probability.mean(), "observed": y.mean()}
        row |= _put("intercept", intercept) | _put("slope", slope)
        rows.append(
            row | _put("brier", bootstrap_patients(score_shares((probability - y) ** 2), patient))
        )
        bins[name] = pd.DataFrame(
            bin_probabilities(y, probability, patient, num_bins=min(10, len(y) // 20 or 1))
        )
    return pd.DataFrame(rows), bins


def weigh_decisions(predictions: Predictions) -> pd.DataFrame:
    """The decision curve (Vickers and Elkin 2006): what referring by the model gains over referring
    all or none.

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
    gain = bootstrap_patients(
        lambda weights: benefit(weights) - np.maximum(everybody(weights), 0), patient
    )
    once = np.ones(len(y))
    table = {
        "threshold": THRESHOLDS,
        "net_benefit": benefit(once),
        "refer_all": everybody(once),
        "gain": gain.value,
        "gain_low": gain.low,
        "gain_high": gain.high,
    }
    return pd.DataFrame(table)


def count_grades(predictions: Predictions) -> pd.DataFrame:
    """The confusion matrix: true grades in rows, predicted ones in columns, photographs of the
    test split.
    """
    grades = [
        pd.Categorical(predictions.test[name], range(5)) for name in ("grade", "predicted_grade")
    ]
    return pd.crosstab(*grades, dropna=False, rownames=["grade"], colnames=["predicted_grade"])


def split_subgroups(predictions: Predictions, points: pd.DataFrame) -> pd.DataFrame:
    """Score subgroups by camera, eye, quality, sex and age.

    Returns:
        A row per `factor` and `level`: `num_images`, `num_patients`, `num_referable`, and with
        bounds `auc` and, where there are operating points, `sensitivity` and `specificity` at the
        one of high sensitivity. Without scores where fewer than MIN_PATIENTS patients have the
        disease or have an eye without it.
    """
    rows = []
    for factor in [name for name in SUBGROUPS if name in predictions.test]:
        levels = predictions.test[factor]
        levels = band_ages(levels) if factor == "age" else levels.astype(str).str.strip()
        for level, part in predictions.test[levels != ""].groupby(levels, observed=True):
            y, p, patient = _unpack(part)
            row = {
                "factor": factor,
                "level": level,
                "num_images": len(part),
                "num_patients": len(np.unique(patient)),
            }
            row |= {"num_referable": int(y.sum())}
            if min(len(np.unique(patient[y])), len(np.unique(patient[~y]))) >= MIN_PATIENTS:
                row |= _put("auc", bootstrap_patients(score_auc(y, p), patient))
                if len(points):
                    called = p >= points["threshold"].iloc[0]
                    row |= _put("sensitivity", proportion_interval(called[y], patient[y]))
                    row |= _put("specificity", proportion_interval(~called[~y], patient[~y]))
            rows.append(row)
    return pd.DataFrame(rows)


def abstain(predictions: Predictions, points: pd.DataFrame) -> pd.DataFrame:
    """What is left to the model if the photographs nearest to the threshold go to a person, share
    by share.

    Near is meant on the logit, to the point of high sensitivity.

    Returns:
        A row per share of ABSTAINED: `abstained`, `num_images` left, `sensitivity` and
        `specificity` of these, with bounds.
    """
    y, p, patient = _unpack(predictions.test)
    threshold = points["threshold"].iloc[0]
    rows = []
    surest = np.argsort(-np.abs(to_logit(p) - to_logit(threshold)), kind="stable")
    for share in ABSTAINED:
        left = surest[: len(surest) - round(share * len(surest))]
        called = p[left] >= threshold
        truth = y[left]
        of = patient[left]
        row = {"abstained": share, "num_images": len(left)}
        row |= _put("sensitivity", proportion_interval(called[truth], of[truth]))
        rows.append(row | _put("specificity", proportion_interval(~called[~truth], of[~truth])))
    return pd.DataFrame(rows)


def list_errors(predictions: Predictions, points: pd.DataFrame, number: int) -> pd.DataFrame:
    """The worst errors at the point of high sensitivity: the highest grades missed, then the surest
    false alarms.

    Returns:
        At most `number` of each: `error` (missed or false alarm), `line` in the file (of an
        ensemble, the first one), `image_id`, `grade`, or `referable` where no grade is known, and
        `probability_referable`.
    """
    test = predictions.test
    threshold = points["threshold"].iloc[0]
    called = test["probability_referable"] >= threshold
    referable = test["referable"] == 1
    known = [name for name in ("grade", "referable") if name in test][:1]
    missed = test[~called & referable].sort_values(
        [*known, "probability_referable"], ascending=[False, True]
    )
    alarms = test[called & ~referable].sort_values("probability_referable", ascending=False)
    columns = ["error", "line", "image_id", *known, "probability_referable"]
    parts = [
        part.head(number).assign(error=error)
        for part, error in zip((missed, alarms), ERRORS, strict=True)
    ]
    return pd.concat(parts).reset_index(names="line")[columns]


def compare_models(found: Sequence[Predictions], points: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Compare each further model with the first, on the same patients in the same draws.

    Args:
        found: of `read_predictions`, the reference first; those of other test photographs are
            passed over.
        points: of each, its own.

    Returns:
        A row per further `model`: `reference`, and the differences with bounds `delta_auc`
        (bootstrap), `delta_auc_delong`, at each one's own point of high sensitivity
        `delta_sensitivity` and `delta_specificity`, and with grades `delta_kappa`.
    """
    reference = found[0]
    rows = []
    for other, theirs_at in zip(found[1:], points[1:], strict=True):
        if set(other.test["image_id"]) != set(reference.test["image_id"]):
            continue
        ours = reference.test.set_index("image_id")
        theirs = other.test.set_index("image_id").loc[ours.index]
        y, p, patient = _unpack(ours)
        q = _unpack(theirs)[1]
        row = {"model": other.name, "reference": reference.name}
        delong = delong_interval(y, [p, q], patient)
        delta = bootstrap_patients(_subtract(score_auc(y, q), score_auc(y, p)), patient)
        if np.isnan(delong.low):  # one of the AUCs is 0 or 1, or a kind has a single patient
            delta = delta._replace(low=np.nan, high=np.nan)
        row |= _put("delta_auc", delta) | _put("delta_auc_delong", delong)
        if len(theirs_at) and len(points[0]):
            called = [x >= own["threshold"].iloc[0] for x, own in ((q, theirs_at), (p, points[0]))]
            for name, kind in (("sensitivity", y), ("specificity", ~y)):
                right = [score_shares((x == y) & kind, kind) for x in called]
                row |= _put(f"delta_{name}", bootstrap_patients(_subtract(*right), patient))
        if reference.has_grades and other.has_grades:
            kappas = [
                score_kappa(ours["grade"], table["predicted_grade"]) for table in (theirs, ours)
            ]
            row |= _put("delta_kappa", bootstrap_patients(_subtract(*kappas), patient))
        rows.append(row)
    return pd.DataFrame(rows)


def _check_share(name: str, share: float) -> None:
    if not 0 < share < 1:
        raise EvaluationError(f"{name} has to lie between 0 and 1: {share:g} does not")


def _count(y: np.ndarray, called: np.ndarray, patient: np.ndarray) -> dict[str, float]:
    row = {
        "tp": (called & y).sum(),
        "fn": (~called & y).sum(),
        "fp": (called & ~y).sum(),
        "tn": (~called & ~y).sum(),
    }
    sensitivity = proportion_interval(called[y], patient[y])
    specificity = proportion_interval(~called[~y], patient[~y])
    ratios = likelihood_ratios(sensitivity, specificity)
    row |= _put("sensitivity", sensitivity) | _put("specificity", specificity)
    row |= _put("ppv", proportion_interval(y[called], patient[called]))
    row |= _put("npv", proportion_interval(~y[~called], patient[~called]))
    return row | _put("lr_plus", ratios[0]) | _put("lr_minus", ratios[1])


def band_ages(levels: pd.Series) -> pd.Series:
    """The band of AGES of each age [years], in the order of the bands, empty where it is no
    number.
    """
    years = pd.to_numeric(levels, errors="coerce")
    names = [f"< {AGES[0]}", f"{AGES[0]}-{AGES[1] - 1}", f">= {AGES[1]}"]
    return (
        pd.cut(years, [-np.inf, *AGES, np.inf], right=False, labels=names)
        .cat.add_categories("")
        .fillna("")
    )


def _unpack(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether it is referable, the probability that it is, whose it is: (n,) each."""
    return (
        (table["referable"] == 1).to_numpy(),
        table["probability_referable"].to_numpy(),
        table["patient_id"].to_numpy(),
    )


def _subtract(a: Score, b: Score) -> Callable:
    return lambda weights: a(weights) - b(weights)


def _put(name: str, interval: Interval) -> dict[str, float]:
    """An interval in the columns of a table, without bounds where no draw of patients changes it.

    An AUC of 1 stays 1 in each draw: the bounds would be [1, 1], of three patients too.
    """
    value, low, high, _ = interval
    bounds = (np.nan, np.nan) if np.isclose(low, high, rtol=1e-9, atol=0) else (low, high)
    return dict(zip((f"{name}{end}" for end in ENDS), (value, *bounds), strict=True))
