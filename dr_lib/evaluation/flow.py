"""Count photographs and patients from offered to evaluated, and hide the counts that name one."""

import pandas as pd

from dr_lib.evaluation.predictions import Predictions
from dr_lib.evaluation.scores import FEW

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
