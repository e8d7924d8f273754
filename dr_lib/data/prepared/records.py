"""A record: one crop as a tf.train.Example in a TFRecord file, written without TensorFlow.

Sources: tensorflow.org/tutorials/load_data/tfrecord for the framing,
protobuf.dev/programming-guides/encoding for the protocol buffers.
"""

import struct
from collections.abc import Mapping
from typing import Any

from dr_lib.errors import DrError

Feature = bytes | float | int


class ShardError(DrError):
    """A part of a prepared folder is missing, cut short, altered or of unknown origin."""


def make_record(
    encoded: bytes,
    size: int,
    listed: Mapping[str, Any],
    labels: Mapping[str, Feature] = {},  # noqa: B006
) -> bytes:
    """Make the record of a crop, a tf.train.Example with its keys in sorted order, in the framing
    of TFRecord: length, masked CRC, payload, masked CRC.

    No feature names a file or a person or, without `labels`, depends on them.

    Args:
        encoded: JPEG of the crop.
        size: side of the crop [px].
        listed: of its listing image_id, status, x, y, radius and perceptual_hash.
        labels: further features of one value each; texts in UTF-8.
    """
    features: dict[str, Feature] = {
        "fundus/radius": float(listed["radius"]),
        "fundus/status": listed["status"].encode(),
        "fundus/x": float(listed["x"]),
        "fundus/y": float(listed["y"]),
        "image/encoded": encoded,
        "image/format": b"jpeg",
        "image/height": size,
        "image/id": listed["image_id"].encode(),
        "image/perceptual_hash": bytes.fromhex(listed["perceptual_hash"]),
        "image/width": size,
        **labels,
    }
    pairs = (
        _field(1, key.encode()) + _field(2, _feature(features[key])) for key in sorted(features)
    )
    payload = _field(1, b"".join(_field(1, pair) for pair in pairs))
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
