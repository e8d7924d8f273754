"""The TFRecord file format and tf.train.Example, read and written without TensorFlow.

Sources: tensorflow.org/tutorials/load_data/tfrecord for the framing, protobuf.dev/programming-guides/encoding for
the protocol buffers.
"""

import struct
from collections.abc import Iterator

Feature = bytes | float | int


def serialise_example(features: dict[str, Feature]) -> bytes:
    """Serialise features of one value each as tf.train.Example, keys in sorted order."""
    pairs = (_field(1, key.encode()) + _field(2, _feature(features[key])) for key in sorted(features))
    return _field(1, b"".join(_field(1, pair) for pair in pairs))


def parse_example(example: bytes) -> dict[str, Feature]:
    """Parse a tf.train.Example whose features have one value each.

    Raises:
        KeyError, IndexError, ValueError, struct.error: the bytes are no such Example.
    """
    pairs = (dict(_fields(entry)) for _, entry in _fields(dict(_fields(example))[1]))
    return {pair[1].decode(): _value(pair[2]) for pair in pairs}


def frame(payload: bytes) -> bytes:
    """Wrap a payload in TFRecord framing: length, masked CRC, payload, masked CRC."""
    length = struct.pack("<Q", len(payload))
    return b"".join((length, _masked_crc(length), payload, _masked_crc(payload)))


def unframe(shard: bytes) -> Iterator[bytes]:
    """Yield the payloads of a whole TFRecord file in memory; one that ends inside a record is a ValueError.

    No CRC is compared: `records` compares the whole file's SHA-256.
    """
    position = 0
    while position < len(shard):
        length = int.from_bytes(shard[position : position + 8], "little")
        position += 12 + length + 4
        if position > len(shard):
            raise ValueError(f"cut short at byte {len(shard)}")
        yield shard[position - 4 - length : position - 4]


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


def _value(feature: bytes) -> Feature:
    ((kind, values),) = _fields(feature)
    value = dict(_fields(values))[1]
    if kind == 1:
        return value
    return struct.unpack("<f", value)[0] if kind == 2 else _read_varint(value, 0)[0]


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        number |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return number, position


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(message):
        tag, length = message[position], message[position + 1]
        if tag & 0x87 != 2:  # the fields have one-digit numbers
            raise ValueError(f"tag {tag}")
        position += 2
        if length & 0x80:
            length, position = _read_varint(message, position - 1)
        yield tag >> 3, message[position : position + length]
        position += length


def _masked_crc(data: bytes) -> bytes:
    from google_crc32c import value  # a runtime that lacks it can still read

    crc = value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
