"""What an evaluation says first: whom the model finds, and whom it refers needlessly."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.report.answer import Answer, Number, write_parts
from dr_lib.rooms.evaluation.flow import hides_test
from dr_lib.statistics import clustered
from dr_lib.statistics.intervals import UNLEARNED, Interval, has_learned


def answer_evaluation(
    auc: Interval,
    num_patients: int,
    patients: pd.DataFrame,
    aims: Sequence[str],
    others: pd.DataFrame,
    say: Callable[[str], str],
    lang: str,
) -> Answer:
    """Answer whom a model finds, and whom it refers needlessly.

    Args:
        auc: over patients; its `n` is the number of patients of the rarer class.
        num_patients: of both classes.
        patients: a row per operating point, counted by patient: `tp`, `fn`, `fp`, `tn`,
            `sensitivity`, `specificity`, with bounds; empty without operating points.
        aims: what each point's threshold was chosen for, in the language.
        others: a row per other data set: `tested_on`, `auc`, `tp`, `fn`, with bounds.
        say: translates.
        lang: en or pt.
    """
    limits = []
    numbers = []
    more = []
    points = [_count_people(row) for _, row in patients.iterrows()]
    is_known = np.isfinite(auc.value)
    is_reversed = is_known and auc.high < 0.5
    is_shown = is_known and has_learned(auc.low)
    if points:
        (found, diseased), (alarms, healthy) = points[0]
        sentence = say(
            "At the threshold chosen for {}, this model finds {} of {} patients with referable "
            "disease, and refers {} of {} patients without it needlessly."
        ).format(aims[0], found, diseased, alarms, healthy)
        if not healthy:
            sentence = say(
                "At the threshold chosen for {}, this model finds {} of {} patients with referable "
                "disease; all patients have it."
            ).format(aims[0], found, diseased)
        numbers = _draw_people(patients.iloc[0], say, lang)
        for aim, (_, row) in zip(aims[1:], list(patients.iterrows())[1:], strict=False):
            words_more = say("At the threshold chosen for {}, {}.")
            sides = _draw_people(row, say, lang)
            parts = [f"{each.heading.lower()}, {each.note}" for each in sides]
            more.append(words_more.format(aim, "; ".join(parts)))
    else:
        sentence = say(
            "This model ranks photographs better than chance; without an operating point it "
            "refers nobody."
        )
    at_points = sentence
    if not is_known:
        sentence = say(
            "All patients are of one class: whether the model tells them apart cannot be said."
        )
    elif is_reversed:
        sentence = say(
            "This model ranks photographs the wrong way round: check whether the labels or the "
            "probability columns are reversed."
        )
    elif not is_shown:
        text = " ".join(write_parts(auc, lang)).strip()
        sentence = say(UNLEARNED).format(text, num_patients)
        if points:
            words_each = say(
                "It finds {} of {} patients with the disease, and refers {} of {} without it."
            )
            each = words_each.format(found, diseased, alarms, healthy)
            more.insert(0, each if healthy else at_points)
            numbers = []
    if is_known:
        text, bounds = write_parts(auc, lang)
        note = say("0.5 is chance, 1 is perfect")
        heading = say("How well it ranks photographs (AUC)")
        numbers.append(Number(heading, text, bounds, note))
    for _, row in others.iterrows():
        numbers.append(_compare(auc, row, say, lang))
    if is_known and auc.n < clustered.MIN_PATIENTS:
        limits.append(
            say("Too few patients to decide: effectively {} of the rarer class.").format(auc.n)
        )
    return Answer(sentence, numbers, more, limits, is_stop=not is_shown)


def limit_ungradable(
    flow: pd.DataFrame, say: Callable[[str], str], *, is_private: bool
) -> list[str]:
    """Say, if so, that photographs of the test split were not graded: how many, where that may be
    shown.
    """
    number = flow.loc[flow["stage"] == "ungradable", "num_images"].sum()
    if not number:
        return []
    if hides_test(flow) and not is_private:
        return [say("Some photographs could not be graded, and are not counted.")]
    return [say("{} photographs could not be graded, and are not counted.").format(number)]


def _count_people(row: pd.Series) -> tuple[tuple[int, int], tuple[int, int]]:
    """Count who is found of the diseased, and who is referred of the others."""
    found, missed, alarms, passed = (int(row[name]) for name in ("tp", "fn", "fp", "tn"))
    return (found, found + missed), (alarms, alarms + passed)


class People(NamedTuple):
    """How many patients are called so, of 100 with bounds, or of all where they are few."""

    called: int
    of: int
    low: float = np.nan
    high: float = np.nan


def count_people(row: pd.Series, column: str, *, is_opposite: bool = False) -> People:
    """Count the people of a share, or those that it leaves."""
    value, low, high = (row.get(f"{column}{end}", np.nan) for end in ("", "_low", "_high"))
    if is_opposite:
        value, low, high = 1 - value, 1 - high, 1 - low
    number = row.get(f"{column}_counted", np.nan)
    if number > 0:
        return People(round(number * value), int(number))
    # none and all are not rounded to
    called = min(max(round(100 * value), int(value > 0)), 100 - int(value < 1))
    return People(called, 100, 100 * low, 100 * high)


def _draw_people(row: pd.Series, say: Callable[[str], str], lang: str) -> list[Number]:
    """Put an operating point into natural frequencies, of 100; few people into counts."""
    (_, diseased), (_, healthy) = _count_people(row)
    sides = (
        ("sensitivity", diseased, say("Of {} patients with the disease"), say("{} are found")),
        (
            "specificity",
            healthy,
            say("Of {} patients without it"),
            say("{} are referred needlessly"),
        ),
    )
    numbers = []
    for column, number, heading, note in sides:
        if not number:  # each patient has an eye of the other kind
            continue
        is_found = column == "sensitivity"
        people = count_people(row, column, is_opposite=not is_found)
        words = note.format(people.called)
        if np.isfinite(people.low):
            comma = ";" if lang == "pt" else ","
            words += f" [{people.low:.0f}{comma} {people.high:.0f}]"
        right = people.called if is_found else people.of - people.called
        numbers.append(Number(heading.format(people.of), "", "", words, right, people.of))
    return numbers


def _compare(auc: Interval, row: pd.Series, say: Callable[[str], str], lang: str) -> Number:
    """Compare another data set with the first one, of other patients (Zou and Donner 2008)."""
    theirs = Interval(row["auc"], row["auc_low"], row["auc_high"], 0)
    change = theirs.value - auc.value
    low = change - np.hypot(theirs.value - theirs.low, auc.high - auc.value)
    high = change + np.hypot(theirs.high - theirs.value, auc.value - auc.low)
    if high < 0:
        words = say("worse by {}")
        change, low, high = -change, -high, -low
    elif low > 0:
        words = say("better by {}")
    else:
        words = say("not shown to differ: {}")
    difference = Interval(change, low, high, 0)
    text = words.format(" ".join(write_parts(difference, lang)))
    if np.isfinite(row.get("tp", np.nan)):
        same = say("the same threshold finds {} of {} patients")
        text += "; " + same.format(int(row["tp"]), int(row["tp"] + row["fn"]))
    heading = say("On the data set {} (AUC)").format(row["tested_on"])
    return Number(heading, *write_parts(theirs, lang), text)
