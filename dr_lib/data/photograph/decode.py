"""Read the header of a picture file, and decode it at a fraction of its size.

A picture is decoded as it is stored: turning it upright is left to the caller.
"""

import io
import re
import stat
import struct
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image

from dr_lib.data.photograph.errors import UnreadableImageError
from dr_lib.data.photograph.pixels import halve

MAX_PIXELS = 75_000_000  # of a JPEG; what other formats may have follows from MAX_MEMORY
MAX_SIDE = 30_000  # px; OpenCV's remap counts in 16 bits
# bytes for a file and what decoding it takes; Python and OpenCV take another 50 MB
MAX_MEMORY = 250_000_000
# px times scans of a JPEG: two seconds; a progressive one has ten scans as a rule
MAX_SCANNED = 1_500_000_000
MAX_PARTS = 10_000  # segments, chunks or reads: more are there to keep the reader busy
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
FORMATS = ("JPEG", "TIFF", "BMP", "WEBP", "GIF", "PPM")  # as Pillow names them
# where the preamble lacks
DICOM_STARTS = (b"\x02\0\0\0UL", b"\x08\0\0\0", b"\x08\0\x05\0", b"\x08\0\x08\0")
ORIENTATION_TAG = 0x0112  # of EXIF
# of TIFF: kind of page, bits per sample, strips
SUBFILE_TAG = 254
BITS_TAG = 258
STARTS_TAG = 273
SIZES_TAG = 279
ZEROS = bytes(64)  # at the end of compressed pixels: an interrupted copy left them
# of a JPEG's segment; the others are padding or stand alone
MARKER = re.compile(rb"\xff[^\x00\x01\xff\xd0-\xd8]")
JPEG_END = b"\xff\xd9"
JPEG_SCAN = b"\xff\xda"
DEPTHS = (8, 10, 12, 14, 16)  # bits that cameras give to a sample
BLOCK = 16  # px of a JPEG that are coded together, at most
# grey level with which a JPEG's decoder fills missing rows, and by how much it may be off
FILLING = 128
FILLING_TOLERANCE = 2


class Picture(NamedTuple):
    """A picture file whose header was read."""

    encoded: bytes
    width: int  # px, before the orientation is applied
    height: int
    format: str  # jpeg, png, or another as Pillow names it, in lower case
    # EXIF's 1-8, still to be applied; 1 where there is none that is valid, and for every TIFF
    orientation: int
    bits: int = 8  # per sample
    has_alpha: bool = False  # whether it has transparency, or as a WebP may have it
    num_scans: int = 0  # of a JPEG; 0 where there is but one
    kept_bytes: float = 0  # per pixel, that the decoder of several scans keeps until the last
    truncated: bool = False  # whether a JPEG was cut short


class _Parts(io.BytesIO):
    """The bytes of a file, readable in a limited number of parts: Pillow alone may take minutes."""

    num_read = 0

    def read(self, size: int | None = -1) -> bytes:
        """Read the next part."""
        self.num_read += 1
        if self.num_read > MAX_PARTS:
            raise UnreadableImageError("the picture is damaged or has too many parts")
        return super().read(size)


def open_picture(source: str | Path | bytes) -> Picture:
    """Read a picture file and its header.

    Of a JPEG that was cut short the rows that are there can be used: it is given the end marker
    without which OpenCV decodes nothing. Of other formats that are cut short OpenCV decodes nothing
    either, and they are unreadable.

    Raises:
        UnreadableImageError: the file is missing, empty, damaged or no picture. Whether it can be
            decoded is not known yet.
    """
    encoded = source if isinstance(source, bytes) else _read_file(Path(source))
    if not encoded:
        raise UnreadableImageError("the file is empty")
    if encoded[128:132] == b"DICM" or encoded.startswith(DICOM_STARTS):
        raise UnreadableImageError(
            "a DICOM file: export it as PNG or JPEG first, without the patient's name"
        )
    try:
        if encoded.startswith(PNG_SIGNATURE):
            return _read_png(encoded)
        with Image.open(_Parts(encoded), formats=FORMATS) as opened:
            return _read_header(encoded, opened)
    except UnreadableImageError:
        raise
    except Image.DecompressionBombError as error:
        raise UnreadableImageError(
            "the header states too many pixels for a photograph"
        ) from error
    except Exception as error:  # Pillow's readers raise whatever the damage leads them to
        raise UnreadableImageError(
            "not a picture in a supported format, or damaged: export it as a JPEG"
        ) from error


def _read_file(path: Path) -> bytes:
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):  # a pipe would keep its reader waiting
            raise OSError(0, "not a file, but a folder or a device")
        if facts.st_size > MAX_MEMORY:
            raise OSError(0, f"the file is larger than {MAX_MEMORY // 10**6} MB")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # a name with a zero in it is a ValueError
        reason = getattr(error, "strerror", error)
        raise UnreadableImageError(f"the file cannot be read: {reason}") from error


def _read_header(encoded: bytes, opened: Image.Image) -> Picture:
    kind = opened.format.lower()
    exif = opened.info.get("exif", b"")
    if kind in ("jpeg", "mpo"):  # MPO: with further pictures behind the first
        return _read_jpeg(encoded, opened, exif)
    if kind == "tiff":
        return _read_tiff(encoded, opened)
    return Picture(
        encoded, *opened.size, kind, _read_orientation(exif), has_alpha=kind == "webp"
    )


def _read_orientation(block: bytes) -> int:
    """Find the orientation in an EXIF block; 1 if it is damaged or missing."""
    exif = Image.Exif()
    try:
        exif.load(block)
        orientation = exif.get(ORIENTATION_TAG)
    except Exception:  # the photograph is there all the same
        return 1
    return orientation if orientation in range(1, 9) else 1


def _read_jpeg(encoded: bytes, opened: Image.Image, exif: bytes) -> Picture:
    areas = [across * down for _, across, down, _ in opened.layer]  # samples of each component
    is_progressive = "progressive" in opened.info
    num_scans, truncated = _walk_jpeg(encoded, len(areas), is_progressive=is_progressive)
    if truncated:
        encoded = encoded.rstrip(b"\0") + JPEG_END  # an interrupted copy may end in zeros
    return Picture(
        encoded,
        *opened.size,
        "jpeg",
        _read_orientation(exif),
        num_scans=num_scans,
        kept_bytes=2 * sum(areas) / max(areas) if num_scans else 0,
        truncated=truncated,
    )


def _walk_jpeg(
    encoded: bytes, num_components: int, *, is_progressive: bool
) -> tuple[int, bool]:
    """Walk through a JPEG past its first pixels, where Pillow stops, to count scans and see cuts.

    Scans are 0 where one has all components. Bytes behind the end marker do not count, nor does the
    end of a thumbnail.
    """
    has_end = encoded.endswith(JPEG_END)
    num_scans = 0
    at = 2
    for _ in range(MAX_PARTS):
        marker = MARKER.search(encoded, at)
        if marker is None:
            break
        if marker[0] == JPEG_END:
            has_end = True
            break
        at = marker.end()
        if marker[0] == JPEG_SCAN:
            if is_progressive or encoded[at + 2 : at + 3] != bytes([num_components]):
                num_scans += 1
            elif has_end:
                break
        at += int.from_bytes(encoded[at : at + 2])
    else:
        raise UnreadableImageError("the JPEG has too many parts")
    return num_scans, not has_end


def _read_png(encoded: bytes) -> Picture:
    """Walk through a PNG to its end; its orientation may come before or after the pixels.

    Pillow would refuse a photograph for a damaged comment, and OpenCV makes room for what a chunk
    claims, be it 2 GB.
    """
    kind, width, height, bits, colour = struct.unpack_from(">4s2I2B", encoded, 12)
    if kind != b"IHDR" or not width or not height:
        raise UnreadableImageError("the PNG has a damaged header")
    at = 8
    exif = b""
    for _ in range(MAX_PARTS):
        end = at + 12 + int.from_bytes(encoded[at : at + 4])
        kind = encoded[at + 4 : at + 8]
        if end > len(encoded):
            raise UnreadableImageError("the picture is damaged or cut short")
        if kind == b"eXIf":
            exif = encoded[at + 8 : end - 4]
        if kind == b"IEND":
            orientation = _read_orientation(exif)
            has_alpha = colour in (4, 6)
            return Picture(encoded, width, height, "png", orientation, max(8, bits), has_alpha)
        at = end
    raise UnreadableImageError("the PNG has too many parts")


def _read_tiff(encoded: bytes, opened: Image.Image) -> Picture:
    tags = opened.tag_v2
    if tags.get(SUBFILE_TAG, 0) & 1:
        raise UnreadableImageError(
            "the TIFF begins with a thumbnail: export the photograph alone"
        )
    strips = zip(tags.get(STARTS_TAG, ()), tags.get(SIZES_TAG, ()), strict=False)
    end = max((start + length for start, length in strips), default=0)
    is_packed = opened.info.get("compression", "raw") != "raw"
    if is_packed and encoded.endswith(ZEROS) and end > len(encoded.rstrip(b"\0")):
        raise UnreadableImageError("the file is cut short: it ends in zeros")
    # Pillow gives the upright size, and OpenCV decodes it upright
    return Picture(encoded, *opened.size, "tiff", 1, bits=max(8, *tags.get(BITS_TAG, (8,))))


def count_bytes(picture: Picture, reduction: int) -> int:
    """Estimate the bytes for a file and its decoding; only a JPEG shrinks while it is decoded."""
    is_plain = picture.format in ("png", "bmp")
    if picture.format == "jpeg":
        per_pixel = 6 / reduction**2 + picture.kept_bytes
    elif picture.format == "tiff":
        per_pixel = 12 if picture.bits > 8 else 8
    else:
        per_pixel = picture.bits / 8 * (6 if is_plain and not picture.has_alpha else 8)
    copies = 1 if is_plain or picture.format == "jpeg" else 2  # of the file
    return copies * len(picture.encoded) + int(picture.width * picture.height * per_pixel)


def decode(picture: Picture, reduction: int) -> np.ndarray:
    """Decode as stored, shrunk by exactly that factor, which saves time for a JPEG.

    Returns:
        (height, width, 3) uint8 RGB, black where it is transparent. Samples of more than 8 bits are
        scaled from the depth that the largest needs.

    Raises:
        UnreadableImageError: it would take too much memory or time, or OpenCV does not read it.
    """
    _check_size(picture, reduction)
    if picture.format == "jpeg":
        flags = getattr(cv2, f"IMREAD_REDUCED_GRAYSCALE_{reduction}", 0) | cv2.IMREAD_COLOR_RGB
        reduction = 1
    elif picture.has_alpha:
        flags = cv2.IMREAD_UNCHANGED
    else:
        flags = cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH
    flags |= cv2.IMREAD_IGNORE_ORIENTATION
    image = cv2.imdecode(np.frombuffer(picture.encoded, np.uint8), flags)
    if image is None or image.size == 0:
        raise UnreadableImageError(
            "the picture is damaged, cut short or in a format that OpenCV does not read"
        )
    if image.dtype not in (np.uint8, np.uint16):
        raise UnreadableImageError(
            f"the samples have type {image.dtype}: export the picture with 8 or 16 bits"
        )
    if (
        image.ndim == 3 and image.shape[2] == 4
    ):  # what colour the invisible has is left to chance
        is_hidden = (image[..., 3] <= np.iinfo(image.dtype).max // 2).view(np.uint8)
        image = cv2.cvtColor(image, cv2.COLOR_BGRA2BGR)
        # in place: NumPy's indices took 20 bytes per pixel
        cv2.bitwise_xor(image, image, dst=image, mask=is_hidden)
        del is_hidden
    largest = int(image.max()) if image.dtype == np.uint16 else 0
    while reduction > 1:
        image = halve(image)
        reduction //= 2
    if image.dtype == np.uint16:
        depth = next(bits for bits in DEPTHS if largest < 1 << bits)
        image = (image >> (depth - 8)).astype(np.uint8)
    return image if picture.format == "jpeg" else cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def _check_size(picture: Picture, reduction: int) -> None:
    """Refuse, by its header alone, a picture that would take too much memory or time to decode."""
    size = f"{picture.width} x {picture.height} px as {picture.format.upper()}"
    num_pixels = picture.width * picture.height
    is_long = max(picture.width, picture.height) > MAX_SIDE
    if is_long or num_pixels > MAX_PIXELS or count_bytes(picture, reduction) > MAX_MEMORY:
        raise UnreadableImageError(
            f"{size} has too many pixels: export the photograph as a smaller JPEG"
        )
    if picture.num_scans * num_pixels > MAX_SCANNED:
        raise UnreadableImageError("the JPEG has too many scans")


def count_rows_decoded(image: np.ndarray, reduction: int) -> int:
    """Count the rows of a JPEG before the grey that its decoder fills in for missing rows.

    The last row of blocks, of which a part may be grey, does not count.
    """
    if not _is_filling(image[-1:])[0]:
        return len(image)
    decoded = np.flatnonzero(~_is_filling(image))
    return max(1, max(decoded, default=-1) + 1 - BLOCK // reduction)


def _is_filling(rows: np.ndarray) -> np.ndarray:
    """Tell which rows of an image are filled in: (n,) bool."""
    difference = np.abs(rows.reshape(len(rows), -1).astype(np.int16) - FILLING)
    return difference.max(axis=1) <= FILLING_TOLERANCE
