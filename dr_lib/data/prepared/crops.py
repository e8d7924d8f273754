"""Crop photographs into shards by image id, independent of labels; a later call adds shards.

A shard's listing is written after it, so a shard that has one is whole.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from itertools import count, islice
from pathlib import Path

import cv2
import pandas as pd
import simplejpeg

from dr_lib.code import read_source
from dr_lib.data.labels import near_duplicates
from dr_lib.data.labels.privacy import pseudonym
from dr_lib.data.photograph import pixels
from dr_lib.data.prepared import records
from dr_lib.data.prepared.folder import LISTED, check_file, parse_table, read_table, write_table
from dr_lib.data.prepared.records import ShardError
from dr_lib.data.prepared.workers import Map, crop_photograph, map_over
from dr_lib.errors import DrError
from dr_lib.files import hash_file, is_empty, replace, write_json

SHARD_SIZE = 256  # photographs


def claim(out: Path, parameters: dict) -> None:
    """Claim a new or empty folder for crops with these parameters, or check an existing claim."""
    path = out / "crops.json"
    if not path.exists():
        path.with_name(f"{path.name}.tmp").unlink(missing_ok=True)  # left by a kill
        if not is_empty(out):
            raise DrError(
                f"{out} is not empty and holds no crops of this program: choose another --out"
            )
        write_json(path, parameters)
    earlier = json.loads(path.read_text(encoding="utf-8"))
    if changed := sorted(name for name in parameters if earlier.get(name) != parameters[name]):
        raise DrError(
            f"{out} holds crops with other settings ({', '.join(changed)}): choose another "
            "--out, or delete it"
        )


def crop_photographs(
    photographs: pd.DataFrame,
    out: Path,
    salt: bytes,
    workers: int | AbstractContextManager[Map],
    *,
    files: dict[str, str],
    shard_size: int = SHARD_SIZE,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> pd.DataFrame:
    """Crop the photographs that no shard holds yet into further shards, by their image ids.

    Args:
        photographs: row, image (its path) and image_id, among other columns.
        out: a folder that `claim` took.
        salt: of the pseudonyms.
        workers: of `map_over`.
        files: those of its manifest, which its shards have to match.
        shard_size: photographs of a new shard; the last has the rest.
        progress: called with (photographs done, photographs in all), first with those done by an
            earlier call.

    Returns:
        The listings of all shards; an earlier label table may have named more photographs.

    Raises:
        DrError: photographs were changed after they were cropped, other code
            did it, or a worker died or does not see the photographs.
        ShardError: a shard does not match the manifest.
    """
    parameters = json.loads((out / "crops.json").read_text(encoding="utf-8"))
    finished = _read_finished(out, files)
    rest = _list_rest(photographs, finished, salt, out)
    num_done = len(photographs) - len(rest)
    progress(num_done, len(photographs))
    if len(rest) and not finished:
        write_json(out / "crops.json", parameters | {"code_sha256": hash_code()})
    elif len(rest) and parameters["code_sha256"] != hash_code():
        raise DrError(
            f"{out} was cropped by another version of the code, and crops of two versions are not"
            f" mixed ({len(rest)} photographs are new): choose another --out, or delete it, to crop"
            f" all {len(photographs)} again, which takes as long as the first time"
        )
    crop = partial(crop_photograph, method=parameters["method"], size=parameters["size"])
    with map_over(workers if len(rest) else 1) as map_photographs:
        results = map_photographs(
            crop, zip(rest["row"], rest["image"], rest["image_id"], strict=True)
        )
        for start in range(0, len(rest), shard_size):
            size_ids = rest["size_id"][start : start + shard_size].tolist()
            rows = []
            end = 0
            shard = out / f"crops-{len(finished):05d}.tfrecord"
            with replace(shard) as temporary, temporary.open("wb") as file:
                for framed, row in islice(results, len(size_ids)):
                    num_done += 1
                    progress(num_done, len(photographs))
                    if framed:
                        row["offset"] += end
                        row["content_id"] = pseudonym(salt, "content", row["content_id"])
                    end += file.write(framed)
                    rows.append(row)
            listing = shard.with_suffix(".csv")
            write_table(listing, pd.DataFrame(rows, columns=LISTED).assign(size_id=size_ids))
            finished.append(parse_table(listing))
    return pd.concat(finished, ignore_index=True).drop_duplicates(
        "image_id", keep="last", ignore_index=True
    )


@cache
def hash_code() -> str:
    """SHA-256 of what determines a crop's bytes: our code and the versions of the decoders."""
    files = sorted(Path(pixels.__file__).parent.glob("*.py"))
    files += [Path(module.__file__) for module in (near_duplicates, records)]
    return hash_sources(files, f"{cv2.__version__} {simplejpeg.__version__}")


def hash_sources(files: Sequence[Path], versions: str) -> str:
    """SHA-256 of some source files and of the versions of packages."""
    sources = b"".join(read_source(file.read_bytes()) for file in files)
    return hashlib.sha256(sources + versions.encode()).hexdigest()


def _read_finished(out: Path, files: dict[str, str]) -> list[pd.DataFrame]:
    """Read the listings of complete shards; delete everything after the first incomplete shard."""
    finished = []
    for number in count():
        shard = out / f"crops-{number:05d}.tfrecord"
        listing = shard.with_suffix(".csv")
        if shard.name in files:
            check_file(out, shard.name, files)
            finished.append(read_table(out, listing.name, files))
        elif shard.exists() and listing.exists() and _is_whole(shard, listing):
            finished.append(parse_table(listing))
        else:
            break
    for path in out.iterdir():
        number = re.match(r"crops-(\d{5})\.(tfrecord|csv)", path.name)
        if number and int(number[1]) >= len(finished):
            path.unlink()
    return finished


def _is_whole(shard: Path, listing: Path) -> bool:
    """Whether a shard outside the manifest matches its listing; either may have been edited."""
    try:
        table = parse_table(listing)
    except ShardError:
        return False
    if not set(LISTED) <= set(table) or not table["image_id"].is_unique:
        return False
    return shard.stat().st_size >= (table["offset"] + table["length"]).fillna(0).max()


def _list_rest(
    photographs: pd.DataFrame, finished: list[pd.DataFrame], salt: bytes, out: Path
) -> pd.DataFrame:
    """List by image id, with their size_id, those to crop: new, or not usable before and mended.

    Raises:
        DrError: others were changed.
    """
    size_ids = []  # of each file's length, which changes when the file does
    for photograph in photographs.itertuples():
        try:
            num_bytes = os.path.getsize(photograph.image)
        except OSError:  # cropping it says what is wrong
            num_bytes = -1
        size_ids.append(pseudonym(salt, "size", f"{photograph.image_id} {num_bytes}"))
    photographs = photographs.assign(size_id=size_ids)
    listed = {row.image_id: row for listing in finished for row in listing.itertuples()}
    rest = []
    changed = []
    for photograph in photographs.itertuples():
        before = listed.get(photograph.image_id)
        if before and before.size_id == photograph.size_id:
            path = Path(photograph.image)
            # others of one camera are all as long
            packed = ".jpg .jpeg .jpe .jfif .png .webp".split()
            is_packed = path.suffix.lower() in packed
            if is_packed or before.reason:
                continue
            if pseudonym(salt, "content", hash_file(path)) == before.content_id:
                continue
        rest.append(photograph.Index)
        if before and not before.reason:
            changed.append(photograph.row)
    if changed:
        raise DrError(
            f"{len(changed)} photographs were changed after they were cropped (rows"
            f" {', '.join(map(str, changed[:5]))}): choose another --out, or delete {out}"
        )
    return photographs.loc[rest].sort_values("image_id", ignore_index=True)
