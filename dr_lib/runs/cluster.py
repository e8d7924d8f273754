"""Make the runs of a study on many machines: through a Dask cluster, or as commands for an array scheduler."""

import math
import shlex
from collections.abc import Sequence
from concurrent.futures import as_completed
from pathlib import Path

import yaml
from tqdm import tqdm

from dr_lib.files import lock, write_text
from dr_lib.runs.row import read_rows, write_row
from dr_lib.runs.runner import run_study
from dr_lib.runs.study import PlannedRun, Study, StudyError, load_study, name_run, plan_runs


def list_commands(path: Path, runs: Sequence[PlannedRun]) -> list[str]:
    """One shell command per run, to be given to any scheduler from the root of the repository."""
    return [
        f"python -m dr_lib run {shlex.quote(str(path))} --only {name_run(run.scenario, run.repetition)}" for run in runs
    ]


def run_on_cluster(
    path: Path, root: Path, address: str, *, instance: str = "", worker_root: Path | None = None
) -> list[str]:
    """Hand the runs that no machine has completed yet to a Dask cluster, and bring their rows here.

    Returns the errors of the runs that failed, one line each. The address is tcp://HOST:8786, say. A machine makes one
    run at a time, whatever its number of workers: they wait for each other. Every worker needs the repository with its
    requirements, at `worker_root` or where it imports dr_lib from; samples, logs and executed notebooks stay with it.
    `instance` is the workers' name in the table of prices, in place of the file's.

    Raises:
        StudyError: the study is not valid, or nobody answers at the address.
    """
    from distributed import Client

    study, folder = load_study(path, root, instance=instance), Path(path).with_suffix("")
    completed = {(row["scenario"], row["repetition"]) for row in read_rows(folder) if row["status"] == "ok"}
    runs = [run for run in plan_runs(study, "any") if (run.scenario, run.repetition) not in completed]
    failures = []
    try:
        client = Client(address, timeout=20)
    except (OSError, ValueError) as error:
        raise StudyError(f"no Dask scheduler answers at {address}: {error}") from error
    with client, client.get_executor(pure=False) as executor:
        names = [name_run(run.scenario, run.repetition) for run in runs]
        futures = [executor.submit(make_run, path.stem, study, name, worker_root) for name in names]
        for future in tqdm(as_completed(futures), total=len(futures), desc="runs"):
            try:
                errors, rows = future.result()
            except Exception as error:  # noqa: BLE001  a worker that is lost or set up badly does not end the others
                errors, rows = [f"a worker: {error}"], []
            failures += errors
            for row in rows:
                write_row(folder, row)
    return failures


def make_run(name: str, study: Study, only: str, root: Path | None = None) -> tuple[list[str], list[dict]]:
    """Make one run of a study on this worker; return the error lines and the rows of it."""
    root = root or Path(__file__).resolve().parents[2]
    path = root / "papermill_runs" / f"{name}.yaml"
    with lock(path.with_suffix("") / "study.lock", wait_s=math.inf):  # another worker may be at the same
        if not path.exists():
            write_text(path, yaml.safe_dump(study.model_dump(exclude_defaults=True), sort_keys=False))
    if load_study(path, root, instance=study.instance).model_dump_json() != study.model_dump_json():
        raise StudyError(f"a worker has another {path.name}: bring the repositories to one commit")
    errors = run_study(path, root, only=only, instance=study.instance, wait=True, show_progress=False)
    rows = read_rows(path.with_suffix(""))
    return errors, [row for row in rows if name_run(row["scenario"], row["repetition"]) == only]
