"""Run a study: one papermill process per run, one at a time, resumable after any kill."""

import json
import math
import os
import shutil
import sys
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tqdm import tqdm

from dr_lib import hardware
from dr_lib.code import read_commit
from dr_lib.command import write_command
from dr_lib.errors import DrError
from dr_lib.runs.backlog import STOPPED, Backlog
from dr_lib.runs.folder import keep_for, lock_study
from dr_lib.runs.monitor import measure_gpu_use
from dr_lib.runs.papermill import (
    OUT_OF_TIME,
    find_error,
    redact_paths,
    run_papermill,
)
from dr_lib.runs.prices import find_price
from dr_lib.runs.row import Row, progress_path, read_left, write_row
from dr_lib.runs.run import RunIdentity
from dr_lib.runs.study import (
    PlannedRun,
    Study,
    check_needs,
    check_paths,
    find_refused,
    find_results,
    find_runs,
    load_study,
    name_machine,
    plan_runs,
)

UNAVAILABLE = "UnavailableError"  # how a notebook says that this machine cannot make such a run
MIN_FREE_MIB = 100  # of the disk, before a run begins
BAR = "{desc} |{bar:24}| {n} of {total}, {remaining} left"


@dataclass
class Session:
    """One call of `run_study`."""

    root: Path
    backlog: Backlog
    bar: tqdm  # in runs
    session_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    num_failed: Counter = field(default_factory=Counter)  # tries, by run
    failures: list[str] = field(default_factory=list)


def run_study(
    path: Path,
    root: Path,
    *,
    max_hours: float | None = None,
    instance: str = "",
    only: str = "",
    on_cpu: bool = False,
    show_progress: bool = True,
) -> list[str]:
    """Execute the runs of a study that are not finished yet, one after another.

    All goes to a folder beside the study file, of its name: `rows/`, executed `notebooks/`,
    `logs/`, and what the runs leave in `runs/`. A run is finished when its row says ok; one that
    was cut off or failed is made again, in the folder where it may have left a checkpoint. Kill it
    at any moment and start it again.

    Args:
        path: the study file.
        root: the repository.
        max_hours: in place of the file's: no run is begun that would not fit; one under way then
            saves and stops.
        instance: in place of the file's: the machine's name in the table of prices.
        only: one run alone, by scenario and repetition, such as C3-r02. It waits for another
            process that is running the study.
        on_cpu: run on a machine without the accelerator that the study needs.
        show_progress: draw a bar.

    Returns:
        The errors of the runs that failed, one line each, and STOPPED behind the second one where
        none has succeeded. Runs that this machine cannot make are no failures: their rows say
        skipped and why.

    Raises:
        DrError: the study is not valid, its folder holds another, the disk is full, or another
            process of this machine is running it.

    Example:
        >>> failures = run_study(Path("papermill_runs/demo.yaml"), Path("."))  # doctest: +SKIP
    """
    study = load_study(path, root, instance=instance)
    backlog, refused = _plan(study, path, root, only, on_cpu)
    folder = backlog.folder
    backlog.stop_at = time.monotonic() + 3600 * (max_hours or study.max_hours or math.inf)
    with (
        lock_study(folder, wait=bool(only)),
        tqdm(disable=not show_progress, bar_format=BAR) as bar,
    ):
        keep_for(folder, study)
        backlog.read()
        bar.total = len(backlog.list_left())
        session = Session(root, backlog, bar)
        for scenario, reason in refused.items():
            _skip(session, scenario, reason)
        _make_all(session)
        return session.failures


def _plan(
    study: Study, path: Path, root: Path, only: str, on_cpu: bool
) -> tuple[Backlog, dict[str, str]]:
    """List the runs that are asked for, and the scenarios that this machine cannot make.

    Raises:
        DrError: it can make none of the study, or lacks the data, a price or an accelerator.
    """
    check_paths(study, path, root)
    if study.instance:
        find_price(study.instance)
    facts = hardware.probe()
    if not on_cpu:
        check_needs(study, path, facts)
    planned = plan_runs(study, name_machine(facts))
    runs = find_runs(planned, only, path)
    refused = find_refused(study, planned, facts)
    if len(refused) == len({run.scenario for run in planned}):
        raise DrError(f"{path}: no run is possible: {'; '.join(sorted(set(refused.values())))}")
    return Backlog(study, find_results(path), runs, planned), refused


def _make_all(session: Session) -> None:
    """Execute the remaining runs while time suffices, and say what is left."""
    backlog = session.backlog
    say = session.bar.write
    while True:
        run, refusal = backlog.find_next()
        if run is None:
            break
        free_mib = shutil.disk_usage(backlog.folder).free / 2**20
        if free_mib < MIN_FREE_MIB:
            raise DrError(
                f"{free_mib:.0f} MiB are free on the disk of {backlog.folder}: "
                "free some space, and start again"
            )
        session.bar.set_description_str(run.name)
        error = _make_one(session, run)
        if error.startswith(OUT_OF_TIME):
            say(f"{run.run_id}: {error.removeprefix(OUT_OF_TIME + ': ')}")
            break
        if error.startswith(UNAVAILABLE):
            _skip(session, run.scenario, error)
        elif error:
            _note_failure(session, run, error)
        else:
            session.bar.update()
        if session.failures and backlog.is_stopped:
            session.failures.append(STOPPED)
            break
    if refusal:
        say(f"{refusal}; start again to resume")
    elif backlog.runs == backlog.planned and not (session.failures or backlog.list_left()):
        folder = os.path.relpath(backlog.folder)
        say(f"complete; to make the report: {write_command('report', folder)}")
    for reason, number in Counter(backlog.unavailable.values()).items():
        say(f"scenarios skipped: {number}, {reason}")


def _note_failure(session: Session, run: PlannedRun, error: str) -> None:
    """Count a run's failure; after the last retry it is one of the session's."""
    session.num_failed[run.run_id] += 1
    if session.num_failed[run.run_id] > session.backlog.study.retries:
        session.backlog.closed.add(run.run_id)
        session.failures.append(f"{run.run_id}: {error}")


def _skip(session: Session, scenario: str, reason: str) -> None:
    """Skip all runs of a scenario, and record this in one row, unless one says so already."""
    backlog = session.backlog
    known = backlog.find_skipped().get(scenario)
    left = [run for run in backlog.list_left() if run.scenario == scenario]
    backlog.unavailable[scenario] = reason
    if left and known != reason:
        identity = _identify(session, left[0])
        columns = {"status": "skipped", "error": reason, "wall_s": 0.0}
        _write_incomplete(session, left[0], identity, columns)


def _make_one(session: Session, run: PlannedRun) -> str:
    """Run the notebook in a separate process; write its error to a row and return it."""
    backlog = session.backlog
    folder = backlog.folder
    progress_path(folder, run.run_id).unlink(missing_ok=True)  # of an earlier try
    identity = _identify(session, run)
    identity.others_gpu_share = measure_gpu_use()
    start = time.monotonic()
    error = _execute(session, run, identity)
    process_s = time.monotonic() - start

    backlog.rows.update(read_left(folder, run.run_id))
    row = backlog.row(run)
    this_try = (identity.session_id, identity.retries)
    is_of_try = (row.get("session_id"), row.get("retries")) == this_try
    if row["status"] == "ok" and is_of_try:
        backlog.rows[run.run_id] = {**row, "process_s": process_s}
        write_row(folder, backlog.rows[run.run_id])
        return ""
    if not error.startswith((OUT_OF_TIME, UNAVAILABLE)):
        known = row if is_of_try else {}
        columns = {**known, "status": "failed", "error": error, "wall_s": process_s}
        _write_incomplete(session, run, identity, columns)
    return error


def _execute(session: Session, run: PlannedRun, identity: RunIdentity) -> str:
    """Execute a notebook, end it at its time limit, and return its error."""
    backlog = session.backlog
    study = backlog.study
    source = session.root / "notebooks" / f"{study.notebook}.ipynb"
    output = backlog.folder / "notebooks" / f"{run.run_id}.ipynb"
    log = backlog.folder / "logs" / f"{run.run_id}.log"
    for path in (output, log):  # of an earlier try
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
    parameters = json.dumps(run.parameters, default=str)
    command = [sys.executable, "-m", "dr_lib.runs.jupyter", source, output, log, parameters]
    left_s = backlog.stop_at - time.monotonic()
    limit_s = min(3600 * (study.timeout_hours or math.inf), left_s)
    code = run_papermill(
        list(map(str, command)),
        session.root,
        log,
        identity,
        limit_s=limit_s,
        on_wait=partial(_show_epoch, session, run),
    )
    if code is None:
        if limit_s == left_s:
            return f"{OUT_OF_TIME}: ended by max_hours, incomplete"
        return f"ended after {limit_s:.0f} s: timeout_hours"
    return find_error(output, log, code) if code else "the notebook ended without a row"


def _show_epoch(session: Session, run: PlannedRun) -> None:
    """Write beside the progress bar how many epochs of the run are done."""
    path = progress_path(session.backlog.folder, run.run_id)
    if path.exists():
        epochs = "epoch {done} of {total}".format(**json.loads(path.read_text()))
        session.bar.set_description_str(f"{run.name}, {epochs}")


def _identify(session: Session, run: PlannedRun) -> RunIdentity:
    """Identify the run and the try."""
    backlog = session.backlog
    row = backlog.row(run)
    return RunIdentity(
        run_id=run.run_id,
        study_dir=str(backlog.folder.resolve()),
        scenario=run.scenario,
        order=run.order,
        session_id=session.session_id,
        retries=row.get("retries", 0) + (row["status"] == "failed"),
        priced_as=backlog.study.instance,
        stop_at=backlog.stop_at,
    )


def _write_incomplete(
    session: Session, run: PlannedRun, identity: RunIdentity, columns: Row
) -> None:
    """Write the row of a run that failed or was skipped."""
    backlog = session.backlog
    study = backlog.study
    paths = [session.root.resolve(), *run.parameters.values()]
    described = study.read(run.parameters).model_dump(
        by_alias=True, include=run.parameters.keys()
    )
    row = {
        **identity.columns(),
        **{name: redact_paths(value) for name, value in described.items()},
        "notebook": study.notebook,
        "notebook_sha256": "",
        "seed": study.seed + run.repetition,
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "boot": backlog.boot,
        "resumed": 0,
        "commit": read_commit(session.root, study.notebook),
        **columns,
        "error": redact_paths(columns["error"], list(map(str, paths))),
    }
    write_row(backlog.folder, row)
    backlog.rows[run.run_id] = row
