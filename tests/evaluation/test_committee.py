"""The committee's page: counts by hand, in situations that a committee may meet."""

import re

import numpy as np
import pandas as pd
import pytest

from dr_lib.evaluation.committee import write_committee
from dr_lib.evaluation.groups import score_groups
from dr_lib.evaluation.points import Goals, choose_points, measure_points
from dr_lib.evaluation.predictions import read_predictions
from dr_lib.evaluation.scores import summarise
from dr_lib.report.page import Page
from tests.report.reading import find_english


def draw(found, missed, alarms, passed, **columns) -> pd.DataFrame:
    """Patients of one photograph each: called by 0.9, not called by 0.1."""
    n = found + missed + alarms + passed
    ill = np.arange(n) < found + missed
    table = pd.DataFrame(
        {
            "image_id": [f"i{k}" for k in range(n)],
            "patient_id": [f"p{k}" for k in range(n)],
            "split": "test",
            "grade": np.where(ill, 2, 1),
            "probability_referable": np.repeat([0.9, 0.1] * 2, [found, missed, alarms, passed]),
        }
    )
    return table.assign(**columns)


def read(tmp_path, table, lang="en", thresholds=(0.5, 0.95)) -> str:
    """The page of a table."""
    table.to_csv(tmp_path / "p.csv", index=False)
    model = read_predictions(tmp_path / "p.csv")[0]
    points = choose_points(model, Goals(thresholds=thresholds))
    auc_low = summarise(model)["auc_low"][0]
    groups = score_groups(model, points)
    by_patient = measure_points(model, points)[:2]
    return write_committee(Page(lang=lang), model, auc_low, by_patient, groups)


GOOD = draw(36, 4, 12, 48)
# of camera B 33 of 70 ill patients are found, and of camera A all 30; alarms 10 of 50 and none
CAMERAS = draw(63, 37, 10, 90, camera=["A"] * 30 + ["B"] * 70 + ["A"] * 50 + ["B"] * 50)
BOTH = pd.concat([draw(40, 0, 0, 0), draw(0, 0, 4, 36).assign(image_id=GOOD["image_id"] + "x")])
UNSHOWN = "is not shown to be better than guessing"


@pytest.mark.parametrize(
    ("table", "shown", "absent"),
    [
        (  # Wilson's bounds of 36 of 40 and of 48 of 60, by his formula in R
            GOOD,
            [
                "Of 40 patients with the disease, 36 are found and 4 missed. "
                "That is 90 of 100 (77 to 96).",
                "Of 60 patients without it, 48 are not sent and 12 sent needlessly. "
                "That is 80 of 100 (68 to 88).",
                "Of the 48 patients whom it sends, 36 have the disease.",
                "Not known: no group has enough patients.",
            ],
            ["So few", UNSHOWN],
        ),
        (  # B: 33 of 70, by Wilson at most 0.59, A 30 of 30, at least 0.89
            CAMERAS,
            [
                "chance: camera: A, without it: not sent 80 of 100 (67 to 89);",
                "camera: B, with the disease: found 47 of 100 (36 to 59).",
            ],
            ["No group is shown"],
        ),
        (  # 29 are few: counts alone
            draw(26, 3, 12, 48, sex="female"),
            ["So few patients", "26 are found and 3 missed.", "Not known: no group has"],
            ["missed. That is", "No group is shown"],
        ),
        (  # of each camera 20 have the disease
            draw(38, 2, 10, 90, camera=["A"] * 20 + ["B"] * 20 + ["A"] * 50 + ["B"] * 50),
            [
                "0 of 100",
                "Not known, for no group has enough patients: With the disease: found.",
            ],
            ["camera: A, with the", "camera: B, with the"],
        ),
        (draw(20, 20, 30, 30), [UNSHOWN, "Of 40 patients with the disease, 20"], []),
        (BOTH, ["Of 0 patients without it", "So few patients"], ["without it, 0 of 100"]),
        (  # of every tenth patient there is no score
            GOOD.assign(
                probability_referable=GOOD["probability_referable"].mask(GOOD.index % 10 == 0),
                reason="blurred",
            ),
            [
                "Of 40 patients with the disease, 32 are found and 8 missed.",
                "4 patients with the disease, who count as missed, and 6 without it, who",
                "Of 54 patients without it",
            ],
            [],
        ),
        (GOOD.assign(data_kind="synthetic"), ["No patient was tested"], []),
    ],
    ids=["good", "fails", "few", "few ill", "chance", "one class", "unscored", "synthetic"],
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


def test_a_committee_reads_portuguese(tmp_path):
    """Without an English sentence, and as a page of that language."""
    page = read(tmp_path, CAMERAS.assign(sex="female"), "pt")
    assert find_english(page) == [] and '<html lang="pt">' in page
    assert "De 100 pacientes com a doença: encontrados 63; não encontrados 37." in page
    assert "47 de 100 (36 a 59)" in page and "câmera: B" in page


def test_without_a_threshold_nobody_is_sent(tmp_path):
    """The page says so, and names no group; names of people are no groups."""
    page = read(tmp_path, GOOD.assign(camera="A"), thresholds=())
    assert "it sends none" in page and "Of 40" not in page
    people = [f"Ana {k}" for k in range(25)]
    assert "Ana" not in read(tmp_path, GOOD.assign(camera=people * 4))
