"""The client beside this Python is called if it is new enough; what it says is one sentence."""

import sys

import pytest

from dr_lib.errors import DrError
from dr_lib.remote.client import WAITS
from dr_lib.remote.kaggle import Kaggle


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


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (
            "printf '503 Server Error: https://x?token=abc&a=b\\n\\nTry again later.'; exit 1",
            "kaggle failed: 503 Server Error: https://x?token=***&a=b",
        ),
        ("exec sleep 5", "kaggle did not end within 1 s"),
    ],
)
def test_a_client_that_cannot_be_used_is_one_sentence(kaggle, monkeypatch, lines, fault):
    """No token is in it."""
    monkeypatch.setattr(WAITS, "call", 1)
    with pytest.raises(DrError) as raised:
        kaggle(lines).call("--version")
    assert str(raised.value) == fault
