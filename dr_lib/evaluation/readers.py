"""A model beside the readers of the same photographs: how well do they agree, and is it one of
them?
"""

import itertools

import numpy as np
import pandas as pd

from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.data.labels.readers import list_readings
from dr_lib.errors import DrError
from dr_lib.evaluation.points import find_called
from dr_lib.evaluation.predictions import Predictions
from dr_lib.evaluation.scores import score_calls, score_share, tabulate_scores
from dr_lib.statistics.clustered import excess_kappa, kappa_interval

VERDICTS = ("within the readers' agreement", "below the readers' agreement", "undecided")
KINDS = ("grade", "referral")


def compare_readers(predictions: Predictions, points: pd.DataFrame) -> pd.DataFrame:
    """Compare the model, each reader and the reference with each other, on the test split.

    The model refers at the point of high sensitivity. A reader is part of a reference that is not
    adjudicated, and agrees with it the more.

    Returns:
        A row per pair, `who` and `against` whom: `num_images` that both graded and their
        `num_patients`, `kappa` with quadratic weights, `referral_agreement`, the share of
        photographs that both or neither would refer, and, as if those of `against` were right,
        `sensitivity` and `specificity`. Empty with fewer than two readers.
    """
    grades, referred, patient = _take_graders(predictions, points)
    rows = []
    for who, against in itertools.combinations(referred, 2):
        both = (referred[who].notna() & referred[against].notna()).to_numpy()
        mine, theirs = (referred.loc[both, name].to_numpy(bool) for name in (who, against))
        whose = patient[both]
        kappa = None
        if {who, against} <= set(grades):
            pair = grades.loc[both, [who, against]].dropna()
            kappa = kappa_interval(*pair.to_numpy().T, patient_id=patient[pair.index])
        sensitivity, specificity = score_calls(mine, theirs, whose)
        row = {
            "who": who,
            "against": against,
            "num_images": int(both.sum()),
            "num_patients": len(np.unique(whose)),
            "kappa": kappa,
            "referral_agreement": score_share(mine == theirs, whose),
            "sensitivity": sensitivity,
            "specificity": specificity,
        }
        rows.append(row)
    return tabulate_scores(rows)


def judge_agreement(
    predictions: Predictions, points: pd.DataFrame, margin: float
) -> pd.DataFrame:
    """Judge whether the model agrees with the readers as well as they agree with each other.

    A test of non-inferiority for these readers: it does where the lower bound of the 95 % interval
    of `excess_kappa` is above -margin.

    Returns:
        A row for the `kind` of answer, of KINDS, where the model gives it: `num_patients`, `excess`
        of kappa, `margin` and `verdict` of VERDICTS: undecided without bounds, or where they
        contain -margin.

    Raises:
        DrError: the margin is not above 0.
    """
    if not margin > 0:
        raise DrError(f"margin must be above 0, not {margin:g}")
    grades, referred, patient = _take_graders(predictions, points)
    rows = []
    for kind, table in zip(KINDS, (grades, referred), strict=True):
        readers = [name for name in table if name.startswith("reader")]
        if "model" in table and len(readers) > 1:
            known = table["model"].notna().to_numpy()
            calls = table.loc[known].astype(float)
            excess = excess_kappa(calls["model"], calls[readers].to_numpy().T, patient[known])
            verdict = VERDICTS[2]
            if excess.low > -margin:
                verdict = VERDICTS[0]
            elif excess.high <= -margin:
                verdict = VERDICTS[1]
            row = {
                "kind": kind,
                "num_patients": excess.n,
                "excess": excess,
                "margin": margin,
                "verdict": verdict,
            }
            rows.append(row)
    return tabulate_scores(rows)


def _take_graders(
    predictions: Predictions, points: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Take who graded the test photographs, and whose they are.

    Returns:
        Grades, and whether they refer, a column each for the model, the reference and the readers,
        NaN where one gave none; empty with fewer than two readers.
    """
    test = predictions.test.reset_index(drop=True)
    readings = list_readings(test)
    if len(readings) < 2:
        return pd.DataFrame(), pd.DataFrame(), np.array([])
    read = test[readings].rename(columns=lambda name: name.replace("grade_", "reader "))
    grades = read.assign(reference=test["grade"])
    referred = (grades >= REFERABLE_FROM).where(grades.notna())
    referred["reference"] = test["referable"] == 1
    if "predicted_grade" in test:
        grades.insert(0, "model", test["predicted_grade"])
    if len(points):
        referred.insert(0, "model", find_called(test, points))
    return grades, referred, test["patient_id"].to_numpy()
