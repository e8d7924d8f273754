"""A printed command can be pasted: the interpreter that runs, and words that a shell takes
whole.
"""

import ast
import errno
import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dr_lib import command
from dr_lib.__main__ import COMMANDS, Commands, main
from dr_lib.command import write_command, write_install, write_lasting_command
from tests.conftest import ROOT

SOURCES = [*ROOT.glob("dr_lib/**/*.py"), *ROOT.glob("notebooks/*.py")]
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


def test_a_command_of_an_interpreter_elsewhere_has_its_whole_path(tmp_path, monkeypatch):
    """A path that climbs out of the working directory would hold for nobody else's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    assert shlex.split(write_command("plan")) == [sys.executable, "-m", "dr_lib", "plan"]


def test_a_command_that_is_kept_names_no_folder_of_this_machine(tmp_path, monkeypatch):
    """It is for the repository's root: the .venv there, else whatever python is."""
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command.sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    kept = write_lasting_command("report", "my runs")
    assert kept == ".venv/bin/python -m dr_lib report 'my runs'"
    monkeypatch.setattr(command.sys, "executable", "/opt/lab/bin/python3")
    assert write_lasting_command("plan") == "python -m dr_lib plan"


def test_packages_are_installed_for_this_interpreter(monkeypatch):
    """A shell takes the brackets of an extra for a pattern."""
    monkeypatch.setattr(command, "find_interpreter", lambda: ".venv/bin/python")
    assert write_install("a[b]") == ".venv/bin/python -m pip install 'a[b]'"


def list_texts(path: Path) -> list[str]:
    """The texts of a module that are no documentation."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    explained = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    texts = [node.value for node in constants if id(node) not in explained]
    return [text for text in texts if isinstance(text, str)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_text_calls_python_by_a_name_that_may_be_another_one(path):
    """What is printed to be pasted comes from dr_lib.command.

    The sentences of one module are for another Python than its own.
    """
    printed = re.search("python -m dr_lib |pip install", "\n".join(list_texts(path)))
    assert not printed or path.name == "factory.py"


def test_a_path_with_spaces_is_to_be_quoted():
    """Which a shell has cut into several arguments."""
    said = CliRunner().invoke(
        main, ["prepare", "--out", "x", "--images", "Área", "de", "Trabalho"]
    )
    assert said.exit_code == 2 and "put a path with spaces in quotes" in said.output


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "device: free some space, and repeat",
        ),
        (
            OSError(errno.EDQUOT, "Disk quota exceeded", "/a/b"),
            "/a/b: .*: your quota is used up",
        ),
        (OSError(errno.ESTALE, "Stale file handle", "/a/b"), "/a/b: .*: mount the disk again"),
        (OSError(errno.EACCES, "Permission denied", "/a/b"), "Error: /a/b: Permission denied$"),
    ],
)
def test_what_a_disk_refuses_is_said_with_what_helps(error, message):
    """The system's own words, the file if it names one, and what to do where that is known."""

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


def test_help_lists_the_commands_in_groups():
    """Every command, each with its first sentence."""
    shown = CliRunner().invoke(main, ["--help"]).output
    groups = dict(re.findall(r"(?m)^(\S[^\n]*):\n((?:  .*\n?)+)", shown))
    for heading, names in COMMANDS.items():
        assert re.findall(r"(?m)^  (\w+) ", groups.get(heading, "")) == [*names]
    assert "...\n" not in shown.partition("Prepare")[2]


def test_help_of_prepare_names_what_it_does_by_default():
    """Of an option that has one: the side of the crops, the method, the split."""
    shown = " ".join(CliRunner().invoke(main, ["prepare", "--help"]).output.split())
    for words in ("side of the crops [px] [default: 299;", "did [default: robust]", "random]"):
        assert words in shown, words


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


def test_closed_streams_stop_nothing():
    """As `>&- 2>&-` of a shell, in a job: what would be printed goes nowhere."""
    code = "import sys; sys.stdout = sys.stderr = None; from dr_lib.__main__ import main; "
    code += "main(['sample', '--help'], standalone_mode=False); sys.stderr.write('x')"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
