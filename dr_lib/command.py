"""Write the commands of this library as they are typed where this process runs."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def write_command(*words: str | Path) -> str:
    """Write a command of this library as it can be pasted into a shell in the working directory.

    It begins with `python` where that is this interpreter, as in an activated environment; else
    with the path of this interpreter, from the working directory where it lies below it.

    Args:
        words: behind `-m dr_lib`, quoted where a shell needs it; words in capitals stand for what
            the reader fills in.
    """
    return shlex.join([shorten_program(sys.executable), "-m", "dr_lib", *map(str, words)])


def write_lasting_command(*words: str | Path) -> str:
    """Write a command for the repository's root that can be stored or run on another machine.

    It begins with the path of this interpreter where that lies in the repository, as `make` has it;
    else with `python`.
    """
    executable = Path(sys.executable)
    python = str(executable.relative_to(ROOT)) if ROOT in executable.parents else "python"
    return shlex.join([python, "-m", "dr_lib", *map(str, words)])


def write_install(*packages: str) -> str:
    """Write the command that installs packages, or `-r` and a file, for this interpreter."""
    return shlex.join([shorten_program(sys.executable), "-m", "pip", "install", *packages])


def shorten_program(path: str) -> str:
    """Shorten a program's path to what a shell in the working directory resolves to it."""
    import shutil  # not for each start of the command line

    name = os.path.basename(path)
    if shutil.which(name) == path:
        return name
    here = os.path.relpath(path)
    return path if here.startswith(os.pardir) else here
