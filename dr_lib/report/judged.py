"""Claims that were judged: have them judged, and count the verdicts."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dr_lib.report.select import Selection
from dr_lib.rooms import find_all
from dr_lib.statistics.cells import ERROR

PRELIMINARY = "preliminary"
VERDICTS = (
    "holds",
    "does not hold",
    PRELIMINARY,
    "undecided",
    "not comparable",
    "not measured",
)
NONE = ["id", "verdict", "restates", "place"]  # columns of a table without claims


def judge_claims(paper: str, selection: Selection) -> pd.DataFrame:
    """Judge the claims of a paper by the timed rows of a selection.

    Returns:
        The table of the room claims, see `verdicts.judge_claims`; empty where that room is absent.
    """
    for judge in find_all("judge"):
        return judge(paper, selection)
    return pd.DataFrame(columns=NONE)


def judge_data_sets(
    table: pd.DataFrame, trainings: Mapping[str, Mapping[str, Any]]
) -> pd.DataFrame:
    """Judge the claims on a model's performance by data set, see `judge_claims`.

    Args:
        table: a row per model and data set, from the room evaluation's `compare_data_sets`.
        trainings: by model, from its `read_trainings`.
    """
    for judge in find_all("judge_data_sets"):
        return judge(table, trainings)
    return pd.DataFrame(columns=NONE)


def count_by_chance(judged: pd.DataFrame) -> tuple[int, float]:
    """Count the verdicts given, and how many would be wrong by chance if every true value were on a
    bound.

    Each is wrong in ERROR of studies at most, which `make rates` measures. A verdict that follows
    from others which were given, or from what was put in, is no further one; nor is a reading of
    them.
    """
    given = judged[judged["verdict"].isin(VERDICTS[:2])]
    sources = {*given["id"], "inputs"}
    is_again = [
        any(set(ids.split(", ")) <= sources for ids in others)
        for others in zip(given["restates"], given["place"], strict=True)
    ]
    num_given = len(given) - sum(is_again)
    return num_given, ERROR * num_given
