"""The committee's page: an evaluation in natural frequencies, for readers who are no engineers."""

from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape

import numpy as np
import pandas as pd

from dr_lib.evaluation.answer import COUNTS, say_unscored, write_people
from dr_lib.evaluation.scores import find_worse_eyes
from dr_lib.evaluation.table import Predictions
from dr_lib.numbers import write_day, write_decimals
from dr_lib.report.page import Page, write_table
from dr_lib.report.render import write_page
from dr_lib.statistics.clustered import MIN_SHARED
from dr_lib.statistics.intervals import has_learned

STYLE = """<style>.page { display: block; max-width: 800px } td { height: 2.6em }
@media print { @page { margin: 13mm 16mm } body { font-size: 9.5pt; line-height: 1.35 }
h1 { font-size: 16pt; margin: 0 0 8pt } h2 { margin: 9pt 0 3pt } ul, p { margin: 3pt 0 } }
</style>"""
DOES = (
    "It scores photographs of the back of the eye: the higher the score, the more a photograph "
    "looks like diabetic retinopathy that a doctor has to see, as doctors graded it.",
    "If a photograph of a patient reaches a score that was fixed before this test, it sends the "
    "patient to a doctor.",
    "Between the two numbers in parentheses lies the true one in 95 of 100 such tests.",
)
AIMS = {  # of the operating points, for people
    "high sensitivity": "With a score chosen to miss few patients",
    "high specificity": "With a higher score, chosen to send few patients needlessly",
    "": "With the score {}, given by those who made this test",
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


def write_committee(
    page: Page,
    predictions: Predictions,
    auc_low: float,
    patients: pd.DataFrame,
    groups: pd.DataFrame,
) -> str:
    """Write the page that a committee reads and signs, of one A4 page.

    Args:
        page: of the report, whose language it has.
        predictions: that were evaluated.
        auc_low: lower bound of their AUC.
        patients: the rows of `measure_points` by patient.
        groups: of `score_groups`.
    """
    say = page.say
    is_ill = find_worse_eyes(predictions.tested)["referable"] == 1
    warnings = {
        "No patient was tested: a computer made the pictures.": predictions.is_synthetic,
        "The program is not shown to be better than guessing: do not use it.": (
            not has_learned(auc_low)
        ),
        "So few patients with the disease, or without it, cannot show how good it is.": (
            min(is_ill.sum(), (~is_ill).sum()) < MIN_SHARED
        ),
        "No score was fixed from which patients are sent to a doctor: it sends none.": (
            patients.empty
        ),
    }
    warning = " ".join(say(words) for words, is_true in warnings.items() if is_true)
    counts = say("{} patients, {} of them with the disease; {} photographs.").format(
        len(is_ill), is_ill.sum(), len(predictions.test)
    )
    program = say("Program: {} {}. Data set: {}.").format(
        predictions.name, predictions.version, predictions.dataset
    )
    points = [_write_point(page, row) for _, row in patients.iterrows()]
    names = [say("Name"), say("Role"), say("Date"), say("Signature")]
    parts = [
        f"{STYLE}<main><header><p>{say('For the ethics committee')}, ",
        write_day(datetime.now(UTC).isoformat(), page.lang),
        f"</p><h1>{say('Whom does this program find, and whom does it miss?')}</h1></header>",
        f'<p class="limit stop">{warning}</p>' * bool(warning),
        _write_list(say("What it does"), map(say, DOES)),
        _write_list(say("Who was tested"), [counts, program]),
        f"<h2>{say('Who is found, missed, or sent needlessly')}</h2>",
        *points,
        f"<h2>{say('On whom it fails')}</h2><p>{escape(describe_groups(page, groups))}</p>",
        _write_list(say("What it must not be used for"), map(say, NOT_FOR)),
        _write_list(say("What is not known"), map(say, UNKNOWN)),
        f"<h2>{say('Who signs')}</h2>{write_table(pd.DataFrame('', range(2), names))}</main>",
    ]
    return write_page("".join(parts), page.lang)


def _write_list(title: str, sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<h2>{title}</h2><ul>{items}</ul>"


def _write_point(page: Page, row: pd.Series) -> str:
    """Write whom one setting finds, misses and sends needlessly."""
    say = page.say
    found, missed, alarms, passed = row[COUNTS]
    shares = [
        f", {write_people(row, name, page)}" if np.isfinite(row[name]) else ""
        for name in ("sensitivity", "specificity")
    ]
    ill = say("Of {} patients with the disease, {} are found{}; {} are missed.")
    well = say("Of {} patients without it, {} are not sent{}; {} are sent needlessly.")
    sent = say("Of the {} patients whom it sends, {} have the disease.")
    sentences = [
        ill.format(found + missed, found, shares[0], missed),
        well.format(alarms + passed, passed, shares[1], alarms),
        sent.format(found + alarms, found),
        *say_unscored(row, page),
    ]
    items = "".join(f"<li>{sentence}</li>" for sentence in sentences)
    score = row["point"].rpartition(" ")[2]  # of a threshold that was given
    title = say(AIMS.get(row["point"], AIMS[""])).format(score)
    return f"<p>{title}:</p><ul>{items}</ul>"


def describe_groups(page: Page, groups: pd.DataFrame) -> str:
    """Say in which groups of `publish` the first setting is shown to fail, by the interval of the
    difference; a share that is hidden is not named.
    """
    say = page.say
    sentences = []
    for column, kind in (
        ("sensitivity", "Patients with the disease who are found"),
        ("specificity", "Patients without it who are not sent"),
    ):
        name = f"{column}_is_lower"
        rows = [row for _, row in groups.iterrows() if pd.notna(row.get(name))]
        failing = [_name_group(page, row, column) for row in rows if row[name]]
        words = "no group is shown to do worse than the others; small groups can hide it."
        if failing:
            words = "fewer than of the other patients, beyond chance: {}."
        if not rows:
            words = "not known, no group has enough patients."
        sentences.append(f"{say(kind)}: {say(words).format('; '.join(failing))}")
    return " ".join(sentences)


def _name_group(page: Page, row: pd.Series, column: str) -> str:
    """Name a group with its share: camera B, 47 of 100 (36 to 59)."""
    level = page.say(write_decimals(row["level"], page.lang))
    name = f"{page.say(row['factor'])} {level}"
    if np.isfinite(row[column]):
        name += f", {write_people(row, column, page)}"
    return name
