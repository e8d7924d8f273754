"""One session on a cloud service: announce the upload, upload, run, fetch and close.

Its record is in the study's sessions.json before the service is asked, and says how far it is: what
a client that was killed left is taken up, or closed, by the next call, and no session besides.
"""

import json
import math
import platform
import re
import secrets
import shutil
import signal
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from dr_lib.errors import DrError
from dr_lib.files import write_text
from dr_lib.rooms.remote import colab, kaggle, remote_script
from dr_lib.rooms.remote.client import (
    RUNNING,
    Look,
    Quota,
    RemoteError,
    Say,
    check_client,
    handle_ends,
    insist,
    undisturbed,
)
from dr_lib.rooms.remote.pack import NAME, Pack, pack_up
from dr_lib.rooms.remote.record import Record, read_records
from dr_lib.runs.backlog import Backlog
from dr_lib.runs.folder import check_data, check_notebook, keep_for, lock_study
from dr_lib.runs.prices import PriceError, find_price
from dr_lib.runs.row import Row, RowError, read_row, read_rows, write_row
from dr_lib.runs.study import Study, find_results, find_runs, load_study, name_run, plan_runs

SERVICES = {"colab": (colab.Colab, colab.DEVICES), "kaggle": (kaggle.Kaggle, kaggle.DEVICES)}
# the one session of each; every error is a RemoteError of one sentence
Service = colab.Colab | kaggle.Kaggle
HURRY_S = 20.0  # of patience after Ctrl-C
SHOWN_LINES = 20  # at once, of what the far side printed
SILENCE = timedelta(minutes=10)  # until it is said
ERROR = re.compile(r"[\w.]*(Error|Exception|Exit)\b")


class Plan(NamedTuple):
    """The plan of a session."""

    made: dict[str, Row]  # by run
    left: list[str]
    on_cpu: list[str]  # runs that are to use the processor alone
    hours: float  # of the session, infinite without a limit


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
    on_cpu: bool = False,
) -> list[str]:
    """Execute, in one session, the runs of a study not yet completed on a service's device.

    Rows, executed notebooks, logs and what the runs leave go to the study's folder, where
    `run_study` would put them. A run that the session's end cuts off is made again in the next.

    Args, and what is returned, are those of `run_study`, besides:
        on: service and device, such as colab:T4.
        confirm: is given what will be uploaded where, and raises if that is not to be.
        say: is given each line on what goes on.
        max_hours: of the session.

    Raises:
        DrError: the study is not valid, or no such device can be asked for.
        RemoteError: the service did not do what was asked; what came back until then is here, and
            what runs on was said.
    """
    service = find_service(on, say)
    folder = find_results(path)
    with lock_study(folder), tempfile.TemporaryDirectory() as scratch:
        kept = _take_up(folder, say)
        study = load_study(path, root, instance=instance)
        if study.needs and on.endswith(":cpu") and not on_cpu:
            names = " or ".join(map(str.upper, study.needs))
            raise DrError(
                f"{path} needs a {names}: choose another device than {on}, or --on-cpu"
            )
        keep_for(folder, study)
        check_notebook(study, root, read_rows(folder), allow)
        quota = service.read_quota()  # with which missing credentials are found
        plan = _plan(service, study, path, root, only, quota, max_hours)
        if not plan.left:
            for session in kept:
                session.close()
            say(f"all {len(plan.made)} runs are already completed on {on}")
            for reason in {row["error"]: "" for row in plan.made.values() if row["error"]}:
                say(f"scenarios skipped there: {reason}")
            return []

        pack = pack_up(Path(path), study, root, Path(scratch))
        where = f"to {service.name}, for {len(plan.left)} runs on {service.asked}"
        becomes = service.describe(pack, quota, plan.hours)
        confirm(f"{pack.describe()}; of your prices only this machine's\n{where}\n{becomes}")
        now = datetime.now(UTC)
        name = f"dr-{on.replace(':', '-').lower()}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        record = Record(
            session=name,
            on=on,
            runs=plan.left,
            host=platform.node(),
            started=now.isoformat(timespec="seconds"),
            others=service.list_others(),
            pack=pack.hash(),
            hours=plan.hours if math.isfinite(plan.hours) else 0.0,
            unit=quota.unit,
            units_before=quota.left,
            units_per_hour=quota.per_hour,
            job={
                "home": service.home,
                "study": pack.study,
                "session": name,
                "platform": service.platform,
                "device": service.pattern,
                "on_cpu": plan.on_cpu,
                "needs_nothing": on_cpu,
                "instance": study.instance,
                "prices": "",
            },
        )
        session = Session(service, folder, record, say)
        session.reach("asked")
        say(f"{name} begins")
        for old in kept:
            old.close(keep=record.pack)
        return session.make(pack)


def find_service(on: str, say: Say) -> Service:
    """Find the service by a name such as colab:T4; refuse other names and old clients."""
    known = [f"{name}:{device}" for name in SERVICES for device in SERVICES[name][1]]
    if on not in known:
        raise DrError(f"unknown device {on!r}: choose from {', '.join(known)}")
    name, _, device = on.partition(":")
    check_client(name)
    return SERVICES[name][0](device, say)


def _plan(
    service: Service,
    study: Study,
    path: Path,
    root: Path,
    only: str,
    quota: Quota,
    max_hours: float | None,
) -> Plan:
    """Find the runs left for this device, and the hours that a session may have.

    Raises:
        DrError: quota or max_hours hold no run.
    """
    folder = find_results(path)
    every = plan_runs(study, "any")
    planned = {run.name: run for run in find_runs(every, only, path)}
    on_cpu = [run for run, plan in planned.items() if _is_to_use_cpu(plan.parameters)]
    made = {}  # or cannot be made there
    skipped = {}  # a row for all runs of its scenario
    for row in read_rows(folder):
        run = name_run(row["scenario"], row["repetition"])
        is_on = remote_script.is_on(row, service.platform, service.pattern, on_cpu)
        if row["status"] == "ok" and is_on and run in planned:
            made[run] = row
        elif row["status"] == "skipped" and is_on:
            skipped[row["scenario"]] = row
    for name, run in planned.items():
        if run.scenario in skipped:
            made.setdefault(name, skipped[run.scenario])
    rows = {planned[run].run_id: row for run, row in made.items()}
    check_data(folder, planned.values(), rows, root)
    left = [run for run in planned if run not in made]
    if not left:
        return Plan(made, left, on_cpu, 0.0)
    if quota.session_hours < remote_script.LEAST_HOURS:
        fault = f"{quota.left:.2f} {quota.unit} are left on {service.name} until {quota.until}"
        raise RemoteError(f"{fault}, too few for a session")
    backlog = Backlog(study, folder, list(planned.values()), every, rows)
    hours = min(max_hours or study.max_hours or math.inf, quota.session_hours)
    shortest_s = min(backlog.predict_s([planned[run] for run in left]))
    if shortest_s > 3600 * hours:
        fault = f"a run takes {shortest_s / 60:.0f} min, judged by finished runs"
        where = f"{service.platform}:{service.asked}"
        raise DrError(f"{path}: {fault}, and a session on {where} has {60 * hours:.0f} min now")
    return Plan(made, left, on_cpu, hours)


def _is_to_use_cpu(parameters: dict[str, Any]) -> bool:
    """Whether a run is meant to use only the processor, as Keras does in the CUDA C study."""
    is_keras = str(parameters.get("implementation")).startswith("keras_")
    return is_keras or "cpu" in parameters.values()


def _take_up(folder: Path, say: Say) -> list["Session"]:
    """Resume sessions that were started here and are not closed; return those of which only the
    upload
    is left.

    Raises:
        RemoteError: one cannot be closed, so that no other is to be begun.
    """
    kept = []
    for record in read_records(folder):
        if record.state == "closed":
            continue
        if record.host != platform.node():
            where = f"was opened on {record.host} and not closed"
            say(f"{record.session} {where}: repeat the command there to close it")
            continue
        session = Session(find_service(record.on, say), folder, record, say)
        if record.state != "fetched" or not session.service.goes_on_alone:
            say(f"{record.session} was left {record.state} by a client that ended early")
            for failure in session.make():
                say(failure)
        if record.state == "fetched":
            kept.append(session)
    return kept


class Session:
    """A session of a study on a service, with its record."""

    def __init__(self, service: Service, folder: Path, record: Record, say: Say):
        """Take a record of the study's folder, and a function that prints progress."""
        self.service = service
        self.folder = folder
        self.record = record
        self._say = say

    def reach(self, state: str) -> None:
        """Record the state of the session."""
        self.record.state = state
        self.record.save(self.folder)

    def make(self, pack: Pack | None = None) -> list[str]:
        """Resume at the record's state until the session is closed or must stay open.

        Args:
            pack: what a new session uploads.

        Returns:
            A sentence for each run that failed.
        """
        record = self.record
        failures = []
        is_alone = self.service.goes_on_alone
        with nullcontext() if is_alone else handle_ends(signal.default_int_handler):
            try:
                if pack:
                    self.service.upload(record, pack)
                    self.reach("up")
                    script = self._write_script(pack.folder)
                    self.reach("running")
                    self.service.start(record, script)
                if record.state == "running":
                    failures = self._watch()
                self.reach("fetched")
            except BaseException as error:
                with undisturbed():
                    self._end_after(error)
                raise
            if is_alone and len(record.made) < len(record.runs):
                self._say(f"{record.session} keeps the upload for the next call")
            else:
                with undisturbed():
                    self.close()
        return failures

    def _end_after(self, error: BaseException) -> None:
        """Close the session, unless it continues alone and may still deliver rows; report what
        stays.
        """
        record = self.record
        is_interrupted = isinstance(error, KeyboardInterrupt)
        if getattr(error, "is_final", False):
            self.reach("fetched")
        try:
            if self.service.goes_on_alone and record.state == "running" and not is_interrupted:
                where = f"stays open on {self.service.name}"
                self._say(f"{record.session} {where}: repeat the command to resume it")
            else:
                self.close(patience_s=HURRY_S if is_interrupted else None)
        except RemoteError as unclosed:
            self._say(str(unclosed))

    def close(self, keep: str = "", patience_s: float | None = None) -> None:
        """Close the session at the service and record its cost; if that fails it stays open.

        Args:
            keep: hash of the upload that the next session needs.
            patience_s: with a service that does not answer.
        """
        record = self.record
        try:
            said = insist(partial(self.service.close, record, keep), self._say, patience_s)
        except RemoteError as error:
            fault = f"{record.session} is not closed ({error})"
            raise RemoteError(f"{fault}: repeat the command to resume it") from error
        record.ended = datetime.now(UTC).isoformat(timespec="seconds")
        with suppress(RemoteError):
            said += self._record_cost()
        self._say(f"{record.session} {said}")
        self.reach("closed")

    def _record_cost(self) -> str:
        """Read and describe what the session cost the account; empty if nothing is counted."""
        record = self.record
        after = self.service.read_quota()
        if not (record.unit and after.unit):
            return ""
        record.units_after = after.left
        spent = record.units_before - after.left
        cost = ""
        with suppress(PriceError):
            price = find_price(f"{self.service.platform} unit")
            record.usd = round(spent * price.usd_per_hour, 4)
            cost = f", {record.usd:.2f} USD"
        return f"; {spent:.2f} {record.unit} spent{cost}, {after.left:.2f} left"

    def _write_script(self, folder: Path) -> Path:
        """Write the remote script with its job and the price of its rows, from the study's
        machine or from
        the units per hour.
        """
        service = self.service
        record = self.record
        job = record.job
        with suppress(PriceError):
            price = find_price(job["instance"] or f"{service.platform} unit")
            if not job["instance"]:
                hourly = f"{record.units_per_hour} {record.unit} an hour"
                price = price._replace(
                    instance=record.on,
                    usd_per_hour=record.units_per_hour * price.usd_per_hour,
                    source=f"{hourly} at {price.usd_per_hour} USD: {price.source}",
                )
            if price.usd_per_hour:
                job["instance"] = price.instance
                job["prices"] = pd.DataFrame([price]).to_csv(index=False)
        set_up = f"set_up({service.home!r}, {service.uploads!r}, {NAME!r})"
        what = f"{job!r}, {record.runs!r}, {record.hours!r}, {service.results!r}"
        source = Path(remote_script.__file__).read_text(encoding="utf-8")
        script = folder / "remote_script.py"
        main = f"if __name__ == '__main__':\n    {set_up}\n    make_all({what})\n"
        script.write_text(f"{source}\n\n{main}", encoding="utf-8")
        return script

    def _watch(self) -> list[str]:
        """Print the remote output and take in the results of its runs until it has ended.

        Returns:
            A sentence for each run that failed.
        """
        record = self.record
        service = self.service
        log: list[str] = []
        failures: list[str] = []
        heard = due = datetime.now()
        status = RUNNING
        while status == RUNNING:
            status, lines, why = self._look(len(log))
            log += lines
            for line in lines[-SHOWN_LINES:]:
                self._say(line)
            write_text(self.folder / "logs" / f"{record.session}.log", "\n".join(log))
            now = datetime.now()
            if lines:
                heard = due = now
            elif status == RUNNING and now - due > SILENCE:
                due = now
                self._say(
                    f"{service.name} reports that it runs; its last output was at {heard:%H:%M}"
                )
            if status != RUNNING or not service.goes_on_alone:
                ended = {line.partition(remote_script.HAS_ENDED)[0] for line in log}
                if status == "complete" and not log:  # it could not be read
                    ended = set(record.runs[:1])
                new = [run for run in record.runs if run in ended and run not in record.made]
                insist(partial(self._fetch, new, status, failures), self._say)
        if status != "complete":
            raised = [line for line in log if ERROR.match(line)] or log
            why = "; ".join([*filter(None, [why]), *raised[-1:]]) or "it does not say why"
            fault = f"{record.session} ended as {status} on {service.name}"
            if not record.made:
                raise RemoteError(f"{fault} and left no row: {why[:300]}", is_final=True)
            self._say(f"{fault}: {why[:300]}")
        if len(record.made) < len(record.runs):
            self._say("the session is over; start again to resume")
        return failures

    def _look(self, shown: int) -> Look:
        """Return the remote state and the lines printed since the last look.

        Raises:
            RemoteError: no answer for long, or no such session and none in the account's list.
        """
        try:
            return insist(partial(self.service.look, self.record, shown), self._say)
        except RemoteError as error:
            if error.is_final or not self.service.is_gone(self.record, error):
                raise
            fault = f"{self.record.session} is gone from {self.service.name}"
            raise RemoteError(f"{fault}; what came is here", is_final=True) from error

    def _fetch(self, ended: list[str], status: str, failures: list[str]) -> None:
        """Take in the results of ended runs.

        Raises:
            RemoteError: a row is of another device than the one that was asked for.
            RemoteError: something is missing, or broken.
        """
        with tempfile.TemporaryDirectory() as folder:
            for results in self.service.fetch(self.record, ended, Path(folder)):
                if failure := self.take_in(results):
                    failures.append(failure)
        missing = sorted(set(ended) - set(self.record.made))
        if missing and status in (RUNNING, "complete"):
            raise RemoteError(f"{self.service.name} gave nothing of {', '.join(missing)}")

    def take_in(self, results: Path) -> str:
        """Move a run's files to the study's folder; return a sentence if the run failed.

        A row of another run or study is none; one that failed never takes the place of a
        completed one.
        """
        record = self.record
        service = self.service
        with tempfile.TemporaryDirectory() as scratch:
            left = Path(scratch)
            try:
                shutil.unpack_archive(results, left, "zip")  # nothing beside that folder
                ended = json.loads((left / remote_script.ENDED).read_bytes())
            except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
                fault = f"{type(error).__name__}: {error}"
                raise RemoteError(f"what came back cannot be taken in: {fault}") from error
            run = ended["run"]
            row: Row = {}
            for path in left.glob(f"rows/{run}-*.json"):
                with suppress(RowError):
                    found = read_row(path)
                    if (found["study"], found["run_id"]) == (self.folder.name, path.stem):
                        row = found
            for kind in remote_script.BROUGHT_BACK:
                if kind != "rows" and (left / kind).exists():
                    shutil.copytree(left / kind, self.folder / kind, dirs_exist_ok=True)
        for name in ended["left_out"]:
            self._say(f"{name} is left out: it has more than {remote_script.MAX_MIB} MiB")
        completed = {old["run_id"] for old in read_rows(self.folder) if old["status"] == "ok"}
        if row and (row["status"] == "ok" or row["run_id"] not in completed):
            write_row(self.folder, row)
        record.made.append(run)
        record.save(self.folder)
        if not row:
            log = self.folder / "logs" / f"{run}.log"
            return f"{run}: left no row, see {log}" if ended["status"] else ""
        self._say(f"{run}: {', '.join(filter(None, [row['status'], row['error']]))}")
        if not remote_script.is_on(
            row, service.platform, service.pattern, record.job["on_cpu"]
        ):
            device = f"{row.get('accelerator') or 'another device'} ({row['run_id']})"
            fault = f"{service.name} gave {device} instead of the requested {service.asked}"
            raise RemoteError(f"{fault}: {run} is kept", is_final=True)
        return f"{row['run_id']}: {row['error']}" if row["status"] == "failed" else ""
