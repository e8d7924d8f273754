"""The client beside this Python is called, if it is new enough, and nothing that was not asked
for is waited for.
"""

import os
import re
import signal
import sys
import threading
import time
import tomllib

import psutil
import pytest

from dr_lib.rooms.remote.client import VERSIONS, RemoteError, call, check_client, find_client
from tests.conftest import ROOT
from tests.processes import wait_until


def test_a_ctrl_c_ends_a_call_and_leaves_nothing(cloud, monkeypatch, tmp_path):
    """The client does not get it, and is ended; nothing is waited for."""
    client = put_client(tmp_path / "slow", "x; echo $$ > pid; exec sleep 60")
    monkeypatch.setattr(sys, "executable", str(client / "python"))
    monkeypatch.setattr("dr_lib.rooms.remote.client.bind_to_parent", list)
    monkeypatch.chdir(tmp_path)
    threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        call("kaggle", "quota", "--csv")
    assert time.monotonic() - start < 10
    pid = int((tmp_path / "pid").read_text())
    ended = psutil.STATUS_ZOMBIE
    wait_until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == ended, 10)


def put_client(folder, said: str):
    """A program in a folder that says its version, or ends with an error."""
    folder.mkdir(parents=True)
    (folder / "kaggle").write_text(f"#!/bin/sh\necho {said}\n")
    (folder / "kaggle").chmod(0o755)
    return folder


def test_the_client_beside_this_python_goes_before_the_path(tmp_path, monkeypatch):
    """What `.venv/bin/pip install` brought is used although the reader's PATH holds another one;
    without it, that.
    """
    beside, elsewhere = (
        put_client(tmp_path / name / "bin", "Kaggle CLI 2.2.5") for name in (".venv", "usr")
    )
    monkeypatch.setenv("PATH", str(elsewhere))
    monkeypatch.setattr(sys, "executable", str(beside / "python"))
    assert find_client("kaggle") == str(beside / "kaggle")
    (beside / "kaggle").unlink()
    assert find_client("kaggle") == str(elsewhere / "kaggle")


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("Kaggle API 1.6.17", "is 1.6.17, older than 2.2.1"),
        ("'No module named six'; exit 1", "does not start (No module named six)"),
        ("", "does not start (it does not say why)"),
    ],
)
def test_a_client_that_cannot_be_used_is_named_with_what_mends_it(
    tmp_path, monkeypatch, said, fault
):
    """The command is the one to paste in the repository, and names no package that is not there."""
    beside = put_client(tmp_path / ".venv" / "bin", said)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(beside / "python"))
    with pytest.raises(RemoteError) as raised:
        check_client("kaggle")
    install = ".venv/bin/python -m pip install -e '.[remote]'"
    assert str(raised.value) == f".venv/bin/kaggle {fault}: {install}"
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RemoteError) as raised:
        find_client("colab")
    assert (
        str(raised.value)
        == f"colab is not installed (it needs Python 3.12 or newer): {install}"
    )


def test_the_oldest_clients_are_those_of_the_extra():
    """What pip brings is what is asked for."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    oldest = dict(re.findall(r"(kaggle|colab)\S*>=([\d.]+)", " ".join(extras["remote"])))
    assert {
        name: ".".join(map(str, version)) for name, (_, version) in VERSIONS.items()
    } == oldest
