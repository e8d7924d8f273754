"""Make the runs of a study on many machines, through a Dask cluster."""

import math
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from dr_lib.cluster import dask_client
from dr_lib.errors import DrError
from dr_lib.files import lock, write_json
from dr_lib.runs.backlog import ANY, STOPPED, Backlog
from dr_lib.runs.row import Row, read_rows, write_row
from dr_lib.runs.runner import run_study
from dr_lib.runs.study import (
    PlannedRun,
    Study,
    find_results,
    find_runs,
    load_study,
    name_run,
    plan_runs,
)


def run_on_cluster(
    path: Path,
    root: Path,
    on: str,
    *,
    yes: bool = False,
    max_hours: float | None = None,
    instance: str = "",
    only: str = "",
    on_cpu: bool = False,
    worker_root: Path | None = None,
) -> list[str]:
    """Send the runs that no machine has completed to a Dask cluster, and bring their rows here.

    A run is handed out when a worker is free and there is time for it. A machine makes one run at a
    time, whatever its number of workers: they wait for each other. Every worker needs the
    repository with its requirements; samples, logs and executed notebooks stay with it. Where a
    worker is lost, Dask gives its run to another; one at which several workers were lost has
    failed.

    Args, and what is returned, are those of `run_study`, besides:
        on: dask: and the scheduler's address, such as dask:tcp://HOST:8786.
        yes: of no effect: nothing is uploaded.
        worker_root: the repository there, by default where the worker imports dr_lib from.

    Raises:
        DrError: the study is not valid, nobody answers at the address, or the cluster has no
            workers (any more).
    """
    address = on.partition(":")[2]
    study = load_study(path, root, instance=instance)
    folder = find_results(path)
    hours = max_hours or study.max_hours or math.inf
    stop_at = time.monotonic() + 3600 * hours
    planned = plan_runs(study, ANY)
    runs = find_runs(planned, only, path)
    backlog = Backlog(study, folder, runs, planned, stop_at=stop_at)
    backlog.take_in(read_rows(folder))
    make = partial(make_run, path.stem, study, root=worker_root, on_cpu=on_cpu)
    with dask_client.connect(address) as client:
        return _hand_out(backlog, make, client, address)


def _hand_out(backlog: Backlog, make: Callable, client: Any, address: str) -> list[str]:
    """Hand out runs while workers are free and time is left; return the errors of those that
    failed, and STOPPED behind the second one where none has succeeded.
    """
    failures = []
    under_way: dict[Future, PlannedRun] = {}
    refusal = ""
    # not as a context, which would wait for runs that nobody makes
    executor = client.get_executor(pure=False)
    with tqdm(total=len(backlog.list_left()), desc="runs") as bar:
        while True:
            num_free = max(1, dask_client.count_workers(client)) - len(under_way)
            while num_free > 0 and not refusal and not backlog.is_stopped:
                run, refusal = backlog.find_next()
                if run is None:
                    break
                num_free -= 1
                backlog.closed.add(run.run_id)
                left_hours = (backlog.stop_at - time.monotonic()) / 3600
                future = executor.submit(make, only=run.name, max_hours=left_hours)
                under_way[future] = run
            if not under_way:
                break
            finished = wait(under_way, dask_client.PATIENCE_S, FIRST_COMPLETED).done
            if not finished:
                dask_client.check_workers(client, address)
            for future in finished:
                name = under_way.pop(future).name
                bar.update()
                answer = dask_client.read_answer(future, address)
                if isinstance(answer, Exception):  # it ends this run only
                    answer = [f"{name}: {answer}"], []
                errors, made = answer
                failures += [error for error in errors if error != STOPPED]
                for row in made:
                    write_row(backlog.folder, row)
                backlog.take_in(made)
        if refusal:
            bar.write(f"{refusal}; start again to resume")
        for reason in set(backlog.find_skipped().values()):
            bar.write(f"skipped: {reason}")
    return [*failures, STOPPED] if failures and backlog.is_stopped else failures


def make_run(
    name: str,
    study: Study,
    *,
    only: str,
    root: Path | None,
    max_hours: float,
    on_cpu: bool,
) -> tuple[list[str], list[Row]]:
    """Make one run of a study on this worker; return its error lines and rows."""
    root = root or Path(__file__).resolve().parents[2]
    path = root / "papermill_runs" / f"{name}.yaml"
    # another worker may be at the same
    with lock(path.with_suffix("") / "study.lock", wait_s=math.inf):
        if not path.exists():
            asked = study.model_dump(exclude_defaults=True)
            write_json(path, asked)  # which is YAML, too
    present = load_study(path, root, instance=study.instance)
    if present.model_dump_json() != study.model_dump_json():  # factors in their order
        raise DrError(
            f"a worker has a different {path.name}: bring the repositories to the same commit"
        )
    errors = run_study(
        path,
        root,
        max_hours=max_hours,
        instance=study.instance,
        only=only,
        on_cpu=on_cpu,
        show_progress=False,
    )
    rows = read_rows(path.with_suffix(""))
    return errors, [row for row in rows if name_run(row["scenario"], row["repetition"]) == only]
