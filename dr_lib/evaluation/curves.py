"""Curves of an evaluation: ROC and precision-recall, calibration, decisions."""

import numpy as np
import pandas as pd
from sklearn.metrics import precision_recall_curve, roc_curve

from dr_lib.evaluation.predictions import Predictions
from dr_lib.evaluation.scores import (
    name_fold,
    score_calls,
    tabulate_scores,
    unbind,
    unpack,
)
from dr_lib.statistics.bootstrap import bootstrap_patients, score_roc
from dr_lib.statistics.calibration import fit_recalibration, fit_slope, smooth_calibration
from dr_lib.statistics.clustered import brier_interval, difference_interval
from dr_lib.statistics.intervals import Interval

# of the decision curve: a miss is 19 to 1 times a needless referral
THRESHOLDS = np.linspace(0.05, 0.5, 46).round(2)
SPECIFICITIES = np.linspace(1, 0, 101)
CELLS = np.linspace(0, 1, 26)  # of probabilities, from edge to edge
CALIBRATED = ("as predicted", "recalibrated")


def trace_curves(predictions: Predictions) -> dict[str, pd.DataFrame]:
    """Trace the ROC curve with a pointwise band, and the precision-recall curve.

    Returns:
        roc: `specificity`, `sensitivity`; band: `specificity`, `sensitivity_low`,
        `sensitivity_high`; precision_recall: `recall`, `precision`.
    """
    y, p, patient = unpack(predictions.test)
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
    y, p, patient = unpack(predictions.test)
    versions = {CALIBRATED[0]: p}
    recalibrated = recalibrate(predictions)
    if recalibrated is not None:
        versions[CALIBRATED[1]] = recalibrated
    rows = []
    curves = {}
    middle = (CELLS[1:] + CELLS[:-1]) / 2
    for name, probability in versions.items():
        shares = {"predicted": probability.mean(), "observed": y.mean()}
        scores = score_calibration(y, probability, patient)
        rows.append({"probabilities": name, **shares, **scores})
        curve = smooth_calibration(y, probability, patient, middle)
        curves[name] = pd.DataFrame(
            {
                "predicted": middle,
                **curve.columns("observed"),
                "num_referable": np.histogram(probability[y], CELLS)[0],
                "num_others": np.histogram(probability[~y], CELLS)[0],
            }
        )
    return tabulate_scores(rows), curves


def score_calibration(y: np.ndarray, p: np.ndarray, patient: np.ndarray) -> dict[str, Interval]:
    """Score probabilities: `intercept`, `slope`, `brier`; args as of `Eyes`."""
    intercept, slope = fit_slope(y, p, patient)
    return {"intercept": intercept, "slope": slope, "brier": brier_interval(y, p, patient)}


def recalibrate(predictions: Predictions) -> np.ndarray | None:
    """Recalibrate the test probabilities, (n,), on the validation split, for folds on their own;
    None if that is impossible.
    """
    p = predictions.test["probability_referable"].to_numpy().copy()
    fold = name_fold(predictions.test)
    for number in np.unique(fold):
        learned = predictions.validation[name_fold(predictions.validation) == number]
        change = fit_recalibration(*unpack(learned)[:2])
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
    y, p, patient = unpack(predictions.test)
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
            parts = np.array([each[:3] for each in score_calls(called, y, whose)])
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
            "gain_over_all": unbind(over_all, called.all()),
            "gain_over_none": unbind(over_none, not called.any()),
        }
        if recalibrated is not None:
            row["recalibrated"] = (benefit * (recalibrated >= threshold)).mean()
        rows.append(row)
    return tabulate_scores(rows)
