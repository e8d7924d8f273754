"""Prepare a data set: crop its photographs, join their labels, split them."""

import hashlib
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pandas as pd

from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.data.labels.label_files import LabelTableError
from dr_lib.data.labels.near_duplicates import find_near_duplicates, parse_hashes
from dr_lib.data.labels.privacy import (
    check_apart,
    open_private,
    pseudonym,
)
from dr_lib.data.labels.readers import count_rules, list_readings
from dr_lib.data.labels.schema import FACTS, REFERENCE
from dr_lib.data.labels.splits import find_unlike_copies
from dr_lib.data.labels.tables import read_labels
from dr_lib.data.photograph.pixels import IMAGE_SIZE
from dr_lib.data.prepared.crops import SHARD_SIZE, claim, crop_photographs
from dr_lib.data.prepared.folder import (
    count_statuses,
    format_table,
    hash_file,
    parse_table,
    place_pairs,
    read_manifest,
)
from dr_lib.data.prepared.split import lock_folder, write_split
from dr_lib.errors import DrError
from dr_lib.files import replace
from dr_lib.hardware.cpus import count_cpus
from dr_lib.parameters import split_paths

# columns of labels.csv
LABELS = ["image_id", "row", "patient_id", "eye", "grade", "referable", "official"]
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
    reference: str = "",
    shard_size: int = SHARD_SIZE,
    workers: int | str | None = None,
    sheet: str = "",
    columns: Sequence[str] | str = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict:
    """Crop every photograph to its field of view and write a prepared folder, see `folder`.

    Photographs in = records + rejected. In the private folder `rejected.csv`, `excluded.csv` (from
    the split) and `near_duplicates.csv` name the files, and `names.csv` those of all image ids. The
    same input, parameters and salt give the same bytes, whoever does the work. Started again,
    whether after a kill or with another label table, it crops what has no crop yet, and joins all
    photographs of the table anew; patients stay on their side of the split.

    Args:
        images, labels: of `tables.read_labels`.
        out: folder to write, new, empty or prepared before with the same method and size.
        private: folder for the salt of the pseudonyms and what names files, mode 0700; default
            `<out>.private`.
        method: how the field of view is found, of `crop.crop_fundus`.
        size: side of the crops [px].
        scheme: of `splits.split_photographs`; default random, or as the folder was divided before.
        exclude_unlike_copies: exclude copies of one picture that have different grades, which are
            an error otherwise.
        shard_size: photographs per shard.
        workers: of `workers.map_over`; default one process per core.
        sheet, columns, patients_by, reference: of `tables.read_labels`; columns also in one text,
            with commas.
        progress: called with (photographs done, photographs in all), first with those done by an
            earlier run.

    Returns:
        The manifest.

    Raises:
        LabelTableError: something is wrong with the folder or the label table, copies of one
            picture have different grades, or it cannot be divided so.
        DrError: the folder `out` holds something else, is too small or cannot be written; the
            private folder cannot be used; or workers cannot be had, died, or see no photographs.
        ShardError: the folder's manifest is damaged, a shard does not match it, or another process
            is at work on it.

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
        reference=reference,
    )
    private = Path(private) if private else out.with_name(out.name + ".private")
    check_apart(private.absolute(), out.absolute())
    is_sample = labels.layout == "sample"
    is_new = not private.exists()
    with (
        open_private(private, SAMPLE_SALT if is_sample else None) as salt,
        ExitStack() as locks,
    ):
        if salt == SAMPLE_SALT and not is_sample:
            raise DrError(
                f"{private} holds the sample's salt, which is public: choose another --private"
            )
        parameters = {
            "method": method,
            "size": size,
            "layout": labels.layout,
            "salt_id": pseudonym(salt, "salt", ""),
        }
        try:
            try:
                claim(out, parameters)
                locks.enter_context(lock_folder(out))
                earlier = {"files": {}, "splits": {}}
                if (out / "manifest.json").exists():
                    earlier = read_manifest(out)
            except BaseException:
                if is_new:  # it holds a salt that nothing was made with
                    shutil.rmtree(private, ignore_errors=True)
                raise
            table = labels.table
            names = [Path(image).relative_to(images).as_posix() for image in table["image"]]
            table["image_id"] = [pseudonym(salt, "image", name) for name in names]
            # unknown patients have the name of their file
            known = table["patient"].where(table["patient"] != names, "")
            named = table[["image_id"]].assign(file=names, patient=known)
            _keep_private(private / "names.csv", out, named)
            table["patient_id"] = [
                pseudonym(salt, "patient", name) for name in table["patient"]
            ]
            table["referable"] = (table["grade"] >= REFERABLE_FROM).astype(int)
            crops = crop_photographs(
                table[["row", "image", "image_id"]],
                out,
                salt,
                workers or count_cpus(),
                files=earlier["files"],
                shard_size=shard_size,
                progress=progress,
            )
            outcomes = crops[["image_id", "status", "reason", "content_id"]]
            table = table.merge(outcomes, on="image_id", validate="1:1")
            is_cropped = table["reason"] == ""
            unread = table.loc[~is_cropped, ["row", "image", "reason"]]
            rejected = pd.concat([labels.unusable, unread])
            _keep_private(private / "rejected.csv", out, rejected)
            table = table[is_cropped]
            unlike_ok = table.loc[table["status"] != "ok", ["row", "image", "status"]]
            _keep_private(private / "statuses.csv", out, unlike_ok)
            if table.empty:
                raise DrError(
                    f"no photograph is usable: see the reasons in {private / 'rejected.csv'}"
                )
            reasons = rejected["reason"].replace(r"\d+", "...", regex=True).value_counts()
            files = {name: earlier["files"][name] for name in earlier["splits"]}
            for path in sorted(out.glob("crops*")):
                if re.fullmatch(r"crops(-\d{5})?\.(json|tfrecord|csv)", path.name):
                    files[path.name] = hash_file(path)
            manifest = {
                "parameters": parameters,
                "data_kind": "synthetic" if is_sample else "photographs",
                "patients": labels.patients,
                "notices": labels.notices,
                "reference": count_rules(table.get(REFERENCE, pd.Series(dtype=str))),
                "num_photographs": len(labels.table) + len(labels.unusable),
                "num_rejected": len(rejected),
                "rejected": reasons.to_dict(),
                "statuses": count_statuses(table["status"]),
                "files": files,
                "splits": earlier["splits"],
            }
            crops = crops[crops["reason"] == ""]
            pairs = find_near_duplicates(parse_hashes(crops["perceptual_hash"]))
            copies = pd.DataFrame(
                {
                    "image_id": crops["image_id"].to_numpy()[pairs[:, 0]],
                    "image_id_2": crops["image_id"].to_numpy()[pairs[:, 1]],
                    "distance": pairs[:, 2],  # bits of 256
                }
            )
            _keep_private(private / "near_duplicates.csv", out, _name_copies(copies, table))
            unlike = find_unlike_copies(table, place_pairs(copies, table))
            if len(unlike) and not exclude_unlike_copies:
                rows = table["row"][unlike.index].astype(str).groupby(unlike, sort=False)
                raise LabelTableError(
                    f"rows {', '.join(rows.agg(' and '.join))}: copies of one picture have "
                    "different grades. Correct them, or exclude the copies with "
                    f"--exclude-unlike-copies; {private / 'near_duplicates.csv'} names the files"
                )
            try:
                write_split(
                    out,
                    manifest,
                    table.filter([*LABELS, REFERENCE, *list_readings(table), *FACTS]),
                    out / "split.csv",
                    scheme=scheme,
                    copies=copies,
                )
            except LabelTableError as error:
                if unread.empty:
                    raise
                raise LabelTableError(
                    f"{error}; {len(unread)} labelled photographs were rejected, see the "
                    f"reasons in {private / 'rejected.csv'}"
                ) from error
            table = table.drop(columns="reason").merge(
                parse_table(out / "split.csv"), on="image_id"
            )
            excluded = table.loc[table["reason"] != "", ["row", "image", "reason"]]
            _keep_private(private / "excluded.csv", out, excluded)
        except OSError as error:
            reason = error.strerror or error
            raise DrError(
                f"cannot write to {out}: {reason}. Choose another --out, or free some space"
            ) from error
    return read_manifest(out)


def _name_copies(pairs: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Name the files of copies."""
    named = table[["image_id", "row", "image", "grade"]]
    both = pairs.merge(named, on="image_id").merge(named.add_suffix("_2"), on="image_id_2")
    return both[["row", "image", "grade", "row_2", "image_2", "grade_2", "distance"]]


def _keep_private(path: Path, out: Path, rows: pd.DataFrame) -> None:
    """Add rows that name files to a private table, keeping the rows of other prepared folders."""
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
