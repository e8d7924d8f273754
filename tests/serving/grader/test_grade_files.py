"""Files graded at the command line: prepared, then graded; every file in the table."""

import os
import shutil
import signal
import stat
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.data.prepared.folder import Prepared
from dr_lib.errors import DrError
from dr_lib.serving.grader.grade_files import grade_files, grade_prepared
from dr_lib.serving.grader.predict import Predictor
from dr_lib.training.model_folder import read_folder, write_folder
from tests.processes import wait_until
from tests.serving.driver import ROOT, draw_photograph, encode


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


def change(model, folder, **facts):
    """The model with other facts, in a folder of its own."""
    if folder != model.path:
        shutil.copytree(model.path, folder)
    return write_folder(folder, model.artifact.name, model.facts | facts)


def test_every_file_has_its_row(model, photographs, tmp_path):
    """Grades are those of the endpoint, of a TIFF too; what cannot be graded is counted by its
    reason. Nothing but the table is left.
    """
    out = tmp_path / "new" / "grades.csv"
    words = ["predict", str(model.path), str(photographs), "--out", str(out)]
    said = CliRunner().invoke(main, words, catch_exceptions=False).output
    assert "1 photographs could not be graded\n  1 not a picture" in said
    rows = pd.read_csv(out).set_index("file")
    assert rows.index.tolist() == ["./a.jpg", "./b.PNG", "./c.jpeg", "./d.tif"]
    answer = Predictor(model, 1)((photographs / "a.jpg").read_bytes())
    first = rows.loc["./a.jpg"]
    assert first["referable_at_threshold"] == answer["referable_at_threshold"]
    found = first[[f"probability_{k}" for k in range(5)]].tolist()
    assert found == pytest.approx(answer["probabilities"], abs=1e-5)
    broken = rows.loc["./c.jpeg"]
    assert np.isnan(broken["most_probable_grade"]) and "not a picture" in broken["error"]
    assert rows.loc["./d.tif"].equals(rows.loc["./b.PNG"])
    assert os.listdir(out.parent) == ["grades.csv"]
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_a_killed_command_goes_on(model, photographs, tmp_path):
    """Killed once photographs are cropped, and repeated: what is cropped is not read again."""
    for number in range(60):
        (photographs / f"{number}.jpg").write_bytes(encode(draw_photograph(number, 1200, 900)))
    out = tmp_path / "grades.csv"
    command = [sys.executable, "-m", "dr_lib", "predict", model.path, photographs, "--out", out]
    cache = tmp_path / "grades.csv.crops"
    process = subprocess.Popen([*map(str, command)], cwd=ROOT)
    wait_until(lambda: list(cache.glob("crops-*")))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not out.exists() and stat.S_IMODE(cache.stat().st_mode) == 0o700
    table = grade_files(model, photographs, out)
    assert len(table) == 64 and (table["error"] == "").sum() == 63 and not cache.exists()


def test_nothing_is_overwritten(model, photographs):
    """A photograph stays as it is."""
    before = (photographs / "a.jpg").read_bytes()
    with pytest.raises(DrError, match="is not overwritten"):
        grade_files(model, photographs, photographs / "a.jpg")
    assert (photographs / "a.jpg").read_bytes() == before


def test_any_name_and_any_kind_of_file_has_its_row(model, tmp_path):
    """A name of bytes, a formula as a name, a pipe and 5 GiB of nothing: UTF-8, and no formula."""
    folder = tmp_path / "odd"
    folder.mkdir()
    for name in (b"caf\xe9.jpg", b"=1+1.jpg"):
        with open(os.fsencode(folder) + b"/" + name, "wb") as file:
            file.write(encode(draw_photograph(1)))
    os.mkfifo(folder / "pipe.jpg")
    with (folder / "sparse.jpg").open("wb") as file:
        file.truncate(5 * 2**30)
    grade_files(model, folder, tmp_path / "grades.csv")
    rows = pd.read_csv(tmp_path / "grades.csv").set_index("file")
    assert rows["error"].isna().to_dict() == {
        "./=1+1.jpg": True,
        "./caf\\udce9.jpg": True,
        "./pipe.jpg": False,
        "./sparse.jpg": False,
    }


def test_a_prepared_folder_becomes_predictions_to_evaluate(model, small_sample, tmp_path):
    """Another's folder, said to be so, is all test; one's own keeps its sides. Names of
    photographs stay where they are.
    """
    out = tmp_path / "predictions.csv"
    folder = change(model, tmp_path / "own", data_sha256="0" * 64)

    def refuse(wrong, message, **options):
        with pytest.raises(DrError, match=message):
            grade_prepared(wrong, small_sample, out, **options)

    refuse(model, "does not state its training data")
    refuse(folder, "add --external")  # it may have grown since the model learned from it
    grade_prepared(folder, small_sample, out, is_external=True)
    names = pd.read_csv(small_sample.parent / "photographs" / "labels.csv")["image"]
    rows = pd.read_csv(out)
    assert set(rows["split"]) == {"test"}
    assert len(rows) == len(Prepared(small_sample).photographs)
    assert not any(name in out.read_text() for name in names)
    data = Prepared(small_sample).describe()  # as if the model had learned from it
    own = change(folder, folder.path, **data)
    grade_prepared(own, small_sample, out)
    refuse(own, "leave out --external", is_external=True)
    graded = pd.read_csv(out).dropna(subset=["probability_0"])
    assert set(graded["split"]) == {"validation", "test"}
    refuse(change(own, own.path, split_sha256="0" * 64), "its split has changed")
