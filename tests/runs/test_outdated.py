"""Rows of photographs, labels or a split that the prepared folder no longer has."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.data.prepared.folder import Prepared, parse_table, read_manifest
from dr_lib.data.prepared.split import split, write_split
from dr_lib.runs.outdated import find_outdated, set_aside
from dr_lib.runs.row import read_rows, read_seconds, write_row
from tests.runs.conftest import complete, run_quietly, write_study


@pytest.fixture
def study(house, small_sample) -> Path:
    """The file of a study of two runs, of which the first is completed, and its model lies
    there.
    """
    data_dir = house / "data" / "prepared"
    shutil.copytree(small_sample, data_dir)
    path = write_study(house, parameters={"data_dir": "data/prepared"}, order="sequential")
    row = {"data_dir": "prepared", "split": "split.csv"} | Prepared(data_dir).describe()
    complete(house, path, {"C1": 100.0}, **row)
    (run,) = read_rows(path.with_suffix(""))
    model = path.with_suffix("") / "runs" / run["run_id"] / "model"
    model.mkdir(parents=True)
    (model / "model.keras").write_text("of the old labels")
    return path


def correct_a_grade(data_dir: Path) -> None:
    """Give one photograph another grade, as a reader who looked again does."""
    labels = parse_table(data_dir / "labels.csv")
    labels.loc[labels["grade"].idxmin(), "grade"] = 1
    write_split(data_dir, read_manifest(data_dir), labels, data_dir / "split.csv")


def test_a_run_of_corrected_labels_is_made_again_and_nothing_is_lost(study, house, capsys):
    """One sentence says so; the old row, model and seconds are kept. What nothing was changed of
    stands.
    """
    folder = study.with_suffix("")
    (before,) = read_rows(folder)
    assert find_outdated(folder, [before], house) == {}
    run_quietly(study, house, only="C1-r00")
    assert "other labels" not in capsys.readouterr().out and read_rows(folder) == [before]
    correct_a_grade(house / "data" / "prepared")
    log = folder / "logs" / f"{before['run_id']}.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text("of the old labels")
    run_quietly(study, house, only="C1-r00")
    said = (
        "1 completed run is outdated, for the prepared folder now has other labels: made again,"
        " what was there is"
    )
    assert capsys.readouterr().out.splitlines()[0] == f"{said} kept in {folder / 'outdated'}"
    (after,) = read_rows(folder)
    assert (
        after["run_id"] == before["run_id"]
        and after["session_id"] != "earlier"
        and after["spent_s"] == 100.0
    )
    kept = folder / "outdated" / f"{before['run_id']}-0"
    assert json.loads((kept / "row.json").read_text()) == before
    assert (kept / "model" / "model.keras").read_text() == "of the old labels"
    assert (kept / log.name).read_text() == "of the old labels"


def test_runs_are_moved_aside_as_often_as_labels_change(study, house):
    """Also where an earlier one was deleted, and where the name of the study has a dot."""
    dotted = study.with_name("trial.v2.yaml")
    study.rename(dotted)
    folder = study.with_suffix("").rename(study.with_name("trial.v2"))
    (row,) = read_rows(folder)
    split(house / "data" / "prepared", seed=3)
    for number in (0, 1, 2):
        assert "another split" in set_aside(folder, [row], house)
        assert (folder / "outdated" / f"{row['run_id']}-{number}" / "row.json").exists()
        write_row(folder, row)
    shutil.rmtree(folder / "outdated" / f"{row['run_id']}-0")
    assert "another split" in set_aside(folder, [row], house)


def test_plan_counts_outdated_runs_as_to_do(study, house, monkeypatch):
    """And says why, of what they are."""
    monkeypatch.setattr("dr_lib.__main__.ROOT", house)
    assert "1 completed, 1 to do" in CliRunner().invoke(main, ["plan", str(study)]).output
    split(house / "data" / "prepared", seed=3)
    said = CliRunner().invoke(main, ["plan", str(study)]).output
    assert (
        "1 completed run is outdated, for the prepared folder now has another split: to be made"
        " again" in said
    )
    assert "0 completed, 2 to do" in said
    assert "C1-r00" in CliRunner().invoke(main, ["plan", str(study), "--commands"]).output


def test_nothing_is_said_of_a_folder_that_is_away(study, house):
    """Rows that were copied from another machine stand as they are."""
    rows = read_rows(study.with_suffix(""))
    correct_a_grade(house / "data" / "prepared")
    (house / "data").rename(house / "elsewhere")
    assert find_outdated(study.with_suffix(""), rows, house) == {}
    assert set_aside(study.with_suffix(""), rows, house) == ""
    assert read_seconds(study.with_suffix(""), rows[0]["run_id"], rows[0]).paid_s == 100.0


def test_folds_are_compared_each_with_its_own_table(study, house):
    """Only the runs of the fold that was changed are outdated."""
    data_dir = house / "data" / "prepared"
    names = [path.name for path in split(data_dir, scheme="folds", folds=2)]
    path = write_study(
        house, repetitions=1, parameters={"data_dir": "data/prepared"}, factors={"split": names}
    )
    rows = [
        {"run_id": name, "status": "ok", "data_dir": "prepared", "split": name}
        | Prepared(data_dir, name).describe()
        for name in names
    ]
    table = pd.read_csv(data_dir / names[0], dtype=str)
    table.assign(reason="by hand").to_csv(data_dir / names[0], index=False)
    assert find_outdated(path.with_suffix(""), rows, house) == {names[0]: ["another split"]}
