"""Rows: what every run says of itself, checked, written in one step, and read back as one table.

Notebooks of foreign kernels write rows too: this file needs Python 3.9 and, to read a table, pandas.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

STATUSES = ("ok", "failed", "skipped")
COLUMNS = {  # of every row; parameters, metrics and whatever else was measured stand beside them
    "run_id": str,
    "study": str,
    "notebook": str,
    "notebook_sha256": str,
    "scenario": str,
    "repetition": int,
    "order": int,
    "seed": int,
    "session_id": str,
    "started_at": str,
    "status": str,
    "retries": int,
    "resumed": int,
    "error": str,
    "commit": str,
    "wall_s": float,
}
MEASURED = {  # where there is one; seconds are on a monotonic clock
    "setup_s": float,  # what came before the training
    "train_s": float,  # from the call of the training to its return with the device's work finished
    "first_step_s": float,  # inside train_s, as the epochs are
    "epoch_s": list,
    "steady_epoch_s": float,
    "cpu_s": float,
    "cost_usd": float,
}


class RowError(ValueError):
    """A row is not what a row has to be."""


def check_row(row: Any) -> dict[str, Any]:
    """Hold a row against what every row has to be, and give it back with null for what is not a number.

    Raises:
        RowError: a column is missing, has the wrong type, or is infinite; it is named.
    """
    if not isinstance(row, dict):
        raise RowError("it is no table of columns")
    checked = {name: None for name in MEASURED} | {name: _check(name, value) for name, value in row.items()}
    missing = [name for name in COLUMNS if checked.get(name) is None]
    if missing:
        raise RowError(f"{', '.join(missing)} missing")
    if checked["status"] not in STATUSES:
        raise RowError(f"status is {checked['status']!r}, not one of {', '.join(STATUSES)}")
    return checked


def write_row(study_dir: Path, row: dict[str, Any]) -> Path:
    """Check a row and write it in one step to `rows/<run_id>.json` of the study."""
    try:
        checked = check_row(row)
    except RowError as error:
        raise RowError(f"this run's row is not valid: {error}") from error
    path = row_path(study_dir, checked["run_id"])
    write_json(path, checked)
    return path


def read_row(path: Path) -> dict[str, Any]:
    """Read one row.

    Raises:
        RowError: the file is no row, or was cut short; it is named.
    """
    try:
        return check_row(json.loads(path.read_bytes()))
    except ValueError as error:
        raise RowError(f"{path} is no row of a run ({error}): take it out, or make the run again") from error


def read_rows(*folders: Path) -> list[dict[str, Any]]:
    """Read all rows below the folders, of any number of machines.

    Raises:
        RowError: a file is no row; it is named.
    """
    return [read_row(path) for path in sorted(path for folder in folders for path in Path(folder).rglob("rows/*.json"))]


def read_runs(*folders: Path) -> pd.DataFrame:
    """The rows below the folders as one table, a row per run, in the order in which they began.

    Raises:
        RowError: there is none, two rows of one run differ, or a file is no row.
    """
    import pandas as pd

    rows = {}
    for row in read_rows(*folders):
        if rows.setdefault((row["study"], row["run_id"]), row) != row:
            raise RowError(f"run {row['run_id']} stands twice in {', '.join(map(str, folders))}, with other content")
    if not rows:
        raise RowError(f"no rows of runs below {', '.join(map(str, folders))}: run a study, or notebook 10, first")
    return pd.DataFrame(rows.values()).sort_values(["started_at", "run_id"], ignore_index=True)


def read_process_s(row: dict[str, Any]) -> float:
    """Seconds that a run took in all, papermill and the kernel's start included, as far as is known."""
    return row.get("process_s") or row["wall_s"]


def read_spent_s(row: dict[str, Any]) -> float:
    """Seconds that a run and its earlier tries took together."""
    return read_process_s(row) + (row.get("spent_s") or 0.0)


def row_path(study_dir: Path, run_id: str) -> Path:
    """Where a run's row lies."""
    return study_dir / "rows" / f"{run_id}.json"


def progress_path(study_dir: Path, run_id: str) -> Path:
    """Where a run says how far it is."""
    return study_dir / "progress" / f"{run_id}.json"


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file in one step: whoever reads it finds the old content or the new, on a full disk too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _check(name: str, value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and math.isinf(value):
        raise RowError(f"{name} is infinite")
    wanted = {**COLUMNS, **MEASURED}.get(name)
    allowed = (int, float) if wanted is float else wanted
    if wanted and value is not None and (not isinstance(value, allowed) or isinstance(value, bool)):
        raise RowError(f"{name} has to be {wanted.__name__}, {value!r} is none")
    return value
