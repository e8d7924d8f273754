"""One session on a cloud service: say what is uploaded, allocate, run, fetch, and stop.

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

from dr_lib.errors import DrError
from dr_lib.files import write_bytes, write_json
from dr_lib.runs.backlog import Backlog
from dr_lib.runs.folder import check_data, check_notebook, keep_for, lock_study
from dr_lib.runs.prices import PRICES_VARIABLE, Price, PriceError, find_price, read_prices
from dr_lib.runs.remote import colab, far_side, kaggle
from dr_lib.runs.remote.client import (
    RemoteError,
    check_client,
    handle_ends,
    insist,
    undisturbed,
)
from dr_lib.runs.remote.pack import pack_up
from dr_lib.runs.row import RowError, check_row, read_rows, write_row
from dr_lib.runs.study import Study, find_runs, load_study, name_run, plan_runs

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
    confirm: Callable[[str], object],
    say: Say,
    max_hours: float | None = None,
    instance: str = "",
    only: str = "",
    allow: Collection[str] = (),
) -> list[str]:
    """Make the runs of a study that a device of a service has not completed, in one session.

    Rows, executed notebooks, logs and what the runs leave go to the study's folder, where
    `run_study` would put them. A run that the session's end cuts off is made again in the next.

    Args, and what is returned, are those of `run_study`, besides:
        on: service and device, such as colab:T4.
        confirm: is given what will be uploaded where, and raises if that is not to be.
        say: is given each line on what goes on.
        max_hours: of the session; max_usd is of all sessions, by the time of the rows.

    Raises:
        DrError: the study is not valid, or no such device can be asked for.
        RemoteError: the service did not do what was asked; what came back until then is here, and
            nothing runs on.
    """
    service = find_service(on, say)
    folder = Path(path).with_suffix("")
    if not _read_records(
        folder
    ):  # else what was left is stopped first, whatever the study is now
        load_study(path, root, instance=instance)
    with lock_study(folder), tempfile.TemporaryDirectory() as scratch:
        _close_left_over(folder, say)
        study = load_study(path, root, instance=instance)
        keep_for(folder, study)
        check_notebook(study, root, read_rows(folder), allow)
        quota = service.read_quota()  # with which missing credentials are found

        every = plan_runs(study, "any")
        planned = {run.name: run for run in find_runs(every, only, path)}
        on_cpu = [run for run, plan in planned.items() if _is_to_use_cpu(plan.parameters)]
        made = _find_made(folder, service, on_cpu)
        made = {run: row for run, row in made.items() if run in planned}
        rows = {planned[run].run_id: row for run, row in made.items()}
        check_data(folder, planned.values(), rows, root)
        left = [run for run in planned if run not in made]
        if not left:
            say(f"all {len(planned)} runs have been made on {on}")
            return []

        if quota.refusal:
            raise RemoteError(quota.refusal)
        runs = list(planned.values())
        backlog = Backlog(study, folder, runs, every, rows)
        paid_s = backlog.measure_paid_s()
        if refusal := backlog.refuse(paid_s, math.nan):
            raise DrError(f"{path}: {refusal}")
        wanted_hours = max_hours or study.max_hours or math.inf
        hours = min(wanted_hours, backlog.afford_s(paid_s) / 3600, quota.session_hours)
        shortest_s = min(backlog.predict_s([planned[run] for run in left]))
        if shortest_s > 3600 * hours:
            fault = f"a run takes {shortest_s / 60:.0f} min by those that were made"
            raise DrError(
                f"{path}: {fault}, and a session on {on} has {60 * hours:.0f} min now"
            )

        upload = Path(scratch, "upload")
        upload.mkdir()
        pack = pack_up(Path(path), study, root, upload)
        where = f"to {service.name}, for {len(left)} runs on {service.asked}; {service.terms}"
        confirm(f"{pack.describe()}\n{where}")

        session = Session.begin(service, folder, on, left, say)
        with (
            handle_ends(_interrupt) if service.needs_client else nullcontext(),
            session.closing(),
        ):
            service.start(session.name, pack)
            options, prices = session.price(study)
            job = {
                "study": pack.study,
                "session": session.name,
                "platform": service.platform,
                "device": service.pattern,
                "on_cpu": on_cpu,
                "options": options,
                "prices": prices,
            }
            return session.make(job, hours if math.isfinite(hours) else 0.0)


def find_service(on: str, say: Say) -> Service:
    """The service of a name such as colab:T4; other names and old clients are refused."""
    name, _, device = on.partition(":")
    if name not in SERVICES or device not in SERVICES[name][1]:
        names = [
            f"{name}:{device}" for name, (_, devices) in SERVICES.items() for device in devices
        ]
        raise DrError(f"there is no {on!r}: choose from {', '.join(names)}")
    check_client(name)
    return SERVICES[name][0](device, say)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _is_to_use_cpu(parameters: dict[str, Any]) -> bool:
    """Whether a run is to use the processor alone, as Keras does beside CUDA C."""
    is_keras = str(parameters.get("implementation")).startswith("keras_")
    return is_keras or "cpu" in parameters.values()


def _find_made(folder: Path, service: Service, on_cpu: list[str]) -> dict[str, dict[str, Any]]:
    """The rows, by run, that a device has completed, or cannot make."""
    return {
        name_run(row["scenario"], row["repetition"]): row
        for row in read_rows(folder)
        if row["status"] in ("ok", "skipped")
        and far_side.is_on(row, service.platform, service.pattern, on_cpu)
    }


def _close_left_over(folder: Path, say: Say) -> None:
    """Take in and stop what sessions left that were opened here and never closed.

    Raises:
        RemoteError: one cannot be stopped, so that no other is to be allocated.
    """
    for record in [record for record in _read_records(folder) if not record["ended"]]:
        if record["host"] != platform.node():
            where = f"was opened on {record['host']} and not closed"
            say(f"{record['session']} {where}: the same command there does that")
            continue
        say(f"{record['session']} was left by a client that ended early")
        service = find_service(record["on"], say)
        service.read_quota()
        session = Session(service, folder, record, say)
        with session.closing():
            for rows, _ in service.resume(session.name, session.take_in):
                say(f"{len(rows)} rows of it are here now")


def _read_records(folder: Path) -> list[dict[str, Any]]:
    path = folder / RECORD
    return json.loads(path.read_bytes()) if path.exists() else []


class Session:
    """A session of a study on a service, with its record in sessions.json."""

    def __init__(self, service: Service, folder: Path, record: dict[str, Any], say: Say):
        """Take a record of the study's folder, and a way to say what goes on."""
        self.service = service
        self.folder = folder
        self.record = record
        self.name: str = record["session"]
        self.runs: list[str] = record["runs"]
        self._say = say

    @classmethod
    def begin(
        cls, service: Service, folder: Path, on: str, runs: list[str], say: Say
    ) -> "Session":
        """Record a session that is about to be allocated, and say what the account has left."""
        before = service.read_quota()
        now = datetime.now(UTC)
        suffix = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        record = {
            "session": f"dr-{on.replace(':', '-').lower()}-{suffix}",
            "on": on,
            "runs": runs,
            "others": service.list_others(),
            "host": platform.node(),
            "started": now.isoformat(timespec="seconds"),
            "ended": "",
            "unit": before.unit,
            "units_before": before.left,
        }
        session = cls(service, folder, record, say)
        session.save()
        left = f"; {before.left:.2f} {before.unit} are left" if before.unit else ""
        say(f"{session.name} begins{left}")
        return session

    def save(self) -> None:
        """Write the record among those of the study's other sessions."""
        records = [one for one in _read_records(self.folder) if one["session"] != self.name]
        write_json(self.folder / RECORD, [*records, self.record])

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Close the session at the end; where that fails after another error, that is raised."""
        try:
            yield
        except BaseException as error:
            try:
                with undisturbed():
                    self._close(isinstance(error, KeyboardInterrupt))
            except RemoteError as unstopped:
                self._say(str(unstopped))
            raise
        with undisturbed():
            self._close()

    def _close(self, is_interrupted: bool = False) -> None:
        """Stop the session, again while that fails, and write what it took; else it stays open."""
        stop = partial(self.service.stop, self.name, self.record["others"], is_interrupted)
        try:
            is_stopped = insist(stop, STOPS, RETRY_S)
        except RemoteError as error:
            fault = f"{self.name} is not stopped ({error})"
            raise RemoteError(f"{fault}: the next call on this study tries again") from error
        if not is_stopped:
            where = f"stays open on {self.service.name}"
            self._say(f"{self.name} {where}: the same command takes it up again")
            return
        self.record["ended"] = datetime.now(UTC).isoformat(timespec="seconds")
        rows = [row for row in read_rows(self.folder) if row.get("session") == self.name]
        self.record["devices"] = sorted(
            {row.get("accelerator") or row["run_id"] for row in rows}
        )
        with suppress(RemoteError):
            self._say(f"{self.name} is stopped{self._record_cost()}")
        self.save()

    def _record_cost(self) -> str:
        """Read what the session took from the account, and say it; empty if nothing is counted."""
        after = self.service.read_quota()
        self.record["units_after"] = after.left
        self.record.setdefault("units_per_hour", after.per_hour)
        spent = self.record["units_before"] - after.left
        cost = ""
        with suppress(PriceError):
            unit_usd = find_price(f"{self.service.platform} unit").usd_per_hour
            self.record["usd"] = round(spent * unit_usd, 4)
            cost = f", {self.record['usd']:.2f} USD"
        unit = self.record["unit"]
        return f": {spent:.2f} {unit} spent{cost}, {after.left:.2f} left" if unit else ""

    def make(self, job: dict[str, Any], hours: float) -> list[str]:
        """Make the runs, take in what each left, and stop at the first row of another device.

        Args:
            job: see `far_side.make`.
            hours: that the session has, 0 for no limit.

        Returns:
            A sentence for each run that failed.
        """
        failures = {}
        seen = set()
        start = time.monotonic()
        for rows, ended in self.service.make(self.name, job, self.runs, hours, self.take_in):
            for row in rows:
                run = name_run(row["scenario"], row["repetition"])
                seen.add(run)
                self._say(
                    f"{run}: {row['status']}{', ' + row['error'] if row['error'] else ''}"
                )
                if row["status"] == "failed":
                    failures[run] = f"{row['run_id']}: {row['error']}"
                self._check_device(row, job["on_cpu"], run)
            for run in ended.keys() - seen:
                if ended[run]:
                    log = self.folder / "logs" / f"{run}.log"
                    failures[run] = f"{run}: left no row, see {log}"
        if len(seen | failures.keys()) < len(self.runs):
            hours = (time.monotonic() - start) / 3600
            self._say(f"the session is over after {hours:.1f} h; start again to go on")
        return list(failures.values())

    def _check_device(self, row: dict[str, Any], on_cpu: list[str], run: str) -> None:
        """Refuse to go on with another device than the one that was asked for."""
        service = self.service
        if not far_side.is_on(row, service.platform, service.pattern, on_cpu):
            device = f"{row.get('accelerator') or 'another device'} ({row['run_id']})"
            fault = f"{service.name} gave {device} where {service.asked} was asked for"
            raise RemoteError(f"{fault}: {run} is kept")

    def take_in(self, results: Path) -> tuple[list[dict[str, Any]], dict[str, int]]:
        """Put what came back into the study's folder.

        A file that is no row of these runs is none; one of a run that failed never takes the place
        of a completed one.

        Returns:
            Its rows, and the exit status of each run's runner.
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
                            rows += [row] if self._is_ours(row, rest) else []
                    elif (
                        kind in far_side.BROUGHT_BACK and rest and ".." not in Path(rest).parts
                    ):
                        write_bytes(self.folder / name, archive.read(name))
                with suppress(KeyError, ValueError, TypeError):
                    ended = dict(json.loads(archive.read(far_side.ENDED)))
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
            fault = f"{type(error).__name__}: {error}"
            raise RemoteError(f"what came back cannot be taken in: {fault}") from error
        for name in ended.get("left_out", []):
            self._say(f"{name} is left out: it has more than {far_side.MAX_MIB} MiB")
        completed = {row["run_id"] for row in read_rows(self.folder) if row["status"] == "ok"}
        for row in rows:
            if row["status"] == "ok" or row["run_id"] not in completed:
                write_row(self.folder, row)
        return rows, ended.get("status", {})

    def _is_ours(self, row: dict[str, Any], file: str) -> bool:
        """Whether a row is of one of these runs of the study, in the file that it belongs in."""
        run = name_run(row["scenario"], row["repetition"])
        run_id = row["run_id"]
        is_named = file == f"{run_id}.json" and run_id == Path(run_id).name
        is_of_run = run in self.runs and run_id.startswith(f"{run}-")
        return is_named and is_of_run and row["study"] == self.folder.name

    def price(self, study: Study) -> tuple[list[str], str]:
        """What the far side prices its rows by: options of its runner, and a table of prices.

        The table is this machine's own, and holds the machine by the units that it takes an hour.
        """
        own = os.environ.get(PRICES_VARIABLE)
        prices = read_prices(Path(own)) if own else []
        options = ["--instance", study.instance] if study.instance else []
        quota = insist(self.service.read_quota, STOPS, RETRY_S)
        self.record["units_per_hour"] = quota.per_hour
        with suppress(PriceError):
            unit = find_price(f"{self.service.platform} unit")
            if not study.instance and quota.per_hour:
                instance = self.record["on"]
                rate = f"{quota.per_hour} {quota.unit} an hour at {unit.usd_per_hour} USD"
                machine = Price(
                    provider=self.service.name,
                    instance=instance,
                    region="",
                    currency="USD",
                    usd_per_hour=quota.per_hour * unit.usd_per_hour,
                    date=unit.date,
                    source=f"{rate}: {unit.source}",
                )
                prices.append(machine)
                options = ["--instance", instance]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([Price._fields, *prices])
        return options, text.getvalue()
