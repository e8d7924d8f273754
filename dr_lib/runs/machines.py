"""The other machines of a run: processes of this one in a rehearsal, or a scheduler's.

Each executes the run's notebook for itself; machine 0 alone keeps what it leaves.
"""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from jupyter_client.kernelspec import KernelSpecManager

from dr_lib.command import write_command
from dr_lib.hardware.machines import COORDINATOR, COUNT, RANK, find_place, say_how
from dr_lib.runs.papermill import (
    OUT_OF_TIME,
    Execution,
    find_error,
    prepare_execution,
    start_papermill,
)
from dr_lib.runs.run import RunIdentity
from dr_lib.runs.study import PlannedRun

NO_KERNEL = "no Jupyter kernel"
PATIENCE_S = 60.0  # for the others to end, when machine 0 has


class Others(NamedTuple):
    """The other machines of a run under way, in the order of their ranks."""

    executions: list[Execution]
    processes: list[subprocess.Popen]
    environment: dict[str, str]  # of machine 0, for it to find them

    def find_lost(self) -> str:
        """What the first of them that failed says; empty while none has."""
        for rank, process in enumerate(self.processes, start=1):
            error = _find_failure(self.executions[rank - 1], process)
            if error:
                return f"machine {rank} of {len(self.processes) + 1}: {error}"
        return ""

    def wait(self) -> None:
        """Let the others end by themselves, when machine 0 has."""
        stop_at = time.monotonic() + PATIENCE_S
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, stop_at - time.monotonic()))


def find_unavailable(runs: Iterable[PlannedRun], machines: int) -> dict[str, str]:
    """Find why scenarios cannot be made here: no kernel, or no machines but so many rehearsed."""
    kernels = KernelSpecManager().find_kernel_specs()
    reasons = {}
    for run in runs:
        if run.kernel not in kernels:
            hint = f"{write_command('kernels')} sets it up, or says why it cannot"
            reasons[run.scenario] = f"{NO_KERNEL} {run.kernel}: {hint}"
        elif run.is_rehearsed and run.num_machines > machines:
            advice = say_how(run.num_machines, find_place())
            reasons[run.scenario] = f"it trains on {run.num_machines} machines: {advice}"
    return reasons


@contextmanager
def start_others(run: PlannedRun, root: Path, notebook: str, folder: Path) -> Iterator[Others]:
    """Start the other machines of a run as processes of this one, for rehearsal; at the end, end
    them.

    A run of one machine, or of machines that a scheduler has started, has none to start.
    """
    if not run.is_rehearsed:
        yield Others([], [], {})
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    meeting = {COORDINATOR: f"127.0.0.1:{port}", COUNT: str(run.num_machines)}
    others = Others([], [], {**meeting, RANK: "0"})
    # for what they leave; an end may leave it to us
    scratch = tempfile.TemporaryDirectory(prefix="dr-machines-", ignore_cleanup_errors=True)
    with scratch, ExitStack() as started:
        for rank in range(1, run.num_machines):
            execution = prepare_execution(run, root, notebook, folder, rank)
            identity = RunIdentity(run.run_id, f"{scratch.name}/{rank}")
            environment = {**meeting, RANK: str(rank), "TMPDIR": scratch.name}
            papermill = start_papermill(execution, identity, environment=environment)
            others.executions.append(execution)
            others.processes.append(started.enter_context(papermill))
        yield others


def take_part(run: PlannedRun, root: Path, notebook: str, folder: Path) -> list[str]:
    """Be one of the other machines of a run: execute its notebook, and leave nothing but its
    notebook and log.

    Returns:
        The error, if it failed, as one line.
    """
    execution = prepare_execution(run, root, notebook, folder, find_place().rank)
    with tempfile.TemporaryDirectory(prefix="dr-machine-") as scratch:
        with start_papermill(execution, RunIdentity(run.run_id, scratch)) as papermill:
            papermill.wait()
    error = _find_failure(execution, papermill)
    return [f"{run.run_id}: {error}"] if error else []


def _find_failure(execution: Execution, papermill: subprocess.Popen) -> str:
    """The error of a machine that failed; empty of one that runs, has ended, or ran out of time."""
    if not papermill.poll():
        return ""
    error = find_error(execution.output, execution.log, papermill.returncode)
    return "" if error.startswith(OUT_OF_TIME) else error
