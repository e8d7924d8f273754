"""Files graded at the command line: the endpoint's answers, every file in the table."""

import csv
import os
import shutil
import stat

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.data.prepared.folder import Prepared
from dr_lib.errors import DrError
from dr_lib.serving.grader.grade_files import (
    find_patients,
    grade_files,
    grade_prepared,
    refer_patients,
)
from dr_lib.serving.grader.predict import Predictor
from dr_lib.training.model_folder import read_folder, write_folder
from tests.serving.driver import draw_photograph, encode

PROBABILITIES = [f"probability_{k}" for k in range(5)]


@pytest.fixture
def model(served_folder):
    """The served model."""
    return read_folder(served_folder)


@pytest.fixture
def photographs(tmp_path):
    """Three drawn photographs, one file that is none, and a note."""
    folder = tmp_path / "photographs"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(encode(draw_photograph(1)))
    (folder / "b.PNG").write_bytes(encode(draw_photograph(2, 320, 240), ".png"))
    (folder / "c.jpeg").write_bytes(b"no picture")
    (folder / "d.tif").write_bytes(encode(draw_photograph(2, 320, 240), ".tiff"))
    (folder / "note.txt").write_text("not asked for")
    return folder


def predict(*words, code=0):
    """What the command says."""
    result = CliRunner().invoke(main, ["predict", *map(str, words)])
    assert result.exit_code == code, result.output
    return result.output


def change(model, folder, **facts):
    """The model with other facts, in a folder of its own."""
    if folder != model.path:
        shutil.copytree(model.path, folder)
    return write_folder(folder, model.artifact.name, model.facts | facts)


def read_rows(out):
    """The rows of a table of grades."""
    with out.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_file_has_its_row(model, photographs, tmp_path):
    """Grades are those of the endpoint, of a TIFF too; what cannot be graded is counted by its
    reason, also where nothing else is there.
    """
    out = tmp_path / "new" / "grades.csv"
    said = predict(model.path, photographs, "--out", out)
    assert "1 photographs could not be graded\n  1 not a picture" in said
    assert "explains the words): 2 enlarged" in said
    rows = read_rows(out)
    names = [row["file"].rpartition("/")[2] for row in rows]
    assert names == ["a.jpg", "b.PNG", "c.jpeg", "d.tif"]
    answer = Predictor(model, 1)((photographs / "a.jpg").read_bytes())
    assert int(rows[0]["most_probable_grade"]) == answer["most_probable_grade"]
    assert rows[0]["fundus"] == answer["fundus"]["status"]
    found = [float(rows[0][name]) for name in PROBABILITIES]
    assert found == pytest.approx(answer["probabilities"])
    assert rows[2]["most_probable_grade"] == "" and "not a picture" in rows[2]["error"]
    assert rows[3] | {"file": ""} == rows[1] | {"file": ""}
    said = predict(model.path, photographs / "c.jpeg", "--out", tmp_path / "none.csv")
    assert "1 photographs could not be graded\n  1 not a picture" in said
    assert read_rows(tmp_path / "none.csv") == [rows[2]]


def test_grade_and_threshold_cannot_be_mistaken(model, photographs, tmp_path):
    """Table and answer name the most probable grade, and what the threshold makes of all
    probabilities, and show it.
    """
    answer = Predictor(model, 1).grade(photographs / "a.jpg")
    suspected = answer["probability_referable"]
    for threshold, is_referable in ((suspected + 1e-6, False), (suspected - 1e-6, True)):
        folder = change(model, tmp_path / f"{is_referable}", threshold=threshold)
        grade_files(folder, [photographs / "a.jpg"], tmp_path / f"{is_referable}.csv")
        (row,) = read_rows(tmp_path / f"{is_referable}.csv")
        assert row["most_probable_grade"] == str(answer["most_probable_grade"])
        assert float(row["threshold"]) == threshold
        assert row["referable_at_threshold"] == str(is_referable)
        assert not {"grade", "referable"} & (set(row) | set(answer))


def test_a_person_has_one_answer(model, tmp_path):
    """Refer if one eye reaches the frozen threshold; else, if one could not be graded, a person
    grades; in the table that Excel in Brazil opens.
    """
    names = ("1_left.jpg", "1_right.jpg", "2_left.jpg", "2_right.jpg", "b/1_left.jpg", "x.jpg")
    eyes = tmp_path / "eyes"
    (eyes / "b").mkdir(parents=True)
    predictor = Predictor(model, 1)
    found = {}
    for number, name in enumerate(names):
        (eyes / name).write_bytes(encode(draw_photograph(number % 4)))
        found[name] = predictor.grade(eyes / name)["probability_referable"]
    (eyes / "2_right.jpg").write_bytes(b"no picture")
    threshold = (found["1_left.jpg"] + found["1_right.jpg"]) / 2
    folder = change(model, tmp_path / "model", threshold=threshold).path
    out = tmp_path / "grades.csv"
    command = [folder, eyes, "--by-patient", "--sep", ";", "--out"]
    assert "--external needs one prepared folder" in predict(
        *command, out, "--external", code=2
    )
    said = predict(*command, out)
    assert "4 patients: " in said and "not a medical device" in said
    assert "4 pacientes: " in said and "não é um dispositivo médico" in said
    assert "unknown patients, each counted as one: 1" in said
    assert out.read_bytes().startswith(b"\xef\xbb\xbffile;most_probable_grade;")
    graded = pd.read_csv(out, sep=";", decimal=",")
    assert len(graded) == len(names) and graded["probability_0"].dtype == float
    table = pd.read_csv(tmp_path / "grades.patients.csv", sep=";", decimal=",")
    table = table.set_index(table["patient"].str.rpartition("eyes/")[2])
    expected = {
        "1": "refer",
        "2": "refer" if found["2_left.jpg"] >= threshold else "grade by hand",
        "b/1": "refer" if found["b/1_left.jpg"] >= threshold else "no referral",
        "x.jpg": "refer" if found["x.jpg"] >= threshold else "no referral",
    }
    assert table["answer"].to_dict() == expected and len(set(expected.values())) > 1
    most = max(found["1_left.jpg"], found["1_right.jpg"])
    assert table.loc["1", "probability_referable"] == pytest.approx(most)
    assert table["num_not_graded"].tolist() == [0, 1, 0, 0]
    written = (out, tmp_path / "grades.patients.csv")  # they name files and patients
    assert [stat.S_IMODE(path.stat().st_mode) for path in written] == [0o600, 0o600]
    out.unlink()
    assert "grades.patients.csv exists and is not overwritten" in predict(*command, out, code=1)


def test_a_doubtful_crop_is_no_negative_answer(model, photographs, tmp_path):
    """A photograph whose lower half is of another eye, as a damaged file shows it: its status is
    doubtful, so that a person grades it, unless an eye of the patient reaches the threshold.
    """
    eyes = tmp_path / "eyes"
    eyes.mkdir()
    whole = encode(draw_photograph(0))
    damaged = bytearray(whole)
    damaged[len(whole) // 2 : len(whole) // 2 + 40] = bytes(40)
    for name, content in {"1_left": whole, "1_right": damaged, "2_left": whole}.items():
        (eyes / f"{name}.jpg").write_bytes(content)
    patients = pd.Series(["1", "1", "2"])
    for threshold, answers in ((1.0, ["grade by hand", "no referral"]), (0.0, ["refer"] * 2)):
        folder = change(model, tmp_path / f"{threshold}", threshold=threshold)
        out = tmp_path / f"{threshold}.csv"
        grade_files(folder, sorted(eyes.iterdir()), out)
        assert [row["fundus"] for row in read_rows(out)] == ["ok", "doubtful", "ok"]
        found = refer_patients(out, patients, tmp_path / f"{threshold}.patients.csv")
        assert found["answer"].tolist() == answers
        assert found["num_not_graded"].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("names", "patients"),
    [
        # two folders may have a person each
        ("12_OD 013_OD 12_OE 13_OE b/12_OD", [0, 1, 0, 1, 2]),
        ("12_1_OD 12_1_OE 13_1_OD 13_1_OE", []),  # the first of 12, or the 12th of a first day
        ("a b", []),
        ("1_OD 2_OE 3_OD", []),  # running numbers
        ("20240501_OD 20240501_OE", []),  # dates
    ],
)
def test_names_of_files_may_name_patients(tmp_path, names, patients):
    """Where they name none, or no two have the same, that is an error."""
    files = [tmp_path / f"{name}.jpg" for name in names.split()]
    if patients:
        assert pd.factorize(find_patients(files))[0].tolist() == patients
    else:
        with pytest.raises(DrError, match="the file names give no patients.*--labels"):
            find_patients(files)


def test_an_id_of_two_people_joins_no_others(tmp_path):
    """Files that all have one PatientID, of which a table names two people: it has to name all."""
    pytest.importorskip("pydicom")
    from tests.data.photograph.dicoms import write_dicom

    files = [tmp_path / f"IM{number}" for number in range(4)]
    content = write_dicom(np.zeros((8, 8), np.uint8), "MONOCHROME2", PatientID="REMOVED")
    for file in files:
        file.write_bytes(content)
    labels = tmp_path / "labels.csv"
    labels.write_text("image,patient\nIM0,a\nIM1,b\n")
    with pytest.raises(DrError, match="PatientID and not 2 others: name the patient of each"):
        find_patients(files, labels)
    assert find_patients(files[:2], labels).tolist() == ["a", "b"]


def test_an_id_of_more_files_than_a_person_has_joins_none(tmp_path):
    """Of seven files with one PatientID nobody knows who they are of; six may be of one person."""
    pytest.importorskip("pydicom")
    from tests.data.photograph.dicoms import write_dicom

    files = [tmp_path / f"IM{number}" for number in range(7)]
    content = write_dicom(np.zeros((8, 8), np.uint8), "MONOCHROME2", PatientID="ANON")
    for file in files:
        file.write_bytes(content)
    assert find_patients(files[:6]).tolist() == [f"patient of {files[0]}"] * 6
    with pytest.raises(DrError, match="no PatientID stands for one person.*--labels"):
        find_patients(files)


def test_a_table_names_the_patients(served_folder, tmp_path):
    """Read and matched as by `prepare`: Excel's semicolons, a folder, another suffix. What it does
    not name is counted apart; a table without patients, or with 7 beside 007, is an error.
    """
    for name in ("a.jpg", "b.jpg", "c/d.jpg", "e.jpg"):
        (tmp_path / "eyes" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "eyes" / name).write_bytes(encode(draw_photograph()))
    table = tmp_path / "pacientes.csv"
    command = [served_folder, tmp_path / "eyes", "--labels", table]
    command += ["--out", tmp_path / "grades.csv"]
    predict(*command, code=2)  # without --by-patient
    for text, message in (
        ("Arquivo;Idade\na.jpg;7\n", "needs the columns image and patient"),
        ("Arquivo;Paciente\nx.jpg;7\n", "names the patient of none"),
        ("Arquivo;Paciente\na.jpg;7\na.jpg;8\n", "rows 2, 3: one photograph has two"),
        ("Arquivo;Paciente\na.jpg;7\nb.jpg;007\n", "rows 2, 3: ids of patients differ only"),
    ):
        table.write_text(text)
        assert message in predict(*command, "--by-patient", code=1)
    assert not (tmp_path / "grades.csv").exists()
    rows = "Arquivo;Paciente\nA.PNG;007\nb.jpg;007\nC:\\eyes\\c\\d.jpg;João\ne.jpg;\n"
    table.write_text(rows, encoding="windows-1252")
    assert "each counted as one: 1" in predict(*command, "--by-patient")
    answers = pd.read_csv(tmp_path / "grades.patients.csv", dtype=str)
    alone = str(tmp_path / "eyes" / "e.jpg")
    expected = [["007", "2"], ["João", "1"], [alone, "1"]]
    assert answers[["patient", "num_photographs"]].values.tolist() == expected


def test_a_disk_that_went_away_leaves_no_table(model, photographs, tmp_path):
    """Its photographs are no pictures without a grade: the same command, the disk back, grades
    them.
    """
    out = tmp_path / "grades.csv"
    away = tmp_path / "away"
    with pytest.raises(DrError, match="no longer exists"):
        grade_files(model, [photographs], out, progress=lambda *_: photographs.rename(away))
    away.rename(photographs)
    assert not out.exists()
    reasons, _ = grade_files(model, [photographs], out, workers=2)
    assert reasons.total() == 1 and [row["error"] for row in read_rows(out)].count("") == 3


def test_no_file_is_overwritten(model, photographs):
    """A photograph and an empty file stay as they are."""
    (photographs / "empty.csv").write_bytes(b"")
    for path in (photographs / "a.jpg", photographs / "empty.csv"):
        before = path.read_bytes()
        with pytest.raises(DrError, match="is not overwritten"):
            grade_files(model, [photographs], path)
        assert path.read_bytes() == before


def test_any_name_and_any_kind_of_file_has_its_row(model, tmp_path, monkeypatch):
    """A name of bytes, a formula as a name, a pipe, an endless device and 5 GiB of nothing:
    UTF-8, and no formula.
    """
    monkeypatch.chdir(tmp_path)
    for name in (b"caf\xe9.jpg", b"=1+1.jpg"):
        with open(name, "wb") as file:
            file.write(encode(draw_photograph(1)))
    os.mkfifo("pipe.jpg")
    os.symlink("/dev/zero", "zero.jpg")
    with open("sparse.jpg", "wb") as file:
        file.truncate(5 * 2**30)
    names = [os.fsdecode(name) for name in sorted(os.listdir(b"."))]
    grade_files(model, names, tmp_path / "grades.csv")
    rows = {row["file"]: row["error"] for row in read_rows(tmp_path / "grades.csv")}
    listed = ["=1+1.jpg", "caf\\udce9.jpg", "pipe.jpg", "sparse.jpg", "zero.jpg"]
    assert list(rows) == [f"{tmp_path}/{name}" for name in listed]  # begins with no =, + or -
    assert [bool(error) for error in rows.values()] == [False, False, True, True, True]


def test_a_path_that_is_not_there_grades_nothing(served_folder, tmp_path):
    """It is named, and no table is left."""
    out = tmp_path / "x.csv"
    said = predict(served_folder, "nowhere.jpg", "--out", out, code=1)
    assert "nowhere.jpg does not exist" in said and not out.exists()


def test_a_prepared_folder_becomes_predictions_to_evaluate(model, small_sample, tmp_path):
    """Another's folder, said to be so, is all test, graded as its photographs are; one's own
    keeps its sides.
    """
    out = tmp_path / "predictions.csv"
    folder = change(model, tmp_path / "own", data_sha256="0" * 64)

    def refuse(wrong, message, **options):
        with pytest.raises(DrError, match=message):
            grade_prepared(wrong, small_sample, out, **options)

    refuse(model, "does not state its training data")
    refuse(folder, "add --external")  # it may have grown since the model learned from it
    grade_prepared(folder, small_sample, out, is_external=True)
    rows = read_rows(out)
    labels = Prepared(small_sample).photographs.set_index("image_id")
    assert {row["split"] for row in rows} == {"test"} and len(rows) == len(labels)
    photographs = small_sample.parent / "photographs"
    names = pd.read_csv(photographs / "labels.csv")["image"]
    # the header is row 1
    file = photographs / names[labels.loc[rows[0]["image_id"], "row"] - 2]
    answer = Predictor(folder, 1).grade(file)
    found = [float(rows[0][name]) for name in PROBABILITIES]
    assert found == pytest.approx(answer["probabilities"], abs=1e-5)
    assert not any(name in out.read_text() for name in names)
    data = Prepared(small_sample).describe()  # as if the model had learned from it
    own = change(folder, tmp_path / "own", **data)
    grade_prepared(own, small_sample, out)
    refuse(own, "leave out --external", is_external=True)
    sides = {(row["split"], row["probability_0"] != "") for row in read_rows(out)}
    assert sides == {("train", False), ("validation", True), ("test", True)}
    own = change(own, own.path, split_sha256="0" * 64)
    refuse(own, "with a split table that no longer exists")
