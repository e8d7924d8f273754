"""Prepare a data set: crop its photographs, join their labels, split them."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pandas as pd

from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.data.labels.near_duplicates import find_near_duplicates
from dr_lib.data.labels.privacy import check_apart, find_private, open_private, pseudonym
from dr_lib.data.labels.schema import FACTS
from dr_lib.data.labels.tables import read_labels
from dr_lib.data.photograph.pixels import IMAGE_SIZE
from dr_lib.data.prepared.crops import STATED, crop_photographs, describe_crops, list_own
from dr_lib.data.prepared.folder import (
    COPIES,
    LABELS,
    REJECTIONS,
    count_statuses,
    format_table,
    read_manifest,
)
from dr_lib.data.prepared.split import lock_folder, write_split
from dr_lib.data.prepared.workers import Map
from dr_lib.errors import DrError
from dr_lib.files import hash_file, is_empty, replace, split_paths
from dr_lib.hardware.cpus import count_cpus
from dr_lib.schema import SCHEMA

Keep = Callable[[str, pd.DataFrame], Path]  # adds rows that name files to a private table
SAMPLE_SALT = hashlib.sha256(b"the synthetic sample has no patients").digest()
# columns of labels.csv
LABELLED = "image_id content_id row patient_id eye grade referable official".split() + [*FACTS]
# of names.csv in the private folder
NAMED = ["file", "patient", "row", "status", *STATED]


def prepare(
    images: Path,
    labels: Path | str | None,
    out: Path,
    *,
    private: Path | str | None = None,
    method: str = "robust",
    size: int = IMAGE_SIZE,
    scheme: str | None = None,
    reread: bool = False,
    workers: int | AbstractContextManager[Map] | None = None,
    sheet: str = "",
    columns: Sequence[str] | str = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict:
    """Crop every photograph to its field of view and write a prepared folder, see `folder`.

    Photographs in = records + rejected. The same input, parameters and salt give the same bytes,
    whoever does the work. Started again, whether after a kill, with other photographs or another
    label table, it crops what has no record yet, see `crops`, and writes the tables anew; patients
    stay on their side.

    Args:
        images, labels: of `tables.read_labels`.
        out: folder to write, new, empty or prepared before.
        private: folder for the salt of the pseudonyms and what names files, mode 0700: `names.csv`
            of all image ids, with the status of the crop, `rejected.csv` and `near_duplicates.csv`.
            By default `<out>.private`.
        method: how the field of view is found, of `crop.crop_fundus`.
        size: side of the crops [px].
        scheme: of `splits.split_photographs`; default random, or as the folder was divided before.
        reread: read files again whose length, time and path have not changed.
        workers: of `workers.map_over`; default one process per core.
        sheet, columns: of `tables.read_labels`; columns also in one text.
        progress: of `crops.crop_photographs`.

    Returns:
        The manifest, and what it does not keep: `said`, sentences for the user alone, and
        `unused_columns` of the label table.

    Raises:
        DrError: a folder cannot be used or written, or workers cannot be had, or see no
            photographs, or the labels or the split are refused. ShardError: earlier crops.

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
    )
    private = Path(private or find_private(out))
    keep = partial(_keep_private, private, out)
    is_sample = labels.layout == "sample"
    made = describe_crops(method, size)
    with _open_folders(private, out, is_sample) as (salt, earlier):
        table, shards = crop_photographs(
            _name_photographs(labels.table, salt),
            out,
            salt,
            count_cpus() if workers is None else workers,
            made,
            files=earlier["files"],
            known=_read_known(private, out)[: 0 if reread else None],
            progress=progress,
        )
        keep("names.csv", table[NAMED])
        is_cropped = table["reason"] == ""
        usable = table[is_cropped]
        unread = table[~is_cropped]
        rejected = pd.concat([labels.unusable, unread[["row", "image", "reason"]]])
        listed = keep("rejected.csv", rejected)
        if usable.empty:
            raise DrError(f"no photograph is usable: see the reasons in {listed}")
        reasons = rejected["reason"].replace(r"\d+", "...", regex=True)
        manifest = {
            "schema": SCHEMA,
            "parameters": {**made, "layout": labels.layout, "salt_id": _name_salt(salt)},
            "data_kind": "synthetic" if is_sample else "photographs",
            "notices": labels.notices,
            "num_photographs": len(table) + len(labels.unusable),
            "num_rejected": len(rejected),
            "rejected": reasons.value_counts().to_dict(),
            "statuses": count_statuses(usable["status"]),
            "files": _list_files(out, shards, earlier),
            "splits": earlier["splits"],
        }
        copies, said = _find_copies(usable, keep)
        tables = {
            LABELS: usable.filter(LABELLED),
            COPIES: copies,
            REJECTIONS: unread[["image_id", "reason"]],
        }
        _, num_moved = write_split(out, manifest, tables, scheme=scheme)
        if num_moved:
            why = "copies, names or official sides changed"
            said.append(f"patients who changed sides because {why}: {num_moved}")
        written = read_manifest(out)
        for path in list_own(out):  # shards of which no record counts any more
            if path.name not in written["files"]:
                path.unlink()
    return {**written, "said": labels.said + said, "unused_columns": labels.unused}


@contextmanager
def _open_folders(private: Path, out: Path, is_sample: bool) -> Iterator[tuple[bytes, dict]]:
    """Lock both folders; yield the salt, and the manifest of before."""
    check_apart(private.absolute(), out.absolute())
    is_known = (out / "manifest.json").exists() or (out / ".lock").exists()
    if not is_known and not is_empty(out):
        raise DrError(f"{out} is not empty and was not prepared: choose another --out")
    with open_private(private, SAMPLE_SALT if is_sample else None) as salt:
        if salt == SAMPLE_SALT and not is_sample:
            raise DrError(
                f"{private} holds the sample's salt, which is public: choose another --private"
            )
        with lock_folder(out):
            earlier = {"files": {}, "splits": {}}
            if (out / "manifest.json").exists():
                earlier = read_manifest(out)
                if earlier["parameters"]["salt_id"] != _name_salt(salt):
                    raise DrError(
                        f"{out} was prepared with another salt than that of {private}: give its"
                        " own --private, or choose another --out"
                    )
            yield salt, earlier


def _name_salt(salt: bytes) -> str:
    return pseudonym(salt, "salt", "")


def _name_photographs(table: pd.DataFrame, salt: bytes) -> pd.DataFrame:
    """Add the pseudonyms of photographs and patients; empty the names of unknown ones."""
    return table.assign(
        image_id=[pseudonym(salt, "image", name) for name in table["file"]],
        patient_id=[pseudonym(salt, "patient", name) for name in table["patient"]],
        referable=(table["grade"] >= REFERABLE_FROM).astype(int),
        patient=table["patient"].where(table["patient"] != table["file"], ""),
    )


def _list_files(out: Path, shards: Sequence[str], earlier: dict) -> dict[str, str]:
    """List the shards, their listings and the other tables of before, with their SHA-256."""
    before = earlier["files"]
    files = {name: sha for name, sha in before.items() if not name.startswith("crops-")}
    for shard in shards:
        for name in (shard, shard.replace(".tfrecord", ".csv")):
            files[name] = before.get(name) or hash_file(out / name)
    return files


def _find_copies(table: pd.DataFrame, keep: Keep) -> tuple[pd.DataFrame, list[str]]:
    """Find near duplicates and keep their names.

    Returns:
        image_id, image_id_2 and distance [bits]; and a sentence, where grades differ.
    """
    pairs = find_near_duplicates(table["perceptual_hash"])
    named = table[["image_id", "row", "image", "grade"]]
    one = named.iloc[pairs[:, 0]].reset_index(drop=True)
    other = named.iloc[pairs[:, 1]].reset_index(drop=True)
    both = one.join(other.add_suffix("_2")).assign(distance=pairs[:, 2])
    listed = keep("near_duplicates.csv", both.drop(columns=["image_id", "image_id_2"]))
    num_unlike = (both["grade"] != both["grade_2"]).sum()
    said = []
    if num_unlike:
        said.append(
            f"copies of one picture have different grades and are excluded: {num_unlike} pairs;"
            f" to use them correct the grades, {listed} names the files"
        )
    return both[["image_id", "image_id_2", "distance"]], said


def _read_known(private: Path, out: Path) -> pd.DataFrame:
    """Read from names.csv what an earlier call found in each file, see `crop_photographs`."""
    path = private / "names.csv"
    if not path.exists():
        return pd.DataFrame(columns=STATED)
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    return table.loc[table["data_dir"] == str(out.absolute()), STATED]


def _keep_private(private: Path, out: Path, name: str, rows: pd.DataFrame) -> Path:
    """Add rows that name files to a private table, keeping the rows of other prepared folders."""
    path = private / name
    data_dir = str(out.absolute())
    # a cell that begins so is computed when a spreadsheet opens it
    rows = rows.astype(str).replace(r"^([=+\-@\t\r])", r"'\1", regex=True)
    rows["data_dir"] = data_dir
    if path.exists():
        earlier = pd.read_csv(path, dtype=str, keep_default_na=False)
        rows = pd.concat([earlier[earlier["data_dir"] != data_dir], rows])
    # pandas writes one without quotation marks, and reads two rows
    text = format_table(rows).replace("\r", r"\r")
    with replace(path) as temporary:
        temporary.touch(mode=0o600)
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
    return path
