"""What an evaluation says first: whom the model finds, and whom it refers needlessly."""

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.evaluation.flow import hides_test
from dr_lib.evaluation.scores import take_interval
from dr_lib.numbers import ROUNDING, write_probability
from dr_lib.report.answer import Answer, Number
from dr_lib.report.style import OURS, WRONG, choose_words
from dr_lib.statistics import clustered
from dr_lib.statistics.intervals import UNLEARNED, Interval, has_learned


def answer_evaluation(
    summary: pd.Series,
    patients: pd.DataFrame,
    aims: Sequence[str],
    others: pd.DataFrame,
    lang: str,
) -> Answer:
    """Answer whom a model finds, and whom it refers needlessly.

    Args:
        summary: the row of `summarise`.
        patients: a row per operating point, counted by patient: `tp`, `fn`, `fp`, `tn`,
            `sensitivity`, `specificity`, with bounds; empty without operating points.
        aims: what each point's threshold was chosen for, in the language.
        others: a row per other data set: `tested_on`, `auc`, `tp`, `fn`, with bounds.
        lang: en or pt.
    """
    say = choose_words(lang)
    auc = take_interval(summary, "auc", summary["rarer_patients"])
    limits = []
    numbers = []
    more = []
    is_known = np.isfinite(auc.value)
    is_shown = has_learned(auc.low)
    sentence = say(
        "This model ranks photographs better than chance; without an operating point it refers "
        "nobody."
    )
    if len(patients):
        numbers, *further = [_draw_people(row, say, lang) for _, row in patients.iterrows()]
        found, missed, alarms, passed = read_counts(patients.iloc[0])
        counts = (found, found + missed, alarms, alarms + passed)
        words = say(
            "At the threshold chosen for {}, this model finds {} of {} patients with referable "
            "disease; all patients have it."
        )
        if counts[-1]:
            words = say(
                "At the threshold chosen for {}, this model finds {} of {} patients with referable "
                "disease, and refers {} of {} patients without it needlessly."
            )
        sentence = words.format(aims[0], *counts)
        for aim, sides in zip(aims[1:], further, strict=False):
            parts = [f"{each.heading.lower()}, {each.note}" for each in sides]
            words = say("At the threshold chosen for {}, {}.")
            more.append(words.format(aim, "; ".join(parts)))
    at_points = sentence
    if not is_known:
        sentence = say(
            "All patients are of one class: whether the model tells them apart cannot be said."
        )
    elif auc.high < 0.5:
        sentence = say(
            "This model ranks photographs the wrong way round: check whether the labels or the "
            "probability columns are reversed."
        )
    elif not is_shown:
        text = " ".join(write_parts(auc, lang)).strip()
        sentence = say(UNLEARNED).format(text, summary["num_patients"])
        if len(patients):
            more.insert(0, at_points)
            numbers = []
    if is_known:
        heading = say("How well it ranks photographs (AUC)")
        note = say("0.5 is chance, 1 is perfect")
        numbers.append(Number(heading, *write_parts(auc, lang), note))
    numbers += [_compare(auc, row, say, lang) for _, row in others.iterrows()]
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


def read_counts(row: pd.Series) -> tuple[int, ...]:
    """Read who is found, missed, referred needlessly, and passed."""
    return tuple(int(row[name]) for name in ("tp", "fn", "fp", "tn"))


class People(NamedTuple):
    """How many patients are called so, of 100 with bounds, or of all where they are few."""

    called: int
    of: int
    low: float = np.nan
    high: float = np.nan


def count_people(row: pd.Series, column: str, *, is_opposite: bool = False) -> People:
    """Count the people of a share, or those that it leaves."""
    value, low, high, _ = take_interval(row, column)
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
    found, missed, alarms, passed = read_counts(row)
    ill = (say("Of {} patients with the disease"), say("{} are found"))
    well = (say("Of {} patients without it"), say("{} are referred needlessly"))
    numbers = []
    for column, number, (heading, note) in (
        ("sensitivity", found + missed, ill),
        ("specificity", alarms + passed, well),
    ):
        if number:  # each patient may have an eye of the other kind
            is_found = column == "sensitivity"
            people = count_people(row, column, is_opposite=not is_found)
            words = note.format(people.called)
            if np.isfinite(people.low):
                comma = ";" if lang == "pt" else ","
                words += f" [{people.low:.0f}{comma} {people.high:.0f}]"
            right = people.called if is_found else people.of - people.called
            picture = draw_people(right, people.of, words)
            numbers.append(Number(heading.format(people.of), note=words, picture=picture))
    return numbers


def _compare(auc: Interval, row: pd.Series, say: Callable[[str], str], lang: str) -> Number:
    """Compare another data set with the first one, of other patients (Zou and Donner 2008)."""
    theirs = take_interval(row, "auc")
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


def write_parts(interval: Interval, lang: str) -> tuple[str, str]:
    """Write a value, and its bounds in brackets, with two decimals, or as many as they need: a
    difference near 0 keeps its sign.
    """
    value, low, high = interval[:3]
    ends = [abs(end) for end in (value, low, high) if abs(end) > ROUNDING]
    digits = [-math.floor(math.log10(end)) for end in ends]
    decimals = max(3 if high - low < 0.03 else 2, *digits, 0)
    numbers = [write_probability(each, lang, decimals) for each in (value, low, high)]
    comma = "; " if lang == "pt" else ", "
    bounds = f"[{comma.join(numbers[1:])}]" if np.isfinite(low) else ""
    return numbers[0], bounds


def draw_people(right: int, people: int, words: str) -> str:
    """Draw people as an SVG: those who were called rightly are filled, the others hollow."""
    # a head and a body, 12 x 16
    person = (
        "M6 0a2.6 2.6 0 1 1 0 5.2 2.6 2.6 0 1 1 0-5.2M3 6h6a2 2 0 0 1 2 2v8H1V8a2 2 0 0 1 2-2"
    )
    figures = []
    for place in range(people):
        kind = f'fill="{OURS}"' if place < right else f'fill="#fff" stroke="{WRONG}"'
        x = 15 * (place % 20) + 1
        y = 19 * (place // 20) + 1
        figures.append(f'<path d="{person}" transform="translate({x} {y})" {kind}/>')
    return (
        f'<svg class="people" role="img" aria-label="{escape(words)}" viewBox="0 0 300 '
        f'{19 * -(-people // 20)}">{"".join(figures)}</svg>'
    )
