"""Run the Colab or Kaggle CLI, stream its output and turn failures into one-line errors."""

import math
import os
import re
import shutil
import signal
import subprocess
import sys
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
LIMIT_S = 1800.0  # of a call that nothing else limits, such as an upload
PATIENCE_S = 900.0  # with a service that does not answer: a laptop's network comes back
PAUSE_S = 15.0  # between two questions
LATE = "did not end within"
RUNNING = "running"
VERSIONS = {  # how a client says its version, and the oldest that will do, as in pyproject.toml
    "colab": ("version", (0, 7, 5)),
    "kaggle": ("--version", (2, 2, 1)),
}
NO_CREDENTIALS = {  # what a client says without credentials, and its words that get it some
    "colab": ("authorize colab-cli", "usage"),
    "kaggle": ("Authentication required", "auth login"),
}
# what a service says of what is not there; Kaggle at times of a session that runs, or a lapsed
# token
MISSING = re.compile(r"\b40[34] Client Error|not found|was denied", re.IGNORECASE)
OFFLINE = re.compile(r"HTTPS?ConnectionPool|Failed to resolve|Connection ?(Error|refused)")
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Answer = TypeVar("Answer")
Say = Callable[[str], object]


class RemoteError(DrError):
    """A service or its client failed; the message says how in one sentence.

    `output` is what the client printed; `is_final` says that to ask again changes nothing.
    """

    def __init__(self, sentence: str, output: str = "", *, is_final: bool = False):
        """Take the sentence and the output that it was taken from."""
        super().__init__(sentence)
        self.output = output
        self.is_final = is_final

    def is_missing(self) -> bool:
        """Whether the service answered that the object does not exist."""
        return bool(MISSING.search(self.output))


class Quota(NamedTuple):
    """The remaining quota of an account."""

    left: float
    per_hour: float  # that all machines of the account take now
    unit: str  # empty where nothing is counted
    session_hours: float = math.inf  # that a session can make runs for
    until: str = ""  # when there is more


class Look(NamedTuple):
    """The state of the remote machine."""

    status: str  # RUNNING, complete, or a word for its failure
    lines: list[str]  # that it printed since the last look
    why: str = ""  # it failed, where the service says that


def call(name: str, *arguments: str, limit_s: float | None = None) -> str:
    """Call a client without input, ending it with this process, and return its output.

    Ctrl-C does not reach it. Access tokens in what it prints are masked.

    Args:
        name: colab or kaggle.
        arguments: of its command line.
        limit_s: seconds until it is ended, LIMIT_S by default.

    Raises:
        RemoteError: it is not installed, has no credentials, failed, or took too long.
    """
    limit_s = limit_s or LIMIT_S
    fault = ""
    try:
        ran = subprocess.run(
            bind_to_parent([find_client(name), *OPTIONS[name], *arguments]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "COLUMNS": "10000"},  # so that a sentence stays one line
            timeout=limit_s,
        )
        printed = ran.stdout
    except subprocess.TimeoutExpired as error:
        fault = f"{LATE} {limit_s:.0f} s"
        printed = error.stdout or b""
    text = TOKEN.sub(r"\1***", COLOURS.sub("", printed.decode(errors="replace")))
    if NO_CREDENTIALS[name][0] in text:
        login = f"log in once with {write_login(name)} in a terminal"
        raise RemoteError(f"{name} has no credentials, or cannot renew them offline: {login}")
    if not fault and ran.returncode:
        # behind the first paragraph of kaggle's comes a hint
        fault = find_sentence(text.strip().partition("\n\n")[0] if name == "kaggle" else text)
        if OFFLINE.search(fault):
            fault = "no connection to the service: check that this machine is online"
        fault = f"failed: {fault}"
    if fault:
        what = [word for word in arguments if word.isalpha()][:2]
        raise RemoteError(f"{' '.join([name, *what])} {fault}", text)
    return text


def insist(ask: Callable[[], Answer], say: Say, patience_s: float | None = None) -> Answer:
    """Retry a call after a failure, for a quarter of an hour or the given time.

    Raises:
        RemoteError: its last answer; one that is final at once.
    """
    end = math.inf
    while True:
        try:
            return ask()
        except RemoteError as error:
            if error.is_final or time.monotonic() >= end:
                raise
            if end == math.inf:
                say(f"{error}: trying again")
                end = time.monotonic() + (PATIENCE_S if patience_s is None else patience_s)
        time.sleep(PAUSE_S)


def check_client(name: str) -> None:
    """Refuse a client that is missing, does not start, or is too old."""
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
    if started.returncode or not version:
        fault = f"does not start ({find_sentence(started.stdout)})"
    elif tuple(map(int, version.groups())) < oldest:
        fault = f"is {version[0]}, older than {'.'.join(map(str, oldest))}"
    else:
        return
    raise RemoteError(f"{shorten_program(path)} {fault}: {write_install(*EXTRA)}")


def find_client(name: str) -> str:
    """Find the client next to this Python, or else on the PATH."""
    path = shutil.which(name, path=os.path.dirname(sys.executable)) or shutil.which(name)
    if path:
        return path
    needs = " (it needs Python 3.12 or newer)" if name == "colab" else ""
    raise RemoteError(f"{name} is not installed{needs}: {write_install(*EXTRA)}")


def write_login(name: str) -> str:
    """Write the command that gets a client its credentials."""
    return f"{shorten_program(find_client(name))} {NO_CREDENTIALS[name][1]}"


def find_sentence(text: str) -> str:
    """Find the last line of a client's output, which says what went wrong."""
    return read_last_words(text, "it does not say why").removeprefix("[colab] ")


@contextmanager
def handle_ends(handler: Callable[..., object]) -> Iterator[None]:
    """Handle the signals that end this process; keep ignoring those already ignored (nohup)."""
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
    """Delay Ctrl-C and other signals while a machine is being allocated or stopped."""
    came = []
    with handle_ends(lambda number, _: came.append(number)):
        yield
    if came:
        raise KeyboardInterrupt
