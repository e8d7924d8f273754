"""One run of a notebook: started, locked by one process, and finished with its row."""

from __future__ import annotations

import json
import math
import os
import time
import uuid
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from dr_lib.code import (
    Cells,
    find_changed,
    hash_code,
    hash_notebook,
    mark_edited,
    read_commit,
)
from dr_lib.command import write_lasting_command
from dr_lib.errors import DrError
from dr_lib.files import lock, write_json
from dr_lib.hardware.cpus import count_cpus
from dr_lib.hardware.facts import find_boot
from dr_lib.hardware.settings import describe_settings
from dr_lib.parameters import find_model
from dr_lib.processes import end_with_parent
from dr_lib.runs.monitor import read_process_cpu_s
from dr_lib.runs.prices import find_price, price_seconds
from dr_lib.runs.row import (
    KIND,
    Row,
    RowError,
    progress_path,
    read_left,
    row_path,
    write_row,
)

RUN_VARIABLE = "DR_LIB_RUN"  # how a study tells the notebook which run it is
REQUEST = "request.json"  # in a run's folder: notebook and parameters
DISTURBED = 0.1  # share of the CPUs, or of the GPUs, that others take
_locks: dict[Path, AbstractContextManager] = {}  # of this process's runs, by folder


class UnavailableError(DrError):
    """This machine cannot make such a run; a study skips it and reports why."""


@dataclass
class RunIdentity:
    """The identity of a run, passed from the study to the notebook and written to the row.

    Where a default is None, the row of a run outside a study has no such column.
    """

    run_id: str
    study_dir: str  # folder of the study, for rows and what the runs leave
    scenario: str = "C1"
    order: int = 0
    session_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    retries: int = 0
    priced_as: str = ""
    # a cloud service's session names itself to the rows made there
    session: str | None = field(default_factory=lambda: os.environ.get("DR_LIB_SESSION"))
    others_gpu_share: float | None = None
    stop_at: float = math.inf  # of this try alone: when it has to stop, on the monotonic clock

    @classmethod
    def read(cls) -> RunIdentity | None:
        """Read the identity from the study that started this process; None outside a study."""
        written = os.environ.get(RUN_VARIABLE)
        return cls(**json.loads(written)) if written else None

    def environment(self) -> dict[str, str]:
        """Write the identity for the process that makes this run, where `read` reads it."""
        return {RUN_VARIABLE: json.dumps(asdict(self))}

    def columns(self) -> dict[str, Any]:
        """The identity as columns of the row."""
        row = {name: value for name, value in asdict(self).items() if value is not None}
        del row["stop_at"]
        row["study"] = Path(row.pop("study_dir")).name
        return row


class Run:
    """A started run; `finish` writes its row.

    Example:
        >>> run = Run(Path("."), "my_notebook", {"seed": 20, "repetition": 3})
        >>> run.seed
        23
        >>> run.finish(train_s=12.5).suffix
        '.json'
    """

    def __init__(
        self,
        root: Path,
        notebook: str,
        parameters: dict[str, Any],
        *,
        results: str = "",
        instance: str = "",
    ):
        """Start a run, or resume one.

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
            instance: the machine's name in the table of prices, by which the row says what the run
                cost; a study's wins.

        Raises:
            RowError: another process is at work on this run of the study, or the library has
                changed since this process imported it.
            PriceError: the instance has no price.
        """
        self._root = root
        request = json.loads(json.dumps({"notebook": notebook, "parameters": parameters}))
        run = RunIdentity.read()
        if run:
            end_with_parent()
        else:
            study_dir = Path(results) if results else root / "papermill_runs" / "adhoc"
            run_id = _find_cut_off(study_dir, request) or uuid.uuid4().hex[:12]
            run = RunIdentity(run_id, str(study_dir))
        run.priced_as = run.priced_as or instance

        if changed := find_changed():
            names = ", ".join(changed)
            raise RowError(
                f"{names} changed since this kernel began: restart it, and run again"
            )
        self._run = run
        self.study_dir = Path(run.study_dir)
        self._cells = Cells(root, notebook)
        self._identity = {
            **run.columns(),
            "resumed": 0,
            "notebook": notebook,
            "notebook_sha256": hash_notebook(root, notebook),
            "commit": read_commit(root, notebook),
            "code_sha256": hash_code(root, notebook),
            "boot": find_boot(),
            "environment_settings": describe_settings(),
            "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
            **parameters,
            "seed": parameters["seed"] + parameters["repetition"],
        }
        self._price = find_price(run.priced_as) if run.priced_as else None
        # a kernel whose study was killed needs a moment to end
        if not _lock(self.folder, wait_s=10):
            raise RowError(
                f"another process is working on run {run.run_id}: wait for it, or end it"
            )
        write_json(self.folder / REQUEST, request)
        boot = self._identity["boot"]
        earlier = read_left(self.study_dir).values()
        self._earlier = [_find_kind(row) for row in earlier if row.get("boot") == boot]
        self._is_finished = False
        self._start = time.monotonic()
        self._others_s = _read_others_s()

    @classmethod
    def of_notebook(
        cls, root: Path, notebook: str, values: dict[str, Any], **columns: Any
    ) -> Run:
        """Start a run with the parameters of its notebook's cell.

        Args:
            root: the repository.
            notebook: its name without suffix.
            values: of the parameters, such as the notebook's `globals()`.
            columns: what else says what is to be done.
        """
        parameters = find_model(notebook).from_parameters(values)
        return cls(
            root,
            notebook,
            {**parameters.describe(), **columns},
            results=parameters.results,
            instance=getattr(parameters, "instance", ""),
        )

    @property
    def seed(self) -> int:
        """The seed of this run: the study's plus the repetition."""
        return self._identity["seed"]

    @property
    def identity(self) -> dict[str, Any]:
        """The columns that were known at the start; those of the code see the cells run so far."""
        return mark_edited(self._identity, self._cells.find_edits())

    @property
    def folder(self) -> Path:
        """The folder for this run's files other than its row: history and model."""
        path = self.study_dir / "runs" / self._run.run_id
        path.mkdir(parents=True, exist_ok=True)
        return path

    def shown(self, path: Path) -> str:
        """Write a path as a command in the repository's root takes it."""
        path = Path(path).resolve()
        root = self._root.resolve()
        return str(path.relative_to(root) if root in path.parents else path)

    def write_command(self, *words: str | Path) -> str:
        """Write a command for what the run left, with paths as `shown` writes them."""
        shown = [self.shown(word) if isinstance(word, Path) else word for word in words]
        return write_lasting_command(*shown)

    def seconds(self) -> float:
        """Seconds since the run started."""
        return time.monotonic() - self._start

    def seconds_left(self) -> float:
        """Seconds until the run must have stopped; infinite without a limit."""
        return self._run.stop_at - time.monotonic()

    def show_progress(self, done: int, total: int) -> None:
        """Report progress to the process that started the run."""
        path = progress_path(self.study_dir, self._run.run_id)
        write_json(path, {"done": done, "total": total})

    def finish(self, **measured: Any) -> Path:
        """Write the row of a finished run, with the columns measured, and return its path.

        Raises:
            RowError: a column has the wrong type, or a number that is infinite; or the run has its
                row.
        """
        if self._is_finished:
            raise RowError(
                "this run has its row: make another, from the cell that starts it on"
            )
        wall_s = self.seconds()
        # others may keep as many CPUs busy as this run cannot use
        taken_s = _read_others_s() - self._others_s
        free_s = (psutil.cpu_count() - count_cpus()) * wall_s
        others_cpu_share = max(0.0, taken_s - free_s) / (count_cpus() * wall_s)
        others_gpu_share = self._run.others_gpu_share or 0.0
        if others_gpu_share > DISTURBED:
            measured["gpu_energy_j"] = None  # theirs is in it
        identity = self.identity
        row = {
            **identity,
            "status": "ok",
            "error": "",
            "wall_s": wall_s,
            "others_cpu_share": round(others_cpu_share, 3),
            "disturbed": max(others_cpu_share, others_gpu_share) > DISTURBED,
            **self._price_training(measured),
            **measured,
        }
        for name in ("commit", "code_sha256"):  # with the cells that followed a training
            row[name] = identity[name]
        if "train_s" in row:
            row["cold"] = _find_kind(row) not in self._earlier
        path = write_row(self.study_dir, row)
        self._is_finished = True
        return path

    def fail(self, error: str, **measured: Any) -> Path:
        """Write the row of a run that cannot succeed; the same parameters are then another run."""
        row = {
            **self.identity,
            **measured,
            "status": "failed",
            "error": error,
            "wall_s": self.seconds(),
        }
        return write_row(self.study_dir, row)

    def _price_training(self, measured: dict[str, Any]) -> dict[str, Any]:
        """Price the training alone; not for a resumed run, whose last process timed only a part."""
        if not self._price:
            return {}
        usd_per_hour = self._price.usd_per_hour
        train_s = math.nan if measured.get("resumed") else measured.get("train_s") or math.nan
        return {
            "usd_per_hour": usd_per_hour,
            "price_as_of": self._price.date,
            "formula_usd": price_seconds(usd_per_hour, train_s),
            "cost_usd": price_seconds(usd_per_hour, train_s, measured.get("setup_s") or 0.0),
        }


def _find_kind(row: Row) -> tuple | None:
    """Find what runs of one kind agree in; nothing of a row that has no times."""
    if row["status"] != "ok":
        return None
    version = row.get(row.get("backend") or "")
    return (*map(row.get, KIND), version)


def _read_others_s() -> float:
    """Read the CPU seconds that all but this process and its ended children have taken since the
    boot, other guests of the host (steal) among them.
    """
    times = psutil.cpu_times()._asdict()
    # a guest's time is in the user's
    unused = ("idle", "iowait", "guest", "guest_nice")
    busy_s = sum(seconds for name, seconds in times.items() if name not in unused)
    return busy_s - read_process_cpu_s(psutil.Process())


def _lock(folder: Path, wait_s: float = 0.0) -> bool:
    """Lock a run's folder until this process ends, in any way; False if another process holds
    it.
    """
    held = _locks.get(folder) or lock(folder / "lock", wait_s=wait_s)
    if held:
        _locks[folder] = held
    return bool(held)


def _find_cut_off(study_dir: Path, request: dict[str, Any]) -> str:
    """Find the latest run with the same request, without a row and not held by a process; else
    empty.
    """
    requests = study_dir.glob(f"runs/*/{REQUEST}")
    for path in sorted(requests, key=lambda path: path.stat().st_mtime, reverse=True):
        folder = path.parent
        with suppress(ValueError):  # broken by hand, or by another program
            is_same = json.loads(path.read_bytes()) == request
            is_open = is_same and not row_path(study_dir, folder.name).exists()
            if is_open and _lock(folder):
                return folder.name
    return ""
