"""Prepare a data set: crop its photographs, join their labels, split them."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pandas as pd

from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.data.labels.label_files import LabelTableError
from dr_lib.data.labels.near_duplicates import find_near_duplicates, parse_hashes
from dr_lib.data.labels.privacy import (
    check_apart,
    find_private,
    open_private,
    pseudonym,
)
from dr_lib.data.labels.schema import FACTS
from dr_lib.data.labels.splits import find_unlike_copies
from dr_lib.data.labels.tables import read_labels
from dr_lib.data.photograph.pixels import IMAGE_SIZE
from dr_lib.data.prepared.crops import SHARD_SIZE, crop_photographs, describe_crops, list_own
from dr_lib.data.prepared.folder import (
    COPIES,
    REJECTIONS,
    count_statuses,
    format_table,
    read_manifest,
)
from dr_lib.data.prepared.split import lock_folder, read_sides, write_split
from dr_lib.data.prepared.workers import Map
from dr_lib.errors import DrError
from dr_lib.files import hash_file, is_empty, replace, split_paths
from dr_lib.hardware.cpus import count_cpus
from dr_lib.schema import SCHEMA

Keep = Callable[[str, pd.DataFrame], Path]  # adds rows that name files to a private table
SAMPLE_SALT = hashlib.sha256(b"the synthetic sample has no patients").digest()
# columns of labels.csv
LABELLED = [
    "image_id",
    "content_id",
    "row",
    "patient_id",
    "eye",
    "grade",
    "referable",
    "official",
]
LABELLED += FACTS
# of names.csv in the private folder
NAMED = ["image_id", "file", "patient", "row", "status", "content_id", "state"]


def prepare(
    images: Path,
    labels: Path | str | None,
    out: Path,
    *,
    private: Path | str | None = None,
    method: str = "robust",
    size: int = IMAGE_SIZE,
    scheme: str | None = None,
    exclude_unlike_copies: bool = False,
    reread: bool = False,
    shard_size: int = SHARD_SIZE,
    workers: int | AbstractContextManager[Map] | None = None,
    sheet: str = "",
    columns: Sequence[str] | str = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict:
    """Crop every photograph to its field of view and write a prepared folder, see `folder`.

    Photographs in = records + rejected. The same input, parameters and salt give the same bytes,
    whoever does the work. Started again, whether after a kill, with other photographs or another
    label table, it crops what has no record yet, see `crops`, and writes the tables anew; patients
    stay on their side.

    Args:
        images, labels: of `tables.read_labels`.
        out: folder to write, new, empty or prepared before.
        private: folder for the salt of the pseudonyms and what names files, mode 0700: `names.csv`
            of all image ids, with the status of the crop, `rejected.csv`, `near_duplicates.csv`,
            and `sides.csv`, by which patients keep their side while they are away. By default
            `<out>.private`.
        method: how the field of view is found, of `crop.crop_fundus`.
        size: side of the crops [px].
        scheme: of `splits.split_photographs`; default random, or as the folder was divided before.
        exclude_unlike_copies: copies of one picture that have different grades are no error.
        reread, shard_size: of `crops.crop_photographs`.
        workers: of `workers.map_over`; default one process per core.
        sheet, columns: of `tables.read_labels`; columns also in one text.
        progress: of `crops.crop_photographs`.

    Returns:
        The manifest, and what it does not keep: `said`, sentences on the label table, and
        `unused_columns` of it.

    Raises:
        DrError: a folder cannot be used or written, or workers cannot be had, or see no
            photographs. LabelTableError: the labels or the split; ShardError: earlier crops.

    Example:
        >>> prepare("photographs", "labels.csv", "data/prepared")  # doctest: +SKIP
    """
    images = Path(images).absolute()
    out = Path(out)
    labels = read_labels(
        images,
        Path(labels) if labels else None,
        sheet=sheet,
        columns=split_paths(columns) if isinstance(columns, str) else columns,
    )
    private = Path(private) if private else find_private(out)
    keep = partial(_keep_private, private, out)
    with _open_folders(private, out, labels.layout == "sample") as (salt, earlier):
        table, shards = crop_photographs(
            _name_photographs(labels.table, salt),
            out,
            salt,
            count_cpus() if workers is None else workers,
            method=method,
            size=size,
            files=earlier["files"],
            known=_read_known(private, out),
            reread=reread,
            shard_size=shard_size,
            progress=progress,
        )
        keep("names.csv", table[NAMED])
        is_cropped = table["reason"] == ""
        usable = table[is_cropped]
        unread = table[~is_cropped]
        rejected = pd.concat([labels.unusable, unread[["row", "image", "reason"]]])
        listed = keep("rejected.csv", rejected)
        if usable.empty:
            raise DrError(f"no photograph is usable: see the reasons in {listed}")
        reasons = rejected["reason"].replace(r"\d+", "...", regex=True)
        made = describe_crops(method, size)
        manifest = {
            "schema": SCHEMA,
            "parameters": {**made, "layout": labels.layout, "salt_id": _name_salt(salt)},
            "data_kind": "synthetic" if labels.layout == "sample" else "photographs",
            "patients": labels.patients,
            "notices": labels.notices,
            "num_photographs": len(table) + len(labels.unusable),
            "num_rejected": len(rejected),
            "rejected": reasons.value_counts().to_dict(),
            "statuses": count_statuses(usable["status"]),
            "files": _list_files(out, shards, earlier),
            "splits": earlier["splits"],
        }
        new = {
            COPIES: _find_copies(usable, keep, exclude_unlike_copies),
            REJECTIONS: unread[["image_id", "reason"]],
        }
        path = out / "split.csv"
        try:
            write_split(
                out,
                manifest,
                usable.filter(LABELLED),
                path,
                scheme=scheme,
                new=new,
                remembered=_read_sides(private, out, earlier),
            )
        except LabelTableError as error:
            rest = f"; {len(unread)} labelled photographs were rejected, see {listed}"
            raise LabelTableError(f"{error}{rest * (len(unread) > 0)}") from error
        written = read_manifest(out)
        _keep_sides(private, out, written, keep)
        _drop_unlisted(out, written["files"])
    return {**written, "said": labels.said, "unused_columns": labels.unused}


@contextmanager
def _open_folders(private: Path, out: Path, is_sample: bool) -> Iterator[tuple[bytes, dict]]:
    """Lock both folders; yield the salt, and the manifest of before."""
    check_apart(private.absolute(), out.absolute())
    ours = ("manifest.json", "crops-00000.csv", ".lock")
    is_known = any((out / name).exists() for name in ours)
    if not is_known and not is_empty(out):
        raise DrError(f"{out} is not empty and was not prepared: choose another --out")
    with open_private(private, SAMPLE_SALT if is_sample else None) as salt:
        if salt == SAMPLE_SALT and not is_sample:
            raise DrError(
                f"{private} holds the sample's salt, which is public: choose another --private"
            )
        try:
            with lock_folder(out):
                earlier = {"files": {}, "splits": {}}
                if (out / "manifest.json").exists():
                    earlier = read_manifest(out)
                    if earlier["parameters"]["salt_id"] != _name_salt(salt):
                        raise DrError(
                            f"{out} was prepared with another salt than that of {private}: give"
                            " its own --private, or choose another --out"
                        )
                yield salt, earlier
        except OSError as error:
            reason = error.strerror or error
            raise DrError(
                f"cannot write to {out}: {reason}. Choose another --out, or free some space"
            ) from error


def _name_salt(salt: bytes) -> str:
    return pseudonym(salt, "salt", "")


def _name_photographs(table: pd.DataFrame, salt: bytes) -> pd.DataFrame:
    """Add the pseudonyms of photographs and patients; empty the names of unknown ones."""
    return table.assign(
        image_id=[pseudonym(salt, "image", name) for name in table["file"]],
        patient_id=[pseudonym(salt, "patient", name) for name in table["patient"]],
        referable=(table["grade"] >= REFERABLE_FROM).astype(int),
        patient=table["patient"].where(table["patient"] != table["file"], ""),
    )


def _list_files(out: Path, shards: Sequence[str], earlier: dict) -> dict[str, str]:
    """List the shards, their listings and the split tables of before, with their SHA-256."""
    before = earlier["files"]
    files = {name: before[name] for name in earlier["splits"]}
    for shard in shards:
        for name in (shard, shard.replace(".tfrecord", ".csv")):
            files[name] = before.get(name) or hash_file(out / name)
    return files


def _find_copies(table: pd.DataFrame, keep: Keep, exclude_unlike: bool) -> pd.DataFrame:
    """Find near duplicates and keep their names: image_id, image_id_2 and distance [bits].

    Raises:
        LabelTableError: copies have different grades.
    """
    pairs = find_near_duplicates(parse_hashes(table["perceptual_hash"]))
    ids = table["image_id"].to_numpy()
    copies = pd.DataFrame(ids[pairs[:, :2]], columns=["image_id", "image_id_2"])
    copies["distance"] = pairs[:, 2]
    named = table[["image_id", "row", "image", "grade"]]
    both = copies.merge(named, on="image_id").merge(named.add_suffix("_2"), on="image_id_2")
    names = ["row", "image", "grade", "row_2", "image_2", "grade_2", "distance"]
    listed = keep("near_duplicates.csv", both[names])
    unlike = find_unlike_copies(table, pairs[:, :2])
    if len(unlike) and not exclude_unlike:
        rows = table["row"][unlike.index].astype(str).groupby(unlike, sort=False)
        raise LabelTableError(
            f"rows {', '.join(rows.agg(' and '.join))}: copies of one picture have different "
            "grades. Correct them, or exclude the copies with --exclude-unlike-copies; "
            f"{listed} names the files"
        )
    return copies


def _drop_unlisted(out: Path, files: Mapping[str, str]) -> None:
    """Delete shards of which no record counts any more: those that the manifest does not list."""
    for path in list_own(out):
        if path.name not in files:
            path.unlink()


def _read_known(private: Path, out: Path) -> dict[str, tuple[str, str]]:
    """Read from names.csv what an earlier call found in each file, see `crop_photographs`."""
    path = private / "names.csv"
    if not path.exists():
        return {}
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table = table[table["data_dir"] == str(out.absolute())]
    found = zip(table["state"], table["content_id"], strict=True)
    return dict(zip(table["image_id"], found, strict=True))


def _name_draw(manifest: dict) -> str:
    """Name how split.csv was drawn: sides of another draw do not count."""
    facts = manifest["splits"].get("split.csv", {})
    return f"{facts.get('scheme')} {facts.get('seed')}"


def _read_sides(private: Path, out: Path, manifest: dict) -> dict[str, str]:
    """Read from sides.csv the sides of all who were in split.csv since it was drawn."""
    path = private / "sides.csv"
    if not path.exists():
        return {}
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    is_ours = table["data_dir"] == str(out.absolute())
    table = table[is_ours & (table["drawn"] == _name_draw(manifest))]
    return dict(zip(table["id"], table["split"], strict=True))


def _keep_sides(private: Path, out: Path, manifest: dict, keep: Keep) -> None:
    """Add the sides of split.csv to sides.csv."""
    sides = _read_sides(private, out, manifest) | read_sides(out, "split.csv")
    table = pd.DataFrame(sorted(sides.items()), columns=["id", "split"])
    keep("sides.csv", table.assign(drawn=_name_draw(manifest)))


def _keep_private(private: Path, out: Path, name: str, rows: pd.DataFrame) -> Path:
    """Add rows that name files to a private table, keeping the rows of other prepared folders."""
    path = private / name
    rows = rows.astype(str).assign(data_dir=str(out.absolute()))
    names = rows.columns.intersection(["image", "image_2", "file", "patient", "state"])
    # a cell that begins so is computed when a spreadsheet opens it
    rows[names] = rows[names].map(lambda cell: re.sub(r"^([=+\-@\t\r])", r"'\1", cell))
    # pandas writes one without quotation marks, and reads two rows
    rows[names] = rows[names].replace("\r", r"\\r", regex=True)
    if path.exists():
        earlier = pd.read_csv(path, dtype=str, keep_default_na=False)
        rows = pd.concat([earlier[earlier["data_dir"] != str(out.absolute())], rows])
    with replace(path) as temporary:
        temporary.touch(mode=0o600)
        temporary.write_text(format_table(rows), encoding="utf-8", errors="backslashreplace")
    return path
