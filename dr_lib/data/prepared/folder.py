"""A prepared folder: shards of crops with their listings, labels.csv, split.csv and, written last,
manifest.json.

crops.json            how the photographs are cropped
crops-00000.tfrecord  crops, by image id
crops-00000.csv       its listing: the place of each photograph in the shard, or why it could not be
used near_duplicates.csv   pairs of crops that show nearly the same picture
labels.csv            what is known of each photograph that was cropped
split.csv             its group, and train, validation, test or excluded; further splits may lie
beside it manifest.json         how it was prepared, counts, and the SHA-256 of every file above
"""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dr_lib.command import write_command
from dr_lib.data.labels.groups import unite
from dr_lib.data.labels.privacy import is_private
from dr_lib.data.prepared.records import Record, ShardError
from dr_lib.files import write_text

SPLITS = ("train", "validation", "test")
PLACE = ["image_id", "offset", "length", "status", "x", "y", "radius", "perceptual_hash"]
# ids: pseudonyms of the file and of its length
LISTED = [*PLACE, "reason", "content_id", "size_id"]
TYPES = {"offset": "Int64", "length": "Int64", "x": float, "y": float, "radius": float, "row": int}
TYPES |= {"grade": int, "referable": int}
ADVICE = ". Prepare the folder again, or copy it again."


def read_manifest(data_dir: Path) -> dict:
    """Read `manifest.json` of a prepared folder.

    Raises:
        ShardError: the folder was not prepared, or not to the end.
    """
    path = Path(data_dir) / "manifest.json"
    if is_private(Path(data_dir)):
        prepared = str(data_dir).removesuffix(".private")
        raise ShardError(f"{data_dir} keeps names: give the prepared folder beside it, {prepared}")
    if not path.is_file():
        command = write_command("prepare")
        raise ShardError(f"{data_dir} has no manifest.json: prepare it (again) with {command}")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        manifest["data_kind"], manifest["parameters"]["size"], manifest["splits"]
        [bytes.fromhex(sha256) for sha256 in manifest["files"].values()]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"{path} is damaged, or of an earlier version ({error!r})"
        raise ShardError(
            f"{what}: copy it again, or delete the folder and prepare it again"
        ) from error
    return manifest


def describe_data(data_dir: Path, split: str | Path = "split.csv") -> dict[str, str | int]:
    """What a prepared folder and a split of it are, in the columns of a row; see
    `read_photographs`.
    """
    manifest = read_manifest(data_dir)
    shards = sorted(item for item in manifest["files"].items() if item[0].endswith(".tfrecord"))
    return {
        "data_kind": manifest["data_kind"],
        "crop_size": manifest["parameters"]["size"],
        "crop_method": manifest["parameters"]["method"],
        # whatever the labels and the split
        "data_sha256": hashlib.sha256(json.dumps(shards).encode()).hexdigest(),
        # of the whole table
        "labels_sha256": manifest.get("labels_sha256") or manifest["files"]["labels.csv"],
        "split_sha256": (
            manifest.get("split_sha256", {}).get(str(split)) or hash_file(Path(data_dir) / split)
        ),
    }


def hash_file(path: Path) -> str:
    """SHA-256 of a file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_photographs(data_dir: Path, split: str | Path = "split.csv") -> pd.DataFrame:
    """Join what is known of each photograph; no shard is opened.

    Args:
        data_dir: a prepared folder.
        split: a split table in it, by name, or one elsewhere, by its path.

    Returns:
        A row per photograph, by image id: the columns of labels.csv, those of the split table
        (group, split, reason), where the crop is: shard (the file's name), offset and length of the
        JPEG in it [bytes]; and its status, x, y and radius [px].

    Raises:
        ShardError: a table or the names of the shards do not match the manifest, or the split does
            not fit the labels.
    """
    data_dir = Path(data_dir)
    files = read_manifest(data_dir)["files"]
    if faults := _compare_names(data_dir, files):
        raise ShardError("; ".join(faults) + ADVICE)
    labels = read_table(data_dir, "labels.csv", files)
    shards = [name for name in sorted(files) if name.endswith(".tfrecord")]
    listings = {
        name: read_table(data_dir, name.replace(".tfrecord", ".csv"), files) for name in shards
    }
    crops = pd.concat([listing[PLACE].assign(shard=name) for name, listing in listings.items()])
    crops = crops[crops["status"] != ""]
    table = labels.merge(read_split(data_dir, split, labels, files), on="image_id", validate="1:1")
    table = table.merge(crops, on="image_id", validate="1:1").sort_values(
        "image_id", ignore_index=True
    )
    return table.astype({"offset": int, "length": int})


def read_split(
    data_dir: Path, split: str | Path, labels: pd.DataFrame, files: dict[str, str]
) -> pd.DataFrame:
    """Read a split table and see that it fits the labels; see `read_photographs`."""
    path = Path(data_dir) / split
    if not path.is_file():
        command = write_command("split", data_dir)
        raise ShardError(f"there is no split table {path}: write one with {command}")
    table = parse_table(path)
    table = table[[name for name in ("image_id", "group", "split", "reason") if name in table]]
    if missing := {"image_id", "group", "split"} - set(table):
        raise ShardError(f"{path.name} has no column {', '.join(sorted(missing))}")
    unlike = set(table["image_id"]) ^ set(labels["image_id"])
    if unlike or table["image_id"].duplicated().any():
        raise ShardError(
            f"{path.name} is not of the photographs in labels.csv ({len(unlike)} stand in one of"
            f" the two alone): write it anew with {write_command('split', data_dir)}"
        )
    if not table["split"].isin([*SPLITS, "excluded"]).all():
        raise ShardError(f"{path.name}: split must be {', '.join(SPLITS)} or excluded")
    true_group = unite(labels["patient_id"], read_pairs(data_dir, labels, files))
    known = labels[["image_id", "row", "patient_id"]].assign(true_group=true_group)
    used = table[table["split"] != "excluded"].merge(known, on="image_id")
    for key, name in {
        "patient_id": "patient",
        "group": "group",
        "true_group": "group with copies",
    }.items():
        crossing = used[used.groupby(key)["split"].transform("nunique") > 1]
        if len(crossing):
            rows = ", ".join(map(str, sorted(crossing["row"])[:5]))
            raise ShardError(
                f"{path.name}: a {name} stands on two sides (rows {rows}): keep it on one"
            )
    if (
        path.parent.resolve() == Path(data_dir).resolve()
        and path.name in files
        and hash_file(path) != files[path.name]
    ):
        raise ShardError(
            f"{path.name}: altered, it does not match manifest.json (a split of your own needs a"
            " new name)"
        )
    return table


def read_pairs(data_dir: Path, labels: pd.DataFrame, files: dict[str, str]) -> np.ndarray:
    """Read the near duplicates among the photographs of the labels: (n, 2) places in that table."""
    places = pd.Series(range(len(labels)), labels["image_id"])
    pairs = read_table(data_dir, "near_duplicates.csv", files)[["image_id", "image_id_2"]]
    pairs = pairs[pairs.isin(set(labels["image_id"])).all(axis=1)]
    return pairs.apply(lambda column: column.map(places)).to_numpy(int).reshape(-1, 2)


def restore_record(row: Any, encoded: bytes, size: int) -> Record:
    """Make the record of a crop again: of its row in a listing, its JPEG and its side [px]."""
    return Record(
        encoded,
        row.image_id,
        size,
        row.x,
        row.y,
        row.radius,
        row.status,
        bytes.fromhex(row.perceptual_hash),
    )


def verify(data_dir: Path) -> dict:
    """Compare every file with the manifest.

    Returns:
        The manifest.

    Raises:
        ShardError: names every file that is missing, altered, cut short, or not in the manifest.
    """
    manifest = read_manifest(data_dir)
    files = manifest["files"]
    faults = _compare_names(data_dir, manifest["files"])
    for name in sorted(files):
        try:
            read_file(data_dir, name, files)
        except ShardError as error:
            faults.append(str(error))
    if faults:
        raise ShardError("; ".join(dict.fromkeys(faults)) + ADVICE)
    return manifest


def parse_table(path: Path, content: bytes | None = None) -> pd.DataFrame:
    """Read one of the folder's tables: texts, but for the numbers that `TYPES` names.

    Raises:
        ShardError: it is no such table.
    """
    try:
        source = path if content is None else io.BytesIO(content)
        table = pd.read_csv(source, dtype=str, keep_default_na=False, encoding="utf-8")
        numbers = {name: kind for name, kind in TYPES.items() if name in table}
        return table.assign(
            **{n: table[n].replace("", "nan").astype(float).astype(k) for n, k in numbers.items()}
        )
    except (ValueError, OSError) as error:
        raise ShardError(f"{path.name} is damaged ({error!r})") from error


def format_table(table: pd.DataFrame) -> str:
    """A table as CSV, whose bytes depend on the table alone."""
    return table.to_csv(index=False, lineterminator="\n")


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write one of the folder's tables, or of the private folder's, in one step."""
    write_text(path, format_table(table))


def read_table(data_dir: Path, name: str, files: dict[str, str]) -> pd.DataFrame:
    """Read a table that the manifest names; a ShardError if it is not what was written."""
    return parse_table(Path(data_dir) / name, read_file(data_dir, name, files))


def read_file(data_dir: Path, name: str, files: dict[str, str]) -> bytes:
    """Read a file that the manifest names; a ShardError if it is missing, or not what was
    written.
    """
    try:
        content = (Path(data_dir) / name).read_bytes()
    except OSError as error:
        raise ShardError(f"{name}: missing in {data_dir}") from error
    if hashlib.sha256(content).hexdigest() != files.get(name):
        raise ShardError(f"{name}: altered or cut short, it does not match manifest.json")
    return content


def _compare_names(data_dir: Path, files: dict[str, str]) -> list[str]:
    """Name the files that are missing, and the shards that are too many."""
    missing = [
        f"{name}: missing in {data_dir}"
        for name in sorted(files)
        if not (Path(data_dir) / name).is_file()
    ]
    shards = {path.name for path in Path(data_dir).glob("*.tfrecord")}
    return missing + [f"{name}: not in the manifest" for name in sorted(shards - set(files))]
