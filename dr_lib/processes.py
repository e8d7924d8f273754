"""Other processes: end with the parent, read the last line printed.

Run as a script, this file becomes the command that it is given, and ends with its parent.
"""

from __future__ import annotations

import ctypes
import os
import sys


def end_with_parent() -> None:
    """On Linux, have this process killed when its parent ends; elsewhere do nothing."""
    if sys.platform == "linux":
        # PR_SET_PDEATHSIG and SIGKILL; `signal` takes longer to import than all else here
        ctypes.CDLL(None).prctl(1, 9)


def bind_to_parent(command: list[str]) -> list[str]:
    """Wrap a command so that on Linux it ends with this process; elsewhere it is unchanged.

    A preexec_fn would run Python between fork and exec, where a Ctrl-C is lost and threads may lock
    each other out.
    """
    if sys.platform != "linux":
        return command
    return [sys.executable, "-IS", __file__, str(os.getpid()), *command]


def explain_end(code: int, printed: str) -> str:
    """Explain how a process ended by itself: its exit status and what it printed."""
    import signal

    if code == -signal.SIGKILL:
        return "died (SIGKILL): it was killed or out of memory"
    how = f"exit status {code}" if code >= 0 else signal.Signals(-code).name
    return f"died ({how}): {read_last_words(printed, 'it printed nothing')}"


def read_last_words(text: str, default: str = "no message") -> str:
    """Return the line by which a process says what went wrong, or the default: a library's fatal
    error, or the last line that is no warning and no stack.
    """
    import re

    before, dump, _ = text.partition(
        "Fatal Python error"
    )  # behind it stand the threads' stacks
    lines = [line.strip() for line in before.splitlines()]
    aside = r"$|[IW]\d{4} |WARNING: All log messages|\d+\.\d\ds - |\*\*\*|@ +0x"
    lines = [line for line in lines if not re.match(aside, line)]
    if not lines and dump:
        lines = text[len(before) :].splitlines()[:1]
    fatal = [line for line in lines if re.match(r"F\d{4} ", line)]
    return [default, *lines, *fatal][-1]


if __name__ == "__main__":
    end_with_parent()
    if os.getppid() == int(sys.argv[1]):
        os.execvp(sys.argv[2], sys.argv[2:])
