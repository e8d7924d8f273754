"""What a report says first: the rules for one sentence, one number, and what limits them.

An answer never says more than its interval: what may be chance is said to be so, and below 30
patients counts stand alone.
"""

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.numbers import write_days, write_interval
from dr_lib.report.figures import is_paper_work
from dr_lib.report.means import write_times
from dr_lib.report.select import ALIKE, Selection, list_shown
from dr_lib.report.style import choose_words
from dr_lib.report.training_time import count_unlearned


class Number(NamedTuple):
    """A large number of an answer, or a picture in its place."""

    heading: str
    text: str = ""
    bounds: str = ""
    note: str = ""
    picture: str = ""  # SVG


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
        parts = [f'<p class="say">{escape(self.sentence)}</p>']
        numbers = ""
        for number in self.numbers:
            numbers += f"<div><h3>{escape(number.heading)}</h3>{number.picture}"
            if number.text:
                bounds = f"<small>{escape(number.bounds)}</small>"
                numbers += f'<div class="big">{escape(number.text)} {bounds}</div>'
            numbers += f"<p>{escape(number.note)}</p></div>"
        if numbers:
            parts.append(f'<div class="two">{numbers}</div>')
        parts.append(figure)
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
        >>> from dr_lib.claims.papers import PAPERS
        >>> selection = open_rows(PAPERS["A"], "papermill_runs/demo", Path(".")).selection
        >>> environments = training_time.compare_environments(selection.finished)
        >>> answer = answer_training(selection, environments, pd.DataFrame())
        >>> answer.sentence[:18]
        'One training takes'
    """
    say = choose_words(lang)
    timed = selection.timed
    if timed.empty:
        sentence = say("No training has been timed yet.")
        if len(selection.finished):
            is_finished = selection.excluded["run_id"].isin(selection.finished["run_id"])
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
    counted = list_shown(selection.finished)
    numbers = []
    for _, row in shown.head(2).iterrows():
        mean, bounds = write_times(row, lang)
        runs = counted[counted["place"] == row["place"]]
        note = say("n = {}, sessions: {}").format(len(runs), runs["session"].nunique())
        numbers.append(Number(row["environment" if is_short else "place"], mean, bounds, note))
    words = say("One training takes {} on {}.")
    sentence = words.format(numbers[0].text, numbers[0].heading)
    if len(places):
        ratio = widest[["times_as_long", "times_as_long_low", "times_as_long_high"]]
        sentence += " " + answer_ratio(numbers[1].heading, ratio, say, lang)
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


def answer_ratio(
    slower: str, ratio: Sequence[float], say: Callable[[str], str], lang: str
) -> str:
    """Say how many times as long the slower of two takes, if the interval tells them apart.

    Args:
        slower: its name.
        ratio: value, lower and upper bound.
        say: translates.
        lang: en or pt.
    """
    value, low, high = ratio
    words = say("On {} it takes {} times as long.")
    if not np.isfinite(low):
        words = say("On {} it takes {} times as long; too few runs bound this.")
    elif low <= 1 <= high:
        words = say("On {} it takes {} times as long, and may take equally long.")
    return words.format(slower, write_interval(value, low, high, lang))


def list_limits(
    timed: pd.DataFrame, say: Callable[[str], str], *, is_other_work: bool = False
) -> list[str]:
    """List what limits times: disturbed and synthetic runs, few sessions, other work."""
    if timed.empty:
        return []
    limits = []
    runs = timed.drop_duplicates("run_id")
    if num_disturbed := int(runs["disturbed"].sum()):
        words = say("{} of {} runs were disturbed, and count.")
        limits.append(words.format(num_disturbed, len(runs)))
    if is_other_work:
        words = (
            "The paper names no network. This is other work than our reading of it, InceptionV3 "
            "at 299 px: its times are not compared."
        )
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
