"""Find the disc that the retina fills in a decoded fundus photograph."""

from collections.abc import Iterator
from typing import NamedTuple

import cv2
import numpy as np

from dr_lib.data.photograph.edge import FEW_RAYS, FINE, RAYS, ROUGH, locate_edge, measure_distance, score_edge
from dr_lib.data.photograph.fits import Ellipse, drop_straight, explains, fit_circle_of_most, fit_robustly, median
from dr_lib.data.photograph.plausibility import NoFundusError, check_full_frame, check_retina

SEARCH_SIDE = 256  # px of the longer side on which the disc is first looked for
MIN_PIXELS = 16  # of the shorter side
MIN_POINTS = 12  # of an outline; fewer say nothing


class Disc(NamedTuple):
    """An axis-parallel ellipse, in pixels of the array it was found in; the centre of the first pixel is (0, 0)."""

    x: float
    y: float
    a: float  # horizontal semi-axis
    b: float  # vertical semi-axis
    words: frozenset[str]  # of clipped, ellipse, full_frame


def find_disc(image: np.ndarray) -> Disc:
    """Find the disc in a decoded photograph.

    The background is one colour, whatever it is; the retina differs from it inside a circle, or an ellipse where
    somebody squashed the picture. Candidates come from thresholds of that difference, the best is the one with the
    strongest edge along most of its arc, and its edge is then located along rays with sub-pixel precision.

    Args:
        image: (height, width, 3) uint8, RGB.

    Returns:
        The disc; it may reach past the image's borders. A retina that fills the frame without any border gets the
        circle around the frame.

    Raises:
        NoFundusError: the image shows no disc.
    """
    height, width = image.shape[:2]
    if min(height, width) < MIN_PIXELS:
        raise NoFundusError(f"{width} x {height} px are too few to show a disc")
    small = _shrink(image)
    half = halve(small)
    try:
        return _find_on_background(image, small, half)
    except NoFundusError as error:
        try:
            check_full_frame(half)
        except NoFundusError:
            raise error from None
    radius = float(np.hypot(width, height)) / 2
    return Disc((width - 1) / 2, (height - 1) / 2, radius, radius, frozenset({"full_frame"}))


def _find_on_background(image: np.ndarray, small: np.ndarray, half: np.ndarray) -> Disc:
    height, width = image.shape[:2]
    background = _background(small)
    best = _search(small, background)
    if best is None:
        raise NoFundusError("no disc stands out from the background")
    best = _scale(best, small.shape, image.shape)
    ellipse, is_ellipse, roundness = locate_edge(image, background, best, RAYS, 0.03, FINE)
    on_half = _scale(ellipse, image.shape, half.shape)
    check_retina(half, measure_distance(half, background), on_half, roundness, is_ellipse=is_ellipse)
    x, y, a, b = map(float, ellipse)
    overhang = max(a - x - 0.5, b - y - 0.5, x + a - width + 0.5, y + b - height + 0.5)
    words = {"ellipse"} if is_ellipse else set()
    return Disc(x, y, a, b, frozenset(words | ({"clipped"} if overhang > 0.01 * a + 1 else set())))


def _scale(ellipse: Ellipse, old: tuple[int, ...], new: tuple[int, ...]) -> Ellipse:
    """The same ellipse in a copy of the picture, both given by their shapes."""
    x, y, a, b = ellipse
    to_x, to_y = new[1] / old[1], new[0] / old[0]
    return (x + 0.5) * to_x - 0.5, (y + 0.5) * to_y - 0.5, a * to_x, b * to_y


def halve(image: np.ndarray) -> np.ndarray:
    """Average every 2 x 2 pixels, ten times as fast as shrinking by any other factor; an odd last one is left out."""
    wanted = [max(1, length // 2) for length in image.shape[:2]]
    return cv2.resize(image[: 2 * wanted[0], : 2 * wanted[1]], wanted[::-1], interpolation=cv2.INTER_AREA)


def _shrink(image: np.ndarray) -> np.ndarray:
    """A copy whose longer side is SEARCH_SIDE, or the image itself where it is smaller."""
    while max(image.shape[:2]) >= 2 * SEARCH_SIDE:
        image = halve(image)
    factor = SEARCH_SIDE / max(image.shape[:2])
    wanted = [max(1, round(length * factor)) for length in image.shape[1::-1]]
    return cv2.resize(image, wanted, interpolation=cv2.INTER_LINEAR) if factor < 1 else image


def _background(image: np.ndarray) -> np.ndarray:
    """The colour of the corners, (3,) uint8."""
    k = max(2, min(image.shape[:2]) // 24)
    ends = (slice(k), slice(-k, None))
    corners = [image[y, x].reshape(-1, 3) for y in ends for x in ends]
    return median(np.concatenate(corners))


def _search(small: np.ndarray, background: np.ndarray) -> Ellipse | None:
    """The candidate with the strongest edge, if any has one, drawn to that edge."""
    distance = measure_distance(cv2.GaussianBlur(small, (3, 3), 0.8), background)
    found: list[tuple[float, Ellipse]] = []
    for mask in _masks(distance):
        points = _outline(mask)
        if len(points) < MIN_POINTS or any(explains(ellipse, points) for _, ellipse in found):
            continue
        for ellipse in _candidates(points):
            score = score_edge(distance, ellipse) if _plausible(ellipse, small.shape) else 0.0
            if score > 0:
                found.append((score, ellipse))
        strength = max(found)[0] / cv2.mean(distance, mask)[0] if found else 0
        if strength > 0.5:  # a halo has 0.1 to 0.75, most photographs 0.6 to 1
            break
    if not found:
        return None
    score, best = max(found)
    if strength > 0.76 and best[2] > SEARCH_SIDE / 4:
        return best  # sharp and large: no second look is needed
    closer, _, _ = locate_edge(small, background, best, FEW_RAYS, 0.07, ROUGH)
    if np.abs(np.subtract(closer, best)).max() > 0.02 * best[2] and score_edge(distance, closer) < 0.6 * score:
        return best  # the edges of a mask have drawn it away
    return closer


def _masks(distance: np.ndarray) -> Iterator[np.ndarray]:
    """Masks of what differs from the background, from a timid threshold to a bold one; of like ones the first."""
    otsu, _ = cv2.threshold(distance, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))
    last = 0
    for threshold in sorted({5, 10, 18, 30, *(int(otsu * k) for k in (0.6, 1.0, 1.4))}):
        mask = (distance > threshold).view(np.uint8)
        area = cv2.countNonZero(mask)
        if abs(area - last) > 0.02 * area:  # each lies within the one before, so like areas are like shapes
            last = area
            yield cv2.morphologyEx(mask, cv2.MORPH_OPEN, kernel)


def _outline(mask: np.ndarray) -> np.ndarray:
    """The largest shape's contour, without what lies on the frame: (n, 2) px."""
    contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    if not contours:
        return np.empty((0, 2))
    points = max(contours, key=cv2.contourArea)[:, 0].astype(float)
    height, width = mask.shape
    x, y = points.T
    return points[(x > 2) & (y > 2) & (x < width - 3) & (y < height - 3)]


def _candidates(points: np.ndarray) -> Iterator[Ellipse]:
    """What fits an outline as a whole, and if that misses much of it what fits the part that is not straight."""
    few = _thin_out(points)
    ellipse, _ = fit_robustly(few, ROUGH)
    yield ellipse
    if not explains(ellipse, few):
        curved = drop_straight(points)
        if len(curved) < MIN_POINTS:
            return
        if circle := fit_circle_of_most(_thin_out(curved)):
            yield circle
        if len(curved) < len(points):
            yield fit_robustly(_thin_out(curved), ROUGH)[0]


def _thin_out(points: np.ndarray) -> np.ndarray:
    """At most 120 of the points, evenly chosen."""
    return points[:: len(points) // 120 + 1]


def _plausible(ellipse: Ellipse, shape: tuple[int, ...]) -> bool:
    x, y, a, b = ellipse
    radius = (a + b) / 2
    height, width = shape[:2]
    inside = -0.1 * width < x < 1.1 * width and -0.1 * height < y < 1.1 * height
    return inside and 0.12 * min(height, width) < radius < 0.75 * max(height, width)
