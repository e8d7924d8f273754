"""The other machines of a run: processes of this one in a rehearsal, or each started by a
scheduler.

Each executes the run's notebook for itself; machine 0 alone keeps what it leaves.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from dr_lib import hardware
from dr_lib.hardware.machines import COORDINATOR, COUNT, RANK, find_place, say_how
from dr_lib.runs.papermill import (
    OUT_OF_TIME,
    end_tree,
    find_error,
    read_last_words,
    start_papermill,
)
from dr_lib.runs.run import bind_to_parent
from dr_lib.runs.study import PlannedRun, find_runs, load_study, name_machine, name_run, plan_runs

PATIENCE_S = 60.0  # for the others to end, when machine 0 has
PART = """import sys; from pathlib import Path; from dr_lib.runs.machines import rehearse
sys.exit("; ".join(rehearse(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])) or 0)"""


class Others(NamedTuple):
    """The other machines of a run under way."""

    run: PlannedRun
    processes: list[subprocess.Popen]
    logs: list[Path]
    environment: dict[str, str]  # of machine 0, for it to find them

    def find_lost(self) -> str:
        """What the first of them that failed says; empty while none has."""
        for number, (process, log) in enumerate(
            zip(self.processes, self.logs, strict=True), start=1
        ):
            if process.poll():
                why = read_last_words(log).removeprefix(f"{self.run.run_id}: ")
                return (
                    f"machine {number} of {len(self.logs) + 1}:"
                    f" {why or f'it was ended by {process.returncode}'}"
                )
        return ""

    def wait(self) -> None:
        """Let the others end by themselves, when machine 0 has."""
        stop_at = time.monotonic() + PATIENCE_S
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, stop_at - time.monotonic()))


def count_machines(run: PlannedRun) -> int:
    """How many machines a run trains on."""
    return run.parameters.get("num_machines", 1)


def say_missing(run: PlannedRun, machines: int) -> str:
    """Why a run's machines are not there, of which so many may be rehearsed here; empty where
    they are.
    """
    number = count_machines(run)
    place = find_place()
    if number <= machines or number == place.count:
        return ""
    return f"it trains on {number} machines: {say_how(number, place)}"


@contextmanager
def start_others(run: PlannedRun, study: Path, log: Path, root: Path) -> Iterator[Others]:
    """Start the other machines of a run as processes of this one, for rehearsal; at the end, end
    them.

    A run of one machine, or of machines that a scheduler has started, has none to start.
    """
    number = count_machines(run)
    if number == 1 or find_place().count == number:
        yield Others(run, [], [], {})
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = {COORDINATOR: f"127.0.0.1:{port}", COUNT: str(number)}
    command = [
        sys.executable,
        "-c",
        PART,
        str(study.resolve()),
        str(root),
        name_run(run.scenario, run.repetition),
    ]
    others = Others(run, [], [], given | {RANK: "0"})
    # for what they leave; an end may leave it to us
    scratch = tempfile.TemporaryDirectory(prefix="dr-machines-")
    try:
        for rank in range(1, number):
            others.logs.append(log.with_name(f"{log.stem}-machine-{rank}.log"))
            environment = {**os.environ, **given, RANK: str(rank), "TMPDIR": scratch.name}
            how = {"cwd": root, "env": environment, "stderr": subprocess.STDOUT}
            with others.logs[-1].open("wb") as file:
                others.processes.append(
                    subprocess.Popen(bind_to_parent(command), stdout=file, **how)
                )
        yield others
    finally:
        for process in others.processes:
            end_tree(process)
        with suppress(OSError):
            scratch.cleanup()


def rehearse(path: Path, root: Path, name: str) -> list[str]:
    """Be one of the other machines of the try that machine 0 has started this process for, whatever
    rows are there.

    Args:
        path: the study file.
        root: the repository.
        name: of the run, such as C3-r02.

    Returns:
        The error, if it failed, as one line.
    """
    study = load_study(path, root)
    planned = plan_runs(study, name_machine(hardware.probe()))
    (run,) = find_runs(planned, name, path)
    notebook = root / "notebooks" / f"{study.notebook}.ipynb"
    return take_part(run, notebook, path.with_suffix(""), root)


def take_part(run: PlannedRun, notebook: Path, folder: Path, root: Path) -> list[str]:
    """Be one of the other machines of a run: execute its notebook, and leave nothing but its
    notebook and log.

    Returns:
        The error, if it failed, as one line.
    """
    output = folder / "notebooks" / f"{run.run_id}-machine-{find_place().rank}.ipynb"
    log = folder / "logs" / f"{output.stem}-papermill.log"
    for path in (output, log):
        path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dr-machine-") as scratch:
        context = {"run_id": run.run_id, "study_dir": scratch}
        with start_papermill(run, notebook, output, log, context, root=root) as papermill:
            papermill.wait()
    error = find_error(output, log, papermill.returncode) if papermill.returncode else ""
    return [f"{run.run_id}: {error}"] if error and not error.startswith(OUT_OF_TIME) else []
