"""Rows: the record of each run, checked, written in one step, and read back as one table.

Their columns stand in `schema`.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dr_lib.errors import DrError
from dr_lib.files import is_foreign, write_json
from dr_lib.runs import schema
from dr_lib.schema import SCHEMA, find_other_schema

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]  # a column's value by its name
STATUSES = ("ok", "failed", "skipped")
# runs that agree in these, and in the version of the backend, find the same things ready
KIND = (
    "backend framework implementation model network num_parameters dataset image_size batch_size"
    " mode accelerator num_accelerators num_replicas step_size batch_norm matmul_precision"
).split()


class RowError(DrError):
    """A row does not fit the schema."""


def check_row(row: Row) -> Row:
    """Check a row against the schema, and return it with null instead of NaN.

    Raises:
        RowError: a column is missing, has the wrong type, or is infinite: it is named.
    """
    checked = {**dict.fromkeys(schema.MEASURED), **row}
    for name, value in row.items():
        if isinstance(value, float) and math.isnan(value):
            checked[name] = value = None
        if isinstance(value, float) and math.isinf(value):
            raise RowError(f"{name} is infinite")
        if value is None or name not in schema.COLUMNS:
            continue
        kind = schema.COLUMNS[name]
        allowed = (int, float) if kind is float else kind
        if not isinstance(value, allowed) or isinstance(value, bool) != (kind is bool):
            raise RowError(f"{name} must be {kind.__name__}, not {value!r}")
    missing = [name for name in schema.RUN if checked.get(name) is None]
    if missing:
        raise RowError(f"{', '.join(missing)} missing")
    if checked["status"] not in STATUSES:
        raise RowError(f"status is {checked['status']!r}, not one of {', '.join(STATUSES)}")
    return checked


def write_row(study_dir: Path, row: Row) -> Path:
    """Check a row and write it in one step to `rows/<run_id>.json` of the study."""
    checked = check_row({"schema": SCHEMA, **row})
    path = row_path(study_dir, checked["run_id"])
    write_json(path, checked)
    return path


def read_row(path: Path) -> Row:
    """Read one row.

    Raises:
        RowError: the file is no row, or was cut short; it is named.
        DrError: the row is of another schema.
    """
    try:
        row = json.loads(path.read_bytes())
        if not isinstance(row, dict):
            raise RowError("it is not a table of columns")
        if fault := find_other_schema(row, "make the run again"):
            raise DrError(f"{path}: {fault}")
        return check_row(row)
    except (RowError, ValueError) as error:
        raise RowError(
            f"{path} is not a row of a run ({error}): remove it, or make the run again"
        ) from error


def read_rows(*folders: Path) -> list[Row]:
    """Read all rows below the folders; raise RowError for a file that is not a row."""
    return [read_row(path) for path in list_rows(*folders)]


def list_rows(*folders: Path) -> list[Path]:
    """List the files of rows below the folders, without those that a system or a cloud's
    wastebasket added.
    """
    return sorted(
        path
        for folder in folders
        for path in Path(folder).rglob("rows/*.json")
        if not any(map(is_foreign, path.relative_to(folder).parts))
    )


def read_left(study_dir: Path, run_id: str = "*") -> dict[str, Row]:
    """Read the rows that a study's runs have written so far, by run; skip files that are none.

    Raises:
        DrError: a row is of another schema.
    """
    rows = {}
    for path in study_dir.glob(f"rows/{run_id}.json"):
        with suppress(RowError, FileNotFoundError):
            row = read_row(path)
            if row["run_id"] == path.stem:  # no copy that a cloud made of a conflict
                rows[path.stem] = row
    return rows


def read_runs(*folders: Path) -> pd.DataFrame:
    """Read the rows below the folders as one table, one row per run, in order of their start.

    A column is added: `file`, from the folder of its study on. A row that lies in two folders
    counts once.

    Raises:
        RowError: there is none or no such folder, two rows of one run differ, or a file is no row.

    Example:
        >>> read_runs("papermill_runs/demo")["status"].unique().tolist()
        ['ok']
    """
    import pandas as pd

    for folder in map(Path, folders):
        if not folder.is_dir():
            raise RowError(f"{folder}: no such folder")
    rows = {}
    paths = {}
    for path in list_rows(*folders):
        row = read_row(path)
        name = (row["study"], row["run_id"])
        same = rows.setdefault(name, row)
        first = paths.setdefault(name, path)
        if same != row and not same["status"] == row["status"] == "skipped":
            raise RowError(
                f"run {row['run_id']} is twice, in {first} and {path}, with different content: "
                "remove one; machines of the same kind need study files with different names"
            )
    if not rows:
        names = ", ".join(map(str, folders))
        raise RowError(f"no rows of runs below {names}: run a study, or notebook 10, first")
    table = pd.DataFrame(rows.values())
    table["file"] = ["/".join(path.parts[-3:]) for path in paths.values()]
    return table.sort_values(["started_at", "run_id"], ignore_index=True)


def row_path(study_dir: Path, run_id: str) -> Path:
    """Path of a run's row."""
    return study_dir / "rows" / f"{run_id}.json"


def progress_path(study_dir: Path, run_id: str) -> Path:
    """Path of the file in which a run reports its progress."""
    return study_dir / "progress" / f"{run_id}.json"
