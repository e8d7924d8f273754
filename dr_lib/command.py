"""How a command of this library is typed where this process runs.

Notebooks of foreign kernels print commands too: this file needs Python 3.9, nothing else.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path


def write_command(*words: str | Path) -> str:
    """Write a command of this library as it can be pasted into a shell in the working directory.

    It begins with `python` where that is this interpreter, as in an activated environment; else with the path of this
    interpreter, from the working directory where it lies below it.

    Args:
        words: behind `-m dr_lib`, quoted where a shell needs it; words in capitals stand for what the reader fills in.
    """
    return shlex.join([find_interpreter(), "-m", "dr_lib", *map(str, words)])


def find_interpreter() -> str:
    """Find how this interpreter is called in the working directory: python, a path below it, or a whole path."""
    if shutil.which("python") == sys.executable:
        return "python"
    here = os.path.relpath(sys.executable)
    return sys.executable if here.startswith(os.pardir) else here
