"""Kaggle: a script that executes all runs in one unattended session; rows are downloaded at the
end.

kaggle 2.2.5. Its `push` and `create` end with 0 where the service says no: their sentence is read.
`NvidiaTeslaT4` is two T4; a retired device is silently another one, so names are checked before,
and the row's device after. No command ends a session: `delete` takes its script away, and the limit
that `push` is given ends it at the latest. `logs -f` prints what a session has printed, and follows
one that runs until the client is ended.
"""

import csv
import json
import re
import time
from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path

from dr_lib.rooms.remote.client import (
    LATE,
    RUNNING,
    Look,
    Quota,
    RemoteError,
    Say,
    call,
    find_sentence,
    insist,
    undisturbed,
    write_login,
)
from dr_lib.rooms.remote.pack import Pack
from dr_lib.rooms.remote.record import Record

UNDER_WAY = ("queued", "running", "new_script", "cancel_requested")
SESSION_HOURS = 8.5  # of 9 that every session has
SET_UP_S = 1200  # of the session, beside the runs' hours
POLL_S = 20.0
LISTENED_S = 10.0  # to what a session prints
READY_S = 3600.0  # until an upload can be attached
# accelerator of `kernels push`, and a pattern of what the device, or else the machine, is called
DEVICES = {
    "t4x2": ("NvidiaTeslaT4", r"\b2x.*\bt4\b"),
    "v5e8": ("TpuV5E8", r"v5 ?(lite|e)|\dx-tpu\b"),
    "cpu": ("", r"^(?!.*-\dx-).*-cpus-"),
}
PUSHED = "successfully pushed"
RUNS_ON = (
    "a Kaggle session cannot be stopped from outside: it ends by itself after at most {:.1f} h"
)
FATE = """\
only you can see the data set {data} and the script; both are deleted once the rows are here, and
stay if this command is not repeated: kaggle datasets delete {data} deletes the data
{runs_on}, {cost}
Kaggle gives internet, which the set-up may need, and GPUs only to accounts with a verified phone:
https://www.kaggle.com/settings"""


class Kaggle:
    """One session on Kaggle."""

    platform = "kaggle"
    name = "Kaggle"
    goes_on_alone = True
    uploads = "/kaggle/input"
    results = "/kaggle/working"
    home = "/kaggle/dr-lib"

    def __init__(self, device: str, say: Say):
        """Take a device of DEVICES, and a function that prints progress."""
        self._accelerator, self.pattern = DEVICES[device]
        self.asked = device
        self._say = say
        self._is_sent = False
        self._is_pushed = False

    @cached_property
    def _owner(self) -> str:
        """Read the account's name."""
        told = call("kaggle", "config", "view")
        named = re.search(r"^- username: (.+)$", told, re.MULTILINE)
        if not named or named[1] == "None":
            login = write_login("kaggle")
            raise RemoteError(f"kaggle does not know your user name: log in with {login}")
        return named[1].strip()

    def read_quota(self) -> Quota:
        """Read the week's hours for this kind of device; the first call, which finds missing
        credentials.
        """
        kind = "TPU" if self._accelerator.startswith("Tpu") else "GPU"
        for line in csv.DictReader(call("kaggle", "quota", "--csv").splitlines()):
            if self._accelerator and line["resource"] == kind:
                left = float(line["remaining"].removesuffix("h"))
                hours = min(SESSION_HOURS, left - SET_UP_S / 3600)
                return Quota(left, 1.0, f"{kind} hours", hours, line["refreshAt"])
        return Quota(0.0, 0.0, "", SESSION_HOURS)

    def describe(self, pack: Pack, quota: Quota, hours: float) -> str:
        """Describe what happens to an upload, and the cost of a session."""
        runs_on = RUNS_ON.format(hours + SET_UP_S / 3600)
        cost = f"of {quota.left:.2f} {quota.unit} left" if quota.unit else "which cost no quota"
        return FATE.format(data=self._name_data(pack.hash()), runs_on=runs_on, cost=cost)

    def list_others(self) -> list[str]:
        """List nothing: a session is identified by its name alone."""
        return []

    def upload(self, record: Record, pack: Pack) -> None:
        """Upload a private data set, unless it exists, and wait until it can be attached."""
        name = self._name_data(record.pack)
        about = {"title": name.partition("/")[2], "id": name, "licenses": [{"name": "other"}]}
        (pack.folder / "dataset-metadata.json").write_text(json.dumps(about), encoding="utf-8")
        insist(partial(self._upload, name, pack.folder), self._say, READY_S)

    def _upload(self, name: str, folder: Path) -> None:
        try:
            status = find_sentence(call("kaggle", "datasets", "status", name))
        except RemoteError as error:
            if self._is_sent or not error.is_missing():
                raise
            # after a cut the client sends only the rest
            status = find_sentence(call("kaggle", "datasets", "create", "-p", str(folder)))
            self._is_sent = "private Dataset is being created" in status
            if not self._is_sent:
                fault = f"Kaggle made no data set: {status}"
                raise RemoteError(fault, is_final=True) from error
        if status != "ready":
            is_final = status in ("failed", "deleted")
            raise RemoteError(f"the data set is not ready: {status}", is_final=is_final)

    def start(self, record: Record, script: Path) -> None:
        """Push a script that makes the runs."""
        name = self._name(record)
        about = describe_script(name, self._name_data(record.pack), self._accelerator)
        (script.parent / "kernel-metadata.json").write_text(json.dumps(about), encoding="utf-8")
        told = insist(partial(self._push, record, script.parent), self._say)
        if PUSHED not in told or "not valid dataset sources" in told:
            fault = f"Kaggle refused the session: {find_sentence(told)}"
            raise RemoteError(fault, is_final=True)
        when = f"in {record.hours:.1f} h at the latest"
        self._say(
            f"https://www.kaggle.com/code/{name}: its rows are downloaded at its end, {when}"
        )

    def _push(self, record: Record, folder: Path) -> str:
        """Push a script, unless a failed try has already done so: a second one would run too."""
        if self._is_pushed:
            try:
                self._read_status(record)
                return PUSHED
            except RemoteError as error:
                if not error.is_missing():
                    raise
        self._is_pushed = True
        options = ["-p", str(folder), "-t", f"{3600 * record.hours + SET_UP_S:.0f}"]
        if self._accelerator:
            options += ["--accelerator", self._accelerator]
        # a client killed meanwhile may have pushed what a deletion then does not find
        with undisturbed():
            return call("kaggle", "kernels", "push", *options)

    def look(self, record: Record, shown: int) -> Look:
        """Return the session's state and the lines printed since the last look, after a while."""
        status, why = self._read_status(record)
        try:
            limit_s = LISTENED_S if status == RUNNING else None
            log = call("kaggle", "kernels", "logs", "-f", self._name(record), limit_s=limit_s)
        except RemoteError as error:
            # the client follows a session that runs until it is ended
            log = error.output if LATE in str(error) else ""
        if status == RUNNING:
            time.sleep(POLL_S)
        return Look(status, log.splitlines()[shown:], why)

    def is_gone(self, record: Record, error: RemoteError) -> bool:
        """Whether the script exists neither by name nor in the list of the account's own."""
        return error.is_missing() and not is_listed("kernels", record.session)

    def _read_status(self, record: Record) -> tuple[str, str]:
        """RUNNING, or how a session ended in Kaggle's word, and the message of one that failed."""
        told = call("kaggle", "kernels", "status", self._name(record))
        named = re.search(r'has status "(?:\w+\.)?(\w+)"', told)
        if not named:
            raise RemoteError(f"kaggle does not report the state of {record.session}", told)
        status = named[1].lower()
        message = re.search(r'Failure message: "(.*)"', told)
        return RUNNING if status in UNDER_WAY else status, message[1] if message else ""

    def fetch(self, record: Record, ended: list[str], folder: Path) -> Iterator[Path]:
        """Fetch the files of the runs of an ended session."""
        options = ("-p", str(folder), "-o", "--file-pattern", r"\.zip$")
        call("kaggle", "kernels", "output", self._name(record), *options)
        yield from sorted(folder.glob("*.zip"))

    def close(self, record: Record, keep: str) -> str:
        """Delete the script, and the data set unless a next session has it, and say what runs on.

        Raises:
            RemoteError: something stays, or may stay, with the command that deletes it; or rows
                would be lost.
        """
        runs_on = self._check_rows(record) if record.state == "running" else ""
        left = [("kernels", self._name(record))]
        if record.pack != keep:
            left.append(("datasets", self._name_data(record.pack)))
        faults = []
        for kind, name in left:
            try:
                delete(kind, name)
            except RemoteError as error:
                command = f"kaggle {kind} delete {name}"
                faults.append(f"{error}; to delete what is left on Kaggle: {command}")
        if faults:
            raise RemoteError("; ".join(faults))
        return f"is deleted{runs_on}"

    def _check_rows(self, record: Record) -> str:
        """Check that a session without downloaded rows has none, and report how long it still
        runs.
        """
        try:
            status, _ = self._read_status(record)
        except RemoteError as error:
            if not self.is_gone(record, error):
                raise
            return ""
        if status != RUNNING:
            raise RemoteError("it has ended, and its rows are on Kaggle", is_final=True)
        return f": {RUNS_ON.format(record.hours + SET_UP_S / 3600)}"

    def _name(self, record: Record) -> str:
        return f"{self._owner}/{record.session}"

    def _name_data(self, sha256: str) -> str:
        """Name a data set by its content, unlike any script: Kaggle may refuse a name that is
        taken.
        """
        return f"{self._owner}/dr-{sha256[:24]}-data"


def delete(kind: str, name: str) -> None:
    """Delete a script or a data set and check that it is gone, because no answer confirms it.

    What has no status, as that may be denied for other reasons, is gone if it is not in the list of
    the account's own either.
    """
    try:
        call("kaggle", kind, "delete", name, "--yes")
    except RemoteError as error:
        if not error.is_missing():
            raise
    try:
        is_there = find_sentence(call("kaggle", kind, "status", name)) != "deleted"
    except RemoteError as error:
        if not error.is_missing():
            raise
        is_there = is_listed(kind, name.partition("/")[2])
    if is_there:
        raise RemoteError(f"{name} still exists after its deletion")


def is_listed(kind: str, slug: str) -> bool:
    """Whether the account's own list has the script or data set."""
    return slug in call("kaggle", kind, "list", "--mine", "--csv", "--search", slug)


def describe_script(name: str, data: str, accelerator: str) -> dict[str, object]:
    """Write the kernel-metadata.json of a script.

    An image is never pinned: a session on a TPU would get a CPU.
    """
    return {
        "id": name,
        "title": name.partition("/")[2],  # whose slug is the id's
        "code_file": "remote_script.py",
        "language": "python",
        "kernel_type": "script",
        "is_private": True,
        "enable_gpu": accelerator.startswith("Nvidia"),
        "enable_tpu": accelerator.startswith("Tpu"),
        "enable_internet": True,
        "dataset_sources": [data],
    }
