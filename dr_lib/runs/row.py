"""Rows: what every run says of itself, checked, written in one step, and read back as one table.

Notebooks of foreign kernels write rows too: this file needs Python 3.9 and, to read a table,
pandas.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dr_lib.files import write_json

if TYPE_CHECKING:
    import pandas as pd

STATUSES = ("ok", "failed", "skipped")
# notebooks that are 10_train today, and its task in them
RENAMED = {"10_train_referable": "referable", "20_train_grades": "grades"}
# the schema: what rows have in common; the notebook's parameters, metrics (metric_*), utilisation
# (of `monitor.summarise`) and versions stand beside it
COLUMNS = {  # of every row
    "run_id": str,  # unique in its study
    "study": str,  # the study file's name, or adhoc
    "notebook": str,
    "notebook_sha256": str,  # empty where the notebook did not begin
    "scenario": str,  # C1, C2, ... in the order of the factors
    "repetition": int,
    "order": int,  # the place among the planned runs
    "seed": int,  # the study's plus the repetition
    "session_id": str,  # one call of the runner
    "started_at": str,  # UTC, ISO 8601
    "status": str,  # one of STATUSES
    "retries": int,  # times that it failed before
    "resumed": int,  # times that it went on from a checkpoint
    "error": str,  # empty, or why it failed or was skipped
    "commit": str,  # with -dirty if files differ from it
    "wall_s": float,  # from the beginning of the run to its row
}
MEASURED = {  # null where a run has none; seconds are on a monotonic clock
    "setup_s": float,  # what came before the training
    # from the call of the training to the end of the device's work and of the last epoch's
    # callbacks
    "train_s": float,
    "first_step_s": float,  # inside train_s, as the epochs are
    "epoch_s": list,  # seconds of each epoch
    # seconds of each epoch's training steps alone, without validation and checkpoint
    "training_s": list,
    "steady_epoch_s": float,  # median of the epochs from the second on
    "cpu_s": float,  # CPU seconds of the training's process
    # usd_per_hour x train_s / 3600, Moura Filho and Sousa's formula; null without a training
    "formula_usd": float,
    "cost_usd": float,  # usd_per_hour x (train_s + setup_s) / 3600; null without a training
}
DETAILS = {  # in the rows that have them
    "images_per_s": float,  # training images over the time of training alone, in a steady epoch
    # of a cloud service's machine, in which the run was made: colab-t4-20261122-070106
    "session": str,
    "data_kind": str,  # synthetic or photographs, or what the notebook calls its data
    "data_sha256": str,  # of the crops; then of what is known of them, and of the split table
    "labels_sha256": str,
    "split_sha256": str,
    "input": str,  # memory or stream: where the photographs were while training
    "num_images_train": int,
    "num_images_test": int,
    "num_patients_train": int,
    "num_patients_test": int,
    "num_parameters": int,
    "platform": str,  # colab, kaggle or local; this and what follows as detected
    "instance_type": str,  # the cloud's name of the machine; empty where none tells it
    "accelerator": str,  # the device's own name, or cpu
    "num_accelerators": int,
    "num_machines": int,  # that trained as one
    # these were processes of one machine: their times show the overhead, not a speed-up
    "rehearsed": bool,
    "cpu": str,  # the model's name
    "num_cpus": int,  # that the process may use
    "memory_gib": float,  # of the machine
    "driver": str,  # of the GPU
    "python": str,  # version
    "kernel": str,  # Jupyter's name of it
    "priced_as": str,  # a label: the machine's name in the table of prices, as asked for
    "usd_per_hour": float,  # of that label
    "price_as_of": str,  # day of the price
    # of the GPUs while the monitor ran, see `monitor.summarise`; null where none was measured
    "gpu_energy_j": float,
    "gpu_energy_sampled_j": float,  # the same by their sampled power
    "gpu_energy_from": str,  # NVML counter, sampled power, or empty
    "cpu_energy_j": float,  # of the processors' packages, the whole machine's
    "cpu_energy_from": str,  # RAPL, why there is none, or empty: not measured
    "load_s": float,  # of a server's load test, all rates together
    "num_predictions": int,  # that a server gave while its energy was measured
    "peak_memory_mib": int,  # of the run's process, when it ended
    # 0 to 1 of the machine's CPU time, the larger of just before the run and during it
    "others_cpu_share": float,
    "disturbed": bool,  # others took more than a tenth
    "repeats": int,  # times that it was made before, disturbed
    "process_s": float,  # of the whole process, papermill and the kernel's start included
    "spent_s": float,  # seconds that earlier tries took, of processes that were saved in time, too
}


class RowError(ValueError):
    """A row is not what a row has to be."""


def check_row(row: Any) -> dict[str, Any]:
    """Check a row against the schema, and return it with null for what is not a number.

    Raises:
        RowError: a column is missing, has the wrong type, or is infinite; it is named.
    """
    if not isinstance(row, dict):
        raise RowError("it is no table of columns")
    checked = {**dict.fromkeys(MEASURED), **row}
    for name, value in row.items():
        kind = {**COLUMNS, **MEASURED, **DETAILS}.get(name)
        if isinstance(value, float) and math.isnan(value):
            checked[name] = None
        elif isinstance(value, float) and math.isinf(value):
            raise RowError(f"{name} is infinite")
        elif kind and value is not None:
            allowed = (int, float) if kind is float else kind
            if not isinstance(value, allowed) or isinstance(value, bool) != (kind is bool):
                raise RowError(f"{name} has to be {kind.__name__}, {value!r} is none")
    missing = [name for name in COLUMNS if checked.get(name) is None]
    if missing:
        raise RowError(f"{', '.join(missing)} missing")
    if checked["status"] not in STATUSES:
        raise RowError(f"status is {checked['status']!r}, not one of {', '.join(STATUSES)}")
    return checked


def write_row(study_dir: Path, row: dict[str, Any]) -> Path:
    """Check a row and write it in one step to `rows/<run_id>.json` of the study."""
    checked = check_row(row)
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
        raise RowError(
            f"{path} is no row of a run ({error}): take it out, or make the run again"
        ) from error


def read_rows(*folders: Path) -> list[dict[str, Any]]:
    """Read all rows below the folders, of any number of machines; a file that is no row is a
    RowError. Rows of notebooks that became one are rows of that one.
    """
    rows = [
        read_row(path)
        for path in sorted(path for folder in folders for path in Path(folder).rglob("rows/*.json"))
    ]
    for row in rows:
        if row["notebook"] in RENAMED:
            row.setdefault("task", RENAMED[row["notebook"]])
            row["notebook"] = "10_train"
    return rows


def read_runs(*folders: Path) -> pd.DataFrame:
    """The rows below the folders as one table, a row per run, in the order in which they began.

    Raises:
        RowError: there is none or no such folder, two rows of one run differ, or a file is no row.
    """
    import pandas as pd

    for folder in map(Path, folders):
        if folder.is_file():
            results = folder.with_suffix("")
            raise RowError(f"{folder} is a file: give the folder of its results, {results}")
        if not folder.is_dir():
            raise RowError(f"{folder}: there is no such folder")
    rows = {}
    for row in read_rows(*folders):
        if rows.setdefault((row["study"], row["run_id"]), row) != row:
            raise RowError(
                f"run {row['run_id']} stands twice in {', '.join(map(str, folders))}, with other"
                " content"
            )
    if not rows:
        raise RowError(
            f"no rows of runs below {', '.join(map(str, folders))}: run a study, or notebook 10,"
            " first"
        )
    return pd.DataFrame(rows.values()).sort_values(["started_at", "run_id"], ignore_index=True)


def read_process_s(row: dict[str, Any]) -> float:
    """Seconds that a run took in all, papermill and the kernel's start included, as far as is
    known.
    """
    return row.get("process_s") or row["wall_s"]


def read_spent_s(study_dir: Path, run_id: str, row: dict[str, Any]) -> float:
    """Seconds that a run and its earlier tries took together, those that left no row too; {}
    where it has no row.
    """
    path = spent_path(study_dir, run_id)
    saved_s = json.loads(path.read_bytes()) if path.exists() else 0.0
    return max(saved_s, read_process_s(row) + (row.get("spent_s") or 0.0) if row else 0.0)


def count_paid(row: dict[str, Any]) -> int:
    """Machines that the time of a row's run, or of a failed one, is paid for; a rehearsal is one
    machine's.
    """
    return 1 if row.get("rehearsed") else row.get("num_machines") or 1


def row_path(study_dir: Path, run_id: str) -> Path:
    """Where a run's row lies."""
    return study_dir / "rows" / f"{run_id}.json"


def progress_path(study_dir: Path, run_id: str) -> Path:
    """Where a run says how far it is."""
    return study_dir / "progress" / f"{run_id}.json"


def spent_path(study_dir: Path, run_id: str) -> Path:
    """Where a run that was saved in time, and so has no row yet, has its seconds."""
    return study_dir / "runs" / run_id / "spent.json"
