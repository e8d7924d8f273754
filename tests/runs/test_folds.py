"""The folds of a model: found among the rows of its study, and what their pooled AUC is."""

import pandas as pd
import pytest

from dr_lib.runs.folds import find_folds
from dr_lib.runs.row import write_row
from tests.report.real_rows import copy_row

RECIPE = {
    "task": "grades",
    "model": "small_cnn",
    "recipe": "few",
    "image_size": 64,
    "epochs": 2,
}


def write_run(study, name, tested, **columns):
    """A row, and predictions of six patients of one photograph each, who are referable in turn;
    only the third is given a probability below that of a healthy one.
    """
    own = {"split_sha256": name, "repetition": 0, "seed": 20, "run_id": name, "study": "grades"}
    write_row(study, copy_row("10", **RECIPE | own) | columns)
    columns = {"image_id": range(6), "patient_id": range(6), "referable": [1, 0] * 3}
    table = pd.DataFrame(columns | {f"probability_{grade}": 0.0 for grade in range(5)})
    table["probability_3"] = [0.9, 0.1, 0.8, 0.2, 0.15, 0.3]
    table["probability_0"] = 1 - table["probability_3"]
    table["split"] = ["test" if k in tested else "train" for k in range(6)]
    run = study / "runs" / name
    run.mkdir(parents=True, exist_ok=True)
    table.to_csv(run / "predictions.csv", index=False)
    return run / "model"


def test_the_folds_of_a_model_are_pooled(tmp_path):
    """Of the nine pairs of a referable and another patient two are in the wrong order: 7 / 9.
    Runs of another recipe or repetition are none of them.
    """
    model = write_run(tmp_path, "C1", [0, 1])
    for name, tested in (("C2", [0, 1]), ("C3", [2, 3]), ("C4", [4, 5])):
        write_run(tmp_path, name, tested)
        write_run(tmp_path, f"{name}-again", tested, repetition=1, split_sha256=name)
        write_run(tmp_path, f"{name}-long", tested, epochs=3, split_sha256=name)
    found = find_folds(model)
    assert found["auc"] == pytest.approx(7 / 9)
    assert (found["models"], found["num_patients"]) == (3, 6)
    words = "3 models of the same recipe (small_cnn, recipe few, 64 px), each tested on other"
    assert found["sentence"].startswith(f"{words} patients: AUC 0.778 over 6 patients")
    write_run(tmp_path, "C4", [4, 5], code_sha256="later")
    words = "patients, trained by several versions of the code: AUC"
    assert words in find_folds(model)["sentence"]


@pytest.mark.parametrize(
    ("tested", "columns", "why"),
    [
        ([], {}, "no other split of its study was trained with this recipe"),
        ([[0, 1], [2, 3]], {"epochs": 3}, "recipe; other models there differ in epochs"),
        ([[0, 1], [2, 3]], {}, "2 photographs are in no fold's test split"),
        ([[0, 1, 2], [2, 3, 4, 5]], {}, "F1 and F0 test the same patients"),
    ],
)
def test_where_no_folds_stand_behind_a_model_the_reason_is_given(
    tmp_path, tested, columns, why
):
    """None were made, they are of another recipe, they leave patients out, or share one."""
    model = write_run(tmp_path, "C1", [0, 1])
    for number, patients in enumerate(tested):
        write_run(tmp_path, f"F{number}", patients, **columns)
    found = find_folds(model)
    assert found["sentence"].startswith("no folds: ") and why in found["sentence"]
    assert list(found) == ["sentence"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda file: file.unlink(), "not all their predictions.csv can be read"),
        (lambda file: file.write_text("image_id\n1\n"), "not all their predictions.csv can be"),
        (lambda file: file.write_text(file.read_text().replace(",1,", ",0,")), "an AUC needs"),
    ],
    ids=["gone", "columns", "one class"],
)
def test_predictions_of_folds_that_cannot_be_used_are_a_sentence(tmp_path, change, why):
    """It goes with the model to others, so it names no folder of this machine."""
    model = write_run(tmp_path, "C1", [0, 1])
    for name, tested in (("C2", [0, 1, 2]), ("C3", [3, 4, 5])):
        write_run(tmp_path, name, tested)
        change(tmp_path / "runs" / name / "predictions.csv")
    sentence = find_folds(model)["sentence"]
    assert sentence.startswith(f"no folds: {why}") and str(tmp_path) not in sentence


def test_a_model_away_from_its_study_has_no_folds(tmp_path):
    """Its row names the recipe; without it nothing is claimed."""
    assert "row of the model" in find_folds(tmp_path / "model")["sentence"]
