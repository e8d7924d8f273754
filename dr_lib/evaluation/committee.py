"""The committee's page: an evaluation in natural frequencies, for readers who are no engineers."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from html import escape

import numpy as np
import pandas as pd

from dr_lib.data.labels.grades import GRADES, REFERABLE_FROM
from dr_lib.evaluation.answer import (
    People,
    count_people,
    draw_people,
    limit_ungradable,
    read_counts,
)
from dr_lib.evaluation.checklist import Evaluated
from dr_lib.evaluation.points import keep_usual
from dr_lib.evaluation.scores import (
    COUNTED,
    count_below,
    find_worse_eyes,
)
from dr_lib.numbers import write_day, write_decimals
from dr_lib.report.page import Page, write_table
from dr_lib.report.render import write_page
from dr_lib.report.style import translate
from dr_lib.statistics.intervals import LEVEL, has_learned

STYLE = """<style>.page { display: block; max-width: 800px } .two { align-items: end }
.two h3 { font-weight: 400 } .say { font-size: 19px; margin: 12px 0 6px } .signed td { height: 3em }
@media print { @page { margin: 13mm 16mm } body { font-size: 9.5pt; line-height: 1.35 }
h1 { font-size: 16pt; margin: 0 0 8pt } h2 { margin: 11pt 0 3pt } .say { font-size: 11pt }
.two { grid-template-columns: 1fr 1fr } .two p, .two h3, .limit { font-size: 9.5pt }
ul, p, .say, .two, .scroll { margin: 4pt 0 } .people { width: 80% } }</style>"""
AIMS = {  # of the operating points, for people
    "high sensitivity": "With a score chosen to miss few patients",
    "high specificity": "With a higher score, chosen to send few patients needlessly",
}
NOT_FOR = (
    "To decide alone: it is not a medical device. A doctor decides about each patient.",
    "To tell patients that their eyes are healthy: one who is not sent may have the disease.",
    "To look for other diseases of the eye: this test says nothing about them.",
    "With cameras, places or patients unlike those tested, before it is tested there.",
    "With photographs that are too poor to be graded: these patients need a doctor.",
)
UNKNOWN = (
    "Whether the program does as well in a hospital, or with a camera, that was not tested.",
    "Whether the doctors' grades are right: this test takes them as the truth.",
    "Whether patients are helped: this test looked at photographs alone.",
    "How many of the patients who are sent have the disease where it is rarer: fewer than here.",
)
MAX_GROUPS = 14  # in the table of the page; the report has all


def write_committee(page: Page, evaluated: Evaluated, groups: pd.DataFrame) -> str:
    """Write the page that a committee reads and signs, of one or two A4 pages.

    Args:
        page: of the report, whose language it has.
        evaluated: the tables of the report.
        groups: of `split_subgroups` by patient, as they may be shown.
    """
    say = page.say
    predictions = evaluated.predictions
    points = keep_usual(evaluated.patients)
    is_shown = has_learned(evaluated.summary["auc_low"].iloc[0])
    is_ill = find_worse_eyes(predictions.test)["referable"] == 1
    warnings = []
    if predictions.is_synthetic:
        warnings.append(say("No patient was tested: a computer made the pictures."))
    if not is_shown:
        words = "The program is not shown to be better than guessing: do not use it."
        warnings.append(say(words))
    if min(is_ill.sum(), (~is_ill).sum()) < COUNTED:
        words = "So few patients with the disease, or without it, cannot show how good it is."
        warnings.append(say(words))
    counts = say("{} patients, {} of them with the disease; {} photographs.").format(
        len(is_ill), is_ill.sum(), len(predictions.test)
    )
    known, unknown = _describe_data(say, evaluated, groups)
    words = "Two numbers in brackets hold the true number between them in {} of 100 such tests."
    names = [say("Name"), say("Role"), say("Date"), say("Signature")]
    lines = write_table(pd.DataFrame("", range(3), names))
    parts = [
        f"{STYLE}<main><header><p>{say('For the ethics committee')}, ",
        write_day(datetime.now(UTC).isoformat(), page.lang),
        f"</p><h1>{say('Whom does this program find, and whom does it miss?')}</h1></header>",
        f'<p class="limit stop">{" ".join(warnings)}</p>' * bool(warnings),
        f"<p>{_explain(say, predictions.test, is_sent=len(points) > 0)}</p>",
        _write_list(say("Who was tested"), [counts, *known]),
        f"<h2>{say('Who is found, missed, or sent needlessly')}</h2>",
        *(_write_point(say, row, is_shown=is_shown) for _, row in points.iterrows()),
        f"<p>{say(words).format(round(100 * LEVEL))}</p>",
        f"<h2>{say('On whom it fails')}</h2>{_write_groups(page, points, groups)}",
        _write_list(say("What it must not be used for"), map(say, NOT_FOR)),
        _write_list(say("What is not known"), [*map(say, UNKNOWN), unknown]),
        f'<h2>{say("Who signs")}</h2><div class="signed">{lines}</div></main>',
    ]
    return write_page("".join(parts), page.lang)


def _write_list(title: str, sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<h2>{title}</h2><ul>{items}</ul>"


def _explain(say: Callable[[str], str], test: pd.DataFrame, *, is_sent: bool) -> str:
    """Explain what the program does, and what is called the disease."""
    disease = say("what the doctors marked as diabetic retinopathy to be referred")
    if "grade" in test and not count_below(test):
        disease = say("diabetic retinopathy of grade {} or worse, on the scale from {} to {}")
    what = say(
        "A computer program scores photographs of the back of the eye: the higher the score, the "
        "more a photograph looks like the disease, which is {}."
    )
    words = "No score was fixed from which patients are sent to a doctor: it sends none."
    if is_sent:
        words = (
            "If a photograph of a patient reaches a score that was fixed before this test, the "
            "program sends the patient to a doctor."
        )
    disease = disease.format(REFERABLE_FROM, 0, len(GRADES) - 1)
    return f"{what.format(disease)} {say(words)}"


def _describe_data(
    say: Callable[[str], str], evaluated: Evaluated, groups: pd.DataFrame
) -> tuple[list[str], str]:
    """Describe what is known of the data, and what is not, in sentences; cameras as the groups may
    be shown.
    """
    predictions = evaluated.predictions
    test = predictions.test
    years = re.findall(r"(?<!\d)(?:19|20)\d\d(?!\d)", " ".join(test.get("visit", ())))
    cameras = groups.query("factor == 'camera'") if len(groups) else groups
    names = [line.level if line.num_patients != "–" else "–" for line in cameras.itertuples()]
    facts = {
        say("Program"): f"{predictions.name} {predictions.version}".strip(),
        say("Data set"): predictions.dataset,
        say("Years"): " – ".join(sorted({min(years), max(years)})) if years else "",
        say("Camera"): ", ".join(dict.fromkeys(names)),
        say("Who graded"): "",  # no column says it
    }
    known = [f"{name}: {value}." for name, value in facts.items() if value]
    known += limit_ungradable(evaluated.flow, say, is_private=False)
    missing = [name for name, value in facts.items() if not value]
    missing += [say(name) for name in ("quality", "sex", "age") if not any(test.get(name, ()))]
    words = say("Not recorded in the data: {}.")
    return known, words.format(", ".join(missing).lower() or "–")


def _write_point(say: Callable[[str], str], row: pd.Series, *, is_shown: bool) -> str:
    """Write whom one setting finds, misses and sends needlessly; with figures, if it is shown to be
    better than chance.
    """
    found, missed, alarms, passed = read_counts(row)
    ill = say("Of {} patients with the disease, {} are found and {} missed.")
    well = say("All patients have the disease: whom it sends needlessly is not known.")
    if alarms + passed:
        well = say("Of {} patients without it, {} are not sent and {} sent needlessly.")
    blocks = [f'<p class="say">{say(AIMS[row["point"]])}</p><div class="two">']
    for column, words, legend in (
        (
            "sensitivity",
            ill.format(found + missed, found, missed),
            say("{} are found; hollow: missed."),
        ),
        (
            "specificity",
            well.format(alarms + passed, passed, alarms),
            say("{} are not sent; hollow: sent."),
        ),
    ):
        blocks.append(f"<div><h3>{words}</h3>")
        if is_shown and np.isfinite(row[column]):
            people = count_people(row, column)
            below = legend.format(_write_people(say, people))
            blocks.append(f"{draw_people(people.called, people.of, below)}<h3>{below}</h3>")
        blocks.append("</div>")
    words = say("Of the {} patients whom it sends, {} have the disease.")
    return f"{''.join(blocks)}</div><p>{words.format(found + alarms, found)}</p>"


def _write_people(say: Callable[[str], str], people: People) -> str:
    """Write people: 92 of 100 (85 to 96), or 27 of 29."""
    text = say("{} of {}").format(people.called, people.of)
    if np.isfinite(people.low):
        text += " " + say("({:.0f} to {:.0f})").format(people.low, people.high)
    return text


def is_worse(right: int, number: int, others_right: int, others: int) -> bool:
    """Whether a share of patients is shown to be lower than that of all others.

    Newcombe's interval (1998, Stat. Med. 17, method 10) of the difference lies below 0.
    """
    from statsmodels.stats.proportion import confint_proportions_2indep  # takes a second

    if not (number and others):
        return False
    _, high = confint_proportions_2indep(
        right, number, others_right, others, method="newcomb", compare="diff"
    )
    return bool(high < 0)


def _write_groups(page: Page, points: pd.DataFrame, groups: pd.DataFrame) -> str:
    """Write in which groups the first setting is shown to fail, and what it does for each."""
    say = page.say
    name_word = partial(translate, lang=page.lang)
    unknown = say("The data name no groups of patients that are large enough: not known.")
    if points.empty or groups.empty:
        return f"<p>{unknown}</p>"
    first = points.iloc[0]
    is_hidden = groups["num_patients"] == "–"
    lines = []
    failing = []
    for _, row in groups[~is_hidden].query("factor != 'eye'").iterrows():
        level = write_decimals(row["level"].replace(">=", "≥"), page.lang)
        name = f"{name_word(row['factor'])}: {name_word(level)}"
        line = {say("Group"): name, say("Patients"): str(row["num_patients"])}
        for column, header, right, wrong in (
            ("sensitivity", say("With the disease: found"), "tp", "fn"),
            ("specificity", say("Without it: not sent"), "tn", "fp"),
        ):
            line[header] = say("too few to say")
            if np.isfinite(row.get(column, np.nan)):
                share = _write_people(say, count_people(row, column))
                if row[f"{column}_counted"] > 0:
                    line[header] = f"{share}: {line[header]}"
                    continue
                line[header] = share
                num_ill = row["num_diseased"]
                number = num_ill if right == "tp" else row["num_patients"] - num_ill
                others = first[right] + first[wrong] - number
                right_here = round(number * row[column])
                if is_worse(right_here, number, first[right] - right_here, others):
                    failing.append(f"{name}, {header.lower()} {share}")
        lines.append(line)
    words = [say("No group is shown to do worse than the others; small groups can hide it.")]
    if failing:
        words = "; ".join(failing)
        words = [say("Worse than in the other patients, beyond chance: {}.").format(words)]
    if is_hidden.any():
        hidden = ", ".join(map(name_word, groups.loc[is_hidden, "factor"].unique()))
        words.append(say("Too few patients to be shown by: {}.").format(hidden))
    if len(lines) > MAX_GROUPS:
        words.append(say("{} more groups are in report.html.").format(len(lines) - MAX_GROUPS))
    table = write_table(pd.DataFrame(lines[:MAX_GROUPS]))
    return f"<p>{escape(' '.join(words))}</p>{table}" if lines else f"<p>{unknown}</p>"
