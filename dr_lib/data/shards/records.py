"""A record: one cropped photograph as a tf.train.Example, without TensorFlow."""

import struct
from typing import Any, NamedTuple

from dr_lib.data.shards.tfrecord import parse_example, serialise_example


class ShardError(ValueError):
    """A part of a prepared folder is missing, cut short, altered or not one of ours."""


class Record(NamedTuple):
    """One cropped photograph; no field names a file or a person, and none depends on its labels."""

    encoded: bytes  # JPEG of the crop
    image_id: str  # HMAC-SHA256, hexadecimal
    size: int  # side of the crop [px]
    x: float  # centre and radius of the field of view, in pixels of the whole photograph
    y: float
    radius: float
    status: str  # status of the crop, as dr_lib.data.photograph.crop.Crop gives it
    perceptual_hash: bytes  # 32 bytes, which a copy nearly shares


def to_example(record: Record, labels: dict[str, Any] | None = None) -> bytes:
    """Serialise a record as the protocol buffer tf.train.Example, keys in sorted order.

    Args:
        record: the cropped photograph.
        labels: further features of one value each, by key; texts in UTF-8.
    """
    return serialise_example(
        {
            "fundus/radius": float(record.radius),
            "fundus/status": record.status.encode(),
            "fundus/x": float(record.x),
            "fundus/y": float(record.y),
            "image/encoded": record.encoded,
            "image/format": b"jpeg",
            "image/height": record.size,
            "image/id": record.image_id.encode(),
            "image/perceptual_hash": record.perceptual_hash,
            "image/width": record.size,
        }
        | (labels or {})
    )


def from_example(example: bytes) -> Record:
    """Read a record back from a serialised tf.train.Example, ours or TensorFlow's.

    Raises:
        ShardError: the bytes are no Example, or one without the keys of a record.
    """
    try:
        features = parse_example(example)
        place = [features[key] for key in ("fundus/x", "fundus/y", "fundus/radius")]
        status, perceptual_hash = features["fundus/status"].decode(), features["image/perceptual_hash"]
        image_id, size = features["image/id"].decode(), features["image/width"]
        return Record(features["image/encoded"], image_id, size, *place, status, perceptual_hash)
    except (KeyError, IndexError, AttributeError, ValueError, struct.error) as error:
        raise ShardError(f"not a record of a cropped photograph ({error!r})") from error
