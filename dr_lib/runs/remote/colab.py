"""Colab: a machine with a kernel, on which one run is made after another; the row of each comes
back at once.

google-colab-cli 0.7.5. Its `exec` ends with 0 after an error too, and takes 30 s for the limit
unless it is told another: the row that comes back is believed, nothing else. Its `new` takes an
unknown device for another one, so names are checked before. A machine outlives the client, so it is
stopped in every case; where `new` was ended before it had noted its machine, `stop` says that there
is none, and ends with 0: the list of the account's machines is believed.
"""

import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from dr_lib.runs.remote import far_side
from dr_lib.runs.remote.client import (
    Quota,
    RemoteError,
    call,
    find_sentence,
    insist,
    undisturbed,
)
from dr_lib.runs.remote.pack import NAME, Pack

UPLOADS = "content"
HOME = "/content/dr-lib"  # the first as upload and download have it, without its slash
SET_UP_S = 900.0  # to unpack, and to install what is missing
WATCHED_S = (
    600.0  # by one call, for a run of any length; in between the client takes a new token
)
UPLOAD_S = 1800.0  # of one part, which the client itself does not limit
FAILED_CALLS = 3
RETRY_S = 60.0  # in a row, until a machine that may still be there is given up
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
TERMS = "Colab's terms forbid bulk computing on the free tier: keep studies there small"


class Colab:
    """One session on Colab."""

    platform = "colab"
    name = "Colab"
    terms = TERMS
    needs_client = True  # while it makes runs

    def __init__(self, device: str, say: Callable[[str], object]):
        """Take a device of DEVICES, and a way to say what goes on."""
        (self._options, self.pattern), self.asked, self._say = DEVICES[device], device, say

    def read_quota(self) -> Quota:
        """The account's compute units; the first call, so it is here that missing credentials
        are found.
        """
        text = call("colab", "usage")
        left, per_hour = (
            re.search(rf"{label}: (-?[\d.]+)", text)
            for label in ("Current balance", "Usage rate")
        )
        if not (left and per_hour):
            raise RemoteError(
                f"colab usage does not say how many units are left, but: {text.strip()[:200]!r}"
            )
        return Quota(float(left[1]), float(per_hour[1]), "compute units")

    def start(self, session: str, pack: Pack) -> None:
        """Allocate a machine, see that the service gives the device, upload, unpack."""
        with undisturbed():
            call("colab", "new", "-s", session, *self._options)
        given = {name: device for name, _, device in _list_machines()}.get(session, self.asked)
        if given.lower() != self.asked.lower():
            raise RemoteError(
                f"Colab gave {given} where {self.asked} was asked for; nothing was run on it"
            )
        for path in (Path(far_side.__file__), *pack.parts):
            there = f"{UPLOADS}/{path.name}"
            words = ("upload", "-s", session, str(path), there)
            insist(partial(call, "colab", *words, limit_s=UPLOAD_S), FAILED_CALLS, RETRY_S)
        told = self._execute(
            session, f"far_side.set_up({HOME!r}, '/{UPLOADS}', {NAME!r})", SET_UP_S
        )
        if far_side.READY not in told:
            raise RemoteError(f"Colab's machine could not be set up: {find_sentence(told)}")

    def make(
        self,
        session: str,
        job: dict[str, Any],
        runs: list[str],
        hours: float,
        take_in: Callable[[Path], Any],
    ) -> Iterator[Any]:
        """Make the runs, and yield what taking in the archive of each gives, as soon as it has
        ended.
        """
        start = time.monotonic()
        job = job | {"home": HOME}
        for run in runs:
            left = hours and hours - (time.monotonic() - start) / 3600
            if hours and left < far_side.LEAST_HOURS:
                return
            until = start + 3600 * hours + SET_UP_S if hours else float("inf")
            with tempfile.TemporaryDirectory() as scratch:
                yield take_in(
                    self._make_one(session, job, run, left, until, Path(scratch, f"{run}.zip"))
                )

    def _make_one(
        self, session: str, job: dict, run: str, hours: float, until: float, results: Path
    ) -> Path:
        """Watch a run in calls of ten minutes, each of which may fail, until what it left is
        here.
        """
        there = f"/{UPLOADS}/{results.name}"
        failed = 0
        code = f"if far_side.make({job!r}, {run!r}, {hours!r}, wait_s={WATCHED_S!r}):\n"
        code += f"    far_side.collect({job!r}, [{run!r}], {there!r})"
        while failed < FAILED_CALLS:
            began = time.monotonic()
            with suppress(RemoteError):
                self._execute(session, code, WATCHED_S + 60)
                call("colab", "download", "-s", session, there[1:], str(results))
                return results
            if time.monotonic() > until:
                raise RemoteError(f"{run} did not end within max_hours")
            # else it is still under way
            failed = 0 if time.monotonic() - began >= WATCHED_S else failed + 1
            if failed and self._is_lost(session):
                raise RemoteError(
                    f"Colab took the machine away during {run}; the rows before it are here"
                )
            time.sleep(RETRY_S if failed else 0.0)
        raise RemoteError(f"{run} left nothing, {failed} calls in a row ended too early")

    def _is_lost(self, session: str) -> bool:
        """Whether the service knows the machine no more; false where nobody answers."""
        with suppress(RemoteError):
            return "not found" in call("colab", "status", "-s", session)
        return False

    def _execute(self, session: str, code: str, limit_s: float) -> str:
        """Run code on the machine and return what it prints; its errors are no error here."""
        program = f"import sys\nsys.path.insert(0, '/{UPLOADS}')\nimport far_side\n{code}\n"
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(program)
            file.flush()
            options = ("-s", session, "-f", file.name, "--timeout", f"{limit_s:.0f}")
            return call("colab", "exec", *options, limit_s=limit_s + 120, say=self._say)

    def resume(self, session: str, take_in: Callable[[Path], Any]) -> Iterator[Any]:
        """What a session whose client died has yet to give: nothing, every row came back at
        once.
        """
        return iter(())

    def list_others(self) -> list[str]:
        """The account's machines, before one is allocated."""
        return [machine for _, machine, _ in _list_machines()]

    def stop(self, session: str, others: list[str], is_interrupted: bool) -> bool:
        """Give the machine back; one that is gone is no error, one that nobody knows and is none
        of the others is.
        """
        is_known = "not found" not in call("colab", "stop", "-s", session)
        for name, machine, _ in _list_machines():
            if name == session or (name == "?" and not is_known and machine not in others):
                raise RemoteError(
                    f"{machine} runs on Colab still: end it at https://colab.research.google.com"
                )
        return True


def _list_machines() -> list[list[str]]:
    """Name, machine and device of each that the account has; the name of one that the client did
    not note is ?.
    """
    return re.findall(
        r"^\[(.+?)\] (\S+) \| Hardware: (\w+)", call("colab", "sessions"), re.MULTILINE
    )
