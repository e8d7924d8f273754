"""Colab: a machine whose kernel starts the remote script and reports its progress.

google-colab-cli 0.7.5. Its `exec` ends with 0 after an error too, and takes 30 s for the limit
unless it is told another: what the far side prints is believed, nothing else. Its `new` takes an
unknown device for another one, so names are checked before. A machine outlives the client, so it is
stopped in every case; where `new` was ended before it had noted its machine, `stop` says that there
is none, and ends with 0: the list of the account's machines is believed. At a connection error in
whose text stands 404 or 401 the client forgets its machine: it is given a copy of what it noted.
"""

import hashlib
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from dr_lib.rooms.remote import remote_script as remote_script
from dr_lib.rooms.remote.client import (
    Look,
    Quota,
    RemoteError,
    Say,
    call,
    find_sentence,
    insist,
    undisturbed,
)
from dr_lib.rooms.remote.pack import Pack
from dr_lib.rooms.remote.record import FILE, Record

UPLOADS = "/content"
NOTES = ".config/colab-cli"  # where the client has its own, below the user's home
# by one call: a client that falls silent is called again, and a kernel at work is not idle
WATCHED_S = 120.0
# option and value of `colab new`, and a pattern of what the device, or else the machine, is called
DEVICES = {
    "T4": (("--gpu", "T4"), r"\bt4\b"),
    "L4": (("--gpu", "L4"), r"\bl4\b"),
    "G4": (("--gpu", "G4"), r"rtx.pro.6000"),
    "A100": (("--gpu", "A100"), r"\ba100\b"),
    "H100": (("--gpu", "H100"), r"\bh100\b"),
    "v5e1": (("--tpu", "v5e1"), r"v5 ?(lite|e)|\dx-tpu\b"),
    "v6e1": (("--tpu", "v6e1"), r"v6 ?(lite|e)|\dx-tpu\b"),
    "cpu": ((), r"^(?!.*-\dx-).*-cpus-"),
}
PAGE = "https://colab.research.google.com (Runtime, Manage sessions)"
HASH = "import hashlib\nprint(hashlib.sha256(open({!r}, 'rb').read()).hexdigest())\n"
DO = "import sys\nsys.path.insert(0, {!r})\nimport remote_script\nfar_side.{}\n"
FATE = """\
only you can see it, on a machine that is deleted with all its data at the end, on errors and
on Ctrl-C; if this command is killed, the machine runs until you repeat the command or end it at
{page}
it uses at most all of the {left}; Colab's terms forbid bulk computing on the free tier: keep
studies there small"""


class Colab:
    """One session on Colab."""

    platform = "colab"
    name = "Colab"
    goes_on_alone = False  # a machine is paid for until it is given back

    def __init__(self, device: str, say: Say):
        """Take a device of DEVICES, and a function that prints progress."""
        self._options, self.pattern = DEVICES[device]
        self.asked = device
        self._say = say
        self.results = UPLOADS
        self.uploads = UPLOADS
        self.home = f"{UPLOADS}/dr-lib"

    def read_quota(self) -> Quota:
        """The account's compute units; the first call, so it is here that missing credentials
        are found.
        """
        try:
            told = call("colab", "usage")
        except RemoteError as error:
            if not error.output:
                raise
            told = error.output
        numbers = re.findall(r"(?:Current balance|Usage rate): (-?[\d.]+)", told)
        if len(numbers) == 2:
            return Quota(float(numbers[0]), float(numbers[1]), "compute units")
        self._say(f"your remaining compute units are unknown: {find_sentence(told)}")
        return Quota(0.0, 0.0, "")

    def describe(self, pack: Pack, quota: Quota, hours: float) -> str:
        """Describe what happens to an upload, and the cost of a session."""
        left = f"{quota.left:.2f} compute units left" if quota.unit else "compute units left"
        return FATE.format(page=PAGE, left=left)

    def list_others(self) -> list[str]:
        """List the account's machines before one is allocated."""
        return [machine for _, machine, _ in self._list_machines()]

    def upload(self, record: Record, pack: Pack) -> None:
        """Allocate a machine, check its device, and upload in parts."""
        find_notes(record).parent.mkdir(parents=True, exist_ok=True)
        with undisturbed():
            self._call(record, "new", *self._options)
        record.units_per_hour = self.read_quota().per_hour
        for name, _, device in self._list_machines(record):
            if name == record.session and device.lower() != self.asked.lower():
                fault = f"Colab gave {device} instead of the requested {self.asked}"
                raise RemoteError(f"{fault}; nothing was run on it", is_final=True)
        for path in pack.parts:
            insist(partial(self._send, record, path), self._say)

    def start(self, record: Record, script: Path) -> None:
        """Start a script that makes the runs."""
        insist(partial(self._send, record, script), self._say)
        insist(partial(self._do, record, f"start({UPLOADS!r})"), self._say)

    def _send(self, record: Record, path: Path) -> None:
        """Upload a part and check its hash on the machine, which the code keeps alive."""
        there = f"{UPLOADS}/{path.name}"
        fault = f"{path.name} arrived incomplete"
        try:
            self._call(record, "upload", str(path), there[1:])
        except RemoteError as error:  # it may be there nevertheless
            fault = str(error)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest not in self._execute(record, HASH.format(there)):
            raise RemoteError(fault)

    def look(self, record: Record, shown: int) -> Look:
        """Return the remote state and the lines printed since the last look, after a while."""
        told = self._do(record, f"look({UPLOADS!r}, {shown}, {WATCHED_S})")
        *lines, last = told.splitlines() or [""]
        if not last.startswith(remote_script.STATUS):
            raise RemoteError(f"the remote script does not report its state ({last})")
        return Look(last.removeprefix(remote_script.STATUS), lines)

    def is_gone(self, record: Record, error: RemoteError) -> bool:
        """Whether the session's machine is gone from the account."""
        machines = self._list_machines(record, is_needed=True)
        return record.session not in [name for name, _, _ in machines]

    def fetch(self, record: Record, ended: list[str], folder: Path) -> Iterator[Path]:
        """Fetch the files of the runs."""
        for run in ended:
            path = folder / f"{run}.zip"
            self._call(record, "download", f"{UPLOADS[1:]}/{run}.zip", str(path))
            yield path

    def close(self, record: Record, keep: str) -> str:
        """Release the machine; a machine that is gone is no error, but an unknown machine is."""
        try:
            told = self._call(record, "stop")
        except RemoteError as error:  # of one that is gone too
            told = str(error)
        is_unknown = "not found" in told
        for name, machine, _ in self._list_machines(record, is_needed="terminated" not in told):
            is_ours = is_unknown and name == "?" and machine not in record.others
            if is_ours or name == record.session:
                fault = f"{machine} is still running on Colab ({find_sentence(told)})"
                raise RemoteError(f"{fault}: end it at {PAGE}")
        shutil.rmtree(find_notes(record).parent, ignore_errors=True)
        return "is stopped"

    def _do(self, record: Record, what: str) -> str:
        return self._execute(record, DO.format(UPLOADS, what))

    def _execute(self, record: Record, code: str) -> str:
        """Run code on the machine and return its output, errors included."""
        cell = find_notes(record).with_name("cell.py")
        cell.write_text(code, encoding="utf-8")
        words = ("-f", str(cell), "--timeout", f"{WATCHED_S + 60:.0f}")
        return self._call(record, "exec", *words, limit_s=WATCHED_S + 90)

    def _call(
        self, record: Record, command: str, *words: str, limit_s: float | None = None
    ) -> str:
        options = (*self._bring_notes(record), command, "-s", record.session)
        told = call("colab", *options, *words, limit_s=limit_s)
        notes = find_notes(record)
        if notes.exists():
            shutil.copy(notes, f"{notes}.kept")
        return told

    def _bring_notes(self, record: Record) -> tuple[str, str]:
        """The option that names the client's notes, which hold what it forgot."""
        notes = find_notes(record)
        kept = Path(f"{notes}.kept")
        if kept.exists() and not (notes.exists() and record.session in notes.read_text()):
            shutil.copy(kept, notes)
        return "--config", str(notes)

    def _list_machines(
        self, record: Record | None = None, *, is_needed: bool = False
    ) -> list[list[str]]:
        """Name, machine and device of each that the account has; the name of one that the client
        did not note is ?. Unless they are needed, none where the client knows not all devices.
        """
        options = self._bring_notes(record) if record else ()
        try:
            told = call("colab", *options, "sessions")
        except RemoteError as error:
            if is_needed or "validation error" not in error.output:
                raise
            self._say(f"{error}: the account has a machine that this client does not know")
            told = ""
        return re.findall(r"^\[(.+?)\] (\S+) \| Hardware: (\w+)", told, re.MULTILINE)


def find_notes(record: Record) -> Path:
    """The client's notes of this session alone, which no other call of it changes."""
    return Path.home() / NOTES / record.session / FILE
