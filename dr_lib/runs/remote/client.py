"""Call the command line of a service: its output as it comes, its error in one sentence."""

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
    """A service, or its client, did not do what was asked; the message says what, in one sentence.

    `outputs` are what the client printed, of each call; `is_over` says that nothing more can come
    of the session.
    """

    def __init__(self, sentence: str, *outputs: str, is_over: bool = False):
        """Take the sentence, and what it was taken from."""
        super().__init__(sentence)
        self.outputs = outputs
        self.is_over = is_over

    def is_missing(self) -> bool:
        """Whether each answer was that there is no such thing."""
        return bool(self.outputs) and all(map(MISSING.search, self.outputs))


class Quota(NamedTuple):
    """What an account has left."""

    left: float
    per_hour: float  # that all machines of the account take now
    unit: str  # empty where nothing is counted
    refusal: str = ""  # why no session can begin
    session_hours: float = math.inf  # that a session can make runs for


RUNNING = "running"


class Look(NamedTuple):
    """How the far side is."""

    status: str  # RUNNING, complete, or a word for its failure
    lines: list[str]  # that it printed since the last look
    why: str = ""  # it failed, where the service says that


def call(name: str, *arguments: str, limit_s: float | None = None) -> str:
    """Call a client, which nobody answers and which ends with this process, and return what it
    prints.

    Ctrl-C does not reach it. Access tokens in what it prints are masked.

    Args:
        name: colab or kaggle.
        arguments: of its command line.
        limit_s: seconds until it is ended, LIMIT_S by default.

    Raises:
        RemoteError: it is not installed, has no credentials, failed, or took too long.
    """
    limit_s = limit_s or LIMIT_S
    late = None
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
    except subprocess.TimeoutExpired as error:
        late = error
    printed = ((late or ran).stdout or b"").decode(errors="replace")
    text = TOKEN.sub(r"\1***", COLOURS.sub("", printed))
    what = " ".join([name, *(word for word in arguments if word.isalpha())][:3])
    if NO_CREDENTIALS[name][0] in text:
        login = write_login(name)
        fault = f"{name} has no credentials, or cannot renew them offline"
        raise RemoteError(f"{fault}: log in once with {login} in a terminal")
    if late:
        raise RemoteError(f"{what} did not end within {limit_s:.0f} s", text)
    if ran.returncode:
        # behind the first paragraph of kaggle's comes a hint
        fault = find_sentence(text.strip().partition("\n\n")[0] if name == "kaggle" else text)
        if OFFLINE.search(fault):
            fault = "no connection to the service: see whether this machine is online"
        raise RemoteError(f"{what} failed: {fault}", text)
    return text


def insist(ask: Callable[[], Answer], say: Say, patience_s: float | None = None) -> Answer:
    """Ask a service again while it fails, for a quarter of an hour or as long as is said.

    Raises:
        RemoteError: it failed for so long, with all that was printed; one that is over is believed
            at once.
    """
    patience_s = PATIENCE_S if patience_s is None else patience_s
    start = time.monotonic()
    outputs: list[str] = []
    while True:
        try:
            return ask()
        except RemoteError as error:
            if error.is_over:
                raise
            fault = str(error).partition(". ")[0]  # advice follows
            outputs += error.outputs or [fault]
        if time.monotonic() - start >= patience_s:
            raise RemoteError(f"{patience_s / 60:.0f} min of tries: {fault}", *outputs)
        if len(outputs) == 1:
            say(f"{fault}: trying again")
        time.sleep(PAUSE_S)


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
    fault = f"does not start ({find_sentence(started.stdout)})"
    if version and not started.returncode:
        if tuple(map(int, version.groups())) >= oldest:
            return
        fault = f"is {version[0]}, older than {'.'.join(map(str, oldest))}"
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
