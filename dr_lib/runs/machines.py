"""The other machines of a run, each started by a scheduler.

Each executes the run's notebook for itself; machine 0 alone keeps what it leaves.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager

from dr_lib.command import write_command
from dr_lib.errors import DrError
from dr_lib.hardware.machines import find_place, say_how
from dr_lib.runs.papermill import OUT_OF_TIME, find_error, prepare_execution, start_papermill
from dr_lib.runs.run import RunIdentity
from dr_lib.runs.study import PlannedRun

NO_KERNEL = "no Jupyter kernel"


def find_unavailable(runs: Sequence[PlannedRun]) -> dict[str, str]:
    """Explain why scenarios cannot be made here: a missing kernel, or missing machines."""
    kernels = KernelSpecManager().find_kernel_specs()
    reasons = {}
    for run in runs:
        if run.kernel not in kernels:
            hint = f"{write_command('kernels')} sets it up or explains why it cannot"
            reasons[run.scenario] = f"{NO_KERNEL} {run.kernel}: {hint}"
        elif run.num_machines > 1 and run.num_machines != find_place().count:
            advice = say_how(find_place())
            reasons[run.scenario] = f"it trains on {run.num_machines} machines: {advice}"
    return reasons


def check_kernels(runs: Sequence[PlannedRun]) -> dict[str, str]:
    """Return what `find_unavailable` does; a DrError says that no run has its kernel."""
    reasons = find_unavailable(runs)
    if all(reasons.get(run.scenario, "").startswith(NO_KERNEL) for run in runs):
        raise DrError(f"no run is possible: {'; '.join(sorted(set(reasons.values())))}")
    return reasons


def take_part(run: PlannedRun, root: Path, notebook: str, folder: Path) -> list[str]:
    """Act as another machine of a run: execute its notebook, and write only the notebook and its
    log.

    Returns:
        The error, if it failed, as one line.
    """
    execution = prepare_execution(run, root, notebook, folder, find_place().rank)
    with tempfile.TemporaryDirectory(prefix="dr-machine-") as scratch:
        with start_papermill(execution, RunIdentity(run.run_id, scratch)) as papermill:
            returncode = papermill.wait()
    error = find_error(execution.output, execution.log, returncode) if returncode else ""
    return [f"{run.run_id}: {error}"] if error and not error.startswith(OUT_OF_TIME) else []
