"""Decode a picture file at a fraction of its size, as it is stored: turning it upright is left
to the caller.
"""

import stat
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from dr_lib.data.photograph.errors import UnreadableImageError
from dr_lib.data.photograph.fov import halve
from dr_lib.data.photograph.headers import (
    JPEG_END_MARKER,
    SCAN_MARKER,
    Header,
    read_header,
    read_segments,
)

# bytes for a file and what decoding it takes; Python and OpenCV take another 50 MB
MAX_MEMORY = 250_000_000
MAX_PIXELS = 75_000_000  # of a JPEG; what other formats may have follows from MAX_MEMORY
MAX_SIDE = 30_000  # px; OpenCV's remap counts in 16 bits
# px times scans of a JPEG: two seconds; a progressive one has ten scans as a rule
MAX_SCANNED = 1_500_000_000
DEPTHS = (8, 10, 12, 14, 16)  # bits that cameras give to a sample
BLOCK = 16  # px of a JPEG that are coded together, at most
JPEG_END = bytes([0xFF, JPEG_END_MARKER])
SCAN = bytes([0xFF, SCAN_MARKER])
# grey level with which a JPEG's decoder fills missing rows, and by how much it may be off
FILLING = 128, 2
OVERSAMPLING = 1.5  # the field of view is decoded at least that many times as large as the crop
# where the preamble lacks
DICOM_STARTS = (b"\x02\0\0\0UL", b"\x08\0\0\0", b"\x08\0\x05\0", b"\x08\0\x08\0")


class Picture(NamedTuple):
    """A picture file that is ready to be decoded."""

    encoded: bytes
    header: Header
    truncated: bool  # whether a JPEG was cut short


def open_picture(source: str | Path | bytes) -> Picture:
    """Read a picture file and its header, and refuse what would take too much memory.

    Of a JPEG that was cut short the rows that are there are used: it is given the end marker
    without which OpenCV decodes nothing. Of other formats that are cut short OpenCV decodes nothing
    either, and they are unreadable.

    Raises:
        UnreadableImageError: the file is missing, empty, damaged, too large or no picture.
    """
    encoded = source if isinstance(source, bytes) else _read_file(Path(source))
    if not encoded:
        raise UnreadableImageError("the file is empty")
    if encoded[128:132] == b"DICM" or encoded.startswith(DICOM_STARTS):
        raise UnreadableImageError(
            "a DICOM file: export it as PNG or JPEG, without the patient's name, first"
        )
    header = read_header(encoded)
    check_size(encoded, header, 8 if header.format == "jpeg" else 1)
    truncated = header.format == "jpeg" and is_cut_short(encoded)
    if truncated:
        encoded = encoded.rstrip(b"\0") + JPEG_END  # an interrupted copy may end in zeros
    return Picture(encoded, header, truncated)


def _read_file(path: Path) -> bytes:
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):  # a pipe would keep its reader waiting
            raise OSError(0, "it is no file but a folder or a device")
        if facts.st_size > MAX_MEMORY:
            raise OSError(0, f"it has more than {MAX_MEMORY // 10**6} MB")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # a name with a zero in it is a ValueError
        raise UnreadableImageError(
            f"the file cannot be read: {getattr(error, 'strerror', error)}"
        ) from error


def check_size(encoded: bytes, header: Header, reduction: int) -> None:
    """Refuse a picture that would take too much memory or time to decode, by its header alone."""
    width = header.width
    height = header.height
    needed = count_bytes(encoded, header, reduction)
    if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE or needed > MAX_MEMORY:
        raise UnreadableImageError(
            f"{width} x {height} px as {header.format.upper()} are too many: export the photograph"
            " as a smaller JPEG"
        )
    if header.coefficients and encoded.count(SCAN) * width * height > MAX_SCANNED:
        raise UnreadableImageError("a JPEG of too many scans")


def count_bytes(encoded: bytes, header: Header, reduction: int) -> int:
    """Estimate the bytes that a file and decoding it take; only a JPEG takes fewer when it is
    shrunk meanwhile.
    """
    copies = 1 if header.format in ("jpeg", "png", "bmp") else 2  # of the file
    per_pixel = (6 if header.format in ("png", "bmp") and not header.has_alpha else 8) * max(
        header.bits / 8, 1
    )
    if header.format == "jpeg":
        per_pixel = 6 / reduction**2 + 2 * header.coefficients
    elif header.format == "tiff":
        per_pixel = 12 if header.bits > 8 else 8
    return copies * len(encoded) + int(header.width * header.height * per_pixel)


def is_cut_short(encoded: bytes) -> bool:
    """Whether a JPEG lacks its end marker; bytes behind that do not count, nor does the end of a
    thumbnail.
    """
    return not encoded.endswith(JPEG_END) and all(
        marker != JPEG_END_MARKER for marker, _, _ in read_segments(encoded)
    )


def choose_reduction(diameter: float, size: int) -> int:
    """Choose the largest power of two, up to 8, by which a photograph may be shrunk while it is
    decoded.
    """
    return next((k for k in (8, 4, 2) if diameter / k >= OVERSAMPLING * size), 1)


def decode(encoded: bytes, header: Header, reduction: int) -> np.ndarray:
    """Decode as stored, shrunk by exactly that factor; a JPEG's decoder shrinks it in less time
    than it saves.

    Returns:
        (height, width, 3) uint8 RGB, black where it is transparent. Samples of more than 8 bits are
        scaled from the depth that the largest needs.

    Raises:
        UnreadableImageError: OpenCV does not read it.
    """
    is_jpeg = header.format == "jpeg"
    flags = cv2.IMREAD_UNCHANGED if header.has_alpha else cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH
    if is_jpeg:
        flags = getattr(cv2, f"IMREAD_REDUCED_COLOR_{reduction}", cv2.IMREAD_COLOR)
    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), flags | cv2.IMREAD_IGNORE_ORIENTATION)
    if image is None or image.size == 0:
        raise UnreadableImageError(
            "the picture is damaged, cut short or of a kind that OpenCV does not read"
        )
    if image.dtype not in (np.uint8, np.uint16):
        raise UnreadableImageError(
            f"samples of type {image.dtype}: export the picture with 8 or 16 bits"
        )
    if image.ndim == 3 and image.shape[2] == 4:  # what colour the invisible has is left to chance
        is_hidden = (image[..., 3] <= np.iinfo(image.dtype).max // 2).view(np.uint8)
        image = cv2.cvtColor(image, cv2.COLOR_BGRA2BGR)
        # in place: NumPy's indices took 20 bytes per pixel
        cv2.bitwise_xor(image, image, dst=image, mask=is_hidden)
        del is_hidden
    largest = int(image.max()) if image.dtype == np.uint16 else 0
    while not is_jpeg and reduction > 1:
        image = halve(image)
        reduction = reduction // 2
    if image.dtype == np.uint16:
        depth = next(bits for bits in DEPTHS if largest < 1 << bits)
        image = (image >> (depth - 8)).astype(np.uint8)
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def count_rows_decoded(image: np.ndarray, reduction: int) -> int:
    """Count the rows of a JPEG before the grey with which its decoder fills what is missing; all
    where nothing is.

    The last row of blocks, of which a part may be grey, does not count.
    """
    level, tolerance = FILLING
    if np.abs(image[-1].astype(np.int16) - level).max() > tolerance:
        return len(image)
    is_grey = (
        np.abs(image.reshape(len(image), -1).astype(np.int16) - level).max(axis=1) <= tolerance
    )
    num_rows = len(image) - int(np.argmin(is_grey[::-1])) if not is_grey.all() else 0
    return max(1, num_rows - BLOCK // reduction)
