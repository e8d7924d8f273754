"""Several files of predictions: models to compare, further data sets, folds, ensembles."""

import pytest

from dr_lib.errors import DrError
from dr_lib.evaluation.answer import list_facts
from dr_lib.evaluation.groups import count_flow
from dr_lib.evaluation.points import choose_points, measure_points
from dr_lib.evaluation.predictions import average_sets, read_predictions
from dr_lib.evaluation.scores import summarise
from dr_lib.report.page import Page
from tests.evaluation.test_table import GRADES, TABLE, TEST, TRAIN, VALIDATION, change
from tests.report.predictions import draw_abroad, draw_predictions, write

HOME = TABLE.assign(model_version="v1", dataset="home")
ABROAD = draw_abroad()
HERE = ABROAD.index[0] + 2  # a line of both files


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (TABLE.drop(index=TEST[0] - 2), "different test photographs .1 are in only one"),
        (change(TABLE, VALIDATION[:2], "patient_id", "x"), "disagree on the patient or label"),
        (TABLE.assign(grade=TABLE["grade"].replace(3, 4)), "disagree on the patient or label"),
        (
            TABLE.assign(data_kind="synthetic"),
            "synthetic and real photographs cannot be pooled",
        ),
        (HOME[HOME["split"] == "test"], "home: 96 image_id of its test rows are in home too"),
        # another data set of the model has other people, and no thresholds of its own
        (ABROAD.assign(model_version="v2"), "different test photographs .*model_version"),
        (
            change(ABROAD, [HERE], "image_id", TABLE["image_id"][TRAIN[0] - 2]),
            "1 image_id of its",
        ),
        (change(ABROAD, [HERE], "patient_id", "P001"), "abroad: 1 patient_id .* in home too"),
        (change(ABROAD, [HERE, HERE + 1], "split", "validation"), "in 2 files"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, table, message):
    """Other photographs, patients or labels; what the model learned from among another data set."""
    with pytest.raises(DrError, match=message):
        read_predictions(write(tmp_path, HOME, "a"), write(tmp_path, table, "b"))


def test_an_ensemble_is_averaged_on_each_data_set(tmp_path):
    """Photograph by photograph, in any order of the rows: two models at home and abroad are one on
    each, without a grade of its own where one has none; a set that lacks a model is refused.
    """
    second = draw_predictions(noise=2.0).drop(columns=GRADES).sample(frac=1, random_state=0)
    second["probability_referable"] = second["age"].div(100).where(second["split"] != "train")
    tables = [HOME, second.assign(model_version="v2", dataset="home")]
    tables += [ABROAD, draw_abroad(2.0, "v2")]
    tables = [table.assign(model="inception_v3_299") for table in tables]
    paths = [write(tmp_path, table, name) for table, name in zip(tables, "abcd", strict=True)]
    found = average_sets(read_predictions(*paths))
    assert [both.dataset for both in found] == ["home", "abroad"]
    # what claims of that network look for
    names = {(both.name, both.version) for both in found}
    assert names == {("ensemble of 2: inception_v3_299", "v1 v2")}
    assert not len(found[0].graded) and len(found[1].graded)
    mean = found[0].test.set_index("image_id")["probability_referable"]
    one = HOME.set_index("image_id")[GRADES[2:]].sum(axis=1)
    two = second.set_index("image_id")["probability_referable"]
    assert mean.to_dict() == pytest.approx(((one + two) / 2)[mean.index].to_dict(), abs=1e-6)
    with pytest.raises(DrError, match="the same models on every data set"):
        average_sets(read_predictions(*paths[:3]))


def test_folds_are_pooled_into_one_test_split(tmp_path):
    """Each photograph once, with what the model said that had not seen it, at the thresholds that
    this model was frozen at, all of which the card names; a fold twice, or not at all, is an error.
    """
    sides = ["train", "validation", "test"]
    paths = []
    counts = 0
    for fold in range(3):
        split = [sides[(sides.index(side) + fold) % 3] for side in TABLE["split"]]
        p = (TABLE["age"] / 200 + TABLE["grade"] / 10) / (fold + 1)
        table = TABLE.drop(columns=GRADES).assign(split=split, probability_referable=p)
        table.loc[table["split"] == "train", "probability_referable"] = None
        # the test rows of each file are on the same lines
        paths.append(write(tmp_path, table.sort_values("split"), f"fold{fold}"))
        (alone,) = read_predictions(paths[-1])
        row = measure_points(alone, choose_points(alone)).iloc[2]
        counts += row[["tp", "fn"]]
    (pooled,) = read_predictions(*paths, folds=True)
    assert pooled.test["image_id"].is_unique and len(pooled.test) == len(TABLE)
    assert count_flow(pooled)["num_images"].tolist() == [len(TABLE)]
    points = choose_points(pooled)
    measured = measure_points(pooled, points)
    assert measured.loc[2, ["tp", "fn"]].tolist() == counts.tolist() and counts["fn"]
    facts = list_facts(pooled, summarise(pooled).iloc[0], points, measured, Page())
    assert facts["threshold, high sensitivity"].count("; ") == 2
    with pytest.raises(DrError, match="72 photographs are in no fold's test split"):
        read_predictions(paths[0], paths[2], folds=True)
    with pytest.raises(DrError, match="fold0: a patient is tested twice"):
        read_predictions(*paths, paths[0], folds=True)


def test_photographs_have_the_data_set_that_any_of_their_files_names(tmp_path):
    """The second file alone has the column; a file of other photographs keeps its own."""
    tables = [TABLE, TABLE.assign(dataset="IDRiD"), ABROAD.assign(dataset="")]
    tables = [table.assign(model_version="v1") for table in tables]
    tables[1] = tables[1].assign(model_version="v2")
    paths = [write(tmp_path, table, name) for table, name in zip(tables, "abc", strict=True)]
    assert [p.dataset for p in read_predictions(*paths)] == ["IDRiD", "IDRiD", "c.csv"]
