"""Call the command line of a service: its output as it comes, its error in one sentence."""

import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from dr_lib.command import shorten_program, write_install
from dr_lib.errors import DrError
from dr_lib.processes import bind_to_parent, read_last_words

COLOURS = re.compile(r"\x1b\[[\d;]*m")
TOKEN = re.compile(r"((?:token|signature)=)[^\s&'\"]+", re.IGNORECASE)
# of every call: Kaggle's warning of an old version stands before an answer
OPTIONS = {"colab": (), "kaggle": ("-W",)}
EXTRA = ("-e", ".[remote]")  # of this library: what pip installs the clients with
LIMIT_S = 3600.0  # of a call that nothing else limits: an upload
VERSIONS = {  # how a client says its version, and the oldest that will do, as in pyproject.toml
    "colab": ("version", (0, 7, 5)),
    "kaggle": ("--version", (2, 2, 1)),
}
NO_CREDENTIALS = {  # what a client says without credentials, and its words that get it some
    "colab": ("authorize colab-cli", "usage"),
    "kaggle": ("Authentication required", "auth login"),
}
Answer = TypeVar("Answer")
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class RemoteError(DrError):
    """A service, or its client, did not do what was asked; the message says what, in one sentence.

    `output` is all that the client printed.
    """

    def __init__(self, sentence: str, output: str = ""):
        """Take the sentence, and what it was taken from."""
        super().__init__(sentence)
        self.output = output


class Quota(NamedTuple):
    """What an account has left."""

    left: float
    per_hour: float  # that all machines of the account take now
    unit: str  # empty where nothing is counted
    refusal: str = ""  # why no session can begin
    session_hours: float = math.inf  # that a session can make runs for


def call(
    name: str,
    *arguments: str,
    limit_s: float = LIMIT_S,
    say: Callable[[str], object] | None = None,
) -> str:
    """Call a client, which nobody answers and which ends with this process, and return what it
    prints.

    Ctrl-C does not reach it. Access tokens in what it prints are masked.

    Args:
        name: colab or kaggle.
        arguments: of its command line.
        limit_s: seconds until it is ended.
        say: gets each line as it comes.

    Raises:
        RemoteError: it is not installed, has no credentials, failed, or took too long.
    """
    lines: list[str] = []
    process = subprocess.Popen(
        bind_to_parent([find_client(name), *OPTIONS[name], *arguments]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        env={**os.environ, "COLUMNS": "10000"},  # so that a sentence stays one line
    )
    with process:
        timer = threading.Timer(limit_s, process.kill)
        timer.daemon = (
            True  # Ctrl-C may come at any moment, and nobody waits for the timer then
        )
        try:
            timer.start()
            for line in process.stdout:
                lines.append(TOKEN.sub(r"\1***", COLOURS.sub("", line)))
                if say:
                    say(lines[-1].rstrip())
            process.wait()
        finally:
            in_time = timer.is_alive()
            timer.cancel()
            process.kill()
    text = "".join(lines)
    what = " ".join([name, *(word for word in arguments[:2] if word[0] != "-")])
    if NO_CREDENTIALS[name][0] in text:
        login = write_login(name)
        raise RemoteError(f"{name} has no credentials: log in once with {login} in a terminal")
    if not in_time:
        raise RemoteError(f"{what} did not end within {limit_s:.0f} s", text)
    if process.returncode:
        # behind the first paragraph of kaggle's comes a hint
        sentence = text.strip().partition("\n\n")[0] if name == "kaggle" else text
        raise RemoteError(f"{what} failed: {find_sentence(sentence)}", text)
    return text


def insist(ask: Callable[[], Answer], tries: int, pause_s: float) -> Answer:
    """Ask a service again while it fails, so many times in all."""
    for tries_left in reversed(range(tries)):
        try:
            return ask()
        except RemoteError:
            if not tries_left:
                raise
        time.sleep(pause_s)


def check_client(name: str) -> None:
    """Refuse a client that is not installed, does not start, or is too old."""
    path = find_client(name)
    option, oldest = VERSIONS[name]
    started = subprocess.run(
        [path, option],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    version = re.search(r"(\d+)\.(\d+)\.(\d+)", started.stdout)
    fault = ""
    if started.returncode or not version:
        fault = f"does not start ({find_sentence(started.stdout)})"
    elif tuple(map(int, version.groups())) < oldest:
        fault = f"is {version[0]}, older than {'.'.join(map(str, oldest))}"
    if fault:
        raise RemoteError(f"{shorten_program(path)} {fault}: {write_install(*EXTRA)}")


def find_client(name: str) -> str:
    """Find the client beside this Python, or else on the PATH."""
    path = shutil.which(name, path=os.path.dirname(sys.executable)) or shutil.which(name)
    if path:
        return path
    needs = " (it needs Python 3.12 or newer)" if name == "colab" else ""
    raise RemoteError(f"{name} is not installed{needs}: {write_install(*EXTRA)}")


def write_login(name: str) -> str:
    """Write the command that gets a client its credentials."""
    return f"{shorten_program(find_client(name))} {NO_CREDENTIALS[name][1]}"


def find_sentence(text: str) -> str:
    """The last line of what a client prints, which says what went wrong."""
    return read_last_words(text, "it does not say why").removeprefix("[colab] ")


@contextmanager
def handle_ends(handler: Callable[..., object]) -> Iterator[None]:
    """Have the signals that end this process handled; those that are ignored (nohup) stay so."""
    before = {}
    for number in ENDS:
        if signal.getsignal(number) != signal.SIG_IGN:
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let Ctrl-C and other ends wait: a machine is being allocated or stopped."""
    came = []
    with handle_ends(lambda number, _: came.append(number)):
        yield
    if came:
        raise KeyboardInterrupt
