"""Prepare a data set: crop its photographs, join their labels, divide them into splits."""

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.data.labels.label_files import LabelTableError
from dr_lib.data.labels.near_duplicates import find_near_duplicates
from dr_lib.data.labels.privacy import (
    PrivateFolderError,
    check_apart,
    name_image,
    open_private,
    pseudonym,
)
from dr_lib.data.labels.schema import FACTS
from dr_lib.data.labels.tables import read_labels
from dr_lib.data.photograph.pixels import IMAGE_SIZE
from dr_lib.data.prepared.crops import SHARD_SIZE, PrepareError, claim, crop_photographs
from dr_lib.data.prepared.folder import hash_file, read_manifest, write_table
from dr_lib.data.prepared.split import write_split
from dr_lib.data.prepared.workers import Photograph, map_over
from dr_lib.hardware.cpus import count_cpus

# columns of labels.csv
LABELS = ["image_id", "row", "patient_id", "eye", "grade", "referable", "official"]
FORMULA = re.compile(r"[=+\-@\t\r]")  # how a cell begins that a spreadsheet computes
CROPS = re.compile(r"crops(-\d{5})?\.(json|tfrecord|csv)")
CORRECTED = (
    "labels.csv was corrected by `split --labels`; the label table has taken its place: correct"
    " that, too."
)
SAMPLE_SALT = hashlib.sha256(b"the synthetic sample has no patients").digest()


def prepare(
    images: Path,
    labels: Path | None,
    out: Path,
    *,
    private: Path | None = None,
    layout: str = "auto",
    method: str = "robust",
    size: int = IMAGE_SIZE,
    scheme: str | None = None,
    seed: int | None = None,
    shard_size: int = SHARD_SIZE,
    workers: int | None = None,
    dask: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> dict:
    """Crop every photograph to its field of view, and write the folder that trainings read, see
    `folder`.

    Photographs in = records + rejected; `rejected.csv`, in the private folder, names the files. The
    same input, parameters and salt give the same bytes, whoever does the work. Started again,
    whether after a kill or with another label table, it crops what has no crop yet, and joins all
    photographs of the table anew; patients stay on their side of the split.

    Args:
        images, labels, layout: of `tables.read_labels`.
        out: folder to write, new, empty or prepared before with the same method and size.
        private: folder for the salt of the pseudonyms and what names files, mode 0700; default
            `<out>.private`.
        method: how the field of view is found, of `crop.crop_fundus`.
        size: side of the crops [px].
        scheme, seed: of `splits.split_photographs`; default random and 0, or as the folder was
            divided before.
        shard_size: photographs per shard.
        workers: processes; default one per core.
        dask: address of a Dask scheduler, whose workers are taken instead; each has `images` under
            the same path.
        progress: called with (photographs done, photographs in all), first with those done by an
            earlier run.

    Returns:
        The manifest.

    Raises:
        LabelTableError: something is wrong with the folder or the label table, or it cannot be
            divided so.
        PrepareError: the folder `out` holds something else, is too small or cannot be written.
        PrivateFolderError: the private folder cannot be used, is the sample's, does not lie apart
            from `out`, or another prepare is at work with it.
        ShardError: the folder's manifest is damaged, or a shard does not match it.
        WorkerError: workers cannot be had, died, or do not see the photographs.
    """
    images = Path(images).absolute()
    out = Path(out)
    found = read_labels(images, None if labels is None else Path(labels), layout=layout)
    private = Path(private) if private else out.with_name(out.name + ".private")
    check_apart(private.absolute(), out.absolute())
    is_sample = found.layout == "sample"
    is_new = not private.exists()
    with open_private(private, SAMPLE_SALT if is_sample else None) as salt:
        if salt == SAMPLE_SALT and not is_sample:
            raise PrivateFolderError(
                f"{private} holds the sample's salt, which is public: choose another --private"
            )
        photographs = [
            Photograph(
                row.row,
                row.image,
                pseudonym(salt, "image", name_image(row.image, images)),
                _measure(row.image),
            )
            for row in found.table.itertuples()
        ]
        parameters = {
            "method": method,
            "size": size,
            "layout": found.layout,
            "salt_id": pseudonym(salt, "salt", ""),
        }
        try:
            try:
                earlier = (
                    read_manifest(out)
                    if (out / "manifest.json").exists()
                    else {"files": {}, "splits": {}}
                )
                claim(out, parameters)
            except BaseException:
                if is_new:  # it holds a salt that nothing was made with
                    shutil.rmtree(private, ignore_errors=True)
                raise
            pool = map_over(workers or count_cpus(), dask)
            files = earlier["files"]
            crops = crop_photographs(
                photographs, out, salt, pool, files=files, shard_size=shard_size, progress=progress
            )
            patients = [pseudonym(salt, "patient", patient) for patient in found.table["patient"]]
            table = found.table.assign(
                image_id=[p.image_id for p in photographs],
                patient_id=patients,
                referable=(found.table["grade"] >= REFERABLE_FROM).astype(int),
            )
            table = table.merge(crops[["image_id", "reason"]], on="image_id", validate="1:1")
            unread = table[table["reason"] != ""][["row", "image", "reason"]]
            rejected = pd.concat([found.unusable, unread])
            _keep_private(private / "rejected.csv", out, rejected)
            table = table[table["reason"] == ""]
            if table.empty:
                raise PrepareError(
                    f"no photograph can be used: {private / 'rejected.csv'} says why"
                )
            pairs = _find_copies(crops[crops["reason"] == ""])
            write_table(out / "near_duplicates.csv", pairs)
            _keep_private(private / "near_duplicates.csv", out, _name_copies(pairs, table))
            manifest = {
                "parameters": parameters,
                "data_kind": "synthetic" if is_sample else "photographs",
                "patients": found.patients,
                "notices": found.notices + [CORRECTED] * ("labels" in earlier),
                "num_photographs": len(found.table) + len(found.unusable),
                "num_rejected": len(rejected),
                "rejected": (
                    rejected["reason"].replace(r"\d+", "...", regex=True).value_counts().to_dict()
                ),
                "files": (
                    {name: files[name] for name in earlier["splits"]}
                    | {
                        path.name: hash_file(path)
                        for path in sorted(out.glob("crops*"))
                        if CROPS.fullmatch(path.name)
                    }
                    | {"near_duplicates.csv": hash_file(out / "near_duplicates.csv")}
                ),
                "splits": earlier["splits"],
            }
            labels = table[LABELS + [name for name in FACTS if name in table]]
            # asked for once, by the same command
            if seed == earlier["splits"].get("split.csv", {}).get("seed"):
                seed = None
            try:
                write_split(out, manifest, labels, out / "split.csv", scheme=scheme, seed=seed)
            except LabelTableError as error:
                if unread.empty:
                    raise
                why = (
                    f"{len(unread)} labelled photographs were rejected, {private / 'rejected.csv'}"
                    " says why"
                )
                raise LabelTableError(f"{error}; {why}") from error
        except OSError as error:
            reason = error.strerror or error
            raise PrepareError(
                f"cannot write to {out}: {reason}. Choose another --out, or make room"
            ) from error
    return read_manifest(out)


def _measure(path: str) -> int:
    """Bytes of a file, -1 where it cannot be seen: cropping it says what is wrong."""
    try:
        return os.path.getsize(path)
    except OSError:
        return -1


def _find_copies(crops: pd.DataFrame) -> pd.DataFrame:
    """Find pairs of crops that show nearly the same picture: image_id, image_id_2, distance
    [bits of 256].
    """
    hashes = np.frombuffer(bytes.fromhex("".join(crops["perceptual_hash"])), np.uint8).reshape(
        -1, 32
    )
    found = find_near_duplicates(hashes)
    image_ids = crops["image_id"].to_numpy()
    one = image_ids[found[:, 0]]
    two = image_ids[found[:, 1]]
    return pd.DataFrame({"image_id": one, "image_id_2": two, "distance": found[:, 2]})


def _name_copies(pairs: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Name the files of copies that the label table gives to two patients."""
    named = table[["image_id", "patient_id", "row", "image"]]
    both = pairs.merge(named, on="image_id").merge(named.add_suffix("_2"), on="image_id_2")
    both = both[both["patient_id"] != both["patient_id_2"]]
    return both[["row", "image", "row_2", "image_2", "distance"]]


def _keep_private(path: Path, out: Path, rows: pd.DataFrame) -> None:
    """Write what names files to a table of the private folder, beside the rows of other prepared
    folders.
    """
    rows = rows.astype(str).assign(data_dir=str(out.absolute()))
    names = [column for column in ("image", "image_2") if column in rows]
    # opened in a spreadsheet
    rows[names] = rows[names].map(lambda cell: f"'{cell}" if FORMULA.match(cell) else cell)
    if path.exists():
        others = pd.read_csv(path, dtype=str, keep_default_na=False)
        rows = pd.concat([others[others["data_dir"] != str(out.absolute())], rows])
    write_table(path, rows)
