"""One papermill process: started, watched, ended with all that it started, and its error read."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Any

import nbformat
import psutil
import yaml

from dr_lib.runs.run import RUN_VARIABLE, bind_to_parent
from dr_lib.runs.study import PlannedRun

OUT_OF_TIME = "OutOfTimeError"  # how a notebook says that it has saved and stopped in time
PATH = re.compile(  # the folders of an absolute path, or a whole URL
    r"(?P<url>\b(?!file:)[a-z][a-z0-9+.-]*://\S*)|(?<![\w.])/(?:[^\s/'\":,;]+/)*(?=[^\s/'\":,;])",
    re.IGNORECASE,
)


@contextmanager
def start_papermill(
    run: PlannedRun,
    notebook: Path,
    output: Path,
    log: Path,
    context: dict[str, Any],
    *,
    root: Path,
    lock: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen]:
    """Start a notebook under papermill in the repository's root; at the end, end all of it that
    still runs.

    `context` is what the run has to know of itself. The study stays locked while it lives, if the
    runner is killed too, by the file descriptor `lock`. `environment` is added to that of this
    process.
    """
    parameters = yaml.safe_dump(run.parameters)
    command = [
        sys.executable,
        "-m",
        "papermill",
        str(notebook),
        str(output),
        "-y",
        parameters,
        "-k",
        run.kernel,
    ]
    with log.open("wb") as file:
        process = subprocess.Popen(
            bind_to_parent([*command, "--no-progress-bar"]),
            cwd=root,
            env={**os.environ, **(environment or {}), RUN_VARIABLE: json.dumps(context)},
            stdout=file,
            stderr=subprocess.STDOUT,
            pass_fds=[] if lock is None else [lock],
        )
    try:
        yield process
    finally:
        end_tree(process)


def end_tree(process: subprocess.Popen) -> None:
    """End a process, and what it started."""
    children = []
    with suppress(psutil.Error):
        children = (
            psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        )
    process.kill()
    for child in children:
        with suppress(psutil.Error):
            child.kill()
    process.wait()


def find_error(notebook: Path, log: Path, returncode: int) -> str:
    """What stopped an executed notebook, in one line: its own error, else the last words of
    papermill.
    """
    try:
        cells = nbformat.read(notebook, as_version=4).cells
    except (OSError, ValueError):  # never written, or cut off while it was
        cells = []
    outputs = [
        output
        for cell in cells
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    ]
    if outputs:
        return f"{outputs[-1].ename}: {outputs[-1].evalue}".split("\n")[0]
    said = read_last_words(log) or "no message"
    hint = " (killed, or out of memory?)" if "DeadKernelError" in said else ""
    return f"papermill ended with {returncode}: {said}{hint}"


def read_last_words(log: Path) -> str:
    """The last line of a log that is not blank; empty where there is none."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def redact_paths(value: Any, known: Sequence[str] = ()) -> Any:
    """A row names files, never where they lie: of an absolute path, or of one in a text, the last
    part stays.

    What is no text is returned as it is, and a URL stays whole, unless of a file. `known` are
    absolute paths that may stand in the text; without them one with spaces is taken for several
    words.
    """
    if not isinstance(value, str):
        return value
    for path in (value, sys.executable, *known):  # a command in the text may name the interpreter
        if PurePath(path).is_absolute():
            value = value.replace(f"{path}/", "").replace(path, PurePath(path).name)
    return PATH.sub(lambda match: match["url"] or "", value)
