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
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from dr_lib.errors import DrError
from dr_lib.files import write_json, write_text
from dr_lib.rooms.remote.client import WAITS, Client, RemoteError, defer_ctrl_c
from dr_lib.rooms.remote.remote_script import HAS_ENDED, is_on
from dr_lib.runs.row import read_left, write_row


class Device(NamedTuple):
    """A device of a service."""

    options: str  # of the client
    pattern: str  # of what a row calls it, see `remote_script.is_on`


class Record(BaseModel):
    """A session of a study; fields that older versions wrote besides are left out."""

    session: str
    on: str
    host: str
    started: str
    hours: float = 0.0  # limit of its runs
    runs: list[str] = []
    others: list[str] = []  # machines that the account had before
    state: str = "closed"
    ended: str = ""
    made: list[str] = []  # runs whose results are here


def read_records(folder: Path) -> list[Record]:
    """Read the sessions of a study's folder."""
    path = folder / "sessions.json"
    return [Record(**one) for one in json.loads(path.read_bytes())] if path.exists() else []


class Session(Client):
    """A session of a study. The class of a service adds what `Client` needs, and

    name       the service's
    devices    by the words behind the colon of --on
    home       the repository's folder on the machine
    results    the folder on the machine that keeps results
    prepare    read what the session needs to know of the account; describe, for the user, who sees
               the upload, what is left there, and the maximum cost
    send       upload a folder and start the remote script, from the state running on
    look       the state (running, complete, or a word for its failure) and the lines of output
               after those that were shown
    is_gone    whether the account does not have the session
    fetch      download results of runs into a folder
    delete     delete everything at the service and say what has become of it; a RemoteError says
               what is left, and how to delete it by hand; never finished rows
    """

    is_unattended = False  # it goes on without the client, and rows come at its end

    def __init__(self, record: Record, folder: Path, say: Callable[[str], object]):
        """Take a record, the study's folder, and a function that prints progress."""
        self.record = record
        self.folder = folder
        self.say = say
        self.log: list[str] = []
        self.failures: list[str] = []  # a sentence for each run that failed
        self.device = record.on.partition(":")[2]
        self.options, self.pattern = self.devices[self.device]

    def reach(self, state: str) -> None:
        """Record the state of the session, beside the study's other sessions."""
        self.record.state = state
        others = [
            one for one in read_records(self.folder) if one.session != self.record.session
        ]
        records = [one.model_dump() for one in [*others, self.record]]
        write_json(self.folder / "sessions.json", records)

    def make(self, upload: Path | None = None) -> list[str]:
        """Resume at the record's state until the session is closed or must stay open.

        Args:
            upload: the folder that a new session uploads.

        Returns:
            A sentence for each run that failed.
        """
        try:
            if upload:
                self.send(upload)
            if self.record.state == "running":
                self._watch()
            self.reach("fetched")
        except BaseException as error:
            with defer_ctrl_c():
                self._end_after(error)
            raise
        with defer_ctrl_c():
            self.close()
        return self.failures

    def _end_after(self, error: BaseException) -> None:
        """Close the session, unless it continues alone and may still deliver rows."""
        is_interrupted = isinstance(error, KeyboardInterrupt)
        if self.is_unattended and self.record.state == "running" and not is_interrupted:
            where = f"stays open on {self.name}"
            self.say(f"{self.record.session} {where}: repeat the command to resume it")
            return
        try:
            self.close(WAITS.hurry if is_interrupted else None)
        except DrError as unclosed:
            self.say(str(unclosed))

    def close(self, patience_s: float | None = None) -> None:
        """Delete everything at the service; if that fails the session stays open."""
        record = self.record
        try:
            outcome = self.retry(self.delete, patience_s=patience_s)
        except DrError as error:
            fault = f"{record.session} is not closed ({error})"
            raise DrError(f"{fault}: repeat the command to resume it") from error
        self.say(f"{record.session} {outcome}")
        record.ended = datetime.now(UTC).isoformat(timespec="seconds")
        self.reach("closed")

    def give_up(self, fault: str) -> None:
        """Raise an error that no retry mends, as no more rows will come."""
        self.reach("fetched")
        raise DrError(fault)

    def _watch(self) -> None:
        """Print the remote output and copy the results until the session has ended."""
        record = self.record
        status = "running"
        while status == "running":
            status, lines = self._look()
            self.log += lines
            for line in lines[-20:]:
                self.say(line)
            write_text(self.folder / "logs" / f"{record.session}.log", "\n".join(self.log))
            if status != "running" or not self.is_unattended:
                self.retry(self.fetch_ended, status)
        if status != "complete":
            errors = [line for line in self.log if re.match(r"[\w.]*(Error|Exception)\b", line)]
            (*_, why) = errors or self.log or ["it does not say why"]
            fault = f"{record.session} ended as {status} on {self.name}"
            if not record.made:
                self.give_up(f"{fault} and left no row: {why[:300]}")
            self.say(f"{fault}: {why[:300]}")
        if len(record.made) < len(record.runs):
            self.say("the session is over; repeat the command to make the remaining runs")

    def _look(self) -> tuple[str, list[str]]:
        """Look, and give up a session that no longer exists."""
        try:
            return self.retry(self.look, len(self.log))
        except RemoteError:
            if self.is_gone():
                fault = f"{self.record.session} is gone from {self.name}"
                self.give_up(f"{fault}; received rows are saved")
            raise

    def fetch_ended(self, status: str) -> None:
        """Download and copy the results of ended runs; raise if any are missing or broken."""
        made = self.record.made
        ended = {line.partition(HAS_ENDED)[0] for line in self.log}
        if status == "complete" and not self.log:  # it could not be read
            ended = set(self.record.runs[:1])
        runs = [run for run in self.record.runs if run in ended and run not in made]
        with tempfile.TemporaryDirectory() as scratch:
            self.fetch(runs, Path(scratch))
            for results in sorted(Path(scratch).glob("*.zip")):
                if results.stem not in made:
                    self.copy_results(results)
        missing = [run for run in runs if run not in made]
        if missing and status in ("running", "complete"):
            raise RemoteError(f"{self.name} returned no rows for {', '.join(missing)}")

    def copy_results(self, results: Path) -> None:
        """Copy a run's files to the study's folder, and note what failed.

        A row of another run or study is ignored; a failed one never replaces a completed one.

        Raises:
            RemoteError: they are broken.
        """
        run = results.stem
        with tempfile.TemporaryDirectory() as scratch:
            received = Path(scratch)
            try:
                shutil.unpack_archive(results, received, "zip")  # nothing beside that folder
            except (zipfile.BadZipFile, shutil.ReadError, zlib.error, EOFError) as error:
                raise RemoteError(f"the download is invalid: {error}") from error
            rows = read_left(received, f"{run}-*").values()
            shutil.rmtree(received / "rows", ignore_errors=True)
            shutil.copytree(received, self.folder, dirs_exist_ok=True)
        rows = [row for row in rows if row["study"] == self.folder.name]
        if not rows:
            self.failures.append(f"{run}: left no row, see {self.folder}/logs/{run}.log")
        for row in rows:
            name = row["run_id"]
            known = read_left(self.folder, name).values()
            if row["status"] == "ok" or "ok" not in [one["status"] for one in known]:
                write_row(self.folder, row)
            self.say(f"{name}: {row['status']} {row['error']}".strip())
            if not is_on(row, self.platform, self.pattern):
                device = f"{row.get('accelerator') or 'another device'} ({name})"
                fault = f"{self.name} gave {device} instead of the requested {self.device}"
                self.failures.append(f"{fault}: {run} is kept")
            elif row["status"] == "failed":
                self.failures.append(f"{name}: {row['error']}")
        self.record.made.append(run)
        self.reach(self.record.state)
