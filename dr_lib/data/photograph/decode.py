"""Decode a picture file at a fraction of its size, as it is stored: turning it upright is left to the caller."""

import stat
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from dr_lib.data.photograph.damage import mend
from dr_lib.data.photograph.fov import halve
from dr_lib.data.photograph.headers import (
    JPEG_FRAMES,
    PNG_SIGNATURE,
    Header,
    UnreadableImageError,
    read_entries,
    read_header,
    read_segments,
)

MAX_MEMORY = 250_000_000  # bytes for a file and what decoding it takes; Python and OpenCV take another 50 MB
MAX_PIXELS = 75_000_000  # a JPEG's; what other kinds may have follows from MAX_MEMORY
MAX_SIDE = 30_000  # px; OpenCV's remap counts in 16 bits
MAX_SCANNED = 1_500_000_000  # px times scans of a JPEG: two seconds; a progressive one has ten scans as a rule
BITS_TAG = 258  # of a TIFF: bits per sample
DEPTHS = (8, 10, 12, 14, 16)  # bits that cameras give to a sample
BLOCK = 16  # px of a JPEG that are coded together, at most
SCAN = b"\xff\xda"  # the marker at its start
OVERSAMPLING = 1.5  # the disc is decoded at least that many times as large as the crop wants it
REDUCED = {
    1: cv2.IMREAD_COLOR,
    2: cv2.IMREAD_REDUCED_COLOR_2,
    4: cv2.IMREAD_REDUCED_COLOR_4,
    8: cv2.IMREAD_REDUCED_COLOR_8,
}
DICOM_STARTS = (b"\x02\0\0\0UL", b"\x08\0\0\0", b"\x08\0\x05\0", b"\x08\0\x08\0")  # where the preamble lacks


class Picture(NamedTuple):
    """A picture file that is ready to be decoded."""

    encoded: bytes
    header: Header  # the size is the whole picture's, also where rows of it are missing
    truncated: bool


def open_picture(source: str | Path | bytes) -> Picture:
    """Read a picture file, mend it where it is cut short, and refuse what would take too much memory.

    Raises:
        UnreadableImageError: the file is missing, empty, damaged, too large or no picture.
    """
    encoded = read_encoded(source)
    header = read_header(encoded)
    check_size(encoded, header, 8 if header.format == "jpeg" else 1)
    return Picture(*mend(encoded, header))


def read_encoded(source: str | Path | bytes) -> bytes:
    """Read a file's bytes, refusing what is no picture at first sight."""
    if isinstance(source, bytes):
        encoded = source
    else:
        encoded = _read_file(Path(source))
    if not encoded:
        raise UnreadableImageError("the file is empty")
    if encoded[128:132] == b"DICM" or encoded.startswith(DICOM_STARTS):
        raise UnreadableImageError("a DICOM file: export it as PNG or JPEG, without the patient's name, first")
    return encoded


def _read_file(path: Path) -> bytes:
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):  # a pipe would keep its reader waiting
            raise OSError(0, "it is no file but a folder or a device")
        if facts.st_size > MAX_MEMORY:
            raise OSError(0, f"it has more than {MAX_MEMORY // 10**6} MB")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # a name with a zero in it is a ValueError
        raise UnreadableImageError(f"the file cannot be read: {getattr(error, 'strerror', error)}") from error


def check_size(encoded: bytes, header: Header, reduction: int) -> None:
    """Refuse a picture that would take too much memory or time to decode, by its header alone.

    Raises:
        UnreadableImageError: says how large it is.
    """
    width, height = header.width, header.height
    needed = count_bytes(encoded, header, reduction)
    if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE or needed > MAX_MEMORY:
        raise UnreadableImageError(
            f"{width} x {height} px as {header.format.upper()} are too many: export the photograph as a smaller JPEG"
        )
    if header.format == "jpeg" and _count_coefficients(encoded) and encoded.count(SCAN) * width * height > MAX_SCANNED:
        raise UnreadableImageError("a JPEG of too many scans")


def count_bytes(encoded: bytes, header: Header, reduction: int) -> int:
    """Estimate the bytes that a file and decoding it take; only a JPEG takes fewer when it is shrunk meanwhile."""
    per_pixel, copies = 6.0, 1
    if header.format == "jpeg":
        per_pixel = 6 / reduction**2 + 2 * _count_coefficients(encoded)  # of 2 bytes
    elif header.format == "png":
        per_pixel = (8 if _has_alpha(encoded) else 6) * (2 if encoded[24:25] == b"\x10" else 1)
    elif header.format == "tiff":
        depth = read_entries(encoded).get(BITS_TAG)
        per_pixel, copies = (12 if depth and max(depth.values) > 8 else 8), 2
    elif header.format != "bmp":
        per_pixel, copies = 8, 2
    return copies * len(encoded) + int(header.width * header.height * per_pixel)


def _count_coefficients(encoded: bytes) -> float:
    """Coefficients per pixel that a JPEG's decoder must keep until the last scan; 0 where there is but one."""
    areas, is_progressive = [], False
    for marker, at, length in read_segments(encoded):
        if marker in JPEG_FRAMES:
            factors = encoded[at + 9 : at + length : 3]  # of each component, across and down
            areas = [(factor >> 4) * (factor & 15) for factor in factors]
            is_progressive = marker not in (0xC0, 0xC1)
        if marker == 0xDA:
            is_one = not is_progressive and [*encoded[at + 2 : at + 3]] == [len(areas)]
            return 0 if is_one or not areas else sum(areas) / max(*areas, 1)
    return 0


def choose_reduction(disc_px: float, size: int) -> int:
    """The largest power of two, up to 8, by which a photograph may be shrunk while it is decoded."""
    return next((k for k in (8, 4, 2) if disc_px / k >= OVERSAMPLING * size), 1)


def decode(encoded: bytes, reduction: int, *, is_jpeg: bool = False) -> np.ndarray:
    """Decode as stored, shrunk by exactly that factor; a JPEG's decoder does so itself, in less time than none.

    Returns:
        (height, width, 3) uint8 RGB. Samples of more than 8 bits are scaled from the depth that the largest needs.

    Raises:
        UnreadableImageError: OpenCV does not read it.
    """
    flags = REDUCED[reduction] if is_jpeg else cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH
    if _has_alpha(encoded):
        flags = cv2.IMREAD_UNCHANGED
    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), flags | cv2.IMREAD_IGNORE_ORIENTATION)
    if image is None or image.size == 0:
        raise UnreadableImageError("the picture is damaged or of a kind that OpenCV does not read")
    if image.dtype not in (np.uint8, np.uint16):
        raise UnreadableImageError(f"samples of type {image.dtype}: export the picture with 8 or 16 bits")
    if image.ndim == 3 and image.shape[2] == 4:  # what colour the invisible has is left to chance
        image, alpha = cv2.cvtColor(image, cv2.COLOR_BGRA2BGR), image[..., 3]
        image[alpha <= np.iinfo(image.dtype).max // 2] = 0
    largest = int(image.max()) if image.dtype == np.uint16 else 0
    while not is_jpeg and reduction > 1:
        image, reduction = halve(image), reduction // 2
    if image.dtype == np.uint16:
        depth = next(bits for bits in DEPTHS if largest < 1 << bits)
        image = (image >> (depth - 8)).astype(np.uint8)
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def _has_alpha(encoded: bytes) -> bool:
    """Whether it is a PNG of grey or colour with transparency, or a WebP, which may have it."""
    is_png = encoded.startswith(PNG_SIGNATURE)
    return encoded[25:26] in (b"\x04", b"\x06") if is_png else encoded[8:12] == b"WEBP"


def count_rows_decoded(image: np.ndarray, reduction: int) -> int:
    """Rows of a JPEG before the grey with which the decoder fills what lacks; all where nothing does.

    The last row of blocks, of which a part may be grey, does not count.
    """
    if np.abs(image[-1].astype(np.int16) - 128).max() > 2:
        return len(image)
    is_grey = np.abs(image.reshape(len(image), -1).astype(np.int16) - 128).max(axis=1) <= 2
    num_rows = len(image) - int(np.argmin(is_grey[::-1])) if not is_grey.all() else 0
    return max(1, num_rows - BLOCK // reduction)
