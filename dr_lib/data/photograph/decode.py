"""Read a picture file: by its header what decoding it would take, then its pixels.

A JPEG is decoded at a fraction of its size, any other picture whole. All come as they are stored:
turning them upright is left to the caller.
"""

import io
import re
import stat
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import cv2
import numpy as np
import simplejpeg
from PIL import Image

from dr_lib.command import write_install
from dr_lib.data.photograph.errors import UnreadableImageError
from dr_lib.data.photograph.pixels import halve

MAX_PIXELS = 75_000_000  # of a JPEG, for which 8 bytes per pixel are enough at the worst
MAX_SIDE = 30_000  # px; OpenCV's remap counts in 16 bits
# bytes for a file and, but of a JPEG, what decoding it takes; Python and OpenCV take another 50 MB
MAX_MEMORY = 250_000_000
# px times scans of a JPEG: two seconds; a progressive one has ten scans as a rule
MAX_SCANNED = 1_500_000_000
MAX_PARTS = 10_000  # reads beside one per KiB: more are there to keep the reader busy
# as Pillow names them; the last only once `heic` is loaded
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "WEBP", "JPEG2000", "HEIF")
# bytes per pixel with all copies, where it is not 8
NUM_BYTES = {"WEBP": 16, "JPEG2000": 16, "HEIF": 12}
TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
# where the preamble lacks
DICOM_STARTS = (b"\x02\0\0\0UL", b"\x08\0\0\0", b"\x08\0\x05\0", b"\x08\0\x08\0")
ORIENTATION_TAG = 0x0112  # of EXIF
STRIP = 256  # rows that are converted at a time
# of a JPEG's segment; the others are padding or stand alone
MARKER = re.compile(rb"\xff([^\x00\x01\xff\xd0-\xd8])")
JPEG_START = b"\xff\xd8"
JPEG_SCAN = b"\xff\xda"
# frames that are lossless, of which simplejpeg overruns its memory, or hierarchical (ITU-T T.81,
# table B.1)
UNREAD_FRAMES = b"\xc3\xc5\xc6\xc7\xcb\xcd\xce\xcf"


class Picture(NamedTuple):
    """A picture file whose header was read."""

    width: int  # px, before the orientation is applied
    height: int
    orientation: int = 1  # EXIF's 2-8, still to be applied; any other turns nothing
    profile: bytes = b""  # of its colours, ICC
    pixels: np.ndarray | None = None  # (height, width, 3) uint8 RGB; None of a JPEG
    encoded: bytes = b""  # the file, of which a JPEG is decoded later


class Parts(io.BytesIO):
    """The bytes of a file, readable in a limited number of parts: Pillow alone may take minutes."""

    num_read = 0

    def read(self, size: int | None = -1) -> bytes:
        """Read the next part."""
        self.num_read += 1
        if self.num_read > MAX_PARTS + self.tell() // 1024:
            raise UnreadableImageError("the picture is damaged or has too many parts")
        return super().read(size)


def open_picture(source: str | Path | bytes) -> Picture:
    """Read a picture file: of a JPEG the header, of any other the pixels too.

    Raises:
        UnreadableImageError: the file is missing, empty, damaged, too large, no picture or not
            read. Whether a JPEG can be decoded is not known yet.
    """
    encoded = source if isinstance(source, bytes) else read_file(Path(source))
    if not encoded:
        raise UnreadableImageError("the file is empty")
    try:
        if is_dicom(encoded):
            return load_reader("dicom").read_dicom(encoded)
        if encoded.startswith(TIFF_SIGNATURES):
            return load_reader("tiff").read_tiff(encoded)
        if encoded[4:8] == b"ftyp":
            load_reader("heic")
        return read_with_pillow(encoded)
    except (MemoryError, UnreadableImageError):
        raise
    except Exception as error:  # readers raise whatever the damage leads them to
        raise UnreadableImageError(
            "not a picture in a supported format, or damaged, or far too large: export it as a"
            " JPEG"
        ) from error


def is_dicom(encoded: bytes) -> bool:
    """Whether a file's first bytes, 132 or more, are those of DICOM."""
    return encoded[128:132] == b"DICM" or encoded.startswith(DICOM_STARTS)


def load_reader(kind: str) -> ModuleType:
    """Load the module that reads TIFF, DICOM or HEIC; the packages of the latter are extras.

    Raises:
        UnreadableImageError: they are not installed.
    """
    try:
        return import_module(f"dr_lib.data.photograph.{kind}")
    except ImportError as error:
        install = write_install("-e", f".[{kind}]")
        raise UnreadableImageError(
            f"a {kind.upper()} file, and what reads it is not installed: {install}"
        ) from error


def read_file(path: Path) -> bytes:
    """Read a photograph's file.

    Raises:
        UnreadableImageError: it is no file, is too large or cannot be read.
    """
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


def read_with_pillow(encoded: bytes) -> Picture:
    """Read one of `FORMATS`; of a JPEG the header alone."""
    opened = Image.open(Parts(encoded), formats=FORMATS)
    width, height = opened.size
    is_jpeg = encoded.startswith(JPEG_START)
    check_size(encoded, width, height, 0 if is_jpeg else NUM_BYTES.get(opened.format, 8))
    if is_jpeg:
        _check_jpeg(encoded, opened)
        pixels = None
    else:
        opened.verify()  # the sums of a PNG, to its end
        opened = Image.open(Parts(encoded), formats=FORMATS)
        is_deep = opened.mode[0] in "IF" or opened.format == "PNG" and encoded[24] == 16
        refuse("picture", {"has samples of 16 bits: export it with 8 bits": is_deep})
        pixels = _convert(opened)
    profile = opened.info.get("icc_profile") or b""
    return Picture(width, height, _read_orientation(opened), profile, pixels, encoded)


def _convert(opened: Image.Image) -> np.ndarray:
    """Convert to (height, width, 3) uint8 RGB, a strip at a time."""
    width, height = opened.size
    mode = "RGBA" if opened.has_transparency_data else "RGB"
    pixels = np.empty((height, width, 3), np.uint8)
    for top in range(0, height, STRIP):
        strip = opened.crop((0, top, width, min(top + STRIP, height)))
        pixels[top : top + STRIP] = to_rgb(np.asarray(strip.convert(mode)))
    return pixels


def _read_orientation(opened: Image.Image) -> int:
    """Find the orientation in the EXIF block; 1 if that is damaged."""
    try:
        return opened.getexif().get(ORIENTATION_TAG, 1)
    except Exception:  # the photograph is there all the same
        return 1


def _check_jpeg(encoded: bytes, opened: Image.Image) -> None:
    """Refuse a JPEG with frames that are not read, or with more scans than a camera writes."""
    is_unread = False
    at = 2
    while (marker := MARKER.search(encoded, at)) and marker[0] != JPEG_SCAN:
        is_unread |= marker[1] in UNREAD_FRAMES
        at = marker.end() + int.from_bytes(encoded[marker.end() : marker.end() + 2])
    # of the first scan's colours; without a scan the file is damaged
    is_partial = encoded[marker.end() + 2] < len(opened.getbands())
    num_scans = 1
    if is_partial or "progressive" in opened.info:
        num_scans = encoded.count(JPEG_SCAN)
        # two bytes a sample are kept until the last scan
        areas = [across * down for _, across, down, _ in opened.layer]
        check_size(encoded, *opened.size, 2 * sum(areas) / max(areas))
    reasons = {
        "is a lossless or hierarchical one: export it as a usual one": is_unread,
        "has too many scans: export it again": (
            opened.width * opened.height * num_scans > MAX_SCANNED
        ),
    }
    refuse("JPEG", reasons)


def check_size(encoded: bytes, width: int, height: int, num_bytes: float) -> None:
    """Refuse, by its header alone, a picture that would take too much memory to decode.

    Args:
        encoded: the file.
        width: of the picture [px].
        height: of the picture [px].
        num_bytes: per pixel, that decoding takes with all copies.
    """
    num_pixels = width * height
    is_large = num_pixels > MAX_PIXELS or max(width, height) > MAX_SIDE
    if is_large or len(encoded) + num_pixels * num_bytes > MAX_MEMORY:
        raise UnreadableImageError(
            f"{width} x {height} px are too many pixels: export the photograph as a smaller JPEG"
        )


def refuse(kind: str, reasons: dict[str, bool]) -> None:
    """Refuse a file for the first of the reasons that holds, each with what to do."""
    for reason, holds in reasons.items():
        if holds:
            raise UnreadableImageError(f"the {kind} {reason}")


def to_rgb(samples: np.ndarray) -> np.ndarray:
    """Convert samples to (height, width, 3) uint8 RGB.

    Args:
        samples: uint8, (height, width) of grey, or (height, width, 3 or 4) of RGB and opacity; what
            is half or more transparent becomes black, its colour is left to chance.
    """
    if samples.ndim == 2:
        return cv2.cvtColor(samples, cv2.COLOR_GRAY2RGB)
    if samples.shape[2] == 3:
        return np.ascontiguousarray(samples)
    is_shown = samples[..., 3] > 127
    return cv2.copyTo(cv2.cvtColor(samples, cv2.COLOR_RGBA2RGB), is_shown.view(np.uint8))


def decode(picture: Picture, reduction: int) -> tuple[np.ndarray, set[str]]:
    """Decode as stored, shrunk by exactly that factor, which saves time for a JPEG.

    Returns:
        (height, width, 3) uint8 RGB, and flags: of a JPEG that is damaged inside doubtful.

    Raises:
        UnreadableImageError: a JPEG is cut short, or nothing of it can be decoded.
    """
    if picture.pixels is None:
        return _decode_jpeg(picture, reduction)
    image = picture.pixels
    while reduction > 1:
        image = halve(image)
        reduction //= 2
    return image, set()


def _decode_jpeg(picture: Picture, reduction: int) -> tuple[np.ndarray, set[str]]:
    """Decode a JPEG; its pixels are OpenCV's to the bit, which stays silent about damage."""
    try:
        image = simplejpeg.decode_jpeg(
            picture.encoded,
            "RGB",
            min_factor=reduction,
            min_height=-(-picture.height // reduction),
            min_width=-(-picture.width // reduction),
        )
        return image, set()
    except ValueError as error:
        reason = str(error)
    if "memory" in reason:
        raise MemoryError(reason)
    flags = getattr(cv2, f"IMREAD_REDUCED_GRAYSCALE_{reduction}", 0) | cv2.IMREAD_COLOR_RGB
    buffer = np.frombuffer(picture.encoded, np.uint8)
    image = cv2.imdecode(buffer, flags | cv2.IMREAD_IGNORE_ORIENTATION)
    # what is missing would be grey
    is_cut = image is None or "remature end" in reason
    refuse("JPEG", {"is damaged or cut short: copy or export it again": is_cut})
    # of subsampling simplejpeg knows the common ways
    return image, set() if "subsampling" in reason else {"doubtful"}
