"""Colab: a machine whose kernel starts the remote script and reports its progress.

What google-colab-cli 0.7.5 does:
- `exec` exits with 0 after an error of the code, and its time limit is 30 s by default. Only what
  the remote script prints is believed.
- `new` takes an unknown device for another one: names are checked before, the row's device after.
- A machine outlives its client, so it is stopped in every case. `stop` exits with 0 for a machine
  that `new` had not noted yet: the list of the account's machines is believed.
- After a connection error whose text holds 404 or 401 it forgets a living machine: its notes are
  restored.
- Nothing keeps a machine alive but its kernel: each part of an upload is checked there.
"""

import re
import shutil
from collections.abc import Collection
from pathlib import Path

from dr_lib.files import hash_file
from dr_lib.remote.client import WAITS, RemoteError, defer_ctrl_c, find_sentence, retry
from dr_lib.remote.remote_script import STATUS
from dr_lib.remote.session import Session


class Colab(Session):
    """A session on Colab."""

    platform = "colab"
    name = "Colab"
    login = "usage"
    no_credentials = "authorize colab-cli"
    needs = " (it needs Python 3.12 or newer)"
    devices = {
        "T4": ("--gpu T4", r"\bt4\b"),
        "L4": ("--gpu L4", r"\bl4\b"),
        "G4": ("--gpu G4", r"rtx.pro.6000"),
        "A100": ("--gpu A100", r"\ba100\b"),
        "H100": ("--gpu H100", r"\bh100\b"),
        "v5e1": ("--tpu v5e1", r"v5 ?(lite|e)|\dx-tpu\b"),
        "v6e1": ("--tpu v6e1", r"v6 ?(lite|e)|\dx-tpu\b"),
        "cpu": ("", r"^(?!.*-\dx-).*-cpus-"),
    }
    by_hand = "end the machine at https://colab.research.google.com (Runtime, Manage sessions)"
    content = "/content"  # where the upload and the results are

    @property
    def _notes(self) -> Path:
        """The client's notes of this session alone."""
        return Path.home() / ".config" / "colab-cli" / self.session / "sessions.json"

    def call(self, *words: str, text: str = "", limit_s: float = 0) -> str:
        """Call the client with these notes, and restore what it has lost of them."""
        notes = self._notes
        kept = notes.with_suffix(".kept")
        notes.parent.mkdir(parents=True, exist_ok=True)
        if notes.exists() and self.session in notes.read_text(encoding="utf-8"):
            shutil.copy(notes, kept)
        elif kept.exists():
            shutil.copy(kept, notes)
        return super().call("--config", str(notes), *words, text=text, limit_s=limit_s)

    def prepare(self) -> str:
        """List the account's other machines."""
        self.others = [machine for _, machine in self._list_machines()]
        return (
            "only you can see it, on a machine that is deleted with all its data at the end, on"
            " errors and on Ctrl-C\nthe machine uses compute units until it ends; Colab's terms"
            " forbid bulk computing on the free tier: keep studies there small"
        )

    def send(self, folder: Path) -> None:
        """Allocate a machine, and upload."""
        with defer_ctrl_c():
            self.call("new", "-s", self.session, *self.options.split())
        for path in sorted(folder.iterdir()):
            retry(self._upload, path)
        self.reach("running")

    def _upload(self, path: Path) -> None:
        """Upload a file and check its hash on the machine."""
        target = f"{self.content}/{path.name}"
        self.call("upload", "-s", self.session, str(path), target[1:])
        code = f"print(hashlib.sha256(open({target!r}, 'rb').read()).hexdigest())\n"
        if hash_file(path) not in self._execute(f"import hashlib\n{code}"):
            raise RemoteError(f"{path.name} arrived incomplete")

    def look(self, shown: int) -> tuple[str, list[str]]:
        """Start the remote script, once; it answers when it has more lines, or after a while."""
        output = self._execute(
            f"import sys\nsys.path.insert(0, {self.content!r})\nimport remote_script\n"
            f"remote_script.look({self.content!r}, {shown}, {WAITS.watch})\n"
        )
        # above it, the client may speak of its newer version
        _, *parts = output.split(STATUS)
        if not parts:
            fault = f"the remote script does not report its state ({find_sentence(output)})"
            raise RemoteError(fault)
        lines, status = [*parts, "running"][:2]
        return status.strip(), lines.splitlines()[1:]

    def _execute(self, code: str) -> str:
        """Run code on the machine and return its output, errors included."""
        limit = f"--timeout={WAITS.watch + 60}"
        return self.call("exec", "-s", self.session, limit, text=code, limit_s=WAITS.watch + 90)

    def is_gone(self) -> bool:
        """Whether the account's list lacks the machine."""
        return self.session not in dict(self._list_machines())

    def fetch(self, runs: Collection[str], folder: Path) -> None:
        """Download the results of these runs."""
        for run in runs:
            paths = (f"{self.content[1:]}/{run}.zip", f"{folder}/{run}.zip")
            self.call("download", "-s", self.session, *paths)

    def delete(self) -> str:
        """Download finished rows, stop the machine, and check that the account's list lacks it."""
        if self.state == "running":
            self.fetch_ended("running")
        try:
            output = self.call("stop", "-s", self.session)
        except RemoteError as error:  # a machine that is gone is no error
            output = str(error)
        for name, machine in self._list_machines():
            is_unnoted = name == "?" and machine not in self.others
            if name == self.session or (is_unnoted and "not found" in output):
                fault = f"{machine} is still running on Colab ({find_sentence(output)})"
                raise RemoteError(fault)
        shutil.rmtree(self._notes.parent, ignore_errors=True)
        return "is stopped"

    def _list_machines(self) -> list[tuple[str, str]]:
        """List name and id of the account's machines; a name that is not noted is ?."""
        output = self.call("sessions")
        return re.findall(r"^\[(.+?)\] (\S+) \| Hardware: ", output, re.MULTILINE)
