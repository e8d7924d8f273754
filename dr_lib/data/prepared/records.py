"""A record: one crop as a tf.train.Example in a TFRecord file, written without TensorFlow.

Sources: tensorflow.org/tutorials/load_data/tfrecord for the framing,
protobuf.dev/programming-guides/encoding for the protocol buffers.
"""

import struct
from typing import NamedTuple

from dr_lib.errors import DrError

Feature = bytes | float | int


class ShardError(DrError):
    """A part of a prepared folder is missing, cut short, altered or of unknown origin."""


class Record(NamedTuple):
    """One cropped photograph; no field names a file or a person or depends on labels."""

    encoded: bytes  # JPEG of the crop
    image_id: str  # HMAC-SHA256, hexadecimal
    size: int  # side of the crop [px]
    x: float  # centre and radius of the field of view, in pixels of the whole photograph
    y: float
    radius: float
    status: str  # status of the crop, as dr_lib.data.photograph.crop.Crop gives it
    perceptual_hash: bytes  # 32 bytes, which a copy nearly shares


def to_example(record: Record, labels: dict[str, Feature] | None = None) -> bytes:
    """Serialise a record as the protocol buffer tf.train.Example, keys in sorted order.

    Args:
        record: the cropped photograph.
        labels: further features of one value each, by key; texts in UTF-8.
    """
    features: dict[str, Feature] = {
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
    features.update(labels or {})
    pairs = (
        _field(1, key.encode()) + _field(2, _feature(features[key])) for key in sorted(features)
    )
    return _field(1, b"".join(_field(1, pair) for pair in pairs))


def frame(payload: bytes) -> bytes:
    """Wrap a payload in TFRecord framing: length, masked CRC, payload, masked CRC."""
    length = struct.pack("<Q", len(payload))
    return b"".join((length, _masked_crc(length), payload, _masked_crc(payload)))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _feature(value: Feature) -> bytes:
    if isinstance(value, bytes):
        return _field(1, _field(1, value))
    if isinstance(value, float):
        return _field(2, _field(1, struct.pack("<f", value)))
    return _field(3, _field(1, _varint(value)))


def _masked_crc(data: bytes) -> bytes:
    from google_crc32c import value  # a runtime that lacks it can still read

    crc = value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
