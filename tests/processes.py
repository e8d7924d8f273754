"""What tests of several processes share: children that may be killed, ports, and waiting for a
condition.
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

READY_S = 20  # on a machine that does much else


@contextlib.contextmanager
def run_python(code: str, *arguments: object) -> Iterator[subprocess.Popen]:
    """A Python process in the repository that reads and writes text; killed in the end."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    root = Path(__file__).resolve().parents[1]
    with subprocess.Popen(command, cwd=root, text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def find_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def fork(function: Callable[[], None]) -> int:
    """Call a function in a child of this process; return the child's id."""
    child = os.fork()
    if not child:
        try:
            function()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return child


def wait(child: int) -> int:
    """Wait for a child: its exit status, or less the number of the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def wait_until(condition, timeout_s: float = READY_S) -> None:
    """Wait for a condition that has to come true."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def is_ready(port: int) -> bool:
    """Whether a server's /ping says 200."""
    with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{port}/ping") as answer:
        return answer.status == 200
    return False


def is_listening(port: int, address: str = "127.0.0.1") -> bool:
    """Whether a connection can be opened; 127.0.0.2 is this machine too, for whoever listens at
    all its addresses.
    """
    with contextlib.suppress(OSError), socket.create_connection((address, port)):
        return True
    return False
