"""Prepare a data set: photographs and a label table in, shards, split table and manifest out."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from dr_lib.data.labels.duplicates import drop_duplicates, measure_size
from dr_lib.data.labels.near_duplicates import find_near_duplicates
from dr_lib.data.labels.privacy import PrivateFolderError, name_image, open_private, pseudonym
from dr_lib.data.labels.splits import split_patients
from dr_lib.data.labels.tables import Labels, read_labels
from dr_lib.data.photograph.pixels import IMAGE_SIZE
from dr_lib.data.shards.records import SPLITS, read_manifest, verify
from dr_lib.data.shards.resume import Finished, read_finished, write_finished
from dr_lib.data.shards.workers import Map, Photograph, Rejection, count_cores, crop_photograph, map_over
from dr_lib.files import write_json, write_text

Progress = Callable[[int, int], None]  # (done, total)
Shards = dict[str, list[Photograph]]  # by name of the file, such as train-00000-of-00008.tfrecord
PUBLISHED = ["image_id", "patient_id", "eye", "grade", "referable", "split", "status"]  # the columns of split.csv
SAMPLE_SALT = hashlib.sha256(b"the synthetic sample has no patients").digest()
NUM_SHARDS = 8  # of each split, where the smallest has as many photographs
BYTES_PER_RECORD = 25_000  # a JPEG of quality 95 takes 18 kB on average
MARK = "preparing.json"  # says in the folder what it is to become


class PrepareError(ValueError):
    """The data set cannot be prepared like this; the message says what to do."""


def prepare(
    images: Path,
    labels: Path | None,
    out: Path,
    *,
    private: Path | None = None,
    layout: str = "auto",
    split: str = "random",
    method: str = "robust",
    seed: int = 0,
    num_shards: int | None = None,
    workers: int | None = None,
    dask: str = "",
    progress: Progress | None = None,
) -> dict:
    """Crop every photograph to its field of view and write the data set that trainings read.

    Writes `<split>-00000-of-00008.tfrecord`, `split.csv` and, last, `manifest.json` to `out`; the salt of the
    pseudonyms and `rejected.csv`, which names files, to `private`. Photographs in = records + rejected. The same
    input, parameters and salt give the same bytes, whoever does the work. Started again after a kill it goes on
    behind the last finished shard; started again on a complete folder it verifies and returns it.

    Args:
        images, labels, layout: of `tables.read_labels`.
        out: folder to write, new or empty.
        private: folder for the salt and `rejected.csv`, mode 0700; default `<out>.private`.
        split, seed: kind of split and its seed, of `splits.split_patients`.
        method: how the field of view is found, of `crop.crop_fundus`.
        num_shards: files per split; default 8, or as many as the smallest split has photographs.
        workers: processes; default one per core.
        dask: address of a Dask scheduler, whose workers are taken instead; each has `images` under the same path.
        progress: called with (photographs done, photographs in all), first with those done by an earlier run.

    Returns:
        The manifest.

    Raises:
        LabelTableError: something is wrong with the folder or the label table.
        PrepareError: the folder `out` holds something else, is too small or cannot be written, or photographs in two
            splits show nearly the same picture.
        PrivateFolderError: the private folder cannot be used, is the sample's, or another prepare is at work with it.
        ShardError: the folder is complete but a shard does not match.
        WorkerError: workers cannot be had, died, or do not see the photographs.
    """
    images, out = Path(images).absolute(), Path(out)
    found = read_labels(images, None if labels is None else Path(labels), layout=layout)
    private = Path(private) if private else out.with_name(out.name + ".private")
    is_sample = found.layout == "sample"
    with open_private(private, SAMPLE_SALT if is_sample else None) as salt:
        if salt == SAMPLE_SALT and not is_sample:
            raise PrivateFolderError(f"{private} holds the sample's salt, which is public: choose another --private")
        table, duplicates = drop_duplicates(found.table)
        table = table.assign(split=split_patients(table, seed=seed, kind=split))
        shards = _divide(table, images, salt, num_shards)
        known = sorted((*p[2:], measure_size(p.path)) for rows in shards.values() for p in rows)
        parameters = {
            "method": method,
            "split": split,
            "seed": seed,
            "num_shards": len(shards) // table["split"].nunique(),
            "image_size": IMAGE_SIZE,
            "layout": found.layout,
            "input_sha256": hashlib.sha256(json.dumps(known).encode()).hexdigest(),
        }
        notes = private / "preparing"
        crop = partial(crop_photograph, method=method)
        try:
            is_complete = _claim(out, parameters)
            if not is_complete:
                finished = _write_shards(out, notes, shards, crop, map_over(workers or count_cores(), dask), progress)
                unusable = found.unusable[list(Rejection._fields)].itertuples(index=False)
                num_rejected = _write_rejected(private, [*unusable, *duplicates], finished)
                records = _list_records(shards, finished)
                _refuse_near_duplicates(out, private, records, finished)
                _write_manifest(out, found, parameters, finished, records[PUBLISHED], num_rejected)
            if (out / MARK).exists():  # the mark goes last, so a kill here is found, too
                shutil.rmtree(notes, ignore_errors=True)
                (out / MARK).unlink()
            return verify(out) if is_complete else read_manifest(out)
        except OSError as error:
            reason = error.strerror or error
            raise PrepareError(f"cannot write to {out}: {reason}. Choose another --out, or make room") from error


def _divide(table: pd.DataFrame, images: Path, salt: bytes, num_shards: int | None) -> Shards:
    """Divide each split, in the order of its pseudonyms, among its shards: as good as shuffled, and reproducible."""
    photographs = {split: [] for split in SPLITS}
    for row in table.itertuples():
        image_id = pseudonym(salt, "image", name_image(row.image, images))
        patient_id = pseudonym(salt, "patient", row.patient)
        photograph = Photograph(int(row.row), row.image, image_id, patient_id, row.eye, int(row.grade))
        photographs[row.split].append(photograph)
    for rows in photographs.values():
        rows.sort(key=lambda p: p.image_id)
    most, smallest = min((len(rows), split) for split, rows in photographs.items() if rows)
    num_shards = min(NUM_SHARDS, most) if num_shards is None else num_shards
    if not 1 <= num_shards <= most:
        raise PrepareError(f"{smallest} has {most} photographs for {num_shards} shards: pass --shards {most} or fewer")
    return {
        f"{split}-{index:05d}-of-{num_shards:05d}.tfrecord": [rows[i] for i in part]
        for split, rows in photographs.items()
        if rows
        for index, part in enumerate(np.array_split(np.arange(len(rows)), num_shards))
    }


def _claim(out: Path, parameters: dict) -> bool:
    """Take the folder for the data set of these parameters; True if it already holds all of it."""
    finished, begun = out / "manifest.json", out / MARK
    if finished.exists():
        earlier = read_manifest(out)["parameters"]
    elif begun.exists():
        earlier = json.loads(begun.read_text(encoding="utf-8"))
    elif out.exists() and {path.name for path in out.iterdir()} - {f"{MARK}.tmp"}:  # left by a kill
        raise PrepareError(f"{out} is not empty and holds no data set of ours: choose another --out")
    else:
        write_json(begun, parameters)
        return False
    if earlier != parameters:
        changed = sorted(k for k in parameters if earlier.get(k) != parameters[k])
        raise PrepareError(
            f"{out} holds another run (other {', '.join(changed)}): choose another --out, or delete the folder"
        )
    return finished.exists()


def _write_shards(
    out: Path, notes: Path, shards: Shards, crop: Callable, pool: AbstractContextManager[Map], progress: Progress | None
) -> dict[str, Finished]:
    """Write the shards that are not there yet, one photograph after another in a fixed order, whoever crops it."""
    notes.mkdir(exist_ok=True)
    finished = {name: read_finished(out / name, notes, rows) for name, rows in shards.items()}
    rest = [photograph for name, rows in shards.items() if not finished[name] for photograph in rows]
    free, needed = shutil.disk_usage(out).free / 2**20, len(rest) * BYTES_PER_RECORD / 2**20
    if free < needed:
        raise PrepareError(
            f"{out} has {free:.0f} MiB free, {len(rest)} records need about {needed:.0f} MiB: make room or choose "
            "another --out"
        )
    progress, total = progress or (lambda done, total: None), sum(map(len, shards.values()))
    progress(total - len(rest), total)

    def count(results: Iterable) -> Iterator:
        for done, result in enumerate(results, total - len(rest) + 1):
            progress(done, total)
            yield result

    with pool as map_photographs:
        results = count(map_photographs(crop, rest))
        for name, rows in shards.items():
            finished[name] = finished[name] or write_finished(out / name, notes, rows, results)
    return finished


def _write_rejected(private: Path, rejected: list[tuple], finished: dict[str, Finished]) -> int:
    """Write `rejected.csv`, return the number of its rows, and see that it does not hold all of a split."""
    rejected = rejected + [rejection for shard in finished.values() for rejection in shard.rejections]
    table = pd.DataFrame(rejected, columns=Rejection._fields).sort_values(["row", "image"])
    write_text(private / "rejected.csv", table.to_csv(index=False, lineterminator="\n"))
    usable = {_split_of(name) for name, shard in finished.items() if shard.records}
    if usable != {_split_of(name) for name in finished}:
        raise PrepareError(f"a split has no usable photograph left: {private / 'rejected.csv'} says why")
    return len(table)


def _list_records(shards: Shards, finished: dict[str, Finished]) -> pd.DataFrame:
    """List the records: the columns of `split.csv`, and the row and the image of each, which are private."""
    photographs = {p.image_id: p for rows in shards.values() for p in rows}
    listed = [
        (r.image_id, r.patient_id, r.eye, r.grade, int(r.referable), _split_of(name), r.status)
        + (photographs[r.image_id].row, photographs[r.image_id].path)
        for name, shard in finished.items()
        for r in shard.records
    ]
    return pd.DataFrame(listed, columns=[*PUBLISHED, "row", "image"])


def _refuse_near_duplicates(out: Path, private: Path, records: pd.DataFrame, finished: dict[str, Finished]) -> None:
    """What is trained on and what is tested on must not be the same eye under two names."""
    hashes = b"".join(perceptual_hash for shard in finished.values() for perceptual_hash in shard.hashes)
    found = find_near_duplicates(np.frombuffer(hashes, np.uint8).reshape(-1, 32), records["split"].to_numpy(str))
    path = private / "near_duplicates.csv"
    path.unlink(missing_ok=True)
    if not len(found):
        return
    one, two = (records.loc[found[:, i], ["row", "image", "split"]].reset_index(drop=True) for i in (0, 1))
    pairs = pd.concat([one, two.add_suffix("_2")], axis=1).assign(distance=found[:, 2])
    pairs = pairs.sort_values(["row", "row_2", "image", "image_2"])
    write_text(path, pairs.to_csv(index=False, lineterminator="\n"))
    first = ", ".join(f"{row} and {row_2}" for row, row_2 in pairs[["row", "row_2"]].head(3).values)
    raise PrepareError(
        f"{len(pairs)} pairs of photographs in two splits show nearly the same picture, such as rows {first}: "
        f"{path} lists them. Take one of each pair out of the label table, or, if the split is not the data set's own, "
        f"give both the same patient; then delete {out} and start again"
    )


def _write_manifest(
    out: Path, found: Labels, parameters: dict, finished: dict[str, Finished], table: pd.DataFrame, num_rejected: int
) -> None:
    """Write `split.csv` and, last of all, `manifest.json`."""
    num_photographs = len(found.table) + len(found.unusable)
    if num_photographs != len(table) + num_rejected:
        raise PrepareError(f"of {num_photographs} photographs some are lost: delete {out} and start again")
    write_text(out / "split.csv", table.to_csv(index=False, lineterminator="\n"))
    manifest = {
        "parameters": parameters,
        "data_kind": "synthetic" if found.layout == "sample" else "photographs",
        "patients": found.patients,
        "notices": found.notices,
        "shards": {name: shard.entry for name, shard in finished.items()},
        "counts": {
            split: {
                "num_images": len(rows),
                "num_patients": int(rows["patient_id"].nunique()),
                "grades": {str(grade): int((rows["grade"] == grade).sum()) for grade in range(5)},
            }
            for split, rows in table.groupby("split")
        },
        "num_photographs": num_photographs,
        "num_rejected": num_rejected,
    }
    write_json(out / "manifest.json", manifest)


def _split_of(name: str) -> str:
    return name.partition("-")[0]
