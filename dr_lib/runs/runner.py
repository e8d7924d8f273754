"""The runner of a study: one papermill process per run, one run at a time, resumed after any kill."""

import fcntl
import json
import os
import platform
import shutil
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import yaml
from jupyter_client.kernelspec import KernelSpecManager

from dr_lib import hardware
from dr_lib.runs.papermill import Papermill, find_error, hide_folders
from dr_lib.runs.prices import find_price
from dr_lib.runs.progress import RunsBar
from dr_lib.runs.row import (
    RowError,
    progress_path,
    read_process_s,
    read_row,
    read_spent_s,
    row_path,
    write_json,
    write_row,
)
from dr_lib.runs.run import measure_others, read_commit
from dr_lib.runs.study import PlannedRun, Study, StudyError, load_study, name_machine, plan_runs

OUT_OF_TIME = "OutOfTimeError"  # how a notebook says that it has saved and stopped in time
UNAVAILABLE = "UnavailableError"  # how a notebook says that this machine cannot make such a run
MIN_FREE_MIB = 100  # of the disk, before a run begins
WATCHED_S = 0.5  # before a run begins: is somebody else at work?
TRY = ("session_id", "retries", "repeats")
WHAT = {"notebook", "parameters", "factors", "order", "seed"}  # other keys of a study may change between sessions


class Session(NamedTuple):
    """One call of `run_study`."""

    study: Study
    root: Path
    folder: Path  # of the study
    session_id: str
    lock: int  # file descriptor, held by the runs too
    stop_at: float | None  # on the monotonic clock
    bar: RunsBar
    planned: list[PlannedRun]  # all runs of the study on this machine


def run_study(
    path: Path,
    root: Path,
    *,
    max_hours: float | None = None,
    instance: str = "",
    only: str = "",
    wait: bool = False,
    show_progress: bool = True,
) -> list[str]:
    """Make the runs of a study that are not finished yet, one after another.

    Everything goes to `<study>/` beside the study file: `rows/`, executed `notebooks/`, `logs/`, and what the runs
    leave in `runs/`. A run counts as finished when its row says ok; a run that was cut off has no row and is made
    again, a failed one too, each in the folder where it may have left a checkpoint; one that shared the machine with
    other work is made again at the end. Kill it at any moment and start it again.

    Args:
        path: the study file.
        root: the repository.
        max_hours: in place of the file's: no run is begun that would not fit, and one that is under way then saves
            and stops.
        instance: in place of the file's: the machine's name in prices.csv.
        only: one run alone, by scenario and repetition, such as C3-r02.
        wait: for another process of this machine that is running the study, rather than stop.
        show_progress: draw a bar.

    Returns:
        The errors of the runs that failed, one line each; empty if all went well. Runs that this machine cannot make
        are no failures: they are told, and their rows say skipped and why.

    Raises:
        StudyError: the study is not valid, its folder holds another, the disk is full, or another process of this
            machine is running it.
    """
    study, folder = load_study(path, root, instance=instance), Path(path).with_suffix("")
    planned = runs = plan_runs(study, name_machine(hardware.probe()))
    if only:
        runs = [run for run in planned if run.run_id.startswith(f"{only}-")]
        if not runs:
            raise StudyError(f"{path} has no run {only!r}: scenario and repetition are told as in C3-r02")
    missing = _find_missing_kernels(runs)
    if not only and all(run.scenario in missing for run in runs):
        raise StudyError(f"{path}: no run can be made: {'; '.join(sorted(set(missing.values())))}")
    max_hours = max_hours or study.max_hours
    stop_at = time.monotonic() + 3600 * max_hours if max_hours else None
    with _lock(folder, wait) as lock, RunsBar(show=show_progress) as bar:
        _claim(folder, study)
        session = Session(study, root, folder, uuid.uuid4().hex[:12], lock, stop_at, bar, planned)
        return _make(session, runs, missing)


def read_finished(folder: Path, runs: list[PlannedRun]) -> dict[str, dict[str, Any]]:
    """The rows that runs have left so far, by run; one that was cut short is none."""
    rows = {}
    for run in runs:
        path = row_path(folder, run.run_id)
        with suppress(RowError):
            rows |= {run.run_id: read_row(path)} if path.exists() else {}
    return rows


def _make(session: Session, runs: list[PlannedRun], missing: dict[str, str]) -> list[str]:
    """Make what is unfinished in its order; what failed is tried again at once, what was disturbed at the end."""
    study, bar, rows = session.study, session.bar, read_finished(session.folder, runs)
    todo = deque(run for run in runs if rows.get(run.run_id, {}).get("status") != "ok")
    todo += [run for run in runs if run not in todo and _is_to_be_repeated(rows[run.run_id], study)]
    tried, failures, unavailable = Counter(), {}, dict(missing)  # by run, by run, by scenario
    bar.expect(len(todo))
    while todo:
        reason = _find_reason_to_stop(session)
        if reason:
            bar.say(f"{reason}; start again to go on")
            break
        run = todo.popleft()
        error = unavailable.get(run.scenario, "")
        if error:
            if rows.get(run.run_id, {}).get("status") != "ok":  # else it was made before, and only disturbed
                _write_unmade(session, run, _identify(session, run, rows), "skipped", error)
            bar.pass_over()
            continue
        error = _run_one(session, run, _identify(session, run, rows))
        if error.startswith(OUT_OF_TIME):
            bar.say(f"{run.run_id}: {error.removeprefix(OUT_OF_TIME + ': ')}")
            break
        rows |= read_finished(session.folder, [run])
        tried[run.run_id] += bool(error)
        if error.startswith(UNAVAILABLE):
            unavailable[run.scenario] = hide_folders(error)
        elif error and tried[run.run_id] <= study.retries:
            todo.appendleft(run)
            bar.expect(1)
        elif error:
            failures[run.run_id] = f"{run.run_id}: {error}"
        elif _is_to_be_repeated(rows[run.run_id], study):
            todo.append(run)
            bar.expect(1)
    for reason, number in Counter(unavailable.values()).items():
        bar.say(f"{number} scenarios skipped: {reason}")
    return list(failures.values())


def _is_to_be_repeated(row: dict[str, Any], study: Study) -> bool:
    return bool(row.get("disturbed")) and row.get("repeats", 0) < study.repeat_disturbed


def _find_missing_kernels(runs: list[PlannedRun]) -> dict[str, str]:
    """The scenarios whose kernel this machine does not have, and what that means."""
    known = KernelSpecManager().find_kernel_specs()
    hint = "python -m dr_lib kernels sets it up, or says why it cannot"
    return {run.scenario: f"no Jupyter kernel {run.kernel}: {hint}" for run in runs if run.kernel not in known}


def _find_reason_to_stop(session: Session) -> str:
    """Why no further run may begin; empty if one may."""
    study = session.study
    if session.stop_at and time.monotonic() + session.bar.seconds_of_next() > session.stop_at:
        return "max_hours hold no further run"
    if study.max_usd:
        usd_per_s = find_price(study.instance).usd_per_hour / 3600
        rows = read_finished(session.folder, session.planned).values()
        spent = usd_per_s * sum(read_spent_s(row) for row in rows)
        last = [usd_per_s * read_process_s(row) for row in rows if row["status"] != "skipped"]
        if spent + (median(last) if last else 0.0) > study.max_usd:
            return f"max_usd: {spent:.2f} of {study.max_usd:.2f} USD are spent"
    free_mib = shutil.disk_usage(session.folder).free / 2**20
    if free_mib < MIN_FREE_MIB:
        raise StudyError(f"{free_mib:.0f} MiB are free on the disk of {session.folder}: make room, and start again")
    return ""


def _identify(session: Session, run: PlannedRun, rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What a run has to know of itself."""
    before = {"status": "", "retries": 0} | rows.get(run.run_id, {})
    return {
        **{name: getattr(run, name) for name in ("run_id", "scenario", "order", "kernel")},
        "study_dir": str(session.folder.resolve()),
        "session_id": session.session_id,
        "retries": before["retries"] + (before["status"] == "failed"),
        "repeats": before.get("repeats", 0) + (before["status"] == "ok"),
        "spent_s": read_spent_s(before) if before["status"] else 0.0,  # by earlier tries
        **({"instance": session.study.instance} if session.study.instance else {}),
        **({"stop_at": session.stop_at} if session.stop_at else {}),
    }


def _run_one(session: Session, run: PlannedRun, identity: dict[str, Any]) -> str:
    """Run the notebook in a process of its own; return its error, after writing it to the run's row."""
    root, folder, bar = session.root, session.folder, session.bar
    source = root / "notebooks" / f"{session.study.notebook}.ipynb"
    output, progress = folder / "notebooks" / f"{run.run_id}.ipynb", progress_path(folder, run.run_id)
    for left_by_an_earlier_try in (progress, output):
        left_by_an_earlier_try.unlink(missing_ok=True)
    for name in ("notebooks", "logs", "parameters"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    parameters, log = folder / "parameters" / f"{run.run_id}.yaml", folder / "logs" / f"{run.run_id}.log"
    parameters.write_text(yaml.safe_dump(run.parameters), encoding="utf-8")
    bar.start_run(run)
    identity |= {"others_before": measure_others(WATCHED_S)}
    start, stop_at = time.monotonic(), session.stop_at or float("inf")
    limit_s = min(3600 * (session.study.timeout_hours or float("inf")), stop_at - start)
    with Papermill(source, output, parameters, run.kernel, identity, log, root=root, lock=session.lock) as papermill:
        while papermill.is_running() and time.monotonic() - start < limit_s:
            papermill.wait(0.5)
            bar.show(json.loads(progress.read_text()) if progress.exists() else None)
        in_time = not papermill.is_running()
    bar.finish_run()
    row = read_finished(folder, [run]).get(run.run_id, {})
    if row.get("status") == "ok" and all(row[name] == identity[name] for name in TRY):
        write_row(folder, row | {"process_s": time.monotonic() - start})  # papermill and the kernel's start included
        return ""
    if in_time:
        error = find_error(output, log, papermill.returncode)
    elif time.monotonic() >= stop_at:
        error = f"{OUT_OF_TIME}: ended by max_hours, unfinished"
    else:
        error = f"ended after {limit_s:.0f} s: timeout_hours"
    if not (error.startswith(OUT_OF_TIME) or row.get("status") == "ok"):  # saved, or made before and only disturbed
        status = "skipped" if error.startswith(UNAVAILABLE) else "failed"
        _write_unmade(session, run, identity, status, error, time.monotonic() - start)
    return error


def _write_unmade(
    session: Session, run: PlannedRun, identity: dict[str, Any], status: str, error: str, wall_s: float = 0.0
) -> None:
    """Write the row of a run that the notebook did not write."""
    known = {name: value for name, value in identity.items() if name not in ("study_dir", "stop_at")}
    row = {"study": session.folder.name, "notebook": session.study.notebook, "notebook_sha256": "", "resumed": 0}
    row |= {"commit": read_commit(session.root), "started_at": datetime.now(UTC).isoformat(timespec="seconds")}
    row |= {name: hide_folders(value) for name, value in run.parameters.items()}
    for value in run.parameters.values():  # a path with spaces is known to be one here alone
        if isinstance(value, str) and Path(value).is_absolute():
            error = error.replace(f"{value}/", "").replace(value, Path(value).name)
    row |= {"seed": session.study.seed + run.repetition, "status": status, "error": hide_folders(error)}
    write_row(session.folder, known | row | {"wall_s": float(wall_s)})


def _claim(folder: Path, study: Study) -> None:
    """Keep a folder for one study: scenarios of another would stand under the same names."""
    asked, path = json.loads(json.dumps(study.model_dump(include=WHAT))), folder / "study.json"
    there = json.loads(path.read_bytes()) if path.exists() else asked
    unlike = [name for name in sorted(WHAT) if there.get(name) != asked[name]]
    if unlike:
        raise StudyError(
            f"{folder} holds runs of a study with other {', '.join(unlike)}: give one of them another name"
        )
    if not path.exists():
        write_json(path, asked)


@contextmanager
def _lock(folder: Path, wait: bool) -> Iterator[int]:
    """Hold the study on this machine for this process and the runs it starts; it is freed however they end."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"lock-{platform.node()}").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            file.seek(0)
            who = f"{folder} is being run by another process ({file.read().strip() or 'unknown'})"
            raise StudyError(f"{who}: wait for it, or end it") from error
        except OSError:  # a file system without locks
            pass
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")
        file.flush()
        yield file.fileno()
