"""Run one papermill process with its children, and read its error."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

import nbformat
import psutil

from dr_lib.processes import bind_to_parent, read_last_words
from dr_lib.runs.run import RunIdentity

OUT_OF_TIME = "OutOfTimeError"  # how a notebook says that it has saved and stopped in time
PATH = re.compile(  # the folders of an absolute path, or a whole URL
    r"(?P<url>\b(?!file:)[a-z][a-z0-9+.-]*://\S*)|(?<![\w.])/(?:[^\s/'\":,;]+/)*(?=[^\s/'\":,;])",
    re.IGNORECASE,
)


def run_papermill(
    command: list[str],
    root: Path,
    log: Path,
    identity: RunIdentity,
    *,
    limit_s: float,
    on_wait: Callable[[], None],
) -> int | None:
    """Run a papermill process in the repository's root; at the end nothing of it runs any more.

    Args:
        command: of the process.
        root: the repository.
        log: gets what it prints.
        identity: of the run.
        limit_s: seconds until it is ended.
        on_wait: called twice a second.

    Returns:
        Its exit status; None if it was ended.
    """
    end = time.monotonic() + limit_s
    with log.open("ab") as file:
        process = subprocess.Popen(
            bind_to_parent(command),
            cwd=root,
            env={**os.environ, **identity.environment()},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        while process.poll() is None and time.monotonic() < end:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
            on_wait()
        return process.poll()
    finally:
        if process.poll() is None:
            tree = psutil.Process(process.pid)
            for one in [tree, *tree.children(recursive=True)]:
                with suppress(psutil.Error):
                    one.kill()
            process.wait()


def find_error(notebook: Path, log: Path, returncode: int) -> str:
    """Find what stopped a notebook, in one line: its own error, else papermill's last line.

    An error of a TensorFlow graph opens with a heading and where it was built; then comes the line
    that says why.
    """
    try:
        cells = nbformat.read(notebook, as_version=4).cells
    except (OSError, ValueError):  # never written, or cut off while it was
        cells = []
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    errors = [output for output in outputs if output.output_type == "error"]
    if errors:
        first, *others = errors[-1].evalue.split("\n")
        causes = [line for line in others if re.match(r"(?!Detected|Hint)[A-Z]", line)]
        cause = causes[0] if causes and first.endswith(":") else ""
        return f"{errors[-1].ename}: {first} {cause}".strip()
    # what the kernel printed stands before it
    reason = read_last_words(log.read_text(errors="replace").strip().rpartition("\n")[2])
    return f"papermill ended with {returncode}: {reason}" if returncode < 0 else reason


def redact_paths(value: Any, paths: Sequence[str] = ()) -> Any:
    """Shorten absolute paths, also within a text, to the last part: a row never shows folders.

    What is no text is returned as it is, and a URL stays whole, unless of a file. `paths` are
    absolute paths that may stand in the text; without them one with spaces is taken for several
    words.
    """
    if not isinstance(value, str):
        return value
    # a command in the text may name the interpreter
    for path in (value, sys.executable, *paths):
        if PurePath(path).is_absolute():
            value = value.replace(f"{path}/", "").replace(path, PurePath(path).name)
    return PATH.sub(lambda match: match["url"] or "", value)
