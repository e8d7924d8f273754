"""Opening the rows of a paper's study: whose they are, and folders that are not there."""

import pandas as pd
import pytest

from dr_lib.claims.papers import PAPERS
from dr_lib.errors import DrError
from dr_lib.report.rows import choose_rows, open_rows
from dr_lib.runs.row import write_row
from tests.report.real_rows import copy_row


def test_rows_of_other_notebooks_and_tasks_are_not_mixed_in(tmp_path):
    """A folder where everything was tried by hand holds rows of many kinds."""
    for row in (
        copy_row("10", run_id="a"),
        copy_row("10", run_id="g", task="grades"),
        copy_row("40", "fused", run_id="m"),
    ):
        write_row(tmp_path / "mine", row)
    timed = open_rows(PAPERS["A"], "mine", tmp_path).timed
    groups = timed.set_index("run_id")["group"].to_dict()
    assert groups == {"a": "CPU, task referable", "g": "CPU, task grades"}


def test_folders_that_are_missing_are_named_unless_they_are_the_default(tmp_path):
    """An analysis without rows shows the paper alone."""
    for paper in "ABD":
        selection = open_rows(PAPERS[paper], "rows", tmp_path, default="rows")
        assert selection.finished.empty and selection.excluded.empty
    with pytest.raises(DrError, match="rwos: no such folder"):
        open_rows(PAPERS["A"], "rwos", tmp_path, default="rows")


def test_rows_are_chosen_by_an_expression():
    """Of pandas; what is none, names no column or is true for no row is refused."""
    rows = pd.DataFrame({"run": [*"abc"], "epochs": [2, 20, 20], "model": ["x", "x", "y"]})
    assert list(choose_rows(rows, "epochs > 2 and model == 'x'")["run"]) == ["b"]
    for only in ("epochs == 3", "epoch == 2", "epochs ==", "epochs", "epochs % 2"):
        with pytest.raises(DrError, match=f"^only {only}: "):
            choose_rows(rows, only)
