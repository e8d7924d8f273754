"""Sessions by the services' own clients against a stand-in of each: rows come back, and nothing is
left running or lying there unsaid.
"""

import json
import os
import re
import signal
import time

import pytest

from dr_lib.runs.row import read_rows
from tests.processes import wait_until
from tests.remote.conftest import end_machines
from tests.remote.faults import (
    QUICK,
    REQUESTS,
    Fault,
    build_house,
    list_faults,
    try_fault,
    wait,
)
from tests.runs.conftest import write_study

pytestmark = pytest.mark.slow
SERVICES = ("colab:cpu", "kaggle:cpu")
NOTHING = ("lost", "untold", "left", "trace", "secret")


@pytest.mark.parametrize("on", SERVICES)
def test_a_session_brings_rows_notebooks_and_logs(cloud, on):
    """The machine runs the library as it is here; at the end nothing is left there, and what was
    uploaded was private.
    """
    result = cloud.run(write_study(cloud.house, repetitions=1), on)
    study = cloud.house / "papermill_runs" / "trial"
    assert result.exit_code == 0, result.output
    (row,) = read_rows(study)
    (record,) = cloud.sessions
    assert row["status"] == "ok"
    assert row["session"] == record["session"]
    assert f"-{on.partition(':')[0]}-" in row["run_id"]
    assert (study / "notebooks" / f"{row['run_id']}.ipynb").is_file()
    log = (study / "logs" / f"{record['session']}.log").read_text()
    assert "the remote machine is ready" in log
    assert record["state"] == "closed"
    assert not cloud.list_left()
    for data_set in cloud.kaggle.uploaded:
        assert data_set["isPrivate"]


KILLS = [
    Fault(f"{on}:cpu", request, "SIGKILL", 0, 1)
    for on, requests in REQUESTS.items()
    for request in requests
]


@pytest.mark.parametrize("fault", [*KILLS, *list_faults(8, seed=7)], ids=str)
def test_a_fault_loses_nothing_and_leaves_nothing_unsaid(services, tmp_path, fault):
    """A client that is killed at each request, and other faults by a seed: what is left of the
    session is said, and the same command without faults brings the rows and deletes the rest.
    """
    found = try_fault(fault, tmp_path / "house", services)
    assert found["struck"]
    assert {name: found[name] for name in NOTHING} == dict.fromkeys(NOTHING, False), found


@pytest.fixture
def quick(cloud, monkeypatch):
    """The same with runs that take no time, on a service."""

    def enter(on: str):
        house = cloud.house.parent / "quick"
        monkeypatch.setattr("dr_lib.__main__.ROOT", house)
        cloud.house = house
        return build_house(house, on.partition(":")[0])

    return enter


@pytest.mark.parametrize("on", ["colab:T4", "kaggle:t4x2"])
def test_another_device_ends_the_session_and_its_row_is_kept(cloud, quick, on):
    """The row is of a CPU, not of the device requested: it counts for the CPU alone."""
    path = quick(on)
    result = cloud.run(path, on)
    device = on.partition(":")[2]
    assert result.exit_code == 1
    assert f"instead of the requested {device}: C1-r00 is kept" in result.output
    assert len(read_rows(path.with_suffix(""))) == 1
    assert not cloud.list_left()
    cpu = f"{on.partition(':')[0]}:cpu"
    assert "for 1 runs on cpu" in cloud.run(path, cpu).output
    assert len(read_rows(path.with_suffix(""))) == 2


def test_what_is_refused_is_one_sentence(cloud, quick, monkeypatch):
    """Unknown devices, which the clients take for other ones, and a client without connection:
    nothing is begun.
    """
    path = quick("colab:cpu")
    for on in ("colab:t4", "kaggle:tpuv38"):
        assert f"unknown device {on!r}: choose from" in cloud.run(path, on).output
    cloud.strike("colab", {"sessions": ["cut"]})
    output = cloud.run(path, "colab:cpu").output
    assert "colab sessions failed: " in output
    assert "SECRET" not in output
    assert not (path.with_suffix("") / "sessions.json").exists()


def test_another_machine_of_the_account_is_left_alone(cloud, quick):
    """Killed while the client has not noted its machine: the next command goes no further until
    that has been ended by hand, and names it; the account's other machine is none of ours.
    """
    path = quick("colab:cpu")
    machines = cloud.home / "machines.json"
    machines.write_text(json.dumps({"m-s-0": "T4"}))
    cloud.strike("colab", {"new": ["SIGKILL"]})
    assert wait(cloud.fork(path, "colab:cpu")) == -signal.SIGKILL
    (_, ours) = json.loads(machines.read_text())
    result = cloud.run(path, "colab:cpu")
    assert result.exit_code == 1
    assert f"{ours} is still running on Colab" in result.output
    assert "m-s-0 is still" not in result.output
    end_machines(cloud.home)
    machines.write_text(json.dumps({"m-s-0": "T4"}))
    assert cloud.run(path, "colab:cpu").exit_code == 0
    assert cloud.list_left() == ["m-s-0"]


def test_what_kaggle_does_not_delete_is_never_said_to_be_deleted(cloud, quick):
    """The script or the crops stay, whatever the deletions are answered: the session is left open,
    with the commands, and the next call deletes both.
    """
    path = quick("kaggle:cpu")
    cloud.kaggle.script = "raise MemoryError('no room')\n"
    cloud.kaggle.faults = {"DeleteKernel": [403] * 99, "DeleteDataset": [403] * 99}
    cloud.kaggle.faults["GetDatasetStatus"] = [0, *[403] * 99]
    result = cloud.run(path, "kaggle:cpu")
    (script,) = cloud.kaggle.scripts
    for name in (
        f"kernels delete somebody/{script}",
        f"datasets delete somebody/{script}-data",
    ):
        assert f"kaggle {name}" in result.output
    assert "is deleted\n" not in result.output
    assert cloud.sessions[0]["state"] != "closed"
    cloud.kaggle.faults = {}
    assert "is deleted\n" in cloud.run(path, "kaggle:cpu").output
    assert not cloud.list_left()


def test_a_session_has_no_more_than_the_quota(cloud, quick):
    """Rows come at the end: a session gets what is left of the week, less the set-up."""
    path = quick("kaggle:cpu")
    cloud.kaggle.quota_s = 106_200
    cloud.run(path, "kaggle:t4x2")
    (pushed,) = cloud.kaggle.pushed
    assert pushed["sessionTimeoutSeconds"] == 1800
    assert pushed["machineShape"] == "NvidiaTeslaT4"
    assert pushed["isPrivate"]


@pytest.mark.parametrize("on", SERVICES)
def test_ctrl_c_ends_a_session(cloud, quick, on):
    """Colab's machine is stopped; Kaggle's script cannot be, is deleted, and is said to run on."""
    path = quick(on)
    runner = f"import time\ntime.sleep(60)\n{QUICK}"
    (cloud.house / "dr_lib" / "__main__.py").write_text(runner)
    logs = "**/logs/C1-r00.log"  # on the machines
    earlier = {*cloud.home.glob(logs)}
    pid = cloud.fork(path, on)
    wait_until(lambda: {*cloud.home.glob(logs)} - earlier, 120)
    os.kill(pid, signal.SIGINT)
    time.sleep(0.3)
    os.kill(pid, signal.SIGINT)
    assert wait(pid) == 130
    said = cloud.said
    assert re.search("is stopped|is deleted: a Kaggle session cannot be stopped", said)
    assert not cloud.list_left()
    assert cloud.sessions[0]["state"] == "closed"
