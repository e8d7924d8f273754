"""Start, watch and end one papermill process with its children, and read its error."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import nbformat
import psutil

from dr_lib.processes import bind_to_parent, read_last_words
from dr_lib.runs.run import RunIdentity
from dr_lib.runs.study import PlannedRun

OUT_OF_TIME = "OutOfTimeError"  # how a notebook says that it has saved and stopped in time
PATH = re.compile(  # the folders of an absolute path, or a whole URL
    r"(?P<url>\b(?!file:)[a-z][a-z0-9+.-]*://\S*)|(?<![\w.])/(?:[^\s/'\":,;]+/)*(?=[^\s/'\":,;])",
    re.IGNORECASE,
)


class Execution(NamedTuple):
    """An execution of a notebook under papermill."""

    process: subprocess.Popen
    output: Path  # the executed notebook
    log: Path  # what papermill prints


@contextmanager
def start_papermill(
    run: PlannedRun,
    root: Path,
    notebook: str,
    folder: Path,
    identity: RunIdentity,
) -> Iterator[Execution]:
    """Start a notebook in the repository's root; on exit, end everything that still runs.

    Args:
        run: names the files in the study's folder, in place of those of an earlier try.
        root: the repository.
        notebook: its name without suffix.
        folder: of the study.
        identity: of the run.
    """
    output = folder / "notebooks" / f"{run.run_id}.ipynb"
    log = folder / "logs" / f"{run.run_id}.log"
    for path in (output, log):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
    source = root / "notebooks" / f"{notebook}.ipynb"
    command = [sys.executable, "-m", "dr_lib.runs.jupyter", *map(str, (source, output, log))]
    command.append(json.dumps(run.parameters, default=str))
    with log.open("ab") as file:
        process = subprocess.Popen(
            bind_to_parent(command),
            cwd=root,
            env={**os.environ, **identity.environment()},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Execution(process, output, log)
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
