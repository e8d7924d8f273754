"""Runs whose rows are of photographs, labels or a split that their prepared folder no longer
has.
"""

import hashlib
import itertools
import json
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
    folders = {name: root / value for name, value in _name_levels(study, "data_dir").items()}
    splits = _name_levels(study, "split")
    outdated = {}
    for row in rows:
        data_dir = folders.get(row.get("data_dir"))
        if row["status"] != "ok" or data_dir is None:
            continue
        split = row.get("split") or "split.csv"
        now = _read_hashes(data_dir, splits.get(split, split))
        differing = [name for name in now if row.get(name) not in (None, now[name])]
        if differing:
            outdated[row["run_id"]] = [CHANGES[name] for name in differing]
    return outdated


def describe_outdated(outdated: Mapping[str, Iterable[str]]) -> str:
    """Say in a few words how many runs are outdated, and by what."""
    changed = {change for changes in outdated.values() for change in changes}
    has = " and ".join(change for change in CHANGES.values() if change in changed)
    what = "1 completed run is" if len(outdated) == 1 else f"{len(outdated)} completed runs are"
    return f"{what} outdated, for the prepared folder now has {has}"


def set_aside(folder: Path, rows: Iterable[Mapping[str, Any]], root: Path) -> str:
    """Move what outdated runs left out of the way, so that they are made again; what they took
    stays paid for.

    Returns:
        A sentence on them, empty where there are none.
    """
    rows = {row["run_id"]: row for row in rows if row_path(folder, row["run_id"]).exists()}
    outdated = find_outdated(folder, rows.values(), root)
    if not outdated:
        return ""
    for run_id in outdated:
        candidates = (folder / FOLDER / f"{run_id}-{number}" for number in itertools.count())
        kept = next(path for path in candidates if not path.exists())
        paid_s = read_seconds(folder, run_id, rows[run_id]).paid_s
        kept.parent.mkdir(exist_ok=True)
        left = spent_path(folder, run_id).parent
        if left.exists():
            left.rename(kept)
        kept.mkdir(exist_ok=True)
        row_path(folder, run_id).rename(kept / "row.json")
        for file in (folder / "notebooks" / f"{run_id}.ipynb", folder / "logs" / f"{run_id}.log"):
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
    values = [value for value in [*levels, (study.get("parameters") or {}).get(parameter)] if value]
    named = {Path(value).name: value for value in values}
    return named if len(named) == len(values) else {}


def _read_hashes(data_dir: Path, split: str) -> dict[str, str]:
    """What a prepared folder has in these columns of a row; nothing where it, or the split
    table, is not here.
    """
    manifest = data_dir / "manifest.json"
    table = data_dir / split
    if not manifest.is_file() or not table.is_file():
        return {}
    prepared = json.loads(manifest.read_bytes())
    files = prepared["files"]
    shards = sorted(item for item in files.items() if item[0].endswith(".tfrecord"))
    return {
        "data_sha256": hashlib.sha256(json.dumps(shards).encode()).hexdigest(),
        "labels_sha256": prepared.get("labels_sha256") or files["labels.csv"],
        "split_sha256": (
            prepared.get("split_sha256", {}).get(split)
            or hashlib.sha256(table.read_bytes()).hexdigest()
        ),
    }
