"""A data set in the making: whose folder it is, and which shards are finished, so that a killed preparation goes on.

Each finished shard has a note of what was rejected in it. No note names a file, but a reason could: notes lie in the
private folder until the data set is whole.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.data.labels.near_duplicates import perceptual_hash
from dr_lib.data.shards.records import Record, from_example, read_manifest, write_json, write_shard
from dr_lib.data.shards.tfrecord import unframe
from dr_lib.data.shards.workers import Photograph, Prepared, Rejection, WorkerError

BYTES_PER_RECORD = 25_000  # a JPEG of quality 95 takes 18 kB on average
MARK = "preparing.json"  # says in the folder what it is to become

Shards = dict[str, list[Photograph]]  # by name of the file, such as train-00000-of-00008.tfrecord


class PrepareError(ValueError):
    """The data set cannot be prepared as asked; the message says what to do."""


class Finished(NamedTuple):
    """A shard that is written; its photographs are records or rejections."""

    entry: dict  # of the manifest
    records: list[Record]  # without pixels
    hashes: list[bytes]  # of the records' pictures
    rejections: list[Rejection]


def divide(photographs: dict[str, list[Photograph]], num_shards: int) -> Shards:
    """Divide the photographs of each split, in their order, among its shards.

    Raises:
        PrepareError: there are fewer photographs than shards.
    """
    smallest = min(photographs, key=lambda split: len(photographs[split]))
    if not 1 <= num_shards <= len(photographs[smallest]):
        raise PrepareError(
            f"{smallest} has {len(photographs[smallest])} photographs for {num_shards} shards: "
            f"pass --shards {len(photographs[smallest])} or fewer"
        )
    return {
        f"{split}-{index:05d}-of-{num_shards:05d}.tfrecord": [rows[i] for i in part]
        for split, rows in photographs.items()
        for index, part in enumerate(np.array_split(np.arange(len(rows)), num_shards))
    }


def claim(out: Path, parameters: dict) -> bool:
    """Take the folder for the data set of these parameters; True if it already holds all of it.

    Raises:
        PrepareError: the folder holds something else, or cannot be written.
    """
    finished, begun = out / "manifest.json", out / MARK
    try:
        if finished.exists():
            earlier = read_manifest(out)["parameters"]
        elif begun.exists():
            earlier = json.loads(begun.read_text(encoding="utf-8"))
        elif out.exists() and {path.name for path in out.iterdir()} - {f"{MARK}.tmp"}:  # left by a kill
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
    return finished.exists()


def check_space(out: Path, num_photographs: int) -> None:
    """Refuse to begin what the disk has no room for.

    Raises:
        PrepareError: says what is needed.
    """
    free, needed = shutil.disk_usage(out).free, num_photographs * BYTES_PER_RECORD
    if free < needed:
        raise PrepareError(
            f"{out} has {free / 2**20:.0f} MiB free, {num_photographs} records need about "
            f"{needed / 2**20:.0f} MiB: make room or choose another --out"
        )


def write_finished(
    shard: Path, notes: Path, photographs: list[Photograph], results: Iterable[Prepared | Rejection]
) -> Finished:
    """Write a shard from what became of its photographs, in their order, then its note."""
    finished, rejected = Finished({}, [], [], []), {}

    def keep() -> Iterator[bytes]:
        for photograph, result in zip(photographs, results, strict=False):  # results go on with the next shard's
            if isinstance(result, Rejection):
                rejected[photograph.image_id] = result.reason
                finished.rejections.append(result)
            else:
                finished.records.append(result.record)
                finished.hashes.append(result.perceptual_hash)
                yield result.framed

    finished.entry.update(write_shard(shard, keep()))
    if len(finished.records) + len(finished.rejections) != len(photographs):
        raise WorkerError(f"photographs of {shard.name} were lost on their way back from the workers: start again")
    write_json(notes / f"{shard.name}.json", {"sha256": finished.entry["sha256"], "rejected": rejected})
    return finished


def read_finished(shard: Path, notes: Path, photographs: list[Photograph]) -> Finished | None:
    """Read a shard of an earlier preparation back; None if it was not finished, or is not what its note says."""
    try:
        note = json.loads((notes / f"{shard.name}.json").read_text(encoding="utf-8"))
        content = shard.read_bytes()
        if hashlib.sha256(content).hexdigest() != note["sha256"]:
            return None
        records = [from_example(payload) for payload in unframe(content)]
        rejected = dict(note["rejected"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if {r.image_id for r in records} | set(rejected) != {p.image_id for p in photographs}:
        return None
    return Finished(
        {"records": len(records), "sha256": note["sha256"]},
        [record._replace(encoded=b"") for record in records],
        [perceptual_hash(record.encoded) for record in records],
        [Rejection(p.row, p.path, rejected[p.image_id]) for p in photographs if p.image_id in rejected],
    )


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a CSV in one step: a kill leaves the old one or the new one, never half of it."""
    temporary = path.with_name(path.name + ".tmp")
    table.to_csv(temporary, index=False, lineterminator="\n")
    temporary.replace(path)


def clean_up(out: Path, notes: Path) -> None:
    """Take away what only an unfinished data set needs; the mark goes last, so a kill here is found, too."""
    if (out / MARK).exists():
        if notes.exists():
            shutil.rmtree(notes)
        (out / MARK).unlink()
