"""Call the command line of a service: its output as it comes, its error in one sentence."""

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from dr_lib.runs.run import die_with_parent

COLOURS = re.compile(r"\x1b\[[\d;]*m")
LIMIT_S = 3600.0  # of a call that nothing else limits: an upload
NO_CREDENTIALS = {  # what a client says without credentials, and what gets it some
    "colab": ("authorize colab-cli", "colab usage"),
    "kaggle": ("Authentication required", "kaggle auth login"),
}


class RemoteError(RuntimeError):
    """A service, or its client, did not do what was asked; the message says what, in one sentence."""


class Quota(NamedTuple):
    """What an account has left."""

    left: float
    per_hour: float  # that all machines of the account take now
    unit: str  # empty where nothing is counted
    refusal: str = ""  # why no session can begin


def call(name: str, *arguments: str, limit_s: float = LIMIT_S, say: Callable[[str], object] | None = None) -> str:
    """Call a client, which nobody answers and which ends with this process, and return what it prints.

    Args:
        name: colab or kaggle.
        arguments: of its command line.
        limit_s: seconds until it is ended.
        say: gets each line as it comes.

    Raises:
        RemoteError: it is not installed, has no credentials, failed, or took too long.
    """
    lines: list[str] = []
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    command = [find_client(name), *arguments]
    with subprocess.Popen(command, **pipes, text=True, errors="replace", preexec_fn=die_with_parent) as process:
        timer = threading.Timer(limit_s, process.kill)
        timer.start()
        try:
            for line in process.stdout:
                lines.append(COLOURS.sub("", line))
                if say:
                    say(lines[-1].rstrip())
            process.wait()
        finally:
            in_time = timer.is_alive()
            timer.cancel()
            process.kill()
    text, what = "".join(lines), " ".join([name, *(word for word in arguments[:2] if word[0] != "-")])
    hint, login = NO_CREDENTIALS[name]
    if hint in text:
        raise RemoteError(f"{name} has no credentials: log in once with {login} in a terminal")
    if not in_time:
        raise RemoteError(f"{what} did not end within {limit_s:.0f} s")
    if process.returncode:
        raise RemoteError(f"{what} failed: {find_sentence(text)}")
    return text


def find_client(name: str) -> str:
    """The client on the path, or beside this Python."""
    beside = Path(sys.executable).with_name(name)
    if path := shutil.which(name) or (str(beside) if beside.is_file() else ""):
        return path
    needs = ", with Python 3.12 or newer" if name == "colab" else ""
    raise RemoteError(f"{name} is not installed: pip install 'dr-lib[remote]'{needs}")


def find_sentence(text: str) -> str:
    """The last line of what a client prints, which says what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it does not say why"]
    return lines[-1].removeprefix("[colab] ")
