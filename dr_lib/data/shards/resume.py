"""Finished shards: write each with a note of what was rejected in it, and find them again after a kill.

No note names a file, but a reason could: notes lie in the private folder until the data set is whole.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from dr_lib.data.labels.near_duplicates import perceptual_hash
from dr_lib.data.shards.records import Record, from_example, write_shard
from dr_lib.data.shards.tfrecord import unframe
from dr_lib.data.shards.workers import Photograph, Prepared, Rejection, WorkerError
from dr_lib.files import write_json


class Finished(NamedTuple):
    """A shard that is written; its photographs are records or rejections."""

    entry: dict  # of the manifest
    records: list[Record]  # without pixels
    hashes: list[bytes]  # of the records' pictures
    rejections: list[Rejection]


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
