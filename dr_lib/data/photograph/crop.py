"""Read a fundus photograph and crop it to its field of view."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from dr_lib.data.photograph.decode import (
    MAX_MEMORY,
    Picture,
    check_size,
    choose_reduction,
    count_bytes,
    count_rows_decoded,
    decode,
    open_picture,
)
from dr_lib.data.photograph.errors import NoFundusError, UnreadableImageError
from dr_lib.data.photograph.fov import FieldOfView, find_fov, halve
from dr_lib.data.photograph.headers import Header

METHODS = ("robust", "voets")
# long by short side; where a camera's frame is nearly square, it is the long side that the retina
# fills
MAX_CUT = 1.3
MAX_STEP = 2.5  # px of the photograph per px of the crop, for the last step
# of the vertical semi-axis, below the centre, that a cut file must show: 60 % of the area or more
MIN_BELOW = 0.2
MIN_RADIUS_VOETS = 100  # px
SWAPPED = {5, 6, 7, 8}
MIRRORED = {2, 3, 6, 7}
FLIPPED = {3, 4, 7, 8}  # EXIF orientations, to be undone in this order


class Circle(NamedTuple):
    """A circle in an image; every field is in pixels, the centre of the first pixel being (0,
    0).
    """

    x: float
    y: float
    radius: float


class Crop(NamedTuple):
    """A photograph cropped to its field of view."""

    image: np.ndarray  # (size, size, 3) uint8 RGB, black outside the field of view
    circle: Circle  # in pixels of the whole upright photograph
    # ok, or sorted words joined by + out of clipped, doubtful, ellipse, full_frame, truncated
    status: str


def crop_fundus(source: str | Path | bytes, size: int = 299, *, method: str = "robust") -> Crop:
    """Crop a fundus photograph to its field of view.

    Args:
        source: a picture file (JPEG, PNG, TIFF, BMP, WebP, GIF, PPM), or its bytes.
        size: side of the crop [px]; the field of view touches its sides.
        method: robust, which works on any background and applies the EXIF orientation; or voets,
            the steps of Voets et al. 2019 with their faults, to repeat the papers' preprocessing.

    Returns:
        The crop. An ellipse, as of a squashed picture, is made a circle again, whose radius in the
        photograph is the mean of the two semi-axes. A retina that fills the frame without a border
        gets the circle around the frame, so that nothing is lost. Of a JPEG that was cut short the
        rows that are there are used.

    Raises:
        UnreadableImageError: the source is no picture that can be decoded, or most of its field of
            view is missing.
        NoFundusError: the picture shows no field of view.
    """
    if method not in METHODS:
        raise ValueError(f"method {method!r}: choose from {', '.join(METHODS)}")
    encoded, header, truncated = picture = open_picture(source)
    if method == "voets":
        if truncated:
            raise UnreadableImageError(
                "the file is cut short: Voets et al. would take what is missing for retina"
            )
        check_size(encoded, header, 1)
        return _crop_voets(decode(encoded, header, 1), size)
    image, fov, reduction, truncated = _decode_to_fit(picture, size)
    if truncated and fov.y + MIN_BELOW * fov.b > len(image):
        raise UnreadableImageError("the file is cut short and most of the field of view is missing")
    x = (fov.x + 0.5) * reduction - 0.5
    y = (fov.y + 0.5) * reduction - 0.5
    circle = Circle(x, y, (fov.a + fov.b) / 2 * reduction)
    crop, circle = _turn(_place(image, fov, size), circle, header)
    return Crop(
        crop, circle, "+".join(sorted(fov.flags | ({"truncated"} if truncated else set()))) or "ok"
    )


def _decode_to_fit(picture: Picture, size: int) -> tuple[np.ndarray, FieldOfView, int, bool]:
    """Decode as small as the field of view allows: the image, its field of view, its reduction,
    if rows are missing.
    """
    encoded, header, truncated = picture
    across, along = sorted(header[:2])
    is_likely_cut = header.format == "jpeg" and along < MAX_CUT * across
    reduction = choose_reduction(along if is_likely_cut else across, size)
    check_size(encoded, header, reduction)
    while True:
        image = decode(encoded, header, reduction)
        num_rows = count_rows_decoded(image, reduction) if header.format == "jpeg" else len(image)
        image, truncated = image[:num_rows], truncated or num_rows < len(image)
        try:
            fov = find_fov(image)
        except NoFundusError as error:
            if truncated:
                raise UnreadableImageError(
                    "the file is cut short, and the rest shows no field of view"
                ) from error
            raise
        smaller = choose_reduction(2 * min(fov.a, fov.b) * reduction, size)
        if smaller >= reduction or count_bytes(encoded, header, smaller) > MAX_MEMORY:
            return image, fov, reduction, truncated
        reduction = smaller  # the field of view is smaller than the frame


def _place(image: np.ndarray, fov: FieldOfView, size: int) -> np.ndarray:
    """Halve the region while it is far too large, smooth it, place it with one sub-pixel step;
    black outside.

    The step alone would alias. Smoothed as the mean over a pixel of the crop smooths, the sharpest
    of 40 real pictures comes within 42.4 dB of that mean (halved once more instead: 38.5 dB).
    """
    height, width = image.shape[:2]
    left = max(0, int(fov.x - fov.a) - 2)
    top = max(0, int(fov.y - fov.b) - 2)
    region = image[
        top : min(height, int(fov.y + fov.b) + 4), left : min(width, int(fov.x + fov.a) + 4)
    ]
    x = fov.x - left
    y = fov.y - top
    a = fov.a
    b = fov.b
    while min(a, b) >= MAX_STEP / 2 * size:
        region = halve(region)
        x = (x - 0.5) / 2
        y = (y - 0.5) / 2
        a = a / 2
        b = b / 2
    step_x = 2 * a / size
    step_y = 2 * b / size
    centre = (size - 1) / 2
    if max(step_x, step_y) > 1:
        region = cv2.GaussianBlur(
            region, (3, 3), _choose_sigma(step_x), sigmaY=_choose_sigma(step_y)
        )
    inverse = np.array([[step_x, 0, x - step_x * centre], [0, step_y, y - step_y * centre]])
    crop = cv2.warpAffine(
        region, inverse, (size, size), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    )
    return cv2.copyTo(crop, _circle_mask(size))


def _choose_sigma(step: float) -> float:
    """Choose sigma so that a kernel of three pixels has the variance of the mean over a step,
    step^2 / 12.
    """
    # weight of each neighbour; from 1/3 on they would outweigh the middle
    beside = min(step**2 / 24, 0.3)
    return float(np.sqrt(-0.5 / np.log(beside / (1 - 2 * beside))))


@cache
def _circle_mask(size: int) -> np.ndarray:
    """1 inside the circle that touches the sides of a square, 0 outside: (size, size) uint8."""
    offsets = (np.arange(size) - (size - 1) / 2) ** 2
    return (offsets[:, None] + offsets <= (size / 2) ** 2).view(np.uint8)


def turn_upright(image: np.ndarray, orientation: int) -> np.ndarray:
    """Turn a picture, (height, width, 3), by the EXIF orientation of its file."""
    image = image.transpose(1, 0, 2) if orientation in SWAPPED else image
    return np.ascontiguousarray(
        image[:: -1 if orientation in FLIPPED else 1, :: -1 if orientation in MIRRORED else 1]
    )


def _turn(crop: np.ndarray, circle: Circle, header: Header) -> tuple[np.ndarray, Circle]:
    """Turn upright a crop, and the circle in its photograph, both as stored."""
    x, y, radius = circle
    width, height = header[:2]
    if header.orientation in SWAPPED:
        x, y, width, height = y, x, height, width
    if header.orientation in MIRRORED:
        x = width - 1 - x
    if header.orientation in FLIPPED:
        y = height - 1 - y
    return turn_upright(crop, header.orientation), Circle(x, y, radius)


def _crop_voets(image: np.ndarray, size: int) -> Crop:
    """Crop by the steps of Voets et al. 2019 as their published code does them, to the pixel.

    Other pictures than 8-bit colour differ. There a grey picture was an error; 16 bits were
    stretched modulo 256 and came out nearly white; transparency was ignored. Here the steps begin
    with what `decode` gives: grey as colour, 16 bits scaled to 8, black where a pixel is
    transparent.
    """
    x, y, radius = circle = _find_voets(image)
    # a circle that the frame cuts on the left or top moves the window, which shows more on the
    # other side
    left = max(0, int(x - radius))
    top = max(0, int(y - radius))
    side = int(2 * radius)
    region = image[top : top + side, left : left + side]
    factor = size / 2 / radius
    if min(region.shape[:2]) * factor <= 0.5:
        raise NoFundusError(
            "Voets et al.: what is bright is a line, narrower than a pixel of the crop"
        )
    shrunk = cv2.resize(region, None, fx=factor, fy=factor, interpolation=cv2.INTER_LINEAR)
    height, width = shrunk.shape[:2]
    at_y = (size - height + 1) // 2
    at_x = (size - width + 1) // 2  # an odd pixel is added at the top and left
    crop = np.zeros((size, size, 3), np.uint8)
    crop[at_y : at_y + height, at_x : at_x + width] = shrunk
    return Crop(crop, circle, "ok")


def _find_voets(image: np.ndarray) -> Circle:
    """Find the centroid, in whole pixels, of the largest bright region, and the radius of the
    circle around it.
    """
    values = np.arange(256) / (255 / 1.5)
    # from 195 on it starts again at 0
    contrast = (255 / 1.3 * values**2).astype(np.int64).astype(np.uint8)
    grey = cv2.cvtColor(contrast[image], cv2.COLOR_RGB2GRAY)
    contours, _ = cv2.findContours(grey, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    if not contours:
        raise NoFundusError("Voets et al.: nothing is bright enough")
    largest = max(contours, key=cv2.contourArea)
    moments = cv2.moments(largest)
    radius = cv2.minEnclosingCircle(largest)[1]
    if radius <= MIN_RADIUS_VOETS or moments["m00"] == 0:
        raise NoFundusError(
            f"Voets et al.: the field of view has a radius of {MIN_RADIUS_VOETS} px or less"
        )
    return Circle(
        int(moments["m10"] / moments["m00"]), int(moments["m01"] / moments["m00"]), radius
    )
