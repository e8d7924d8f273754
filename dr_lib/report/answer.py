"""What a report says first: the rules for one sentence, one number, and what limits them.

An answer never says more than its interval: what may be chance is said to be so, and below 30
patients counts stand alone.
"""

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

import pandas as pd

from dr_lib.numbers import write_days
from dr_lib.report.figures import is_paper_work
from dr_lib.report.groups import Selection
from dr_lib.report.means import write_times
from dr_lib.report.style import choose_words, write_scoped
from dr_lib.statistics.equivalence import is_equivalent
from dr_lib.statistics.intervals import Interval, has_learned


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
            bounds = f"<small>{escape(number.bounds)}</small>"
            big = f'<div class="big">{escape(number.text)} {bounds}</div>' * bool(number.text)
            heading = f"<h3>{escape(number.heading)}</h3>"
            numbers += f"<div>{heading}{number.picture}{big}<p>{escape(number.note)}</p></div>"
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
    groups: pd.DataFrame,
    ratios: pd.DataFrame,
    lang: str = "en",
    *,
    column: str = "train_s",
    published: bool = True,
) -> Answer:
    """Answer how long one training takes, or an epoch, in two groups where both did the same work.

    Args:
        selection: of the rows.
        groups: of `tabulate_groups`.
        ratios: of `compare_groups`.
        lang: en or pt.
        column: of the times: train_s, or steady_epoch_s.
        published: the rows are compared with paper A.

    Example:
        >>> from dr_lib.claims.papers import PAPERS
        >>> selection = open_rows(PAPERS["A"], "papermill_runs/demo", Path("."))
        >>> table = groups.tabulate_groups(selection, ["train_s"])
        >>> answer = answer_training(selection, table, pd.DataFrame())
        >>> answer.sentence[:18]
        'One training takes'
    """
    say = choose_words(lang)
    timed = selection.timed
    if timed.empty or groups[column].isna().all():
        reasons = sorted(set(map(say, selection.excluded["reason"])))
        return Answer(say("No training has been timed yet."), limits=reasons)
    limits = list_limits(timed, say, is_other_work=published and not is_paper_work(timed).any())
    shown = groups.dropna(subset=[column]).iloc[::-1].set_index("group", drop=False)
    if len(ratios):  # the most unlike two that did the same work
        widest = ratios.iloc[0]
        shown = shown.loc[[widest["faster"], widest["slower"]]]
    numbers = []
    for _, row in shown.head(2).iterrows():
        mean, bounds = write_times(row, column, lang)
        note = say("n = {}, sessions: {}").format(row["n"], row["sessions"])
        if isinstance(scope := row.get(f"{column}_scope"), str):
            note += f", {say(scope)}"
        numbers.append(Number(row["group"], mean, bounds, note))
    words = say("One training takes {} on {}.")
    if column == "steady_epoch_s":
        words = say("One epoch takes {} on {}.")
    sentence = words.format(numbers[0].text, numbers[0].heading)
    if len(ratios):
        sentence += " " + answer_ratio(widest, say, lang)
        limits.append(say("The two differ in: {}.").format(widest["differs_in"]))
        bounds = [widest["score_difference_low"], widest["score_difference_high"]]
        if not is_equivalent(Interval(0, *bounds, 0)):
            limits.append(say("Their models are not shown to be equal."))
    elif len(shown) > 1:
        limits.append(say("Groups did different work: they have no ratio."))
    return Answer(sentence, numbers, limits=limits, rests=say_rests(timed, say, lang))


def say_rests(timed: pd.DataFrame, say: Callable[[str], str], lang: str) -> str:
    """Say what times rest on: runs, sessions, days."""
    words = say("Rests on {} runs (sessions: {}), {}.")
    days = write_days(timed["started_at"].astype(str), lang)
    return words.format(len(timed), timed["session"].nunique(), days)


def answer_ratio(ratio: pd.Series, say: Callable[[str], str], lang: str) -> str:
    """Say how many times as long the slower of two groups takes, and whether they may be equal.

    Args:
        ratio: a row of `compare_groups`.
        say: translates.
        lang: en or pt.
    """
    words = say("On {} it takes {} times as long.")
    if ratio["times_as_long_low"] <= 1 <= ratio["times_as_long_high"]:
        words = say("On {} it takes {} times as long, and may take equally long.")
    return words.format(ratio["slower"], write_scoped(ratio, "times_as_long", lang))


def list_limits(
    timed: pd.DataFrame, say: Callable[[str], str], *, is_other_work: bool = False
) -> list[str]:
    """List what limits times: disturbed and synthetic runs, few sessions, other work."""
    known = timed.reindex(columns=["data_kind", "metric_auc_test", "metric_auc_test_low"])
    kinds = known["data_kind"]
    lows = known.dropna(subset=["metric_auc_test"])["metric_auc_test_low"].astype(float)
    num_disturbed = int(timed["disturbed"].sum())
    num_unlearned = sum(not has_learned(low) for low in lows)
    fewest = timed.groupby("environment")["session"].nunique().min()
    other = (
        "The paper names no network. This is other work than our reading of it, InceptionV3 at 299 "
        "px: its times are not compared."
    )
    unlearned = "In {} of {} runs the model has not been shown to be better than chance."
    limits = {
        say("{} of {} runs were disturbed, and count.").format(num_disturbed, len(timed)): (
            num_disturbed
        ),
        say(other): is_other_work,
        say("The images are synthetic."): (kinds == "synthetic").any(),
        say(unlearned).format(num_unlearned, len(lows)): num_unlearned,
        say("With {} of 3 sessions on a machine, its next one may differ by more.").format(
            fewest
        ): fewest < 3,
    }
    return [words for words, is_true in limits.items() if is_true]
