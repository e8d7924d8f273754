"""One papermill process: started, watched, ended with all that it started, and its error read."""

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

import nbformat
import psutil

from dr_lib.runs.run import RUN_VARIABLE, die_with_parent


class Papermill:
    """A notebook under papermill; leaving the context ends whatever of it still runs, its kernel first of all."""

    def __init__(
        self,
        notebook: Path,
        output: Path,
        parameters: Path,
        kernel: str,
        identity: dict[str, Any],
        log: Path,
        *,
        root: Path,
        lock: int,
    ):
        """Start it in the repository's root; the study stays locked while it lives, even if the runner is killed."""
        command = [sys.executable, "-m", "papermill", str(notebook), str(output), "-f", str(parameters), "-k", kernel]
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [*command, "--no-progress-bar"],
                cwd=root,
                env={**os.environ, RUN_VARIABLE: json.dumps(identity)},
                stdout=file,
                stderr=subprocess.STDOUT,
                pass_fds=[lock],
                preexec_fn=die_with_parent,
            )

    def __enter__(self) -> "Papermill":
        """Nothing to do."""
        return self

    def __exit__(self, *_: object) -> None:
        """End papermill, its kernel and what they started, where they have not ended by themselves."""
        victims = []
        with suppress(psutil.Error):
            victims = psutil.Process(self._process.pid).children(recursive=True) if self.is_running() else []
        self._process.kill()
        for victim in victims:
            with suppress(psutil.Error):
                victim.kill()
        self._process.wait()

    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def wait(self, seconds: float) -> None:
        """Wait for its end, but no longer than that."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    @property
    def returncode(self) -> int | None:
        """How it ended."""
        return self._process.returncode


def find_error(notebook: Path, log: Path, returncode: int) -> str:
    """What stopped an executed notebook, in one line: its own error, else the last words of papermill."""
    try:
        cells = nbformat.read(notebook, as_version=4).cells
    except (OSError, ValueError):  # never written, or cut off while it was
        cells = []
    outputs = [output for cell in cells for output in cell.get("outputs", []) if output.output_type == "error"]
    if outputs:
        return f"{outputs[-1].ename}: {outputs[-1].evalue}".split("\n")[0]
    said = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    hint = " (killed, or out of memory?)" if said and "DeadKernelError" in said[-1] else ""
    return f"papermill ended with {returncode}: {said[-1] if said else 'nothing said'}{hint}"


def hide_folders(value: Any) -> Any:
    """A row names files, never where they lie: of an absolute path, or of one in a text, its last part stays."""
    if not isinstance(value, str):
        return value
    if PurePath(value).is_absolute():
        return PurePath(value).name
    return re.sub(r"(?<![\w.])/(?:[^\s/'\":,;]+/)*(?=[^\s/'\":,;])", "", value)
