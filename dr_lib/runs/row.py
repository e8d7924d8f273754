"""Rows: the record of each run, checked, written in one step, and read back as one table.

Notebooks of foreign kernels write rows too: this file needs Python 3.9 and, to read a table,
pandas.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dr_lib.errors import DrError
from dr_lib.files import is_foreign, write_json

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]  # a column's value by its name
STATUSES = ("ok", "failed", "skipped")
# besides its times: by these a run is known, whatever its file, its study or itself is called
IDENTITY = (
    "started_at boot session deployment seed notebook platform instance_type cpu accelerator"
    " num_accelerators framework dataset network model mode image_size batch_size epochs"
).split()
# runs that agree in these, and in the version of the backend, find the same things ready
KIND = (
    "backend framework implementation model network num_parameters dataset image_size batch_size"
    " mode accelerator num_accelerators num_replicas"
).split()
# notebooks that are 10_train today, and its task in them
RENAMED = {"10_train_referable": "referable", "20_train_grades": "grades"}
# the schema, each with its meaning [unit]: what rows have in common; a notebook's parameters, its
# metrics (metric_*) and versions stand beside it
COLUMNS = {  # in every row
    "run_id": str,  # unique in its study
    "study": str,  # the study file's name, or adhoc
    "notebook": str,  # the notebook that made the row
    "notebook_sha256": str,  # of its code, in older rows of the file; empty if it did not start
    "scenario": str,  # C1, C2, ... in the order of the factors
    "repetition": int,  # index of the timed run
    "order": int,  # position among the planned runs
    "seed": int,  # the study's seed plus the repetition
    "session_id": str,  # one call of the runner
    "started_at": str,  # UTC, ISO 8601
    "status": str,  # ok, failed or skipped
    "retries": int,  # number of earlier failures
    "resumed": int,  # number of times it resumed from a checkpoint
    "error": str,  # empty, or why it failed or was skipped
    "commit": str,  # of the repository, with -dirty if its code differs, -edited if other cells ran
    "wall_s": float,  # from the start of the run to its row [s]
}
MEASURED = {  # null if a run has none; seconds are on a monotonic clock
    "setup_s": float,  # everything before the training [s]
    "train_s": float,  # from the call of fit to the end of the device's work and callbacks [s]
    "first_step_s": float,  # first call in train_s; an epoch's if steps_per_execution is 0 [s]
    "epoch_s": list,  # time of each epoch [s]
    "training_s": list,  # time of each epoch's steps, without validation and checkpoint [s]
    "steady_epoch_s": float,  # median of the epochs from the second on [s]
    "cpu_s": float,  # CPU time of the training's process [s]
    "formula_usd": float,  # usd_per_hour x train_s / 3600; null without a training [USD]
    "cost_usd": float,  # usd_per_hour x (train_s + setup_s) / 3600; null without one [USD]
}
DETAILS = {  # in some rows
    "epochs_done": int,  # epochs trained; fewer than epochs if it stopped early
    "compile_s": float,  # part of train_s: what first calls took longer than their steps [s]
    "input_s": float,  # part of train_s: steps waited for photographs [s]
    "steps_s": float,  # part of train_s: the steps themselves [s]
    "validation_s": float,  # part of train_s: validation and its score [s]
    "checkpoint_s": float,  # part of train_s: writing checkpoints [s]
    "callbacks_s": float,  # part of train_s: the rest, such as best weights and history [s]
    "images_per_s": float,  # training images divided by the training time of a steady epoch [1/s]
    "code_sha256": str,  # SHA-256 of the code: the library and the notebook's, without parameters
    "session": str,  # session of the cloud service's machine
    "boot": str,  # boot of the machine
    "environment_settings": str,  # variables somebody set that change times, a hash of their values
    "data_kind": str,  # synthetic or photographs, or what the notebook calls its data
    "data_sha256": str,  # SHA-256 of the crops
    "labels_sha256": str,  # of grades and patients by content, in older rows of the label table
    "split_sha256": str,  # of what divides, by content, in older rows of the split table
    "input": str,  # memory or stream: where the photographs were during training
    "num_images_train": int,  # photographs trained on
    "num_images_test": int,  # photographs tested on
    "num_patients_train": int,  # patients of the training photographs
    "num_patients_test": int,  # patients of the test photographs
    "num_parameters": int,  # parameters of the network
    "batch_norm": str,  # global: over the whole batch; local: over a replica's part; or none
    "platform": str,  # colab, kaggle or local; this and the following columns as detected
    "instance_type": str,  # the cloud's name of the machine; empty if unknown
    "accelerator": str,  # the device's own name, or cpu
    # of the coarser of inputs and kernel, as a layer's products showed when the training was set
    # up: float32, tf32, bfloat16, bfloat16_3x (three passes), float16 or other
    "matmul_precision": str,  # of a Dense layer
    "conv_precision": str,  # of a Conv2D layer
    "matmul_precision_requested": str,  # default: the platform's own
    "num_accelerators": int,  # devices used for training
    "cpu": str,  # name of the processor's model
    "num_cpus": int,  # CPUs that the process may use, rounded up
    "cpu_quota": float,  # CPUs whose time the container grants; null without a limit
    "memory_gib": float,  # memory that the process may use [GiB]
    "driver": str,  # driver of the GPU
    "python": str,  # version
    "kernel": str,  # Jupyter's name of the kernel
    "priced_as": str,  # a label: the requested machine's name in the price table
    "usd_per_hour": float,  # price of that label [USD/h]
    "price_as_of": str,  # date of the price
    "load_s": float,  # duration of a server's load test, all rates together [s]
    "num_predictions": int,  # predictions of a server while its energy was measured
    "peak_memory_mib": int,  # peak of the run's process, without its children [MiB]
    # largest peak that the framework's allocator gave out on a device; null where it counts none
    "device_peak_mib": float,  # not its reserve, which gpu_memory_percent_* see [MiB]
    "others_cpu_share": float,  # others' CPU share before or during the run, the larger [0 to 1]
    "cold": bool,  # no run of its kind had finished since the boot; null if unknown
    "disturbed": bool,  # others took more than a tenth of the CPU time, or the run stood still
    "repeats": int,  # in older rows: number of earlier, disturbed tries
    "process_s": float,  # whole process, including papermill and the kernel's start [s]
    "spent_s": float,  # in older rows: time of earlier tries, those without a row too [s]
}
MONITORED = {  # while the monitor ran, see `monitor.summarise`; null if not measured
    "num_samples": int,  # rows of the monitor, including those of events
    "monitored_s": float,  # from the monitor's first row to its last [s]
    "stood_still_s": float,  # of it, while the process or the machine was stopped [s]
    "process_cpu_s": float,  # CPU time of the process and its children [s]
    "process_peak_mib": float,  # their largest joint memory in a sample [MiB]
    "gpu_energy_j": float,  # energy of the GPUs [J]
    "gpu_energy_sampled_j": float,  # in older rows: the same from sampled power [J]
    "gpu_energy_from": str,  # NVML counter, in older rows sampled power, or empty
    "cpu_energy_j": float,  # in older rows: energy of all the machine's processors [J]
    "cpu_energy_from": str,  # in older rows: the counter
    "cpu_percent_mean": float,  # use of all CPUs [%]
    "cpu_percent_peak": float,  # use of all CPUs [%]
    "steal_percent_mean": float,  # CPU time that other guests of the host took [%]
    "steal_percent_peak": float,  # CPU time that other guests of the host took [%]
    "memory_percent_mean": float,  # use of the machine's memory [%]
    "memory_percent_peak": float,  # use of the machine's memory [%]
    "gpu_percent_mean": float,  # time that the GPUs were at work, their mean [%]
    "gpu_percent_peak": float,  # time that the GPUs were at work, their mean [%]
    "gpu_memory_percent_mean": float,  # the GPUs' memory in use or reserved, by NVML [%]
    "gpu_memory_percent_peak": float,  # the GPUs' memory in use or reserved, by NVML [%]
}
SCHEMA = {**COLUMNS, **MEASURED, **DETAILS, **MONITORED}


class RowError(DrError):
    """A row does not fit the schema."""


def check_row(row: Any) -> Row:
    """Check a row against the schema, and return it with null instead of NaN.

    Raises:
        RowError: a column is missing, has the wrong type, or is infinite; it is named.
    """
    if not isinstance(row, dict):
        raise RowError("it is not a table of columns")
    checked = {**dict.fromkeys(MEASURED), **row}
    for name, value in row.items():
        if isinstance(value, float) and math.isnan(value):
            checked[name] = value = None
        if isinstance(value, float) and math.isinf(value):
            raise RowError(f"{name} is infinite")
        if value is None or name not in SCHEMA:
            continue
        kind = SCHEMA[name]
        allowed = (int, float) if kind is float else kind
        if not isinstance(value, allowed) or isinstance(value, bool) != (kind is bool):
            raise RowError(f"{name} must be {kind.__name__}, not {value!r}")
    missing = [name for name in COLUMNS if checked.get(name) is None]
    if missing:
        raise RowError(f"{', '.join(missing)} missing")
    if checked["status"] not in STATUSES:
        raise RowError(f"status is {checked['status']!r}, not one of {', '.join(STATUSES)}")
    return checked


def write_row(study_dir: Path, row: Row) -> Path:
    """Check a row and write it in one step to `rows/<run_id>.json` of the study."""
    checked = check_row(row)
    path = row_path(study_dir, checked["run_id"])
    write_json(path, checked)
    return path


def read_row(path: Path) -> Row:
    """Read one row; rows of a renamed notebook get its new name.

    Raises:
        RowError: the file is no row, or was cut short; it is named.
    """
    try:
        row = check_row(json.loads(path.read_bytes()))
    except (RowError, ValueError) as error:
        raise RowError(
            f"{path} is not a row of a run ({error}): remove it, or make the run again"
        ) from error
    if row["notebook"] in RENAMED:
        row.setdefault("task", RENAMED[row["notebook"]])
        row["notebook"] = "10_train"
    return row


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
    """Read the rows that a study's runs have written so far, by run; skip rows cut short."""
    rows = {}
    for path in study_dir.glob(f"rows/{run_id}.json"):
        with suppress(RowError, FileNotFoundError):
            row = read_row(path)
            if row["run_id"] == path.stem:  # no copy that a cloud made of a conflict
                rows[path.stem] = row
    return rows


def read_runs(*folders: Path) -> pd.DataFrame:
    """Read the rows below the folders as one table, one row per run, in order of their start.

    Columns are added: `file`; `copy_of`, the file of a row of the same run, whose every time is the
    same, else empty.

    Raises:
        RowError: there is none or no such folder, two rows of one run differ, or a file is no row.

    Example:
        >>> read_runs("papermill_runs/demo")["status"].unique().tolist()
        ['ok']
    """
    import pandas as pd

    for folder in map(Path, folders):
        if folder.is_file():
            results = folder.with_suffix("")
            raise RowError(f"{folder} is a file: give the folder of its results, {results}")
        if not folder.is_dir():
            raise RowError(f"{folder}: no such folder")
    names = ", ".join(map(str, folders))
    rows = {}
    by_name = {}
    by_start = {}
    by_identity = {}
    for path in list_rows(*folders):
        row = read_row(path)
        first, same = by_name.setdefault((row["study"], row["run_id"]), (path, row))
        is_same = same == row or same["status"] == row["status"] == "skipped"
        if first != path and is_same:
            continue
        times = list_times(row)
        if first == path:
            start = (row["run_id"], row["started_at"], row.get("boot"))
            first, same = by_start.setdefault(start, (path, times))
            same = row if same == times else same
        if same != row:
            fault = (
                f"run {row['run_id']} is twice, in {first} and {path}, with different content"
            )
            advice = "machines of the same kind need study files with different names"
            raise RowError(f"{fault}: remove one; {advice}")
        original = path
        if row["status"] == "ok":  # two skipped ones differ in nothing that identifies
            original = by_identity.setdefault(identify(row), path)
        rows[path] = {
            **row,
            "file": _name_file(path),
            "copy_of": "" if original == path else _name_file(original),
        }
    if not rows:
        raise RowError(f"no rows of runs below {names}: run a study, or notebook 10, first")
    return pd.DataFrame(rows.values()).sort_values(["started_at", "run_id"], ignore_index=True)


def identify(row: Row) -> str:
    """Identify a run by its start, machine, work and every time, whatever it is called."""
    return str([list_times(row), *map(row.get, IDENTITY), row["status"]])


def list_times(row: Row) -> list:
    """List all times of a row."""
    return [row[name] for name in sorted(row) if name.endswith("_s")]


def _name_file(path: Path) -> str:
    """Name a row's file from the folder of its study on."""
    return "/".join(path.parts[-3:])


def row_path(study_dir: Path, run_id: str) -> Path:
    """Path of a run's row."""
    return study_dir / "rows" / f"{run_id}.json"


def progress_path(study_dir: Path, run_id: str) -> Path:
    """Path of the file in which a run reports its progress."""
    return study_dir / "progress" / f"{run_id}.json"
