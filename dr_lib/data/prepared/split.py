"""Split a prepared folder again, in seconds: only tables are written, no shard is opened."""

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

import numpy as np
import pandas as pd

from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.data.labels.label_files import LabelTableError
from dr_lib.data.labels.schema import EXCLUDED
from dr_lib.data.labels.splits import KNOWN_BY, find_sides, split_photographs
from dr_lib.data.prepared.folder import (
    COPIES,
    NEW,
    REJECTIONS,
    Prepared,
    format_table,
    parse_table,
    place_new,
    place_pairs,
    read_manifest,
    read_table,
    write_manifest,
)
from dr_lib.data.prepared.records import Record, ShardError, frame, to_example
from dr_lib.files import lock, replace, write_bytes, write_text

LOCK_WAIT_S = 60.0


def split(
    data_dir: Path,
    *,
    scheme: str | None = None,
    seed: int | None = None,
    folds: int = 5,
    out: str = "split.csv",
) -> list[Path]:
    """Split the photographs of a prepared folder again.

    Args:
        data_dir: the folder.
        scheme, seed, folds: of `splits.split_photographs`; by default those that split.csv was
            drawn with. Without a seed, groups stay where a split table of this scheme has them,
            even if their labels changed.
        out: name of the split table, which lies in the folder. Folds are written to
            split-1-of-5.csv and so on.

    Returns:
        The paths of the split tables.

    Raises:
        LabelTableError: the photographs cannot be divided like this, or the name is another
            table's.
        ShardError: the folder is not prepared, was altered, or another process is at work on it.
    """
    data_dir = Path(data_dir).resolve()
    manifest = read_manifest(data_dir)
    path = data_dir / out
    is_new = path.name in manifest["files"] or not path.exists()
    if not is_new and not {"group", "split"} <= set(parse_table(path)):
        raise LabelTableError(f"{path} exists and is not a split table: choose another --out")
    with lock_folder(data_dir):
        manifest = read_manifest(data_dir)
        labels = read_table(data_dir, "labels.csv", manifest["files"])
        return write_split(
            data_dir, manifest, labels, path, scheme=scheme, seed=seed, folds=folds
        )


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
    labels: pd.DataFrame,
    path: Path,
    *,
    scheme: str | None = None,
    seed: int | None = None,
    folds: int = 5,
    new: Mapping[str, pd.DataFrame] = {},  # noqa: B006
    remembered: Mapping[str, str] = {},  # noqa: B006
) -> list[Path]:
    """Split the labelled photographs of a folder; write its tables and, last, the manifest.

    Nothing is written if they cannot be divided. `new` are other tables of the folder, by name.
    Without a seed, groups stay where the table has them that this takes the place of, if its
    scheme is the same, and where `remembered` has patients who are not in it; folds are divided
    again. Tables are written beside those of before, which count until the manifest is there.
    """
    is_own = path.name in ("labels.csv", COPIES, REJECTIONS) or path.name.startswith("crops")
    if path.suffix != ".csv" or is_own or path.parent != data_dir:
        raise LabelTableError(
            f"{path.name} cannot name a split table: choose a file name such as split-1.csv, "
            "without a folder"
        )
    files = manifest["files"]
    splits = manifest["splits"]
    for name in list(splits):
        if not (data_dir / name).is_file():
            del splits[name]
            files.pop(name, None)
    earlier = splits.get("split.csv", {"scheme": "random", "seed": 0})
    scheme = scheme or earlier["scheme"]
    paths = [path]
    if scheme == "folds":
        stems = [f"{path.stem}-{number}-of-{folds}" for number in range(1, folds + 1)]
        paths = [path.with_stem(stem) for stem in stems]
    facts = splits.get(paths[0].name, {})
    kept = {}
    if facts.get("scheme") != scheme:
        facts = earlier
    elif seed is None and scheme != "folds":
        kept = {**remembered, **read_sides(data_dir, path.name)}
    seed = facts["seed"] if seed is None else seed
    copies = new[COPIES] if new else read_table(data_dir, COPIES, files)
    tables = split_photographs(
        labels,
        place_pairs(copies, labels),
        scheme=scheme,
        seed=seed,
        folds=folds,
        kept=kept,
    )
    written = {**new, "labels.csv": labels}
    for one, sides in zip(paths, tables, strict=True):
        written[one.name] = sides
        divided = labels.merge(sides, on="image_id")
        splits[one.name] = {"scheme": scheme, "seed": seed, **_count(divided)}
        if number := _count_moved(divided, kept):
            splits[one.name]["num_moved"] = number
    texts = {name: format_table(table) for name, table in written.items()}
    hashes = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    # the same command again, as after a kill, says the same
    if (
        kept
        and "num_moved" in facts
        and hashes.items() <= read_manifest(data_dir)["files"].items()
    ):
        splits[path.name]["num_moved"] = facts["num_moved"]
    for name, text in texts.items():
        write_text(data_dir / f"{name}{NEW}", text)
    manifest["files"] = dict(sorted((files | hashes).items()))
    write_bytes(data_dir / "manifest.json", write_manifest(manifest))
    place_new(data_dir, manifest["files"])
    return paths


def export_records(
    data_dir: Path, out: Path, split: str = "split.csv", shard_size: int = 256
) -> list[Path]:
    """Write labelled TFRecord shards for other tools: train-00000-of-00004.tfrecord etc.

    Each Example holds the features of `records.to_example`, and image/class/label (the grade, 0-4),
    image/referable (0 or 1), patient/id and eye.

    Args:
        data_dir: a prepared folder.
        out: folder to write, new or empty.
        split: see `Prepared`.
        shard_size: photographs in a shard, at most.

    Returns:
        The paths of the shards.

    Raises:
        LabelTableError: the folder to write is not empty.
        ShardError: the prepared folder was altered.
    """
    out = Path(out)
    if out.exists() and any(out.iterdir()):
        raise LabelTableError(f"{out} is not empty: choose another folder for the records")
    prepared = Prepared(data_dir, split)
    used = prepared.photographs[prepared.photographs["split"] != EXCLUDED].reset_index(
        drop=True
    )
    crops = prepared.open_crops(used)
    writing = out.with_name(f"{out.name}.tmp")
    shutil.rmtree(writing, ignore_errors=True)  # left by a kill
    paths = []
    for side, rows in used.groupby("split"):
        number = -(-len(rows) // shard_size)
        for index, places in enumerate(np.array_split(rows.index, number)):
            paths.append(out / f"{side}-{index:05d}-of-{number:05d}.tfrecord")
            with replace(writing / paths[-1].name) as temporary, temporary.open("wb") as file:
                for row in rows.loc[places].itertuples():
                    record = Record(
                        crops.read_jpeg(row.Index),
                        row.image_id,
                        prepared.size,
                        row.x,
                        row.y,
                        row.radius,
                        row.status,
                        bytes.fromhex(row.perceptual_hash),
                    )
                    labels = {
                        "image/class/label": row.grade,
                        "image/referable": int(row.grade >= REFERABLE_FROM),
                        "patient/id": row.patient_id.encode(),
                        "eye": row.eye.encode(),
                    }
                    file.write(frame(to_example(record, labels)))
    out.parent.mkdir(parents=True, exist_ok=True)
    writing.replace(out)
    return paths


def read_sides(data_dir: Path, name: str) -> dict[str, str]:
    """Map what photographs are known by in a folder, see `KNOWN_BY`, to the sides of a split table.

    Raises:
        ShardError: the table or labels.csv is not as the manifest says.
    """
    files = read_manifest(data_dir)["files"]
    try:
        table = read_table(data_dir, name, files)
        labels = read_table(data_dir, "labels.csv", files)
    except ShardError as error:
        advice = f"copy it again, or delete {name} to divide the patients anew"
        raise ShardError(f"{error}: {advice}") from error
    used = table[table["split"] != EXCLUDED].merge(labels, on="image_id")
    sides = {}
    for column in KNOWN_BY:
        sides |= dict(zip(used[column], used["split"], strict=True))
    return sides


def _count_moved(table: pd.DataFrame, sides: Mapping[str, str]) -> int:
    """Count the patients who changed sides."""
    side = find_sides(table, sides)
    is_moved = side.notna() & (table["split"] != EXCLUDED) & (table["split"] != side)
    return int(table.loc[is_moved, "patient_id"].nunique())


def _count(table: pd.DataFrame) -> dict:
    """Count the photographs on each side, and the groups."""
    used = table[table["split"] != EXCLUDED]
    counts = {
        side: {
            "num_images": len(rows),
            "num_patients": int(rows["patient_id"].nunique()),
            "grades": {str(grade): int((rows["grade"] == grade).sum()) for grade in range(5)},
        }
        for side, rows in used.groupby("split")
    }
    return {
        "counts": counts,
        "num_excluded": len(table) - len(used),
        "num_groups": int(used["group"].nunique()),
    }
