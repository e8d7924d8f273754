"""Read a fundus photograph and crop it to the disc of the retina."""

import io
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image

from dr_lib.data.disc import Disc, NoFundusError, find_disc

METHODS = ("robust", "voets")
MAX_PIXELS = 150_000_000  # a 12,000 px square; more is no fundus camera but a decompression bomb
MAX_SIDE = 30_000  # px; OpenCV's remap counts in 16 bits
OVERSAMPLING = 1.5  # the disc is decoded at least that many times as large as the crop wants it
TRANSPOSITIONS = {  # EXIF orientation -> how to make the picture upright
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: np.rot90(a),
}


class UnreadableImageError(ValueError):
    """The file is missing, empty, damaged, too large or no picture."""


class Circle(NamedTuple):
    """A circle in an image; every field is in pixels, the centre of the first pixel being (0, 0)."""

    x: float
    y: float
    radius: float


class Crop(NamedTuple):
    """A photograph cropped to its disc."""

    image: np.ndarray  # (size, size, 3) uint8 RGB, black outside the disc
    circle: Circle  # in pixels of the whole upright photograph
    status: str  # ok, or sorted words joined by + out of clipped, ellipse, full_frame, truncated


def crop_fundus(source: str | Path | bytes, size: int = 299, *, method: str = "robust") -> Crop:
    """Crop a fundus photograph to the disc of the retina.

    Args:
        source: a picture file that Pillow and OpenCV read (JPEG, PNG, TIFF, BMP, WebP), or its bytes.
        size: side of the crop [px]; the disc touches its sides.
        method: robust, which works on any background and keeps the EXIF orientation; or voets, the steps of
            Voets et al. 2019 with their faults, to repeat the papers' preprocessing.

    Returns:
        The crop. A disc squashed to an ellipse is straightened, its circle has the mean of the two semi-axes as
        radius. A retina that fills the frame without a border gets the circle around the frame, so nothing is lost.

    Raises:
        UnreadableImageError: there is no picture to be had from the source.
        NoFundusError: the picture shows no disc.
    """
    if method not in METHODS:
        raise ValueError(f"method {method!r}: choose from {', '.join(METHODS)}")
    encoded = _read(source)
    width, height, is_jpeg, orientation = _read_header(encoded)
    if method == "voets":
        return _crop_voets(_decode(encoded, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION), size)
    truncated = is_jpeg and encoded.rfind(b"\xff\xd9") < encoded.rfind(b"\xff\xda")
    if truncated:
        encoded += b"\xff\xd9"  # the end marker, without which OpenCV gives nothing; what lacks becomes one flat colour
    reduction = _reduction(min(width, height), size) if is_jpeg else 1
    while True:
        image = _decode_upright(encoded, reduction, orientation)
        there = image[: _num_rows_decoded(image)] if truncated else image
        disc = find_disc(there)
        smaller = _reduction(2 * min(disc.a, disc.b) * reduction, size)
        if smaller >= reduction:
            break
        reduction = smaller  # the disc is smaller than the frame promised
    words = disc.words
    if truncated:
        if disc.y + 0.2 * disc.b > len(there):  # more than about 40 % of its area is missing
            raise UnreadableImageError("the file is cut short and most of the disc is missing")
        words |= {"truncated"}
    if orientation in (5, 6, 7, 8):
        width, height = height, width
    factor_x, factor_y = width / image.shape[1], height / image.shape[0]
    circle = Circle(
        (disc.x + 0.5) * factor_x - 0.5, (disc.y + 0.5) * factor_y - 0.5, (disc.a * factor_x + disc.b * factor_y) / 2
    )
    return Crop(_place(there, disc, size), circle, "+".join(sorted(words)) or "ok")


def _read(source: str | Path | bytes) -> bytes:
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


def _read_header(encoded: bytes) -> tuple[int, int, bool, int]:
    """Width, height, whether it is a JPEG, and the EXIF orientation, without decoding a pixel."""
    try:
        with Image.open(io.BytesIO(encoded)) as header:
            width, height = header.size
            has_exif = header.format != "PNG" or "exif" in header.info  # else Pillow decodes a PNG to look for it
            small = width * height <= MAX_PIXELS and max(width, height) <= MAX_SIDE
            orientation = header.getexif().get(0x0112, 1) if small and has_exif else 1
            found = width, height, header.format in ("JPEG", "MPO"), orientation
    except Image.DecompressionBombError as error:
        raise UnreadableImageError("the header promises too many pixels for a photograph") from error
    except Exception as error:  # Pillow's readers raise whatever the damage leads them to
        raise UnreadableImageError("not a picture, or one with a damaged header") from error
    if not small:
        raise UnreadableImageError(f"{width} x {height} px are too many for a photograph")
    return found


def _reduction(disc_px: float, size: int) -> int:
    """The largest power of two, up to 8, by which a JPEG may be shrunk while it is decoded."""
    return next((k for k in (8, 4, 2) if disc_px / k >= OVERSAMPLING * size), 1)


def _decode(encoded: bytes, flags: int) -> np.ndarray:
    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), flags)
    if image is None or image.size == 0:
        raise UnreadableImageError("the picture is damaged or of a kind that OpenCV does not read")
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def _decode_upright(encoded: bytes, reduction: int, orientation: int) -> np.ndarray:
    flags = {1: cv2.IMREAD_COLOR, 2: cv2.IMREAD_REDUCED_COLOR_2, 4: cv2.IMREAD_REDUCED_COLOR_4}
    image = _decode(encoded, flags.get(reduction, cv2.IMREAD_REDUCED_COLOR_8) | cv2.IMREAD_IGNORE_ORIENTATION)
    return np.ascontiguousarray(TRANSPOSITIONS.get(orientation, lambda a: a)(image))


def _num_rows_decoded(image: np.ndarray) -> int:
    """Rows before the flat colour with which the decoder fills what a cut file lacks."""
    flat = np.ptp(image.reshape(len(image), -1, 3).astype(int), axis=1).max(axis=1) <= 2
    same = np.abs(np.diff(image[:, 0].astype(int), axis=0)).max(axis=1) <= 2
    filled = 0
    while filled < len(image) - 1 and flat[-1 - filled] and (filled == 0 or same[-filled]):
        filled += 1
    return len(image) - filled


def _place(image: np.ndarray, disc: Disc, size: int) -> np.ndarray:
    """Shrink the disc's region by area, then place it with one sub-pixel step; black outside the disc."""
    height, width = image.shape[:2]
    left, top = max(0, int(disc.x - disc.a) - 2), max(0, int(disc.y - disc.b) - 2)
    right, bottom = min(width, int(disc.x + disc.a) + 4), min(height, int(disc.y + disc.b) + 4)
    region = image[top:bottom, left:right]
    scale_x, scale_y = min(1.0, size / (2 * disc.a)), min(1.0, size / (2 * disc.b))
    wanted = max(1, round(region.shape[1] * scale_x)), max(1, round(region.shape[0] * scale_y))
    shrunk = cv2.resize(region, wanted, interpolation=cv2.INTER_AREA)  # bilinear would alias
    per_x, per_y = shrunk.shape[1] / region.shape[1], shrunk.shape[0] / region.shape[0]
    x, y = (disc.x - left + 0.5) * per_x - 0.5, (disc.y - top + 0.5) * per_y - 0.5
    step_x, step_y = 2 * disc.a * per_x / size, 2 * disc.b * per_y / size
    centre = (size - 1) / 2
    inverse = np.array([[step_x, 0, x - step_x * centre], [0, step_y, y - step_y * centre]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    crop = cv2.warpAffine(shrunk, inverse, (size, size), flags=flags, borderMode=cv2.BORDER_CONSTANT)
    offsets = (np.arange(size) - centre) ** 2
    return cv2.copyTo(crop, (offsets[:, None] + offsets <= (size / 2) ** 2).view(np.uint8))


def _crop_voets(image: np.ndarray, size: int) -> Crop:
    """The steps of Voets et al. 2019 as their published code does them, uint8 overflow included."""
    values = np.arange(256) / (255 / 1.5)
    contrast = (255 / 1.3 * values**2).astype(np.int64).astype(np.uint8)  # from 195 on it starts again at 0
    grey = cv2.cvtColor(contrast[image], cv2.COLOR_RGB2GRAY)
    contours, _ = cv2.findContours((grey > 0).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    if not contours:
        raise NoFundusError("Voets et al.: nothing is bright enough")
    largest = max(contours, key=cv2.contourArea)
    moments = cv2.moments(largest)
    radius = cv2.minEnclosingCircle(largest)[1]
    if radius <= 100 or moments["m00"] == 0:
        raise NoFundusError("Voets et al.: the disc has a radius of 100 px or less")
    x, y = moments["m10"] / moments["m00"], moments["m01"] / moments["m00"]
    left, top, side = int(x - radius), int(y - radius), int(2 * radius)
    region = image[max(0, top) : max(0, top + side), max(0, left) : max(0, left + side)]
    factor = size / 2 / radius
    shrunk = cv2.resize(np.ascontiguousarray(region), None, fx=factor, fy=factor, interpolation=cv2.INTER_LINEAR)
    crop = np.zeros((size, size, 3), np.uint8)
    shrunk = shrunk[:size, :size]
    at_y, at_x = (size - shrunk.shape[0]) // 2, (size - shrunk.shape[1]) // 2
    crop[at_y : at_y + shrunk.shape[0], at_x : at_x + shrunk.shape[1]] = shrunk
    return Crop(crop, Circle(x, y, radius), "ok")
