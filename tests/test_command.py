"""A printed command can be pasted: the interpreter that runs, and words that a shell takes
whole.
"""

import errno
import re
import subprocess
import sys
import venv

import click
import pytest
from click.testing import CliRunner

from dr_lib import command
from dr_lib.__main__ import COMMANDS, Commands, main
from dr_lib.command import write_lasting_command
from tests.conftest import ROOT

PRINT = "from dr_lib.command import write_command; print(write_command('report', 'my runs'))"


@pytest.mark.parametrize(
    ("is_activated", "python"), [(False, ".venv/bin/python"), (True, "python")]
)
def test_a_command_is_of_the_environment_that_runs(tmp_path, is_activated, python):
    """The path of its interpreter from the working directory, by the link in the environment;
    python alone, where that is what the reader's shell calls so.
    """
    venv.create(tmp_path / ".venv", symlinks=True)
    folder = tmp_path / ".venv" / "bin"
    path = f"{folder}:/usr/bin" if is_activated else "/usr/bin"
    command = [folder / "python", "-c", PRINT]
    environment = {"PATH": path, "PYTHONPATH": str(ROOT)}
    shown = subprocess.check_output(command, cwd=tmp_path, env=environment, text=True)
    assert shown == f"{python} -m dr_lib report 'my runs'\n"


def test_a_command_that_is_kept_names_no_folder_of_this_machine(tmp_path, monkeypatch):
    """It is for the repository's root: the .venv there, else whatever python is."""
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command.sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    kept = write_lasting_command("report", "my runs")
    assert kept == ".venv/bin/python -m dr_lib report 'my runs'"
    monkeypatch.setattr(command.sys, "executable", "/opt/lab/bin/python3")
    assert write_lasting_command("plan") == "python -m dr_lib plan"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "Error: No space left on device$"),
        (OSError(errno.EACCES, "Permission denied", "/a/b"), "Error: /a/b: Permission denied$"),
    ],
)
def test_what_a_disk_refuses_is_said(error, message):
    """The system's own words, and the file if it names one."""

    @click.group(cls=Commands)
    @click.option("--debug", is_flag=True)
    def group(debug):
        pass

    @group.command()
    def write():
        raise error

    result = CliRunner().invoke(group, ["write"])
    assert result.exit_code == 1 and re.search(message, result.output.strip())


def test_an_error_that_nobody_expected_says_how_to_see_more():
    """Its kind, its words and a command, in one sentence; with --debug the traceback itself."""

    @click.group(cls=Commands)
    @click.option("--debug", is_flag=True)
    def group(debug: bool) -> None:
        """Hold one command."""

    @group.command()
    def divide() -> None:
        """Fail."""
        1 / 0  # noqa: B018

    result = CliRunner().invoke(group, ["divide"])
    words = (
        r"Error: ZeroDivisionError: division by zero; .* --debug divide \.\.\. shows the trace"
    )
    assert re.match(words, result.output) and result.output.count("\n") == 1
    assert isinstance(
        CliRunner().invoke(group, ["--debug", "divide"]).exception, ZeroDivisionError
    )


def test_help_lists_the_commands():
    """Every command, each with its first sentence."""
    shown = CliRunner().invoke(main, ["--help"]).output.partition("Commands:\n")[2]
    assert re.findall(r"(?m)^  (\w+) ", shown) == [*COMMANDS]
    assert "...\n" not in shown


def test_every_option_has_a_help():
    """Which says what it is for."""
    for name in main.list_commands(None):
        for each in main.get_command(None, name).params:
            if isinstance(each, click.Option):
                assert each.help, f"{name}: {each.opts[0]} needs a help in its commands.py"


def test_a_command_is_imported_when_it_is_used():
    """The help of a command starts in the time of click: no pandas, NumPy, OpenCV or HTTP."""
    listed = (
        "import sys; from dr_lib.__main__ import main; main(['--help'], standalone_mode=False)"
    )
    heavy = {"numpy", "pandas", "cv2", "tqdm", "ssl", "pydantic", "ruamel"}
    listed += f"; print(sorted({heavy} & set(sys.modules)))"
    shown = subprocess.check_output([sys.executable, "-c", listed], cwd=ROOT, text=True)
    assert shown.endswith("\n[]\n")


def test_progress_goes_nowhere_if_nobody_listens():
    """A study started with standard error closed, as by some schedulers, runs."""
    words = "from tqdm import tqdm; from dr_lib.__main__ import main; "
    words += (
        "main(['plan', 'papermill_runs/demo.yaml'], standalone_mode=False); tqdm([1]).close()"
    )
    command = ["bash", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, words]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
