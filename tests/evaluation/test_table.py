"""Anybody's predictions are read, and what would make an evaluation false is one sentence with
the rows.
"""

import numpy as np
import pandas as pd
import pytest

from dr_lib.errors import DrError
from dr_lib.evaluation.predictions import read_predictions
from dr_lib.evaluation.scores import summarise
from tests.report.predictions import draw_predictions, write


def change(table: pd.DataFrame, rows: list[int], column: str, value) -> pd.DataFrame:
    """The table with other values in lines of the file, of which the header is the first."""
    table = table.astype({column: object})
    table.loc[[row - 2 for row in rows], column] = value
    return table


def lines(table: pd.DataFrame, split: str) -> list[int]:
    """The lines of a split in the file."""
    return [index + 2 for index in table.index[table["split"] == split]]


TABLE = draw_predictions()
GRADES = [f"probability_{grade}" for grade in range(5)]
TEST, VALIDATION, TRAIN = (lines(TABLE, split) for split in ("test", "validation", "train"))


def test_a_table_with_five_probabilities_is_read(tmp_path):
    """Sides by split, referable from grade 2 on, the sum of three probabilities, the likeliest
    grade; a blank sum leaves no photograph out, nor do five cut off to two decimals, which may add
    up to 0.98 (0.125 four times, and 0.5).
    """
    summed = TABLE[GRADES[2:]].sum(axis=1, min_count=3).clip(upper=1)
    table = TABLE.assign(probability_referable=summed.where(TABLE.index != TEST[5] - 2))
    table.loc[TEST[0] - 2, [*GRADES, "probability_referable"]] = [0.12] * 4 + [0.5, 0.74]
    (read,) = read_predictions(write(tmp_path, table))
    sizes = [len(side) for side in (read.test, read.validation, read.table, read.graded)]
    assert sizes == [len(TEST), len(VALIDATION), 240, len(TEST)]
    row = read.test.iloc[5]
    true = TABLE.loc[TEST[5] - 2]
    five = true[GRADES].astype(float)
    assert row["referable"] == (true["grade"] >= 2)
    assert row["probability_referable"] == pytest.approx(five.iloc[2:].sum())
    assert row["predicted_grade"] == five.argmax()


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [
        ("probability_0", 1.2, "a probability is outside 0 to 1"),
        ("probability_0", "", "the five probabilities do not add up to 1, or one is missing"),
        ("grade", 7, 'grade is "7": it must be 0 no retinopathy, 1 mild'),
        ("grade", "", "a probability without a label"),
        ("patient_id", "1.2E+15", "patient_id is empty, or means unknown"),
        ("split", "held-out", 'split is "held-out": it must be one of train, validation, test'),
        ("data_kind", "synthetic", "synthetic and real"),
    ],
)
def test_a_wrong_cell_is_named_by_its_row(tmp_path, column, cell, message):
    """What it is, and what it must be."""
    table = change(TABLE.assign(data_kind="photographs"), TEST[3:4], column, cell)
    with pytest.raises(DrError, match=f"^mine.csv, row {TEST[3]}: {message}"):
        read_predictions(write(tmp_path, table))


ONE, OTHER = (TABLE["patient_id"][rows[0] - 2] for rows in (TRAIN, TEST))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (TABLE.drop(columns="patient_id"), "mine.csv has no column patient_id: add it, rename"),
        (
            TABLE.assign(grade=TABLE["grade"] % 2),
            "0 of 96 test photographs .* both classes are",
        ),
        (TABLE[TABLE["split"] != "test"], "0 of 0 test photographs with a probability are"),
        (TABLE.assign(referable=0), "grade and referable contradict each other"),
        (TABLE.assign(grade=TABLE["grade"] + 1), "of grades from 1 to 5 subtract 1;"),
        (TABLE.assign(eye="left", visit="1"), "an eye of a patient has two labels"),
        (
            TABLE.assign(probability_referable=0.5),
            "is not the sum .* leave these five columns out",
        ),
        (TABLE.replace({"split": {"validation": "train"}}), "training photographs"),
        # logits
        (TABLE.assign(probability_1=TABLE["probability_1"] - 9), "of logits give the sigmoid"),
        # copies, models or readers in one table
        (
            pd.concat([TABLE, TABLE.loc[[TEST[0] - 2]]]),
            f"rows {TEST[0]}, 242: .* more than once",
        ),
        (
            pd.concat([TABLE.assign(model=name, tta=k) for k, name in enumerate("AB")]),
            "listed once for each model and tta: write a file for each .*, or keep one row per",
        ),
        # one person in two splits, however the id is written
        (
            pd.concat([TABLE, TABLE.loc[[VALIDATION[0] - 2]].assign(split="test")]),
            "a photograph is in two splits: training data leak",
        ),
        (change(TABLE, TRAIN[:1], "patient_id", OTHER), "a patient is in two splits"),
        (
            change(TABLE, TRAIN[:1], "patient_id", OTHER.upper()),
            "ids of patients differ only in case",
        ),
        (
            TABLE.assign(group=TABLE["patient_id"].replace({ONE: "g", OTHER: "g"})),
            "a group .* two splits",
        ),
    ],
)
def test_what_would_make_an_evaluation_false_is_refused(tmp_path, table, message):
    """Columns, numbers, labels; a patient or a group in two splits, predictions of training
    photographs, copies.
    """
    with pytest.raises(DrError, match=message) as error:
        read_predictions(write(tmp_path, table))
    assert "\n" not in str(error.value)


def test_a_column_of_the_file_s_own_meets_none_of_ours(tmp_path):
    """Whatever it is called and holds, scores are as without it."""
    names = "fold predicted_grade line index y p n threshold weight point level auc confidence"
    own = TABLE.assign(**dict.fromkeys(names.split(), TABLE.index % 3))
    tables = [summarise(read_predictions(write(tmp_path, t))[0]) for t in (own, TABLE)]
    pd.testing.assert_frame_equal(*tables, check_exact=True)


def test_of_two_classes_the_second_is_chosen(tmp_path):
    """What the error says works; a probability beyond 1 by rounding is 1."""
    p = np.where(TABLE.index % 2, 1.0000012, -1e-9)
    two = TABLE[TABLE["split"] != "train"].drop(columns=GRADES)
    two = two.assign(probability_0=1 - p[two.index], probability_1=p[two.index])
    path = write(tmp_path, two)
    with pytest.raises(DrError, match="--column probability_referable=NAME chooses the second"):
        read_predictions(path)
    (read,) = read_predictions(path, columns=["probability_referable=probability_1"])
    assert read.test["probability_referable"].tolist() == [0, 1] * (len(TEST) // 2)


def test_oedema_is_referable_below_grade_2(tmp_path):
    """The column referable is the label; a missing grade takes its photograph from kappa alone."""
    table = TABLE.assign(referable=(TABLE["grade"] >= 1).astype(int))
    (read,) = read_predictions(write(tmp_path, change(table, TEST[1:3], "grade", "N/A")))
    assert read.test["referable"].sum() == table.loc[read.test.index - 2, "referable"].sum()
    assert len(read.test) == len(TEST) and len(read.graded) == len(TEST) - 2


def test_what_people_write_is_what_they_mean(tmp_path):
    """Excel's semicolons and commas, Portuguese headers with accents, grades and eyes in words, 64
    anos.
    """
    names = {"image_id": "Retinografia", "patient_id": "Prontuário", "split": "PARTIÇÃO"}
    names |= {"eye": " Olho ", "grade": "Grau", "age": "Idade"}
    names |= {name: f"Probabilidade {name[-1]}" for name in GRADES}
    words = {
        "split": {"train": "Treino", "validation": "validação", "test": "TESTE"},
        "eye": {"left": "OE", "right": "Direito"},
        "grade": dict(enumerate(["ausente", "1,0", "2.0", "RDNP grave", "Proliferate_DR"])),
    }
    written = TABLE.replace(words).assign(age=TABLE["age"].map("{} anos".format))
    path = tmp_path / "people.csv"
    written.rename(columns=names).to_csv(
        path, index=False, sep=";", decimal=",", encoding="cp1252"
    )
    (read,) = read_predictions(path)
    (expected,) = read_predictions(write(tmp_path, TABLE))
    columns = "image_id patient_id split eye age grade probability_referable".split()
    tables = [each.table[columns] for each in (read, expected)]
    pd.testing.assert_frame_equal(*tables, check_dtype=False)
    assert read.table["age"][2] == "0-39"  # 30
