"""The client of a service: its output, or its failure in one sentence, and patience with it."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from click import echo

from dr_lib.command import shorten_program, write_install
from dr_lib.errors import DrError
from dr_lib.processes import bind_to_parent, read_last_words

WAITS = SimpleNamespace(  # how long to wait, in seconds
    call=1800,  # for a call that nothing else limits, such as an upload
    pause=15,  # between two tries
    patience=900,  # with a service that does not answer: a laptop may be offline
    hurry=20,  # the same after Ctrl-C
    watch=120,  # Colab: one call; a client that falls silent is called again
    poll=20,  # Kaggle: for the log of a running session, and before the next question
    ready=3600,  # Kaggle: for an upload to be ready
)


class RemoteError(DrError):
    """A service or its client failed, and may not fail again."""


class Client:
    """A program such as kaggle. The class of each service says how it is called:

    platform        the program's name
    login           what logs in
    no_credentials  what it prints when nobody is logged in
    """

    needs = ""
    noise = "\0"  # pattern of what is no part of an answer
    hint = "\0"  # what separates a failure from advice behind it

    def find(self) -> str:
        """Find the client next to this Python, or else on the PATH."""
        name = self.platform
        path = shutil.which(name, path=os.path.dirname(sys.executable)) or shutil.which(name)
        if path:
            return path
        fault = f"{name} is not installed{self.needs}"
        raise DrError(f"{fault}: {write_install('-e', '.[remote]')}")

    def call(self, *words: str, text: str = "", limit_s: float = 0) -> str:
        """Call the client and return its output; it ends with this process.

        Ctrl-C does not reach it. Access tokens in its output are masked.

        Args:
            words: of its command line.
            text: its input.
            limit_s: seconds until it is ended, which is no failure; by default it is one, after
                `WAITS.call`.

        Raises:
            RemoteError: it has no credentials, failed, or took too long.
        """
        path = self.find()
        try:
            ran = subprocess.run(
                bind_to_parent([path, *words]),
                input=text.encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "COLUMNS": "10000"},  # so that a sentence stays one line
                timeout=limit_s or WAITS.call,
            )
            output = ran.stdout
            fault = "failed: " if ran.returncode else ""
        except subprocess.TimeoutExpired as error:
            output = error.stdout or b""
            fault = "" if limit_s else f"did not end within {WAITS.call:.0f} s"
        said = re.sub(r"\x1b\[[\d;]*m", "", output.decode(errors="replace"))
        said = re.sub(self.noise, "", said)
        said = re.sub(r"(?i)((?:token|signature)=)[^\s&'\"]+", r"\1***", said)
        if self.no_credentials in said:
            fault = f"{self.platform} has no credentials, or cannot renew them offline"
            login = f"{shorten_program(path)} {self.login}"
            raise RemoteError(f"{fault}: log in once with {login} in a terminal")
        if not fault:
            return said
        if fault == "failed: ":
            fault += find_sentence(said.strip().partition(self.hint)[0])
        command = " ".join([self.platform, *filter(str.isalpha, words)][:3])
        raise RemoteError(f"{command} {fault}")


def retry(ask: Callable, *arguments: Any, patience_s: float = 0) -> Any:
    """Repeat what fails with a RemoteError, for a quarter of an hour or the given time."""
    end = 0.0
    while True:
        try:
            return ask(*arguments)
        except RemoteError as error:
            if not end:
                echo(f"{error}: trying again")
                end = time.monotonic() + (patience_s or WAITS.patience)
            elif time.monotonic() >= end:
                raise
        time.sleep(WAITS.pause)


def find_sentence(text: str) -> str:
    """Find the last line of a client's output, which says what went wrong."""
    return read_last_words(text, "it does not say why").removeprefix("[colab] ")


@contextmanager
def defer_ctrl_c() -> Iterator[None]:
    """Delay Ctrl-C while something is being created or deleted."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
