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
from collections.abc import Sequence
from dataclasses import InitVar, asdict
from pathlib import Path

from click import echo
from pydantic.dataclasses import dataclass

from dr_lib.errors import DrError
from dr_lib.files import write_json, write_text
from dr_lib.remote.client import (
    WAITS,
    Client,
    RemoteError,
    defer_ctrl_c,
    find_sentence,
    retry,
)
from dr_lib.remote.remote_script import HAS_ENDED, is_on
from dr_lib.runs.row import read_left, write_row


def read_records(folder: Path) -> list[dict]:
    """Read the records of a study's sessions, which are their fields."""
    path = folder / "sessions.json"
    return json.loads(path.read_bytes()) if path.exists() else []


@dataclass  # pydantic's, which leaves out what older versions recorded besides
class Session(Client):
    """A session of a study. The class of a service adds what `Client` needs, and

    name       the service's
    devices    by the words behind the colon of --on: options of the client, and a pattern of what
               a row calls it, see `remote_script.is_on`
    by_hand    how to delete what is left
    prepare    read what the session needs to know of the account; describe, for the user, who sees
               the upload, what is left there, and the maximum cost
    send       upload a folder and start the remote script, from the state running on
    look       the state (running, complete, or a word for its failure) and the lines of output
               after those that were shown
    is_gone    whether the account does not have the session
    fetch      download results of runs into a folder
    delete     delete everything at the service and say what has become of it; never finished rows
    """

    folder: InitVar[Path]  # of the study
    session: str
    on: str
    host: str
    hours: float  # limit of its runs
    runs: Sequence[str] = ()
    others: Sequence[str] = ()  # machines that the account had before
    state: str = "requested"
    made: Sequence[str] = ()  # runs whose results are here

    is_unattended = False  # it goes on without the client, and rows come at its end

    def __post_init__(self, folder: Path) -> None:
        """Begin without output."""
        self.folder = folder
        self.log = []  # lines of its output
        self.failures = []  # a sentence for each run that failed
        self.device = self.on.partition(":")[2]
        self.options, self.pattern = self.devices[self.device]

    def reach(self, state: str) -> None:
        """Record the state of the session, beside the study's other sessions."""
        self.state = state
        records = {one["session"]: one for one in read_records(self.folder)}
        records[self.session] = asdict(self)
        write_json(self.folder / "sessions.json", [*records.values()])

    def make(self, upload: Path | None = None) -> list[str]:
        """Resume at the recorded state until the session is closed or must stay open.

        Args:
            upload: the folder that a new session uploads.

        Returns:
            A sentence for each run that failed.
        """
        fault = None
        try:
            if upload:
                self.send(upload)
            if self.state == "running":
                self._watch()
            self.reach("fetched")
        except BaseException as error:
            fault = error
        with defer_ctrl_c():
            self._close(fault)
        if fault:
            raise fault
        return self.failures

    def _close(self, error: BaseException | None) -> None:
        """Delete everything at the service; if that fails the session stays open.

        After an error, so does one that continues alone and may still deliver rows.
        """
        is_interrupted = isinstance(error, KeyboardInterrupt)
        is_left = self.is_unattended and self.state == "running" and not is_interrupted
        if error and is_left:
            where = f"stays open on {self.name}"
            echo(f"{self.session} {where}: repeat the command to resume it")
            return
        try:
            patience_s = WAITS.hurry if is_interrupted else WAITS.patience
            outcome = retry(self.delete, patience_s=patience_s)
        except DrError as unclosed:
            fault = f"{self.session} is not closed ({unclosed})"
            fault += f": repeat the command to resume it, or {self.by_hand}"
            if not error:
                raise DrError(fault) from unclosed
            echo(fault)
            return
        echo(f"{self.session} {outcome}")
        self.reach("closed")

    def give_up(self, fault: str) -> None:
        """Raise an error that no retry mends, as no more rows will come."""
        self.reach("fetched")
        raise DrError(fault)

    def _watch(self) -> None:
        """Print the remote output and copy the results until the session has ended."""
        status = "running"
        while status == "running":
            try:
                status, lines = retry(self.look, len(self.log))
            except RemoteError:
                if self.is_gone():
                    fault = f"{self.session} is gone from {self.name}"
                    self.give_up(f"{fault}; received rows are saved")
                raise
            self.log += lines
            for line in lines[-20:]:
                echo(line)
            text = "\n".join(self.log)
            write_text(self.folder / "logs" / f"{self.session}.log", text)
            if status != "running" or not self.is_unattended:
                retry(self.fetch_ended, status)
        if status != "complete":
            errors = re.findall(r"^[\w.]*(?:Error|Exception)\b.*", text, re.MULTILINE)
            why = find_sentence("\n".join(errors) or text)[:300]
            fault = f"{self.session} ended as {status} on {self.name}"
            if not self.made:
                self.give_up(f"{fault} and left no row: {why}")
            echo(f"{fault}: {why}")
        if len(self.made) < len(self.runs):
            echo("the session is over; repeat the command to make the remaining runs")

    def fetch_ended(self, status: str) -> None:
        """Download and copy the results of ended runs; raise if any are missing or broken."""
        ended = {line.partition(HAS_ENDED)[0] for line in self.log}
        if status == "complete" and not self.log:  # it could not be read
            ended = {*self.runs[:1]}
        runs = ended & {*self.runs} - {*self.made}
        with tempfile.TemporaryDirectory() as scratch:
            self.fetch(runs, Path(scratch))
            for results in sorted(Path(scratch).glob("*.zip")):
                if results.stem not in self.made:
                    self.copy_results(results)
        missing = sorted(runs - {*self.made})
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
            known = read_left(self.folder, name).get(name, row)
            if row["status"] == "ok" or known["status"] != "ok":
                write_row(self.folder, row)
            echo(f"{name}: {row['status']} {row['error']}".strip())
            if not is_on(row, self.platform, self.pattern):
                device = f"{row.get('accelerator') or 'another device'} ({name})"
                fault = f"{self.name} gave {device} instead of the requested {self.device}"
                self.failures.append(f"{fault}: {run} is kept")
            elif row["status"] == "failed":
                self.failures.append(f"{name}: {row['error']}")
        self.made = [*self.made, run]
        self.reach(self.state)
