"""Anybody's predictions are read, and what would make an evaluation false is one sentence with
the rows.
"""

import numpy as np
import pandas as pd
import pytest

from dr_lib.errors import DrError
from dr_lib.evaluation.groups import count_flow
from dr_lib.evaluation.predictions import read_predictions
from dr_lib.evaluation.scores import summarise
from tests.report.predictions import draw_predictions, write


def change(table: pd.DataFrame, rows: list[int], column: str, value) -> pd.DataFrame:
    """The table with other values in lines of the file, of which the header is the first."""
    table = (table if column in table else table.assign(**{column: ""})).astype(
        {column: object}
    )
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
    grade.
    """
    (read,) = read_predictions(write(tmp_path, TABLE))
    sizes = [len(side) for side in (read.test, read.validation, read.table, read.graded)]
    assert sizes == [len(TEST), len(VALIDATION), 240, len(TEST)]
    assert read.name == "mine" and not read.is_synthetic
    row = read.test.iloc[5]
    true = TABLE.loc[TEST[5] - 2]
    five = true[GRADES].astype(float)
    assert row["referable"] == (true["grade"] >= 2)
    assert row["probability_referable"] == pytest.approx(five.iloc[2:].sum())
    assert row["predicted_grade"] == five.argmax()


def test_an_eye_may_have_another_grade_at_another_visit(tmp_path):
    """The disease moves on between two visits; at one visit it has one grade."""
    (read,) = read_predictions(write(tmp_path, TABLE.assign(eye="left", visit=TABLE.index % 2)))
    assert len(read.test) == len(TEST)
    with pytest.raises(DrError, match="an eye of a patient has two labels"):
        read_predictions(write(tmp_path, TABLE.assign(eye="left", visit="1")))


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [
        ("probability_0", 1.2, "a probability is outside 0 to 1"),
        ("probability_0", "inf", 'probability_0 is "inf": it must be a finite number'),
        ("probability_0", "", "the five probabilities do not add up to 1, or one is missing"),
        ("grade", 7, 'grade is "7": it must be 0 no retinopathy, 1 mild'),
        ("grade", "", "a probability without a label"),
        ("patient_id", "", "patient_id is empty"),
        ("patient_id", "1.2E+15", "patient_id is empty, or means unknown"),
        ("split", "held-out", 'split is "held-out": it must be one of train, validation, test'),
    ],
)
def test_a_wrong_cell_is_named_by_its_row(tmp_path, column, cell, message):
    """What it is, and what it must be."""
    with pytest.raises(DrError, match=f"^mine.csv, row {TEST[3]}: {message}"):
        read_predictions(write(tmp_path, change(TABLE, TEST[3:4], column, cell)))


@pytest.mark.parametrize(
    ("change_table", "message"),
    [
        (
            lambda t: t.drop(columns="patient_id"),
            "mine.csv has no column patient_id: add it, rename one",
        ),
        (
            lambda t: t.drop(columns="probability_3"),
            "no column probability_referable, or probability_0 to",
        ),
        (lambda t: t.drop(columns="grade"), "no column grade or referable"),
        (lambda t: t[:0], "mine.csv is empty: it needs a header and rows below it"),
        (
            lambda t: change(t, TEST[:7], "probability_0", 0.9999),
            f"rows {TEST[0]}, .* and 1 more: the five .* add up",
        ),
        (
            lambda t: t.assign(grade=t["grade"] % 2),
            "all .* test photographs are not referable: both classes are needed",
        ),
        (lambda t: t[t["split"] != "test"], "no test photograph with a probability"),
        (lambda t: t.assign(referable=0), "grade and referable contradict each other"),
        (
            lambda t: pd.concat([t, t[TEST[0] - 2 : TEST[0] - 1]]),
            f"rows {TEST[0]}, 242: a photograph is listed more than",
        ),
        (
            lambda t: change(
                t.assign(data_kind="photographs"), [5, 6], "data_kind", "synthetic"
            ),
            "rows 5, 6: synthetic",
        ),
        (
            lambda t: change(t, TRAIN[:1], "patient_id", "p007 "),
            "a patient is in two splits",
        ),
        (
            lambda t: t.assign(probability_referable=0.5),
            "is not the sum of probability_2 to probability_4",
        ),
        (
            lambda t: t.assign(**(np.log(t[GRADES] + 1e-9).to_dict("series"))),
            r"of logits give the sigmoid \(of five the softmax\), and leave a missing",
        ),
        (
            lambda t: t.assign(**(8 * t[GRADES]).to_dict("series")),
            "outside 0 to 1: divide percentages by 100, of logits",
        ),
        (
            lambda t: t.assign(**(100 * t[GRADES]).to_dict("series")),
            "divide percentages by 100, of logits",
        ),
        (
            lambda t: t.assign(**(t[GRADES] * 0 + 0.5).to_dict("series")),
            "of logits give the softmax; else give probability_referable instead",
        ),
        (lambda t: t.assign(grade=t["grade"] + 1), "of grades from 1 to 5 subtract 1;"),
        (
            lambda t: t.assign(group=np.where(t["patient_id"] < "p050", "arm 1", "arm 2")),
            r"the column means something else \(2 values of 120 patients\), rename it$",
        ),
        (
            lambda t: pd.concat([t.assign(model="A", kind=t.index), t.assign(model="B")]),
            "listed once for each model and kind: write a file for each .*, or keep one row per",
        ),
        (
            lambda t: pd.concat([t.assign(tta=k, reader=r) for k in "01" for r in "ab"]),
            "listed once for each reader and tta: write a file for each",
        ),
        (
            lambda t: pd.concat([t.assign(Fold=k) for k in range(3)]),
            r"listed once for each Fold|fold: write a file for each \(of folds add --folds\)",
        ),
        (
            lambda t: t.assign(image_id=t["eye"] + ".jpg"),
            "listed once for each age and camera and patient_id: .* image_id of its own$",
        ),
        (
            lambda t: pd.concat([t, t.iloc[[VALIDATION[0] - 2]].assign(split="test")]),
            "a photograph is in two splits: training data leak",
        ),
        (  # one person, in capitals or with other zeros
            lambda t: change(t, TRAIN[:1], "patient_id", t["patient_id"][TEST[0] - 2].upper()),
            "ids of patients differ only in case",
        ),
        (
            lambda t: change(
                t.assign(patient_id="00" + t["patient_id"].str[1:]),
                TRAIN[:1],
                "patient_id",
                f"{t['patient_id'][TEST[0] - 2][1:]}.0",
            ),
            "ids of patients differ only in case",
        ),
        (
            lambda t: change(
                t.assign(group=t["patient_id"]), TRAIN[:1] + TEST[:1], "group", "g"
            ),
            "a group .* two splits",
        ),
        (
            lambda t: t.assign(split=t["split"].where(t["split"] != "validation", "train")),
            "training photographs",
        ),
    ],
)
def test_what_would_make_an_evaluation_false_is_refused(tmp_path, change_table, message):
    """Columns, numbers, labels; a patient or a group in two splits, predictions of training
    photographs, copies.
    """
    with pytest.raises(DrError, match=message) as error:
        read_predictions(write(tmp_path, change_table(TABLE)))
    assert "\n" not in str(error.value)


def test_a_column_of_the_file_s_own_meets_none_of_ours(tmp_path):
    """Whatever it is called and holds, scores are as without it."""
    names = "fold predicted_grade line index y p n threshold weight point level auc confidence"
    own = TABLE.assign(**dict.fromkeys(names.split(), TABLE.index % 3))
    tables = [summarise(read_predictions(write(tmp_path, t))[0]) for t in (own, TABLE)]
    pd.testing.assert_frame_equal(*tables, check_exact=True)


def test_the_ungradable_need_no_grade(tmp_path):
    """A model answers for them and for excluded ones, too: neither counts, the flow has both."""
    table = TABLE.astype({"grade": object}).assign(gradable="yes", reason="")
    rows = [row - 2 for row in TEST[:6]]
    table.loc[rows[:3], ["grade", "gradable"]] = ["", "no"]
    table.loc[rows[3:5], "gradable"] = "0"
    table.loc[rows[5], [*GRADES, "reason"]] = [*[np.nan] * 5, "too dark"]
    table.loc[VALIDATION[0] - 2, ["grade", "split"]] = ["", "excluded"]
    (read,) = read_predictions(write(tmp_path, table))
    flow = count_flow(read).groupby("stage", observed=True)["num_images"].sum()
    assert flow[["ungradable", "evaluated", "excluded"]].tolist() == [6, len(TEST) - 6, 1]


def test_a_probability_beyond_1_by_rounding_is_1(tmp_path):
    """A sum of single precision, or of six decimals; what is further off is refused above."""
    p = np.where(TABLE.index % 2, 1.0000012, -1e-9)
    table = TABLE.drop(columns=GRADES).assign(probability_referable=p)
    (read,) = read_predictions(write(tmp_path, table[table["split"] != "train"]))
    assert set(read.test["probability_referable"]) == {0.0, 1.0}


def test_of_two_classes_the_second_is_chosen(tmp_path):
    """What the error says about probability_0 and probability_1 works."""
    p = TABLE[GRADES[2:]].sum(axis=1, min_count=3).clip(upper=1)
    two = TABLE.drop(columns=GRADES).assign(probability_0=1 - p, probability_1=p)
    path = write(tmp_path, two)
    with pytest.raises(DrError, match="--column probability_referable=NAME chooses the second"):
        read_predictions(path)
    (read,) = read_predictions(path, columns=["probability_referable=probability_1"])
    expected = p[read.test.index - 2]
    assert read.test["probability_referable"].tolist() == pytest.approx(expected.tolist())


def test_oedema_is_referable_below_grade_2(tmp_path):
    """The column referable is the label; a probability of its own beside the five of the grades
    is refused.
    """
    table = TABLE.assign(referable=(TABLE["grade"] >= 1).astype(int))
    (read,) = read_predictions(write(tmp_path, table))
    assert read.test["referable"].sum() == (read.test["grade"] >= 1).sum()
    p = table[GRADES[2:]].sum(axis=1, min_count=3)
    with pytest.raises(DrError, match="is not the sum .* leave these five columns out"):
        read_predictions(write(tmp_path, table.assign(probability_referable=p / 2)))


def test_a_probability_that_is_not_given_is_the_sum_of_three(tmp_path):
    """Row by row: a blank beside five probabilities leaves no photograph out."""
    summed = TABLE[GRADES[2:]].sum(axis=1, min_count=3).clip(upper=1)
    table = TABLE.assign(probability_referable=summed.where(TABLE.index != TEST[0] - 2))
    (read,) = read_predictions(write(tmp_path, table))
    assert len(read.test) == len(TEST)
    assert read.test["probability_referable"].iloc[0] == pytest.approx(summed[TEST[0] - 2])


PEOPLES = TABLE.rename(
    columns={
        "image_id": "Retinografia",
        "patient_id": "Prontuário",
        "split": "PARTIÇÃO",
        "eye": " Olho ",
        "grade": "Grau",
        "age": "Idade",
        **{f"probability_{g}": f"Probabilidade {g}" for g in range(5)},
    }
).replace(
    {
        "PARTIÇÃO": {"train": "Treino", "validation": "validação", "test": "TESTE"},
        " Olho ": {"left": "OE", "right": "Direito"},
        "Grau": dict(enumerate(["ausente", "1,0", "2.0", "RDNP grave", "Proliferate_DR"])),
    }
)
PEOPLES["Idade"] = PEOPLES["Idade"].map("{} anos".format)


@pytest.mark.parametrize(
    "write_people",
    [
        lambda table, path: table.to_csv(path, index=False, sep=";", decimal=","),
        lambda table, path: table.to_csv(path, index=False, decimal=",", na_rep="NA"),
        lambda table, path: table.to_csv(path, index=False, sep=";", encoding="cp1252"),
        lambda table, path: table.round(6).to_excel(path.with_suffix(".xlsx"), index=False),
    ],
    ids=["Brazil", "quotes", "windows", "xlsx"],
)
def test_what_people_write_is_what_they_mean(tmp_path, write_people):
    """Portuguese headers with accents, grades and eyes in words, 64 anos, between whatever."""
    if "to_excel" in write_people.__code__.co_names:
        pytest.importorskip("openpyxl")
    write_people(PEOPLES, tmp_path / "mine.csv")
    (path,) = tmp_path.iterdir()
    (expected,) = read_predictions(write(tmp_path, TABLE, "expected"))
    (read,) = read_predictions(path)
    columns = ["image_id", "patient_id", "eye", "age", "grade", "predicted_grade", "referable"]
    for mine, theirs in ((read.test, expected.test), (read.validation, expected.validation)):
        assert mine[columns].to_numpy().tolist() == theirs[columns].to_numpy().tolist()
        assert mine["probability_referable"].tolist() == pytest.approx(
            theirs["probability_referable"].tolist()
        )


def test_probabilities_of_two_decimals_are_read(tmp_path):
    """By hand: five thirds of a hundredth cut off, 0.125 + 0.125 + 0.125 + 0.125 + 0.5, add up to
    0.98; a missing grade takes its photograph from kappa alone.
    """
    table = TABLE.assign(referable=(TABLE["grade"] >= 2).astype(int))
    table.loc[TEST[0] - 2, GRADES] = [0.12, 0.12, 0.12, 0.12, 0.5]
    (read,) = read_predictions(write(tmp_path, change(table, TEST[1:3], "grade", "N/A")))
    assert len(read.test) == len(TEST) and len(read.graded) == len(TEST) - 2
