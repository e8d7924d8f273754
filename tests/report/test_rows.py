"""Opening the rows of a paper's study: whose they are, and folders that are not there."""

import json

import numpy as np
import pandas as pd
import pytest

from dr_lib.claims.papers import PAPERS
from dr_lib.errors import DrError
from dr_lib.report.rows import choose_rows, open_rows
from tests.report.real_rows import copy_row


def write_rows(folder, *rows):
    """Write rows where a study leaves them."""
    (folder / "rows").mkdir(parents=True)
    for row in rows:
        (folder / "rows" / f"{row['run_id']}.json").write_text(json.dumps(row))


def test_rows_of_other_notebooks_and_tasks_are_not_mixed_in(tmp_path):
    """A folder where everything was tried by hand holds rows of many kinds."""
    first = copy_row("10", run_id="a")
    grades = copy_row("10", run_id="g", task="grades")
    write_rows(tmp_path / "both", first, grades, copy_row("40", "fused", run_id="m"))
    write_rows(tmp_path / "alone", grades)
    names = {
        name: open_rows(PAPERS["A"], name, tmp_path).selection.timed["run_id"].tolist()
        for name in ("both", "alone")
    }
    assert names == {"both": ["a"], "alone": ["g"]}


def test_folders_that_are_missing_are_named_unless_they_are_the_default(tmp_path):
    """An analysis without rows shows the paper alone."""
    for paper in "ABD":
        rows = open_rows(PAPERS[paper], "rows", tmp_path, default="rows")
        assert rows.table.empty and rows.selection.timed.empty
    with pytest.raises(DrError, match="rwos: no such folder"):
        open_rows(PAPERS["A"], "rwos", tmp_path, default="rows")


def test_rows_are_chosen_by_their_values():
    """Numbers by what they are, texts whole, hashes by their beginning, and either of two."""
    rows = pd.DataFrame(
        {
            "run": [*"abc"],
            "epochs": [2, 20, 20],
            "learning_rate": [0.001, 0.001, np.nan],
            "model": ["VGG16", "mobilenet", "2026"],
            "keep_best": [True, False, None],
            "data_sha256": ["12ab", "12cd", "34"],
        }
    )
    for only, chosen in {
        "": "abc",
        "epochs=20": "bc",
        "epochs=2e1, model=mobilenet": "b",
        "epochs=2,epochs=20": "abc",
        "learning_rate=1e-3": "ab",
        "model=VGG16": "a",
        "model=2026": "c",
        "keep_best=True": "a",
        "data_sha256=12*": "ab",
    }.items():
        assert "".join(choose_rows(rows, only)["run"]) == chosen, only
    for only, message in {
        "epochs=3": "no row has it, choose from 2, 20",
        "epochs=2,model=mobilenet": "no row has it, choose from VGG16",
        "epoch=2": "no row has it, choose from no such column",
    }.items():
        with pytest.raises(DrError, match=f"^only {only.split(',')[-1]}: {message}"):
            choose_rows(rows, only)
