"""The runner: runs made once, resumed after any kill, and no trouble of one run stops the others
or is lost.
"""

import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import nbformat
import psutil
import pytest

from dr_lib import hardware
from dr_lib.errors import DrError
from dr_lib.hardware.facts import find_boot
from dr_lib.parameters import NOTEBOOKS
from dr_lib.runs.papermill import find_error
from dr_lib.runs.row import RowError, read_rows, read_runs
from dr_lib.runs.study import check_needs, load_study
from tests.processes import wait_until
from tests.runs.conftest import (
    complete,
    list_begun,
    run_quietly,
    trial,
    wait_for_silence,
    write_study,
)


def test_runs_once_records_failures_and_tries_again(house, capsys):
    """The failing repetition is recorded with its error and no folder's name, the other goes on.
    The next call makes it again, as often as asked: what then ends well is no failure, the row
    counts the tries, and its folder stayed.
    """
    parameters = {"fail_at": 1, "fails": 2, "level": "/data/hospital/eyes"}
    path = write_study(house, parameters=parameters)
    folder = trial(house)
    failures = run_quietly(path, house)
    assert len(failures) == 1 and "ValueError: this one fails" in failures[0]
    runs = read_runs(folder).sort_values("repetition")
    assert runs["status"].tolist() == ["ok", "failed"] and runs["seed"].tolist() == [20, 21]
    assert runs["error"].tolist() == ["", "ValueError: this one fails for labels.csv in a"]
    assert runs["level"].iloc[1] == "eyes" and len(list(folder.glob("notebooks/*.ipynb"))) == 2
    left = folder / "runs" / runs["run_id"].iloc[1] / "checkpoint"
    left.touch()
    assert run_quietly(write_study(house, parameters=parameters, retries=1), house) == []
    rows = sorted((row["status"], row["retries"]) for row in read_rows(folder))
    assert rows == [("ok", 0), ("ok", 2)] and left.exists()
    assert sorted(list_begun(house)) == ["C1-r00", *["C1-r01"] * 3]
    assert capsys.readouterr().out.count(" -m dr_lib report ") == 1  # not while one failed


def start(house: Path, path: Path) -> subprocess.Popen:
    """Start the study in a process of its own, that can be killed."""
    code = "import sys; from pathlib import Path; from dr_lib.runs.runner import run_study; "
    code += "import tests.runs.quick; "
    code += "run_study(Path(sys.argv[1]), Path(sys.argv[2]), show_progress=False)"
    return subprocess.Popen(
        [sys.executable, "-c", code, str(path), str(house)], start_new_session=True
    )


def test_two_runners_do_not_share_a_study(house):
    """The second is told that the study is being run."""
    path = write_study(house, repetitions=1, parameters={"pause_s": 4.0})
    with start(house, path) as runner:
        wait_until((trial(house) / "logs").exists)
        with pytest.raises(DrError, match="being run by another process"):
            run_quietly(path, house)
        runner.kill()


def test_a_run_that_saved_in_time_is_no_failure_and_goes_on(house, command):
    """--max-hours goes over the file's, the first run stops in time and the second is not begun;
    then it goes on.
    """
    options = {"parameters": {"needs_s": 7200.0}, "max_hours": 100, "order": "sequential"}
    path = write_study(house, **options)
    said = command("run", path, "--max-hours", 1)
    assert "saved after epoch 2" in said
    assert not read_rows(trial(house)) and list_begun(house) == ["C1-r00"]
    assert run_quietly(path, house, only="C1-r00") == []
    (row,) = read_rows(trial(house))
    assert (row["status"], row["resumed"], row["retries"]) == ("ok", 1, 0)
    assert not {"stop_at", "study_dir"} & set(row)


def test_what_this_machine_cannot_run_is_skipped_once(house, command, capsys, monkeypatch):
    """No TPU is here: C1 and C2 have one row each, also after a further call.
    C4, whose notebook says unavailable, keeps the run that was made. None of this is a failure.
    """
    monkeypatch.delenv("TPU_ACCELERATOR_TYPE", raising=False)
    monkeypatch.setitem(NOTEBOOKS, "10_train", "tests.runs.quick:QuickTraining")
    notebook = nbformat.read(house / "notebooks" / "quick.ipynb", as_version=4)
    notebook.cells[0].source += 'accelerator: str = "auto"\n'
    nbformat.write(notebook, house / "notebooks" / "10_train.ipynb")
    factors = {"accelerator": ["tpu", "cpu"], "trouble": ["", "unavailable"]}
    path = write_study(house, notebook="10_train", order="sequential", factors=factors)
    planned = command("plan", path)
    statuses = re.findall(r"-r0\d-\S+  (\S+)", planned)
    assert statuses == ["skipped", "skipped", "to", "to"] * 2
    assert "4 not possible on this machine: this machine has no TPU" in planned

    complete(house, path, {"C3": 1.0, "C4": 2.0}, notebook="10_train")
    assert run_quietly(path, house) == run_quietly(path, house, only="C1-r01") == []
    said = capsys.readouterr().out
    assert "scenarios skipped: 2, this machine has no TPU" in said
    assert "scenarios skipped: 1, UnavailableError: no such thing on this machine" in said
    rows = {row["run_id"][:6]: row["status"] for row in read_rows(trial(house))}
    made = {"C1-r00": "skipped", "C2-r00": "skipped", "C3-r00": "ok", "C3-r01": "ok"}
    assert rows == made | {"C4-r00": "ok", "C4-r01": "skipped"}
    assert list_begun(house) == ["C3-r01", "C4-r01"]


@pytest.mark.parametrize(
    ("trouble", "reason", "accelerator"),
    [
        ("dies", "killed or out of memory", None),
        ("hangs", "timeout_hours", None),
        ("diverges", "the loss is nan", "Tesla T4"),
    ],
)
def test_a_run_that_dies_or_hangs_fails_alone(house, trouble, reason, accelerator):
    """A kernel that is killed, and one that never ends, are failures with their reason; nothing
    is left behind. What the notebook wrote of its machine stays.
    """
    study = {"parameters": {"trouble": trouble}, "timeout_hours": 4 / 3600}
    if trouble != "hangs":
        del study["timeout_hours"]
    (failure,) = run_quietly(write_study(house, repetitions=1, **study), house)
    assert reason in failure
    (row,) = read_rows(trial(house))
    assert row["status"] == "failed" and reason in row["error"]
    assert str(house) not in row["error"]
    assert row["boot"] == find_boot() and row.get("accelerator") == accelerator
    wait_for_silence(house)


@pytest.mark.parametrize(
    ("trouble", "ok", "begun", "status"),
    [("fails", False, 2, 3), ("fails", True, 3, 1), ("unavailable", False, 3, 0)],
)
def test_a_study_stops_when_its_first_two_runs_fail(house, command, trouble, ok, begun, status):
    """Where none has succeeded; what is skipped is no failure."""
    factors = {"level": ["a", "b", "c"]}
    repetitions = 2 if ok else 1
    options = {"repetitions": repetitions, "parameters": {"trouble": trouble}}
    path = write_study(house, order="sequential", factors=factors, **options)
    if ok:
        complete(house, path, dict.fromkeys(["C1", "C2", "C3"], 1.0))
    said = command("run", path, status=status)
    assert len(list_begun(house)) == begun
    assert (f"{begun} runs failed:" in said) == (status > 0)
    assert ("the first two runs failed" in said) == (status == 3)


def test_a_study_that_needs_an_accelerator_asks_for_one(house, command, monkeypatch):
    """A machine without one runs it if it is told to, or fails to have one of those named."""
    facts = hardware.probe()._replace(gpus=(), num_tpu_chips=0)
    monkeypatch.setattr("dr_lib.hardware.probe", lambda: facts)
    path = write_study(house, repetitions=1, needs=["gpu", "tpu"])
    fault = f"{path} needs a GPU or TPU, and this machine has none: run it on one"
    assert command("run", path, status=1).startswith(f"Error: {fault}")
    planned = command("plan", path)
    assert fault in planned
    assert not list_begun(house)
    command("run", path, "--on-cpu")
    assert len(list_begun(house)) == 1
    check_needs(load_study(path, house), path, facts._replace(num_tpu_chips=1))


def test_ctrl_c_says_how_to_go_on(house):
    """The run under way ends with it."""
    path = write_study(house, parameters={"pause_s": 600.0})
    code = (
        "import pathlib, tests.runs.quick, dr_lib.__main__ as m; "
        f"m.ROOT = pathlib.Path({str(house)!r}); m.main()"
    )
    # what is started in the background ignores it
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    command = [sys.executable, "-c", code, "run", str(path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    wait_until(lambda: list_begun(house) or process.poll() is not None, 60)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert said.endswith("stopped; repeat run or prepare to resume it\n")
    assert process.returncode == 130
    wait_for_silence(house)


def test_the_error_of_a_run_is_the_line_that_says_why(tmp_path):
    """Of a notebook cut off while it was written, its log's last."""
    path = tmp_path / "out.ipynb"
    path.write_text('{"cells": [')
    (tmp_path / "log").write_text("Executing\nF1125 fatal\nKilled\n")
    assert find_error(path, tmp_path / "log", -9) == "papermill ended with -9: Killed"


@pytest.mark.slow
def test_an_end_in_time_is_no_failure(house):
    """A run that goes on beyond max_hours is ended, has no row, and is made by the next call."""
    path = write_study(house, repetitions=1, parameters={"pause_s": 60.0})
    assert run_quietly(path, house, max_hours=10 / 3600) == []
    assert not read_rows(trial(house)) and len(list_begun(house)) <= 1
    wait_for_silence(house)


def test_one_run_alone(house, command):
    """And no other. A row that was cut short is none: a report names it, and its run is made
    again."""
    path = write_study(house, factors={"level": ["a", "b"]}, order="sequential")
    complete(house, path, {"C1": 1.0})
    (row,) = trial(house).glob("rows/*")
    row.write_bytes(row.read_bytes()[:200])
    with pytest.raises(RowError, match=row.name):
        read_runs(trial(house))
    command("run", path, "--only", "C1-r00")
    (row,) = read_rows(trial(house))
    assert (row["scenario"], row["repetition"], row["status"]) == ("C1", 0, "ok")


def test_a_full_disk_stops_the_study_and_loses_nothing(house, monkeypatch):
    """The study says so before a run begins."""
    monkeypatch.setattr("dr_lib.runs.runner.MIN_FREE_MIB", 2**40)
    with pytest.raises(DrError, match="MiB are free"):
        run_quietly(write_study(house), house)
    assert not list(trial(house).glob("rows/*"))


def wait_for_another(folder: Path, runner: subprocess.Popen) -> None:
    """Wait until another run has begun, or the study has ended."""
    before = len(list(folder.glob("begun/*")))
    wait_until(
        lambda: len(list(folder.glob("begun/*"))) > before or runner.poll() is not None, 60
    )


@pytest.mark.slow
def test_kills_change_nothing(house):
    """Three cells twice; killed after the first row, then the runner, papermill or a kernel at 5
    random moments behind the begin of a run.
    """
    options = {"factors": {"level": ["a", "b", "c"]}, "parameters": {"pause_s": 0.3}}
    path = write_study(house, **options)
    folder = trial(house)
    draw = random.Random(4)
    runner = start(house, path)
    wait_until(lambda: list(folder.glob("rows/*.json")), 60)
    finished = {}
    for kill in range(6):
        if kill:
            runner = start(house, path) if runner.poll() is not None else runner
            wait_for_another(folder, runner)
            time.sleep(draw.uniform(0, 2))
        with suppress(psutil.NoSuchProcess):  # the study may be at its end
            tree = psutil.Process(runner.pid)
            draw.choice([tree, *tree.children(recursive=True)]).kill()
        rows = read_rows(folder)  # no half row is ever there
        finished |= {row["run_id"]: row["session_id"] for row in rows if row["status"] == "ok"}
    runner.kill()
    runner.wait()
    wait_for_silence(house)
    assert run_quietly(path, house) == []
    rows = read_rows(folder)
    assert finished
    assert finished.items() <= {row["run_id"]: row["session_id"] for row in rows}.items()
    names = ("level", "repetition", "scenario", "seed", "status")
    assert sorted([row[name] for name in names] for row in rows) == [
        [level, repetition, scenario, 20 + repetition, "ok"]
        for level, scenario in (("a", "C1"), ("b", "C2"), ("c", "C3"))
        for repetition in (0, 1)
    ]
    assert sorted(row["order"] for row in rows) == [*range(6)]
    assert not list(folder.rglob("*.tmp"))
    wait_for_silence(house)
