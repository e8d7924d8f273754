"""What a report says first: the rules for one sentence, one number, and what limits them.

An answer never says more than its interval: what may be chance is said to be so, and below 30
patients counts stand alone.
"""

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.numbers import write_days, write_number, write_probability
from dr_lib.report.figures import is_paper_work
from dr_lib.report.means import write_times
from dr_lib.report.select import ALIKE, Selection
from dr_lib.report.style import OURS, choose_words, name_term
from dr_lib.report.training_time import count_unlearned
from dr_lib.statistics import clustered
from dr_lib.statistics.intervals import UNLEARNED, Interval, has_learned

MIN_PATIENTS = 30  # fewer are counted, and have no percentage
WRONG_LIGHT = "#f0b48a"  # of people: not found, or referred needlessly


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
        numbers = _draw_people(patients.iloc[0], say, lang)
        for aim, (_, row) in zip(aims[1:], list(patients.iterrows())[1:], strict=False):
            words_more = say("At the threshold chosen for {}, {}; {}.")
            with_it, without_it = _draw_people(row, say, lang)
            parts = [f"{each.heading.lower()}, {each.note}" for each in (with_it, without_it)]
            more.append(words_more.format(aim, *parts))
    else:
        sentence = say(
            "This model ranks photographs better than chance; without an operating point it "
            "refers nobody."
        )
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
            more.insert(0, words_each.format(found, diseased, alarms, healthy))
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


def _count_people(row: pd.Series) -> tuple[tuple[int, int], tuple[int, int]]:
    """Count who is found of the diseased, and who is referred of the others."""
    found, missed, alarms, passed = (int(row[name]) for name in ("tp", "fn", "fp", "tn"))
    return (found, found + missed), (alarms, alarms + passed)


def _draw_people(row: pd.Series, say: Callable[[str], str], lang: str) -> list[Number]:
    """Put an operating point into natural frequencies, of 100; few people into counts."""
    (found, diseased), (alarms, healthy) = _count_people(row)
    sides = (
        ("sensitivity", found, diseased, say("Of {} patients with the disease")),
        ("specificity", alarms, healthy, say("Of {} patients without it")),
    )
    notes = (say("{} are found"), say("{} are referred needlessly"))
    numbers = []
    for (column, called, number, heading), note in zip(sides, notes, strict=True):
        people = 100 if number >= MIN_PATIENTS else number
        bounds = ""
        if people == 100:
            value = row[column]
            low = row[f"{column}_low"]
            high = row[f"{column}_high"]
            if column == "specificity":
                value, low, high = 1 - value, 1 - high, 1 - low
            called = round(100 * value)
            comma = ";" if lang == "pt" else ","
            if np.isfinite(low):
                bounds = f" [{100 * low:.0f}{comma} {100 * high:.0f}]"
        right = called if column == "sensitivity" else people - called
        words = note.format(called) + bounds
        numbers.append(Number(heading.format(people), "", "", words, right, people))
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
    if shown["environment"].is_unique:
        shown = shown.assign(place=shown["environment"])
    numbers = []
    for _, row in shown.head(2).iterrows():
        mean, bounds = write_times(row, "train_s", lang)
        note = say("n = {}, sessions: {}").format(row["n"], row["sessions"])
        numbers.append(Number(row["place"], mean, bounds, note))
    words = say("One training takes {} on {}.")
    sentence = words.format(numbers[0].text, numbers[0].heading)
    if len(places):
        bounds = [widest.get(f"times_as_long{end}", np.nan) for end in ("_low", "_high")]
        ratio = Interval(widest["times_as_long"], *bounds, widest["n"])
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


def answer_ratio(slower: str, ratio: Interval, say: Callable[[str], str], lang: str) -> str:
    """Say how many times as long the slower of two takes, if the interval tells them apart."""
    text = " ".join(write_parts(ratio, lang)).strip()
    words = say("On {} it takes {} times as long.")
    if not np.isfinite(ratio.low):
        words = say("On {} it takes {} times as long; too few runs bound this.")
    elif ratio.low <= 1 <= ratio.high:
        words = say("On {} it takes {} times as long, and may take equally long.")
    return words.format(slower, text)


def answer_shares(variation: pd.DataFrame, say: Callable[[str], str], lang: str) -> Answer:
    """Answer which factors explain the variation, each only if it can be told from none.

    Args:
        variation: a row per `term`: `share` of the variation, `p`, `num_factors`.
        say: translates.
        lang: en or pt.
    """
    alone = variation[variation["num_factors"] == 1].sort_values("share", ascending=False)
    is_told = alone["p"] < 0.05
    numbers = []
    for row in alone[is_told].head(2).itertuples():
        p = write_probability(row.p, lang, 3)
        text = write_number(100 * row.share, lang, "{:.0f} %")
        note = f"p {p}" if p.startswith("<") else f"p = {p}"
        numbers.append(Number(name_term(row.term, say).capitalize(), text, "", note))
    if not is_told.any():
        sentence = say(
            "No factor has been shown to change the time of an epoch: what they seem to explain "
            "may be chance."
        )
        return Answer(sentence, is_stop=True)
    names = [name_term(term, say) for term in alone.loc[is_told, "term"]]
    sentence = say("What changes the time of an epoch: {}, the strongest first.")
    sentence = sentence.format(", ".join(names))
    more = []
    if len(others := alone.loc[~is_told, "term"]):
        words = say("Not shown to change it: {}.")
        more.append(words.format(", ".join(name_term(term, say) for term in others)))
    return Answer(sentence, numbers, more)


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
    """Write a value, and its bounds in brackets, with two decimals, or as many as they need."""
    low, high = interval.low, interval.high
    decimals = 3 if high - low < 0.03 else 2
    numbers = [write_probability(each, lang, decimals) for each in (interval.value, low, high)]
    comma = "; " if lang == "pt" else ", "
    bounds = f"[{comma.join(numbers[1:])}]" if np.isfinite(low) else ""
    return numbers[0], bounds


def _write_number(number: Number) -> str:
    people = ""
    if number.people:
        squares = []
        for place in range(number.people):
            colour = OURS if place < number.right else WRONG_LIGHT
            x, y = 15 * (place % 20), 15 * (place // 20)
            squares.append(
                f'<rect x="{x}" y="{y}" width="12" height="12" rx="3" fill="{colour}"/>'
            )
        height = 15 * -(-number.people // 20)
        words = escape(number.note)
        people = (
            f'<svg class="people" role="img" aria-label="{words}" viewBox="0 0 300 {height}">'
            f"{''.join(squares)}</svg>"
        )
    text = (
        f'<div class="big">{escape(number.text)} <small>{escape(number.bounds)}</small></div>'
    )
    return (
        f"<div><h3>{escape(number.heading)}</h3>{people}{text * bool(number.text)}"
        f"<p>{escape(number.note)}</p></div>"
    )
