"""Read a picture file's header: size, format, EXIF orientation and what decoding will take;
decode no pixel.
"""

import io
import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from dr_lib.data.photograph.errors import UnreadableImageError

JPEG_SIGNATURE = b"\xff\xd8\xff"
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# of a JPEG's segment; the others are padding or stand alone
MARKER = re.compile(rb"\xff[^\x00\x01\xff\xd0-\xd8]")
JPEG_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # markers of a frame, which holds the size
JPEG_END_MARKER = 0xD9
SCAN_MARKER = 0xDA
APP1_MARKER = 0xE1
MAX_SEGMENTS = 10_000  # as many hold 650 MB; more are there to keep the reader busy
ORIENTATION_TAG = 0x0112  # of EXIF
SUBFILE_TAG = 254
BITS_TAG = 258
STARTS_TAG = 273
SIZES_TAG = 279  # of TIFF: kind of page, bits per sample, strips
INTEGERS = {1: "B", 3: "H", 4: "I"}  # EXIF type -> how to unpack it
# further formats that are read, as Pillow names them
OTHERS = ("TIFF", "BMP", "WEBP", "GIF", "PPM")
ZEROS = bytes(64)  # at the end of compressed pixels: an interrupted copy left them


class Header(NamedTuple):
    """What a picture file says of itself."""

    width: int  # px, before the orientation is applied
    height: int
    format: str  # jpeg, png, or another as Pillow names it, in lower case
    # EXIF's 1-8, still to be applied; 1 where there is none that is valid, and for every TIFF
    orientation: int
    bits: int = 8  # per sample
    has_alpha: bool = False  # whether it has transparency, or as a WebP may have it
    # per pixel that a JPEG's decoder keeps until the last scan; 0 where there is but one
    coefficients: float = 0.0


def read_header(encoded: bytes) -> Header:
    """Read a picture file's header; JPEG and PNG need no Pillow, so that a server does without it.

    Args:
        encoded: the bytes of the file; a JPEG's pixels may be cut off.

    Raises:
        UnreadableImageError: the bytes are no picture, or its header is damaged, or another file
            than a JPEG is seen to be cut short. Whether the pixels can be decoded is not known yet.
    """
    try:
        if encoded.startswith(JPEG_SIGNATURE):
            header = _read_jpeg(encoded)
        elif encoded.startswith(PNG_SIGNATURE):
            header = _read_png(encoded)
        else:
            header = _read_other(encoded)
    except struct.error as error:  # a number that lies past the end
        raise UnreadableImageError("the picture is damaged or cut short") from error
    if min(header.width, header.height) < 1:
        raise UnreadableImageError("a picture with a damaged header: it has no size")
    return header


def read_segments(encoded: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield a JPEG's segments, past its pixels: marker, where the length stands, and the length.

    The end marker is the last; it stands alone and has the length 0. A file that is cut short has
    none.
    """
    at = 2
    for _ in range(MAX_SEGMENTS):
        found = MARKER.search(encoded, at)
        if found is None:
            return
        marker = found[0][1]
        at = found.end()
        length = 0 if marker == JPEG_END_MARKER else int.from_bytes(encoded[at : at + 2], "big")
        yield marker, at, length
        if marker == JPEG_END_MARKER:
            return
        at += length


def _read_jpeg(encoded: bytes) -> Header:
    """Read the segments up to the first scan."""
    size = (0, 0)
    orientation = 1
    areas = []
    is_progressive = False
    for marker, at, length in read_segments(encoded):
        if marker in JPEG_FRAMES:
            height, width = struct.unpack_from(">2H", encoded, at + 3)
            size = (width, height)
            is_progressive = marker not in (0xC0, 0xC1)
            # sampling of each component, across and down
            factors = encoded[at + 9 : at + length : 3]
            areas = [(factor >> 4) * (factor & 15) for factor in factors]
        elif marker == APP1_MARKER and encoded.startswith(b"Exif\0", at + 2):
            orientation = _read_orientation(encoded[at + 8 : at + length])
        elif marker == SCAN_MARKER:
            is_one_scan = not is_progressive and [*encoded[at + 2 : at + 3]] == [len(areas)]
            coefficients = 0.0 if is_one_scan or not areas else sum(areas) / max(*areas, 1)
            return Header(*size, "jpeg", orientation, coefficients=coefficients)
    raise UnreadableImageError("a JPEG whose header is damaged or cut short")


def _read_png(encoded: bytes) -> Header:
    """Read the chunks up to the last; the orientation may stand before the pixels or after them.

    OpenCV would make room for what a chunk claims, be it 2 GB, and unpack whatever is packed behind
    the pixels.
    """
    kind, width, height, bits, colour = struct.unpack_from(">4s2I2B", encoded, 12)
    if kind != b"IHDR":
        raise UnreadableImageError("a PNG with a damaged header")
    at = 8
    num_packed = 0
    orientation = 1
    for _ in range(MAX_SEGMENTS):
        length, kind = struct.unpack_from(">I4s", encoded, at)
        content = at + 8
        at = at + 12 + length
        if kind == b"IDAT":
            num_packed += length
        elif kind == b"eXIf":
            orientation = _read_orientation(
                encoded[content : content + length].removeprefix(b"Exif\0\0")
            )
        elif kind == b"IEND" and at <= len(encoded):
            # 8 samples per pixel: twice what there can be
            if num_packed > height * (width * bits + 8) + 10_000:
                raise UnreadableImageError("a PNG with far more in it than its pixels")
            return Header(width, height, "png", orientation, bits, has_alpha=colour in (4, 6))
    raise UnreadableImageError("a PNG of too many parts")


def _read_other(encoded: bytes) -> Header:
    """Let Pillow read a TIFF, BMP, WebP, GIF or PPM."""
    # only here: JPEG and PNG, which is nearly all there is, do without Pillow
    from PIL import Image

    try:
        with Image.open(io.BytesIO(encoded), formats=OTHERS) as picture:
            name = picture.format.lower()
            width, height = picture.size
            orientation = picture.getexif().get(ORIENTATION_TAG)
            tags = getattr(picture, "tag_v2", {})
            bits = max(tags.get(BITS_TAG, (8,)))
            is_thumbnail = tags.get(SUBFILE_TAG, 0) & 1
            strips = zip(tags.get(STARTS_TAG, ()), tags.get(SIZES_TAG, ()), strict=False)
            end = max((start + length for start, length in strips), default=0)
            is_packed = picture.info.get("compression", "raw") != "raw"
    except Image.DecompressionBombError as error:
        raise UnreadableImageError(
            "the header promises too many pixels for a photograph"
        ) from error
    except Exception as error:  # Pillow's readers raise whatever the damage leads them to
        raise UnreadableImageError(
            "not a picture of a kind that is read, or damaged: export it as a JPEG"
        ) from error
    if name != "tiff":
        return Header(
            width,
            height,
            name,
            orientation if orientation in range(1, 9) else 1,
            has_alpha=name == "webp",
        )
    if is_thumbnail:
        raise UnreadableImageError(
            "a TIFF that begins with a thumbnail: export the photograph alone"
        )
    if is_packed and encoded.endswith(ZEROS) and end > len(encoded.rstrip(b"\0")):
        raise UnreadableImageError("the file is cut short: it ends in zeros")
    # Pillow gives the upright size, and OpenCV decodes it upright
    return Header(width, height, name, 1, bits)


def _read_orientation(exif: bytes) -> int:
    """Find the orientation in the first directory of a block of EXIF; 1 where it is damaged or
    not there.
    """
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    if order is None:
        return 1
    try:
        (at,) = struct.unpack_from(order + "I", exif, 4)
        (num_entries,) = struct.unpack_from(order + "H", exif, at)
        for entry in range(at + 2, at + 2 + 12 * num_entries, 12):
            tag, kind, count = struct.unpack_from(order + "2HI", exif, entry)
            if tag == ORIENTATION_TAG and kind in INTEGERS and count == 1:
                (value,) = struct.unpack_from(order + INTEGERS[kind], exif, entry + 8)
                return value if 1 <= value <= 8 else 1
    except struct.error:
        pass  # the directory is cut short
    return 1
