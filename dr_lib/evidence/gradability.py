"""Fit a threshold of the gradability score on marks of gradable photographs, and say how well
the score tells them.
"""

import numpy as np
import pandas as pd

from dr_lib.evidence.predictions import Predictions
from dr_lib.statistics.bootstrap import bootstrap_patients, score_auc
from dr_lib.statistics.clustered import delong_interval, proportion_interval
from dr_lib.statistics.intervals import Interval

# How data sets mark a photograph as gradable or not: adequate (BRSET), yes (mBRSET); 1 and 0 in a
# column gradable.
MARKS = {"adequate": True, "good": True, "yes": True, "gradable": True}
MARKS |= {"inadequate": False, "bad": False, "no": False, "ungradable": False}


def read_marks(table: pd.DataFrame) -> pd.Series:
    """Whether each photograph was marked gradable (1 or 0, NaN where nobody said): `gradable`, or
    else `quality`.

    A column with other words than those of MARKS holds no marks, nor does a `quality` of numbers:
    in EyeQ 0 is good, in DeepDRiD bad.
    """
    for name, marks in (("gradable", MARKS | {"1": True, "0": False}), ("quality", MARKS)):
        if name in table:
            words = table[name].astype(str).str.strip().str.lower().str.removesuffix(".0")
            known = words[~words.isin(["", "nan"])]
            if len(known) and known.isin(marks).all():
                return words.map(marks).astype(float)
    return pd.Series(np.nan, table.index)


def fit_gradability(predictions: Predictions) -> pd.DataFrame:
    """Choose the threshold on the validation split, and measure it and the score on the test split,
    by patient.

    The threshold is that with the largest sum of sensitivity and specificity (Youden 1950).
    Photographs without a probability count too: of those that nobody can grade a model has often
    none.

    Returns:
        One row: `threshold`, from which on a photograph is called gradable; of the test split
        `num_images`, `num_patients` and `num_ungradable`, and with bounds `auc`, `auc_delong`,
        `sensitivity` (ungradable ones called so) and `specificity`. Empty where a split has no
        score, or not both marks: then nothing is called ungradable.
    """
    table = predictions.table.assign(marked=read_marks(predictions.table))
    if "gradability" not in table:
        return pd.DataFrame()
    table = table[table["marked"].notna() & table["gradability"].notna()]
    sides = [table[table["split"] == side] for side in ("validation", "test")]
    if any(side["marked"].nunique() < 2 for side in sides):
        return pd.DataFrame()
    threshold = choose_youden(sides[0]["marked"], sides[0]["gradability"])
    is_bad = (sides[1]["marked"] == 0).to_numpy()
    patient = sides[1]["patient_id"].to_numpy()
    called = (sides[1]["gradability"] < threshold).to_numpy()
    row = {
        "threshold": threshold,
        "num_images": len(patient),
        "num_patients": len(np.unique(patient)),
    }
    row["num_ungradable"] = int(is_bad.sum())
    scored: dict[str, Interval] = {
        "auc": bootstrap_patients(score_auc(~is_bad, sides[1]["gradability"]), patient),
        "auc_delong": delong_interval(~is_bad, sides[1]["gradability"], patient),
        "sensitivity": proportion_interval(called[is_bad], patient[is_bad]),
        "specificity": proportion_interval(~called[~is_bad], patient[~is_bad]),
    }
    for name, interval in scored.items():
        row |= {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
    return pd.DataFrame([row])


def choose_youden(positive: pd.Series, score: pd.Series) -> float:
    """The threshold of a score, called positive from there on, with the largest sensitivity +
    specificity.
    """
    from sklearn.metrics import roc_curve

    alarms, found, thresholds = roc_curve(positive, score, drop_intermediate=False)
    return float(thresholds[1:][np.argmax((found - alarms)[1:])])
