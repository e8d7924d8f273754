"""Files graded at the command line: the endpoint's answers, every file in the table."""

import csv

import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.data.photograph.decode import MAX_PIXELS
from dr_lib.serving.grader.folder import read_folder
from dr_lib.serving.grader.predict import Predictor
from tests.serving.driver import draw_photograph, encode


@pytest.fixture
def photographs(tmp_path):
    """Two drawn photographs, one file that is none, and a note."""
    folder = tmp_path / "photographs"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(encode(draw_photograph(1)))
    (folder / "b.PNG").write_bytes(encode(draw_photograph(2), ".png"))
    (folder / "c.jpeg").write_bytes(b"no picture")
    (folder / "note.txt").write_text("not asked for")
    return folder


def test_every_file_has_its_row(served_folder, photographs, tmp_path):
    """Grades are those of the endpoint; what cannot be graded says why."""
    out = tmp_path / "grades.csv"
    result = CliRunner().invoke(main, ["predict", str(served_folder), str(photographs), "--out", str(out)])
    assert result.exit_code == 0 and "1 photographs could not be graded" in result.output
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["file"].rsplit("/")[-1] for row in rows] == ["a.jpg", "b.PNG", "c.jpeg"]
    answer = Predictor(read_folder(served_folder), 1, max_pixels=MAX_PIXELS)((photographs / "a.jpg").read_bytes())
    assert int(rows[0]["grade"]) == answer["grade"] and rows[0]["fundus"] == answer["fundus"]["status"]
    assert [float(rows[0][f"probability_{k}"]) for k in range(5)] == pytest.approx(answer["probabilities"])
    assert rows[2]["grade"] == "" and "neither a JPEG nor a PNG" in rows[2]["error"]


def test_a_path_that_is_not_there_grades_nothing(served_folder, tmp_path):
    """It is named, and no table is left."""
    result = CliRunner().invoke(main, ["predict", str(served_folder), "nowhere.jpg", "--out", str(tmp_path / "x.csv")])
    assert isinstance(result.exception, FileNotFoundError) and "nowhere.jpg is not there" in str(result.exception)
    assert not (tmp_path / "x.csv").exists()


def test_load_says_what_an_endpoint_answered(port, photographs, tmp_path):
    """A row per request; where nothing is answered the command fails and says why."""
    (photographs / "c.jpeg").unlink()
    options = ["--images", str(photographs), "--requests", "3", "--gap", "0", "--out", str(tmp_path / "requests.csv")]
    result = CliRunner().invoke(main, ["load", f"http://127.0.0.1:{port}/invocations", *options])
    assert result.exit_code == 0 and "3 requests, p50" in result.output
    assert len((tmp_path / "requests.csv").read_text().splitlines()) == 4
    result = CliRunner().invoke(main, ["load", f"http://127.0.0.1:{port}/nothing", *options])
    assert result.exit_code == 1 and "no request was answered" in result.output
