"""The committee's page: counts by hand, in situations that a committee may meet."""

import re

import numpy as np
import pandas as pd
import pytest

from dr_lib.evaluation.checklist import Evaluated
from dr_lib.evaluation.committee import is_worse, write_committee
from dr_lib.evaluation.flow import count_flow
from dr_lib.evaluation.points import choose_points, measure_points
from dr_lib.evaluation.predictions import read_predictions
from dr_lib.evaluation.scores import summarise
from dr_lib.evaluation.subgroups import hide_subgroups, split_subgroups
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
    points = choose_points(model, sensitivity=0.9, specificity=0.9, thresholds=thresholds)
    by_patient = measure_points(model, points, by_patient=True)
    groups = hide_subgroups(split_subgroups(model, points, by_patient=True), model)
    empty = pd.DataFrame()
    tables = (count_flow(model), summarise(model), points, empty, by_patient, empty, groups)
    return write_committee(Page(lang=lang), Evaluated(model, *tables, empty), groups)


GOOD = draw(36, 4, 12, 48)
# of camera B 3 of 30 ill patients are missed, and of camera A none of 30
CAMERAS = draw(63, 37, 10, 90, camera=["A"] * 30 + ["B"] * 70 + ["A"] * 50 + ["B"] * 50)
# 36 of 40 and 32 of 40: worse, but by chance
ALIKE = draw(68, 12, 10, 70, camera=np.repeat(["A", "B"] * 4, [36, 32, 4, 8, 5, 5, 35, 35]))
# 38 of 40 and 32 of 40, whose difference by Newcombe is 0.150 [0.001, 0.302]
UNLIKE = draw(70, 10, 10, 70, camera=np.repeat(["A", "B"] * 4, [38, 32, 2, 8, 5, 5, 35, 35]))
BOTH = pd.concat([draw(40, 0, 0, 0), draw(0, 0, 4, 36).assign(image_id=GOOD["image_id"] + "x")])
UNSHOWN = "is not shown to be better than guessing"


@pytest.mark.parametrize(
    ("table", "shown", "absent"),
    [
        (  # Wilson's bounds of 36 of 40 and of 12 of 60, by his formula in R
            GOOD.assign(sex="", age="?"),
            [
                "Of 40 patients with the disease, 36 are found and 4 missed.",
                "(77 to 96) are found",
            ]
            + ["Of 60 patients without it, 48 are not sent and 12 sent needlessly."]
            + [
                "80 of 100 (68 to 88) are not sent",
                "Of the 48 patients whom it sends, 36 have the",
            ]
            + ["grade 2 or worse, on the scale from 0 to 4", "no groups of patients"]
            + ["Not recorded in the data: years, camera, who graded, quality, sex, age."],
            ["So few", UNSHOWN],
        ),
        (  # B: 33 of 70, by Wilson at most 0.59, A 30 of 30, at least 0.89; alarms 10 of 50 and 0
            CAMERAS,
            [
                "chance: camera: A, without it: not sent 80 of 100 (67 to 89);",
                "camera: B, with the disease: found 47 of 100 (36 to 59).",
                "Camera: A, B.",
            ],
            ["No group is shown"],
        ),
        (ALIKE, ["No group is shown to do worse", "80 of 100 (65 to 90)"], ["beyond chance"]),
        (
            UNLIKE,
            ["chance: camera: B, with the disease: found 80 of 100 (65 to 90)"],
            ["No group is shown"],
        ),
        (  # 29 are few: counts alone
            draw(26, 3, 12, 48, sex="female", quality="good", visit="2019-03-05"),
            ["So few patients", "26 of 29 are found", "26 of 29: too few to say"]
            + ["Years: 2019.", "80 of 100 (68 to 88) are not sent"],
            ["of 100 (77"],
        ),
        (draw(20, 20, 30, 30), [UNSHOWN, "Of 40 patients with the disease, 20"], ["<path"]),
        (  # each patient has an eye with the disease
            BOTH,
            ["All patients have the disease: whom it sends needlessly", "So few patients"],
            ["0 patients without it"],
        ),
        (
            GOOD.assign(
                data_kind="synthetic", grade=GOOD["grade"] - 1, referable=GOOD["grade"] > 1
            ).astype({"referable": int}),
            ["No patient was tested", "what the doctors marked"],
            ["grade 2 or worse"],
        ),
    ],
    ids=["good", "fails", "alike", "unlike", "few", "chance", "one class", "synthetic"],
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


def test_a_hundred_figures_are_drawn_by_patient(tmp_path):
    """36 of 40 are 90 filled ones, 12 of 60 are 20 hollow ones, at the first point; at the second
    one nobody is sent. Who is missed at one eye and found at the other is found.
    """
    other = GOOD.assign(image_id=GOOD["image_id"] + "b", probability_referable=0.1)
    arrays = re.findall(r"<svg.*?</svg>", read(tmp_path, pd.concat([GOOD, other])))
    filled = [array.count('fill="#0b62a8"') for array in arrays]
    assert [array.count("<path") for array in arrays] == [100] * 4
    assert filled == [90, 80, 0, 100]


def test_a_committee_reads_portuguese(tmp_path):
    """Without an English sentence, and as a page of that language."""
    page = read(tmp_path, CAMERAS.assign(sex="female"), "pt")
    assert find_english(page) == [] and '<html lang="pt">' in page
    assert "De 100 pacientes com a doença, 63 são encontrados e 37 não." in page
    assert "47 de 100 (36 a 59)" in page and "sexo: feminino" in page


def test_names_of_people_and_small_counts_are_no_facts(tmp_path):
    """25 values of camera may be names, an empty one is none."""
    people = [f"Ana {k}" for k in range(25)]
    page = read(tmp_path, GOOD.assign(camera=people * 4))
    assert "Ana" not in page and "Not recorded in the data: years, camera" in page
    rare = [*["A"] * 96, *["Silva's"] * 4]
    page = read(tmp_path, GOOD.assign(camera=rare))
    assert "Camera: –." in page and "Silva" not in page
    assert "that are large enough" in page and "in the data: years, who" in page
    page = read(tmp_path, GOOD.assign(camera=["", "B"] * 50))
    assert "Camera: B." in page


def test_without_a_threshold_nobody_is_sent(tmp_path):
    """The page says so, and names no group."""
    page = read(tmp_path, GOOD.assign(camera="A"), thresholds=())
    assert "it sends none" in page and "<path" not in page and "Of 40" not in page


def test_a_group_that_does_worse_is_seen_as_often_as_newcombe_sees_it():
    """Of 40 patients 70 % are found, of the 80 others 90 %: 4,000 drawn studies miss it in some
    21 %, where two intervals overlapped in half. Where both are found alike, 2 to 3 % say so.
    """
    rng = np.random.default_rng(0)
    others = rng.binomial(80, 0.9, 4000)
    shares = {}
    for found in (0.7, 0.9):
        here = rng.binomial(40, found, 4000)
        shares[found] = np.mean([is_worse(here[k], 40, others[k], 80) for k in range(4000)])
    assert 1 - shares[0.7] == pytest.approx(0.21, abs=0.03) and shares[0.9] < 0.04


def test_a_difference_is_newcombes_by_hand():
    """His example: 56 of 70 and 48 of 80 differ by 0.2 [0.052, 0.334]; turned round it is below 0.
    A group that is everybody has no others.
    """
    assert is_worse(48, 80, 56, 70) and not is_worse(56, 70, 48, 80)
    assert not is_worse(7, 10, 8, 10) and not is_worse(7, 10, 0, 0)
