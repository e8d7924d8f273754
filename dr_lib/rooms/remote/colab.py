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
from pathlib import Path

from dr_lib.files import hash_file
from dr_lib.rooms.remote.client import WAITS, RemoteError, defer_ctrl_c, find_sentence
from dr_lib.rooms.remote.remote_script import STATUS
from dr_lib.rooms.remote.session import Device, Session

PAGE = "https://colab.research.google.com (Runtime, Manage sessions)"


class Colab(Session):
    """A session on Colab."""

    platform = "colab"
    name = "Colab"
    version = "version"
    oldest = (0, 7, 5)
    login = "usage"
    no_credentials = "authorize colab-cli"
    needs = " (it needs Python 3.12 or newer)"
    devices = {
        "T4": Device("--gpu T4", r"\bt4\b"),
        "L4": Device("--gpu L4", r"\bl4\b"),
        "G4": Device("--gpu G4", r"rtx.pro.6000"),
        "A100": Device("--gpu A100", r"\ba100\b"),
        "H100": Device("--gpu H100", r"\bh100\b"),
        "v5e1": Device("--tpu v5e1", r"v5 ?(lite|e)|\dx-tpu\b"),
        "v6e1": Device("--tpu v6e1", r"v6 ?(lite|e)|\dx-tpu\b"),
        "cpu": Device("", r"^(?!.*-\dx-).*-cpus-"),
    }
    results = "/content"  # where the upload is, too
    home = "/content/dr-lib"

    @property
    def _notes(self) -> Path:
        """The client's notes of this session alone."""
        folder = Path.home() / ".config" / "colab-cli" / self.record.session
        return folder / "sessions.json"

    def prepare(self) -> str:
        """List the account's other machines."""
        self._notes.parent.mkdir(parents=True, exist_ok=True)
        self.record.others = [machine for _, machine in self._list_machines()]
        return (
            "only you can see it, on a machine that is deleted with all its data at the end, on"
            " errors and on Ctrl-C; if this command is killed, the machine runs until you repeat"
            f" the command or end it at\n{PAGE}\nit uses compute units until it ends; Colab's terms"
            " forbid bulk computing on the free tier: keep studies there small"
        )

    def send(self, folder: Path) -> None:
        """Allocate a machine, and upload."""
        with defer_ctrl_c():
            self._call("new", *self.options.split())
        for path in sorted(folder.iterdir()):
            self.retry(self._upload, path)
        self.reach("running")

    def _upload(self, path: Path) -> None:
        """Upload a file and check its hash on the machine."""
        target = f"{self.results}/{path.name}"
        fault = f"{path.name} arrived incomplete"
        try:
            self._call("upload", str(path), target[1:])
        except RemoteError as error:  # it may have arrived nevertheless
            fault = str(error)
        code = f"print(hashlib.sha256(open({target!r}, 'rb').read()).hexdigest())\n"
        if hash_file(path) not in self._execute(f"import hashlib\n{code}"):
            raise RemoteError(fault)

    def look(self, shown: int) -> tuple[str, list[str]]:
        """Start the remote script, once; it answers when it has more lines, or after a while."""
        output = self._execute(
            f"import sys\nsys.path.insert(0, {self.results!r})\nimport remote_script\n"
            f"remote_script.look({self.results!r}, {shown}, {WAITS.watch})\n"
        )
        *lines, last = output.splitlines() or [""]
        if not last.startswith(STATUS):
            raise RemoteError(f"the remote script does not report its state ({last})")
        return last.removeprefix(STATUS), lines

    def is_gone(self) -> bool:
        """Whether the account's list lacks the machine."""
        return self.record.session not in dict(self._list_machines())

    def fetch(self, runs: list[str], folder: Path) -> None:
        """Download the results of these runs."""
        for run in runs:
            path = folder / f"{run}.zip"
            self._call("download", f"{self.results[1:]}/{path.name}", str(path))

    def delete(self) -> str:
        """Download finished rows, stop the machine, and check that the account's list lacks it."""
        if self.record.state == "running":
            self.fetch_ended("running")
        try:
            output = self._call("stop")
        except RemoteError as error:  # a machine that is gone is no error
            output = str(error)
        for name, machine in self._list_machines():
            is_unnoted = name == "?" and machine not in self.record.others
            if name == self.record.session or (is_unnoted and "not found" in output):
                fault = f"{machine} is still running on Colab ({find_sentence(output)})"
                raise RemoteError(f"{fault}: end it at {PAGE}")
        shutil.rmtree(self._notes.parent, ignore_errors=True)
        return "is stopped"

    def _execute(self, code: str) -> str:
        """Run code on the machine and return its output, errors included."""
        cell = self._notes.with_name("cell.py")
        cell.write_text(code, encoding="utf-8")
        words = ("-f", str(cell), "--timeout", f"{WAITS.watch + 60:.0f}")
        return self._call("exec", *words, limit_s=WAITS.watch + 90)

    def _call(self, command: str, *words: str, limit_s: float = 0) -> str:
        """Call the client for this session, with its notes."""
        notes = self._notes
        kept = notes.with_suffix(".kept")  # for a client that has forgotten its machine
        if notes.exists() and self.record.session in notes.read_text(encoding="utf-8"):
            shutil.copy(notes, kept)
        elif kept.exists():
            shutil.copy(kept, notes)
        options = ("--config", str(notes), command, "-s", self.record.session)
        return self.call(*options, *words, limit_s=limit_s)

    def _list_machines(self) -> list[tuple[str, str]]:
        """List name and id of each machine of the account; a name that the client has not noted
        is ?.
        """
        output = self.call("--config", str(self._notes), "sessions")
        return re.findall(r"^\[(.+?)\] (\S+) \| Hardware: ", output, re.MULTILINE)
