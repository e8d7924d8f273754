"""Prepare a data set: crop its photographs, join their labels, split them."""

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.data.labels.label_files import LabelTableError
from dr_lib.data.labels.near_duplicates import find_near_duplicates, parse_hashes
from dr_lib.data.labels.privacy import check_apart, find_private, open_private, pseudonym
from dr_lib.data.labels.schema import FACTS
from dr_lib.data.labels.splits import find_unlike_copies
from dr_lib.data.labels.tables import Labels, read_labels
from dr_lib.data.photograph.pixels import IMAGE_SIZE
from dr_lib.data.prepared.crops import SHARD_SIZE, claim, crop_photographs
from dr_lib.data.prepared.folder import (
    count_statuses,
    format_table,
    parse_table,
    place_pairs,
    read_manifest,
)
from dr_lib.data.prepared.split import lock_folder, write_split
from dr_lib.data.prepared.workers import Map
from dr_lib.errors import DrError
from dr_lib.files import hash_file, replace, split_paths
from dr_lib.hardware.cpus import count_cpus
from dr_lib.schema import SCHEMA

Keep = Callable[[str, pd.DataFrame], Path]  # adds rows that name files to a private table
SAMPLE_SALT = hashlib.sha256(b"the synthetic sample has no patients").digest()


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
    patients_by: str | None = None,
    shard_size: int = SHARD_SIZE,
    workers: int | AbstractContextManager[Map] | None = None,
    sheet: str = "",
    columns: Sequence[str] | str = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict:
    """Crop every photograph to its field of view and write a prepared folder, see `folder`.

    Photographs in = records + rejected. The same input, parameters and salt give the same bytes,
    whoever does the work. Started again, whether after a kill or with another label table, it crops
    what has no crop yet, and joins all photographs of the table; patients stay on their side.

    Args:
        images, labels: of `tables.read_labels`.
        out: folder to write, new, empty or prepared before with the same method and size.
        private: folder for the salt of the pseudonyms and what names files, mode 0700: `names.csv`
            of all image ids, `rejected.csv`, `statuses.csv`, `near_duplicates.csv`, and
            `excluded.csv` of the split. By default `<out>.private`.
        method: how the field of view is found, of `crop.crop_fundus`.
        size: side of the crops [px].
        scheme: of `splits.split_photographs`; default random, or as the folder was divided before.
        exclude_unlike_copies: copies of one picture that have different grades are no error.
        shard_size: photographs per shard.
        workers: of `workers.map_over`; default one process per core.
        sheet, columns, patients_by: of `tables.read_labels`; columns also in one text.
        progress: of `crops.crop_photographs`.

    Returns:
        The manifest, and `unused_columns` of the label table, whose titles it does not keep.

    Raises:
        DrError: a folder cannot be used or written, or workers cannot be had, died, or see no
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
        patients_by=patients_by,
    )
    private = Path(private) if private else find_private(out)
    keep = partial(_keep_private, private, out)
    parameters = {"method": method, "size": size, "layout": labels.layout}
    with _open_folders(private, out, parameters) as (salt, earlier):
        named = _name_photographs(labels.table, images, salt, keep)
        crops = crop_photographs(
            named,
            out,
            salt,
            workers or count_cpus(),
            files=earlier["files"],
            shard_size=shard_size,
            progress=progress,
        )
        table, manifest, note = _join_crops(labels, named, crops, out, earlier, keep)
        _divide(out, manifest, table, crops, keep, scheme, exclude_unlike_copies, note)
    return {**read_manifest(out), "unused_columns": labels.unused}


@contextmanager
def _open_folders(
    private: Path, out: Path, parameters: dict[str, Any]
) -> Iterator[tuple[bytes, dict]]:
    """Lock both folders; yield the salt, and of the manifest of before, with these parameters."""
    check_apart(private.absolute(), out.absolute())
    is_sample = parameters["layout"] == "sample"
    is_new = not private.exists()
    with open_private(private, SAMPLE_SALT if is_sample else None) as salt:
        if salt == SAMPLE_SALT and not is_sample:
            raise DrError(
                f"{private} holds the sample's salt, which is public: choose another --private"
            )
        parameters = {**parameters, "salt_id": pseudonym(salt, "salt", "")}
        earlier = {"files": {}, "splits": {}}
        try:
            with ExitStack() as locks:
                try:
                    claim(out, parameters)
                    locks.enter_context(lock_folder(out))
                    if (out / "manifest.json").exists():
                        earlier = read_manifest(out)
                except BaseException:
                    if is_new:  # it holds a salt that nothing was made with
                        shutil.rmtree(private, ignore_errors=True)
                    raise
                yield salt, {**earlier, "parameters": parameters}
        except OSError as error:
            reason = error.strerror or error
            raise DrError(
                f"cannot write to {out}: {reason}. Choose another --out, or free some space"
            ) from error


def _name_photographs(
    table: pd.DataFrame, images: Path, salt: bytes, keep: Keep
) -> pd.DataFrame:
    """Add the pseudonyms of photographs and patients, and keep their names."""
    names = [Path(image).relative_to(images).as_posix() for image in table["image"]]
    named = table.assign(
        image_id=[pseudonym(salt, "image", name) for name in names],
        patient_id=[pseudonym(salt, "patient", name) for name in table["patient"]],
        referable=(table["grade"] >= REFERABLE_FROM).astype(int),
    )
    # unknown patients have the name of their file
    known = table["patient"].where(table["patient"] != names, "")
    keep("names.csv", named[["image_id"]].assign(file=names, patient=known))
    return named


def _join_crops(
    labels: Labels,
    named: pd.DataFrame,
    crops: pd.DataFrame,
    out: Path,
    earlier: dict,
    keep: Keep,
) -> tuple[pd.DataFrame, dict, str]:
    """Join labels and crops, and keep the names of what cannot be used and why.

    Returns:
        The usable photographs, the manifest but for the new split, and what an error of it adds.
    """
    outcomes = crops[["image_id", "status", "reason", "content_id"]]
    table = named.merge(outcomes, on="image_id", validate="1:1")
    is_cropped = table["reason"] == ""
    unread = table.loc[~is_cropped, ["row", "image", "reason"]]
    rejected = pd.concat([labels.unusable, unread])
    path = keep("rejected.csv", rejected)
    table = table[is_cropped]
    keep("statuses.csv", table.loc[table["status"] != "ok", ["row", "image", "status"]])
    if table.empty:
        raise DrError(f"no photograph is usable: see the reasons in {path}")
    reasons = rejected["reason"].replace(r"\d+", "...", regex=True).value_counts()
    files = {name: earlier["files"][name] for name in earlier["splits"]}
    for crop in sorted(out.glob("crops*")):
        if re.fullmatch(r"crops(-\d{5})?\.(json|tfrecord|csv)", crop.name):
            files[crop.name] = hash_file(crop)
    manifest = {
        "schema": SCHEMA,
        "parameters": earlier["parameters"],
        "data_kind": "synthetic" if labels.layout == "sample" else "photographs",
        "patients": labels.patients,
        "notices": labels.notices,
        "num_photographs": len(named) + len(labels.unusable),
        "num_rejected": len(rejected),
        "rejected": reasons.to_dict(),
        "statuses": count_statuses(table["status"]),
        "files": files,
        "splits": earlier["splits"],
    }
    note = f"; {len(unread)} labelled photographs were rejected, see the reasons in {path}"
    return table, manifest, note if len(unread) else ""


def _divide(
    out: Path,
    manifest: dict,
    table: pd.DataFrame,
    crops: pd.DataFrame,
    keep: Keep,
    scheme: str | None,
    exclude_unlike: bool,
    note: str,
) -> None:
    """Find near duplicates, of an earlier label table too, and write the folder's tables; keep the
    names of copies and of what the split excludes.
    """
    crops = crops[crops["reason"] == ""]
    pairs = find_near_duplicates(parse_hashes(crops["perceptual_hash"]))
    ids = crops["image_id"].to_numpy()
    copies = pd.DataFrame(ids[pairs[:, :2]], columns=["image_id", "image_id_2"])
    copies["distance"] = pairs[:, 2]  # bits of 256
    named = table[["image_id", "row", "image", "grade"]]
    both = copies.merge(named, on="image_id").merge(named.add_suffix("_2"), on="image_id_2")
    names = ["row", "image", "grade", "row_2", "image_2", "grade_2", "distance"]
    listed = keep("near_duplicates.csv", both[names])
    unlike = find_unlike_copies(table, place_pairs(copies, table))
    if len(unlike) and not exclude_unlike:
        rows = table["row"][unlike.index].astype(str).groupby(unlike, sort=False)
        raise LabelTableError(
            f"rows {', '.join(rows.agg(' and '.join))}: copies of one picture have different "
            "grades. Correct them, or exclude the copies with --exclude-unlike-copies; "
            f"{listed} names the files"
        )
    columns = ["image_id", "row", "patient_id", "eye", "grade", "referable", "official"]
    columns += FACTS
    path = out / "split.csv"
    try:
        write_split(out, manifest, table.filter(columns), path, scheme=scheme, copies=copies)
    except LabelTableError as error:
        raise LabelTableError(f"{error}{note}") from error
    sides = named.merge(parse_table(path), on="image_id")
    keep("excluded.csv", sides.loc[sides["reason"] != "", ["row", "image", "reason"]])


def _keep_private(private: Path, out: Path, name: str, rows: pd.DataFrame) -> Path:
    """Add rows that name files to a private table, keeping the rows of other prepared folders."""
    path = private / name
    rows = rows.astype(str).assign(data_dir=str(out.absolute()))
    names = rows.columns.intersection(["image", "image_2", "file", "patient"])
    # a cell that begins so is computed when a spreadsheet opens it
    rows[names] = rows[names].map(lambda cell: re.sub(r"^([=+\-@\t\r])", r"'\1", cell))
    if path.exists():
        earlier = pd.read_csv(path, dtype=str, keep_default_na=False)
        rows = pd.concat([earlier[earlier["data_dir"] != str(out.absolute())], rows])
    with replace(path) as temporary:
        temporary.touch(mode=0o600)
        temporary.write_text(format_table(rows), encoding="utf-8", errors="backslashreplace")
    return path
