"""Prepare a data set: photographs and a label table in, shards, split table and manifest out."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd

from dr_lib.data.crops import IMAGE_SIZE
from dr_lib.data.privacy import open_private, pseudonym
from dr_lib.data.records import SPLITS, read_manifest, verify, write_json, write_shard
from dr_lib.data.tables import LabelTableError, read_labels, split_patients
from dr_lib.data.workers import Photograph, Prepared, Rejection, crop_photograph, map_over

Progress = Callable[[int, int], None]  # (done, total)
BYTES_PER_RECORD = 25_000  # a JPEG of quality 95 takes 18 kB on average
DRAWN_SALT = hashlib.sha256(b"the drawn sample has no patients").digest()


class PrepareError(ValueError):
    """The data set cannot be prepared as asked; the message says what to do."""


def prepare(
    images: Path,
    labels: Path | None,
    out: Path,
    *,
    private: Path | None = None,
    layout: str = "auto",
    split: str = "drawn",
    method: str = "robust",
    seed: int = 0,
    num_shards: int = 8,
    workers: int | None = None,
    progress: Progress | None = None,
) -> dict:
    """Crop every photograph to its disc and write the data set that trainings read.

    Writes `<split>-00000-of-00008.tfrecord`, `split.csv` and, last, `manifest.json` to `out`; the salt of the
    pseudonyms and `rejected.csv`, which names files, to `private`. Photographs in = records + rejected. The same
    input, parameters and salt give the same bytes for any number of workers. Started again after a kill it
    completes the folder; started again on a complete one it verifies and returns it.

    Args:
        images: folder of the photographs, or the root of a known data set.
        labels: CSV of the labels; None finds it in a known data set.
        out: folder to write, new or empty.
        private: folder for the salt and `rejected.csv`, mode 0700; default `<out>.private`.
        layout: name of a known data set, or auto.
        split: drawn (70 % of the photographs, a fifth of their patients for validation, and 30 % test), paper
            (70/30 without validation) or official (the data set's own).
        method: how the disc is found, see `fundus.crop_fundus`.
        seed: of the split.
        num_shards: files per split.
        workers: processes; default one per core.
        progress: called with (photographs done, photographs in all).

    Returns:
        The manifest.

    Raises:
        LabelTableError: something is wrong with the folder or the label table.
        PrepareError: the folder `out` holds something else, is too small or cannot be written.
        ShardError: the folder is complete but a shard does not match.
    """
    found = read_labels(Path(images), None if labels is None else Path(labels), layout=layout)
    out = Path(out)
    private = Path(private) if private else out.with_name(out.name + ".private")
    drawn = found.layout == "sample"
    salt = open_private(private, DRAWN_SALT if drawn else None)
    table, duplicates = _leave_out_duplicates(found.table)
    table = table.assign(split=split_patients(table, seed=seed, kind=split))
    photographs = _pseudonyms(table, Path(images), salt)
    parameters = {
        "method": method,
        "split": split,
        "seed": seed,
        "num_shards": num_shards,
        "image_size": IMAGE_SIZE,
        "layout": found.layout,
        "input_sha256": _fingerprint(photographs),
    }
    _check_counts(photographs, num_shards)
    if _claim(out, parameters):
        return verify(out)
    _check_space(out, len(table))
    try:
        crop = partial(crop_photograph, method=method)
        shards, split_table, no_disc = _write_shards(
            out, photographs, crop, num_shards, workers or os.cpu_count() or 1, progress
        )
        rejected = pd.DataFrame(
            [*found.unusable[list(Rejection._fields)].itertuples(index=False), *duplicates, *no_disc],
            columns=Rejection._fields,
        )
        rejected.sort_values(["row", "image"]).to_csv(private / "rejected.csv", index=False)
        if set(split_table["split"]) != set(photographs):
            raise PrepareError(f"a split has no usable photograph left: {private / 'rejected.csv'} says why")
        split_table.to_csv(out / "split.csv", index=False, lineterminator="\n")
        manifest = {
            "parameters": parameters,
            "data_kind": "drawn" if drawn else "photographs",
            "patients": found.patients,
            "notices": found.notices,
            "shards": shards,
            "counts": _count(split_table),
            "num_photographs": len(split_table) + len(rejected),
            "num_rejected": len(rejected),
        }
        write_json(out / "manifest.json", manifest)
        (out / "preparing.json").unlink()
    except OSError as error:
        raise PrepareError(f"cannot write to {out}: {error.strerror}. Make room or choose another --out") from error
    return manifest


def _leave_out_duplicates(table: pd.DataFrame) -> tuple[pd.DataFrame, list[Rejection]]:
    """Keep the first of files with the same bytes; the same bytes with another label are an error."""
    sizes = table["image"].map(os.path.getsize)
    twins = table[sizes.duplicated(keep=False)].sort_values("image", kind="stable")
    digests = twins["image"].map(lambda path: hashlib.sha256(Path(path).read_bytes()).hexdigest())
    rejected = []
    for _, same in twins.groupby(digests):
        first = same.iloc[0]
        for other in same.iloc[1:].itertuples():
            if (other.grade, other.patient) != (first.grade, first.patient):
                raise LabelTableError(
                    f"rows {first.row} and {other.row} are the same photograph with another grade or patient: "
                    "correct the label table, or take one of them out"
                )
            rejected.append(Rejection(other.row, other.image, f"same photograph as row {first.row}"))
    gone = {r.image for r in rejected}
    return table[~table["image"].isin(gone)], rejected


def _pseudonyms(table: pd.DataFrame, images: Path, salt: bytes) -> dict[str, list[Photograph]]:
    """Photographs of each split, in the order of their pseudonyms: as good as shuffled, and reproducible."""
    photographs = {split: [] for split in SPLITS}
    for row in table.itertuples():
        name = Path(os.path.relpath(row.image, images)).as_posix()
        image_id, patient_id = pseudonym(salt, "image", name), pseudonym(salt, "patient", row.patient)
        photograph = Photograph(int(row.row), row.image, image_id, patient_id, row.eye, int(row.grade))
        photographs[row.split].append(photograph)
    return {split: sorted(rows, key=lambda p: p.image_id) for split, rows in photographs.items() if rows}


def _fingerprint(photographs: dict[str, list[Photograph]]) -> str:
    known = sorted((*p[2:], os.path.getsize(p.path)) for rows in photographs.values() for p in rows)
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()


def _check_counts(photographs: dict[str, list[Photograph]], num_shards: int) -> None:
    smallest = min(photographs, key=lambda split: len(photographs[split]))
    if not 1 <= num_shards <= len(photographs[smallest]):
        raise PrepareError(
            f"{smallest} has {len(photographs[smallest])} photographs for {num_shards} shards: "
            f"pass --shards {len(photographs[smallest])} or fewer"
        )


def _claim(out: Path, parameters: dict) -> bool:
    """Take the folder for this run; True if it already holds the finished result of the same run."""
    finished, begun = out / "manifest.json", out / "preparing.json"
    try:
        if finished.exists():
            earlier = read_manifest(out)["parameters"]
        elif begun.exists():
            earlier = json.loads(begun.read_text())
        elif out.exists() and any(out.iterdir()):
            raise PrepareError(f"{out} is not empty and holds no data set of ours: choose another --out")
        else:
            out.mkdir(parents=True, exist_ok=True)
            write_json(begun, parameters)
            return False
    except OSError as error:
        raise PrepareError(f"cannot write to {out}: {error.strerror}. Choose another --out") from error
    if earlier != parameters:
        changed = sorted(k for k in parameters if earlier.get(k) != parameters[k])
        raise PrepareError(
            f"{out} holds another run (other {', '.join(changed)}): choose another --out, or delete the folder"
        )
    if finished.exists():
        begun.unlink(missing_ok=True)  # left by a kill between the manifest and the end
    return finished.exists()


def _check_space(out: Path, num_photographs: int) -> None:
    free, needed = shutil.disk_usage(out).free, num_photographs * BYTES_PER_RECORD
    if free < needed:
        raise PrepareError(
            f"{out} has {free / 2**20:.0f} MiB free, {num_photographs} records need about "
            f"{needed / 2**20:.0f} MiB: make room or choose another --out"
        )


def _write_shards(
    out: Path,
    photographs: dict[str, list[Photograph]],
    crop: Callable[[Photograph], Prepared | Rejection],
    num_shards: int,
    workers: int,
    progress: Progress | None,
) -> tuple[dict[str, dict], pd.DataFrame, list[Rejection]]:
    """Write all shards, one photograph after another in a fixed order, whoever cropped it."""
    in_order = [p for rows in photographs.values() for p in rows]
    shards, listed, rejected = {}, [], []
    with map_over(workers) as map_photographs:
        results = _counted(map_photographs(crop, in_order), len(in_order), progress)
        for split, rows in photographs.items():
            for index, part in enumerate(np.array_split(np.arange(len(rows)), num_shards)):
                kept = _keep(islice(results, len(part)), split, listed, rejected)
                name = f"{split}-{index:05d}-of-{num_shards:05d}.tfrecord"
                shards[name] = write_shard(out / name, kept)
    columns = ["image_id", "patient_id", "eye", "grade", "referable", "split", "status"]
    return shards, pd.DataFrame(listed, columns=columns), rejected


def _keep(results: Iterator, split: str, listed: list, rejected: list[Rejection]) -> Iterator[bytes]:
    for result in results:
        if isinstance(result, Rejection):
            rejected.append(result)
            continue
        r = result.record
        listed.append((r.image_id, r.patient_id, r.eye, r.grade, int(r.referable), split, r.status))
        yield result.framed


def _counted(results: Iterator, total: int, progress: Progress | None) -> Iterator:
    for done, result in enumerate(results, start=1):
        if progress:
            progress(done, total)
        yield result


def _count(split_table: pd.DataFrame) -> dict:
    """Photographs, patients and grades of each split, for the manifest."""
    return {
        split: {
            "num_images": len(rows),
            "num_patients": int(rows["patient_id"].nunique()),
            "grades": {str(g): int((rows["grade"] == g).sum()) for g in range(5)},
        }
        for split, rows in split_table.groupby("split")
    }
