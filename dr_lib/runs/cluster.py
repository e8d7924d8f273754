"""Make the runs of a study on many machines: through a Dask cluster, or as commands for an array
scheduler.
"""

import math
import time
from collections import deque
from collections.abc import Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from tqdm import tqdm

from dr_lib.command import write_lasting_command
from dr_lib.files import lock, write_text
from dr_lib.hardware.machines import COORDINATOR, COUNT, RANK
from dr_lib.runs.estimate import afford_s, find_limit, predict_run_s
from dr_lib.runs.machines import count_machines
from dr_lib.runs.outdated import find_outdated, set_aside
from dr_lib.runs.row import count_paid, read_rows, read_spent_s, write_row
from dr_lib.runs.runner import check_notebook, run_study
from dr_lib.runs.study import (
    PlannedRun,
    Study,
    StudyError,
    find_runs,
    load_study,
    name_run,
    plan_runs,
)

ANY = "any"  # in place of a machine's name
PATIENCE_S = 20.0  # with a cluster that does not answer or has no workers


def list_commands(path: Path, runs: Sequence[PlannedRun]) -> list[str]:
    """One shell command per run and machine, to be given to any scheduler from the root of the
    repository.
    """
    lines = []
    for run in runs:
        only = name_run(run.scenario, run.repetition)
        command = write_lasting_command("run", path, "--only", only)
        number = count_machines(run)
        if number == 1:
            lines.append(command)
            continue
        meet = f'{COORDINATOR}="${{{COORDINATOR}:?HOST:PORT of machine 0}}" {COUNT}={number}'
        lines += [f"{meet} {RANK}={rank} {command}" for rank in range(number)]
    return lines


def run_on_cluster(
    path: Path,
    root: Path,
    address: str,
    *,
    max_hours: float | None = None,
    instance: str = "",
    only: str = "",
    allow: Collection[str] = (),
    worker_root: Path | None = None,
) -> list[str]:
    """Hand the runs that no machine has completed yet to a Dask cluster, and bring their rows here.

    A run is handed out when a worker is free and the limits hold it: of time, and of money over all
    workers, those under way included. A machine makes one run at a time, whatever its number of
    workers: they wait for each other. Every worker needs the repository with its requirements;
    samples, logs and executed notebooks stay with it. Where a worker is lost, Dask gives its run to
    another; one at which several workers were lost has failed.

    Args, and what is returned, are those of `run_study`, besides:
        address: of the scheduler, tcp://HOST:8786 say.
        worker_root: the repository there, by default where the worker imports dr_lib from.

    Raises:
        StudyError: the study is not valid, its runs are of another version of the notebook, nobody
            answers at the address, or the cluster has no workers (any more).
    """
    from distributed import Client, KilledWorker

    study = load_study(path, root, instance=instance)
    folder = Path(path).with_suffix("")
    stop_at = time.monotonic() + 3600 * (max_hours or study.max_hours or math.inf)
    planned = plan_runs(study, ANY)
    wanted = find_runs(planned, only, path)
    check_notebook(study, root, read_rows(folder), allow)
    try:
        client = Client(address, timeout=PATIENCE_S)
    except (OSError, ValueError) as error:
        raise StudyError(f"no Dask scheduler answers at {address}: {error}") from error
    names = {run.run_id for run in wanted}
    if what := set_aside(folder, [row for row in read_rows(folder) if _name(row) in names], root):
        tqdm.write(what)
    rows = {row["run_id"]: row for row in read_rows(folder)}
    completed = {_name(row) for row in rows.values() if row["status"] == "ok"}
    waiting = deque(run for run in wanted if run.run_id not in completed)
    failures = []
    under_way = {}
    # not as a context, which would wait for runs that nobody makes
    executor = client.get_executor(pure=False)
    with client, tqdm(total=len(waiting), desc="runs") as bar:
        while waiting or under_way:
            known = {
                _name(row): row
                for row in sorted(rows.values(), key=lambda row: row["status"] == "ok")
            }
            while waiting:
                *busy_s, next_s = predict_run_s(
                    study, planned, known, [*under_way.values(), waiting[0]]
                )
                # what a first run costs has to be known before others are handed out on a budget
                free = 1 if study.max_usd and math.isnan(next_s) else max(1, _count_workers(client))
                if len(under_way) >= free:
                    break
                done_s = [
                    count_paid(row) * read_spent_s(folder, name, row) for name, row in rows.items()
                ]
                spent_s = sum(done_s) + sum(busy_s)
                if reason := find_limit(study, spent_s, next_s, stop_at):
                    bar.write(f"{reason}; start again to go on")
                    waiting.clear()
                    break
                run = waiting.popleft()
                left_hours = min(stop_at - time.monotonic(), afford_s(study, spent_s)) / 3600
                asked = (
                    path.stem,
                    study,
                    name_run(run.scenario, run.repetition),
                    worker_root,
                    left_hours,
                    tuple(allow),
                )
                under_way[executor.submit(make_run, *asked)] = run
            finished = wait(under_way, PATIENCE_S, FIRST_COMPLETED).done
            if not finished and not _count_workers(client):
                raise StudyError(
                    f"the Dask cluster at {address} has no workers: start some, and start again"
                )
            for future in finished:
                run = under_way.pop(future)
                name = name_run(run.scenario, run.repetition)
                bar.update()
                try:
                    errors, made = future.result()
                except CancelledError as error:
                    raise StudyError(
                        f"the Dask scheduler at {address} is gone: start it, and start again"
                    ) from error
                except KilledWorker:
                    errors = [
                        f"{name}: every worker that began it was lost, most likely for want of"
                        " memory"
                    ]
                    made = []
                except Exception as error:  # noqa: BLE001  a worker that is set up badly does not end the others
                    errors = [f"{name}: {error}"]
                    made = []
                failures += errors
                outdated = find_outdated(folder, made, root)
                if outdated:
                    failures.append(
                        f"{name}: the worker has another prepared folder: bring it there"
                    )
                for row in made:
                    if row["run_id"] not in outdated:
                        rows[row["run_id"]] = row
                        write_row(folder, row)
    return failures


def make_run(
    name: str,
    study: Study,
    only: str,
    root: Path | None = None,
    max_hours: float = math.inf,
    allow: Collection[str] = (),
) -> tuple[list[str], list[dict]]:
    """Make one run of a study on this worker; return the error lines and the rows of it."""
    root = root or Path(__file__).resolve().parents[2]
    path = root / "papermill_runs" / f"{name}.yaml"
    # another worker may be at the same
    with lock(path.with_suffix("") / "study.lock", wait_s=math.inf):
        if not path.exists():
            write_text(
                path, yaml.safe_dump(study.model_dump(exclude_defaults=True), sort_keys=False)
            )
    if load_study(path, root, instance=study.instance).model_dump_json() != study.model_dump_json():
        raise StudyError(f"a worker has another {path.name}: bring the repositories to one commit")
    asked = {"only": only, "instance": study.instance, "max_hours": max_hours, "allow": allow}
    errors = run_study(path, root, **asked, wait=True, show_progress=False)
    rows = read_rows(path.with_suffix(""))
    return errors, [row for row in rows if name_run(row["scenario"], row["repetition"]) == only]


def _name(row: dict[str, Any]) -> str:
    """The name of a row's run in a plan for any machine."""
    return f"{name_run(row['scenario'], row['repetition'])}-{ANY}"


def _count_workers(client: Any) -> int:
    """How many workers a cluster has; none where its scheduler is gone."""
    with suppress(OSError, RuntimeError):
        return len(client.ncores())
    return 0
