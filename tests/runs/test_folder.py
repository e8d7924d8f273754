"""Rows of photographs, labels or a split that the prepared folder no longer has."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest

from dr_lib.data.prepared.folder import Prepared, parse_table, read_manifest
from dr_lib.data.prepared.split import split, write_split
from dr_lib.errors import DrError
from dr_lib.runs.folder import check_data, keep_for
from dr_lib.runs.row import read_rows
from dr_lib.runs.study import Study, load_study, plan_runs
from tests.runs.conftest import complete, run_quietly, write_study


@pytest.fixture
def study(house, small_sample) -> Path:
    """The file of a study of two runs, of which the first is completed."""
    data_dir = house / "data" / "prepared"
    shutil.copytree(small_sample, data_dir)
    path = write_study(house, parameters={"data_dir": "data/prepared"}, order="sequential")
    row = {"data_dir": "prepared", "split": "split.csv"} | Prepared(data_dir).describe()
    complete(house, path, {"C1": 100.0}, **row)
    return path


def correct_a_grade(data_dir: Path) -> None:
    """Give one photograph another grade, as a reader who looked again does."""
    labels = parse_table(data_dir / "labels.csv")
    labels.loc[labels["grade"].idxmin(), "grade"] = 1
    write_split(data_dir, read_manifest(data_dir), labels, data_dir / "split.csv")


def test_runs_of_corrected_labels_are_refused_before_one_begins(study, house, command):
    """The sentence names the folder, what it has now, and what to do; `plan` says the same."""
    before = read_rows(house)
    assert "1 completed, 1 to do" in command("plan", study)
    assert run_quietly(study, house, only="C1-r00") == [] and read_rows(house) == before

    correct_a_grade(house / "data" / "prepared")
    fault = "data/prepared has other labels since C1-r00 was made: give the study another name"
    with pytest.raises(DrError, match=fault):
        run_quietly(study, house)
    assert fault in command("plan", study, status=1)
    assert read_rows(house) == before


def test_two_studies_do_not_share_a_folder(house, command):
    """Where factors differ, or their order, runs would have the same names; until one is completed
    the file may change, and repetitions may follow.
    """
    factors = {"pace": ["even", "fast"], "level": ["a", "b"]}
    path = write_study(house, factors=factors)
    assert run_quietly(path, house, max_hours=1e-9) == []
    others = {
        "order of the factors": dict(reversed(factors.items())),
        "factors": factors | {"level": ["b"]},
    }
    for unlike, other in others.items():
        write_study(house, factors=other)
        command("plan", path)
        complete(house, write_study(house, factors=factors), {"C1": 1.0})
        write_study(house, factors=other)
        for name in ("plan", "run"):
            fault = f"differs in {unlike}: rename one of the studies, or delete"
            assert fault in command(name, path, status=1)
        shutil.rmtree(path.with_suffix("") / "rows")
    write_study(house, factors=factors, repetitions=3)
    assert run_quietly(path, house, max_hours=1e-9) == []


def test_machines_that_begin_at_once_keep_one_folder(tmp_path):
    """A scheduler starts many jobs in the same moment, on a disk that all of them share."""
    study = Study(notebook="n", repetitions=1)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: keep_for(tmp_path, study), range(60)))
    assert json.loads((tmp_path / "study.json").read_bytes())["notebook"] == "n"


def test_nothing_is_said_of_a_folder_that_is_away(study, house):
    """Rows that were copied from another machine stand as they are."""
    (row,) = read_rows(house)
    correct_a_grade(house / "data" / "prepared")
    (house / "data").rename(house / "elsewhere")
    runs = plan_runs(load_study(study, house), "here")
    check_data(study.with_suffix(""), runs, {run.run_id: row for run in runs}, house)


def test_folds_are_compared_each_with_its_own_table(study, house):
    """Only the runs of the fold that was changed are outdated."""
    data_dir = house / "data" / "prepared"
    names = [path.name for path in split(data_dir, scheme="folds", folds=2)]
    parameters = {"data_dir": "data/prepared"}
    path = write_study(house, repetitions=1, parameters=parameters, factors={"split": names})
    runs = {run.parameters["split"]: run for run in plan_runs(load_study(path, house), "here")}
    rows = {
        run.run_id: {"status": "ok", **Prepared(data_dir, name).describe()}
        for name, run in runs.items()
    }

    def check(*names: str) -> None:
        check_data(path.with_suffix(""), [runs[name] for name in names], rows, house)

    table = pd.read_csv(data_dir / names[0], dtype=str)
    for same in (table, table.assign(reason="by hand")[::-1]):  # it divides as before
        same.to_csv(data_dir / names[0], index=False)
        check(*names)
    sides = table["split"].replace({"train": "test", "test": "train"})
    table.assign(split=sides).to_csv(data_dir / names[0], index=False)
    check(names[1])
    changed = runs[names[0]].name
    with pytest.raises(DrError, match=f"has another split since {changed} was made"):
        check(*names)
