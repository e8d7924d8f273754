"""A prepared folder: its contents, and `Prepared`, which opens it.

crops-00000.tfrecord  crops, by image id
crops-00000.csv       its listing: each photograph's place in the shard, or why it has none
near_duplicates.csv   pairs of crops that show nearly the same picture
labels.csv            what is known of each photograph that was cropped
rejected.csv          which were not, and why
split.csv             its group, and train, validation, test or excluded; others may lie beside it
manifest.json         written last: how it was prepared, counts, the SHA-256 of every file above
                      and of itself
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dr_lib.command import write_command
from dr_lib.data.labels.groups import unite
from dr_lib.data.labels.schema import (
    EXCLUDED,
    FACTS,
    KNOWN,
    OF_GRADES,
    OF_REFERABLE,
    REJECTED,
    SIDES,
)
from dr_lib.data.photograph.pixels import IMAGE_SIZE
from dr_lib.data.prepared.records import ShardError
from dr_lib.data.prepared.stream import StoredCrops
from dr_lib.files import hash_file, write_text
from dr_lib.schema import find_other_schema

KEY = [
    "image_id",
    "content_id",
]  # of a record: pseudonyms of the file's name and of its content
PLACE = [*KEY, "offset", "length", "status", "x", "y", "radius", "perceptual_hash"]
LISTED = [*PLACE, "reason", "versions", "method", "size", "sha256"]
TYPES = {
    **dict.fromkeys(["offset", "length"], "Int64"),
    **dict.fromkeys(["x", "y", "radius"], float),
    **dict.fromkeys(["row", "grade", "referable", "size"], int),
}
OWN = "folder"  # the layout of a data set that is nobody else's
NEW = ".new"  # of a table whose manifest is not written yet
COPIES = "near_duplicates.csv"
REJECTIONS = "rejected.csv"
ADVICE = ". Prepare the folder again, or copy it again."


def read_manifest(data_dir: Path) -> dict:
    """Read `manifest.json` of a prepared folder.

    Raises:
        ShardError: the folder was not prepared, or not to the end, or is of another schema.
    """
    data_dir = Path(data_dir)
    path = data_dir / "manifest.json"
    if not path.is_file():
        command = write_command("prepare")
        raise ShardError(f"{data_dir} has no manifest.json: prepare it (again) with {command}")
    try:
        content = path.read_bytes()
        manifest = json.loads(content)
        if fault := find_other_schema(manifest, "prepare the folder again"):
            raise ShardError(f"{path}: {fault}")
        manifest["data_kind"], manifest["parameters"]["versions"], manifest["splits"]
        [bytes.fromhex(sha256) for sha256 in manifest["files"].values()]
        if content != write_manifest(manifest):
            raise ValueError("altered")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ShardError(
            f"{path} is damaged ({error!r}): copy it again, or delete the folder and prepare it "
            "again"
        ) from error
    place_new(data_dir, manifest["files"])
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


def describe_data(
    data_dir: Path,
    split: str = "split.csv",
    manifest: dict | None = None,
) -> dict[str, str | int]:
    """Describe a prepared folder and a split in columns of a row.

    Args:
        data_dir: a prepared folder.
        split: see `Prepared`.
        manifest: of the folder, where it is known.
    """
    manifest = manifest or read_manifest(data_dir)
    files = manifest["files"]
    shards = sorted(item for item in files.items() if item[0].endswith(".tfrecord"))
    labels = read_table(data_dir, "labels.csv", files)
    return {
        "data_kind": manifest["data_kind"],
        "crop_size": manifest["parameters"]["size"],
        "crop_method": manifest["parameters"]["method"],
        # whatever the labels and the split
        "data_sha256": hashlib.sha256(json.dumps(shards).encode()).hexdigest(),
        "labels_sha256": _hash_labels(labels),
        "split_sha256": _hash_split(Path(data_dir) / split),
    }


def find_split(data_dir: Path, split_sha256: str) -> str:
    """Find the split table with that SHA-256 in a prepared folder; split.csv if there is none."""
    for path in sorted(Path(data_dir).glob("*.csv")):
        with suppress(ShardError, KeyError):  # it is no split table
            if split_sha256 == _hash_split(path):
                return path.name
    return "split.csv"


def _hash_labels(labels: pd.DataFrame) -> str:
    """Hash what trains of labels.csv: grades, and which photographs are of one patient."""
    first = labels.groupby("patient_id")["image_id"].transform("min")
    return _hash_table(labels[["image_id", "grade", "referable"]].assign(patient=first))


def _hash_split(path: Path) -> str:
    """Hash what divides in a split table."""
    return _hash_table(parse_table(path)[["image_id", "split"]])


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
        split: a split table in it, by name, or one elsewhere, by its path.

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
        ShardError: a table or the names of the shards do not match the manifest, or the split does
            not fit the labels.

    Example:
        >>> prepared = Prepared("data/prepared")
        >>> test = prepared.load("test", image_size=64)
        >>> test.images.shape[1:], test.images.dtype
        ((64, 64, 3), dtype('uint8'))
    """

    def __init__(self, data_dir: Path, split: str = "split.csv"):
        """Read and check all tables."""
        self.path = Path(data_dir)
        self.split = split
        self.manifest = read_manifest(self.path)
        self.size = self.manifest["parameters"]["size"]
        self.is_synthetic = self.manifest["data_kind"] == "synthetic"
        self._checked: set[str] = set()  # shards
        files = self.manifest["files"]
        for name in sorted(files):
            if not (self.path / name).is_file():
                raise ShardError(f"{name}: missing in {self.path}{ADVICE}")
            if name.endswith(".csv") and name not in self.manifest["splits"]:
                check_file(self.path, name, files)
        labels = parse_table(self.path / "labels.csv")
        sides = read_split(self.path, split, labels, files)
        shards = [name for name in sorted(files) if name.endswith(".tfrecord")]
        listing = read_listings(self.path, shards)
        listing = select_records(listing, self.manifest["parameters"])
        self.rejected = parse_table(self.path / REJECTIONS)
        table = labels.merge(sides, on="image_id", validate="1:1")
        table = table.merge(listing[[*PLACE, "shard"]], on=KEY, validate="1:1")
        table = table.sort_values("image_id", ignore_index=True)
        if len(table) < len(labels):
            number = len(labels) - len(table)
            raise ShardError(f"{number} photographs of labels.csv are in no shard{ADVICE}")
        self.photographs = table.astype({"offset": int, "length": int})

    @property
    def notices(self) -> list[str]:
        """Sentences to show who prepared it: what is uncertain in the label table, and who changed
        sides.
        """
        facts = self.manifest["splits"].get(self.split, {})
        return [*self.manifest["notices"], *describe_moves(facts)]

    def describe(self) -> dict[str, str | int]:
        """Describe the folder and the split in columns of a row, see `describe_data`."""
        return describe_data(self.path, self.split, self.manifest)

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

    def open_crops(
        self, rows: pd.DataFrame, image_size: int = 0, num_threads: int = 0
    ) -> StoredCrops:
        """Check the shards of these rows of `photographs`; crops are read when they are indexed.

        Args:
            rows: any number of them, in any order.
            image_size: side to shrink the crops to [px]; 0 leaves it.
            num_threads: 0 takes one per core.

        Raises:
            ShardError: a shard is missing or does not match the manifest.
        """
        for name in sorted(set(rows["shard"]) - self._checked):
            check_file(self.path, name, self.manifest["files"])
            self._checked.add(name)
        return StoredCrops(self.path, rows, image_size or self.size, num_threads)

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
        write_table(path, table.astype({"grade": "Int64", "referable": "Int64"}))


def describe_moves(facts: Mapping[str, Any]) -> list[str]:
    """Describe who changed sides, from the manifest's facts of a split table."""
    if number := facts.get("num_moved"):
        why = "copies, names or official sides changed"
        return [f"patients who changed sides because {why}: {number}"]
    return []


def count_statuses(statuses: pd.Series) -> dict[str, int]:
    """Count the crops that are not ok by each word of their statuses, the most frequent first."""
    words = statuses.str.split("+").explode()
    return words[words != "ok"].value_counts().to_dict()


def read_split(
    data_dir: Path, split: str, labels: pd.DataFrame, files: dict[str, str]
) -> pd.DataFrame:
    """Read a split table and check it against the labels; see `Prepared`."""
    path = data_dir / split
    if not path.is_file():
        command = write_command("split", data_dir)
        raise ShardError(f"no split table {path}: write one with {command}")
    table = parse_table(path).filter(["image_id", "group", "split", "reason"])
    if missing := {"image_id", "group", "split"} - set(table):
        raise ShardError(f"{path.name} has no column {', '.join(sorted(missing))}")
    unlike = set(table["image_id"]) ^ set(labels["image_id"])
    if unlike or table["image_id"].duplicated().any():
        raise ShardError(
            f"{path.name} and labels.csv list different photographs ({len(unlike)} are in "
            "only one of the two): write the split again with "
            f"{write_command('split', data_dir)}"
        )
    if not table["split"].isin([*SIDES, EXCLUDED]).all():
        raise ShardError(f"{path.name}: split must be {', '.join(SIDES)} or {EXCLUDED}")
    copies = place_pairs(read_table(data_dir, COPIES, files), labels)
    groups = labels[["image_id", "row"]].assign(true_group=unite(labels["patient_id"], copies))
    used = table[table["split"] != EXCLUDED].merge(groups, on="image_id")
    crossing = used[used.groupby("true_group")["split"].transform("nunique") > 1]
    if len(crossing):
        rows = ", ".join(map(str, sorted(crossing["row"])[:5]))
        raise ShardError(
            f"{path.name}: a patient, or patients who share a picture, are on two sides (rows"
            f" {rows}): keep them on one"
        )
    if split in files and hash_file(path) != files[split]:
        raise ShardError(
            f"{path.name}: altered, does not match manifest.json (give a split of your own a "
            "new name)"
        )
    return table


def place_pairs(copies: pd.DataFrame, labels: pd.DataFrame) -> np.ndarray:
    """Find near duplicates among the labelled photographs: (n, 2) row positions in that table."""
    places = pd.Series(range(len(labels)), labels["image_id"])
    pairs = [places[copies[column]] for column in ("image_id", "image_id_2")]
    return np.column_stack(pairs)


def verify(data_dir: Path) -> dict:
    """Compare every file with the manifest.

    Returns:
        The manifest.

    Raises:
        ShardError: names every file that is missing, altered or cut short.
    """
    data_dir = Path(data_dir)
    manifest = read_manifest(data_dir)
    files = manifest["files"]
    faults = []
    for name in sorted(files):
        try:
            check_file(data_dir, name, files)
        except ShardError as error:
            faults.append(str(error))
    if faults:
        raise ShardError("; ".join(faults) + ADVICE)
    return manifest


def parse_table(path: Path) -> pd.DataFrame:
    """Read one of the folder's tables as text, except for the numeric columns in `TYPES`.

    Raises:
        ShardError: it is no such table.
    """
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
        for name in TYPES.keys() & set(table):
            table[name] = table[name].replace("", "nan").astype(float).astype(TYPES[name])
    except (ValueError, OSError) as error:
        raise ShardError(f"{path.name} is damaged ({error!r})") from error
    return table


def format_table(table: pd.DataFrame) -> str:
    """Format a table as CSV, whose bytes depend only on the table."""
    return table.to_csv(index=False, lineterminator="\n")


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table of the prepared or private folder in one step."""
    write_text(path, format_table(table))


def read_table(data_dir: Path, name: str, files: dict[str, str]) -> pd.DataFrame:
    """Read a table listed in the manifest; raise ShardError if it was altered."""
    check_file(data_dir, name, files)
    return parse_table(data_dir / name)


def read_listings(data_dir: Path, shards: Sequence[str]) -> pd.DataFrame:
    """Read the listings of shards, with the shard's name."""
    if not shards:
        return pd.DataFrame(columns=[*LISTED, "shard"])
    listings = [parse_table((data_dir / name).with_suffix(".csv")) for name in shards]
    return pd.concat(listings, keys=shards, names=["shard"]).reset_index("shard")


def select_records(listing: pd.DataFrame, parameters: Mapping[str, Any]) -> pd.DataFrame:
    """Select the records that were made as a manifest's parameters say, the last of each KEY."""
    is_ours = listing["versions"].isin(parameters["versions"])
    for name in ("method", "size"):
        is_ours &= listing[name] == parameters[name]
    return listing[is_ours].drop_duplicates(KEY, keep="last")


def write_manifest(manifest: dict) -> bytes:
    """Write a manifest as JSON that has its own SHA-256."""
    facts = {name: value for name, value in manifest.items() if name != "sha256"}
    sha256 = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    return json.dumps(facts | {"sha256": sha256}, indent=1).encode()


def check_file(data_dir: Path, name: str, files: dict[str, str]) -> None:
    """Compare a file with the manifest, in chunks; raise ShardError if it was altered."""
    try:
        sha256 = hash_file(data_dir / name)
    except OSError as error:
        raise ShardError(f"{name}: missing in {data_dir}") from error
    if sha256 != files.get(name):
        raise ShardError(f"{name}: altered or cut short, does not match manifest.json")
