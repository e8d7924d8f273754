"""Kaggle: a script that makes all runs in one session and needs nobody; its rows come back at the
end.

kaggle 2.2.5. Its `push` and `create` end with 0 where the service says no: their sentence is read.
`NvidiaTeslaT4` is two T4; a retired device is silently another one, so names are checked before,
and the row's device after. No command ends a session: `delete` takes its script away, and the limit
that `push` is given ends it at the latest.
"""

import csv
import json
import re
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dr_lib.runs.remote import far_side
from dr_lib.runs.remote.client import (
    Quota,
    RemoteError,
    call,
    find_sentence,
    insist,
    undisturbed,
    write_login,
)
from dr_lib.runs.remote.pack import NAME, Pack

HOME = "/kaggle/dr-lib"
RESULTS = "/kaggle/working/rows.zip"
# what Kaggle says of what is not there, and at times of a running session or a token that has run
# out
MISSING = re.compile(r"\b40[34] Client Error|not found|was denied", re.IGNORECASE)
UNDER_WAY = ("queued", "running", "new_script", "cancel_requested")
SESSION_HOURS = 8.5  # of 9 that every session has
SET_UP_S = 1200  # of the session, beside the runs' hours
POLL_S = 30.0
FAILED_POLLS = 20  # in a row, ten minutes of them, until a question is given up
DELETIONS = 3
RETRY_S = 5.0  # tries, and between two of them
READY_S = 3600.0  # until an upload can be attached
# accelerator of `kernels push`, and a pattern of what the device, or else the machine, is called
DEVICES = {
    "t4x2": ("NvidiaTeslaT4", r"\b2x.*\bt4\b"),
    "v5e8": ("TpuV5E8", r"v5 ?(lite|e)|\dx-tpu\b"),
    "cpu": ("", r"^(?!.*-\dx-).*-cpus-"),
}
Answer = TypeVar("Answer")


class Kaggle:
    """One session on Kaggle."""

    platform = "kaggle"
    name = "Kaggle"
    needs_client = False
    terms = "the data set is private, and deleted with the session"

    def __init__(self, device: str, say: Callable[[str], object]):
        """Take a device of DEVICES, and a way to say what goes on."""
        (self._accelerator, self.pattern), self.asked, self._say = DEVICES[device], device, say
        self._owner = ""
        self._to_delete: list[str] = []  # by `stop`: nothing while a session may hold rows

    def read_quota(self) -> Quota:
        """The week's hours of this kind of device; the first call, so it is here that missing
        credentials are found.
        """
        if not self._owner:
            named = re.search(
                r"^- username: (.+)$", call("kaggle", "config", "view"), re.MULTILINE
            )
            if not named or named[1] == "None":
                login = write_login("kaggle")
                raise RemoteError(f"kaggle does not know your user name: log in with {login}")
            self._owner = named[1].strip()
        kind = "TPU" if self._accelerator.startswith("Tpu") else "GPU"
        lines = csv.DictReader(call("kaggle", "quota", "--csv").splitlines())
        hours = {line["resource"]: line for line in lines if line.get("remaining")}
        if not self._accelerator or kind not in hours:
            return Quota(0.0, 0.0, "", session_hours=SESSION_HOURS)
        left = float(hours[kind]["remaining"].removesuffix("h"))
        session_hours = min(SESSION_HOURS, left - SET_UP_S / 3600)
        refusal = ""
        if session_hours < far_side.LEAST_HOURS:
            refusal = (
                f"{left:.2f} {kind} hours are left on Kaggle until {hours[kind]['refreshAt']}"
            )
            refusal += ", too few for a session"
        return Quota(left, 1.0, f"{kind} hours", refusal, session_hours)

    def start(self, session: str, pack: Pack) -> None:
        """Upload a private data set, and wait until it can be attached."""
        self._to_delete = ["kernels", "datasets"]
        name = name_data_set(self._id(session))
        about = {"title": name.partition("/")[2], "id": name, "licenses": [{"name": "other"}]}
        (pack.folder / "dataset-metadata.json").write_text(json.dumps(about), encoding="utf-8")
        told = call("kaggle", "datasets", "create", "-p", str(pack.folder))
        if "private Dataset is being created" not in told:
            raise RemoteError(f"Kaggle made no data set: {find_sentence(told)}")
        until = time.monotonic() + READY_S
        read_status = partial(call, "kaggle", "datasets", "status", name)
        while (status := self._ask(lambda: find_sentence(read_status()))) != "ready":
            if status in (None, "failed", "deleted") or time.monotonic() > until:
                found = status or "not there"
                raise RemoteError(
                    f"Kaggle could not take the upload in: the data set is {found}"
                )
            time.sleep(POLL_S)

    def make(
        self,
        session: str,
        job: dict[str, Any],
        runs: list[str],
        hours: float,
        take_in: Callable[[Path], Any],
    ) -> Iterator[Any]:
        """Push a script that makes the runs; yield what taking in their archive gives once the
        session has ended.
        """
        job = job | {"home": HOME}
        with tempfile.TemporaryDirectory() as pushed:
            for name, content in describe_kernel(
                self._id(session), self._accelerator, job, runs, hours
            ).items():
                Path(pushed, name).write_text(content, encoding="utf-8")
            limit = ["-t", f"{3600 * hours + SET_UP_S:.0f}"]
            device = ["--accelerator", self._accelerator] if self._accelerator else []
            # a client killed meanwhile may have pushed what a deletion then does not find
            with undisturbed():
                told = call("kaggle", "kernels", "push", "-p", pushed, *limit, *device)
        if "successfully pushed" not in told or "not valid dataset sources" in told:
            raise RemoteError(f"Kaggle refused the session: {find_sentence(told)}")
        self._say(
            f"{session} runs on Kaggle; its rows come at its end, in {hours:.1f} h at the latest"
        )
        taken = list(self.resume(session, take_in))
        if not taken:
            raise RemoteError(f"{session} is gone from Kaggle, and left nothing")
        yield from taken

    def resume(self, session: str, take_in: Callable[[Path], Any]) -> Iterator[Any]:
        """Wait until a session has ended and take in what it left; one that is gone left
        nothing.
        """
        self._to_delete = []
        shown = ""
        while (answer := self._ask(lambda: self._read_status(session))) and answer[
            0
        ] in UNDER_WAY:
            if answer[0] != shown:
                shown = answer[0]
                self._say(f"{session} is {shown}")
            time.sleep(POLL_S)
        if not answer:
            self._to_delete = ["datasets"]
            return
        status, message = answer
        with tempfile.TemporaryDirectory() as folder:
            which = ("-p", folder, "-o", "--file-pattern", r"^rows\.zip$")
            listed = self._ask(
                lambda: call("kaggle", "kernels", "output", self._id(session), *which)
            )
            error = keep_log(Path(folder, f"{session}.log"), take_in)
            results = Path(folder, "rows.zip")
            taken = take_in(results) if results.exists() else None
        if taken is None and (status == "complete" or listed is None):
            hint = f"try again, or delete it at https://www.kaggle.com/code/{self._id(session)}"
            raise RemoteError(f"{session} is {status}, but Kaggle gave no rows: {hint}")
        self._to_delete = ["kernels", "datasets"]
        why = "; ".join(filter(None, [message, error])) or "it does not say why"
        if taken is None:
            raise RemoteError(
                f"{session} ended as {status} on Kaggle and left no row: {why[:300]}"
            )
        if status != "complete":
            self._say(f"{session} ended as {status}: {why[:300]}")
        yield taken

    def list_others(self) -> list[str]:
        """Nothing: a session is known by its name alone."""
        return []

    def stop(self, session: str, others: list[str], is_interrupted: bool) -> bool:
        """Delete script and data set once their rows are here, or by Ctrl-C; else let them be."""
        if not self._to_delete:
            if not is_interrupted or self._read_status(session)[0] not in UNDER_WAY:
                return False
            self._to_delete = ["kernels", "datasets"]
        names = {"kernels": self._id(session), "datasets": name_data_set(self._id(session))}
        errors = []
        for kind in self._to_delete:
            try:
                self._delete(kind, names[kind])
            except RemoteError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return True

    def _delete(self, kind: str, name: str) -> None:
        """Delete what is there; what several tries in a row do not find is gone, if this account
        is still known.
        """
        try:
            insist(partial(call, "kaggle", kind, "delete", name, "--yes"), DELETIONS, RETRY_S)
        except RemoteError as error:
            if not MISSING.search(error.output):
                raise
            self.read_quota()

    def _id(self, session: str) -> str:
        return f"{self._owner}/{session}"

    def _read_status(self, session: str) -> tuple[str, str]:
        """How a session is, in Kaggle's word, and the message of one that failed."""
        told = call("kaggle", "kernels", "status", self._id(session))
        status = re.search(r'has status "(?:\w+\.)?(\w+)"', told)
        if not status:
            raise RemoteError(f"kaggle kernels status does not say how {session} is", told)
        message = re.search(r'Failure message: "(.*)"', told)
        return status[1].lower(), message[1] if message else ""

    def _ask(self, ask: Callable[[], Answer]) -> Answer | None:
        """Ask until Kaggle answers; None where it says for ten minutes that there is no such thing.

        Raises:
            RemoteError: it has not answered for ten minutes, or knows this account no more.
        """
        errors: list[RemoteError] = []
        while len(errors) < FAILED_POLLS:
            try:
                return ask()
            except RemoteError as error:
                fault = str(error).partition(". ")[0]  # advice follows
                if not errors:
                    self._say(f"{fault}: trying again")
                errors.append(error)
            time.sleep(POLL_S)
        if all(MISSING.search(error.output) for error in errors):
            with suppress(RemoteError):
                self.read_quota()
                return None
        silence = f"no answer from Kaggle for {FAILED_POLLS * POLL_S / 60:.0f} min ({fault})"
        raise RemoteError(f"{silence}: the same command goes on")


def name_data_set(session: str) -> str:
    """Name a session's data set otherwise than its script: Kaggle may refuse a name that is
    taken.
    """
    return f"{session}-data"


def keep_log(log: Path, take_in: Callable[[Path], Any]) -> str:
    """Have a session's log taken in among those of the runs; return the line that says what went
    wrong.
    """
    if not log.exists():
        return ""
    text, error = read_log(log.read_text(encoding="utf-8", errors="replace"))
    kept = log.with_suffix(".zip")
    with zipfile.ZipFile(kept, "w") as archive:
        archive.writestr(f"logs/{log.name}", text)
    take_in(kept)
    return error


def read_log(text: str) -> tuple[str, str]:
    """Read Kaggle's log of a session: its text, and its last error, or else the last line of
    stderr.
    """
    try:
        printed = [(entry["stream_name"], entry["data"]) for entry in json.loads(text)]
    except (ValueError, KeyError, TypeError):  # cut, or of another form
        printed = [("stderr", text)]
    errors = "".join(data for stream, data in printed if stream == "stderr")
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Exit)\b", line)]
    return "".join(data for _, data in printed), next(reversed(raised or lines), "")


def describe_kernel(
    name: str, accelerator: str, job: dict[str, Any], runs: list[str], hours: float
) -> dict[str, str]:
    """The files of a script's folder, by name: the far side's own source with its one call, and
    kernel-metadata.json.

    An image is never pinned: a session on a TPU would get a CPU.
    """
    source = Path(far_side.__file__).read_text(encoding="utf-8")
    call_it = (
        f"set_up({HOME!r}, '/kaggle/input', {NAME!r})\nmake_all({job!r}, {runs!r}, {hours!r},"
        f" {RESULTS!r})\n"
    )
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
        "dataset_sources": [name_data_set(name)],
        "competition_sources": [],
        "kernel_sources": [],
        "model_sources": [],
    }
    return {
        "far_side.py": f"{source}\n\n{call_it}",
        "kernel-metadata.json": json.dumps(about, indent=1),
    }
