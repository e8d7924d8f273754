"""Sessions by Kaggle's own client, against a service on this machine with faults that have been
seen of Kaggle.
"""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from dr_lib.runs.row import read_rows
from tests.processes import wait_until
from tests.rooms.remote.conftest import Cloud, put_kaggle
from tests.rooms.remote.kaggle_service import KaggleService
from tests.runs.conftest import write_study

pytestmark = pytest.mark.slow


@pytest.fixture
def service(cloud: Cloud, clients: Path, tmp_path: Path, monkeypatch) -> KaggleService:
    """The service, and the real client beside this Python, which takes its time."""
    monkeypatch.setattr("dr_lib.rooms.remote.kaggle.LISTENED_S", 3.0)
    for name in ("client.PATIENCE_S", "kaggle.READY_S"):
        monkeypatch.setattr(f"dr_lib.rooms.remote.{name}", 20.0)
    server = KaggleService(tmp_path / "kaggle")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with put_kaggle(clients, tmp_path / "bin", server.address):
        yield server
    for script in server.scripts.values():
        script.end()
    server.shutdown()
    server.server_close()


def test_a_session_loses_nothing_by_single_faults(cloud, service):
    """Whatever goes wrong once at each step, rows and log come of one session; then script and data
    set, both private, are deleted.
    """
    service.faults = {
        "GetDatasetStatus": [503, 403],
        "StartBlobUpload": [503],
        "PUT": ["cut"],
        "CreateDataset": [429],
        "SaveKernel": [500],
        "GetKernelSessionStatus": [404, 401, 403, "cut", 500],  # the first is of the push
        "logs": ["cut"],
        "ListKernelSessionOutput": [503],
        "GET": ["short"],
        "DeleteKernel": [500],
        "DeleteDataset": [403],
    }
    study = cloud.house / "papermill_runs" / "trial"
    result = cloud.run(write_study(cloud.house, repetitions=1), "kaggle:t4x2")
    (row,) = read_rows(study)
    assert row["status"] == "ok", result.output
    (data_set,) = service.uploaded
    assert data_set["isPrivate"] and data_set["slug"].endswith("-data")
    assert (
        "the remote machine is ready" in (study / "logs" / f"{row['session']}.log").read_text()
    )
    assert not any(service.faults.values())
    assert not service.scripts and not service.data_sets and cloud.sessions[0]["ended"]


@pytest.mark.parametrize("fault", [500, 404])
def test_errors_for_long_leave_the_session_to_the_next_call(cloud, service, fault):
    """It ends meanwhile; nothing is deleted, and the same command fetches its rows."""
    path = write_study(cloud.house, repetitions=1)
    service.faults["GetKernelSessionStatus"] = [fault] * 10_000
    result = cloud.run(path, "kaggle:cpu")
    assert result.exit_code == 1 and "repeat the command to resume it\n" in result.output
    assert (
        len(service.scripts) == len(service.data_sets) == 1 and not cloud.sessions[0]["ended"]
    )
    service.faults.clear()
    result = cloud.run(path, "kaggle:cpu")
    assert result.exit_code == 0 and "C1-r00: ok" in result.output
    assert not service.scripts and not service.data_sets and len(cloud.sessions) == 1


@pytest.mark.parametrize(
    ("fault", "status"), [("empty", 0), (403, 403), (404, 0)], ids=["empty", "denied", "404"]
)
def test_what_kaggle_does_not_delete_is_never_said_to_be_deleted(cloud, service, fault, status):
    """The script or the crops stay, whatever the deletions are answered: the session is left open,
    with the commands, and the next call deletes both.
    """
    path = write_study(cloud.house)
    service.script = "raise MemoryError('no room')\n"
    service.faults = {"DeleteKernel": [fault] * 99, "DeleteDataset": [fault] * 99}
    service.faults["GetDatasetStatus"] = [0, *[status] * 99]
    result = cloud.run(path, "kaggle:cpu")
    (script,) = service.scripts
    (data_set,) = service.data_sets
    for name in (f"kernels delete somebody/{script}", f"datasets delete somebody/{data_set}"):
        assert f"to delete what is left on Kaggle: kaggle {name}" in result.output
    assert "is deleted\n" not in result.output and not cloud.sessions[0]["ended"]
    service.faults.clear()
    assert "is deleted\n" in cloud.run(path, "kaggle:cpu").output
    assert not service.scripts and not service.data_sets and cloud.sessions[0]["ended"]


def test_a_session_that_fails_says_why(cloud, service):
    """By Kaggle's message and the last error in its log."""
    service.script = "raise MemoryError('no room')\n"
    result = cloud.run(write_study(cloud.house), "kaggle:cpu")
    assert result.exit_code == 1
    assert result.output.endswith(
        "left no row: Your notebook was stopped; MemoryError: no room\n"
    )
    assert not service.scripts and not service.data_sets


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_what_ends_the_caller_loses_nothing_and_is_told(cloud, service, end):
    """After a kill the session goes on, and the next call has its row; Ctrl-C twice deletes script
    and data set, and says that the session runs on.
    """
    path = write_study(cloud.house, repetitions=1, parameters={"pause_s": 20.0})
    pid = cloud.fork(path, "kaggle:cpu")
    wait_until(lambda: service.scripts, 120)
    time.sleep(5)
    os.kill(pid, end)
    if end == signal.SIGINT:
        time.sleep(0.5)
        os.kill(pid, end)
    os.waitpid(pid, 0)
    if end == signal.SIGKILL:
        assert len(service.scripts) == len(service.data_sets) == 1
        result = cloud.run(path, "kaggle:cpu")
        assert "was left running" in result.output and "C1-r00: ok" in result.output
    else:
        said = cloud.said.read_text()
        assert "is deleted: a Kaggle session cannot be stopped from outside" in said
    assert not service.scripts and not service.data_sets and cloud.sessions[0]["ended"]
