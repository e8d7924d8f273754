"""One run of a notebook and the row it leaves: one flat JSON file, a table when read together."""

import hashlib
import json
import math
import os
import platform
import subprocess
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

RUN_VARIABLE = "DR_LIB_RUN"  # how a study tells the notebook which run it is
ASKED = "asked.json"  # in a run's folder: what it was asked for
CONTENDED_SHARE = 0.1  # of the machine's CPU time, taken by others during the run


class RowError(ValueError):
    """A row is not what a row has to be."""


class Row(BaseModel):
    """What every run says of itself; parameters, metrics and whatever else it measured stand beside it.

    Seconds are on a monotonic clock. `train_s` runs from the call of the training to its return with the device's
    work finished; `first_step_s` and `epoch_s` are inside it; `setup_s` is what came before it.
    """

    model_config = ConfigDict(extra="allow")

    run_id: str
    study: str
    notebook: str
    notebook_sha256: str
    scenario: str
    repetition: int
    order: int
    seed: int
    session_id: str
    started_at: str
    status: Literal["ok", "failed"]
    retries: int
    resumed: int
    error: str
    commit: str
    wall_s: float
    setup_s: float | None = None
    train_s: float | None = None
    first_step_s: float | None = None
    epoch_s: list[float] | None = None
    steady_epoch_s: float | None = None
    cpu_s: float | None = None


class Run:
    """A run that has begun; `finish` writes its row."""

    def __init__(
        self, root: Path, notebook: str, parameters: dict[str, Any], *, results: str = "", max_hours: float = 0.0
    ):
        """Begin a run, or go on with one.

        Outside a study, a run that was asked for with the same parameters, has no row and no living process was cut
        off: this is that run, and what it left in its folder is there to go on with. Other machines' processes cannot
        be seen: machines that run at the same time need `results` of their own.

        Args:
            root: the repository.
            notebook: its name without suffix.
            parameters: all parameters of the notebook that say what is to be done, by name; `repetition` and `seed`
                among them.
            results: folder for rows and runs, by default `papermill_runs/adhoc` of the repository; a study has its own.
            max_hours: the run has to have stopped by then, see `seconds_left`; 0 for no limit.
        """
        given = json.loads(os.environ.get(RUN_VARIABLE, "{}"))
        adhoc = Path(results) if results else root / "papermill_runs" / "adhoc"
        self.study_dir, self._stop_at = Path(given.pop("study_dir", adhoc)), given.pop("stop_at", math.inf)
        if max_hours:
            self._stop_at = min(self._stop_at, time.time() + 3600 * max_hours)
        asked = json.loads(json.dumps({"notebook": notebook, "parameters": parameters}))
        source = root / "notebooks" / f"{notebook}.ipynb"
        self.identity = {
            "run_id": given.pop("run_id", "") or _find_cut_off(self.study_dir, asked) or uuid.uuid4().hex[:12],
            "study": self.study_dir.name,
            "scenario": "C1",
            "order": 0,
            "session_id": uuid.uuid4().hex[:12],
            "retries": 0,
            "resumed": 0,
            **given,
            "notebook": notebook,
            "notebook_sha256": hashlib.sha256(source.read_bytes()).hexdigest() if source.exists() else "",
            "commit": read_commit(root),
            "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "load_before": round(psutil.getloadavg()[0], 2),
            **parameters,
            "seed": parameters["seed"] + parameters["repetition"],
        }
        _write_json(self.folder / ASKED, asked | {"process": _name_process()})
        self._start, self._busy, self._own = time.monotonic(), _busy_cpu_s(), _own_cpu_s()

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

    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._start

    def seconds_left(self) -> float:
        """Seconds until the run has to have stopped; infinite without a limit."""
        return self._stop_at - time.time()

    def show_progress(self, done: int, total: int) -> None:
        """Tell whoever started the run how far it is."""
        _write_json(progress_path(self.study_dir, self.identity["run_id"]), {"done": done, "total": total})

    def finish(self, **measured: Any) -> Path:
        """Write the row of a run that came to its end, and return its path.

        Args:
            measured: columns of the row, in the names and units of DESIGN's run row.

        Raises:
            RowError: a column has the wrong type, or a number that is not finite.
        """
        wall_s, cpus = self.seconds(), psutil.cpu_count() or 1
        others_s = (_busy_cpu_s() - self._busy) - (_own_cpu_s() - self._own)
        return write_row(
            self.study_dir,
            {
                **self.identity,
                "status": "ok",
                "error": "",
                "wall_s": wall_s,
                "load_after": round(psutil.getloadavg()[0], 2),
                "others_cpu_share": round(max(0.0, others_s / (wall_s * cpus)), 3),
                "contended": others_s > CONTENDED_SHARE * wall_s * cpus,
                "peak_memory_mib": round(psutil.Process().memory_info().rss / 2**20),
                **measured,
            },
        )


def write_row(study_dir: Path, row: dict[str, Any]) -> Path:
    """Check a row and write it in one step to `rows/<run_id>.json` of the study."""
    try:
        checked = Row.model_validate(row).model_dump()
    except ValidationError as error:
        raise RowError(f"this run's row is not valid: {error}") from error
    for name, value in checked.items():
        if isinstance(value, float) and math.isinf(value):
            raise RowError(f"{name} is infinite")
    path = row_path(study_dir, checked["run_id"])
    _write_json(path, {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in checked.items()})
    return path


def read_rows(*folders: Path) -> list[dict[str, Any]]:
    """Read all rows below the folders, of any number of machines.

    Raises:
        RowError: a file is no row; it is named.
    """
    rows = []
    for path in sorted(path for folder in folders for path in Path(folder).rglob("rows/*.json")):
        try:
            rows.append(Row.model_validate_json(path.read_bytes()).model_dump())
        except ValidationError as error:
            raise RowError(f"{path} is no row of a run, take it out: {error}") from error
    return rows


def read_runs(*folders: Path) -> pd.DataFrame:
    """The rows below the folders as one table, a row per run, in the order in which they began.

    Raises:
        RowError: there is none, two rows of one run differ, or a file is no row.
    """
    rows = {}
    for row in read_rows(*folders):
        if rows.setdefault(row["run_id"], row) != row:
            raise RowError(f"run {row['run_id']} stands twice in {', '.join(map(str, folders))}, with other content")
    if not rows:
        raise RowError(f"no rows of runs below {', '.join(map(str, folders))}: run a study, or notebook 10, first")
    return pd.DataFrame(rows.values()).sort_values(["started_at", "run_id"], ignore_index=True)


def row_path(study_dir: Path, run_id: str) -> Path:
    """Where a run's row lies."""
    return study_dir / "rows" / f"{run_id}.json"


def progress_path(study_dir: Path, run_id: str) -> Path:
    """Where a run says how far it is."""
    return study_dir / "progress" / f"{run_id}.json"


def read_commit(root: Path) -> str:
    """The commit of the repository, with -dirty if files differ from it; empty outside a repository."""
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _find_cut_off(study_dir: Path, asked: dict[str, Any]) -> str:
    """The youngest run that was asked for the same and left no row; empty if there is none."""
    found = ""
    for path in sorted(study_dir.glob(f"runs/*/{ASKED}"), key=lambda path: path.stat().st_mtime):
        try:
            known = json.loads(path.read_bytes())
            same = {name: known[name] for name in asked} == asked and not _is_another_alive(known["process"])
        except (ValueError, KeyError, TypeError, psutil.Error):  # cut off while it was written
            continue
        if same and not row_path(study_dir, path.parent.name).exists():
            found = path.parent.name
    return found


def _name_process() -> dict[str, Any]:
    return {"host": platform.node(), "pid": os.getpid(), "started": psutil.Process().create_time()}


def _is_another_alive(process: dict[str, Any]) -> bool:
    """Whether another process of this machine is at work on a run; one killed but not yet reaped is not."""
    if process == _name_process() or process["host"] != platform.node():
        return False
    try:
        other = psutil.Process(process["pid"])
        return other.status() != psutil.STATUS_ZOMBIE and abs(other.create_time() - process["started"]) < 1
    except psutil.NoSuchProcess:
        return False


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
    temporary.replace(path)


def _busy_cpu_s() -> float:
    times = psutil.cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)


def _own_cpu_s() -> float:
    return sum(psutil.Process().cpu_times()[:4])
