"""A printed command can be pasted: the interpreter that runs, and words that a shell takes whole."""

import subprocess
import sys
import venv

from dr_lib.command import write_command
from tests.conftest import ROOT

PRINT = "from dr_lib.command import write_command; print(write_command('report', 'my runs'))"


def test_a_command_names_an_environment_that_is_not_activated(tmp_path):
    """The path of its interpreter, from the working directory; the link in the environment, not what it points to."""
    venv.create(tmp_path / ".venv", symlinks=True)
    command = [tmp_path / ".venv" / "bin" / "python", "-c", PRINT]
    environment = {"PATH": "/usr/bin", "PYTHONPATH": str(ROOT)}
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert shown == ".venv/bin/python -m dr_lib report 'my runs'\n"


def test_a_command_of_an_activated_environment_is_short(tmp_path):
    """What the reader's own shell calls python is this interpreter."""
    venv.create(tmp_path / ".venv", symlinks=True)
    folder = tmp_path / ".venv" / "bin"
    environment = {"PATH": f"{folder}:/usr/bin", "PYTHONPATH": str(ROOT)}
    shown = subprocess.run(
        ["python", "-c", PRINT], cwd="/", env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert shown == "python -m dr_lib report 'my runs'\n"


def test_a_command_of_an_interpreter_elsewhere_has_its_whole_path(tmp_path, monkeypatch):
    """A path that climbs out of the working directory would hold for nobody else's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    assert write_command("plan").startswith(f"{sys.executable} -m dr_lib plan")
