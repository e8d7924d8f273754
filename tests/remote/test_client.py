"""The client beside this Python is called if it is new enough; what it says is one sentence."""

import os
import sys

import pytest

from dr_lib.errors import DrError
from dr_lib.remote.client import WAITS
from dr_lib.remote.colab import Colab
from dr_lib.remote.kaggle import Kaggle

INSTALL = ".venv/bin/python -m pip install -e '.[remote]'"


@pytest.fixture
def kaggle(tmp_path, monkeypatch):
    """A session whose client is a shell script with these lines, in an environment."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    # the parent's Python is not this one
    monkeypatch.setattr("dr_lib.remote.client.bind_to_parent", list)

    def put(lines: str) -> Kaggle:
        (programs / "kaggle").write_text(f"#!/bin/sh\n{lines}\n")
        (programs / "kaggle").chmod(0o755)
        return Kaggle(tmp_path, "dr-x", "kaggle:cpu", "here", 1.0)

    return put


def test_the_client_beside_this_python_goes_before_the_path(kaggle, tmp_path, monkeypatch):
    """What `.venv/bin/pip install` brought is used although the reader's PATH holds another one;
    without it, that; without both, the sentence says how to install it.
    """
    client = kaggle("echo Kaggle CLI 2.2.5")
    other = tmp_path / "usr" / "kaggle"
    other.parent.mkdir()
    other.write_bytes((tmp_path / ".venv" / "bin" / "kaggle").read_bytes())
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    assert client.find() == str(tmp_path / ".venv" / "bin" / "kaggle")
    os.remove(client.find())
    assert client.find() == str(other)
    with pytest.raises(DrError) as raised:
        Colab(tmp_path, "dr-x", "colab:cpu", "here", 1.0).find()
    needs = "colab is not installed (it needs Python 3.12 or newer)"
    assert str(raised.value) == f"{needs}: {INSTALL}"


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ("echo 'No module named six'; exit 1", "kaggle failed: No module named six"),
        ("echo Warning: readable; exit 1", "kaggle failed: it does not say why"),
        (
            "echo 'Authentication required to call the Kaggle API.'; exit 1",
            "kaggle has no credentials, or cannot renew them offline: log in once with"
            " .venv/bin/kaggle auth login in a terminal",
        ),
        (
            "printf '503 Server Error: https://x?token=abc&a=b\\n\\nTry again later.'; exit 1",
            "kaggle failed: 503 Server Error: https://x?token=***&a=b",
        ),
        ("exec sleep 5", "kaggle did not end within 1 s"),
    ],
)
def test_a_client_that_cannot_be_used_is_one_sentence(kaggle, monkeypatch, lines, fault):
    """It names what mends it, and no token."""
    monkeypatch.setattr(WAITS, "call", 1)
    with pytest.raises(DrError) as raised:
        kaggle(lines).call("--version")
    assert str(raised.value) == fault
