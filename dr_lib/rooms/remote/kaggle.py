"""Kaggle: a script that makes all runs in one unattended session; its rows come at the end.

What kaggle 2.2.5 does:
- `push` and `create` exit with 0 if the service refuses: their sentence is read.
- `NvidiaTeslaT4` is two T4. A retired device silently becomes another one: names are checked
  before, the row's device after. A pinned image turns a TPU into a CPU: none is pinned.
- No command stops a session: `delete` removes its script, and the limit given to `push` ends it.
- `logs -f` prints the output so far, and follows a running session until the client is ended.
- 401 and 403 of a status are one sentence: only the account's own list says what is gone.
- A data set may be refused if a script has its name.
"""

import csv
import json
import re
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from dr_lib.rooms.remote import remote_script
from dr_lib.rooms.remote.client import WAITS, RemoteError, defer_ctrl_c, find_sentence
from dr_lib.rooms.remote.session import RUNNING, Device, Session

SET_UP_HOURS = 1 / 3  # of a session, beside the hours of its runs


class Kaggle(Session):
    """A session on Kaggle."""

    platform = "kaggle"
    name = "Kaggle"
    version = "--version"
    oldest = (2, 2, 1)
    login = "auth login"
    no_credentials = "Authentication required"
    always = ("-W",)  # else a warning of an old version precedes an answer
    hint = "\n\n"
    devices = {
        "t4x2": Device(("--accelerator", "NvidiaTeslaT4"), r"\b2x.*\bt4\b"),
        "v5e8": Device(("--accelerator", "TpuV5E8"), r"v5 ?(lite|e)|\dx-tpu\b"),
        "cpu": Device((), r"^(?!.*-\dx-).*-cpus-"),
    }
    is_unattended = True
    home = "/kaggle/dr-lib"
    results = "/kaggle/working"

    @cached_property
    def _script(self) -> str:
        """The script's full name, with that of the account."""
        named = re.search(r"- username: (.+)", self.call("config", "view"))
        if not named or named[1] == "None":
            raise RemoteError(f"kaggle does not know your user name: kaggle {self.login}")
        return f"{named[1].strip()}/{self.record.session}"

    @property
    def _data(self) -> str:
        return f"{self._script}-data"

    @property
    def _ends(self) -> str:
        hours = self.record.hours + SET_UP_HOURS
        fault = "a Kaggle session cannot be stopped from outside"
        return f"{fault}: it ends by itself after at most {hours:.1f} h"

    def prepare(self) -> str:
        """Limit the session to 8.5 of the 9 hours of each, and to what is left of the quota."""
        hours = min(self.record.hours or 8.5, 8.5)
        kind = {"t4x2": "GPU", "v5e8": "TPU"}.get(self.device)
        for line in csv.DictReader(self.call("quota", "--csv").splitlines()):
            if line["resource"] == kind:
                hours = min(hours, float(line["remaining"].removesuffix("h")) - SET_UP_HOURS)
        if hours < remote_script.LEAST_HOURS:
            raise RemoteError(f"too little {kind} quota is left on Kaggle: see kaggle quota")
        self.record.hours = hours
        return (
            f"only you can see the data set {self._data} and the script; both are deleted once the"
            " rows are here, and stay if this command is not repeated: kaggle datasets delete"
            f" {self._data} deletes the data\n{self._ends}, of the weekly quota unless on cpu\n"
            "Kaggle gives internet, which the set-up may need, and GPUs only to accounts with a"
            " verified phone:\nhttps://www.kaggle.com/settings"
        )

    def send(self, folder: Path) -> None:
        """Upload a private data set, wait until it is ready, and push the script."""
        title = f"{self.record.session}-data"
        data = {"title": title, "id": self._data, "licenses": [{"name": "other"}]}
        script = {
            "id": self._script,
            "title": self.record.session,  # whose slug is the id's
            "code_file": "remote_script.py",
            "language": "python",
            "kernel_type": "script",
            "is_private": True,
            "enable_gpu": self.device == "t4x2",
            "enable_tpu": self.device == "v5e8",
            "enable_internet": True,
            "dataset_sources": [self._data],
        }
        for kind, content in (("dataset", data), ("kernel", script)):
            path = folder / f"{kind}-metadata.json"
            path.write_text(json.dumps(content), encoding="utf-8")
        # after an interruption the client sends only the rest
        words = ("create", "-p", str(folder))
        created = "private Dataset is being created"
        self.retry(self._create, created, "datasets", self._data, *words)
        self.retry(self._check_data, patience_s=WAITS.ready)
        self.reach("running")
        seconds = 3600 * (self.record.hours + SET_UP_HOURS)
        words = ("push", "-p", str(folder), "-t", f"{seconds:.0f}", *self.options)
        self.retry(self._create, "successfully pushed", "kernels", self._script, *words)
        page = f"https://www.kaggle.com/code/{self._script}"
        self.say(f"{page}: its rows are downloaded at its end; {self._ends}")

    def _create(self, created: str, kind: str, name: str, *words: str) -> None:
        """Create a data set or a script, unless a failed try has: a second script would run too."""
        if self._read_status(kind, name):
            return
        # a client killed meanwhile may have created what a deletion then does not find
        with defer_ctrl_c():
            output = self.call(kind, *words)
        if created not in output or "not valid dataset sources" in output:
            fault = f"Kaggle refused the session: {find_sentence(output)}"
            raise RemoteError(fault, is_final=True)

    def _check_data(self) -> None:
        status = self._read_status("datasets", self._data)
        if status != "ready":
            raise RemoteError(
                f"the data set is not ready: {status}", is_final=status == "failed"
            )

    def _read_status(self, kind: str, name: str) -> str:
        """Read the status of a data set or a script; empty if the account does not have it.

        If it is denied, which has other reasons too, the account's own list decides.
        """
        try:
            output = self.call(kind, "status", name)
        except RemoteError as error:
            if not error.is_missing:
                raise
            slug = name.partition("/")[2]
            output = self.call(kind, "list", "--mine", "--csv", "--search", slug)
            return "unknown" if slug in output else ""
        return output.strip() if output.strip() != "deleted" else ""

    def _read_state(self) -> tuple[str, list[str]]:
        """RUNNING, or how the session ended in Kaggle's word, and the message of a failure."""
        output = self.call("kernels", "status", self._script)
        named = re.search(r'has status "(?:\w+\.)?(\w+)"', output)
        if not named:
            raise RemoteError(f"kaggle does not report the state of {self._script}")
        status = named[1].lower()
        if status not in ("complete", "error", "cancel_acknowledged"):
            status = RUNNING
        return status, re.findall(r'Failure message: "(.*)"', output)

    def look(self, shown: int) -> tuple[str, list[str]]:
        """Read the state and, for a while, the log."""
        status, message = self._read_state()
        is_running = status == RUNNING
        log = ""
        with suppress(RemoteError):
            words = ("kernels", "logs", "-f", self._script)
            limit_s = WAITS.listen if is_running else 0
            log = self.call(*words, limit_s=limit_s, is_endless=is_running)
        if is_running:
            time.sleep(WAITS.poll)
        return status, [*log.splitlines()[shown:], *message]

    def is_gone(self) -> bool:
        """Whether the account does not have the script."""
        return not self._read_status("kernels", self._script)

    def fetch(self, runs: list[str], folder: Path) -> None:
        """Download all results of a session that has ended."""
        words = ("-p", str(folder), "-o", "--file-pattern", r"\.zip$")
        self.call("kernels", "output", self._script, *words)

    def delete(self) -> str:
        """Delete script and data set, and say what runs on; never finished rows."""
        runs_on = ""
        if self.record.state == "running" and not self.is_gone():
            if self._read_state()[0] != RUNNING:
                raise RemoteError("it has ended, and its rows are on Kaggle", is_final=True)
            runs_on = f": {self._ends}"
        left = []
        for kind, name in (("kernels", self._script), ("datasets", self._data)):
            with suppress(RemoteError):  # no answer confirms it
                self.call(kind, "delete", name, "--yes")
            try:
                status = self._read_status(kind, name)
            except RemoteError as error:
                status = str(error)
            if status:
                left.append(f"{status}; to delete it: kaggle {kind} delete {name}")
        if left:
            raise RemoteError("; ".join(left))
        return f"is deleted{runs_on}"
