"""One session on a service: send, run, fetch and delete, the same for each service.

Its record is written before each request. If the client is killed, the next command resumes or
closes that session before it starts another. Its states:

requested  a machine or an upload may exist
running    runs may be in progress, and rows may exist
fetched    the results are downloaded; the upload may still exist
closed     nothing is left at the service
"""

import json
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from dr_lib.files import write_json, write_text
from dr_lib.rooms.remote import remote_script
from dr_lib.rooms.remote.client import (
    WAITS,
    Client,
    RemoteError,
    defer_ctrl_c,
)
from dr_lib.runs.row import read_left, write_row

RUNNING = "running"


class Device(NamedTuple):
    """A device of a service."""

    options: tuple[str, ...]  # of the client
    pattern: str  # of what a row calls it, see `remote_script.is_on`


@dataclass
class Record:
    """A session of a study."""

    session: str
    on: str
    host: str
    started: str
    hours: float = 0.0  # limit, 0 without one
    runs: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)  # machines that the account had before
    state: str = "closed"
    ended: str = ""
    made: list[str] = field(default_factory=list)  # runs whose results are here

    def save(self, folder: Path) -> None:
        """Write the record next to those of the study's other sessions."""
        records = [one for one in read_records(folder) if one.session != self.session]
        write_json(folder / "sessions.json", [asdict(one) for one in [*records, self]])


def read_records(folder: Path) -> list[Record]:
    """Read the sessions of a study's folder; of older records, the fields still in use."""
    path = folder / "sessions.json"
    if not path.exists():
        return []
    names = {one.name for one in fields(Record)}
    written = json.loads(path.read_bytes())
    return [Record(**{name: one[name] for name in names & one.keys()}) for one in written]


class Session(Client):
    """A session of a study. The class of a service adds six methods:

    prepare    read what the session needs to know of the account; describe, for the user, who sees
               the upload, what is left there, and the maximum cost
    send       upload a folder and start the remote script, from the state running on
    look       the state (RUNNING, complete, or a word for its failure) and the lines of output
               after those that were shown
    is_gone    whether the account does not have the session
    fetch      download results of runs into a folder
    delete     delete everything at the service and say what has become of it; a RemoteError says
               what is left, and how to delete it by hand; never finished rows
    """

    name = ""
    devices: dict[str, Device]
    home = ""  # folders on the machine: of the repository, and of the results
    results = ""
    is_unattended = False  # it goes on without the client, and rows come at its end

    def __init__(self, record: Record, folder: Path, say: Callable[[str], object]):
        """Take a record, the study's folder, and a function that prints progress."""
        super().__init__(say)
        self.record = record
        self.folder = folder
        self.log: list[str] = []
        self.device = record.on.partition(":")[2]
        self.options, self.pattern = self.devices[self.device]

    def reach(self, state: str) -> None:
        """Record the state of the session."""
        self.record.state = state
        self.record.save(self.folder)

    def make(self, folder: Path | None = None) -> list[str]:
        """Resume at the record's state until the session is closed or must stay open.

        Args:
            folder: what a new session uploads.

        Returns:
            A sentence for each run that failed.
        """
        failures: list[str] = []
        try:
            if folder:
                self.send(folder)
            if self.record.state == "running":
                self._watch(failures)
            self.reach("fetched")
        except BaseException as error:
            with defer_ctrl_c():
                self._end_after(error)
            raise
        with defer_ctrl_c():
            self.close()
        return failures

    def _end_after(self, error: BaseException) -> None:
        """Close the session, unless it continues alone and may still deliver rows."""
        is_interrupted = isinstance(error, KeyboardInterrupt)
        if getattr(error, "is_final", False):
            self.reach("fetched")
        if self.is_unattended and self.record.state == "running" and not is_interrupted:
            where = f"stays open on {self.name}"
            self.say(f"{self.record.session} {where}: repeat the command to resume it")
            return
        try:
            self.close(WAITS.hurry if is_interrupted else None)
        except RemoteError as unclosed:
            self.say(str(unclosed))

    def close(self, patience_s: float | None = None) -> None:
        """Delete everything at the service; if that fails the session stays open."""
        record = self.record
        try:
            outcome = self.retry(self.delete, patience_s=patience_s)
        except RemoteError as error:
            fault = f"{record.session} is not closed ({error})"
            raise RemoteError(f"{fault}: repeat the command to resume it") from error
        self.say(f"{record.session} {outcome}")
        record.ended = datetime.now(UTC).isoformat(timespec="seconds")
        self.reach("closed")

    def _watch(self, failures: list[str]) -> None:
        """Print the remote output and copy the results until the session has ended."""
        record = self.record
        status = RUNNING
        while status == RUNNING:
            status, lines = self._look()
            self.log += lines
            for line in lines[-20:]:
                self.say(line)
            write_text(self.folder / "logs" / f"{record.session}.log", "\n".join(self.log))
            if status != RUNNING or not self.is_unattended:
                self.retry(self.fetch_ended, status, failures)
        if status != "complete":
            errors = [line for line in self.log if re.match(r"[\w.]*(Error|Exception)\b", line)]
            (*_, why) = errors or self.log or ["it does not say why"]
            fault = f"{record.session} ended as {status} on {self.name}"
            if not record.made:
                raise RemoteError(f"{fault} and left no row: {why[:300]}", is_final=True)
            self.say(f"{fault}: {why[:300]}")
        if len(record.made) < len(record.runs):
            self.say("the session is over; repeat the command to make the remaining runs")

    def _look(self) -> tuple[str, list[str]]:
        """Look; a final error says that the session no longer exists."""
        try:
            return self.retry(self.look, len(self.log))
        except RemoteError as error:
            if error.is_final or not self.is_gone():
                raise
            fault = f"{self.record.session} is gone from {self.name}"
            raise RemoteError(f"{fault}; received rows are saved", is_final=True) from error

    def fetch_ended(self, status: str, failures: list[str]) -> None:
        """Download and copy the results of ended runs; raise if any are missing or broken."""
        made = self.record.made
        ended = {line.partition(remote_script.HAS_ENDED)[0] for line in self.log}
        if status == "complete" and not self.log:  # it could not be read
            ended = set(self.record.runs[:1])
        runs = [run for run in self.record.runs if run in ended and run not in made]
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            if runs or self.is_unattended:
                self.fetch(runs, folder)
            for results in sorted(folder.glob("*.zip")):
                if results.stem not in made:
                    failures += self.copy_results(results)
        missing = [run for run in runs if run not in made]
        if missing and status in (RUNNING, "complete"):
            raise RemoteError(f"{self.name} returned no rows for {', '.join(missing)}")

    def copy_results(self, results: Path) -> list[str]:
        """Copy a run's files to the study's folder; return a sentence if the run failed.

        A row of another run or study is ignored; a failed one never replaces a completed one.

        Raises:
            RemoteError: they are broken; or, which is final, of another device than requested.
        """
        run = results.stem
        with tempfile.TemporaryDirectory() as scratch:
            received = Path(scratch)
            try:
                shutil.unpack_archive(results, received, "zip")  # nothing beside that folder
            except (zipfile.BadZipFile, shutil.ReadError, zlib.error, EOFError) as error:
                raise RemoteError(f"the download is invalid: {error}") from error
            rows = read_left(received, f"{run}-*").values()
            for kind in remote_script.BROUGHT_BACK:
                if kind != "rows" and (received / kind).exists():
                    shutil.copytree(received / kind, self.folder / kind, dirs_exist_ok=True)
        row = next((row for row in rows if row["study"] == self.folder.name), {})
        name = row.get("run_id", "")
        is_known = read_left(self.folder).get(name, {}).get("status") == "ok"
        if row and (row["status"] == "ok" or not is_known):
            write_row(self.folder, row)
        self.record.made.append(run)
        self.record.save(self.folder)
        if not row:
            return [f"{run}: left no row, see {self.folder}/logs/{run}.log"]
        self.say(f"{name}: {row['status']} {row['error']}".strip())
        if not remote_script.is_on(row, self.platform, self.pattern):
            device = f"{row.get('accelerator') or 'another device'} ({name})"
            fault = f"{self.name} gave {device} instead of the requested {self.device}"
            raise RemoteError(f"{fault}: {run} is kept", is_final=True)
        return [f"{name}: {row['error']}"] if row["status"] == "failed" else []
