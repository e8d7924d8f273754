"""Files graded at the command line: the endpoint's answers, every file in the table."""

import csv
import json
import os
import resource
import shutil

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.special import expit, logit

from dr_lib.__main__ import main
from dr_lib.data.prepared.folder import Prepared
from dr_lib.errors import DrError
from dr_lib.files import hash_file
from dr_lib.rooms.serving.grader.grade_files import find_patients, grade_files, grade_prepared
from dr_lib.rooms.serving.grader.predict import Predictor
from dr_lib.statistics.recalibration import read_recalibration
from dr_lib.training.model_folder import read_folder, write_folder
from tests.rooms.serving.driver import draw_photograph, encode


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


def read_rows(out):
    """The rows of a table of grades."""
    with out.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_file_has_its_row(served_folder, photographs, tmp_path):
    """Grades are those of the endpoint, of a TIFF too; what cannot be graded is counted by its
    reason.
    """
    out = tmp_path / "new" / "grades.csv"
    result = CliRunner().invoke(
        main, ["predict", str(served_folder), str(photographs), "--out", str(out)]
    )
    assert (
        result.exit_code == 0
        and "1 photographs could not be graded\n  1 not a picture" in result.output
    )
    assert "explains the words): 2 enlarged" in result.output
    rows = read_rows(out)
    assert [row["file"].rsplit("/")[-1] for row in rows] == [
        "a.jpg",
        "b.PNG",
        "c.jpeg",
        "d.tif",
    ]
    answer = Predictor(read_folder(served_folder), 1)((photographs / "a.jpg").read_bytes())
    assert (
        int(rows[0]["most_probable_grade"]) == answer["most_probable_grade"]
        and rows[0]["fundus"] == answer["fundus"]["status"]
    )
    assert [float(rows[0][f"probability_{k}"]) for k in range(5)] == pytest.approx(
        answer["probabilities"]
    )
    assert rows[2]["most_probable_grade"] == "" and "not a picture" in rows[2]["error"]
    assert rows[3] | {"file": ""} == rows[1] | {"file": ""}


def test_where_none_can_be_graded_the_reason_is_said(served_folder, photographs, tmp_path):
    """A table of errors alone, and no crash."""
    out = tmp_path / "grades.csv"
    command = ["predict", str(served_folder), str(photographs / "c.jpeg"), "--out", str(out)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert "1 photographs could not be graded\n  1 not a picture" in result.output
    assert read_rows(out)[0]["error"].startswith("not a picture")


def test_grade_and_threshold_cannot_be_mistaken(served_folder, photographs, tmp_path):
    """Table and answer name the most probable grade, and what the threshold makes of all
    probabilities, and show it.
    """
    model = read_folder(served_folder)
    answer = Predictor(model, 1).grade(photographs / "a.jpg")
    suspected = answer["probability_referable"]
    for threshold, is_referable in ((suspected + 1e-6, False), (suspected - 1e-6, True)):
        copy = shutil.copytree(served_folder, tmp_path / f"model-{is_referable}")
        folder = write_folder(copy, model.artifact.name, model.facts | {"threshold": threshold})
        grade_files(folder, [photographs / "a.jpg"], tmp_path / f"{is_referable}.csv")
        (row,) = read_rows(tmp_path / f"{is_referable}.csv")
        assert (
            row["most_probable_grade"] == str(answer["most_probable_grade"])
            and float(row["threshold"]) == threshold
        )
        assert row["referable_at_threshold"] == str(is_referable)
        assert not {"grade", "referable"} & (set(row) | set(answer))


def test_a_person_has_one_answer(served_folder, tmp_path):
    """Refer if one eye reaches the frozen threshold; else, if one could not be graded, a person
    grades; in the table that Excel in Brazil opens.
    """
    names = ("1_left.jpg", "1_right.jpg", "2_left.jpg", "2_right.jpg", "b/1_left.jpg", "x.jpg")
    (tmp_path / "eyes" / "b").mkdir(parents=True)
    for number, name in enumerate(names):
        (tmp_path / "eyes" / name).write_bytes(encode(draw_photograph(number % 4)))
    (tmp_path / "eyes" / "2_right.jpg").write_bytes(b"no picture")
    model = read_folder(served_folder)
    predictor = Predictor(model, 1)
    found = {
        name: predictor.grade(tmp_path / "eyes" / name)["probability_referable"]
        for name in names
        if name != "2_right.jpg"
    }
    threshold = (found["1_left.jpg"] + found["1_right.jpg"]) / 2
    copy = shutil.copytree(served_folder, tmp_path / "model")
    write_folder(copy, model.artifact.name, model.facts | {"threshold": threshold})
    out = tmp_path / "grades.csv"
    command = ["predict", str(copy), str(tmp_path / "eyes"), "--by-patient", "--sep", ";"]
    refused = CliRunner().invoke(main, [*command, "--external", "--out", str(out)])
    assert "--external needs one prepared folder" in refused.output and not out.exists()
    said = CliRunner().invoke(main, [*command, "--out", str(out)])
    assert said.exit_code == 0, said.output
    assert "4 patients: " in said.output and "not a medical device" in said.output
    assert "4 pacientes: " in said.output and "não é um dispositivo médico" in said.output
    assert out.read_bytes().startswith(b"\xef\xbb\xbffile;most_probable_grade;")
    graded = pd.read_csv(out, sep=";", decimal=",")
    assert len(graded) == len(names) and graded["probability_0"].dtype == float
    table = pd.read_csv(tmp_path / "grades.patients.csv", sep=";", decimal=",")
    table["patient"] = table["patient"].str.rpartition("eyes/")[2]
    table = table.set_index("patient")
    expected = {
        "1": "refer",
        "2": "refer" if found["2_left.jpg"] >= threshold else "grade by hand",
        "b/1": "refer" if found["b/1_left.jpg"] >= threshold else "no referral",
        "x.jpg": "refer" if found["x.jpg"] >= threshold else "no referral",
    }
    assert table["answer"].to_dict() == expected and len(set(expected.values())) > 1
    assert table.loc["1", "probability_referable"] == pytest.approx(
        max(found["1_left.jpg"], found["1_right.jpg"])
    )
    assert table["num_not_graded"].to_dict() == {"1": 0, "2": 1, "b/1": 0, "x.jpg": 0}
    assert "unknown patients, each counted as one: 1" in said.output
    again = CliRunner().invoke(main, [*command, "--out", str(tmp_path / "grades.x.csv")])
    assert again.exit_code == 0
    out.unlink()
    refused = CliRunner().invoke(main, [*command, "--out", str(out)])
    assert "grades.patients.csv exists and is not overwritten" in refused.output


def test_a_date_in_a_name_is_no_patient(tmp_path):
    """The visits of a person are one, and two folders may have a person 1 each."""
    names = ("12_20240501_OD", "12_20250602_OE", "013_20240501_OD", "13_20240501_OE", "b/12_OD")
    patients = find_patients([tmp_path / f"{name}.jpg" for name in names])
    assert patients.nunique() == 3 and patients[[0, 2]].equals(
        patients[[1, 3]].set_axis([0, 2])
    )


def test_an_id_of_two_people_joins_no_others(tmp_path):
    """Files that all have one PatientID, of which a table names two people; the rest stay apart."""
    pytest.importorskip("pydicom")
    from tests.data.photograph.dicoms import write_dicom

    files = [tmp_path / f"IM{number}" for number in range(4)]
    for file in files:
        content = write_dicom(np.zeros((8, 8), np.uint8), "MONOCHROME2", PatientID="REMOVED")
        file.write_bytes(content)
    labels = tmp_path / "labels.csv"
    labels.write_text("image,patient\nIM0,a\nIM1,b\n")
    own = [*map(str, files[2:])]
    assert find_patients(files, labels).tolist() == ["a", "b", *own]
    labels.write_text("image,patient\nIM0,a\n")
    assert find_patients(files[:2], labels).tolist() == ["a", "a"]


@pytest.mark.parametrize(
    "names",
    [
        ["a.jpg", "b.jpg"],
        ["1_OD.jpg", "2_OE.jpg", "3_OD.jpg"],
        ["20240501_OD.jpg", "20240501_OE.jpg"],
    ],
)
def test_photographs_are_no_patients(served_folder, tmp_path, names):
    """Names without patients, or running numbers, are an error before anything is graded."""
    for name in names:
        (tmp_path / name).write_bytes(encode(draw_photograph()))
    out = tmp_path / "grades.csv"
    command = ["predict", str(served_folder), str(tmp_path), "--by-patient", "--out", str(out)]
    said = CliRunner().invoke(main, command)
    assert said.exit_code == 1 and "the file names give no patients" in said.output
    assert "--labels" in said.output and not out.exists()


def test_a_table_names_the_patients(served_folder, tmp_path):
    """Read and matched as by `prepare`: Excel's semicolons, a folder, another suffix, 7 as 007;
    what it does not name is counted apart, and a table without patients is an error.
    """
    for name in ("a.jpg", "b.jpg", "c/d.jpg", "e.jpg"):
        (tmp_path / "eyes" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "eyes" / name).write_bytes(encode(draw_photograph()))
    table = tmp_path / "pacientes.csv"
    command = ["predict", str(served_folder), str(tmp_path / "eyes"), "--labels", str(table)]
    command += ["--out", str(tmp_path / "grades.csv")]
    assert CliRunner().invoke(main, command).exit_code == 2  # without --by-patient
    for text, message in (
        ("Arquivo;Idade\na.jpg;7\n", "needs the columns image and patient"),
        ("Arquivo;Paciente\nx.jpg;7\n", "names the patient of none"),
        ("Arquivo;Paciente\na.jpg;7\na.jpg;8\n", "rows 2, 3: one photograph has two"),
        ('Arquivo;Paciente\na.jpg;"7\nb.jpg;8\n', "row 2: a quotation mark"),
    ):
        table.write_text(text)
        refused = CliRunner().invoke(main, [*command, "--by-patient"])
        assert refused.exit_code == 1 and message in refused.output
    rows = "Arquivo;Paciente\nA.PNG;007\nb.jpg;7\nC:\\eyes\\c\\d.jpg;João\ne.jpg;\n"
    table.write_text(rows, encoding="windows-1252")
    said = CliRunner().invoke(main, [*command, "--by-patient"])
    assert said.exit_code == 0 and "each counted as one: 1" in said.output
    answers = pd.read_csv(tmp_path / "grades.patients.csv", dtype=str)
    assert answers[["patient", "num_photographs"]].values.tolist() == [
        ["007", "2"],
        ["João", "1"],
        [str(tmp_path / "eyes" / "e.jpg"), "1"],
    ]


def test_a_disk_that_went_away_leaves_no_table(served_folder, photographs, tmp_path):
    """Its photographs are no pictures without a grade: the same command, the disk back, grades
    them.
    """
    folder = read_folder(served_folder)
    out = tmp_path / "grades.csv"
    with pytest.raises(DrError, match="no longer exists"):
        grade_files(
            folder,
            [photographs],
            out,
            progress=lambda *_: photographs.rename(tmp_path / "away"),
        )
    (tmp_path / "away").rename(photographs)
    assert not out.exists()
    reasons, _ = grade_files(folder, [photographs], out, workers=2)
    assert reasons.total() == 1 and [row["error"] for row in read_rows(out)].count("") == 3


def test_a_disk_that_is_full_leaves_no_table(served_folder, photographs, tmp_path):
    """Half a table would pass for a whole one."""
    out = tmp_path / "grades.csv"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            grade_files(read_folder(served_folder), [photographs], out, workers=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.glob("grades*"))


def test_no_file_is_overwritten(served_folder, photographs, tmp_path):
    """A table, a photograph and an empty one stay as they are."""
    folder = read_folder(served_folder)
    out = tmp_path / "grades.csv"
    grade_files(folder, [photographs / "a.jpg"], out)
    (photographs / "empty.jpg").write_bytes(b"")
    for path in (out, photographs / "a.jpg", photographs / "empty.jpg"):
        before = path.read_bytes()
        with pytest.raises(DrError, match="is not overwritten"):
            grade_files(folder, [photographs], path)
        assert path.read_bytes() == before


def test_any_name_and_any_kind_of_file_has_its_row(served_folder, tmp_path, monkeypatch):
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
    reasons, _ = grade_files(read_folder(served_folder), names, tmp_path / "grades.csv")
    assert reasons.total() == 3
    rows = {row["file"]: row["error"] for row in read_rows(tmp_path / "grades.csv")}
    listed = ["=1+1.jpg", "caf\\udce9.jpg", "pipe.jpg", "sparse.jpg", "zero.jpg"]
    assert list(rows) == [f"{tmp_path}/{name}" for name in listed]  # begins with no =, + or -
    assert [bool(error) for error in rows.values()] == [False, False, True, True, True]


def test_a_path_that_is_not_there_grades_nothing(served_folder, tmp_path):
    """It is named, and no table is left."""
    result = CliRunner().invoke(
        main, ["predict", str(served_folder), "nowhere.jpg", "--out", str(tmp_path / "x.csv")]
    )
    assert result.exit_code == 1 and "nowhere.jpg does not exist" in result.output
    assert not (tmp_path / "x.csv").exists()


def test_load_says_what_an_endpoint_answered(port, photographs, tmp_path):
    """A row per request; where nothing is answered, or there is nothing to send, the command
    fails and says why.
    """
    (photographs / "c.jpeg").unlink()
    options = [
        "--images",
        str(photographs),
        "--requests",
        "3",
        "--gap",
        "0",
        "--out",
        str(tmp_path / "requests.csv"),
    ]
    result = CliRunner().invoke(
        main, ["load", f"http://127.0.0.1:{port}/invocations", *options]
    )
    assert result.exit_code == 0 and "3 of 3 requests answered" in result.output
    assert len((tmp_path / "requests.csv").read_text().splitlines()) == 4
    (photographs / "a.jpg").write_text("no picture")
    result = CliRunner().invoke(
        main, ["load", f"http://127.0.0.1:{port}/invocations", *options]
    )
    assert (
        result.exit_code == 1
        and "no request was answered: status 415: the file is neither" in result.output
    )
    (photographs / "a.jpg").unlink()
    result = CliRunner().invoke(
        main, ["load", f"http://127.0.0.1:{port}/invocations", *options]
    )
    assert (
        result.exit_code == 1
        and f"no JPEG files below {photographs}: set --images" in result.output
    )


def test_a_prepared_folder_becomes_predictions_to_evaluate(
    served_folder, small_sample, tmp_path
):
    """Another's folder, said to be so, is all test, graded as its photographs are; one's own
    keeps its sides.
    """
    untrained = read_folder(served_folder)
    out = tmp_path / "predictions.csv"
    shutil.copytree(served_folder, tmp_path / "own")
    folder = write_folder(
        tmp_path / "own", untrained.artifact.name, untrained.facts | {"data_sha256": "0" * 64}
    )
    for model, message in (
        (untrained, "does not state its training data"),
        (folder, "add --external"),
    ):
        # it may have grown since the model learned from it
        with pytest.raises(DrError, match=message):
            grade_prepared(model, small_sample, out)
    grade_prepared(folder, small_sample, out, is_external=True)
    rows = read_rows(out)
    labels = Prepared(small_sample).photographs.set_index("image_id")
    assert {row["split"] for row in rows} == {"test"} and len(rows) == len(labels)
    photographs = small_sample.parent / "photographs"
    names = pd.read_csv(photographs / "labels.csv")["image"]
    file = (
        photographs / names[labels.loc[rows[0]["image_id"], "row"] - 2]
    )  # the header is row 1
    answer = Predictor(folder, 1).grade(file)
    assert [float(rows[0][f"probability_{k}"]) for k in range(5)] == pytest.approx(
        answer["probabilities"], abs=1e-5
    )
    assert not any(name in out.read_text() for name in names)
    seen = labels["patient_id"].iloc[0]
    facts = {
        "intercept": 1.0,
        "slope": 0.5,
        "patients": [seen],
        "model_version": folder.version,
    }
    facts["thresholds"] = {"high sensitivity": 0.3, "high specificity": 0.6}
    local = tmp_path / "local.json"
    local.write_text(json.dumps(facts))
    words = ["predict", str(folder.path), str(small_sample), "--external", "--out", str(out)]
    said = CliRunner().invoke(main, [*words, "--recalibration", str(local)])
    assert f"evaluate {out} -p thresholds 0.3,0.6 --out FOLDER" in said.output
    for row in read_rows(out):
        is_seen = row["patient_id"] == seen
        assert (row["split"], row["reason"]) == (
            ("excluded", "used for the recalibration") if is_seen else ("test", "")
        )
        assert (row["probability_0"] == "") == is_seen
    data = Prepared(small_sample).describe()  # as if the model had learned from it
    own = write_folder(tmp_path / "own", folder.artifact.name, folder.facts | data)
    grade_prepared(own, small_sample, out)
    with pytest.raises(DrError, match="leave out --external"):
        grade_prepared(own, small_sample, out, is_external=True)
    graded = {row["split"] for row in read_rows(out) if row["probability_0"]}
    assert graded == {"validation", "test"} and {row["split"] for row in read_rows(out)} == {
        "train",
        *graded,
    }
    own = write_folder(own.path, folder.artifact.name, own.facts | {"split_sha256": "0" * 64})
    with pytest.raises(DrError, match="with a split table that no longer exists"):
        grade_prepared(own, small_sample, out)


def test_a_recalibration_moves_and_is_named(tmp_path, served_folder, jpeg):
    """The probability of referable disease by hand, the grades in proportion, the new threshold;
    another model's file is refused, and without the file all is as before.
    """
    folder = read_folder(served_folder)
    (tmp_path / "eye.jpg").write_bytes(jpeg)
    path = tmp_path / "local.json"
    facts = {"intercept": 1.0, "slope": 0.5, "thresholds": {"high sensitivity": 0.3}}
    path.write_text(json.dumps({**facts, "model_version": folder.version}))
    before = Predictor(folder, 1)(jpeg)
    after = Predictor(folder, 1, read_recalibration(path, folder.version))(jpeg)
    p = before["probability_referable"]
    assert after["probability_referable"] == pytest.approx(expit(1 + 0.5 * logit(p)))
    assert sum(after["probabilities"]) == pytest.approx(1)
    ratios = [
        answer["probabilities"][3] / answer["probabilities"][2] for answer in (before, after)
    ]
    assert ratios[0] == pytest.approx(ratios[1]) and after["threshold"] == 0.3
    assert after["recalibration"] == hash_file(path)[:12] and "recalibration" not in before
    rows = {}
    for name, option in (("new", ["--recalibration", str(path)]), ("old", [])):
        out = tmp_path / f"{name}.csv"
        words = ["predict", str(served_folder), str(tmp_path / "eye.jpg"), "--out", str(out)]
        result = CliRunner().invoke(main, [*words, *option])
        assert result.exit_code == 0, result.output
        rows[name] = pd.read_csv(out).iloc[0]
    assert rows["new"]["recalibration"] == hash_file(path)[:12]
    assert rows["new"]["probability_referable"] == pytest.approx(after["probability_referable"])
    assert "recalibration" not in rows["old"] and rows["old"]["threshold"] == 0.5
    path.write_text(json.dumps({**facts, "model_version": "other"}))
    with pytest.raises(DrError, match="recalibrates the model other"):
        read_recalibration(path, folder.version)
