"""The TFRecord file format and tf.train.Example, read and written without TensorFlow.

Sources: tensorflow.org/tutorials/load_data/tfrecord for the framing, protobuf.dev/programming-guides/encoding for
the protocol buffers, RFC 3720 for CRC-32C.
"""

import struct
from collections.abc import Iterator
from functools import cache

import numpy as np

LANE = 64  # bytes of a payload that are summed up side by side

Feature = bytes | float | int


class TFRecordError(ValueError):
    """The bytes are no TFRecord file, or no tf.train.Example."""


def serialise_example(features: dict[str, Feature]) -> bytes:
    """Serialise features of one value each as tf.train.Example, keys in sorted order."""
    pairs = (_field(1, key.encode()) + _field(2, _feature(features[key])) for key in sorted(features))
    return _field(1, b"".join(_field(1, pair) for pair in pairs))


def parse_example(example: bytes) -> dict[str, Feature]:
    """Parse a tf.train.Example whose features have one value each.

    Raises:
        TFRecordError: the bytes are no such Example.
    """
    try:
        pairs = (dict(_fields(entry)) for _, entry in _fields(dict(_fields(example))[1]))
        return {pair[1].decode(): _value(pair[2]) for pair in pairs}
    except (KeyError, IndexError, ValueError, struct.error) as error:
        raise TFRecordError(f"not a tf.train.Example ({error!r})") from error


def frame(payload: bytes) -> bytes:
    """Wrap a payload in TFRecord framing: length, masked CRC, payload, masked CRC."""
    length = struct.pack("<Q", len(payload))
    return b"".join((length, _masked_crc(length), payload, _masked_crc(payload)))


def unframe(shard: bytes) -> Iterator[bytes]:
    """Yield the payloads of a whole TFRecord file held in memory.

    Checks lengths, not the payloads' CRC: `records` compares the whole file's SHA-256.

    Raises:
        TFRecordError: the file ends inside a record or a length is damaged.
    """
    position = 0
    while position < len(shard):
        header = shard[position : position + 12]
        if len(header) < 12 or _masked_crc(header[:8]) != header[8:]:
            raise TFRecordError(f"damaged at byte {position}")
        (length,) = struct.unpack("<Q", header[:8])
        position += 12 + length + 4
        if position > len(shard):
            raise TFRecordError(f"cut short at byte {len(shard)}")
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
        tag, position = _read_varint(message, position)
        if tag & 7 != 2:
            raise ValueError(f"wire type {tag & 7}")
        length, position = _read_varint(message, position)
        yield tag >> 3, message[position : position + length]
        position += length


@cache
def _crc_table(bits: int) -> np.ndarray:
    """What that many bits do to a CRC, for every value of them, uint32."""
    crc = np.arange(1 << bits, dtype=np.uint32)
    for _ in range(bits):
        crc = (crc >> 1) ^ np.where(crc & 1, np.uint32(0x82F63B78), np.uint32(0))
    return crc


@cache
def _zeros_table(num_bytes: int) -> np.ndarray:
    """What so many bytes of zeros, a power of two, make of each of a CRC's four bytes: (4, 256) uint32."""
    if num_bytes > 1:
        half = _zeros_table(num_bytes // 2)
        return _append_zeros(half, half)
    crc = np.arange(256, dtype=np.uint32) << np.array([[0], [8], [16], [24]], np.uint32)
    return _crc_table(8)[crc & 0xFF] ^ (crc >> 8)


def _append_zeros(crc: np.ndarray, table: np.ndarray) -> np.ndarray:
    return table[0][crc & 0xFF] ^ table[1][crc >> 8 & 0xFF] ^ table[2][crc >> 16 & 0xFF] ^ table[3][crc >> 24]


def _crc32c(data: bytes) -> int:
    """CRC-32C; of a long payload in lanes side by side, two bytes a step, joined in pairs: a tenth of a loop's time."""
    if len(data) < LANE:
        crc, table = 0xFFFFFFFF, _crc_table(8)
        for byte in data:
            crc = int(table[(crc ^ byte) & 0xFF]) ^ (crc >> 8)
        return crc ^ 0xFFFFFFFF
    num_lanes = 1 << ((len(data) - 1) // LANE).bit_length()
    padded = np.zeros(num_lanes * LANE, np.uint8)  # zeros in front change nothing
    padded[-len(data) :] = np.frombuffer(data, np.uint8)
    padded[-len(data) :][:4] ^= 0xFF  # the CRC starts with all bits set
    crc, table = np.zeros(num_lanes, np.uint32), _crc_table(16)
    for pair in np.ascontiguousarray(padded.view("<u2").reshape(num_lanes, LANE // 2).T):
        crc = table[(crc ^ pair) & 0xFFFF] ^ (crc >> 16)
    length = LANE
    while len(crc) > 1:
        crc, length = _append_zeros(crc[::2], _zeros_table(length)) ^ crc[1::2], 2 * length
    return int(crc[0]) ^ 0xFFFFFFFF


def _masked_crc(data: bytes) -> bytes:
    crc = _crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
