"""Several files of predictions: models to compare, further data sets, folds, ensembles."""

import numpy as np
import pytest

from dr_lib.errors import DrError
from dr_lib.evaluation.points import Goals, choose_points, measure_points
from dr_lib.evaluation.predictions import average_sets, read_predictions
from dr_lib.files import join_paths, split_paths
from tests.evaluation.test_table import GRADES, TABLE, TEST, TRAIN, VALIDATION, change
from tests.report.predictions import draw_abroad, draw_predictions, write


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
            lambda t: t.assign(image_id="/data/" + t["image_id"] + ".jpg"),
            r"such as .*i\d+ and /data/i\d+.jpg: .* image_id written alike",
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
        (  # the same patients, by other names of their files
            lambda _: HOME.query("split == 'test'").assign(
                image_id="x" + HOME["image_id"], dataset="abroad"
            ),
            "abroad: 48 of its patients are tested in home too",
        ),
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
        row = measure_points(alone, choose_points(alone, Goals())).iloc[2]
        tp += row["tp"]
        fn += row["fn"]
    (pooled,) = read_predictions(*paths, folds=True)
    assert pooled.test["image_id"].is_unique and len(pooled.test) == len(given)
    assert set(pooled.test["camera"]) == {"", "A", "B"}
    points = choose_points(pooled, Goals())
    assert points["fold"].tolist() == [1, 2, 3, 1, 2, 3]
    measured = measure_points(pooled, points)
    assert (measured["tp"][2], measured["fn"][2]) == (tp, fn) and fn
    with pytest.raises(DrError, match="96 photographs are in no fold's test split"):
        read_predictions(paths[0], paths[2], folds=True)
    with pytest.raises(DrError, match="fold0.csv and .*fold0.csv test the same patients"):
        read_predictions(*paths, paths[0], folds=True)


def test_a_file_without_a_suffix_names_no_public_data_set(tmp_path):
    """A claim about EyePACS is judged by a column that says so."""
    path = write(tmp_path, TABLE, "eyepacs").rename(tmp_path / "eyepacs")
    (found,) = read_predictions(path)
    assert found.dataset == "eyepacs.csv"
