"""Find the field of view, which shows the retina, in a decoded fundus photograph."""

from typing import NamedTuple

import cv2
import numpy as np

from dr_lib.data.photograph.edge import locate_edge, scale, search, upper_median
from dr_lib.data.photograph.errors import NoFundusError
from dr_lib.data.photograph.pixels import halve
from dr_lib.data.photograph.plausibility import CORNER, is_doubtful, is_red

MIN_ROUNDNESS = 0.4  # of the edge, on the circle: photographs have 0.47 and more, a square 0.13
SEARCH_SIDE = 256  # px of the longer side on which the field of view is first looked for
# of the radius, and one px more: beyond it the frame clips the field of view
MAX_OVERHANG = 0.01
# grey levels by which both upper corners differ from the lower ones: 1,241 photographs have 5 at
# most, and damage inside a JPEG shifts all that follows it
MAX_SHIFT = 12


class FieldOfView(NamedTuple):
    """An axis-parallel ellipse, in pixels of its array, where the first pixel is (0, 0)."""

    x: float
    y: float
    a: float  # horizontal semi-axis
    b: float  # vertical semi-axis
    flags: set[str]  # of clipped, doubtful, ellipse, full_frame


def find_fov(image: np.ndarray) -> FieldOfView:
    """Find the field of view in a decoded photograph.

    The background has one colour, whichever it is; the retina differs from it inside a circle, or
    inside an ellipse where the picture was squashed. Thresholds of that difference give candidates,
    the best has the strongest edge along most of its arc, and its edge is then located along rays
    with sub-pixel precision.

    Args:
        image: (height, width, 3) uint8, RGB.

    Returns:
        The field of view; it may reach past the image's borders. Of a retina that fills the frame
        without any border it is the circle around the frame.

    Raises:
        NoFundusError: the image shows none.
    """
    height, width = image.shape[:2]
    if min(height, width) < 16:  # of the shorter side
        raise NoFundusError(f"{width} x {height} px are too few to show a field of view")
    small = _shrink(image)
    half = halve(small)
    k = max(2, min(small.shape[:2]) // CORNER)
    ends = slice(k), slice(-k, None)
    corners = [small[y, x].reshape(-1, 3) for y in ends for x in ends]
    background = upper_median(np.concatenate(corners))
    flags = set()
    try:
        guess = scale(search(small, background), small.shape, image.shape)
        ellipse, is_ellipse, roundness = locate_edge(image, background, guess)
        if roundness < MIN_ROUNDNESS:
            raise NoFundusError("the region that stands out from the background is not round")
    except NoFundusError:
        if not is_red(half):
            raise
        radius = float(np.hypot(width, height)) / 2
        ellipse = (width - 1) / 2, (height - 1) / 2, radius, radius
        flags.add("full_frame")
    else:
        x, y, a, b = ellipse
        overhang = max(a - x - 0.5, b - y - 0.5, x + a - width + 0.5, y + b - height + 0.5)
        if is_ellipse:
            flags.add("ellipse")
        if overhang > MAX_OVERHANG * a + 1:
            flags.add("clipped")
        upper, lower = np.int16([upper_median(corner) for corner in corners]).reshape(2, 2, 3)
        if np.abs(upper - lower).max(axis=1).min() > MAX_SHIFT:
            flags.add("doubtful")
    if is_doubtful(half, background, scale(ellipse, image.shape, half.shape)):
        flags.add("doubtful")
    return FieldOfView(*map(float, ellipse), flags)


def _shrink(image: np.ndarray) -> np.ndarray:
    """Shrink to a longer side of SEARCH_SIDE; return a smaller image unchanged."""
    while max(image.shape[:2]) >= 2 * SEARCH_SIDE:
        image = halve(image)
    factor = SEARCH_SIDE / max(image.shape[:2])
    if factor >= 1:
        return image
    size = [max(1, round(length * factor)) for length in image.shape[1::-1]]
    return cv2.resize(image, size)
