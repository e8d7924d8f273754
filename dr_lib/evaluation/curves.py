"""Curves of an evaluation: calibration and decisions."""

import numpy as np
import pandas as pd

from dr_lib.evaluation.scores import unpack
from dr_lib.evaluation.table import Predictions
from dr_lib.statistics.bootstrap import bootstrap_patients
from dr_lib.statistics.calibration import fit_calibration
from dr_lib.statistics.clustered import proportion_interval
from dr_lib.statistics.intervals import tabulate

# of the decision curve: a miss is 19 to 1 times a needless referral
THRESHOLDS = np.linspace(0.05, 0.5, 10).round(2)
NUM_BINS = 10  # of the calibration curve, with equally many photographs


def calibrate(predictions: Predictions) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare probabilities with outcomes.

    Returns:
        A row with `predicted` and `observed` shares of referable photographs, `intercept` and
        `slope`; and a row per bin of NUM_BINS: `predicted` (mean), `observed`, `num_images`.
    """
    y, p, patient = unpack(predictions.test)
    intercept, slope = fit_calibration(y, p, patient)
    summary = {
        "predicted": p.mean(),
        "observed": y.mean(),
        "intercept": intercept,
        "slope": slope,
    }
    ranks = predictions.test["probability_referable"].rank()  # what ties has one
    rows = []
    for _, inside in predictions.test.groupby(np.ceil(ranks * NUM_BINS / len(p))):
        y, p, patient = unpack(inside)
        observed = proportion_interval(y, patient)._replace(value=y.mean())
        rows.append({"predicted": p.mean(), "observed": observed, "num_images": len(y)})
    return tabulate([summary]), tabulate(rows)


def weigh_decisions(predictions: Predictions) -> pd.DataFrame:
    """Compute the decision curve (Vickers and Elkin 2006).

    Net benefit is the share of true referrals less that of false ones, weighed by the odds of the
    threshold; that of referring nobody is 0.

    Returns:
        A row per threshold of THRESHOLDS: `threshold`, `net_benefit`, and `refer_all`, that of
        referring everybody.
    """
    y, p, patient = unpack(predictions.test)
    odds = THRESHOLDS / (1 - THRESHOLDS)
    benefit = np.where(y[:, None], 1.0, -odds)  # of each photograph, if it is referred
    gained = benefit * (p[:, None] >= THRESHOLDS)

    def score(weights: np.ndarray) -> np.ndarray:
        return (weights @ gained / weights.sum(axis=1, keepdims=True)).T

    found = bootstrap_patients(score, y, patient)
    return pd.DataFrame(
        {
            "threshold": THRESHOLDS,
            **found.columns("net_benefit"),
            "refer_all": benefit.mean(axis=0),
        }
    )
