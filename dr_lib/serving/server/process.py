"""A server in a process of its own, as notebooks, tests and benches start it."""

import atexit
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from dr_lib.errors import DrError
from dr_lib.processes import bind_to_parent

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 60.0  # until it is warm
DIRECT = build_opener(ProxyHandler({}))  # a proxy knows nothing of this machine


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
        cwd: Path = ROOT,
        env: Mapping[str, str] = os.environ,
    ):
        """Serve a model folder, and wait until a warm-up prediction has finished.

        Args:
            model: the folder.
            log: file for what it prints.
            options: of `serve`.
            python: command of an interpreter.
            cwd, env: of its process.

        Raises:
            DrError: it ended, or was not ready in time.
        """
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        words = [*python, "-m", "dr_lib.serving", "serve", model, "--port", self.port, *options]
        command = bind_to_parent([str(word) for word in words])
        start = time.monotonic()
        with log.open("wb") as out:
            super().__init__(command, stdout=out, stderr=out, cwd=cwd, env=env)
        atexit.register(self.kill)  # where there is no Linux
        while not self._is_ready():
            if self.poll() is not None or time.monotonic() - start > TIMEOUT_S:
                self.kill()
                self.wait()
                raise DrError(f"the server is not ready: see {log.parent.name}/{log.name}")
            time.sleep(0.02)
        self.ready_s = time.monotonic() - start

    def _is_ready(self) -> bool:
        try:
            return DIRECT.open(f"{self.url}/ping", timeout=2).status == 200
        except OSError:  # nobody listens yet, or the model is not warm
            return False

    def stop(self) -> int:
        """Let it finish what it has accepted, and return its exit status."""
        self.terminate()
        return self.wait(timeout=30)

    def __exit__(self, *error: object) -> None:
        """Kill it."""
        self.kill()
        super().__exit__(*error)
