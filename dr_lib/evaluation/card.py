"""A card of the facts that a run knows: of the model, the data, the scores and their methods."""

from collections.abc import Callable

import pandas as pd

from dr_lib.evaluation.answer import COUNTS
from dr_lib.evaluation.table import Predictions
from dr_lib.numbers import write_probability, write_span

METHODS = {  # of the intervals, 95 %, over patients
    "AUC": (
        "on the logit scale, variance between patients (DeLong et al. 1988, Obuchowski 1997), t"
        " quantile"
    ),
    "sensitivity, specificity, predictive values, shares": (
        "Wilson's, with the effective number of photographs by the design effect (Rao and "
        "Scott 1992)"
    ),
    "differences of groups and of data sets": (
        "Newcombe (1998), Zou and Donner (2008); of all groups together 5 % (Bonferroni)"
    ),
    "calibration slope and intercept": "logistic regression, sandwich variance over patients",
    "other scores": "percentile bootstrap of 2,000 draws of patients (seed 0)",
}


def list_facts(
    predictions: Predictions,
    summary: pd.Series,
    points: pd.DataFrame,
    measured: pd.DataFrame,
    say: Callable[[str], str],
    lang: str,
) -> dict[str, str]:
    """List the facts of an evaluation by their names, in the language of `say`.

    Args:
        predictions: that were evaluated.
        summary: the row of `summarise`.
        points: of `choose_points`.
        measured: of `measure_points`.
        say: translates.
        lang: en or pt.
    """
    facts = {
        say("model"): predictions.name,
        say("model version"): predictions.version or say("unknown"),
        say("data set"): predictions.dataset,
        "AUC": write_span(summary, "auc", lang),
    }
    for row in points.itertuples():
        threshold = f"{write_probability(row.threshold, lang)} ({say(row.source)})"
        facts[f"{say('threshold')}, {say(row.point)}"] = threshold
    for _, row in measured.iterrows():
        scores = [
            f"{say(name)} {write_span(row, name, lang)}"
            for name in ("sensitivity", "specificity")
        ]
        counts = say("TP {}, FN {}, FP {}, TN {}").format(*row[COUNTS])
        facts[f"{say(row['point'])}, {say(row['unit'])}"] = f"{counts}; {'; '.join(scores)}"
    for names, method in METHODS.items():
        facts[f"{say('interval')}: {say(names)}"] = say(method)
    facts[say("files, with SHA-256")] = "; ".join(predictions.files)
    return facts
