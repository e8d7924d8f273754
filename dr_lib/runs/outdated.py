"""Runs whose rows are of photographs, labels or a split that their prepared folder no longer
has.
"""

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from dr_lib.files import write_json
from dr_lib.runs.row import read_seconds, row_path, spent_path

CHANGES = {  # columns of a row: what the prepared folder has now where it differs
    "data_sha256": "other photographs",
    "labels_sha256": "other labels",
    "split_sha256": "another split",
}
FOLDER = "outdated"  # in a study's folder: what such runs left, when they are made again


def find_outdated(
    folder: Path, rows: Iterable[Mapping[str, Any]], root: Path
) -> dict[str, list[str]]:
    """Compare finished runs of a study with the prepared folder that its file names, as that is
    now.

    Nothing is said of runs whose prepared folder is not on this machine.

    Args:
        folder: of the study; its file lies beside it.
        rows: of its runs.
        root: the repository.

    Returns:
        What the folder has now, such as other labels, by run; runs of what it has are not in it.
    """
    path = folder.absolute()
    path = path.with_name(f"{path.name}.yaml")
    study = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    data_dirs = _name_levels(study, "data_dir")
    splits = _name_levels(study, "split")
    outdated = {}
    for row in rows:
        if row["status"] != "ok" or row.get("data_dir") not in data_dirs:
            continue
        data_dir = root / data_dirs[row["data_dir"]]
        split = row.get("split") or "split.csv"
        split = splits.get(split, split)
        if not (data_dir / "manifest.json").is_file() or not (data_dir / split).is_file():
            continue
        from dr_lib.data.prepared.folder import describe_data  # pandas: half a second

        now = describe_data(data_dir, split)
        changes = [CHANGES[name] for name in CHANGES if row.get(name) not in (None, now[name])]
        if changes:
            outdated[row["run_id"]] = changes
    return outdated


def describe_outdated(outdated: Mapping[str, Iterable[str]]) -> str:
    """Say in a few words how many runs are outdated, and by what."""
    changed = {change for changes in outdated.values() for change in changes}
    has = " and ".join(change for change in CHANGES.values() if change in changed)
    number = len(outdated)
    runs = "1 completed run is" if number == 1 else f"{number} completed runs are"
    return f"{runs} outdated, for the prepared folder now has {has}"


def set_aside(folder: Path, rows: Iterable[Mapping[str, Any]], root: Path) -> str:
    """Move what outdated runs left out of the way, so that they are made again; what they took
    stays paid for.

    Returns:
        A sentence on them, empty where there are none.
    """
    present = {row["run_id"]: row for row in rows if row_path(folder, row["run_id"]).exists()}
    outdated = find_outdated(folder, present.values(), root)
    if not outdated:
        return ""
    for run_id in outdated:
        paid_s = read_seconds(folder, run_id, present[run_id]).paid_s
        numbered = (folder / FOLDER / f"{run_id}-{number}" for number in itertools.count())
        kept = next(path for path in numbered if not path.exists())
        kept.parent.mkdir(exist_ok=True)
        left = spent_path(folder, run_id).parent
        if left.exists():
            left.rename(kept)
        kept.mkdir(exist_ok=True)
        row_path(folder, run_id).rename(kept / "row.json")
        for file in (
            folder / "notebooks" / f"{run_id}.ipynb",
            folder / "logs" / f"{run_id}.log",
        ):
            if file.exists():
                file.rename(kept / file.name)
        write_json(spent_path(folder, run_id), paid_s)
    return f"{describe_outdated(outdated)}: made again, what was there is kept in {folder / FOLDER}"


def _name_levels(study: Mapping[str, Any], parameter: str) -> dict[str, str]:
    """The paths that a study gives a parameter by their last part, which is all that rows say of
    them.

    None where two share it.
    """
    levels = (study.get("factors") or {}).get(parameter, [])
    values = [
        value for value in [*levels, (study.get("parameters") or {}).get(parameter)] if value
    ]
    named = {Path(value).name: value for value in values}
    return named if len(named) == len(values) else {}
