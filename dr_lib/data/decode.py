"""Decode a picture file at a fraction of its size, as it is stored: turning it upright is left to the caller."""

from pathlib import Path

import cv2
import numpy as np

from dr_lib.data.disc import halve
from dr_lib.data.headers import UnreadableImageError

MAX_PIXELS = 150_000_000  # a 12,000 px square; more is no fundus camera but a decompression bomb
MAX_SIDE = 30_000  # px; OpenCV's remap counts in 16 bits
OVERSAMPLING = 1.5  # the disc is decoded at least that many times as large as the crop wants it
REDUCED = {
    1: cv2.IMREAD_COLOR,
    2: cv2.IMREAD_REDUCED_COLOR_2,
    4: cv2.IMREAD_REDUCED_COLOR_4,
    8: cv2.IMREAD_REDUCED_COLOR_8,
}


def read_encoded(source: str | Path | bytes) -> bytes:
    """Read a file's bytes, refusing what is no picture at first sight."""
    if isinstance(source, bytes):
        encoded = source
    else:
        try:
            encoded = Path(source).read_bytes()
        except OSError as error:
            raise UnreadableImageError(f"the file cannot be read: {error.strerror}") from error
    if not encoded:
        raise UnreadableImageError("the file is empty")
    if encoded[128:132] == b"DICM":
        raise UnreadableImageError("a DICOM file: export it as PNG or JPEG, without the patient's name, first")
    return encoded


def is_cut_short(encoded: bytes) -> bool:
    """Whether a JPEG lacks its end marker, which thumbnails have too, behind the last start of a scan."""
    end = encoded.rfind(b"\xff\xd9")
    return end < 0 or encoded.find(b"\xff\xda", end) >= 0


def choose_reduction(disc_px: float, size: int) -> int:
    """The largest power of two, up to 8, by which a photograph may be shrunk while it is decoded."""
    return next((k for k in (8, 4, 2) if disc_px / k >= OVERSAMPLING * size), 1)


def decode(encoded: bytes, reduction: int, *, is_jpeg: bool = False) -> np.ndarray:
    """Decode as stored, shrunk by exactly that factor; a JPEG's decoder does so itself, in less time than none."""
    flags = REDUCED[reduction if is_jpeg else 1] | cv2.IMREAD_IGNORE_ORIENTATION
    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), flags)
    if image is None or image.size == 0:
        raise UnreadableImageError("the picture is damaged or of a kind that OpenCV does not read")
    while not is_jpeg and reduction > 1:
        image, reduction = halve(image), reduction // 2
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def count_rows_decoded(image: np.ndarray) -> int:
    """Rows before the flat colour with which the decoder fills what a cut file lacks."""
    flat = np.ptp(image.reshape(len(image), -1, 3).astype(int), axis=1).max(axis=1) <= 2
    same = np.abs(np.diff(image[:, 0].astype(int), axis=0)).max(axis=1) <= 2
    filled = 0
    while filled < len(image) - 1 and flat[-1 - filled] and (filled == 0 or same[-filled]):
        filled += 1
    return len(image) - filled
