"""Runs of several machines: rehearsed here, or each machine started by a scheduler; one row, and no loss in silence."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.runs.prices import price_runs
from dr_lib.runs.row import read_rows, read_runs
from dr_lib.runs.runner import run_study
from dr_lib.runs.study import StudyError
from tests.runs.conftest import write_study

TWO = {"repetitions": 1, "parameters": {"num_machines": 2, "level": "b"}}


def run_quietly(path, house, **options) -> list[str]:
    """Run a study without a bar."""
    return run_study(path, house, show_progress=False, **options)


def test_a_rehearsal_leaves_one_row_and_every_machine_s_notebook(house):
    """Machine 1 ran the notebook too, and left it and a log alone; the row says that it was a rehearsal."""
    path, folder = write_study(house, **TWO), house / "papermill_runs" / "trial"
    assert run_quietly(path, house, machines=2) == []
    (row,) = read_rows(house)
    assert row["status"] == "ok" and row["rehearsed"] is True
    name = row["run_id"]
    assert {file.stem for file in (folder / "notebooks").iterdir()} == {name, f"{name}-machine-1"}
    other = json.loads((folder / "notebooks" / f"{name}-machine-1.ipynb").read_text())
    assert other["metadata"]["papermill"]["exception"] is None
    assert len(list((folder / "begun").iterdir())) == 1


def test_machines_that_are_not_there_are_a_reason_to_skip(house):
    """The sentence names what rehearses them, and what a scheduler starts."""
    assert run_quietly(write_study(house, **TWO), house) == []
    (row,) = read_rows(house)
    assert row["status"] == "skipped"
    assert "it trains on 2 machines" in row["error"] and "--machines 2 rehearses here" in row["error"]
    assert "plan STUDY --commands" in row["error"]


def test_a_machine_that_dies_ends_the_run_which_is_then_made_again(house):
    """Machine 0, which would wait for an hour, is ended; the failure names the machine; the next call makes the run."""
    path = write_study(house, repetitions=1, parameters={"num_machines": 2, "trouble": "machine 1 dies"})
    (failure,) = run_quietly(path, house, machines=2)
    assert "machine 1 of 2: papermill ended with" in failure and "Kernel died" in failure
    assert run_quietly(path, house, machines=2) == []
    (row,) = read_rows(house)
    assert (row["status"], row["retries"]) == ("ok", 1)


def test_a_scheduler_starts_each_machine_by_its_command(house, monkeypatch):
    """The commands of `plan`, one per machine: together they make one row, which is no rehearsal."""
    path = write_study(house, repetitions=1, factors={"num_machines": [1, 2]})
    monkeypatch.setattr("dr_lib.__main__.ROOT", house)
    printed = CliRunner().invoke(main, ["plan", str(path), "--commands"]).output.splitlines()
    meet = 'DR_LIB_COORDINATOR="${DR_LIB_COORDINATOR:?HOST:PORT of machine 0}" DR_LIB_NUM_MACHINES=2'
    command = f"python -m dr_lib run {path} --only C"
    expected = [f"{command}1-r00", *(f"{meet} DR_LIB_MACHINE={rank} {command}2-r00" for rank in (0, 1))]
    assert sorted(printed) == sorted(expected)
    fewer = CliRunner().invoke(main, ["plan", str(path), "--commands", "--machines", "1"]).output.splitlines()
    assert fewer == [f"{command}1-r00"]
    code = "import sys, pathlib, dr_lib.__main__ as command; command.ROOT = pathlib.Path.cwd(); command.main()"
    lines = [line.replace("python -m dr_lib", f'{sys.executable} -c "{code}"') for line in printed if meet in line]
    alone = subprocess.run(["bash", "-c", lines[0]], cwd=house, capture_output=True, text=True)
    assert alone.returncode and "DR_LIB_COORDINATOR: HOST:PORT of machine 0" in alone.stderr
    environment = {**os.environ, "DR_LIB_COORDINATOR": "127.0.0.1:1"}  # this notebook meets nobody
    machines = [subprocess.Popen(["bash", "-c", line], cwd=house, env=environment) for line in lines]
    assert [machine.wait(timeout=120) for machine in machines] == [0, 0]
    (row,) = read_rows(house)
    assert (row["scenario"], row["status"]) == ("C2", "ok") and "rehearsed" not in row


def test_one_of_several_machines_makes_a_named_run_of_as_many(house, monkeypatch):
    """Without a name each machine would make another run of the study."""
    for name, value in (("COORDINATOR", "127.0.0.1:1"), ("NUM_MACHINES", "2"), ("MACHINE", "1")):
        monkeypatch.setenv(f"DR_LIB_{name}", value)
    with pytest.raises(StudyError, match="2 machines make one run of as many: name it by --only"):
        run_quietly(write_study(house, **TWO), house)


def test_a_price_is_that_of_all_machines_but_of_a_rehearsal(house, monkeypatch):
    """By hand: 1 s of training at 3,600 USD an hour is a dollar, of two machines two, of two rehearsed ones one."""
    (house / "own.csv").write_text(
        "provider,instance,region,currency,usd_per_hour,date,source\nsomebody,dear,,USD,3600,,made up\n"
    )
    monkeypatch.setenv("DR_LIB_PRICES", str(house / "own.csv"))
    path = write_study(house, **TWO, instance="dear")
    assert run_quietly(path, house, machines=2) == []
    (row,) = read_rows(house)
    assert row["formula_usd"] == 1.0
    runs = read_runs(house)
    assert price_runs(runs)["formula_usd"].tolist() == [1.0]
    assert price_runs(runs.drop(columns="rehearsed"))["formula_usd"].tolist() == [2.0]
