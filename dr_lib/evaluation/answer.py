"""What an evaluation says first: whom the model finds, and whom it refers needlessly; and the card
of its facts.
"""

from html import escape

import numpy as np
import pandas as pd

from dr_lib.evaluation.scores import take_interval
from dr_lib.evaluation.table import Predictions
from dr_lib.numbers import write_interval, write_probability, write_span
from dr_lib.report.answer import Answer, Number
from dr_lib.report.page import Page
from dr_lib.report.style import OURS, WRONG
from dr_lib.statistics.clustered import MIN_PATIENTS, difference_interval
from dr_lib.statistics.intervals import UNLEARNED, Interval, has_learned

COUNTS = ["tp", "fn", "fp", "tn"]  # who is found, missed, referred needlessly, and passed
# a head and a body, 12 x 16
PERSON = "M6 0a2.6 2.6 0 1 1 0 5.2 2.6 2.6 0 1 1 0-5.2M3 6h6a2 2 0 0 1 2 2v8H1V8a2 2 0 0 1 2-2"


def answer_evaluation(
    summary: pd.Series, patients: pd.DataFrame, others: pd.DataFrame, page: Page
) -> Answer:
    """Answer whom a model finds, and whom it refers needlessly.

    Args:
        summary: the row of `summarise`.
        patients: the rows of `measure_points` by patient; empty without operating points.
        others: rows of `compare_data_sets`, of the same model elsewhere.
        page: of the report, whose language it has.
    """
    say = page.say
    auc = take_interval(summary, "auc")
    rows = [row for _, row in patients.iterrows()]
    more = [_say_point(row, page) for row in rows]
    limits = say_unscored(rows[0], page) if rows else []
    numbers = []
    is_shown = has_learned(auc.low)
    if auc.high < 0.5:
        sentence = say(
            "This model ranks photographs the wrong way round: check whether the labels or the "
            "probability columns are reversed."
        )
    elif not is_shown:
        text = write_span(summary, "auc", page.lang)
        sentence = say(UNLEARNED).format(text, summary["num_patients"])
    elif more:
        sentence = more.pop(0)
        numbers = _draw_point(rows[0], page)
    else:
        sentence = say(
            "This model ranks photographs better than chance; without an operating point it refers "
            "nobody."
        )
    heading = say("How well it ranks photographs (AUC)")
    numbers.append(_write_auc(heading, auc, say("0.5 is chance, 1 is perfect"), page))
    numbers += [_compare(auc, row, page) for _, row in others.iterrows()]
    if summary["rarer_patients"] < MIN_PATIENTS:
        words = say("Too few patients to decide: effectively {} of the rarer class.")
        limits.append(words.format(summary["rarer_patients"]))
    return Answer(sentence, numbers, more, limits, is_stop=not is_shown)


def say_unscored(row: pd.Series, page: Page) -> list[str]:
    """Say how many patients nobody can call healthy: a photograph of theirs has no score."""
    missed, left_out = row[["fn_unscored", "left_out"]]
    words = page.say(
        "A photograph without a score, and no other that is high enough: {} patients with the "
        "disease, who count as missed, and {} without it, who are left out."
    )
    return [words.format(missed, left_out)] if missed + left_out else []


def _say_point(row: pd.Series, page: Page) -> str:
    """Say in counts whom the model finds and refers at an operating point."""
    found, missed, alarms, passed = row[COUNTS]
    point = page.say(row["point"])
    if not missed + passed:
        return page.say("At {}, this model refers everybody.").format(point)
    words = page.say(
        "At {}, this model finds {} of {} patients with referable disease, and refers {} of {} "
        "patients without it needlessly."
    )
    return words.format(point, found, found + missed, alarms, alarms + passed)


def _draw_point(row: pd.Series, page: Page) -> list[Number]:
    """Put an operating point into natural frequencies, where there are enough patients."""
    numbers = []
    for column, heading, note in (
        ("sensitivity", "Patients with the disease", "● {} are found; ○ missed"),
        (
            "specificity",
            "Patients without it",
            "● {} are not referred; ○ referred needlessly",
        ),
    ):
        if np.isfinite(row[column]):
            words = page.say(note).format(write_people(row, column, page))
            picture = draw_people(count_of_100(row[column]), words)
            numbers.append(Number(page.say(heading), note=words, picture=picture))
    return numbers


def write_people(row: pd.Series, column: str, page: Page) -> str:
    """Write a share as people: 92 of 100 (85 to 96)."""
    counts = map(count_of_100, take_interval(row, column)[:3])
    return page.say("{} of 100 ({} to {})").format(*counts)


def count_of_100(share: float) -> int:
    """Round a share to people of 100; none and all are not rounded to."""
    return min(max(round(100 * share), int(share > 0)), 100 - int(share < 1))


def _compare(auc: Interval, row: pd.Series, page: Page) -> Number:
    """Compare another data set, of other patients, with the first one."""
    theirs = take_interval(row, "auc")
    change = difference_interval(theirs, auc)
    words = page.say("not shown to differ: {}")
    if change.high < 0:
        words = page.say("worse by {}")
        change = difference_interval(auc, theirs)
    elif change.low > 0:
        words = page.say("better by {}")
    note = words.format(write_interval(*change[:3], page.lang))
    heading = page.say("On the data set {} (AUC)").format(row["tested_on"])
    return _write_auc(heading, theirs, note, page)


def _write_auc(heading: str, auc: Interval, note: str, page: Page) -> Number:
    text, _, bounds = write_interval(*auc[:3], page.lang).partition(" ")
    return Number(heading, text, bounds, note)


def draw_people(right: int, words: str) -> str:
    """Draw 100 people as an SVG: those who were called rightly are filled, the others hollow."""
    figures = []
    for number in range(100):
        fill = f'fill="{OURS}"' if number < right else f'fill="#fff" stroke="{WRONG}"'
        x = 15 * (number % 20) + 1
        y = 19 * (number // 20) + 1
        figures.append(f'<path d="{PERSON}" transform="translate({x} {y})" {fill}/>')
    return (
        f'<svg class="people" role="img" aria-label="{escape(words)}" viewBox="0 0 300 95">'
        f"{''.join(figures)}</svg>"
    )


def list_facts(
    predictions: Predictions,
    summary: pd.Series,
    points: pd.DataFrame,
    measured: pd.DataFrame,
    page: Page,
) -> dict[str, str]:
    """List the facts of an evaluation by their names.

    Args:
        predictions: that were evaluated.
        summary: the row of `summarise`.
        points: of `choose_points`.
        measured: of `measure_points`.
        page: of the report, whose language they have.
    """
    say = page.say
    facts = {
        say("model"): predictions.name,
        say("model version"): predictions.version or say("unknown"),
        say("data set"): predictions.dataset,
        "AUC": write_span(summary, "auc", page.lang),
    }
    for point, rows in points.groupby("point", sort=False):  # a row for each of pooled folds
        numbers = [
            write_probability(number, page.lang) for number in rows["threshold"].unique()
        ]
        name = f"{say('threshold')}, {say(point)}"
        facts[name] = f"{'; '.join(numbers)} ({say(rows['source'].iloc[0])})"
    for _, row in measured.iterrows():
        counts = say("TP {}, FN {}, FP {}, TN {}").format(*row[COUNTS])
        scores = [
            f"{say(name)} {write_span(row, name, page.lang)}"
            for name in ("sensitivity", "specificity")
        ]
        name = f"{say(row['point'])}, {say(row['unit'])}"
        facts[name] = "; ".join([counts, *scores])
    facts[say("intervals")] = say("95 %, over patients, see docs/evaluation.md")
    facts[say("files, with SHA-256")] = "; ".join(predictions.files)
    return facts
