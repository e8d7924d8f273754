"""A study's folder, used by one process of a machine at a time, for one study and notebook."""

import json
import math
import os
import platform
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from dr_lib.code import hash_notebook
from dr_lib.errors import DrError
from dr_lib.files import lock, write_json, write_text
from dr_lib.runs.row import Row, read_rows
from dr_lib.runs.study import PlannedRun, Study

# other keys of a study may change between sessions
FIXED = ("factors", "first_scenario", "notebook", "order", "parameters", "seed")
CHANGES = {  # columns of a row: what the prepared folder has now where it differs
    "data_sha256": "other photographs",
    "labels_sha256": "other labels",
    "split_sha256": "another split",
}


@contextmanager
def lock_study(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Lock the study on this machine until this process ends, in any way."""
    path = folder / f"lock-{platform.node()}"
    held = lock(path, wait_s=math.inf if wait else 0.0)
    runner = path.with_name(f"runner-{platform.node()}")
    if held is None:
        process = runner.read_text(encoding="utf-8") if runner.exists() else "unknown"
        raise DrError(
            f"{folder} is being run by another process ({process}): wait for it, or end it; if "
            "there is none, this disk has no locks: choose another"
        )
    with held:
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        write_text(runner, f"process {os.getpid()} on {platform.node()}, since {now}")
        yield


def keep_for(folder: Path, study: Study) -> None:
    """Reserve a folder for a study, after `check_folder`."""
    with lock(folder / "study.lock", wait_s=math.inf):  # machines that share the disk
        check_folder(folder, study)
        path = folder / "study.json"
        write_json(path, study.model_dump(include=set(FIXED)))


def check_folder(folder: Path, study: Study) -> None:
    """Refuse a folder with runs of another study, whose scenarios would have the same names."""
    path = folder / "study.json"
    if not path.exists():
        return
    present = json.loads(path.read_bytes())
    request = json.loads(study.model_dump_json(include=set(FIXED)))
    unlike = [name for name in FIXED if present.get(name) != request[name]]
    if list(present["factors"]) != list(request["factors"]):  # C1, C2, ...
        unlike.append("order of the factors")
    is_begun = any(folder.glob("runs/*/checkpoint*"))
    if unlike and (is_begun or any(row["status"] == "ok" for row in read_rows(folder))):
        raise DrError(
            f"{folder} holds runs of a study that differs in {', '.join(unlike)}: "
            "rename one of the studies, or delete the folder to start again"
        )


def check_notebook(
    study: Study, root: Path, rows: Iterable[Row], allow: Collection[str]
) -> None:
    """Refuse to add runs to those of another version of the notebook, unless this is allowed."""
    made_by = {row["notebook_sha256"] for row in rows if row["status"] == "ok"} - {""}
    if "notebook_sha256" not in allow and made_by - {hash_notebook(root, study.notebook)}:
        raise DrError(
            f"{study.notebook} has changed since the first runs of this study: "
            "give the study another name, or add --allow notebook_sha256"
        )


def check_data(
    folder: Path, runs: Iterable[PlannedRun], rows: Mapping[str, Row], root: Path
) -> None:
    """Refuse to add runs if photographs, labels or split of their prepared folder have changed; a
    folder that is not on this machine is not checked.
    """
    checked = set()
    for run in runs:
        row = rows.get(run.run_id, {})
        data_dir = root / str(run.parameters.get("data_dir"))
        split = run.parameters.get("split", "split.csv")
        is_there = (data_dir / "manifest.json").is_file() and (data_dir / split).is_file()
        named = (data_dir, split, *map(row.get, CHANGES))
        if row.get("status") != "ok" or not is_there or named in checked:
            continue
        checked.add(named)
        from dr_lib.data.prepared.folder import describe_data  # pandas: half a second

        now = describe_data(data_dir, split)
        changes = [CHANGES[name] for name in CHANGES if row.get(name) != now[name]]
        if changes:
            fault = f"{data_dir} has {' and '.join(changes)} since {run.name} was made"
            advice = f"give the study another name, or delete {folder} to start again"
            raise DrError(f"{fault}: {advice}")
