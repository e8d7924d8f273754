"""A session by Colab's own client, whose machine is a Jupyter server here."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dr_lib.runs.row import read_rows
from tests.processes import wait_until
from tests.rooms.remote.conftest import Cloud
from tests.runs.conftest import write_study

PROGRAM = Path(__file__).with_name("colab_client.py")


def is_open(port: int) -> bool:
    """Whether something listens there."""
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def machine(cloud: Cloud, clients: Path, tmp_path: Path, monkeypatch) -> Path:
    """The folder that stands for /content, and the real client beside this Python."""
    kernel = tmp_path / "kernels" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    about = {"argv": command, "display_name": "Python 3", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(about))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("JUPYTER", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "kernels"))
    monkeypatch.setenv("COLAB_RELEASE_TAG", "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    content = tmp_path / "content"
    content.mkdir()
    monkeypatch.setattr("dr_lib.rooms.remote.colab.UPLOADS", str(content))
    monkeypatch.setattr("dr_lib.rooms.remote.client.PATIENCE_S", 30.0)
    cloud.home.mkdir()
    (tmp_path / "bin" / "colab").write_text(f"#!{clients}\n{PROGRAM.read_text()}")
    options = [
        f"--ServerApp.port={port}",
        "--ServerApp.root_dir=/",
        "--IdentityProvider.token=",
    ]
    server = subprocess.Popen(  # Colab's proxy, not Jupyter, asks for the token
        [
            clients,
            "-m",
            "jupyter",
            "server",
            "--allow-root",
            "--ServerApp.disable_check_xsrf=True",
            *options,
        ],
        stdout=(tmp_path / "server").open("wb"),
        stderr=subprocess.STDOUT,
    )
    wait_until(lambda: is_open(port) or server.poll() is not None, 60)
    yield content
    server.terminate()
    server.wait()


def list_machines(cloud: Cloud) -> list[str]:
    """The account's machines."""
    return list(json.loads((cloud.home / "machines.json").read_text()))


@pytest.mark.slow
@pytest.mark.parametrize("is_strange", [False, True])
def test_a_session_of_the_real_client_brings_the_row(cloud, machine, is_strange):
    """Its upload fails once; then it runs, and the machine is given back: even where the account
    has another one of a kind that the client does not know, and its units are not answered.
    """
    (cloud.home / "fault").touch()
    others = {"m-s-0": "B200"} if is_strange else {}
    if is_strange:
        (cloud.home / "no units").touch()
        (cloud.home / "machines.json").write_text(json.dumps(others))
    result = cloud.run(write_study(cloud.house, repetitions=1), "colab:cpu")
    assert result.exit_code == 0, result.output
    (row,) = read_rows(cloud.house / "papermill_runs" / "trial")
    assert row["status"] == "ok" and "-colab-" in row["run_id"]
    assert not (cloud.home / "fault").exists()
    assert list_machines(cloud) == list(others) and cloud.sessions[0]["ended"]
    words = (
        "a machine that this client does not know",
        "your remaining compute units are unknown",
    )
    assert [word in result.output for word in words] == [is_strange, is_strange]


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_what_ends_the_real_client_s_caller_loses_nothing(cloud, machine, end):
    """A kill leaves a machine that the next call takes up; Ctrl-C twice gives it back."""
    path = write_study(cloud.house, parameters={"pause_s": 5.0})
    pid = cloud.fork(path, "colab:cpu")
    rows = path.with_suffix("") / "rows"
    wait_until(lambda: list(rows.glob("*")), 240)
    os.kill(pid, end)
    if end == signal.SIGINT:
        time.sleep(0.5)
        os.kill(pid, end)
    os.waitpid(pid, 0)
    assert len(list_machines(cloud)) == (end == signal.SIGKILL)
    assert bool(cloud.sessions[0]["ended"]) == (end == signal.SIGINT)
    if end == signal.SIGKILL:
        result = cloud.run(path, "colab:cpu")
        assert result.exit_code == 0 and "was left running" in result.output
        assert len(list(rows.glob("*"))) == 2 and len(cloud.sessions) == 1
        assert not list_machines(cloud) and cloud.sessions[0]["ended"]
    else:
        assert "is stopped" in cloud.said.read_text()
