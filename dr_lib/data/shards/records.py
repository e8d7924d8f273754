"""Records of cropped photographs: write, read and verify TFRecord shards without TensorFlow."""

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.data.photograph.pixels import IMAGE_SIZE
from dr_lib.data.shards.tfrecord import parse_example, serialise_example, unframe
from dr_lib.files import replace

SPLITS = ("train", "validation", "test")
ADVICE = ". Prepare the folder again, or copy it again."


class ShardError(ValueError):
    """A shard or a manifest is missing, cut short, altered or not one of ours."""


class Record(NamedTuple):
    """One cropped photograph and what is known of it; no field names a file or a person."""

    encoded: bytes  # JPEG of the (299, 299, 3) crop
    grade: int  # 0-4
    patient_id: str  # HMAC-SHA256, hexadecimal
    image_id: str  # HMAC-SHA256, hexadecimal
    eye: str  # left, right or empty
    x: float  # centre and radius of the field of view, in pixels of the whole photograph
    y: float
    radius: float
    status: str  # status of the crop, as dr_lib.data.photograph.crop.Crop gives it

    @property
    def referable(self) -> bool:
        """Whether the eye should be seen by a specialist: grade 2 or worse."""
        return self.grade >= REFERABLE_FROM


def to_example(record: Record) -> bytes:
    """Serialise a record as the protocol buffer tf.train.Example, keys in sorted order."""
    return serialise_example(
        {
            "eye": record.eye.encode(),
            "fundus/radius": float(record.radius),
            "fundus/status": record.status.encode(),
            "fundus/x": float(record.x),
            "fundus/y": float(record.y),
            "image/class/label": int(record.grade),
            "image/encoded": record.encoded,
            "image/format": b"jpeg",
            "image/height": IMAGE_SIZE,
            "image/id": record.image_id.encode(),
            "image/referable": int(record.referable),
            "image/width": IMAGE_SIZE,
            "patient/id": record.patient_id.encode(),
        }
    )


def from_example(example: bytes) -> Record:
    """Read a record back from a serialised tf.train.Example, ours or TensorFlow's.

    Raises:
        ShardError: the bytes are no Example, or one without the keys of a record.
    """
    try:
        features = parse_example(example)
        texts = [features[key].decode() for key in ("patient/id", "image/id", "eye")]
        place = [features[key] for key in ("fundus/x", "fundus/y", "fundus/radius")]
        status = features["fundus/status"].decode()
        return Record(features["image/encoded"], features["image/class/label"], *texts, *place, status)
    except (KeyError, IndexError, AttributeError, ValueError, struct.error) as error:
        raise ShardError(f"not a record of a cropped photograph ({error!r})") from error


def write_shard(path: Path, framed: Iterable[bytes]) -> dict:
    """Write framed records in one step; return the manifest's entry: `records` (count) and `sha256` of the file."""
    digest, count = hashlib.sha256(), 0
    with replace(path) as temporary, temporary.open("wb") as file:
        for record in framed:
            file.write(record)
            digest.update(record)
            count += 1
    return {"records": count, "sha256": digest.hexdigest()}


def read_manifest(data_dir: Path) -> dict:
    """Read `manifest.json` of a prepared folder.

    Raises:
        ShardError: the folder was not prepared, or not to the end.
    """
    path = Path(data_dir) / "manifest.json"
    if not path.is_file():
        raise ShardError(f"{data_dir} has no manifest.json: prepare it (again) with python -m dr_lib prepare")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        manifest["counts"], manifest["data_kind"]
        [entry["sha256"] for entry in manifest["shards"].values()]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ShardError(f"{path} is damaged ({error!r}): prepare the folder again") from error
    return manifest


def manifest_sha256(data_dir: Path) -> str:
    """SHA-256 of the manifest, which names every shard's: one word for the whole data set."""
    return hashlib.sha256((Path(data_dir) / "manifest.json").read_bytes()).hexdigest()


def read_split(data_dir: Path, split: str) -> list[Record]:
    """Read all records of a split by `read_shards`; of the other splits' shards only the names are compared."""
    return [record for _, in_shard in read_shards(data_dir, f"{split}-") for record in in_shard]


def read_shards(data_dir: Path, beginning: str = "") -> Iterator[tuple[str, list[Record]]]:
    """Read the shards whose names begin so, in order: name and records, one shard in memory at a time.

    Raises:
        ShardError: names the shards that are missing or too many, or the first that is altered or cut short.
    """
    shards = read_manifest(data_dir)["shards"]
    if faults := _compare_names(data_dir, shards):
        raise ShardError("; ".join(faults) + ADVICE)
    for name in sorted(shards):
        if name.startswith(beginning):
            yield name, _read_shard(data_dir, name, shards[name]["sha256"])


def verify(data_dir: Path) -> dict:
    """Compare every shard with the manifest and read every record.

    Returns:
        The manifest.

    Raises:
        ShardError: names every shard that is missing, altered, cut short, or not in the manifest.
    """
    manifest = read_manifest(data_dir)
    faults = _compare_names(data_dir, manifest["shards"])
    for name, entry in sorted(manifest["shards"].items()):
        try:
            if (Path(data_dir) / name).exists():  # otherwise it is among the faults
                _read_shard(data_dir, name, entry["sha256"])
        except ShardError as error:
            faults.append(str(error))
    if faults:
        raise ShardError("; ".join(faults) + ADVICE)
    return manifest


def _compare_names(data_dir: Path, shards: dict[str, dict]) -> list[str]:
    there = {path.name for path in Path(data_dir).glob("*.tfrecord") if path.is_file()}
    missing = [f"{name}: missing in {data_dir}" for name in sorted(set(shards) - there)]
    return missing + [f"{name}: not in the manifest" for name in sorted(there - set(shards))]


def _read_shard(data_dir: Path, name: str, sha256: str) -> list[Record]:
    shard = (Path(data_dir) / name).read_bytes()
    if hashlib.sha256(shard).hexdigest() != sha256:
        raise ShardError(f"{name}: altered or cut short, it does not match manifest.json")
    try:
        return [from_example(payload) for payload in unframe(shard)]
    except ValueError as error:
        raise ShardError(f"{name}: {error}") from error
