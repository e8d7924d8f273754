"""One run of a notebook: begun, locked by one process, and ended by its row.

Notebooks of foreign kernels begin runs too: this file needs Python 3.9 and psutil, nothing else.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TextIO

import psutil

from dr_lib.files import lock, write_json
from dr_lib.hardware.machines import find_place
from dr_lib.runs.monitor import read_cpu_times, read_process_cpu_s
from dr_lib.runs.prices import find_price, price_seconds
from dr_lib.runs.row import RowError, count_paid, progress_path, row_path, write_row

RUN_VARIABLE = "DR_LIB_RUN"  # how a study tells the notebook which run it is
REQUEST = "request.json"  # in a run's folder: notebook and parameters
LOCK = "lock"  # in a run's folder: locked by the process that is at work on it
LOCK_TIMEOUT_S = 10.0
# in an archive of the repository, which git cannot ask: the commit it was made of
COMMIT = "COMMIT"
DISTURBED_SHARE = 0.1  # of the machine's CPU time, taken by others before or during the run
# of this process's runs, by folder; a file that is closed is no lock
_locks: dict[Path, TextIO] = {}


class UnavailableError(RuntimeError):
    """This machine cannot make such a run, however often it is tried: a study skips it and says
    why.
    """


class Run:
    """A run that has begun; `finish` writes its row."""

    def __init__(
        self,
        root: Path,
        notebook: str,
        parameters: dict[str, Any],
        *,
        results: str = "",
        max_hours: float = 0.0,
        instance: str = "",
    ):
        """Begin a run, or go on with one.

        Outside a study, a run with the same parameters that has no row and that no process holds
        was cut off: this is that run, and what it left in its folder is there to go on with. Where
        other machines' locks cannot be seen, machines that run at the same time need `results` of
        their own.

        Args:
            root: the repository.
            notebook: its name without suffix.
            parameters: all that say what is to be done, `repetition` and `seed` among them.
            results: folder for rows and runs, by default `papermill_runs/adhoc` of the repository;
                a study has its own.
            max_hours: the run has to have stopped by then, see `seconds_left`; 0 for no limit.
            instance: the machine's name in the table of prices, by which the row says what the run
                cost; a study's wins.

        Raises:
            RowError: another process is at work on this run of the study.
            PriceError: the instance has no price.
        """
        self._root = root
        identity = json.loads(os.environ.get(RUN_VARIABLE, "{}"))
        adhoc = Path(results) if results else root / "papermill_runs" / "adhoc"
        # machine 0 alone keeps what the run leaves
        if parameters.get("num_machines", 1) > 1 and find_place().rank:
            self._scratch = tempfile.TemporaryDirectory(prefix="dr-machine-")
            adhoc = Path(self._scratch.name)
        self.study_dir = Path(identity.pop("study_dir", adhoc))
        self._stop_at = identity.pop("stop_at", math.inf)
        if max_hours:
            self._stop_at = min(self._stop_at, time.monotonic() + 3600 * max_hours)
        self._others_before = identity.pop("others_before", 0.0)
        request = json.loads(json.dumps({"notebook": notebook, "parameters": parameters}))
        self.identity = {
            "run_id": (
                identity.pop("run_id", "")
                or _find_cut_off(self.study_dir, request)
                or uuid.uuid4().hex[:12]
            ),
            "study": self.study_dir.name,
            "scenario": "C1",
            "order": 0,
            "session_id": uuid.uuid4().hex[:12],
            "retries": 0,
            "resumed": 0,
            "priced_as": instance,
            **identity,
            "notebook": notebook,
            "notebook_sha256": hash_notebook(root, notebook),
            "commit": read_commit(root),
            "started_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            **parameters,
            "seed": parameters["seed"] + parameters["repetition"],
        }
        if RUN_VARIABLE in os.environ:
            die_with_parent()
        self._price = find_price(self.identity["priced_as"]) if self.identity["priced_as"] else None
        # a kernel whose study was killed needs a moment to end
        if not _lock(self.folder, LOCK_TIMEOUT_S):
            raise RowError(
                f"another process is at work on run {self.identity['run_id']}: wait for it, or"
                " end it"
            )
        write_json(self.folder / REQUEST, request)
        self._start = time.monotonic()
        self._others_cpu_s = _read_others_cpu_s()

    @property
    def seed(self) -> int:
        """The seed of this run: the study's plus the repetition."""
        return self.identity["seed"]

    @property
    def folder(self) -> Path:
        """Where this run leaves what is not a row: its history, its model."""
        path = self.study_dir / "runs" / self.identity["run_id"]
        path.mkdir(parents=True, exist_ok=True)
        return path

    def shown(self, path: Path) -> str:
        """A path as a command in the repository's root takes it."""
        path = Path(path).resolve()
        root = self._root.resolve()
        return str(path.relative_to(root) if root in path.parents else path)

    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._start

    def seconds_left(self) -> float:
        """Seconds until the run has to have stopped; infinite without a limit."""
        return self._stop_at - time.monotonic()

    def show_progress(self, done: int, total: int) -> None:
        """Tell whoever started the run how far it is."""
        write_json(
            progress_path(self.study_dir, self.identity["run_id"]), {"done": done, "total": total}
        )

    def finish(self, **measured: Any) -> Path:
        """Write the row of a run that came to its end, with the columns measured, and return its
        path.

        Raises:
            RowError: a column has the wrong type, or a number that is infinite.
        """
        wall_s = self.seconds()
        during = _share(_read_others_cpu_s() - self._others_cpu_s, wall_s)
        # where machines are rehearsed, the others' processes are part of the run
        others = (
            self._others_before
            if self.identity.get("rehearsed")
            else max(during, self._others_before)
        )
        row = {
            **self.identity,
            "status": "ok",
            "error": "",
            "wall_s": wall_s,
            "others_cpu_share": others,
            "disturbed": others > DISTURBED_SHARE,
            "peak_memory_mib": round(psutil.Process().memory_info().rss / 2**20),
        }
        if self._price:
            row.update(usd_per_hour=self._price.usd_per_hour, price_as_of=self._price.date)
            # what trains nothing, a server say, costs no training
            train_s = measured.get("train_s") or math.nan
            # that of the last process alone
            train_s = math.nan if measured.get("resumed") else train_s
            usd_per_hour = self._price.usd_per_hour * count_paid(self.identity)
            row["formula_usd"] = price_seconds(usd_per_hour, train_s)
            row["cost_usd"] = price_seconds(usd_per_hour, train_s, measured.get("setup_s") or 0.0)
        return write_row(self.study_dir, {**row, **measured})


def hash_notebook(root: Path, notebook: str) -> str:
    """The sha256 of a notebook as it lies in the repository; empty where it is not there."""
    source = root / "notebooks" / f"{notebook}.ipynb"
    return hashlib.sha256(source.read_bytes()).hexdigest() if source.exists() else ""


def read_commit(root: Path) -> str:
    """The commit of the repository, with -dirty if files differ from it; empty outside a
    repository.
    """
    if (root / COMMIT).is_file():
        return (root / COMMIT).read_text(encoding="utf-8").strip()
    if not (root / ".git").exists():  # an unpacked archive may lie inside another clone
        return ""
    command = [
        "git",
        "-C",
        str(root),
        "describe",
        "--always",
        "--abbrev=40",
        "--dirty",
        "--exclude=*",
    ]
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return ""


def die_with_parent() -> None:
    """Ask Linux to end this process when its parent ends; elsewhere locks keep a second one
    waiting.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 = PR_SET_PDEATHSIG


def bind_to_parent(command: list[str]) -> list[str]:
    """The command that runs this one and ends with this process, on Linux; elsewhere the same.

    A preexec_fn would run Python between fork and exec, where a Ctrl-C is lost and threads may lock
    each other out.
    """
    if sys.platform != "linux":
        return command
    bound = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); "  # PR_SET_PDEATHSIG, SIGKILL
    bound += "os.getppid() == int(sys.argv[1]) and os.execvp(sys.argv[2], sys.argv[2:])"
    return [sys.executable, "-ISc", bound, str(os.getpid()), *command]


def measure_others(seconds: float) -> float:
    """Watch for so long what share of the machine's CPU time everybody takes but this process,
    steal included.
    """
    start = time.monotonic()
    cpu_s = _read_others_cpu_s()
    time.sleep(seconds)
    return _share(_read_others_cpu_s() - cpu_s, time.monotonic() - start)


def _read_others_cpu_s() -> float:
    """CPU seconds that the machine spent so far on all but this process and its children that
    ended.
    """
    return read_cpu_times()[1] - read_process_cpu_s(psutil.Process())


def _share(cpu_s: float, seconds: float) -> float:
    """CPU seconds as a share of what all CPUs had in that time."""
    return round(max(0.0, cpu_s / (seconds * (psutil.cpu_count() or 1))), 3)


def _lock(folder: Path, wait_s: float = 0.0) -> bool:
    """Lock a run's folder for as long as this process lives, however it ends; False if another
    process holds it.
    """
    file = _locks.get(folder) or lock(folder / LOCK, wait_s=wait_s)
    if file:
        _locks[folder] = file
    return bool(file)


def _find_cut_off(study_dir: Path, request: dict[str, Any]) -> str:
    """The youngest run with the same request that left no row and that no process holds; empty
    if there is none.
    """
    paths = sorted(
        study_dir.glob(f"runs/*/{REQUEST}"), key=lambda path: path.stat().st_mtime, reverse=True
    )
    for path in paths:
        with suppress(ValueError):  # broken by hand, or by another program
            is_same = json.loads(path.read_bytes()) == request
            if (
                is_same
                and not row_path(study_dir, path.parent.name).exists()
                and _lock(path.parent)
            ):
                return path.parent.name
    return ""
