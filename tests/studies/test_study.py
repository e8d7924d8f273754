"""Studies: what is asked is checked first, run once, resumed after any kill, and a failure stops nothing else."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.hardware import Facts
from dr_lib.studies.run import read_runs
from dr_lib.studies.study import Study, StudyError, load_study, name_machine, plan_runs, run_study

GOOD = {"notebook": "quick", "repetitions": 2, "seed": 20}


def write_study(house: Path, **changes) -> Path:
    """Write a study file; a value of None leaves a key out."""
    path = house / "papermill_runs" / "trial.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in (GOOD | changes).items() if v is not None}))
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"repetition": 3}, "repetition"),  # a misspelt key
        ({"notebook": "quik"}, "quik"),
        ({"repetitions": 0}, "greater than or equal to 1"),
        ({"parameters": {"levle": "b"}}, "no parameter 'levle', it has level"),
        ({"factors": {"levle": ["b"]}}, "no parameter 'levle'"),
        ({"factors": {"level": []}}, "no levels"),
        ({"parameters": {"pause_s": "long"}}, "pause_s has to be a float"),
        ({"parameters": {"fail_at": True}}, "fail_at has to be a int"),
        ({"parameters": {"repetition": 1}}, "set by the study itself"),
        ({"parameters": {"level": "b"}, "factors": {"level": ["a"]}}, "twice"),
        ({"order": "shuffled"}, "order"),
        ({"max_hours": -1}, "max_hours"),
    ],
)
def test_a_mistake_is_found_before_anything_runs(house, changes, message):
    """A misspelt key, parameter or notebook, or a value of the wrong type names itself."""
    with pytest.raises(StudyError, match=message):
        run_study(write_study(house, **changes), house)
    assert not (house / "papermill_runs" / "trial").exists()


def test_a_missing_or_broken_file_is_named(house):
    """No file and no YAML are errors with the path."""
    path = house / "papermill_runs" / "none.yaml"
    with pytest.raises(StudyError, match="none.yaml: no such study file"):
        load_study(path, house)
    path.write_text("notebook: [")
    with pytest.raises(StudyError, match="none.yaml is not a valid study file"):
        load_study(path, house)


def test_plan_holds_every_cell_in_every_block():
    """Two factors of 2 and 3 levels, four repetitions: blocks of six, each a permutation of C1 to C6."""
    study = Study(notebook="n", repetitions=4, factors={"a": [1, 2], "b": ["x", "y", "z"]}, parameters={"c": 5}, seed=3)
    runs = plan_runs(study, "here")
    blocks = [[run.scenario for run in runs[6 * k : 6 * k + 6]] for k in range(4)]
    assert [run.order for run in runs] == list(range(24)) and len({run.run_id for run in runs}) == 24
    assert all(sorted(block) == ["C1", "C2", "C3", "C4", "C5", "C6"] for block in blocks)
    assert len(set(map(tuple, blocks))) > 1
    by_name = {run.scenario: run.parameters for run in runs}
    assert by_name["C2"] == {"a": 1, "b": "y", "c": 5, "repetition": 3, "seed": 3}
    assert runs == plan_runs(study, "here")
    assert [run.scenario for run in plan_runs(study.model_copy(update={"order": "sequential"}), "here")][:3] == [
        "C1", "C2", "C3",
    ]  # fmt: skip


def test_machines_that_differ_have_other_names():
    """Kaggle's two T4 and a laptop's CPU do not overwrite each other's rows."""
    cpu = Facts("local", "AMD EPYC 7B13", 2, 24.0, (), 0.0, 0.0, "", 0, ("tensorflow",), False)
    t4s = cpu._replace(platform="kaggle", gpus=("Tesla T4", "Tesla T4"))
    assert name_machine(cpu) == "local-amd-epyc-7b13" and name_machine(t4s) == "kaggle-2x-tesla-t4"


def test_a_failed_run_names_no_folder_of_the_machine(house):
    """Its row keeps the last part of a path, in the parameters and in the error."""
    path = write_study(house, repetitions=1, parameters={"fail_at": 0, "level": "/data/hospital/eyes"})
    run_study(path, house, show_progress=False)
    (row,) = read_runs(house / "papermill_runs" / "trial").to_dict("records")
    assert row["level"] == "eyes" and row["error"] == "ValueError: this one fails for labels.csv: not there"


def test_runs_once_and_records_failures(house):
    """Of three repetitions the failing one is recorded with its error, the others go on, and a second call retries."""
    path = write_study(house, repetitions=3, parameters={"fail_at": 1})
    failures = run_study(path, house, show_progress=False)
    assert len(failures) == 1 and "ValueError: this one fails" in failures[0]
    runs = read_runs(house / "papermill_runs" / "trial").sort_values("repetition")
    assert runs["status"].tolist() == ["ok", "failed", "ok"] and runs["seed"].tolist() == [20, 21, 22]
    assert runs["error"].tolist() == ["", "ValueError: this one fails", ""]
    assert len(list((house / "papermill_runs" / "trial" / "notebooks").glob("*.ipynb"))) == 3
    left = house / "papermill_runs" / "trial" / "runs" / runs["run_id"].iloc[1] / "checkpoint"
    left.touch()
    assert run_study(path, house, show_progress=False) == failures
    runs = read_runs(house / "papermill_runs" / "trial").sort_values("repetition")
    assert runs["retries"].tolist() == [0, 1, 0] and left.exists()
    begun = [p.name.split("-r")[1][:2] for p in (house / "papermill_runs" / "trial" / "begun").iterdir()]
    assert sorted(begun) == ["00", "01", "01", "02"]


def start(house: Path, path: Path) -> subprocess.Popen:
    """Start the study in a process of its own, that can be killed."""
    code = "import sys; from pathlib import Path; from dr_lib.studies.study import run_study; "
    code += "run_study(Path(sys.argv[1]), Path(sys.argv[2]), show_progress=False)"
    return subprocess.Popen([sys.executable, "-c", code, str(path), str(house)], start_new_session=True)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["setting up", "in a run", "between runs"])
def test_goes_on_after_kill_9(house, moment):
    """Killed at any moment, a study keeps its finished runs, repeats the half one, and leaves no process behind."""
    path, folder = write_study(house, repetitions=3, parameters={"pause_s": 1.5}), house / "papermill_runs" / "trial"
    runner = start(house, path)
    waits = {"setting up": "lock", "in a run": "begun/*", "between runs": "rows/*.json"}
    deadline = time.monotonic() + 60
    while not list(folder.glob(waits[moment])):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    finished = {p.name: p.read_bytes() for p in folder.glob("rows/*.json")}
    deadline = time.monotonic() + 20
    while any(str(house) in " ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])):
        assert time.monotonic() < deadline, "a papermill process outlived the runner"
        time.sleep(0.1)
    time.sleep(3)  # the kernel looks after its parent once a second
    assert run_study(path, house, show_progress=False) == []
    assert {p.name: p.read_bytes() for p in folder.glob("rows/*.json") if p.name in finished} == finished
    assert sorted(read_runs(folder)["repetition"]) == [0, 1, 2]
    assert not list(folder.rglob("*.tmp"))


def test_two_runners_do_not_share_a_study(house):
    """The second is told that the study is being run."""
    path = write_study(house, repetitions=1, parameters={"pause_s": 4.0})
    runner = start(house, path)
    try:
        while not (house / "papermill_runs" / "trial" / "logs").exists():
            time.sleep(0.05)
        with pytest.raises(StudyError, match="being run by another process"):
            run_study(path, house, show_progress=False)
    finally:
        runner.kill()
        runner.wait()


def test_stops_before_a_run_that_does_not_fit(house):
    """With no time at all left after the first run, the rest is left for the next start."""
    path = write_study(house, repetitions=3, parameters={"pause_s": 0.5}, max_hours=1 / 3600)
    assert run_study(path, house, show_progress=False) == []
    assert len(read_runs(house / "papermill_runs" / "trial")) == 1


def test_a_run_that_saved_in_time_is_no_failure_and_goes_on(house, monkeypatch):
    """--max-hours goes over the file's, the first run stops in time and the second is not begun; then both finish."""
    monkeypatch.setattr("dr_lib.__main__.ROOT", house)
    path, folder = write_study(house, parameters={"needs_s": 7200.0}, max_hours=100), house / "papermill_runs" / "trial"
    result = CliRunner().invoke(main, ["run", str(path), "--max-hours", "1"])
    assert result.exit_code == 0 and "saved after epoch 2" in result.output
    assert not list(folder.glob("rows/*")) and len(list(folder.glob("begun/*"))) == 1
    assert run_study(path, house, show_progress=False) == []
    runs = read_runs(folder).sort_values("repetition")
    assert runs["resumed"].tolist() == [1, 0] and runs["retries"].tolist() == [0, 0]
    assert "stop_at" not in runs and (runs["status"] == "ok").all()


@pytest.mark.slow
def test_a_killed_papermill_command_goes_on_when_it_is_given_again(house):
    """Killed with -9 and given again with the same parameters, it is one run with one folder and one row."""
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", "notebooks/quick.ipynb", "out.ipynb"]
    folder, deadline = house / "papermill_runs" / "adhoc", time.monotonic() + 60
    process = subprocess.Popen([*command, "-p", "pause_s", "30"], cwd=house, stderr=subprocess.DEVNULL)
    while not list(folder.glob("begun/*")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.wait()
    time.sleep(3)  # the kernel looks after its parent once a second
    subprocess.run([*command, "-p", "pause_s", "0"], cwd=house, check=True, capture_output=True)
    (row,) = (json.loads(path.read_text()) for path in folder.glob("rows/*.json"))
    assert [path.name for path in (folder / "runs").iterdir()] == [row["run_id"]]
    assert [path.name.split("-")[0] for path in folder.glob("begun/*")] == [row["run_id"]] * 2


def test_a_notebook_stands_on_its_own(house):
    """One papermill command, nothing else set up, leaves a valid row of the study adhoc."""
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", "notebooks/quick.ipynb", "out.ipynb"]
    subprocess.run([*command, "-p", "repetition", "3"], cwd=house, check=True, capture_output=True)
    (row,) = (house / "papermill_runs" / "adhoc" / "rows").glob("*.json")
    row = json.loads(row.read_text())
    assert (row["study"], row["repetition"], row["status"]) == ("adhoc", 3, "ok") and row["seed"] == 3
