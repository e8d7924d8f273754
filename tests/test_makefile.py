"""`make` sets up .venv by a Python that is new enough, whatever an earlier call left there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture
def project(tmp_path) -> Path:
    """A folder with the Makefile, no requirements, and a space and an accent in its path."""
    folder = tmp_path / "Área de Trabalho"
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "requirements.txt").write_text("")
    return folder


def write_python_3_9(path: Path) -> Path:
    """This Python under a path, which calls itself 3.9."""
    code = "import sys; sys.version_info = (3, 9, 18); exec(sys.argv[2])"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c '{code}' \"$@\"\n")
    path.chmod(0o755)
    return path


def set_up(project: Path, python: Path | str) -> subprocess.CompletedProcess:
    """Make .venv by a Python."""
    command = ["make", ".venv/ready", f"PYTHON={python}"]
    environment = {**os.environ, "PIP_NO_INDEX": "1"}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)


def test_an_old_python_is_refused_before_anything_is_made(project):
    """One sentence with the command to type."""
    done = set_up(project, write_python_3_9(project / "python3.9"))
    assert done.returncode and not (project / ".venv").exists()
    advice = "is Python 3.9, 3.11 or newer is needed: make .venv/ready PYTHON=python3.11"
    assert advice in done.stderr.splitlines()[0]
