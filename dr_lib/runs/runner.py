"""The runner of a study: one papermill process per run, one run at a time, resumed after any
kill.
"""

import json
import math
import os
import platform
import shlex
import shutil
import subprocess
import time
import uuid
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from jupyter_client.kernelspec import KernelSpecManager
from tqdm import tqdm

from dr_lib import hardware
from dr_lib.command import write_command
from dr_lib.files import lock, write_json
from dr_lib.hardware.machines import Place, find_place
from dr_lib.runs.estimate import (
    afford_s,
    find_limit,
    list_disturbed,
    list_left,
    list_repeats,
    predict_run_s,
)
from dr_lib.runs.machines import count_machines, say_missing, start_others, take_part
from dr_lib.runs.outdated import find_outdated, set_aside
from dr_lib.runs.papermill import OUT_OF_TIME, find_error, redact_paths, start_papermill
from dr_lib.runs.row import (
    RowError,
    count_paid,
    progress_path,
    read_row,
    read_rows,
    read_spent_s,
    row_path,
    spent_path,
    write_row,
)
from dr_lib.runs.run import hash_notebook, measure_others, read_commit
from dr_lib.runs.study import (
    FOLD,
    PlannedRun,
    Study,
    StudyError,
    check_paths,
    find_runs,
    load_study,
    name_machine,
    plan_runs,
)

UNAVAILABLE = "UnavailableError"  # how a notebook says that this machine cannot make such a run
MIN_FREE_MIB = 100  # of the disk, before a run begins
SAVED_S = 10.0  # between two notes of the seconds that a run has taken
WATCHED_S = 0.5  # before a run begins: is somebody else at work?
# names the session of a cloud service's machine, for the rows made there
SESSION_VARIABLE = "DR_LIB_SESSION"
TRY = ("session_id", "retries", "repeats")
# other keys of a study may change between sessions
FIXED = ("factors", "first_scenario", "notebook", "order", "parameters", "seed")
BAR = "{desc} |{bar:24}| {percentage:3.0f} %{postfix}"


class Session(NamedTuple):
    """One call of `run_study`."""

    study: Study
    path: Path  # its file
    root: Path
    folder: Path  # of the study
    session_id: str
    lock: int  # file descriptor, which the runs keep open too
    stop_at: float  # infinite without a limit; on the monotonic clock
    bar: tqdm  # in runs
    planned: list[PlannedRun]  # all runs of the study on this machine


def run_study(
    path: Path,
    root: Path,
    *,
    max_hours: float | None = None,
    instance: str = "",
    only: str = "",
    allow: Collection[str] = (),
    machines: int = 1,
    wait: bool = False,
    show_progress: bool = True,
) -> list[str]:
    """Make the runs of a study that are not finished yet, one after another.

    All goes to a folder beside the study file, of its name: `rows/`, executed `notebooks/`,
    `logs/`, and what the runs leave in `runs/`. A run is finished when its row says ok; one that
    was cut off has no row and is made again, a failed one too, each in the folder where it may have
    left a checkpoint; one that shared the machine with other work is made again at the end. So is
    one whose photographs, labels or split are other ones now: what it left is kept in `outdated/`.
    Kill it at any moment and start it again.

    Args:
        path: the study file.
        root: the repository.
        max_hours: in place of the file's: no run is begun that would not fit; one under way then
            saves and stops.
        instance: in place of the file's: the machine's name in the table of prices.
        only: one run alone, by scenario and repetition, such as C3-r02.
        allow: notebook_sha256, to go on where the notebook has changed since other runs were made.
        machines: up to so many processes are started here for runs of several machines, as a
            rehearsal. Where a scheduler has started this process as one of several, `only` names
            their run, and all but the first leave no row.
        wait: for another process of this machine that is running the study, rather than stop.
        show_progress: draw a bar.

    Returns:
        The errors of the runs that failed, one line each. Runs that this machine cannot make are no
        failures: their rows say skipped and why.

    Raises:
        StudyError: the study is not valid, its folder holds another or runs of another version of
            the notebook, the disk is full, or another process of this machine is running it.
    """
    study = load_study(path, root, instance=instance)
    folder = Path(path).with_suffix("")
    check_paths(study, path, root)
    planned = plan_runs(study, name_machine(hardware.probe()))
    runs = find_runs(planned, only, path)
    kernels = KernelSpecManager().find_kernel_specs()
    hint = f"{write_command('kernels')} sets it up, or says why it cannot"
    missing = {
        run.scenario: f"no Jupyter kernel {run.kernel}: {hint}"
        for run in runs
        if run.kernel not in kernels
    }
    if not only and all(run.scenario in missing for run in runs):
        raise StudyError(f"{path}: no run can be made: {'; '.join(sorted(set(missing.values())))}")
    lacking = {run.scenario: reason for run in runs if (reason := say_missing(run, machines))}
    place = find_place() if any(count_machines(run) > 1 for run in planned) else Place()
    if place.count > 1 and (not only or count_machines(runs[0]) != place.count):
        raise StudyError(
            f"{path}: {place.count} machines make one run of as many: name it by --only"
        )
    if place.count > 1:  # no machine makes a run alone once more
        study = study.model_copy(update={"retries": 0, "repeat_disturbed": 0})
    if place.rank:
        rows = read_finished(folder, runs)
        outdated = find_outdated(folder, rows.values(), root)
        if not outdated and not list_left(study, runs, rows):  # as machine 0 decides, too
            return []
        notebook = root / "notebooks" / f"{study.notebook}.ipynb"
        return take_part(runs[0], notebook, folder, root)
    stop_at = time.monotonic() + 3600 * (max_hours or study.max_hours or math.inf)
    with (
        lock_study(folder, wait=wait) as file,
        tqdm(disable=not show_progress, bar_format=BAR) as bar,
    ):
        check_folder(folder, study)
        write_json(folder / "study.json", study.model_dump(include=set(FIXED)))
        check_notebook(study, root, read_finished(folder, planned).values(), allow)
        if what := set_aside(folder, read_finished(folder, runs).values(), root):
            bar.write(what)
        session = Session(
            study, Path(path), root, folder, uuid.uuid4().hex[:12], file, stop_at, bar, planned
        )
        return _make(session, runs, lacking | missing)


def read_finished(folder: Path, runs: list[PlannedRun]) -> dict[str, dict[str, Any]]:
    """The rows that runs have left so far, by run; one that was cut short is none."""
    rows = {}
    for run in runs:
        with suppress(RowError, FileNotFoundError):
            rows[run.run_id] = read_row(row_path(folder, run.run_id))
    return rows


def _make(session: Session, runs: list[PlannedRun], missing: dict[str, str]) -> list[str]:
    """Make what is incomplete in its order; what failed is tried again at once, what was
    disturbed at the end.
    """
    study = session.study
    bar = session.bar
    rows = read_finished(session.folder, session.planned)
    todo = deque(list_left(study, runs, rows))
    for run in todo:
        if rows.get(run.run_id, {}).get("status") == "ok" and run.scenario not in missing:
            _announce_repeat(session, run, rows)
    tried = Counter()
    failures = {}
    unavailable = dict(missing)  # by run, by run, by scenario
    while todo:
        run = todo.popleft()
        identity = _identify(session, run, rows)
        if run.scenario in unavailable:
            # else it is complete, and only disturbed
            if rows.get(run.run_id, {}).get("status") != "ok":
                _write_incomplete(session, run, identity, "skipped", unavailable[run.scenario])
            continue
        left = [run, *(other for other in todo if other.scenario not in unavailable)]
        left_s = predict_run_s(study, session.planned, rows, left)
        _check_disk(session.folder)
        spent_s = sum(_read_spent_s(session, r, rows.get(r.run_id, {})) for r in session.planned)
        paid = count_paid(identity | run.parameters)
        if reason := find_limit(study, spent_s, left_s[0], session.stop_at, paid):
            bar.write(f"{reason}; start again to go on")
            break
        stop_at = min(session.stop_at, time.monotonic() + afford_s(study, spent_s) / paid)
        error = _run_one(session._replace(stop_at=stop_at), run, identity, left_s)
        if error.startswith(OUT_OF_TIME):
            bar.write(f"{run.run_id}: {error.removeprefix(OUT_OF_TIME + ': ')}")
            break
        rows = read_finished(session.folder, session.planned)
        tried[run.run_id] += bool(error)
        if error.startswith(UNAVAILABLE):
            unavailable[run.scenario] = redact_paths(error)
        elif error and tried[run.run_id] <= study.retries:
            todo.appendleft(run)
        elif error:
            failures[run.run_id] = f"{run.run_id}: {error}"
        elif run in list_repeats(study, runs, rows):
            todo.append(run)
            _announce_repeat(session, run, rows)
    else:
        if (
            not failures
            and runs == session.planned
            and any(row["status"] == "ok" for row in rows.values())
        ):
            bar.write(f"complete; to read it: {_write_reading(session)}")
        num_disturbed = len(list_disturbed(runs, rows))
        if study.repeat_disturbed and num_disturbed:
            bar.write(
                f"{num_disturbed} disturbed runs stay: a third of a study is made again at most"
            )
    for reason, number in Counter(unavailable.values()).items():
        bar.write(f"{number} scenarios skipped: {reason}")
    return list(failures.values())


def _write_reading(session: Session) -> str:
    """Write the command that reads a study: the evaluation of its folds, or its report."""
    folder = os.path.relpath(session.folder)
    splits = session.study.factors.get("split", [])
    if not splits or not all(FOLD.fullmatch(split) for split in splits):
        return write_command("report", folder)
    predictions = f"{shlex.quote(folder)}/runs/*/predictions.csv"
    return f"{write_command('evaluate')} {predictions} --folds --out {shlex.quote(folder)}/pooled"


def _read_spent_s(session: Session, run: PlannedRun, row: dict[str, Any]) -> float:
    """Machine seconds that a run took so far; one without a row was made as such runs are made
    here.
    """
    paid = count_paid(
        {"rehearsed": find_place().count != count_machines(run)} | run.parameters | row
    )
    return paid * read_spent_s(session.folder, run.run_id, row)


def _announce_repeat(session: Session, run: PlannedRun, rows: dict[str, dict[str, Any]]) -> None:
    others = rows[run.run_id].get("others_cpu_share")
    took = (
        f"it was disturbed, others took {others:.0%} of the CPU" if others else "it was disturbed"
    )
    session.bar.write(
        f"{run.run_id} is made again at the end: {took} (repeat_disturbed: 0 keeps it)"
    )


def _check_disk(folder: Path) -> None:
    free_mib = shutil.disk_usage(folder).free / 2**20
    if free_mib < MIN_FREE_MIB:
        raise StudyError(
            f"{free_mib:.0f} MiB are free on the disk of {folder}: make room, and start again"
        )


def _show(
    session: Session,
    run: PlannedRun,
    is_repeat: bool,
    spent_s: float,
    left_s: Sequence[float],
) -> None:
    """Draw the bar: the run under way, its epoch, and the time left.

    `left_s` are the predicted seconds of this run and those after it; where they are NaN the run's
    own epochs tell.
    """
    bar = session.bar
    path = progress_path(session.folder, run.run_id)
    progress = json.loads(path.read_text()) if path.exists() else {"done": 0, "total": 0}
    epoch = f", epoch {progress['done']} of {progress['total']}" if progress["done"] else ""
    if math.isnan(left_s[0]) and epoch:
        left_s = [spent_s * progress["total"] / progress["done"]] * len(left_s)
    run_s = max(left_s[0], spent_s)
    finished = int(bar.n)
    left = "time left not known yet"
    bar.n = finished
    bar.total = finished + len(left_s)
    if run_s > 0:
        bar.n += min(spent_s / run_s, 0.99)
        left = f"{tqdm.format_interval(run_s - spent_s + sum(left_s[1:]))} left"
    bar.set_postfix_str(left, refresh=False)
    name = (
        f"{run.scenario}, repetition {run.repetition}{', again (disturbed)' if is_repeat else ''}"
    )
    bar.set_description_str(f"run {finished + 1} of {bar.total}: {name}{epoch}")


def _identify(session: Session, run: PlannedRun, rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What a run has to know of itself."""
    before = {"status": "", "retries": 0} | rows.get(run.run_id, {})
    return {
        **{name: getattr(run, name) for name in ("run_id", "scenario", "order", "kernel")},
        "session_id": session.session_id,
        "retries": before["retries"] + (before["status"] == "failed"),
        "repeats": before.get("repeats", 0) + (before["status"] == "ok"),
        # by earlier tries
        "spent_s": read_spent_s(session.folder, run.run_id, rows.get(run.run_id, {})),
        **({"rehearsed": True} if count_machines(run) > 1 and find_place().count == 1 else {}),
        **({"priced_as": session.study.instance} if session.study.instance else {}),
        **({"session": os.environ[SESSION_VARIABLE]} if SESSION_VARIABLE in os.environ else {}),
    }


def _run_one(
    session: Session, run: PlannedRun, identity: dict[str, Any], left_s: Sequence[float]
) -> str:
    """Run the notebook in a process of its own; return its error, after writing it to the run's
    row.
    """
    root = session.root
    folder = session.folder
    notebook = root / "notebooks" / f"{session.study.notebook}.ipynb"
    output = folder / "notebooks" / f"{run.run_id}.ipynb"
    log = folder / "logs" / f"{run.run_id}.log"
    for path in (output, log, progress_path(folder, run.run_id)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # of an earlier try
    is_repeat = bool(list_disturbed([run], read_finished(folder, [run])))
    _show(session, run, is_repeat, 0.0, left_s)
    context = identity | {"study_dir": str(folder.resolve()), "stop_at": session.stop_at}
    context["others_before"] = measure_others(WATCHED_S)
    start = saved = time.monotonic()
    limit_s = min(3600 * (session.study.timeout_hours or math.inf), session.stop_at - start)
    with ExitStack() as started:
        others = started.enter_context(start_others(run, session.path, log, root))
        how = {"root": root, "lock": session.lock, "environment": others.environment}
        papermill = started.enter_context(
            start_papermill(run, notebook, output, log, context, **how)
        )
        while (
            papermill.poll() is None
            and time.monotonic() - start < limit_s
            and not others.find_lost()
        ):
            with suppress(subprocess.TimeoutExpired):
                papermill.wait(0.5)
            _show(session, run, is_repeat, time.monotonic() - start, left_s)
            # a runner that is killed loses no more of what was paid for
            if time.monotonic() - saved > SAVED_S:
                saved = time.monotonic()
                write_json(spent_path(folder, run.run_id), identity["spent_s"] + saved - start)
        lost = others.find_lost()
        is_in_time = papermill.poll() is not None
        process_s = time.monotonic() - start
        if papermill.poll() == 0:
            others.wait()
    session.bar.n = int(session.bar.n) + 1
    row = read_finished(folder, [run]).get(run.run_id, {})
    if row.get("status") == "ok" and all(row[name] == identity[name] for name in TRY):
        write_row(folder, row | {"process_s": process_s})
        return ""
    if is_in_time:
        error = find_error(output, log, papermill.returncode)
        # so JAX ends where another one is silent
        if count_machines(run) > 1 and "DeadKernelError" in error:
            error += "; or another of its machines ended, or fell silent"
    elif lost:
        error = lost
    elif time.monotonic() >= session.stop_at:
        error = f"{OUT_OF_TIME}: ended by max_hours or max_usd, incomplete"
    else:
        error = f"ended after {limit_s:.0f} s: timeout_hours"
    # saved, or complete and only disturbed
    if error.startswith(OUT_OF_TIME) or row.get("status") == "ok":
        write_json(spent_path(folder, run.run_id), identity["spent_s"] + process_s)
    else:
        status = "skipped" if error.startswith(UNAVAILABLE) else "failed"
        _write_incomplete(session, run, identity, status, error, process_s)
    return error


def _write_incomplete(
    session: Session,
    run: PlannedRun,
    identity: dict[str, Any],
    status: str,
    error: str,
    wall_s: float = 0.0,
) -> None:
    """Write the row of a run that the notebook did not write."""
    paths = [
        value
        for value in run.parameters.values()
        if isinstance(value, str) and Path(value).is_absolute()
    ]
    row = {
        **identity,
        **{name: redact_paths(value) for name, value in run.parameters.items()},
        "study": session.folder.name,
        "notebook": session.study.notebook,
        "notebook_sha256": "",
        "seed": session.study.seed + run.repetition,
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "status": status,
        "resumed": 0,
        "error": redact_paths(error, paths),
        "commit": read_commit(session.root),
        "wall_s": wall_s,
    }
    write_row(session.folder, row)


def check_folder(folder: Path, study: Study) -> None:
    """Keep a folder with finished or begun runs for one study: scenarios of another would stand
    under their names.
    """
    path = folder / "study.json"
    request = json.loads(json.dumps(study.model_dump(include=set(FIXED))))
    present = {"first_scenario": 1} | (json.loads(path.read_bytes()) if path.exists() else request)
    unlike = [name for name in FIXED if present.get(name) != request[name]]
    # C1, C2, ...
    unlike += (
        ["order of the factors"] if list(present["factors"]) != list(request["factors"]) else []
    )
    if unlike and (
        any(folder.glob("runs/*/checkpoint*"))
        or any(row["status"] == "ok" for row in read_rows(folder))
    ):
        what = f"{folder} holds runs of a study with other {', '.join(unlike)}"
        raise StudyError(f"{what}: give one another name, or delete the folder to begin anew")


def check_notebook(
    study: Study, root: Path, rows: Iterable[dict[str, Any]], allow: Collection[str]
) -> None:
    """Refuse to add runs to those that another version of the notebook made, unless it is
    allowed.
    """
    made_by = {row["notebook_sha256"] for row in rows if row["status"] == "ok"} - {""}
    if "notebook_sha256" not in allow and made_by - {hash_notebook(root, study.notebook)}:
        what = f"{study.notebook} has changed since runs of this study were made"
        raise StudyError(f"{what}: give the study another name, or add --allow notebook_sha256")


@contextmanager
def lock_study(folder: Path, *, wait: bool = False) -> Iterator[int]:
    """Lock the study on this machine for this process and the runs it starts, however they end."""
    path = folder / f"lock-{platform.node()}"
    file = lock(path, wait_s=math.inf if wait else 0.0)
    if file is None:
        process = path.read_text(encoding="utf-8").strip() or "unknown"
        raise StudyError(
            f"{folder} is being run by another process ({process}): wait for it, or end it"
        )
    with file:
        file.truncate(0)
        file.write(
            f"process {os.getpid()} on {platform.node()}, since"
            f" {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        )
        file.flush()
        yield file.fileno()
