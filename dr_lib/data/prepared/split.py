"""Divide a prepared folder anew, in seconds: tables are written, no shard is opened."""

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
from dr_lib.data.labels.schema import EXCLUDED, FACTS
from dr_lib.data.labels.splits import split_photographs
from dr_lib.data.prepared.folder import (
    COPIES,
    Prepared,
    format_table,
    hash_file,
    parse_table,
    place_pairs,
    read_listings,
    read_manifest,
    read_table,
    write_table,
)
from dr_lib.data.prepared.records import Record, frame, to_example
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
    is_new = path.name in manifest["files"] or not path.exists()
    if not is_new and not {"group", "split"} <= set(parse_table(path)):
        raise LabelTableError(f"{path} is there and is no split table: choose another --out")
    # two at once would each write a manifest
    with lock(data_dir / ".lock", wait_s=60) or nullcontext():
        manifest = read_manifest(data_dir)
        files = dict(manifest["files"])
        # a kill came before the manifest
        if hash_file(data_dir / "labels.csv") == manifest.get("pending"):
            files["labels.csv"] = manifest["pending"]
        table = read_table(data_dir, "labels.csv", files)
        if labels is not None:
            table = _correct_labels(table, Path(labels))
            manifest["labels"] = "corrected"
        return write_split(
            data_dir, manifest, table, path, scheme=scheme, seed=seed, folds=folds
        )


def write_split(
    data_dir: Path,
    manifest: dict,
    labels: pd.DataFrame,
    path: Path,
    *,
    scheme: str | None = None,
    seed: int | None = None,
    folds: int = 5,
    copies: pd.DataFrame | None = None,
) -> list[Path]:
    """Divide the labelled photographs of a folder; write its tables and, last, the manifest.

    Nothing is written if they cannot be divided. `copies` are the near duplicates, if they are new.
    Without a seed, groups stay where the tables have them that this takes the place of, if their
    scheme is the same.
    """
    is_own = path.name in ("labels.csv", COPIES) or path.name.startswith("crops")
    if path.suffix != ".csv" or is_own:
        raise LabelTableError(
            f"{path.name} is no name for a split table: call it split-1.csv, say"
        )
    splits = {
        name: facts for name, facts in manifest["splits"].items() if (data_dir / name).is_file()
    }
    gone = manifest["splits"].keys() - splits
    files = {name: sha256 for name, sha256 in manifest["files"].items() if name not in gone}
    earlier = splits.get("split.csv", DEFAULT)
    scheme = scheme or earlier["scheme"]
    paths = [path]
    if scheme == "folds":
        stems = [f"{path.stem}-{number}-of-{folds}" for number in range(1, folds + 1)]
        paths = [path.with_stem(stem) for stem in stems]
    before = []
    schemes = {splits.get(one.name, {}).get("scheme") for one in paths}
    if seed is None and path.parent == data_dir and schemes == {scheme}:
        tables = [parse_table(one) for one in paths]
        before = [table[table["split"] != EXCLUDED] for table in tables]
        earlier = splits[paths[0].name]
    seed = earlier["seed"] if seed is None else seed
    if copies is None:
        copies = read_table(data_dir, COPIES, files)
    contents = read_listings(data_dir, files)[["image_id", "content_id"]]
    tables = split_photographs(
        labels.merge(contents, on="image_id", validate="1:1"),
        place_pairs(copies, labels),
        scheme=scheme,
        seed=seed,
        folds=folds,
        kept=[_list_sides(used) for used in before],
    )
    written = {COPIES: copies, "labels.csv": labels}
    for number, (one, sides) in enumerate(zip(paths, tables, strict=True)):
        if one.parent != data_dir:
            write_table(one, sides)
            continue
        written[one.name] = sides
        divided = labels.merge(sides, on="image_id")
        splits[one.name] = {"scheme": scheme, "seed": seed, **_count(divided)}
        if before:
            splits[one.name].update(_count_moved(divided, before[number]))
    for name, table in written.items():
        files[name] = hashlib.sha256(format_table(table).encode()).hexdigest()
    if (data_dir / "manifest.json").exists():
        pending = {"pending": files["labels.csv"]}
        write_json(data_dir / "manifest.json", read_manifest(data_dir) | pending)
    for name, table in written.items():
        write_table(data_dir / name, table)
    manifest.pop("pending", None)
    manifest.update(files=dict(sorted(files.items())), splits=splits)
    write_json(data_dir / "manifest.json", manifest)
    return paths


def describe_moves(facts: dict) -> list[str]:
    """Say who changed sides, or is gone, by the manifest's `facts` of a split table."""
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


def _correct_labels(labels: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Take grades and other columns of labels.csv from a table, by image id."""
    if not path.is_file():
        raise LabelTableError(
            f"there is no label file {path}: give a CSV with the columns image_id and grade"
        )
    corrected = read_label_file(path)
    if not {"image_id", "grade"} <= set(corrected):
        raise LabelTableError(
            f"{path.name} has no columns image_id and grade. A table that names photographs by"
            f" their files is for {write_command('prepare')}, which crops nothing twice"
        )
    for column, words in (("eye", EYES), ("official", SPLITS)):
        if column in corrected:
            corrected[column] = corrected[column].str.lower().map(words).fillna("?")
    empty = pd.Series("", corrected.index)
    grades = pd.to_numeric(corrected["grade"], errors="coerce")
    image_ids = corrected["image_id"]
    patients = corrected.get("patient_id", empty)
    faults = {
        "labels.csv has no such image_id": ~image_ids.isin(labels["image_id"]),
        "the image_id stands there twice": image_ids.duplicated(),
        "the grade must be 0, 1, 2, 3 or 4": ~grades.isin(range(5)),
        f"a patient_id must be one of labels.csv; names are for {write_command('prepare')}": (
            ~patients.isin(["", *labels["patient_id"]])
        ),
        "eye must be left, right or empty": corrected.get("eye", empty) == "?",
        "official must be train, validation, test or empty": corrected.get("official", empty)
        == "?",
    }
    for fault, is_bad in faults.items():
        if is_bad.any():
            lines = ", ".join(map(str, corrected.index[is_bad][:5]))
            raise LabelTableError(f"{path.name}, {is_bad.sum()} rows such as {lines}: {fault}")
    corrected = corrected.assign(
        grade=grades.astype(int), referable=(grades >= REFERABLE_FROM).astype(int)
    )
    kept = labels[labels["image_id"].isin(image_ids)].set_index("image_id")
    corrected = corrected.set_index("image_id").loc[kept.index]
    for name in corrected:
        if name in FACTS or (name in kept and name != "row"):
            # an empty cell changes nothing
            kept[name] = corrected[name].where(corrected[name] != "", kept.get(name, ""))
    return kept.reset_index()


def _list_sides(used: pd.DataFrame) -> dict[str, str]:
    """The sides of a split table by image_id and by group, named for its first patient."""
    by_group = dict(zip(used["group"], used["split"], strict=True))
    return by_group | dict(zip(used["image_id"], used["split"], strict=True))


def _count_moved(table: pd.DataFrame, before: pd.DataFrame) -> dict[str, int]:
    """Count the patients who changed sides, and the groups that are gone; no number is 0."""
    sides = _list_sides(before)
    side = table["image_id"].map(sides).fillna(table["patient_id"].map(sides))
    is_moved = side.notna() & (table["split"] != EXCLUDED) & (table["split"] != side)
    is_there = before["image_id"].isin(table["image_id"]) | before["group"].isin(
        table["patient_id"]
    )
    num_moved = int(table.loc[is_moved, "patient_id"].nunique())
    num_left = int((~is_there.groupby(before["group"]).any()).sum())
    counts = {"num_moved": num_moved, "num_left": num_left}
    return {name: number for name, number in counts.items() if number}


def _count(table: pd.DataFrame) -> dict:
    """Count what is on each side, the groups, and what the largest group has."""
    used = table[table["split"] != EXCLUDED]
    counts = {
        side: {
            "num_images": len(rows),
            "num_patients": int(rows["patient_id"].nunique()),
            "grades": {str(grade): int((rows["grade"] == grade).sum()) for grade in range(5)},
        }
        for side, rows in used.groupby("split")
    }
    groups = used.groupby("group").agg(
        images=("image_id", "size"), patients=("patient_id", "nunique")
    )
    largest = groups.sort_values(["patients", "images"]).iloc[-1]
    return {
        "counts": counts,
        "num_excluded": len(table) - len(used),
        "num_groups": len(groups),
        "largest_group": {name: int(largest[name]) for name in ("images", "patients")},
    }
