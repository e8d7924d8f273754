"""Crop photographs into shards by image id, whatever their labels, and go on behind what was
cropped before.

A shard's listing is written after it, so a shard that has one is whole.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import cache, partial
from itertools import count, islice
from pathlib import Path
from typing import Any

import cv2
import pandas as pd

from dr_lib.data.labels import near_duplicates
from dr_lib.data.labels.privacy import pseudonym
from dr_lib.data.photograph import pixels
from dr_lib.data.prepared import records
from dr_lib.data.prepared.folder import (
    LISTED,
    hash_file,
    parse_table,
    read_file,
    restore_record,
    write_table,
)
from dr_lib.data.prepared.records import ShardError, frame, to_example
from dr_lib.data.prepared.workers import Cropped, Map, Photograph, WorkerError, crop_photograph
from dr_lib.files import replace, write_json

SHARD_SIZE = 256  # photographs
UNCOMPRESSED = {".bmp", ".ppm", ".tif", ".tiff"}  # all of one camera are as long
BYTES_PER_PIXEL = 0.3  # of a crop's file; JPEGs of quality 95 take 0.2 on average


class PrepareError(ValueError):
    """The data set cannot be prepared like this; the message says what to do."""


def claim(out: Path, parameters: dict) -> None:
    """Take a new or empty folder for crops of these parameters, or see that it is for no others."""
    path = out / "crops.json"
    if not path.exists():
        # left by a kill
        if out.exists() and {file.name for file in out.iterdir()} - {f"{path.name}.tmp"}:
            raise PrepareError(
                f"{out} is not empty and holds no crops of ours: choose another --out"
            )
        write_json(path, parameters | {"code_sha256": hash_code()})
    earlier = json.loads(path.read_text(encoding="utf-8"))
    if changed := sorted(name for name in parameters if earlier.get(name) != parameters[name]):
        raise PrepareError(
            f"{out} holds other crops (other {', '.join(changed)}): choose another --out, or"
            " delete it"
        )


def crop_photographs(
    photographs: list[Photograph],
    out: Path,
    salt: bytes,
    pool: AbstractContextManager[Map],
    *,
    files: dict[str, str] | None = None,
    shard_size: int = SHARD_SIZE,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Crop the photographs that no shard holds yet into further shards, in the order of their image
    ids.

    Args:
        photographs: of the label table.
        out: a folder that `claim` took.
        salt: of the pseudonyms.
        pool: of `workers.map_over`.
        files: those of its manifest, if it is complete; its shards have to match.
        shard_size: photographs of a new shard; the last has the rest.
        progress: called with (photographs done, photographs in all), first with those done by an
            earlier call.

    Returns:
        The listings of all shards; an earlier label table may have named more photographs.

    Raises:
        PrepareError: the disk is too small, photographs were changed after they were cropped, or
            other code did it.
        ShardError: a shard does not match the manifest.
        WorkerError: a worker died, or does not see the photographs.
    """
    parameters = json.loads((out / "crops.json").read_text(encoding="utf-8"))
    finished = _find_finished(out, files or {}, parameters["size"])
    known = {row.image_id: row for listing in finished for row in listing.itertuples()}
    altered = [
        p for p in photographs if p.image_id in known and _is_altered(salt, p, known[p.image_id])
    ]
    if changed := [p.row for p in altered if not known[p.image_id].reason]:
        raise PrepareError(
            f"{len(changed)} photographs were changed after they were cropped (rows"
            f" {', '.join(map(str, changed[:5]))}): choose another --out, or delete {out}"
        )
    # what could not be used, and is mended; new
    rest = altered + [p for p in photographs if p.image_id not in known]
    rest.sort(key=lambda p: p.image_id)
    if rest and not finished:
        write_json(out / "crops.json", parameters | {"code_sha256": hash_code()})
    elif rest and parameters["code_sha256"] != hash_code():
        raise PrepareError(
            f"{out} was cropped by another version of the code: choose another --out, or delete it"
        )
    free = shutil.disk_usage(out).free / 2**20
    needed = len(rest) * BYTES_PER_PIXEL * parameters["size"] ** 2 / 2**20
    if free < needed:
        raise PrepareError(
            f"{out} has {free:.0f} MiB free, {len(rest)} records need about {needed:.0f} MiB: make"
            " room or choose another --out"
        )
    done = count(len(photographs) - len(rest))
    progress = progress or (lambda done, total: None)
    progress(next(done), len(photographs))

    def watch(results: Iterable[Cropped]) -> Iterator[Cropped]:
        for result in results:
            progress(next(done), len(photographs))
            yield result

    if rest:
        crop = partial(crop_photograph, method=parameters["method"], size=parameters["size"])
        with pool as map_photographs:
            results = watch(map_photographs(crop, rest))
            for start in range(0, len(rest), shard_size):
                shard = out / f"crops-{len(finished):05d}.tfrecord"
                finished.append(
                    _write_shard(shard, rest[start : start + shard_size], results, salt)
                )
    return pd.concat(finished, ignore_index=True).drop_duplicates(
        "image_id", keep="last", ignore_index=True
    )


@cache
def hash_code() -> str:
    """SHA-256 of what decides about a crop's bytes: the code that makes it, and OpenCV's
    version.
    """
    files = sorted(Path(pixels.__file__).parent.glob("*.py"))
    files += [Path(module.__file__) for module in (near_duplicates, records)]
    return hashlib.sha256(
        b"".join(file.read_bytes() for file in files) + cv2.__version__.encode()
    ).hexdigest()


def _write_shard(
    path: Path, part: list[Photograph], results: Iterator[Cropped], salt: bytes
) -> pd.DataFrame:
    """Write a shard from what became of its photographs, in their order, then its listing."""
    rows = []
    end = 0
    with replace(path) as temporary, temporary.open("wb") as file:
        for photograph, result in zip(part, islice(results, len(part)), strict=False):
            row = {
                "image_id": photograph.image_id,
                "reason": result.reason,
                "size_id": _size_id(salt, photograph),
            }
            if record := result.record:
                framed = frame(to_example(record))
                row |= {"offset": end + framed.index(record.encoded), "length": len(record.encoded)}
                row |= {name: getattr(record, name) for name in ("status", "x", "y", "radius")}
                row["perceptual_hash"] = record.perceptual_hash.hex()
                row["content_id"] = pseudonym(salt, "content", result.sha256)
                end += file.write(framed)
            rows.append(row)
    if len(rows) < len(part):
        raise WorkerError(
            f"photographs of {path.name} were lost on their way back from the workers: start again"
        )
    listing = path.with_suffix(".csv")
    write_table(listing, pd.DataFrame(rows, columns=LISTED))
    return parse_table(listing)


def _find_finished(out: Path, files: dict[str, str], size: int) -> list[pd.DataFrame]:
    """Read the listings of the shards that are whole; what lies behind the first that is not is
    deleted.
    """
    finished = []
    for number in count():
        shard = out / f"crops-{number:05d}.tfrecord"
        listing = shard.with_suffix(".csv")
        try:
            content, rows = (
                read_file(out, path.name, files) if path.name in files else path.read_bytes()
                for path in (shard, listing)
            )
            table = parse_table(listing, rows)
            listed = table[table["status"] != ""].itertuples()
            crops = ((row, content[row.offset : row.offset + row.length]) for row in listed)
            if content != b"".join(
                frame(to_example(restore_record(row, jpeg, size))) for row, jpeg in crops
            ):
                raise ShardError(
                    f"{shard.name}: its records are not those that {listing.name} lists"
                )
        except (
            OSError,
            TypeError,
            ValueError,
        ):  # what a listing that was cut short cannot mean, too
            if shard.name in files:
                raise
            break
        finished.append(table)
    for path in out.iterdir():
        number = re.match(r"crops-(\d{5})\.(tfrecord|csv)", path.name)
        if number and int(number[1]) >= len(finished):
            path.unlink()
    return finished


def _is_altered(salt: bytes, photograph: Photograph, listed: Any) -> bool:
    """Whether a photograph is another file than was listed: by its length, or by content where
    all are as long.
    """
    if listed.size_id != _size_id(salt, photograph):
        return True
    is_as_long = Path(photograph.path).suffix.lower() in UNCOMPRESSED and not listed.reason
    return (
        is_as_long
        and pseudonym(salt, "content", hash_file(Path(photograph.path))) != listed.content_id
    )


def _size_id(salt: bytes, photograph: Photograph) -> str:
    """A pseudonym of the file's length: it changes when the file does, and tells nobody which
    file it is.
    """
    return pseudonym(salt, "size", f"{photograph.image_id} {photograph.num_bytes}")
