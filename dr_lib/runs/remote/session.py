"""One session on a cloud service: say what is uploaded, allocate, run, fetch, and stop, whatever
happens.

A session stands in the study's sessions.json before it is allocated, and is open there until it has
been stopped: what a client that was killed left is found by the next call, which takes up or stops
these sessions alone.
"""

import csv
import io
import json
import math
import os
import platform
import secrets
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from dr_lib.files import write_bytes, write_json
from dr_lib.runs.estimate import afford_s, find_limit, predict_run_s
from dr_lib.runs.outdated import find_outdated, set_aside
from dr_lib.runs.prices import PRICES_VARIABLE, Price, PriceError, find_price, read_prices
from dr_lib.runs.remote import colab, far_side, kaggle
from dr_lib.runs.remote.client import RemoteError, check_client, handle_ends, insist, undisturbed
from dr_lib.runs.remote.pack import Share, pack_up
from dr_lib.runs.row import RowError, check_row, read_rows, read_spent_s, write_row
from dr_lib.runs.runner import FIXED, check_folder, check_notebook, lock_study
from dr_lib.runs.study import Study, StudyError, find_runs, load_study, name_run, plan_runs

SERVICES = {"colab": (colab.Colab, colab.DEVICES), "kaggle": (kaggle.Kaggle, kaggle.DEVICES)}
# the one session of each; every error is a RemoteError of one sentence
Service = colab.Colab | kaggle.Kaggle
Say = Callable[[str], object]
RECORD = "sessions.json"  # in the study's folder
STOPS = 3  # tries to stop a session
RETRY_S = 10.0


def run_on_service(
    path: Path,
    root: Path,
    on: str,
    *,
    share: Share,
    describe: Callable[[Path], str],
    confirm: Callable[[str], object],
    say: Say,
    max_hours: float | None = None,
    instance: str = "",
    only: str = "",
    allow: Collection[str] = (),
) -> list[str]:
    """Make the runs of a study that a device of a service has not completed, in one session, and
    bring them here.

    Rows, executed notebooks, logs and what the runs leave go to the study's folder, where
    `run_study` would put them. A run that the session's end cuts off is made again in the next.

    Args, and what is returned, are those of `run_study`, besides:
        on: service and device, such as colab:T4.
        share: see `pack.pack_up`, as is `describe`.
        confirm: is given what will be uploaded where, and raises if that is not to be.
        say: is given each line on what goes on.
        max_hours: of the session; max_usd is of all sessions, by the time of the rows.

    Raises:
        StudyError: the study is not valid, or no such device can be asked for.
        RemoteError: the service did not do what was asked; what came back until then is here, and
            nothing runs on.
    """
    service = find_service(on, say)
    folder = Path(path).with_suffix("")
    if not _read(folder):  # else what was left is stopped first, whatever has become of the study
        load_study(path, root, instance=instance)
    with lock_study(folder), tempfile.TemporaryDirectory() as scratch:
        _clear(folder, say)
        study = load_study(path, root, instance=instance)
        planned = find_runs(plan_runs(study, "any"), only, path)
        runs = [name_run(run.scenario, run.repetition) for run in planned]
        on_cpu = [
            run for run, plan in zip(runs, planned, strict=True) if _is_to_use_cpu(plan.parameters)
        ]
        check_folder(folder, study)
        write_json(folder / "study.json", study.model_dump(include=set(FIXED)))
        check_notebook(study, root, read_rows(folder), allow)
        quota = service.read_quota()  # with which missing credentials are found
        made = {run: row for run, row in _find_made(folder, service, on_cpu).items() if run in runs}
        outdated = find_outdated(folder, made.values(), root)
        left = [run for run in runs if run not in made or made[run]["run_id"] in outdated]
        if not left:
            say(f"all {len(runs)} runs have been made on {on}")
            return []
        if quota.refusal:
            raise RemoteError(quota.refusal)
        spent_s = sum(read_spent_s(folder, row["run_id"], row) for row in read_rows(folder))
        if refusal := find_limit(study, spent_s, math.nan, math.inf):
            raise StudyError(f"{path}: {refusal}")
        hours = min(
            max_hours or study.max_hours or math.inf,
            afford_s(study, spent_s) / 3600,
            quota.session_hours,
        )
        by_id = dict(zip([run.run_id for run in planned], runs, strict=True))
        rows = {run_id: made[run] for run_id, run in by_id.items() if run in made}
        waiting = [run for run in planned if by_id[run.run_id] in left]
        shortest_s = min(predict_run_s(study, planned, rows, waiting))
        if shortest_s > 3600 * hours:
            fault = f"a run takes {shortest_s / 60:.0f} min by those that were made"
            raise StudyError(f"{path}: {fault}, and a session on {on} has {60 * hours:.0f} min now")
        (upload := Path(scratch, "upload")).mkdir()
        pack = pack_up(Path(path), study, root, upload, share, describe)
        confirm(
            f"{pack.describe()}\nto {service.name}, for {len(left)} runs on {service.asked};"
            f" {service.terms}"
        )
        if what := set_aside(folder, made.values(), root):
            say(what)
        options = ["--instance", study.instance] if study.instance else []
        with _open(service, folder, on, left, say) as record:
            session = record["session"]
            service.start(session, pack)
            job = {
                "study": pack.study,
                "session": session,
                "platform": service.platform,
                "device": service.pattern,
            }
            job |= {"on_cpu": on_cpu} | _price(service, record, study, options)
            return _make(
                service, session, job, left, hours if math.isfinite(hours) else 0.0, folder, say
            )


def find_service(on: str, say: Say) -> Service:
    """The service of a name such as colab:T4, whose client will do; others are refused before
    any call.
    """
    name, _, device = on.partition(":")
    if name not in SERVICES or device not in SERVICES[name][1]:
        known = ", ".join(
            f"{name}:{device}" for name, (_, devices) in SERVICES.items() for device in devices
        )
        raise StudyError(f"there is no {on!r}: choose from {known}")
    check_client(name)
    return SERVICES[name][0](device, say)


def _make(
    service: Service, session: str, job: dict, runs: list[str], hours: float, folder: Path, say: Say
) -> list[str]:
    """Make the runs, take in what each left, and stop at the first row of another device."""
    failures = {}
    seen = set()
    start = time.monotonic()
    for rows, ended in service.make(
        session, job, runs, hours, partial(_take_in, folder, runs, say)
    ):
        for row in rows:
            run = name_run(row["scenario"], row["repetition"])
            seen.add(run)
            say(f"{run}: {row['status']}{', ' + row['error'] if row['error'] else ''}")
            if row["status"] == "failed":
                failures[run] = f"{row['run_id']}: {row['error']}"
            if not far_side.is_on(row, service.platform, service.pattern, job["on_cpu"]):
                what = f"{row.get('accelerator') or 'another device'} ({row['run_id']})"
                raise RemoteError(
                    f"{service.name} gave {what} where {service.asked} was asked for: {run} is kept"
                )
        for run in ended.keys() - seen:
            if ended[run]:
                failures[run] = f"{run}: left no row, see {folder / 'logs' / f'{run}.log'}"
    if len(seen | failures.keys()) < len(runs):
        say(
            f"the session is over after {(time.monotonic() - start) / 3600:.1f} h; start again to"
            " go on"
        )
    return list(failures.values())


def _take_in(
    folder: Path, runs: Collection[str], say: Say, results: Path
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Put what came back into the study's folder; return its rows and the exit status of each run's
    runner.

    A file that is no row of these runs is none; one of a run that failed never takes the place of a
    completed one.
    """
    rows = []
    ended = {}
    try:
        with zipfile.ZipFile(results) as archive:
            if broken := archive.testzip():
                raise zipfile.BadZipFile(broken)
            for name in archive.namelist():
                kind, _, rest = name.partition("/")
                if kind == "rows":
                    with suppress(ValueError, RowError):
                        row = check_row(json.loads(archive.read(name)))
                        rows += [row] if _is_ours(row, rest, folder, runs) else []
                elif kind in far_side.BROUGHT_BACK and rest and ".." not in Path(rest).parts:
                    write_bytes(folder / name, archive.read(name))
            with suppress(KeyError, ValueError, TypeError):
                ended = dict(json.loads(archive.read(far_side.ENDED)))
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise RemoteError(
            f"what came back cannot be taken in: {type(error).__name__}: {error}"
        ) from error
    for name in ended.get("left_out", []):
        say(f"{name} is left out: it has more than {far_side.MAX_MIB} MiB")
    completed = {row["run_id"] for row in read_rows(folder) if row["status"] == "ok"}
    for row in rows:
        if row["status"] == "ok" or row["run_id"] not in completed:
            write_row(folder, row)
    return rows, ended.get("status", {})


def _is_ours(row: dict[str, Any], file: str, folder: Path, runs: Collection[str]) -> bool:
    """Whether a row is of one of these runs of the study, in the file that it belongs in."""
    run = name_run(row["scenario"], row["repetition"])
    run_id = row["run_id"]
    is_named = (
        file == f"{run_id}.json" and run_id == Path(run_id).name and run_id.startswith(f"{run}-")
    )
    return is_named and row["study"] == folder.name and run in runs


def _is_to_use_cpu(parameters: dict[str, Any]) -> bool:
    """Whether a run is to use the processor alone, as the study says, or as Keras does beside
    CUDA C.
    """
    return "cpu" in parameters.values() or str(parameters.get("implementation")).startswith(
        "keras_"
    )


def _find_made(folder: Path, service: Service, on_cpu: list[str]) -> dict[str, dict[str, Any]]:
    """The rows, by run, that a device has completed, or cannot make."""
    rows = [row for row in read_rows(folder) if row["status"] in ("ok", "skipped")]
    rows = [row for row in rows if far_side.is_on(row, service.platform, service.pattern, on_cpu)]
    return {name_run(row["scenario"], row["repetition"]): row for row in rows}


@contextmanager
def _open(
    service: Service, folder: Path, on: str, runs: list[str], say: Say
) -> Iterator[dict[str, Any]]:
    """Record a session before it is allocated, and stop it however it ends; say what it took.

    A session of Colab needs this process, and is stopped when this is to end; one of Kaggle goes
    on.
    """
    before = service.read_quota()
    now = datetime.now(UTC)
    record = {
        "session": f"dr-{on.replace(':', '-').lower()}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
        "on": on,
        "runs": runs,
        "others": service.list_others(),
        "host": platform.node(),
        "started": now.isoformat(timespec="seconds"),
        "ended": "",
        "unit": before.unit,
        "units_before": before.left,
    }
    _write(folder, record)
    say(
        f"{record['session']} begins"
        + (f"; {before.left:.2f} {before.unit} are left" if before.unit else "")
    )
    with (
        handle_ends(_interrupt) if service.needs_client else nullcontext(),
        _closing(service, folder, record, say),
    ):
        yield record


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def _closing(service: Service, folder: Path, record: dict[str, Any], say: Say) -> Iterator[None]:
    """Close a session at the end; where that fails after another error, that one is raised."""
    try:
        yield
    except BaseException as error:
        try:
            with undisturbed():
                _close(service, folder, record, say, isinstance(error, KeyboardInterrupt))
        except RemoteError as unstopped:
            say(str(unstopped))
        raise
    with undisturbed():
        _close(service, folder, record, say)


def _close(
    service: Service,
    folder: Path,
    record: dict[str, Any],
    say: Say,
    is_interrupted: bool = False,
) -> None:
    """Stop a session, again while that fails, and write what it took; else it stays open."""
    session = record["session"]
    try:
        stop = partial(service.stop, session, record["others"], is_interrupted)
        is_stopped = insist(stop, STOPS, RETRY_S)
    except RemoteError as error:
        what = f"{session} is not stopped ({error}): the next call on this study tries again"
        raise RemoteError(what) from error
    if not is_stopped:
        say(f"{session} stays open on {service.name}: the same command takes it up again")
        return
    record["ended"] = datetime.now(UTC).isoformat(timespec="seconds")
    rows = [row for row in read_rows(folder) if row.get("session") == record["session"]]
    record["devices"] = sorted({row.get("accelerator") or row["run_id"] for row in rows})
    with suppress(RemoteError):
        after = service.read_quota()
        record |= {
            "units_after": after.left,
            "units_per_hour": record.get("units_per_hour", after.per_hour),
        }
        spent = record["units_before"] - after.left
        unit = record["unit"]
        with suppress(PriceError):
            record["usd"] = round(spent * find_price(f"{service.platform} unit").usd_per_hour, 4)
        cost = f", {record['usd']:.2f} USD" if "usd" in record else ""
        cost = f": {spent:.2f} {unit} spent{cost}, {after.left:.2f} left" if unit else ""
        say(f"{record['session']} is stopped{cost}")
    _write(folder, record)


def _clear(folder: Path, say: Say) -> None:
    """Take in and stop what sessions of this study left that were opened here and never closed;
    name those of others.

    Raises:
        RemoteError: one cannot be stopped, so that no other is to be allocated.
    """
    for record in [record for record in _read(folder) if not record["ended"]]:
        if record["host"] != platform.node():
            say(
                f"{record['session']} was opened on {record['host']} and not closed: the same"
                " command there does that"
            )
            continue
        say(f"{record['session']} was left by a client that ended early")
        service = find_service(record["on"], say)
        service.read_quota()
        with _closing(service, folder, record, say):
            for rows, _ in service.resume(
                record["session"], partial(_take_in, folder, record["runs"], say)
            ):
                say(f"{len(rows)} rows of it are here now")


def _price(
    service: Service, record: dict[str, Any], study: Study, options: list[str]
) -> dict[str, Any]:
    """What the far side prices its rows by: this machine's table, and a machine by the units
    that it takes an hour.
    """
    own = os.environ.get(PRICES_VARIABLE)
    quota = insist(service.read_quota, STOPS, RETRY_S)
    prices = read_prices(Path(own)) if own else []
    record["units_per_hour"] = quota.per_hour
    with suppress(PriceError):
        unit = find_price(f"{service.platform} unit")
        if not study.instance and quota.per_hour:
            what = (
                f"{quota.per_hour} {quota.unit} an hour at {unit.usd_per_hour} USD: {unit.source}"
            )
            usd_per_hour = quota.per_hour * unit.usd_per_hour
            prices.append(
                Price(service.name, record["on"], "", "USD", usd_per_hour, unit.date, what)
            )
            options = [*options, "--instance", record["on"]]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([Price._fields, *prices])
    return {"options": options, "prices": text.getvalue()}


def _read(folder: Path) -> list[dict[str, Any]]:
    path = folder / RECORD
    return json.loads(path.read_bytes()) if path.exists() else []


def _write(folder: Path, record: dict[str, Any]) -> None:
    others = [other for other in _read(folder) if other["session"] != record["session"]]
    write_json(folder / RECORD, [*others, record])
