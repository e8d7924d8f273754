"""Crop photographs into shards, whose records are a cache: what is in it is not cropped again.

A listing names each record or rejection by its photograph, by an HMAC of the file's content, and by
size, method, and versions of the crop and of what decoded it. A changed file, another size or
another version is a new record; which ones count, the folder's tables say.
"""

import hashlib
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import pandas as pd

from dr_lib.data.labels.privacy import open_private, pseudonym
from dr_lib.data.prepared.folder import (
    KEY,
    LISTED,
    check_files,
    format_table,
    parse_table,
    read_records,
)
from dr_lib.data.prepared.workers import (
    DIED,
    Map,
    crop_photograph,
    map_over,
    name_versions,
    read_content,
)
from dr_lib.errors import DrError
from dr_lib.files import hash_file, replace, write_text

SHARD_SIZE = 256  # photographs
# what is kept in private of each file: length, time and path, and what these stand for
STATED = ["image_id", "state", "content_id"]
DEADLY = (
    "two processes died while they read it, of damage or for want of memory: repeat the command, or"
    " export it again"
)
MOST_DIED = 2  # photographs one after another; of more, the machine is the cause


def describe_crops(method: str, size: int) -> dict:
    """Describe what makes a record that counts: the columns of a listing and their values."""
    return {"method": method, "size": size, "versions": name_versions()}


def crop_photographs(
    photographs: pd.DataFrame,
    out: Path,
    salt: bytes,
    workers: int | AbstractContextManager[Map],
    made: Mapping[str, Any],
    *,
    files: Mapping[str, str],
    known: pd.DataFrame,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[pd.DataFrame, list[str]]:
    """Crop the photographs that no shard has into further shards, by their image ids.

    Args:
        photographs: row, image (its path) and image_id, among other columns.
        out: the folder of the shards.
        salt: of the pseudonyms.
        workers: of `map_over`.
        made: of `describe_crops`.
        files: SHA-256 of the shards and listings that have to be as they are.
        known: what earlier calls returned in the columns STATED; a file whose state is the same is
            not read again.
        progress: called with (photographs done, photographs in all), first with those done by an
            earlier call.

    Returns:
        The photographs with `state` (bytes and time of the file), the columns of a listing and
        `shard`, the shard's name; and the shards with records that count, of photographs of an
        earlier call too.

    Raises:
        DrError: a worker does not see the photographs, or workers die over one after another.
            ShardError: a shard is not as in `files`.
    """
    _drop_unfinished(out, files)
    shards = [path.name for path in list_own(out) if path.suffix == ".tfrecord"]
    listing = read_records(out, shards, made)
    listing = listing[listing["reason"] != DEADLY]  # tried again
    photographs = photographs.assign(state=photographs["image"].map(_describe_state))
    photographs = photographs.merge(known, "left", on=STATED[:2])
    is_listed = photographs["image_id"].isin(listing["image_id"])
    unread = photographs["image"][is_listed & photographs["content_id"].isna()]
    photographs.loc[unread.index, "content_id"] = [
        _name_content(salt, read_content(path)) for path in unread
    ]
    there = pd.MultiIndex.from_frame(listing[KEY])
    is_new = ~pd.MultiIndex.from_frame(photographs[KEY]).isin(there)
    rest = photographs[is_new].sort_values("image_id")
    num_done = len(photographs) - len(rest)
    progress(num_done, len(photographs))
    number = int(shards[-1][6:-9]) + 1 if shards else 0
    tables = [listing]
    crop = partial(crop_photograph, method=made["method"], size=made["size"])
    with map_over(workers if len(rest) else 0, _give_up) as map_photographs:
        items = zip(rest["row"], rest["image"], rest["image_id"], strict=True)
        results = _watch(map_photographs(crop, items), num_done, len(photographs), progress)
        for shard in range(number, number + math.ceil(len(rest) / SHARD_SIZE)):
            path = out / f"crops-{shard:05d}.tfrecord"
            tables.append(_write_shard(path, islice(results, SHARD_SIZE), salt, made))
    # pandas warns of an empty table
    listing = pd.concat([table for table in tables if len(table)])
    contents = listing.drop_duplicates("image_id", keep="last").set_index("image_id")
    photographs.loc[is_new, "content_id"] = rest["image_id"].map(contents["content_id"])
    shards = listing["shard"].unique().tolist()
    return photographs.merge(listing, on=KEY, validate="1:1"), shards


def _watch(results: Iterable, num_done: int, total: int, progress: Callable) -> Iterator:
    """Yield results as they come, and say how many there are.

    Raises:
        DrError: workers died over one photograph after another.
    """
    num_died = 0
    for done, (framed, row) in enumerate(results, num_done + 1):
        progress(done, total)
        num_died = num_died + 1 if row["reason"] == DEADLY else 0
        if num_died > MOST_DIED:
            raise DrError(f"over {num_died} photographs one after another {DIED}")
        yield framed, row


def _write_shard(shard: Path, results: Iterable, salt: bytes, made: dict) -> pd.DataFrame:
    """Write records into a shard, then its listing, which is returned with the shard's name."""
    rows = []
    with replace(shard) as temporary, temporary.open("wb") as file:
        for framed, row in results:
            if framed:
                row["offset"] += file.tell()
            file.write(framed)
            row["content_id"] = _name_content(salt, row["content_id"])
            rows.append(row)
    table = pd.DataFrame(rows).assign(**made).reindex(columns=LISTED)
    listing = shard.with_suffix(".csv")
    write_text(listing, format_table(table.assign(sha256=_seal(shard, table))))
    return parse_table(listing).assign(shard=shard.name)


def crop_files(
    files: Sequence[Path],
    folder: Path,
    *,
    method: str,
    size: int,
    workers: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> pd.DataFrame:
    """Crop photographs that have no labels into a private folder, whose records are a cache.

    A call that was killed goes on by the same call; who needs the folder no more deletes it.

    Args:
        files: by their whole paths.
        folder: new, or of an earlier call.
        method, size: of `crop.crop_fundus`.
        workers, progress: of `crop_photographs`.

    Returns:
        A row per file in their order: image, status, reason, and of a crop what `StoredCrops` reads
        in the folder: shard, offset and length.
    """
    paths = pd.Series(map(str, files), dtype=str)
    with open_private(folder) as salt:
        photographs = pd.DataFrame({"row": paths.index + 1, "image": paths})
        photographs["image_id"] = [pseudonym(salt, "image", path) for path in paths]
        table, _ = crop_photographs(
            photographs,
            folder,
            salt,
            workers,
            describe_crops(method, size),
            files={},
            known=pd.DataFrame(columns=STATED),
            progress=progress,
        )
    return table


def list_own(out: Path) -> list[Path]:
    """List the shards in a folder and their listings, whole or not; of a user's files none."""
    own = re.compile(r"crops-\d{5}\.(tfrecord|csv)(\.tmp)?")
    return sorted(path for path in out.glob("crops-*") if own.fullmatch(path.name))


def _drop_unfinished(out: Path, files: Mapping[str, str]) -> None:
    """Check the shards of a manifest; of others, which a killed call left, keep those before the
    first that is not whole.
    """
    check_files(out, files, [name for name in files if name.startswith("crops-")])
    is_kept = True
    left = [path for path in list_own(out) if path.name not in files]
    for stem, paths in groupby(left, lambda path: path.name.partition(".")[0]):
        is_kept = is_kept and _is_whole(out / f"{stem}.tfrecord")
        for path in paths:
            if path.suffix == ".tmp" or not is_kept:
                path.unlink()


def _is_whole(shard: Path) -> bool:
    """Whether a shard and its listing are as they were written."""
    try:
        listing = pd.read_csv(shard.with_suffix(".csv"), dtype=str, keep_default_na=False)
        return {*listing.pop("sha256")} == {_seal(shard, listing)}
    except (ValueError, OSError, KeyError):
        return False


def _seal(shard: Path, listing: pd.DataFrame) -> str:
    """SHA-256 of a shard and its listing."""
    return hashlib.sha256((hash_file(shard) + format_table(listing)).encode()).hexdigest()


def _describe_state(path: str) -> str:
    """Describe what changes when a file does: length, time and path; empty where there is none."""
    try:
        facts = os.stat(path)
    except OSError:
        return ""
    return f"{facts.st_size} {facts.st_mtime_ns} {os.path.abspath(path)}"


def _name_content(salt: bytes, sha256: str) -> str:
    return pseudonym(salt, "content", sha256) if sha256 else ""


def _give_up(photograph: tuple[int, str, str]) -> tuple[bytes, dict]:
    """Reject a photograph over which two workers died; see `crop_photograph`."""
    _, path, image_id = photograph
    content = read_content(path)
    return b"", {"image_id": image_id, "content_id": content, "reason": DEADLY}
