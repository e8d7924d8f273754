"""A prepared folder: its contents, and `Prepared`, which opens it.

crops-00000.tfrecord  crops, by image id
crops-00000.csv       its listing: each photograph's place in the shard, or why it has none
near_duplicates.csv   pairs of crops that show nearly the same picture
labels.csv            what is known of each photograph that was cropped
rejected.csv          which were not, and why
split.csv             its group, and train, validation, test or excluded; others may lie beside it
sides.csv             by pseudonyms, the side of all who were ever in split.csv
manifest.json         written last: how it was prepared, counts, the SHA-256 of every file above
                      and of itself
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dr_lib.command import write_command
from dr_lib.data.labels.schema import FACTS, KNOWN, OF_GRADES, OF_REFERABLE, REJECTED, SIDES
from dr_lib.data.photograph.pixels import IMAGE_SIZE
from dr_lib.data.prepared.records import ShardError
from dr_lib.data.prepared.stream import StoredCrops
from dr_lib.files import hash_file, write_text
from dr_lib.schema import find_other_schema

# of a record: pseudonyms of the file's name and of its content
KEY = ["image_id", "content_id"]
PLACE = [*KEY, "offset", "length", "status", "x", "y", "radius", "perceptual_hash"]
MADE = ["versions", "method", "size"]  # how: other records are others
LISTED = [*PLACE, "reason", *MADE]
TYPES = {
    **dict.fromkeys(["offset", "length"], "Int64"),
    **dict.fromkeys(["x", "y", "radius"], float),
    **dict.fromkeys(["row", "grade", "referable", "size"], int),
}
OWN = "folder"  # the layout of a data set that is nobody else's
NEW = ".new"  # of a table whose manifest is not written yet
LABELS = "labels.csv"
COPIES = "near_duplicates.csv"
REJECTIONS = "rejected.csv"
SPLIT = "split.csv"


def read_manifest(data_dir: Path) -> dict:
    """Read `manifest.json` of a prepared folder.

    Raises:
        ShardError: the folder was not prepared, or not to the end, or is of another schema.
    """
    path = Path(data_dir) / "manifest.json"
    if not path.is_file():
        command = write_command("prepare")
        raise ShardError(f"{data_dir} has no manifest.json: prepare it (again) with {command}")
    again = "delete the folder and prepare it again"
    fault = f"it is damaged or was altered: copy it again, or {again}"
    with suppress(ValueError, AttributeError):
        content = path.read_bytes()
        manifest = json.loads(content)
        other = find_other_schema(manifest, again)
        if other or content == write_manifest(manifest):
            fault = other
    if fault:
        raise ShardError(f"{path}: {fault}")
    place_new(path.parent, manifest["files"])
    return manifest


def place_new(data_dir: Path, files: Mapping[str, str]) -> None:
    """Put the tables that a manifest names in the place of those of before; a call that was killed
    left them beside.
    """
    for path in data_dir.glob(f"*.csv{NEW}"):
        with suppress(OSError):  # another process was first
            name = path.name.removesuffix(NEW)
            if hash_file(path) == files.get(name):
                path.replace(data_dir / name)


def find_split(data_dir: Path, split_sha256: str) -> str:
    """Find the split table with that SHA-256 in a prepared folder; split.csv if there is none."""
    for name in read_manifest(data_dir)["splits"]:
        if split_sha256 == hash_split(parse_table(Path(data_dir) / name)):
            return name
    return SPLIT


def hash_split(table: pd.DataFrame) -> str:
    """Hash what divides in a split table."""
    return _hash_table(table[["image_id", "split"]])


def _hash_table(table: pd.DataFrame) -> str:
    """SHA-256 of a table, in whatever order its rows are."""
    return hashlib.sha256(format_table(table.sort_values("image_id")).encode()).hexdigest()


class Photographs(NamedTuple):
    """One side of a split; 1,000 crops of 299 px take 268 MB of memory."""

    images: np.ndarray | StoredCrops  # (n, size, size, 3) uint8 RGB
    grade: np.ndarray  # (n,) int64, 0-4
    referable: np.ndarray  # (n,) float32, 0 or 1
    patient_id: np.ndarray  # (n,) str
    image_id: np.ndarray  # (n,) str


class Prepared:
    """A prepared folder and one split of it, opened once.

    Tables are read and checked when it is opened, a shard when its first crop is wanted.

    Args:
        data_dir: a prepared folder.
        split: a split table in it that `split` wrote, by name.

    Attributes:
        path, split: the same.
        manifest: the content of manifest.json.
        size: side of the crops [px].
        is_synthetic: they show no photographs.
        photographs: a row per photograph, by image id: the columns of labels.csv, those of the
            split table (group, split, reason), where the crop is: shard (the file's name), offset
            and length of the JPEG in it [bytes]; and its status, x, y, radius [px] and
            perceptual_hash.
        rejected: image_id and reason of what could not be cropped.

    Raises:
        ShardError: a table does not match the manifest, or there is no such split.

    Example:
        >>> prepared = Prepared("data/prepared")
        >>> test = prepared.load("test", image_size=64)
        >>> test.images.shape[1:], test.images.dtype
        ((64, 64, 3), dtype('uint8'))
    """

    def __init__(self, data_dir: Path, split: str = SPLIT):
        """Read and check all tables."""
        self.path = Path(data_dir)
        self.split = split
        self.manifest = read_manifest(self.path)
        self.size = self.manifest["parameters"]["size"]
        self.is_synthetic = self.manifest["data_kind"] == "synthetic"
        self._checked: set[str] = set()  # shards
        if split not in self.manifest["splits"]:
            command = write_command("split", data_dir)
            raise ShardError(f"no split table {split} in {data_dir}: write one with {command}")
        files = self.manifest["files"]
        others = {*self.manifest["splits"]} - {split}
        tables = [name for name in files if name.endswith(".csv") and name not in others]
        check_files(self.path, files, tables)
        shards = sorted(name for name in files if name.endswith(".tfrecord"))
        listing = read_records(self.path, shards, self.manifest["parameters"])
        self.rejected = parse_table(self.path / REJECTIONS)
        table = parse_table(self.path / LABELS)
        table = table.merge(parse_table(self.path / split), on="image_id", validate="1:1")
        table = table.merge(listing[[*PLACE, "shard"]], "left", on=KEY, validate="1:1")
        table = table.sort_values("image_id", ignore_index=True)
        self.photographs = table.astype({"offset": int, "length": int})

    def describe(self) -> dict[str, str | int]:
        """Describe the folder and the split in columns of a row."""
        files = self.manifest["files"].items()
        shards = sorted(item for item in files if item[0].endswith(".tfrecord"))
        # what trains: grades, and which photographs are of one patient
        labels = self.photographs[["image_id", "grade", "referable"]]
        first = self.photographs.groupby("patient_id")["image_id"].transform("min")
        return {
            "data_kind": self.manifest["data_kind"],
            "crop_size": self.size,
            "crop_method": self.manifest["parameters"]["method"],
            # whatever the labels and the split
            "data_sha256": hashlib.sha256(json.dumps(shards).encode()).hexdigest(),
            "labels_sha256": _hash_table(labels.assign(patient=first)),
            "split_sha256": hash_split(self.photographs),
        }

    def load(
        self, side: str, image_size: int = IMAGE_SIZE, *, stream: bool = False
    ) -> Photographs:
        """Read one side of the split, in the order of the image ids; it may be empty.

        Args:
            side: train, validation or test.
            image_size: side to shrink the crops to [px].
            stream: leave the crops on disk, to be decoded batch by batch.

        Raises:
            ShardError: the crops are smaller than `image_size`, or a shard does not match.
        """
        if not 1 <= image_size <= self.size:
            raise ShardError(
                f"image_size {image_size}: the crops have {self.size} px; choose a smaller "
                f"image_size, or prepare with --size {image_size}"
            )
        rows = self.photographs[self.photographs["split"] == side]
        crops = self.open_crops(rows, image_size)
        return Photographs(
            images=crops if stream else crops[:],
            grade=rows["grade"].to_numpy(np.int64),
            referable=rows["referable"].to_numpy(np.float32),
            patient_id=rows["patient_id"].to_numpy(str),
            image_id=rows["image_id"].to_numpy(str),
        )

    def open_crops(self, rows: pd.DataFrame, image_size: int = 0) -> StoredCrops:
        """Check the shards of these rows of `photographs`; crops are read when they are indexed.

        Args:
            rows: any number of them, in any order.
            image_size: side to shrink the crops to [px]; 0 leaves it.

        Raises:
            ShardError: a shard is missing or does not match the manifest.
        """
        shards = {*rows["shard"]} - self._checked
        check_files(self.path, self.manifest["files"], shards)
        self._checked |= shards
        return StoredCrops(self.path, rows, image_size or self.size)

    def write_predictions(
        self,
        path: Path,
        predicted: Iterable[tuple[np.ndarray, np.ndarray]],
        model: str,
        version: str,
        *,
        is_external: bool = False,
    ) -> None:
        """Write predictions.csv: one row per photograph, predicted or not.

        Photographs that a model learned from stand there too, without probabilities, and so do
        those that could not be used: who evaluates can then count them, and see that no patient is
        on two sides.

        Args:
            path: of the CSV, see `labels.schema`: pseudonyms, no name.
            predicted: image ids (n,), and (n, 1) probabilities of referable disease or (n, 5) of
                the grades.
            model: its name.
            version: the first 12 digits of its file's sha256, by which one model is known on
                several data sets.
            is_external: the model learned from none of these photographs: all are of the test side.
        """
        cropped = self.photographs
        if is_external:
            cropped = cropped.assign(split=cropped["split"].replace(list(SIDES), "test"))
        names = [*KNOWN, *cropped.columns.intersection(FACTS, sort=False)]
        rejected = self.rejected.assign(split=REJECTED)
        table = pd.concat([cropped.reindex(columns=names), rejected], ignore_index=True)
        tables = []
        for image_ids, probabilities in predicted:
            columns = OF_GRADES if probabilities.shape[1] > 1 else [OF_REFERABLE]
            tables.append(pd.DataFrame(probabilities, image_ids, columns))
        table = table.join(pd.concat(tables), on="image_id", validate="1:1")
        layout = self.manifest["parameters"].get("layout", OWN)
        table["data_kind"] = self.manifest["data_kind"]
        # no public data set has a slash
        table["dataset"] = f"{self.path.resolve().name}/" if layout == OWN else layout
        table["model"] = model
        table["model_version"] = version
        table = table.astype({"grade": "Int64", "referable": "Int64"})
        write_text(path, format_table(table))


def count_statuses(statuses: pd.Series) -> dict[str, int]:
    """Count the crops that are not ok by each word of their statuses, the most frequent first."""
    words = statuses.str.split("+").explode()
    return words[words != "ok"].value_counts().to_dict()


def verify(data_dir: Path) -> dict:
    """Compare every file with the manifest, which is returned.

    Raises:
        ShardError: names every file that is missing, altered or cut short.
    """
    manifest = read_manifest(data_dir)
    check_files(Path(data_dir), manifest["files"], manifest["files"])
    return manifest


def check_files(data_dir: Path, files: Mapping[str, str], names: Collection[str]) -> None:
    """Compare files with their SHA-256 in the manifest, in chunks; raise a ShardError that names
    all that differ.
    """
    faults = []
    for name in sorted(names):
        path = data_dir / name
        if not path.is_file():
            faults.append(f"{name}: missing")
        elif hash_file(path) != files.get(name):
            faults.append(f"{name}: altered or cut short")
    if faults:
        raise ShardError(
            f"{'; '.join(faults)}: {data_dir} does not match manifest.json; copy what is named"
            " again, or delete the folder and prepare it again"
        )


def parse_table(path: Path) -> pd.DataFrame:
    """Read one of the folder's tables as text, except for the numeric columns in `TYPES`.

    Raises:
        ShardError: it is no such table.
    """
    kinds = defaultdict(lambda: str, TYPES)
    empty = dict.fromkeys(TYPES, "")
    try:
        return pd.read_csv(path, dtype=kinds, keep_default_na=False, na_values=empty)
    except (ValueError, OSError) as error:
        raise ShardError(f"{path.name} is damaged ({error!r})") from error


def format_table(table: pd.DataFrame) -> str:
    """Format a table as CSV, whose bytes depend only on the table."""
    return table.to_csv(index=False, lineterminator="\n")


def read_records(
    data_dir: Path, shards: Sequence[str], parameters: Mapping[str, Any]
) -> pd.DataFrame:
    """Read the listings of shards, with the shard's name: what was made as a manifest's parameters
    say, the last of each KEY.
    """
    tables = [pd.DataFrame(columns=[*LISTED, "shard"])] * (not shards)
    for shard in shards:
        tables.append(parse_table((data_dir / shard).with_suffix(".csv")).assign(shard=shard))
    table = pd.concat(tables)
    is_ours = (table[MADE] == [parameters[name] for name in MADE]).all(axis=1)
    return table[is_ours].drop_duplicates(KEY, keep="last")


def write_manifest(manifest: dict) -> bytes:
    """Write a manifest as JSON that has its own SHA-256."""
    facts = {name: value for name, value in manifest.items() if name != "sha256"}
    sha256 = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    return json.dumps(facts | {"sha256": sha256}, indent=1).encode()
