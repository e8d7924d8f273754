"""Divide a prepared folder anew, in seconds: labels.csv and split tables are written, no shard
is opened.
"""

import hashlib
import shutil
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd

from dr_lib.command import write_command
from dr_lib.data.labels.datasets import EYES, SPLITS
from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.data.labels.label_files import LabelTableError, read_label_file
from dr_lib.data.labels.schema import FACTS
from dr_lib.data.labels.splits import split_photographs
from dr_lib.data.prepared.folder import (
    Prepared,
    format_table,
    hash_file,
    parse_table,
    read_manifest,
    read_pairs,
    read_table,
    restore_record,
    write_table,
)
from dr_lib.data.prepared.records import frame, to_example
from dr_lib.files import lock, replace, write_json

DEFAULT = {"scheme": "random", "seed": 0}


def split(
    data_dir: Path,
    *,
    scheme: str | None = None,
    seed: int | None = None,
    folds: int = 5,
    labels: Path | None = None,
    out: str | Path = "split.csv",
) -> list[Path]:
    """Divide the photographs of a prepared folder anew.

    Args:
        data_dir: the folder.
        scheme, seed, folds: of `splits.split_photographs`; by default those that split.csv was
            drawn with. Without a seed, groups stay where a split table of this scheme has them,
            whatever became of their labels.
        labels: a CSV with image_id, grade and, where they changed, other columns of labels.csv,
            whose place it takes; photographs that it does not name are in no split.
        out: the split table; a bare name lies in the folder. Folds are written to split-1-of-5.csv
            and so on.

    Returns:
        The paths of the split tables.

    Raises:
        LabelTableError: the label table does not fit the folder, or cannot be divided like this.
        ShardError: the folder is not prepared or was altered.
    """
    data_dir = Path(data_dir).resolve()
    manifest = read_manifest(data_dir)
    out = Path(out)
    path = data_dir / out if out.name == str(out) else out.resolve()
    if (
        path.name not in manifest["files"]
        and path.exists()
        and not {"group", "split"} <= set(parse_table(path))
    ):
        raise LabelTableError(f"{path} is there and is no split table: choose another --out")
    # two at once would each write a manifest
    with lock(data_dir / ".lock", wait_s=60) or nullcontext():
        manifest = read_manifest(data_dir)
        files = manifest["files"]
        # a kill came before the manifest
        if hash_file(data_dir / "labels.csv") == manifest.get("pending"):
            files = files | {"labels.csv": manifest["pending"]}
        known = read_table(data_dir, "labels.csv", files)
        if labels is not None:
            known = _correct_labels(known, Path(labels))
            manifest["labels"] = "corrected"
        return write_split(data_dir, manifest, known, path, scheme=scheme, seed=seed, folds=folds)


def write_split(
    data_dir: Path,
    manifest: dict,
    labels: pd.DataFrame,
    path: Path,
    *,
    scheme: str | None = None,
    seed: int | None = None,
    folds: int = 5,
) -> list[Path]:
    """Divide the labelled photographs of a folder; write labels.csv, the split tables and, last,
    the manifest.

    Without a seed, groups stay where the tables have them that this takes the place of, if their
    scheme is the same.
    """
    if (
        path.suffix != ".csv"
        or path.name in ("labels.csv", "near_duplicates.csv")
        or path.name.startswith("crops")
    ):
        raise LabelTableError(f"{path.name} is no name for a split table: call it split-1.csv, say")
    splits = {name: how for name, how in manifest["splits"].items() if (data_dir / name).is_file()}
    files = {
        n: sha256
        for n, sha256 in manifest["files"].items()
        if n in splits or n not in manifest["splits"]
    }
    earlier = splits.get("split.csv", DEFAULT)
    scheme = scheme or earlier["scheme"]
    paths = [path]
    if scheme == "folds":
        paths = [
            path.with_stem(f"{path.stem}-{number}-of-{folds}") for number in range(1, folds + 1)
        ]
    before = []
    is_again = path.parent == data_dir and all(
        splits.get(one.name, {}).get("scheme") == scheme for one in paths
    )
    if seed is None and is_again:
        before = [_read_used(one) for one in paths]
        earlier = splits[paths[0].name]
    seed = earlier["seed"] if seed is None else seed
    listing = pd.concat(
        read_table(data_dir, f"{name[:-8]}csv", files)
        for name in files
        if name.endswith(".tfrecord")
    )
    listing = listing[listing["status"] != ""]
    table = labels.merge(listing[["image_id", "content_id"]], on="image_id", validate="1:1")
    pairs = read_pairs(data_dir, table, files)
    kept = [_list_sides(used) for used in before]
    tables = split_photographs(table, pairs, scheme=scheme, seed=seed, folds=folds, kept=kept)
    files["labels.csv"] = hashlib.sha256(format_table(labels).encode()).hexdigest()
    if (data_dir / "manifest.json").exists():
        write_json(
            data_dir / "manifest.json", read_manifest(data_dir) | {"pending": files["labels.csv"]}
        )
    write_table(data_dir / "labels.csv", labels)
    for number, (one, sides) in enumerate(zip(paths, tables, strict=True)):
        write_table(one, sides)
        if one.parent == data_dir:
            files[one.name] = hash_file(one)
            divided = labels.merge(sides, on="image_id")
            splits[one.name] = {"scheme": scheme, "seed": seed, **_count(divided)}
            if before:
                splits[one.name].update(_count_moved(divided, before[number]))
    manifest.pop("pending", None)
    write_json(
        data_dir / "manifest.json",
        manifest | {"files": dict(sorted(files.items())), "splits": splits},
    )
    return paths


def describe_moves(facts: dict) -> list[str]:
    """Say who changed sides, or is gone, when a split table was written again; `facts` are the
    manifest's of it.
    """
    causes = {
        "num_moved": "patients who changed sides, for copies, names or official sides changed",
        "num_left": "patients who are gone",
    }
    return [f"{cause}: {facts[name]}" for name, cause in causes.items() if name in facts]


def export_records(
    data_dir: Path, out: Path, split: str | Path = "split.csv", shard_size: int = 256
) -> list[Path]:
    """Write labelled TFRecord shards for other tools: train-00000-of-00004.tfrecord and so on.

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
    paths = []
    if out.exists() and any(out.iterdir()):
        raise LabelTableError(f"{out} is not empty: choose another folder for the records")
    writing = out.with_name(f"{out.name}.tmp")
    shutil.rmtree(writing, ignore_errors=True)  # left by a kill
    prepared = Prepared(data_dir, split)
    photographs = prepared.photographs
    size = prepared.size
    crops = prepared.open_crops(photographs)
    for side, rows in photographs[photographs["split"] != "excluded"].groupby("split"):
        number = -(-len(rows) // shard_size)
        for index, places in enumerate(np.array_split(np.arange(len(rows)), number)):
            paths.append(out / f"{side}-{index:05d}-of-{number:05d}.tfrecord")
            with replace(writing / paths[-1].name) as temporary, temporary.open("wb") as file:
                for row in rows.iloc[places].itertuples():
                    labels = {
                        "image/class/label": row.grade,
                        "image/referable": int(row.grade >= REFERABLE_FROM),
                    }
                    labels |= {"patient/id": row.patient_id.encode(), "eye": row.eye.encode()}
                    record = restore_record(row, crops.read_jpeg(row.Index), size)
                    file.write(frame(to_example(record, labels)))
    out.parent.mkdir(parents=True, exist_ok=True)
    writing.replace(out)
    return paths


def _correct_labels(known: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Take grades and whatever else a table gives, by image id: pseudonyms of patients, no
    names.
    """
    if not path.is_file():
        raise LabelTableError(
            f"there is no label file {path}: give a CSV with the columns image_id and grade"
        )
    given = read_label_file(path)
    if not {"image_id", "grade"} <= set(given):
        raise LabelTableError(
            f"{path.name} has no columns image_id and grade. A table that names photographs by"
            f" their files is for {write_command('prepare')}, which crops nothing twice"
        )
    for column, words in (("eye", EYES), ("official", SPLITS)):
        if column in given:
            given[column] = given[column].str.lower().map(words).fillna("?")
    prepare = write_command("prepare")
    nothing = pd.Series("", given.index)
    grades = pd.to_numeric(given["grade"], errors="coerce")
    for fault, bad in {
        "labels.csv has no such image_id": ~given["image_id"].isin(known["image_id"]),
        "the image_id stands there twice": given["image_id"].duplicated(),
        "the grade must be 0, 1, 2, 3 or 4": ~grades.isin(range(5)),
        f"a patient_id must be one of labels.csv; names are for {prepare}": (
            ~given.get("patient_id", nothing).isin(["", *known["patient_id"]])
        ),
        "eye must be left, right or empty": given.get("eye", nothing) == "?",
        "official must be train, validation, test or empty": given.get("official", nothing) == "?",
    }.items():
        if bad.any():
            lines = ", ".join(map(str, given.index[bad][:5]))
            raise LabelTableError(f"{path.name}, {bad.sum()} rows such as {lines}: {fault}")
    given = given.assign(grade=grades.astype(int), referable=(grades >= REFERABLE_FROM).astype(int))
    kept = known[known["image_id"].isin(given["image_id"])].set_index("image_id")
    given = given.set_index("image_id").loc[kept.index]
    for name in [name for name in given if name in FACTS or (name in kept and name != "row")]:
        # an empty cell changes nothing
        kept[name] = given[name].where(given[name] != "", kept.get(name, ""))
    return kept.reset_index()


def _read_used(path: Path) -> pd.DataFrame:
    """The rows of a split table that are on a side."""
    table = parse_table(path)
    return table[table["split"] != "excluded"]


def _list_sides(used: pd.DataFrame) -> dict[str, str]:
    """The sides of a split table by image_id, and by group, whose name is that of its first
    patient.
    """
    names = pd.concat([used["group"], used["image_id"]])
    return dict(zip(names, pd.concat([used["split"], used["split"]]), strict=True))


def _count_moved(table: pd.DataFrame, before: pd.DataFrame) -> dict[str, int]:
    """Count the patients who are on another side than before, and the groups that are gone,
    where there are any.
    """
    sides = _list_sides(before)
    side = table["image_id"].map(sides).fillna(table["patient_id"].map(sides))
    is_moved = side.notna() & (table["split"] != "excluded") & (table["split"] != side)
    is_there = before["image_id"].isin(table["image_id"]) | before["group"].isin(
        table["patient_id"]
    )
    counts = {
        "num_moved": int(table.loc[is_moved, "patient_id"].nunique()),
        "num_left": int((~is_there.groupby(before["group"]).any()).sum()),
    }
    return {name: count for name, count in counts.items() if count}


def _count(table: pd.DataFrame) -> dict:
    """Count photographs, patients and grades of each side, groups, and the photographs of the
    largest group.
    """
    used = table[table["split"] != "excluded"]
    counts = {
        side: {
            "num_images": len(rows),
            "num_patients": int(rows["patient_id"].nunique()),
            "grades": {str(grade): int((rows["grade"] == grade).sum()) for grade in range(5)},
        }
        for side, rows in used.groupby("split")
    }
    largest = used.groupby("group").agg(
        images=("image_id", "size"), patients=("patient_id", "nunique")
    )
    most = largest.sort_values(["patients", "images"]).iloc[-1]
    groups = {
        "num_groups": len(largest),
        "largest_group": {name: int(most[name]) for name in ("images", "patients")},
    }
    return {"counts": counts, "num_excluded": len(table) - len(used), **groups}
