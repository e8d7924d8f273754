"""What commit 87acb15 wrote opens and says the same; numbers are those that it printed."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib import Prepared, open_rows, read_runs, run_study, training_time
from dr_lib.__main__ import main
from dr_lib.claims.papers import PAPERS
from dr_lib.data.prepared.folder import verify
from dr_lib.errors import DrError

OLD = Path(__file__).parent / "old"
STUDIES = ("demo", "halted", "exports", "scenario")


@pytest.fixture
def old(clone) -> Path:
    """A clone of today with what is old in it."""
    shutil.copytree(OLD / "prepared", clone / "data" / "prepared")
    for name in ("demo", "halted"):
        shutil.copytree(OLD / name, clone / "papermill_runs" / name)
    shutil.copy(OLD / "halted.yaml", clone / "papermill_runs")
    return clone


def test_a_prepared_folder_is_verified_and_read():
    """Its grades, and the mean of the pixels at 48 px."""
    verify(OLD / "prepared")
    prepared = Prepared(OLD / "prepared")
    sides = {side: prepared.load(side, 48) for side in ("train", "validation", "test")}
    assert {name: side.grade.tolist() for name, side in sides.items()} == {
        "train": [3, 0, 1, 0, 2, 4],
        "validation": [2, 0],
        "test": [1, 3, 0, 2],
    }
    means = [side.images.mean() for side in sides.values()]
    assert means == pytest.approx([80.633, 66.735, 80.239], abs=0.1)


def test_rows_of_several_notebooks_are_read_and_compared():
    """Means of a study, as its report had them."""
    rows = read_runs(*(OLD / name for name in STUDIES))
    assert rows["notebook"].value_counts().to_dict() == {
        "10_train": 3,
        "21_export_quantize": 1,
        "30_train_scenario": 1,
    }
    selection = open_rows(PAPERS["A"], "demo", OLD).selection
    (found,) = training_time.compare_environments(selection.finished).to_dict("records")
    assert (found["n"], found["disturbed"]) == (2, 2)
    expected = {
        "train_s": 10.22226544699879,
        "steady_epoch_s": 1.1378247154998462,
        "metric_auc_test": 0.5769230769230769,
        "metric_kappa_test": 0.0,
        "metric_accuracy_test": 0.4444444444444444,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_a_finished_study_is_reported(old, monkeypatch):
    """From its rows alone."""
    monkeypatch.chdir(old)
    ran = CliRunner().invoke(main, ["report", "papermill_runs/demo"], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    table = pd.read_csv(old / "papermill_runs" / "demo" / "environments.csv")
    assert table["train_s"].tolist() == pytest.approx([10.22226544699879])


def test_a_study_that_is_half_done_is_refused_with_what_to_do(old, monkeypatch):
    """Its notebook has changed since: the rows would be of two versions."""
    name = re.search("C1-r00-(.*)", next(OLD.glob("halted/rows/*")).stem)[1]
    monkeypatch.setattr("dr_lib.runs.runner.name_machine", lambda facts: name)
    refusal = "10_train has changed since .*: give the study another name, or add --allow"
    with pytest.raises(DrError, match=refusal):
        run_study(old / "papermill_runs" / "halted.yaml", old, show_progress=False)
