"""Read a picture file's header: its size, format and EXIF orientation, without decoding a pixel."""

import io
import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

JPEG_SIGNATURE = b"\xff\xd8\xff"
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
MARKER = re.compile(rb"\xff[^\x00\x01\xff\xd0-\xd8]")  # of a JPEG's segment; the others are padding or stand alone
JPEG_END_MARKER = 0xD9
JPEG_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # the start of a frame, of whatever kind
MAX_SEGMENTS = 10_000  # as many hold 650 MB; more are there to keep the reader busy
MAX_VALUES = 100_000  # of an entry of a TIFF; the longest list of a photograph has one for each of its strips
ORIENTATION_TAG = 0x0112
INTEGERS = {1: "B", 3: "H", 4: "I"}  # EXIF type -> how to unpack it
OTHERS = ("TIFF", "BMP", "WEBP", "GIF", "PPM")  # that are read, as Pillow names them


class UnreadableImageError(ValueError):
    """The file is missing, empty, damaged, too large or no picture."""


class Header(NamedTuple):
    """What a picture file says of itself."""

    width: int  # px, before the orientation is applied
    height: int
    format: str  # jpeg, png, or another as Pillow names it, in lower case
    orientation: int  # EXIF's 1-8, still to be applied; 1 where the file says nothing legible, and for every TIFF


class Entry(NamedTuple):
    """Whole numbers in the directory of a TIFF."""

    values: tuple[int, ...]
    at: int  # where the first stands in the bytes
    code: str  # how to pack one


def read_header(encoded: bytes) -> Header:
    """Read a picture file's header; a JPEG or PNG needs no Pillow for it.

    Args:
        encoded: the bytes of the file; of a JPEG or PNG the pixels may be cut off.

    Returns:
        The header. Whether the pixels can be decoded is not known from it.

    Raises:
        UnreadableImageError: the bytes are no picture, or its header is damaged.
    """
    try:
        if encoded.startswith(JPEG_SIGNATURE):
            header = _read_jpeg(encoded)
        elif encoded.startswith(PNG_SIGNATURE):
            header = _read_png(encoded)
        else:
            header = _read_other(encoded)
    except struct.error as error:  # a number that lies past the end
        raise UnreadableImageError("a picture whose header is damaged or cut short") from error
    if min(header.width, header.height) < 1:
        raise UnreadableImageError("a picture with a damaged header: it has no size")
    return header


def read_segments(encoded: bytes) -> Iterator[tuple[int, int, int]]:
    """Go through a JPEG's segments, past its pixels: marker, where the length stands, and the length.

    The end marker is the last; it stands alone and has the length 0. A file that is cut short has none.
    """
    at = 2
    for _ in range(MAX_SEGMENTS):
        found = MARKER.search(encoded, at)
        if found is None:
            return
        marker, at = found[0][1], found.end()
        length = 0 if marker == JPEG_END_MARKER else int.from_bytes(encoded[at : at + 2], "big")
        yield marker, at, length
        if marker == JPEG_END_MARKER:
            return
        at += length


def read_chunks(encoded: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Go through a PNG's chunks: kind, where the content starts, and its length, which a cut file does not hold.

    Raises:
        UnreadableImageError: there are more than a photograph has.
    """
    at = 8
    for _ in range(MAX_SEGMENTS):
        if at + 8 > len(encoded):
            return
        length, kind = struct.unpack_from(">I4s", encoded, at)
        yield kind, at + 8, length
        at += 12 + length
    raise UnreadableImageError("a PNG of too many parts")


def read_entries(tiff: bytes) -> dict[int, Entry]:
    """The whole numbers in the first directory of a TIFF, which a block of EXIF is too, by their tags.

    What is damaged or lies past the end is left out.
    """
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(tiff[:4])
    entries = {}
    if order is None:
        return entries
    try:
        (at,) = struct.unpack_from(order + "I", tiff, 4)
        (num_entries,) = struct.unpack_from(order + "H", tiff, at)
        for entry in range(at + 2, at + 2 + 12 * num_entries, 12):
            tag, kind, count, pointer = struct.unpack_from(order + "2H2I", tiff, entry)
            if kind not in INTEGERS or not 0 < count <= MAX_VALUES:
                continue
            code = f"{order}{count}{INTEGERS[kind]}"
            where = entry + 8 if struct.calcsize(code) <= 4 else pointer
            if where + struct.calcsize(code) <= len(tiff):
                entries.setdefault(tag, Entry(struct.unpack_from(code, tiff, where), where, order + INTEGERS[kind]))
    except struct.error:
        pass  # the directory is cut short: what stands before that counts
    return entries


def _read_jpeg(encoded: bytes) -> Header:
    """Go from segment to segment up to the start of the scan."""
    size, orientation = (0, 0), 1
    for marker, at, length in read_segments(encoded):
        if marker == 0xDA:
            return Header(*size, "jpeg", orientation)
        if marker in JPEG_FRAMES:
            height, width = struct.unpack_from(">2H", encoded, at + 3)
            size = width, height
        if marker == 0xE1 and encoded.startswith(b"Exif\0", at + 2):
            orientation = _read_orientation(encoded[at + 8 : at + length])
    raise UnreadableImageError("a JPEG whose header is damaged or cut short")


def _read_png(encoded: bytes) -> Header:
    """Go from chunk to chunk; the orientation may stand before the pixels or after them."""
    kind, width, height = struct.unpack_from(">4s2I", encoded, 12)
    if kind != b"IHDR":
        raise UnreadableImageError("a PNG with a damaged header")
    for kind, at, length in read_chunks(encoded):
        if kind == b"eXIf":
            exif = encoded[at : at + length]
            return Header(width, height, "png", _read_orientation(exif.removeprefix(b"Exif\0\0")))
    return Header(width, height, "png", 1)


def _read_orientation(exif: bytes) -> int:
    """The orientation in a block of EXIF; 1 where it is damaged or silent."""
    entry = read_entries(exif).get(ORIENTATION_TAG)
    return entry.values[0] if entry and 1 <= entry.values[0] <= 8 else 1


def _read_other(encoded: bytes) -> Header:
    """TIFF, BMP, WebP and whatever else Pillow opens."""
    from PIL import Image  # only here: JPEG and PNG, which is nearly all there is, do without Pillow

    try:
        with Image.open(io.BytesIO(encoded), formats=OTHERS) as picture:
            turned = picture.format == "TIFF"  # Pillow gives its upright size, and OpenCV decodes it upright
            orientation = 1 if turned else picture.getexif().get(ORIENTATION_TAG, 1)
            return Header(*picture.size, picture.format.lower(), orientation if orientation in range(1, 9) else 1)
    except Image.DecompressionBombError as error:
        raise UnreadableImageError("the header promises too many pixels for a photograph") from error
    except Exception as error:  # Pillow's readers raise whatever the damage leads them to
        raise UnreadableImageError("not a picture of a kind that is read, or damaged: export it as a JPEG") from error
