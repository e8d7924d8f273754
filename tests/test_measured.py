"""The rows and pictures that everybody sees."""

import json
import re
import shutil

import nbformat
import pandas as pd
import pytest

from dr_lib.runs.row import check_row, read_row
from tests.conftest import ROOT
from tools.measured import FOLDER, tabulate, write_page

ROWS = sorted(FOLDER.glob("*/*/rows/*.json"))
EXAMPLES = sorted((ROOT / "papermill_runs" / "examples").glob("*.ipynb"))
DATA = pd.read_csv(FOLDER / "data.csv", index_col="data_sha256")


@pytest.mark.parametrize("path", ROWS, ids=lambda path: path.stem)
def test_a_public_row_is_a_finished_one_of_listed_data(path):
    """By the schema, of a commit without changes, of data that everybody can have."""
    row = check_row(read_row(path))
    assert row["status"] == "ok" and row["data_sha256"] in DATA.index, "see data.csv"
    assert row["data_kind"] == DATA.loc[row["data_sha256"], "data_kind"]
    assert re.fullmatch("[0-9a-f]{40}", row["commit"])


def test_the_page_is_in_step_with_its_rows(tmp_path):
    """The command writes the same table again, and a small figure."""
    copy = tmp_path / "measured"
    shutil.copytree(FOLDER, copy)
    (copy / "training.png").unlink()
    write_page(copy)
    assert (copy / "README.md").read_text() == (FOLDER / "README.md").read_text()
    assert (copy / "training.png").stat().st_size < 80_000


def test_a_line_is_of_equal_work_alone(tmp_path):
    """Three runs of 10 s beside one of more epochs; the last part of a resumed one is in none."""
    own = [{}, {}, {}, {"epochs": 99, "train_s": 50.0}, {"resumed": 1, "train_s": 1.0}]
    for number, columns in enumerate(own):
        row = read_row(ROWS[0]) | {"train_s": 10.0 + number, "run_id": str(number)} | columns
        path = tmp_path / "machine" / "demo" / "rows" / f"{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(row))
    table, _ = tabulate(tmp_path)
    # the geometric mean of 10, 11 and 12 is 10.97
    found = zip(table["n"], table["training [s]"].str.split(" ").str[0], strict=True)
    assert sorted(found) == [(1, "50"), (3, "11.0")]


def test_the_gallery_says_where_each_picture_comes_from():
    """Commands, machine, runs, day and a commit without changes; pictures are there and small."""
    page = FOLDER.parent / "gallery.md"
    origin = (
        r"(?m)^.+, \d+ CPUs, \d+ GiB; runs: \d+, \d+ disturbed; \d{4}-\d\d-\d\d; commit"
        r" [0-9a-f]{12}(, [0-9a-f]{12})*$"
    )
    shown = []
    for section in page.read_text(encoding="utf-8").split("\n## ")[1:]:
        assert re.search(origin, section) and "\n```sh\n.venv/bin/" in section, section
        shown += [page.parent / name for name in re.findall(r"!\[.+\]\((.+)\)", section)]
    assert len(shown) > 6 and {*shown} == {*page.with_suffix("").glob("*.png")}
    assert max(picture.stat().st_size for picture in shown) < 80_000


def test_the_first_notebooks_have_an_example():
    """00, 01, 10 and 11."""
    assert [path.name[:2] for path in EXAMPLES] == ["00", "01", "10", "11"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_small_and_dated_and_ran_to_its_end(path):
    """What GitHub shows of a notebook, of the synthetic sample."""
    assert path.stat().st_size < 300_000
    origin, *cells = nbformat.read(path, as_version=4).cells
    assert re.search(r"synthetic sample.*; 20\d\d-\d\d-\d\d; commit", origin.source)
    code = [cell for cell in cells if cell.cell_type == "code" and cell.source]
    assert all(cell.execution_count for cell in code)
    outputs = [output for cell in code for output in cell.outputs]
    assert not any(output.output_type == "error" for output in outputs)
