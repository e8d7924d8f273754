"""Runs of several machines, each started by a scheduler; one row, and no loss in silence."""

import os
import shlex
import subprocess
import sys

import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.command import write_lasting_command
from dr_lib.errors import DrError
from dr_lib.runs.prices import price_runs
from dr_lib.runs.row import read_rows, read_runs
from dr_lib.runs.run import Run
from tests.runs.conftest import complete, run_quietly, write_study

TWO = {"repetitions": 1, "parameters": {"num_machines": 2, "level": "b"}}


def be_machine(rank, monkeypatch):
    """Make this process one of two machines."""
    monkeypatch.setenv("DR_LIB_COORDINATOR", "127.0.0.1:1")
    monkeypatch.setenv("DR_LIB_NUM_MACHINES", "2")
    monkeypatch.setenv("DR_LIB_MACHINE", str(rank))


def test_machines_that_are_not_there_are_a_reason_to_skip(house, monkeypatch):
    """The sentence names what a scheduler starts, and that command prints it."""
    assert run_quietly(write_study(house, **TWO), house) == []
    (row,) = read_rows(house)
    assert row["status"] == "skipped"
    assert "it trains on 2 machines" in row["error"]
    assert "plan STUDY --commands" in row["error"]
    monkeypatch.setattr("dr_lib.__main__.ROOT", house)
    study = house / "papermill_runs" / "trial.yaml"
    printed = CliRunner().invoke(main, ["plan", str(study), "--commands"]).output
    assert "DR_LIB_MACHINE=1" in printed


def test_a_scheduler_starts_each_machine_by_its_command(house, dear, monkeypatch):
    """The commands of `plan`, one per machine: together they make one row. On one
    machine it is a rehearsal, which is paid as one: by hand, 1 s of training at a dollar a second;
    two machines would be two dollars.
    """
    path = write_study(house, repetitions=1, factors={"num_machines": [1, 2]}, instance="dear")
    monkeypatch.setattr("dr_lib.__main__.ROOT", house)
    printed = CliRunner().invoke(main, ["plan", str(path), "--commands"]).output.splitlines()
    meet = (
        'DR_LIB_COORDINATOR="${DR_LIB_COORDINATOR:?HOST:PORT of machine 0}"'
        " DR_LIB_NUM_MACHINES=2"
    )
    command = write_lasting_command("run", path, "--only", "C")
    expected = [
        f"{command}1-r00",
        *(f"{meet} DR_LIB_MACHINE={rank} {command}2-r00" for rank in (0, 1)),
    ]
    assert sorted(printed) == sorted(expected)
    code = (
        "import sys, pathlib, dr_lib.__main__ as command; command.ROOT = pathlib.Path.cwd();"
        " command.main()"
    )
    ours = shlex.join([sys.executable, "-c", code])
    lines = [line.replace(write_lasting_command(), ours) for line in printed if meet in line]
    alone = subprocess.run(["bash", "-c", lines[0]], cwd=house, capture_output=True, text=True)
    assert alone.returncode and "DR_LIB_COORDINATOR: HOST:PORT of machine 0" in alone.stderr
    nobody = {**os.environ, "DR_LIB_COORDINATOR": "127.0.0.1:1"}  # whom this notebook meets
    machines = [subprocess.Popen(["bash", "-c", line], cwd=house, env=nobody) for line in lines]
    assert [machine.wait(timeout=120) for machine in machines] == [0, 0]
    (row,) = read_rows(house)
    assert (row["scenario"], row["status"]) == ("C2", "ok")
    assert row["rehearsed"] is True and row["formula_usd"] == 1.0
    folder = house / "papermill_runs" / "trial"
    names = {file.stem for file in (folder / "notebooks").iterdir()}
    assert names == {row["run_id"], f"{row['run_id']}-machine-1"}
    runs = read_runs(house)
    assert price_runs(runs)["formula_usd"].tolist() == [1.0]
    assert price_runs(runs.drop(columns="rehearsed"))["formula_usd"].tolist() == [2.0]


def test_one_of_several_machines_makes_a_named_run_of_as_many(house, monkeypatch):
    """Without a name each machine would make another run of the study."""
    be_machine(1, monkeypatch)
    with pytest.raises(
        DrError, match="2 machines must share one run: name the run with --only"
    ):
        run_quietly(write_study(house, **TWO), house)
    alone = write_study(house, repetitions=1, factors={"num_machines": [1, 2]})
    # else each would make it
    with pytest.raises(DrError, match="2 machines must share one run"):
        run_quietly(alone, house, only="C1-r00")
    complete(house, alone, {"C2": 5.0})
    assert run_quietly(alone, house, only="C2-r00") == [] and not list(house.rglob("begun"))


def test_the_plan_prices_all_machines(house, dear, monkeypatch):
    """By hand: a run of two machines took 60 s, another is left: 120 dollars at a dollar a
    second.
    """
    monkeypatch.setattr("dr_lib.__main__.ROOT", house)
    path = write_study(house, parameters={"num_machines": 2}, instance="dear")
    complete(house, path, {"C1": 60.0})
    assert "120.00 USD for the rest" in CliRunner().invoke(main, ["plan", str(path)]).output


def test_a_notebook_run_by_hand_keeps_one_row(tmp_path, monkeypatch):
    """Machines beyond the first leave what they write in a folder that goes with them."""
    asked = {"num_machines": 2, "repetition": 0, "seed": 1}
    for rank in (1, 0):
        be_machine(rank, monkeypatch)
        Run(tmp_path, "10_train", asked).finish(train_s=1.0)
        assert len(list(tmp_path.rglob("rows/*.json"))) == 1 - rank
