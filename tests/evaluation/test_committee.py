"""The committee's page: counts by hand, in situations that a committee may meet."""

import re

import numpy as np
import pandas as pd
import pytest

from dr_lib.evaluation.committee import write_committee
from dr_lib.evaluation.groups import publish, score_groups
from dr_lib.evaluation.points import freeze_points, measure_points
from dr_lib.evaluation.predictions import read_predictions
from dr_lib.evaluation.scores import summarise
from dr_lib.report.page import Page
from tests.report.predictions import write
from tests.report.reading import find_english


def draw(found, missed, alarms, passed, **columns) -> pd.DataFrame:
    """Patients of one photograph each: called by 0.9, not called by 0.1."""
    n = found + missed + alarms + passed
    table = pd.DataFrame(
        {
            "image_id": [f"i{k}" for k in range(n)],
            "patient_id": [f"p{k}" for k in range(n)],
            "split": "test",
            "grade": np.where(np.arange(n) < found + missed, 2, 1),
            "probability_referable": np.repeat([0.9, 0.1] * 2, [found, missed, alarms, passed]),
        }
    )
    return table.assign(**columns)


def read(tmp_path, table, lang="en", thresholds="0.5,0.95") -> str:
    """The page of a table."""
    (model,) = read_predictions(write(tmp_path, table))
    (points,) = freeze_points([model], thresholds=thresholds, lang=lang)
    auc_low = summarise(model)["auc_low"][0]
    groups = publish(score_groups(model, points))
    by_patient = measure_points(model, points)[:2]
    return write_committee(Page(lang=lang), model, auc_low, by_patient, groups)


GOOD = draw(36, 4, 12, 48)
# of camera B 33 of 70 ill patients are found, and of camera A all 30; alarms 10 of 50 and none
CAMERAS = draw(63, 37, 10, 90, camera=["A"] * 30 + ["B"] * 70 + ["A"] * 50 + ["B"] * 50)
# 10 of 37 are found of B, which does worse; C has 3 ill patients: neither share may be named
SMALL = draw(73, 30, 10, 90, camera=["A"] * 63 + ["B"] * 37 + ["C"] * 3 + ["A", "B"] * 50)


@pytest.mark.parametrize(
    ("table", "shown", "absent"),
    [
        (  # Wilson's bounds of 36 of 40 and of 48 of 60, by his formula in R
            GOOD,
            [
                "<p>With the score 0.5, given by those who made this test:</p>",
                "40 patients with the disease, 36 are found, 90 of 100 (77 to 96); 4 are missed.",
                "60 patients without it, 48 are not sent, 80 of 100 (68 to 88); 12 are sent need",
                "Of the 48 patients whom it sends, 36 have the disease.",
                "who are found: not known, no group has enough patients.",
            ],
            ["So few", "guessing", "chosen to"],
        ),
        (  # B: 33 of 70, by Wilson at most 0.59, A 30 of 30, at least 0.89
            CAMERAS,
            ["chance: camera B, 47 of 100 (36 to 59).", "camera A, 80 of 100 (67 to 89)."],
            ["no group is shown"],
        ),
        (SMALL, ["beyond chance: camera B. "], ["camera C"]),
        (  # 29 are few: counts alone
            draw(26, 3, 12, 48, sex="female"),
            ["So few patients", "26 are found; 3 are missed."],
            ["no group is shown"],
        ),
        (draw(20, 20, 30, 30), ["is not shown to be better than guessing"], []),
        (  # of every tenth patient there is no score
            GOOD.assign(
                probability_referable=GOOD["probability_referable"].mask(GOOD.index % 10 == 0),
                reason="blurred",
            ),
            [
                "Of 40 patients with the disease, 32 are found",
                "4 patients with the disease, who count as missed, and 6 without it, who",
                "Of 54 patients without it",
            ],
            [],
        ),
        (GOOD.assign(data_kind="synthetic"), ["No patient was tested"], []),
    ],
    ids="good fails hidden few chance unscored synthetic".split(),
)
def test_a_committee_reads_whom_it_finds_misses_and_sends(tmp_path, table, shown, absent):
    """In words without terms, from the data alone, in a page that needs no other file."""
    page = read(tmp_path, table)
    text = re.sub(r"(?s)<style>.*?</style>", "", page)
    assert [words for words in shown if words not in text] == []
    assert [words for words in absent if words in text] == []
    assert not re.search(
        r"AUC|sensitivity|specificity|threshold|interval|nan|<script|src=", text
    )


def test_a_committee_reads_portuguese_and_no_names(tmp_path):
    """Without an English sentence; without a threshold nobody is sent; names form no groups."""
    page = read(tmp_path, CAMERAS.assign(sex="female"), "pt")
    assert find_english(page) == [] and '<html lang="pt">' in page
    assert "De 100 pacientes com a doença: encontrados 63, 63 de 100 (53 a 72)" in page
    assert "câmera B, 47 de 100 (36 a 59)" in page
    assert "<p>Com a nota 0,95, dada por quem fez este teste:</p>" in page
    assert "it sends none" in read(tmp_path, GOOD, thresholds="")
    people = [f"Ana {k}" for k in range(25)]
    assert "Ana" not in read(tmp_path, GOOD.assign(camera=people * 4))
