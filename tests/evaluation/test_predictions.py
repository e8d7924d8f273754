"""Anybody's predictions are read, and what would make an evaluation false is one sentence with
the rows.
"""

import numpy as np
import pandas as pd
import pytest

from dr_lib.errors import DrError
from dr_lib.evaluation.comparison import compare_models
from dr_lib.evaluation.curves import recalibrate
from dr_lib.evaluation.flow import count_flow
from dr_lib.evaluation.points import choose_points, list_errors, measure_points
from dr_lib.evaluation.predictions import average_sets, read_predictions
from dr_lib.evaluation.scores import summarise
from dr_lib.evaluation.subgroups import split_subgroups
from dr_lib.files import join_paths, split_paths
from tests.report.predictions import draw_abroad, draw_predictions, write


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
ASKED = {"sensitivity": 0.9, "specificity": 0.9}
TEST, VALIDATION, TRAIN = (lines(TABLE, split) for split in ("test", "validation", "train"))


def test_a_table_with_five_probabilities_is_read(tmp_path):
    """Sides by split, referable from grade 2 on, the sum of three probabilities, the likeliest
    grade.
    """
    (read,) = read_predictions(write(tmp_path, TABLE))
    sizes = [len(side) for side in (read.test, read.validation, read.table, read.graded)]
    assert sizes == [len(TEST), len(VALIDATION), 240, len(TEST)]
    assert read.name == "mine" and not read.is_synthetic and read.ungradable.empty
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


def test_two_files_may_write_a_patient_in_two_ways(tmp_path):
    """Of one model leading zeros, of the other a decimal: nobody is two people."""
    number = TABLE["patient_id"].str[1:].astype(int)
    paths = [
        write(tmp_path, TABLE.assign(patient_id=number.map(form)), name)
        for name, form in (("one", "{:04d}".format), ("two", "{}.0".format))
    ]
    read = read_predictions(*paths)
    assert [each.table["patient_id"].nunique() for each in read] == [number.nunique()] * 2


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [
        ("probability_0", 1.2, "a probability is outside 0 to 1"),
        ("probability_0", "inf", 'probability_0 is "inf": it must be a finite number'),
        ("probability_0", "", "one of the five probabilities is missing"),
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
            "mine.csv has no column patient_id: add it",
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
            r"1: of logits give the sigmoid \(of five the softmax\), and leave a missing",
        ),
        (
            lambda t: t.assign(**(8 * t[GRADES]).to_dict("series")),
            "1: divide percentages by 100, of logits give the sigmoid",
        ),
        (lambda t: t.assign(**(100 * t[GRADES]).to_dict("series")), "percentages by 100$"),
        (
            lambda t: t.assign(**(t[GRADES] * 0 + 0.5).to_dict("series")),
            "add up to 1: of logits give the softmax, of cumulative probabilities the diff",
        ),
        (lambda t: t.assign(grade=t["grade"] + 1), "of grades from 1 to 5 subtract 1;"),
        (
            lambda t: t.assign(group=np.where(t["patient_id"] < "p050", "arm 1", "arm 2")),
            r"the column means something else \(2 values of 120 patients\), rename it$",
        ),
        (
            lambda t: pd.concat([t.assign(model="A", kind=t.index), t.assign(model="B")]),
            "listed once for each model: write a file for each, or keep one row per photograph$",
        ),
        (
            lambda t: pd.concat([t.assign(tta=k, reader=r) for k in "01" for r in "ab"]),
            "listed once for each tta and reader: write a file for each, or keep one",
        ),
        (
            lambda t: pd.concat([t.assign(Fold=k) for k in range(3)]),
            "listed once for each fold: write a file for each and add --folds, or keep",
        ),
        (
            lambda t: t.assign(image_id=t["eye"] + ".jpg"),
            "photographs share an image_id, one for each patient_id: give each its own$",
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


OWN_NAMES = (
    "fold predicted_grade line index row y p n threshold weight point level factor auc side"
    " grade_other probability_5 prediction confidence"
)


def test_a_column_of_the_file_s_own_meets_none_of_ours(tmp_path):
    """Whatever it is called and holds, tables are as without it, alone and in a comparison."""
    own = TABLE.assign(**dict.fromkeys(OWN_NAMES.split(), TABLE.index % 3))
    other = write(tmp_path, draw_predictions(noise=2.0), "other")
    pairs = [read_predictions(write(tmp_path, table), other) for table in (own, TABLE)]
    tables = []
    for models in pairs:
        points = [choose_points(m, **ASKED) for m in models]
        tables.append(
            [
                points[0],
                measure_points(models[0], points[0], by_patient=True),
                list_errors(models[0], points[0], 5),
                compare_models(models, points),
                summarise(models[0]),
            ]
        )
    for mine, without in zip(*tables, strict=True):
        pd.testing.assert_frame_equal(mine, without, check_exact=True)


def test_the_ungradable_need_no_grade(tmp_path):
    """A model answers for them and for excluded ones, too: neither counts, the flow has both. Those
    with a label stand apart, as do those without a probability and with a reason.
    """
    table = TABLE.astype({"grade": object}).assign(gradable="yes", reason="")
    rows = [row - 2 for row in TEST[:6]]
    table.loc[rows[:3], ["grade", "gradable"]] = ["", "no"]
    table.loc[rows[3:5], "gradable"] = "0"
    table.loc[rows[5], [*GRADES, "reason"]] = [*[np.nan] * 5, "too dark"]
    table.loc[VALIDATION[0] - 2, ["grade", "split"]] = ["", "excluded"]
    (read,) = read_predictions(write(tmp_path, table))
    flow = count_flow(read).groupby("stage")["num_images"].sum()
    assert (flow["ungradable"], flow["evaluated"]) == (6, len(TEST) - 6)
    assert len(read.ungradable) == 3 and flow["excluded"] == 1


def test_a_probability_beyond_1_by_rounding_is_1(tmp_path):
    """A sum of single precision, or of six decimals; what is further off is refused above."""
    p = np.where(TABLE.index % 2, 1.0000012, -1e-9)
    table = TABLE.drop(columns=GRADES).assign(probability_referable=p)
    (read,) = read_predictions(write(tmp_path, table[table["split"] != "train"]))
    assert set(read.test["probability_referable"]) == {0.0, 1.0}


def test_oedema_may_raise_a_probability_above_the_sum_of_three(tmp_path):
    """If some photographs are referable below grade 2; a lower one is refused all the same."""
    table = TABLE[TABLE["split"] != "train"]
    p = table[GRADES[2:]].sum(axis=1)
    table = table.assign(referable=(table["grade"] >= 1).astype(int))
    higher = (p + table["probability_1"] / 2).clip(upper=1)
    read_predictions(write(tmp_path, table.assign(probability_referable=higher)))
    with pytest.raises(DrError, match="is not the sum"):
        read_predictions(write(tmp_path, table.assign(probability_referable=p / 2)))


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        (
            lambda i: f"/data/{i}.jpg",
            r"/data/(i\d+).jpg and \1, which agree but for folder, suf",
        ),
        (
            lambda i: rf"C:\data\{i.upper()}.PNG",
            r"data.I(\d+).PNG and i\1, which agree but",
        ),
    ],
)
def test_why_two_files_are_not_of_the_same_photographs(tmp_path, rename, message):
    """One id of each is shown where they agree but for folder, suffix or case."""
    other = TABLE.assign(image_id=TABLE["image_id"].map(rename))
    with pytest.raises(DrError, match=message):
        read_predictions(write(tmp_path, TABLE, "a"), write(tmp_path, other, "b"))


@pytest.mark.parametrize(
    ("change_table", "message"),
    [
        (
            lambda t: t.drop(index=TEST[0] - 2),
            "different test photographs .1 are in only one",
        ),
        (
            lambda t: change(t, [TEST[0], TEST[1]], "patient_id", "x"),
            "disagree on the patient or label",
        ),
        (
            lambda t: change(t, VALIDATION[:2], "patient_id", "x"),
            "disagree on the patient or label",
        ),
        (
            lambda t: t.assign(grade=t["grade"].replace(3, 4)),
            "disagree on the patient or label",
        ),
        (
            lambda t: t.assign(data_kind="synthetic"),
            "synthetic and real photographs cannot be pooled",
        ),
    ],
)
def test_models_are_compared_on_the_same_patients_alone(tmp_path, change_table, message):
    """Other photographs, other patients, or synthetic ones beside real ones."""
    paths = write(tmp_path, TABLE, "a"), write(tmp_path, change_table(TABLE), "b")
    with pytest.raises(DrError, match=message):
        read_predictions(*paths)


HOME = TABLE.assign(model_version="v1", dataset="home")


@pytest.mark.parametrize(
    ("change_abroad", "message"),
    [
        (
            lambda t: t.drop(columns="model_version"),
            "different test photographs .*model_version",
        ),
        (lambda t: t.assign(model_version="v2"), "different test photographs .*model_version"),
        (
            lambda t: change(t, [t.index[0] + 2], "image_id", TABLE["image_id"][TRAIN[0] - 2]),
            "1 image_id",
        ),
        (
            lambda t: change(t, [t.index[0] + 2], "patient_id", "P001"),
            "abroad: 1 patient_id .* of home",
        ),
        (
            lambda t: change(t, [t.index[0] + 2, t.index[1] + 2], "split", "validation"),
            "in 2 files",
        ),
        (lambda _: HOME.sample(frac=1, random_state=0), "cannot be compared with itself"),
    ],
)
def test_a_model_is_tried_on_other_data_that_it_has_not_seen(tmp_path, change_abroad, message):
    """Known by its version; nothing that it learned from or was frozen on is among them, and one
    set froze it.
    """
    read = read_predictions(write(tmp_path, HOME, "a"), write(tmp_path, draw_abroad(), "b"))
    assert [(p.name, p.dataset, len(p.validation) > 0) for p in read] == [
        ("a", "home", True),
        ("a", "abroad", False),
    ]
    with pytest.raises(DrError, match=message):
        read_predictions(
            write(tmp_path, HOME, "a"), write(tmp_path, change_abroad(draw_abroad()), "b")
        )


def test_two_data_sets_of_one_name_are_told_apart(tmp_path):
    """Both prepared into a folder `prepared`: the second is numbered, for all models that are
    tried on it.
    """
    tables = [HOME.assign(dataset="prepared"), draw_abroad().assign(dataset="prepared")]
    tables += [draw_predictions(noise=2.0), TABLE]
    paths = [write(tmp_path, table, name) for table, name in zip(tables, "abcd", strict=True)]
    # a name that one file gives is that of all with the same photographs
    found = read_predictions(*paths[:3])
    assert [p.dataset for p in found] == ["prepared", "prepared (2)", "prepared"]
    assert [p.dataset for p in read_predictions(*paths[2:])] == ["c.csv", "c.csv"]


def test_paths_with_commas_are_one_parameter():
    """A comma or a quote in a name, blanks between the names; one name and none as they were."""
    for paths in (["a, b.csv", 'a "c".csv', "d.csv"], ["a.csv"], []):
        assert split_paths(join_paths(paths)) == paths
    assert split_paths("a.csv, b.csv") == ["a.csv", "b.csv"]


def test_an_ensemble_is_averaged_on_each_data_set(tmp_path):
    """Photograph by photograph, in any order of the rows: two models at home and abroad are one on
    each; a data set that lacks one of them is refused.
    """
    second = draw_predictions(noise=2.0).sample(frac=1, random_state=0)
    tables = [HOME, second.assign(model_version="v2", dataset="home")]
    tables += [draw_abroad(), draw_abroad(2.0, "v2")]
    tables = [table.assign(model="inception_v3_299") for table in tables]
    paths = [write(tmp_path, table, name) for table, name in zip(tables, "abcd", strict=True)]
    found = average_sets(read_predictions(*paths))
    assert [both.dataset for both in found] == ["home", "abroad"]
    # what claims of that network look for
    names = {(both.name, both.version) for both in found}
    assert names == {("ensemble of 2: inception_v3_299", "v1 v2")}
    for both, pair in zip(found, (tables[:2], tables[2:]), strict=True):
        one, two = (table.set_index("image_id")["probability_3"] for table in pair)
        mean = both.test.set_index("image_id")["probability_3"]
        assert mean.to_dict() == pytest.approx(((one + two) / 2)[mean.index].to_dict())
    flow = count_flow(found[0]).set_index("stage")["num_images"]
    assert flow["evaluated"] == flow["test"] == len(TEST) and "ungradable" not in flow
    with pytest.raises(DrError, match="the same models on every data set"):
        average_sets(read_predictions(*paths[:3]))


def test_grades_of_one_part_are_not_the_ensemble_s(tmp_path):
    """It has a probability, and no kappa."""
    bare = TABLE.drop(columns=GRADES).assign(probability_referable=TABLE["probability_0"] * 0)
    found = read_predictions(write(tmp_path, TABLE, "a"), write(tmp_path, bare, "b"))
    (both,) = average_sets(found)
    assert len(found[0].graded) and not len(both.graded)
    expected = found[0].test["probability_referable"] / 2
    assert both.test["probability_referable"].tolist() == pytest.approx(expected.tolist())


def test_a_probability_that_is_not_given_is_the_sum_of_three(tmp_path):
    """Row by row: a blank beside five probabilities leaves no photograph out."""
    summed = TABLE[GRADES[2:]].sum(axis=1, min_count=3).clip(upper=1)
    table = TABLE.assign(probability_referable=summed.where(TABLE.index != TEST[0] - 2))
    (read,) = read_predictions(write(tmp_path, table))
    assert len(read.test) == len(TEST)
    assert read.test["probability_referable"].iloc[0] == pytest.approx(summed[TEST[0] - 2])


def test_a_sheet_of_no_workbook_is_refused(tmp_path):
    """Of one file of several it is a choice."""
    path = write(tmp_path, TABLE)
    with pytest.raises(DrError, match="^sheet Plan1: no file .*; leave sheet out"):
        read_predictions(path, sheet="Plan1")
    other = tmp_path / "other.xlsx"
    TABLE.to_excel(other, sheet_name="Plan1", index=False)
    assert len(read_predictions(path, other, sheet="Plan1")) == 2


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
    is_windows = b"PARTI\xc7\xc3O" in path.read_bytes()  # the same in Latin-1
    assert (read.sources[0].encoding == "windows-1252") == is_windows
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


def test_folds_are_pooled_into_one_test_split(tmp_path):
    """Each photograph once, with what the model said that had not seen it, at the thresholds that
    this model was frozen at on its own validation patients.

    A fold twice, or not at all, is an error.
    """
    sides = {
        "train": ["train", "validation", "test"],
        "validation": ["test", "train", "validation"],
        "test": ["validation", "test", "train"],
    }
    given = TABLE.drop(columns=GRADES)
    p = np.random.default_rng(0).uniform(size=len(given)) * 0.6 + 0.1 * given["grade"]
    paths = []
    tp = fn = 0
    for fold in range(3):
        split = given["split"].map(lambda side, fold=fold: sides[side][fold])
        table = given.assign(split=split, probability_referable=(p / (fold + 1)).round(6))
        table.loc[split == "train", "probability_referable"] = None
        if fold:  # one file says what the others do not
            table = table.drop(columns="camera")
        # the test rows of each file are on the same lines
        paths.append(write(tmp_path, table.sort_values("split"), f"fold{fold}"))
        (alone,) = read_predictions(paths[-1])
        row = measure_points(alone, choose_points(alone, **ASKED)).iloc[0]
        tp += row["tp"]
        fn += row["fn"]
    (pooled,) = read_predictions(*paths, folds=True)
    assert pooled.test["image_id"].is_unique and len(pooled.test) == len(given)
    assert set(pooled.test["camera"]) == {"", "A", "B"}
    groups = split_subgroups(pooled, pd.DataFrame()).query("factor == 'camera'")
    assert groups["level"].tolist() == ["A", "B"]
    points = choose_points(pooled, **ASKED)
    assert points["fold"].tolist() == [1, 2, 3, 1, 2, 3]
    measured = measure_points(pooled, points)
    assert (measured["tp"][0], measured["fn"][0]) == (tp, fn) and fn
    assert measured["threshold"].isna().all()  # one of each fold
    assert len(recalibrate(pooled)) == len(given)
    with pytest.raises(DrError, match="96 photographs are in no fold's test split"):
        read_predictions(paths[0], paths[2], folds=True)
    with pytest.raises(DrError, match="fold0.csv and .*fold0.csv test the same patients"):
        read_predictions(*paths, paths[0], folds=True)


def test_a_file_without_a_suffix_names_no_public_data_set(tmp_path):
    """A claim about EyePACS is judged by a column that says so."""
    path = write(tmp_path, TABLE, "eyepacs").rename(tmp_path / "eyepacs")
    (found,) = read_predictions(path)
    assert found.dataset == "eyepacs.csv"
