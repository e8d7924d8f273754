"""What a report says first: the rules for one sentence, one number, and what limits them.

An answer never says more than its interval: what may be chance is said to be so, and below 30
patients counts stand alone.
"""

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.numbers import ROUNDING, write_days, write_interval, write_probability
from dr_lib.report.figures import is_paper_work
from dr_lib.report.means import write_times
from dr_lib.report.select import ALIKE, WITHIN_NULL, Selection
from dr_lib.report.style import OURS, WRONG, choose_words
from dr_lib.report.training_time import count_unlearned
from dr_lib.statistics.intervals import Interval

# a head and a body, 12 x 16
PERSON = "M6 0a2.6 2.6 0 1 1 0 5.2 2.6 2.6 0 1 1 0-5.2M3 6h6a2 2 0 0 1 2 2v8H1V8a2 2 0 0 1 2-2"


class Number(NamedTuple):
    """A large number of an answer, or people of whom some were called rightly."""

    heading: str
    text: str = ""
    bounds: str = ""
    note: str = ""
    right: int = 0  # of the people drawn
    people: int = 0


class Answer(NamedTuple):
    """The first screen of a report; all texts are in the report's language."""

    sentence: str
    numbers: Sequence[Number] = ()
    more: Sequence[str] = ()
    limits: Sequence[str] = ()
    rests: str = ""
    is_stop: bool = False  # nothing follows from these data

    def write(self, figure: str, say: Callable[[str], str]) -> str:
        """Write the answer for a page, with a figure that is drawn for it."""
        numbers = "".join(map(_write_number, self.numbers))
        parts = [f'<p class="say">{escape(self.sentence)}</p>']
        parts += [f'<div class="two">{numbers}</div>' * bool(numbers), figure]
        parts += [f"<p>{escape(text)}</p>" for text in self.more]
        if self.limits:
            kind = "limit stop" if self.is_stop else "limit"
            title = f"<strong>{say('What limits this.')}</strong>"
            parts.append(f'<div class="{kind}">{title} {escape(" ".join(self.limits))}</div>')
        parts.append(f'<p class="rests">{escape(self.rests)}</p>')
        return f'<section id="answer">{"".join(parts)}</section>'


def answer_training(
    selection: Selection,
    environments: pd.DataFrame,
    places: pd.DataFrame,
    lang: str = "en",
    *,
    published: bool = True,
) -> Answer:
    """Answer how long one training takes, on two machines where both did the same work.

    Args:
        selection: of the rows.
        environments: of `compare_environments`.
        places: of `compare_places`.
        lang: en or pt.
        published: the rows are compared with paper A.

    Example:
        >>> selection = open_rows("A", "papermill_runs/demo", Path(".")).selection
        >>> environments = training_time.compare_environments(selection.finished)
        >>> answer = answer_training(selection, environments, pd.DataFrame())
        >>> answer.sentence[:18]
        'One training takes'
    """
    say = choose_words(lang)
    timed = selection.timed
    if timed.empty:
        sentence = say("No training has been timed yet.")
        finished = [*selection.finished.get("run_id", ()), *selection.null.get("run_id", ())]
        if finished:
            is_finished = selection.excluded["run_id"].isin(finished)
            reasons = map(say, selection.excluded["reason"][is_finished].unique())
            words = say("Training runs have finished, but no time counts: {}.")
            sentence = words.format("; ".join(reasons))
        return Answer(sentence)
    limits = list_limits(timed, say, is_other_work=published and not is_paper_work(timed).any())
    shown = environments.dropna(subset=["train_s"]).iloc[::-1]
    if len(places):  # the most unlike two that did the same work
        widest = places.sort_values("times_as_long").iloc[-1]
        shown = shown.set_index("place").loc[[widest["faster"], widest["slower"]]].reset_index()
    is_short = environments["environment"].is_unique  # no factor has levels
    runs = selection.finished
    counted = runs[
        runs["timed"] | (runs["warmth"] == "apart")
    ]  # cold runs have their own place
    numbers = []
    for _, row in shown.head(2).iterrows():
        mean, bounds = write_times(row, "train_s", lang)
        runs = counted[counted["place"] == row["place"]]
        note = say("n = {}, sessions: {}").format(len(runs), runs["session"].nunique())
        numbers.append(Number(row["environment" if is_short else "place"], mean, bounds, note))
    words = say("One training takes {} on {}.")
    sentence = words.format(numbers[0].text, numbers[0].heading)
    if len(places):
        bounds = [widest.get(f"times_as_long{end}", np.nan) for end in ("_low", "_high")]
        ratio = Interval(widest["times_as_long"], *bounds, widest["n"])
        sentence += " " + answer_ratio(numbers[1].heading, ratio, say, lang)
        if WITHIN_NULL in str(widest.get("times_as_long_scope")):
            limits.append(say("Equal arms of the null control differ by as much."))
        if widest["models"] != ALIKE:
            limits.append(say("Their models are not shown to be equal."))
        if widest["unlike"]:
            limits.append(say("Their software differs, or is not known."))
    return Answer(sentence, numbers, limits=limits, rests=say_rests(timed, say, lang))


def say_rests(timed: pd.DataFrame, say: Callable[[str], str], lang: str) -> str:
    """Say what times rest on: runs, sessions, days."""
    words = say("Rests on {} runs (sessions: {}), {}.")
    days = write_days(timed["started_at"].astype(str), lang)
    return words.format(timed["run_id"].nunique(), timed["session"].nunique(), days)


def answer_ratio(slower: str, ratio: Interval, say: Callable[[str], str], lang: str) -> str:
    """Say how many times as long the slower of two takes, if the interval tells them apart."""
    text = write_interval(*ratio[:3], lang)
    words = say("On {} it takes {} times as long.")
    if not np.isfinite(ratio.low):
        words = say("On {} it takes {} times as long; too few runs bound this.")
    elif ratio.low <= 1 <= ratio.high:
        words = say("On {} it takes {} times as long, and may take equally long.")
    return words.format(slower, text)


def list_limits(
    timed: pd.DataFrame, say: Callable[[str], str], *, is_other_work: bool = False
) -> list[str]:
    """List what limits times: disturbed and synthetic runs, few sessions, other work."""
    limits = []
    if timed.empty:
        return limits
    runs = timed.drop_duplicates("run_id")
    if num_disturbed := int(runs["disturbed"].sum()):
        words = say("{} of {} runs were disturbed, and count.")
        limits.append(words.format(num_disturbed, len(runs)))
    if is_other_work:
        words = "Another network, size or data than the paper's: its times are not compared."
        limits.append(say(words))
    if (timed.get("data_kind", pd.Series(dtype=str)) == "synthetic").any():
        limits.append(say("The images are synthetic."))
    num_unlearned, num_known = count_unlearned(runs)
    if num_unlearned:
        words = say("In {} of {} runs the model has not been shown to be better than chance.")
        limits.append(words.format(num_unlearned, num_known))
    fewest = timed.groupby("environment")["session"].nunique().min()
    if fewest < 3:
        words = say("With {} of 3 sessions on a machine, its next one may differ by more.")
        limits.append(words.format(fewest))
    return limits


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
    figures = []
    for place in range(people):
        kind = f'fill="{OURS}"' if place < right else f'fill="#fff" stroke="{WRONG}"'
        x = 15 * (place % 20) + 1
        y = 19 * (place // 20) + 1
        figures.append(f'<path d="{PERSON}" transform="translate({x} {y})" {kind}/>')
    return (
        f'<svg class="people" role="img" aria-label="{escape(words)}" viewBox="0 0 300 '
        f'{19 * -(-people // 20)}">{"".join(figures)}</svg>'
    )


def _write_number(number: Number) -> str:
    people = number.people and draw_people(number.right, number.people, number.note)
    text = (
        f'<div class="big">{escape(number.text)} <small>{escape(number.bounds)}</small></div>'
    )
    return (
        f"<div><h3>{escape(number.heading)}</h3>{people or ''}{text * bool(number.text)}"
        f"<p>{escape(number.note)}</p></div>"
    )
