"""Split a prepared folder again, in seconds: only tables are written, no shard is opened."""

import hashlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

import numpy as np
import pandas as pd

from dr_lib.data.labels.schema import EXCLUDED
from dr_lib.data.labels.splits import KNOWN_BY, find_sides, split_photographs
from dr_lib.data.prepared.folder import (
    COPIES,
    LABELS,
    NEW,
    SPLIT,
    Prepared,
    check_files,
    format_table,
    parse_table,
    place_new,
    read_manifest,
    write_manifest,
)
from dr_lib.data.prepared.records import ShardError, make_record
from dr_lib.errors import DrError
from dr_lib.files import is_empty, lock, write_bytes

LOCK_WAIT_S = 60.0
SHARD_SIZE = 256  # photographs of labelled records
KEPT = "sides.csv"  # by pseudonyms, the sides of all who were in split.csv since it was drawn


def split(
    data_dir: Path,
    *,
    scheme: str | None = None,
    seed: int | None = None,
    folds: int = 5,
    out: str = SPLIT,
) -> list[Path]:
    """Split the photographs of a prepared folder again.

    Args:
        data_dir: the folder.
        scheme, seed, folds: of `splits.split_photographs`; by default those that split.csv was
            drawn with.
        out: name of the split table, which lies in the folder: split-NAME.csv. Folds are written
            to split-1-of-5.csv and so on.

    Returns:
        The paths of the split tables.

    Raises:
        DrError: the photographs cannot be divided like this, or the name is no split's or taken.
        ShardError: the folder is not prepared, was altered, or another process is at work on it.
    """
    data_dir = Path(data_dir).resolve()
    read_manifest(data_dir)
    with lock_folder(data_dir):
        manifest = read_manifest(data_dir)
        is_foreign = (data_dir / out).exists() and out not in manifest["splits"]
        if is_foreign or not re.fullmatch(r"split[\w-]*\.csv", out):
            raise DrError(
                f"{out} cannot name a split table: choose a new name such as split-1.csv, without"
                " a folder"
            )
        check_files(data_dir, manifest["files"], [LABELS, COPIES])
        tables = {name: parse_table(data_dir / name) for name in (LABELS, COPIES)}
        names, _ = write_split(
            data_dir, manifest, tables, out, scheme=scheme, seed=seed, folds=folds
        )
    return [data_dir / name for name in names]


def lock_folder(data_dir: Path) -> TextIO:
    """Lock a folder until the file is closed: two at once would each write tables and a manifest.

    Raises:
        ShardError: another process prepares or splits it, for a minute and more.
    """
    file = lock(data_dir / ".lock", wait_s=LOCK_WAIT_S)
    if file is None:
        raise ShardError(
            f"{data_dir} is being prepared or split by another process: wait for it, or end it"
        )
    return file


def write_split(
    data_dir: Path,
    manifest: dict,
    tables: Mapping[str, pd.DataFrame],
    out: str = SPLIT,
    *,
    scheme: str | None = None,
    seed: int | None = None,
    folds: int = 5,
) -> tuple[list[str], int]:
    """Split the labelled photographs of a folder; write its tables and, last, the manifest.

    Nothing is written if they cannot be divided. Without a seed, whoever was in split.csv since it
    was drawn stays there, if the scheme is the same. Tables are written beside those of before,
    which count until the manifest is there.

    Args:
        data_dir: the folder, locked.
        manifest: of the folder, without what is written here.
        tables: LABELS and COPIES, and others that are written with them.
        out: name of the split table.
        scheme, seed, folds: of `split`.

    Returns:
        The names of the split tables, and how many patients changed sides.
    """
    written = {name: format_table(table).encode() for name, table in tables.items()}
    # other splits than split.csv are of these labels and copies alone
    is_same = _hash(written).items() <= manifest["files"].items()
    splits = {
        name: facts
        for name, facts in manifest["splits"].items()
        if (is_same or name == SPLIT) and (data_dir / name).is_file()
    }
    earlier = splits.get(SPLIT, {"scheme": "random", "seed": 0})
    kept = {}
    if out == SPLIT in splits and seed is None and scheme in (None, earlier["scheme"]):
        check_files(data_dir, manifest["files"], [KEPT, SPLIT])
        table = parse_table(data_dir / KEPT)
        kept = dict(zip(table["id"], table["split"], strict=True))
    scheme = scheme or earlier["scheme"]
    seed = earlier["seed"] if seed is None else seed
    names = [out]
    if scheme == "folds":
        names = [f"{Path(out).stem}-{number}-of-{folds}.csv" for number in range(1, folds + 1)]
    labels = tables[LABELS]
    places = dict(zip(labels["image_id"], range(len(labels)), strict=True))
    pairs = tables[COPIES][["image_id", "image_id_2"]].map(places.get).to_numpy(int)
    divided = split_photographs(labels, pairs, scheme=scheme, seed=seed, folds=folds, kept=kept)
    for name, table in zip(names, divided, strict=True):
        written[name] = format_table(table).encode()
        used = labels.merge(table[table["split"] != EXCLUDED], on="image_id")
        splits[name] = {"scheme": scheme, "seed": seed, **_count(used)}
        splits[name]["num_excluded"] = len(table) - len(used)
    was = find_sides(used, kept)
    num_moved = used["patient_id"][was.notna() & (was != used["split"])].nunique()
    if names == [SPLIT]:
        for column in KNOWN_BY:
            kept |= dict(zip(used[column], used["split"], strict=True))
        table = pd.DataFrame(sorted(kept.items()), columns=["id", "split"])
        written[KEPT] = format_table(table).encode()
    stale = manifest["splits"].keys() - splits.keys()
    files = manifest["files"] | _hash(written)
    for name, content in written.items():
        write_bytes(data_dir / f"{name}{NEW}", content)
    for name in stale:  # a kill behind it leaves what `verify` names and the next call forgets
        (data_dir / name).unlink(missing_ok=True)
        del files[name]
    content = manifest | {"files": dict(sorted(files.items())), "splits": splits}
    write_bytes(data_dir / "manifest.json", write_manifest(content))
    place_new(data_dir, files)
    return names, num_moved


def _hash(written: Mapping[str, bytes]) -> dict[str, str]:
    """SHA-256 of files by their names."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in written.items()}


def _count(used: pd.DataFrame) -> dict:
    """Count the groups, and the photographs, patients and grades on each side."""
    counts = {
        side: {
            "num_images": len(rows),
            "num_patients": int(rows["patient_id"].nunique()),
            "grades": np.bincount(rows["grade"], minlength=5).tolist(),
        }
        for side, rows in used.groupby("split")
    }
    return {"counts": counts, "num_groups": int(used["group"].nunique())}


def export_records(data_dir: Path, out: Path, split: str = SPLIT) -> list[Path]:
    """Write labelled TFRecord shards for other tools: train-00000-of-00004.tfrecord etc.

    Each Example holds the features of `records.make_record`, and image/class/label (the grade,
    0-4), image/referable (0 or 1), patient/id and eye.

    Args:
        data_dir: a prepared folder.
        out: folder to write, new or empty.
        split: see `Prepared`.

    Returns:
        The paths of the shards.

    Raises:
        DrError: the folder to write is not empty.
        ShardError: the prepared folder was altered.
    """
    out = Path(out)
    if not is_empty(out):
        raise DrError(f"{out} is not empty: choose another folder for the records")
    prepared = Prepared(data_dir, split)
    table = prepared.photographs
    used = table[table["split"] != EXCLUDED].reset_index(drop=True)
    crops = prepared.open_crops(used)
    writing = out.with_name(f"{out.name}.tmp")
    shutil.rmtree(writing, ignore_errors=True)  # left by a kill
    writing.mkdir(parents=True)
    paths = []
    for side, rows in used.groupby("split"):
        number = -(-len(rows) // SHARD_SIZE)
        for index, places in enumerate(np.array_split(rows.index, number)):
            paths.append(out / f"{side}-{index:05d}-of-{number:05d}.tfrecord")
            with (writing / paths[-1].name).open("wb") as file:
                for row in rows.loc[places].itertuples():
                    labels = {
                        "image/class/label": row.grade,
                        "image/referable": row.referable,
                        "patient/id": row.patient_id.encode(),
                        "eye": row.eye.encode(),
                    }
                    encoded = crops.read_jpeg(row.Index)
                    file.write(make_record(encoded, prepared.size, row._asdict(), labels))
    writing.replace(out)
    return paths
