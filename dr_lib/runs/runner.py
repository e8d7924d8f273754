"""Run a study: one papermill process per run, one at a time, resumable after any kill."""

import json
import math
import os
import shlex
import shutil
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tqdm import tqdm

from dr_lib import hardware
from dr_lib.code import explain_commit, read_commit
from dr_lib.command import write_command
from dr_lib.errors import DrError
from dr_lib.runs.backlog import ALIKE, Backlog, Offer
from dr_lib.runs.folder import check_data, check_notebook, keep_for, lock_study
from dr_lib.runs.papermill import (
    OUT_OF_TIME,
    find_error,
    redact_paths,
    start_papermill,
)
from dr_lib.runs.row import progress_path, read_left, write_row
from dr_lib.runs.run import RunIdentity, measure_others
from dr_lib.runs.study import (
    FOLD,
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
WATCHED_S = 0.5  # before a run begins: is somebody else at work?


@dataclass
class Session:
    """One call of `run_study`."""

    root: Path
    backlog: Backlog
    lock: int  # file descriptor, which the runs keep open too
    bar: tqdm  # in runs
    session_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    num_failed: Counter = field(default_factory=Counter)  # tries, by run
    num_completed: int = 0
    start: float = 0.0  # of the run under way, on the monotonic clock
    epochs: dict[int, float] = field(default_factory=dict)  # of it: when each had ended [s]
    failures: list[str] = field(default_factory=list)


def run_study(
    path: Path,
    root: Path,
    *,
    max_hours: float | None = None,
    instance: str = "",
    only: str = "",
    allow: Collection[str] = (),
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
        only: one run alone, by scenario and repetition, such as C3-r02. Where a scheduler has
            started this process as one of several machines, it names their run, and all but the
            first leave no row. It waits for another process that is running the study.
        allow: notebook_sha256, to go on where the notebook has changed since other runs were made.
        on_cpu: run on a machine without the accelerator that the study needs.
        show_progress: draw a bar.

    Returns:
        The errors of the runs that failed, one line each, and ALIKE behind one that stopped the
        study. Runs that this machine cannot make are no failures: their rows say skipped and why.

    Raises:
        DrError: the study is not valid, its folder holds another or runs of another version of
            the notebook or of other photographs, labels or splits, the disk is full, or another
            process of this machine is running it.

    Example:
        >>> failures = run_study(Path("papermill_runs/demo.yaml"), Path("."))  # doctest: +SKIP
    """
    study = load_study(path, root, instance=instance)
    backlog = _plan(study, path, root, only, on_cpu)
    folder = backlog.folder
    backlog.stop_at = time.monotonic() + 3600 * (max_hours or study.max_hours or math.inf)
    bar_format = "{desc} |{bar:24}| {percentage:3.0f} %{postfix}"
    with (
        lock_study(folder, wait=bool(only)) as file,
        tqdm(disable=not show_progress, bar_format=bar_format) as bar,
    ):
        keep_for(folder, study)
        backlog.read()
        if backlog.list_left():
            check_notebook(study, root, backlog.rows.values(), allow)
            if why := explain_commit(root):
                bar.write(f"the rows will name no commit, because git does not: {why}")
        session = Session(root, backlog, file, bar)
        for scenario, reason in backlog.unavailable.items():
            _skip(session, scenario, reason, 0.0)
        _make_all(session)
        return session.failures


def _plan(study: Study, path: Path, root: Path, only: str, on_cpu: bool) -> Backlog:
    """List the runs that are asked for, and those that this machine cannot make.

    Raises:
        DrError: it can make none of the study, or lacks the data or an accelerator.
    """
    check_paths(study, path, root)
    facts = hardware.probe()
    if not on_cpu:
        check_needs(study, path, facts)
    planned = plan_runs(study, name_machine(facts))
    runs = find_runs(planned, only, path)
    refused = find_refused(study, planned, facts)
    if len(refused) == len({run.scenario for run in planned}):
        raise DrError(f"{path}: no run is possible: {'; '.join(sorted(set(refused.values())))}")
    unavailable = {
        run.scenario: refused[run.scenario] for run in runs if run.scenario in refused
    }
    backlog = Backlog(study, find_results(path), runs, planned, unavailable=unavailable)
    backlog.read()
    check_data(backlog.folder, planned, backlog.rows, root)
    return backlog


def _make_all(session: Session) -> None:
    """Execute the remaining runs while time suffices, and report what is left."""
    backlog = session.backlog
    say = session.bar.write
    left = backlog.list_left()
    if math.isfinite(left_s := sum(backlog.predict_s(left))) and left:
        say(f"{len(left)} runs to do, about {tqdm.format_interval(left_s)}")
    while offer := backlog.find_next():
        free_mib = shutil.disk_usage(backlog.folder).free / 2**20
        if free_mib < MIN_FREE_MIB:
            raise DrError(
                f"{free_mib:.0f} MiB are free on the disk of {backlog.folder}: "
                "free some space, and start again"
            )
        if offer.refusal:
            say(f"{offer.refusal}; start again to resume")
            break
        error = _make_one(session, offer)
        _settle(session, offer.run, error)
        if error.startswith(OUT_OF_TIME) or session.failures[-1:] == [ALIKE]:
            break
    else:
        is_whole = backlog.runs == backlog.planned and not session.failures
        if is_whole and any(backlog.row(run)["status"] == "ok" for run in backlog.runs):
            say(f"complete; {_name_next(backlog)}")
    for reason, number in Counter(backlog.unavailable.values()).items():
        say(f"scenarios skipped: {number}, {reason}")


def _name_next(backlog: Backlog) -> str:
    """Name the command that follows: to evaluate folds, or a model that grades, else to report on
    times.
    """
    folder = os.path.relpath(backlog.folder)
    report = f"to make the report: {write_command('report', folder)}"
    folds = [run for run in backlog.runs if FOLD.fullmatch(run.parameters.get("split", ""))]
    grades = [run for run in backlog.runs if run.parameters.get("task") == "grades"]
    folders = [backlog.folder / "runs" / run.run_id for run in folds or grades]
    files = [
        path / "predictions.csv" for path in folders if (path / "predictions.csv").exists()
    ]
    given = shlex.join(map(os.path.relpath, sorted(files)))
    num_splits = len({run.parameters["split"] for run in folds})
    if num_splits > 1 and num_splits == len(folds) == len(files):
        numbers = sorted(int(run.scenario[1:]) for run in folds)
        pattern = f"runs/C[{numbers[0]}-{numbers[-1]}]-*/predictions.csv"
        if set(backlog.folder.glob(pattern)) == set(files):
            given = f"{shlex.quote(folder)}/{pattern}"
        out = shlex.quote(os.path.join(folder, "folds"))
        return f"to evaluate the folds: {write_command('evaluate')} {given} --folds --out {out}"
    if len(files) == len(folders) == 1:
        out = shlex.quote(os.path.join(folder, "evaluation"))
        return f"to evaluate the model: {write_command('evaluate')} {given} --out {out}"
    return report


def _settle(session: Session, run: PlannedRun, error: str) -> None:
    """Handle the outcome of a run: completed, saved, unavailable, to be retried, or failed."""
    if error.startswith(OUT_OF_TIME):
        session.bar.write(f"{run.run_id}: {error.removeprefix(OUT_OF_TIME + ': ')}")
    elif error.startswith(UNAVAILABLE):
        _skip(session, run.scenario, error, time.monotonic() - session.start)
    elif error:
        session.num_failed[run.run_id] += 1
        if session.num_failed[run.run_id] > session.backlog.study.retries:
            session.backlog.closed.add(run.run_id)
            session.failures.append(f"{run.run_id}: {error}")
            if session.backlog.fails_alike(run):
                session.failures.append(ALIKE)
    else:
        session.num_completed += 1
        row = session.backlog.row(run)
        if "metric_auc_test" in row:
            from dr_lib.statistics.intervals import Interval
            from dr_lib.training.metrics import find_doubt

            bounds = [row[f"metric_auc_test{bound}"] for bound in ("", "_low", "_high")]
            if doubt := find_doubt(Interval(*bounds, row["num_patients_test"])):
                session.bar.write(f"{run.run_id}: {doubt}")
    session.bar.n = session.num_completed


def _skip(session: Session, scenario: str, reason: str, wall_s: float) -> None:
    """Skip all runs of a scenario, and record this in one row; one with this reason stays."""
    backlog = session.backlog
    backlog.unavailable[scenario] = reason
    rows = [(run, backlog.row(run)) for run in backlog.planned if run.scenario == scenario]
    skipped = [run for run, row in rows if row["status"] == "skipped"]
    left = [run for run, row in rows if row["status"] != "ok" and run in backlog.runs]
    for run in (skipped or left)[:1]:
        if backlog.row(run).get("error") != reason:
            _write_incomplete(
                session, run, _identify(session, run), "skipped", reason, wall_s, {}
            )


def _make_one(session: Session, offer: Offer) -> str:
    """Run the notebook in a separate process; write its error to a row and return it."""
    run = offer.run
    backlog = session.backlog
    folder = backlog.folder
    progress_path(folder, run.run_id).unlink(missing_ok=True)  # of an earlier try
    session.start = time.monotonic()
    session.epochs = {}
    _show(session, offer)
    identity = _identify(session, run)
    identity.stop_at = backlog.stop_at
    identity.others_before = measure_others(WATCHED_S)

    start = time.monotonic()
    error = _execute(session, offer, identity)
    process_s = time.monotonic() - start
    session.bar.set_postfix_str("", refresh=False)

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
        _write_incomplete(session, run, identity, "failed", error, process_s, known)
    return error


def _execute(session: Session, offer: Offer, identity: RunIdentity) -> str:
    """Execute a notebook, end it at its time limit, and return its error."""
    run = offer.run
    study = session.backlog.study
    start = time.monotonic()
    limit_s = min(3600 * (study.timeout_hours or math.inf), session.backlog.stop_at - start)
    with start_papermill(
        run, session.root, study.notebook, session.backlog.folder, identity, lock=session.lock
    ) as execution:
        process = execution.process
        while process.poll() is None and time.monotonic() - start < limit_s:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
            _show(session, offer)
        if process.poll() is None:
            if time.monotonic() >= session.backlog.stop_at:
                return f"{OUT_OF_TIME}: ended by max_hours, incomplete"
            return f"ended after {limit_s:.0f} s: timeout_hours"
        if process.returncode == 0:
            return "the notebook ended without a row"  # or the row is there
    return find_error(execution.output, execution.log, process.returncode)


def _show(session: Session, offer: Offer) -> None:
    """Draw the progress bar: the current run, its epoch, and the expected time left."""
    bar = session.bar
    run = offer.run
    run_s = time.monotonic() - session.start
    epoch = ""
    whole_s = math.nan
    bar.n = session.num_completed
    path = progress_path(session.backlog.folder, run.run_id)
    if path.exists():
        progress = json.loads(path.read_text())
        done = progress["done"]
        total = progress["total"]
        session.epochs.setdefault(done, run_s)
        whole_s = _foresee(session.epochs, total)
        epoch = f", epoch {done} of {total}"
        bar.n += done / (total + 1)  # the rest of a run counts as one more

    # of this run by its epochs, where no other has been completed
    seconds = [whole_s if math.isnan(known_s) else known_s for known_s in offer.seconds]
    rest = "time left unknown before the first epoch has ended"
    if math.isfinite(sum(seconds)):
        left_s = max(0.0, sum(seconds) - run_s)
        rest = f"{tqdm.format_interval(left_s)} for this and the remaining runs"
    bar.set_postfix_str(rest, refresh=False)

    num_ended = session.num_completed + len(session.failures)
    bar.total = num_ended + len(offer.seconds)
    name = f"{run.scenario}, repetition {run.repetition}"
    bar.set_description_str(f"run {num_ended + 1} of {bar.total}: {name}{epoch}")


def _foresee(epochs: dict[int, float], total: int) -> float:
    """Foresee how long a run takes [s] by when its epochs ended; NaN where that is not known yet.

    The first epoch holds the compilation, and before the first one seen others may have been made.
    """
    first = min(epochs)
    last = max(epochs)
    if last == 1:
        return epochs[1] * total
    if last == first:
        return math.nan
    epoch_s = (epochs[last] - epochs[first]) / (last - first)
    return epochs[last] + epoch_s * (total - last)


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
    )


def _write_incomplete(
    session: Session,
    run: PlannedRun,
    identity: RunIdentity,
    status: str,
    error: str,
    wall_s: float,
    known: Mapping[str, Any],
) -> None:
    """Write the row of an incomplete run, with what its notebook wrote of it."""
    backlog = session.backlog
    paths = [session.root.resolve(), *run.parameters.values()]
    described = backlog.study.read(run.parameters).model_dump(
        by_alias=True, include=run.parameters.keys()
    )
    row = {
        **identity.columns(),
        **{name: redact_paths(value) for name, value in described.items()},
        "notebook": backlog.study.notebook,
        "notebook_sha256": "",
        "seed": backlog.study.seed + run.repetition,
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "boot": backlog.boot,
        "resumed": 0,
        "commit": read_commit(session.root, backlog.study.notebook),
        **known,
        "status": status,
        "error": redact_paths(error, list(map(str, paths))),
        "wall_s": wall_s,
    }
    write_row(backlog.folder, row)
    backlog.rows[run.run_id] = row
