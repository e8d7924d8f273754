"""Read a picture file's header: its size, format and EXIF orientation, without decoding a pixel."""

import io
import re
import struct
from typing import NamedTuple

JPEG_SIGNATURE = b"\xff\xd8\xff"
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
MARKER = re.compile(rb"\xff[^\x00\x01\xff\xd0-\xd8]")  # of a JPEG's segment; the others are padding or stand alone
MAX_SEGMENTS = 10_000  # as many hold 650 MB; more are there to keep the reader busy
ORIENTATION_TAG = 0x0112
INTEGERS = {1: "B", 3: "H", 4: "I"}  # EXIF type -> how to unpack it


class UnreadableImageError(ValueError):
    """The file is missing, empty, damaged, too large or no picture."""


class Header(NamedTuple):
    """What a picture file says of itself."""

    width: int  # px, before the orientation is applied
    height: int
    format: str  # jpeg, png, or another as Pillow names it, in lower case
    orientation: int  # EXIF's 1-8, still to be applied; 1 where the file says nothing legible, and for every TIFF


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


def _read_jpeg(encoded: bytes) -> Header:
    """Go from segment to segment up to the start of the scan."""
    size, orientation, at = (0, 0), 1, 2
    for _ in range(MAX_SEGMENTS):
        found = MARKER.search(encoded, at)
        if found is None:
            break
        marker, at = found[0][1], found.end()
        if marker == 0xDA:
            return Header(*size, "jpeg", orientation)
        (length,) = struct.unpack_from(">H", encoded, at)
        if marker >> 4 == 0xC and marker not in (0xC4, 0xC8, 0xCC):  # the start of a frame, of whatever kind
            height, width = struct.unpack_from(">2H", encoded, at + 3)
            size = width, height
        if marker == 0xE1 and encoded.startswith(b"Exif\0", at + 2):
            orientation = _read_orientation(encoded[at + 8 : at + length])
        at += length
    raise UnreadableImageError("a JPEG whose header is damaged or cut short")


def _read_png(encoded: bytes) -> Header:
    """Go from chunk to chunk; the orientation may stand before the pixels or after them."""
    kind, width, height = struct.unpack_from(">4s2I", encoded, 12)
    if kind != b"IHDR":
        raise UnreadableImageError("a PNG with a damaged header")
    at = 8
    while at + 8 <= len(encoded):
        length, kind = struct.unpack_from(">I4s", encoded, at)
        if kind == b"eXIf":
            exif = encoded[at + 8 : at + 8 + length]
            return Header(width, height, "png", _read_orientation(exif.removeprefix(b"Exif\0\0")))
        at += 12 + length
    return Header(width, height, "png", 1)


def _read_orientation(exif: bytes) -> int:
    """The orientation in a block of EXIF, which is the head of a TIFF file; 1 where it is damaged or silent."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    if order is None:
        return 1
    try:
        (at,) = struct.unpack_from(order + "I", exif, 4)
        (num_entries,) = struct.unpack_from(order + "H", exif, at)
        for entry in range(at + 2, at + 2 + 12 * num_entries, 12):
            tag, kind = struct.unpack_from(order + "2H", exif, entry)
            if tag == ORIENTATION_TAG and kind in INTEGERS:
                (orientation,) = struct.unpack_from(order + INTEGERS[kind], exif, entry + 8)
                return orientation if 1 <= orientation <= 8 else 1
    except struct.error:
        return 1
    return 1


def _read_other(encoded: bytes) -> Header:
    """TIFF, BMP, WebP and whatever else Pillow opens."""
    from PIL import Image  # only here: JPEG and PNG, which is nearly all there is, do without Pillow

    try:
        with Image.open(io.BytesIO(encoded)) as picture:
            turned = picture.format == "TIFF"  # Pillow gives its upright size, and OpenCV decodes it upright
            orientation = 1 if turned else picture.getexif().get(ORIENTATION_TAG, 1)
            return Header(*picture.size, picture.format.lower(), orientation if orientation in range(1, 9) else 1)
    except Image.DecompressionBombError as error:
        raise UnreadableImageError("the header promises too many pixels for a photograph") from error
    except Exception as error:  # Pillow's readers raise whatever the damage leads them to
        raise UnreadableImageError("not a picture, or one with a damaged header") from error
