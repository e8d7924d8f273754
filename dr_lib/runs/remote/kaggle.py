"""Kaggle: a script that makes all runs in one session and needs nobody; its rows come back at the end.

kaggle 2.2.5. Its `push` and `create` end with 0 where the service says no: their sentence is read. `NvidiaTeslaT4` is
two T4; a retired device is silently another one, so names are checked before, and the row's device after. No command
ends a session: `delete` takes its script away, and the limit that `push` is given ends it at the latest.
"""

import csv
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dr_lib.runs.remote import far_side
from dr_lib.runs.remote.client import (
    Quota,
    RemoteError,
    call,
    find_sentence,
    undisturbed,
    write_login,
)
from dr_lib.runs.remote.pack import NAME, Pack

HOME, RESULTS = "/kaggle/dr-lib", "/kaggle/working/rows.zip"
GONE = re.compile(r"\b40[34] Client Error|not found|was denied", re.IGNORECASE)  # 403: it never was, or is another's
SESSION_HOURS = 8.5  # of 9 that every session has
SET_UP_S = 1200  # of the session, beside the runs' hours
POLL_S, FAILED_CALLS = 30.0, 20  # ten minutes without a network are survived
READY_S = 3600.0  # until an upload can be attached
DEVICES = {  # accelerator of `kernels push`, and a pattern of what the device, or else the machine, is called
    "t4x2": ("NvidiaTeslaT4", r"\b2x.*\bt4\b"),
    "v5e8": ("TpuV5E8", r"v5 ?(lite|e)|\dx-tpu\b"),
    "cpu": ("", r"^(?!.*-\dx-).*-cpus-"),
}


class Kaggle:
    """One session on Kaggle."""

    platform, name = "kaggle", "Kaggle"
    needs_client = False
    terms = "the data set is private, and deleted with the session"

    def __init__(self, device: str, say: Callable[[str], object]):
        """Take a device of DEVICES, and a way to say what goes on."""
        (self._accelerator, self.pattern), self.asked, self._say = DEVICES[device], device, say
        self._owner, self._is_fetched = "", False

    def read_quota(self) -> Quota:
        """The week's hours of this kind of device; the first call, so it is here that missing credentials are found."""
        if not self._owner:
            named = re.search(r"^- username: (.+)$", call("kaggle", "config", "view"), re.MULTILINE)
            if not named or named[1] == "None":
                login = write_login("kaggle")
                raise RemoteError(f"kaggle does not know your user name: log in with {login}")
            self._owner = named[1].strip()
        kind = "TPU" if self._accelerator.startswith("Tpu") else "GPU"
        lines = csv.DictReader(call("kaggle", "quota", "--csv").splitlines())
        hours = {line["resource"]: line for line in lines if line.get("remaining")}
        if not self._accelerator or kind not in hours:
            return Quota(0.0, 0.0, "")
        left = float(hours[kind]["remaining"].removesuffix("h"))
        refusal = "" if left else f"no {kind} hours are left on Kaggle until {hours[kind]['refreshAt']}"
        return Quota(left, 1.0, f"{kind} hours", refusal)

    def start(self, session: str, pack: Pack) -> None:
        """Upload a private data set, and wait until it can be attached."""
        about = {"title": session, "id": self._id(session), "licenses": [{"name": "other"}]}
        (pack.folder / "dataset-metadata.json").write_text(json.dumps(about), encoding="utf-8")
        told = call("kaggle", "datasets", "create", "-p", str(pack.folder))
        if "private Dataset is being created" not in told:
            raise RemoteError(f"Kaggle made no data set: {find_sentence(told)}")
        until = time.monotonic() + READY_S
        while (status := find_sentence(call("kaggle", "datasets", "status", self._id(session)))) != "ready":
            if status in ("failed", "deleted") or time.monotonic() > until:
                raise RemoteError(f"Kaggle could not take the upload in: the data set is {status}")
            time.sleep(POLL_S)

    def make(
        self, session: str, job: dict[str, Any], runs: list[str], hours: float, take_in: Callable[[Path], Any]
    ) -> Iterator[Any]:
        """Push a script that makes the runs; yield what taking in their archive gives once the session has ended."""
        hours, job = min(hours or SESSION_HOURS, SESSION_HOURS), job | {"home": HOME}
        with tempfile.TemporaryDirectory() as pushed:
            for name, content in describe_kernel(self._id(session), self._accelerator, job, runs, hours).items():
                Path(pushed, name).write_text(content, encoding="utf-8")
            limit = ["-t", f"{3600 * hours + SET_UP_S:.0f}"]
            device = ["--accelerator", self._accelerator] if self._accelerator else []
            with undisturbed():  # a client killed meanwhile may have pushed what a deletion then does not find
                told = call("kaggle", "kernels", "push", "-p", pushed, *limit, *device)
        if "successfully pushed" not in told or "not valid dataset sources" in told:
            raise RemoteError(f"Kaggle refused the session: {find_sentence(told)}")
        self._say(f"{session} runs on Kaggle; its rows come at its end, in {hours:.1f} h at the latest")
        yield from self.resume(session, take_in)
        if not self._is_fetched:
            raise RemoteError(f"{session} is gone from Kaggle, and left nothing")

    def resume(self, session: str, take_in: Callable[[Path], Any]) -> Iterator[Any]:
        """Wait until a session has ended and take in what it left; one that is gone left nothing."""
        shown, failed = "", 0
        while (status := self._read_status(session)) in ("", "queued", "running", "new_script"):
            failed = 0 if status else failed + 1
            if failed == FAILED_CALLS:
                raise RemoteError(f"Kaggle does not say how {session} is")
            if status and status != shown:
                self._say(f"{session} is {status}")
                shown = status
            time.sleep(POLL_S)
        if status == "gone":
            return
        with tempfile.TemporaryDirectory() as folder:
            which = ("-p", folder, "-o", "--file-pattern", r"^rows\.zip$")
            call("kaggle", "kernels", "output", self._id(session), *which)
            results, log = Path(folder, "rows.zip"), Path(folder, f"{session}.log")
            taken = take_in(results) if results.exists() else None
            why = find_sentence(log.read_text()) if log.exists() else "no log"
        if taken is None and status == "complete":
            where = f"https://www.kaggle.com/code/{self._id(session)}"
            raise RemoteError(f"{session} is complete, but Kaggle gave no rows: try again, or delete it at {where}")
        self._is_fetched = True
        if taken is None:
            raise RemoteError(f"{session} ended as {status} on Kaggle and left no row: {why[:300]}")
        yield taken

    def list_others(self) -> list[str]:
        """Nothing: a session is known by its name alone."""
        return []

    def stop(self, session: str, others: list[str]) -> None:
        """Delete script and data set, unless rows are there that have not been taken in yet."""
        if not self._is_fetched and self._read_status(session) in ("complete", "error"):
            raise RemoteError(f"rows of {session} are at Kaggle still: the same command fetches them")
        errors = []
        for kind in ("kernels", "datasets"):
            try:
                call("kaggle", kind, "delete", self._id(session), "--yes")
            except RemoteError as error:
                errors += [] if GONE.search(error.output) else [error]
        if errors:
            raise errors[0]

    def _id(self, session: str) -> str:
        return f"{self._owner}/{session}"

    def _read_status(self, session: str) -> str:
        """How a session is, in Kaggle's word; gone, or empty where nobody answers."""
        try:
            told = call("kaggle", "kernels", "status", self._id(session))
        except RemoteError as error:
            return "gone" if GONE.search(error.output) else ""
        found = re.search(r'has status "(?:\w+\.)?(\w+)"', told)
        return found[1].lower() if found else ""


def describe_kernel(name: str, accelerator: str, job: dict[str, Any], runs: list[str], hours: float) -> dict[str, str]:
    """The files of a script's folder, by name: the far side's own source with its one call, and kernel-metadata.json.

    An image is never pinned: a session on a TPU would get a CPU.
    """
    source = Path(far_side.__file__).read_text(encoding="utf-8")
    call_it = f"set_up({HOME!r}, '/kaggle/input', {NAME!r})\nmake_all({job!r}, {runs!r}, {hours!r}, {RESULTS!r})\n"
    about = {
        "id": name,
        "title": name.partition("/")[2],  # whose slug is the id's
        "code_file": "far_side.py",
        "language": "python",
        "kernel_type": "script",
        "is_private": True,
        "enable_gpu": accelerator.startswith("Nvidia"),
        "enable_tpu": accelerator.startswith("Tpu"),
        "enable_internet": True,
        "dataset_sources": [name],
        "competition_sources": [],
        "kernel_sources": [],
        "model_sources": [],
    }
    return {"far_side.py": f"{source}\n\n{call_it}", "kernel-metadata.json": json.dumps(about, indent=1)}
