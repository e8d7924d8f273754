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
import re
import time
from collections.abc import Collection
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from click import echo

from dr_lib.errors import DrError
from dr_lib.files import write_json
from dr_lib.remote.client import WAITS, RemoteError, defer_ctrl_c, find_sentence, retry
from dr_lib.remote.remote_script import LEAST_HOURS
from dr_lib.remote.session import Session

SET_UP_HOURS = 1 / 3  # of a session, beside the hours of its runs


class Kaggle(Session):
    """A session on Kaggle."""

    platform = "kaggle"
    name = "Kaggle"
    login = "auth login"
    no_credentials = "Authentication required"
    noise = r"(?m)^Warning: .*\n"  # of its version, or of a key that others can read
    hint = "\n\n"
    devices = {
        "t4x2": ("--accelerator NvidiaTeslaT4", r"\b2x.*\bt4\b"),
        "v5e8": ("--accelerator TpuV5E8", r"v5 ?(lite|e)|\dx-tpu\b"),
        "cpu": ("", r"^(?!.*-\dx-).*-cpus-"),
    }
    is_unattended = True

    @cached_property
    def _names(self) -> dict[str, str]:
        """Full names of script and data set, with that of the account, by the client's words."""
        named = re.search(r"- username: (.+)", self.call("config", "view"))
        if not named or named[1] == "None":
            raise DrError(f"kaggle does not know your user name: kaggle {self.login}")
        script = f"{named[1].strip()}/{self.session}"
        return {"kernels": script, "datasets": f"{script}-data"}

    @property
    def by_hand(self) -> str:
        """The commands that delete script and data set."""
        commands = [f"kaggle {kind} delete {name}" for kind, name in self._names.items()]
        return f"delete the session with {' and '.join(commands)}"

    @property
    def _ends(self) -> str:
        hours = self.hours + SET_UP_HOURS
        fault = "a Kaggle session cannot be stopped from outside"
        return f"{fault}: it ends by itself after at most {hours:.1f} h"

    def prepare(self) -> str:
        """Limit the session to 8.5 of the 9 hours of each, and to what is left of the quota."""
        hours = min(self.hours, 8.5)
        kind = {"t4x2": "GPU", "v5e8": "TPU"}.get(self.device)
        for line in csv.DictReader(self.call("quota", "--csv").splitlines()):
            if line["resource"] == kind:
                hours = min(hours, float(line["remaining"].removesuffix("h")) - SET_UP_HOURS)
        if hours < LEAST_HOURS:
            raise DrError(f"too little {kind} quota is left on Kaggle: see kaggle quota")
        self.hours = hours
        return (
            "only you can see the data set and the script; both are deleted once the rows are here,"
            f" and stay if this command is not repeated\n{self._ends}, of the weekly quota unless"
            " on cpu\nKaggle gives internet, which the set-up may need, and GPUs only to accounts"
            " with a verified phone:\nhttps://www.kaggle.com/settings"
        )

    def send(self, folder: Path) -> None:
        """Upload a private data set, wait until it is ready, and push the script."""
        script, data = self._names.values()
        about = {
            "title": f"{self.session}-data",
            "id": data,
            "licenses": [{"name": "other"}],
        }
        write_json(folder / "dataset-metadata.json", about)
        about = {
            "title": self.session,  # whose slug is the id's
            "id": script,
            "code_file": "remote_script.py",
            "language": "python",
            "kernel_type": "script",
            "is_private": True,
            "enable_gpu": self.device == "t4x2",
            "enable_tpu": self.device == "v5e8",
            "enable_internet": True,
            "dataset_sources": [data],
        }
        write_json(folder / "kernel-metadata.json", about)
        path = f"-p={folder}"
        # after an interruption the client sends only the rest
        retry(self._create, "private Dataset is being created", "datasets", "create", path)
        retry(self._check_data, patience_s=WAITS.ready)
        self.reach("running")
        limit = f"-t={3600 * (self.hours + SET_UP_HOURS):.0f}"
        words = ("push", path, limit, *self.options.split())
        retry(self._create, "successfully pushed", "kernels", *words)
        echo(f"https://www.kaggle.com/code/{script}: its rows are downloaded at its end")

    def _create(self, created: str, kind: str, *words: str) -> None:
        """Create a data set or a script, unless a failed try has: a second script would run too."""
        if self._read_status(kind):
            return
        # a client killed meanwhile may have created what a deletion then does not find
        with defer_ctrl_c():
            output = self.call(kind, *words)
        if created not in output or "not valid dataset sources" in output:
            self.give_up(f"Kaggle refused the session: {find_sentence(output)}")

    def _check_data(self) -> None:
        status = self._read_status("datasets")
        if status == "failed":
            self.give_up("Kaggle cannot read the data set")
        if status != "ready":
            raise RemoteError(f"the data set is not ready: {status}")

    def _read_status(self, kind: str) -> str:
        """Read the status of a data set or a script; empty if the account does not have it.

        If it is denied, which has other reasons too, the account's own list decides.
        """
        name = self._names[kind]
        try:
            output = self.call(kind, "status", name).strip()
        except RemoteError as error:
            # it sometimes says so of a running session, or when a token has expired
            if not re.search(r"(?i)\b40[34]\b|not found|was denied", str(error)):
                raise
            slug = name.partition("/")[2]
            output = self.call(kind, "list", "--mine", "--csv", "--search", slug)
            return "unknown" if slug in output else ""
        return "" if output == "deleted" else output

    def _read_state(self) -> list[str]:
        """Read running, or how the session ended in Kaggle's word, and the message of a failure."""
        output = self._read_status("kernels")
        named = re.search(r'has status "(?:\w+\.)?(\w+)"', output)
        if not named:
            raise RemoteError(f"kaggle does not report the state of {self._names['kernels']}")
        status = named[1].lower()
        if status not in ("complete", "error", "cancel_acknowledged"):
            status = "running"
        return [status, *re.findall(r'Failure message: "(.*)"', output)]

    def look(self, shown: int) -> tuple[str, list[str]]:
        """Read the state and, for a while, the log."""
        status, *message = self._read_state()
        wait_s = WAITS.poll if status == "running" else 0.0
        log = ""
        with suppress(RemoteError):
            words = ("kernels", "logs", "-f", self._names["kernels"])
            log = self.call(*words, limit_s=wait_s)
        time.sleep(wait_s)
        return status, [*log.splitlines()[shown:], *message]

    def is_gone(self) -> bool:
        """Whether the account does not have the script."""
        return not self._read_status("kernels")

    def fetch(self, runs: Collection[str], folder: Path) -> None:
        """Download all results of a session that has ended."""
        words = (f"-p={folder}", "-o", r"--file-pattern=\.zip$")
        self.call("kernels", "output", self._names["kernels"], *words)

    def delete(self) -> str:
        """Delete script and data set, and say what runs on; never finished rows."""
        outcome = "is deleted"
        if self.state == "running" and not self.is_gone():
            if self._read_state()[0] != "running":
                raise DrError("it has ended, and its rows are on Kaggle")
            outcome = f"is deleted: {self._ends}"
        for kind, name in self._names.items():
            with suppress(RemoteError):  # no answer confirms it
                self.call(kind, "delete", name, "--yes")
        if any(map(self._read_status, self._names)):
            raise RemoteError("Kaggle still has it")
        return outcome
