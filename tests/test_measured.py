"""The rows that everybody sees."""

import shutil
from pathlib import Path

import pytest

from dr_lib.runs.row import check_row, read_row
from tests.measured import FOLDER, write_page

ROWS = sorted(FOLDER.glob("*/*/*.json"))


@pytest.mark.parametrize("path", ROWS, ids=lambda path: path.stem)
def test_a_public_row_is_a_finished_one_of_the_synthetic_sample(path: Path):
    """By the schema, small, and without a path of the machine that made it."""
    row = check_row(read_row(path))
    assert row["status"] == "ok" and row["data_kind"] == "synthetic"
    text = path.read_text(encoding="utf-8")
    assert len(text) < 10_000 and "/home/" not in text and "/root/" not in text


def test_the_page_is_in_step_with_its_rows(tmp_path):
    """The command writes the same table again."""
    assert ROWS
    copy = tmp_path / "measured"
    shutil.copytree(FOLDER, copy)
    write_page(copy)
    assert (copy / "README.md").read_text() == (FOLDER / "README.md").read_text()
    assert (copy / "training.png").stat().st_size < 80_000
