"""A server in a process of its own, as notebooks, tests and benches start it."""

import atexit
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dr_lib.errors import DrError

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 60.0  # until it is warm


class ServerProcess(subprocess.Popen):
    """The container's command on this machine; it ends with the process that started it.

    As a context manager it is killed at the end of the block; `stop` lets it finish.

    Attributes:
        url, port: of the loopback interface, where it listens.
        ready_s: seconds from its start until it was warm.
    """

    def __init__(
        self,
        model: Path,
        log: Path,
        *options: str | int,
        python: Sequence[str | Path] = (sys.executable,),
        timeout_s: float = TIMEOUT_S,
        **how: Any,
    ):
        """Serve a model folder, and wait until a warm-up prediction has finished.

        Args:
            model: the folder.
            log: file for what it prints.
            options: of `serve`.
            python: command of an interpreter.
            timeout_s: how long to wait.
            how: cwd and env of its process.

        Raises:
            DrError: it ended, or was not ready in time.
        """
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        words = [*python, "-m", "dr_lib.serving", "serve", model, "--port", self.port]
        words += ["--end-with", os.getpid(), *options]
        start = time.monotonic()
        with log.open("wb") as out:
            super().__init__(
                list(map(str, words)), stdout=out, stderr=out, **{"cwd": ROOT, **how}
            )
        atexit.register(self.kill)  # where there is no Linux
        try:
            wait_until_ready(self.url, self, timeout_s)
        except DrError as error:
            self.kill()
            self.wait()
            raise DrError(f"{error}; see {log.parent.name}/{log.name}") from None
        self.ready_s = time.monotonic() - start

    def stop(self) -> int:
        """Let it finish what it has accepted, and return its exit status."""
        self.terminate()
        return self.wait(timeout=30)

    def __exit__(self, *error: object) -> None:
        """Kill it."""
        self.kill()
        super().__exit__(*error)


def wait_until_ready(
    url: str, process: subprocess.Popen | None = None, timeout_s: float = TIMEOUT_S
) -> None:
    """Wait until GET /ping returns 200, while the process of the server lives, if it is known."""
    start = time.monotonic()
    while True:
        try:
            if urllib.request.urlopen(f"{url}/ping", timeout=2).status == 200:
                return
        except OSError:  # nobody listens yet, or the model is not warm
            pass
        has_ended = process and process.poll() is not None
        if has_ended or time.monotonic() - start > timeout_s:
            raise DrError(f"{url}/ping does not return 200")
        time.sleep(0.02)
