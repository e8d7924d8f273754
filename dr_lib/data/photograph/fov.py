"""Find the field of view, where the retina shows, in a decoded fundus photograph."""

from collections.abc import Iterator
from typing import NamedTuple

import cv2
import numpy as np

from dr_lib.data.photograph import edge
from dr_lib.data.photograph.edge import Ellipse
from dr_lib.data.photograph.errors import NoFundusError
from dr_lib.data.photograph.plausibility import CORNER, is_doubtful, is_doubtful_frame

SEARCH_SIDE = 256  # px of the longer side on which the field of view is first looked for
MIN_PIXELS = 16  # of the shorter side
MIN_POINTS = 12
MAX_POINTS = 120  # of an outline: fewer say nothing, more say nothing new
FRAME = 2  # px; an outline that near to the frame is the frame's
LEVELS = (5, 10, 18, 30)
OTSU_FACTORS = (0.6, 1.0, 1.4)  # thresholds of the distance: fixed ones, and Otsu's times
# Strength of an edge by the mean distance inside: a halo has 0.1 to 0.75, most photographs 0.6 to
# 1.
ENOUGH = 0.5
SHARP = 0.76  # no higher threshold is tried; no second look is taken
REACH_ROUGH = 0.07
REACH_FINE = 0.03  # of the radius: how far from the first guess its edge is looked for
MOVED = 0.02
# of the radius, of the score: moved farther and weaker than that, a mask's edge was followed
WEAKER = 0.6
MIN_RADIUS = 0.12
MAX_RADIUS = 0.75  # of the shorter and of the longer side
MAX_OFF = 0.1  # of the side, by which the centre may lie outside the frame
MAX_OVERHANG = 0.01  # of the radius, and one px more: beyond it the frame clips the field of view


class FieldOfView(NamedTuple):
    """An axis-parallel ellipse, in pixels of the array it was found in; the centre of the first
    pixel is (0, 0).
    """

    x: float
    y: float
    a: float  # horizontal semi-axis
    b: float  # vertical semi-axis
    flags: frozenset[str]  # of clipped, doubtful, ellipse, full_frame


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
    if min(height, width) < MIN_PIXELS:
        raise NoFundusError(f"{width} x {height} px are too few to show a field of view")
    small = _shrink(image)
    half = halve(small)
    try:
        return _find_on_background(image, small, half)
    except NoFundusError as error:
        try:
            flags = {"full_frame"} | ({"doubtful"} if is_doubtful_frame(half) else set())
        except NoFundusError:
            raise error from None
    radius = float(np.hypot(width, height)) / 2
    return FieldOfView((width - 1) / 2, (height - 1) / 2, radius, radius, frozenset(flags))


def halve(image: np.ndarray) -> np.ndarray:
    """Average every 2 x 2 pixels, ten times as fast as shrinking by any other factor; an odd
    last one is dropped.
    """
    height, width = (max(1, length // 2) for length in image.shape[:2])
    return cv2.resize(
        image[: 2 * height, : 2 * width], (width, height), interpolation=cv2.INTER_AREA
    )


def _find_on_background(image: np.ndarray, small: np.ndarray, half: np.ndarray) -> FieldOfView:
    height, width = image.shape[:2]
    background = _find_background(small)
    best = _search(small, background)
    if best is None:
        raise NoFundusError("no field of view stands out from the background")
    best = _scale(best, small.shape, image.shape)
    ellipse, is_ellipse, roundness = edge.locate_edge(
        image, background, best, edge.RAYS, REACH_FINE, edge.FINE
    )
    on_half = _scale(ellipse, image.shape, half.shape)
    distance = edge.measure_distance(half, background)
    doubtful = is_doubtful(half, distance, on_half, roundness, is_ellipse=is_ellipse)
    x, y, a, b = map(float, ellipse)
    overhang = max(a - x - 0.5, b - y - 0.5, x + a - width + 0.5, y + b - height + 0.5)
    clipped = overhang > MAX_OVERHANG * a + 1
    known = {"ellipse": is_ellipse, "doubtful": doubtful, "clipped": clipped}
    return FieldOfView(x, y, a, b, frozenset(flag for flag, applies in known.items() if applies))


def _scale(ellipse: Ellipse, old: tuple[int, ...], new: tuple[int, ...]) -> Ellipse:
    """Scale an ellipse from a picture of one shape to its copy of another."""
    x, y, a, b = ellipse
    to_x = new[1] / old[1]
    to_y = new[0] / old[0]
    return (x + 0.5) * to_x - 0.5, (y + 0.5) * to_y - 0.5, a * to_x, b * to_y


def _shrink(image: np.ndarray) -> np.ndarray:
    """Shrink to a longer side of SEARCH_SIDE; a smaller image comes back itself."""
    while max(image.shape[:2]) >= 2 * SEARCH_SIDE:
        image = halve(image)
    factor = SEARCH_SIDE / max(image.shape[:2])
    size = [max(1, round(length * factor)) for length in image.shape[1::-1]]
    return cv2.resize(image, size, interpolation=cv2.INTER_LINEAR) if factor < 1 else image


def _find_background(image: np.ndarray) -> np.ndarray:
    """Find the median colour of the corners, (3,) uint8."""
    k = max(2, min(image.shape[:2]) // CORNER)
    ends = (slice(k), slice(-k, None))
    corners = [image[y, x].reshape(-1, 3) for y in ends for x in ends]
    return edge.median(np.concatenate(corners))


def _search(small: np.ndarray, background: np.ndarray) -> Ellipse | None:
    """Find the candidate with the strongest edge, if any has one, and fit it to that edge."""
    distance = edge.measure_distance(cv2.GaussianBlur(small, (3, 3), 0.8), background)
    found: list[tuple[float, Ellipse]] = []
    for mask in _threshold(distance):
        points = _outline(mask)
        if len(points) < MIN_POINTS or any(edge.explains(ellipse, points) for _, ellipse in found):
            continue
        for ellipse in _fit_candidates(points):
            score = (
                edge.score_edge(distance, ellipse) if _is_possible(ellipse, small.shape) else 0.0
            )
            if score > 0:
                found.append((score, ellipse))
        strength = max(found)[0] / cv2.mean(distance, mask)[0] if found else 0
        if strength > ENOUGH:
            break
    if not found:
        return None
    score, best = max(found)
    if strength > SHARP and best[2] > SEARCH_SIDE / 4:
        return best
    closer, _, _ = edge.locate_edge(small, background, best, edge.FEW_RAYS, REACH_ROUGH, edge.ROUGH)
    if (
        np.abs(np.subtract(closer, best)).max() > MOVED * best[2]
        and edge.score_edge(distance, closer) < WEAKER * score
    ):
        return best
    return closer


def _threshold(distance: np.ndarray) -> Iterator[np.ndarray]:
    """Yield masks of what differs from the background, from a low threshold to a high one, each
    unlike the last.
    """
    otsu, _ = cv2.threshold(distance, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))
    last = 0
    for threshold in sorted({*LEVELS, *(int(otsu * factor) for factor in OTSU_FACTORS)}):
        mask = (distance > threshold).view(np.uint8)
        area = cv2.countNonZero(mask)
        # each lies within the one before, so similar areas are similar shapes
        if abs(area - last) > 0.02 * area:
            last = area
            yield cv2.morphologyEx(mask, cv2.MORPH_OPEN, kernel)


def _outline(mask: np.ndarray) -> np.ndarray:
    """Find the largest shape's contour, without what lies on the frame: (n, 2) px."""
    contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    if not contours:
        return np.empty((0, 2))
    points = max(contours, key=cv2.contourArea)[:, 0].astype(float)
    height, width = mask.shape
    x, y = points.T
    return points[(x > FRAME) & (y > FRAME) & (x < width - 1 - FRAME) & (y < height - 1 - FRAME)]


def _fit_candidates(points: np.ndarray) -> Iterator[Ellipse]:
    """Fit an outline as a whole, and where much of it misses the fit, the part of it that is not
    straight.
    """
    few = _thin_out(points)
    ellipse, _ = edge.fit_robustly(few, edge.ROUGH)
    yield ellipse
    if not edge.explains(ellipse, few):
        curved = edge.drop_straight(points)
        if len(curved) < MIN_POINTS:
            return
        if circle := edge.fit_circle_of_most(_thin_out(curved)):
            yield circle
        if len(curved) < len(points):
            yield edge.fit_robustly(_thin_out(curved), edge.ROUGH)[0]


def _thin_out(points: np.ndarray) -> np.ndarray:
    """Choose at most MAX_POINTS of the points, evenly."""
    return points[:: len(points) // MAX_POINTS + 1]


def _is_possible(ellipse: Ellipse, shape: tuple[int, ...]) -> bool:
    """Whether centre and radius are such as a field of view may have."""
    x, y, a, b = ellipse
    height, width = shape[:2]
    is_inside = (
        -MAX_OFF * width < x < (1 + MAX_OFF) * width
        and -MAX_OFF * height < y < (1 + MAX_OFF) * height
    )
    return is_inside and MIN_RADIUS * min(height, width) < (a + b) / 2 < MAX_RADIUS * max(
        height, width
    )
