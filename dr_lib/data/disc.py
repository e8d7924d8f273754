"""Find the disc that the retina fills in a decoded fundus photograph."""

from collections.abc import Iterator
from typing import NamedTuple

import cv2
import numpy as np

from dr_lib.data.fits import Ellipse, fit_circle_of_most, fit_circle_robustly, fit_robustly, median

SEARCH_SIDE = 256  # px of the longer side on which the disc is first looked for
ANGLES = np.linspace(0, 2 * np.pi, 360, endpoint=False)
RAYS = np.column_stack([np.cos(ANGLES), np.sin(ANGLES)])  # directions in which the edge is looked for
FEW_RAYS = RAYS[::3]  # as long as it is only roughly known
ROUGH, FINE = 0.01, 0.003  # tolerances for a circle: an ellipse of 0.98 misses its best circle by 0.005


class NoFundusError(ValueError):
    """The picture shows no disc that could be a retina."""


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
    small = _shrink(image)
    background = _background(small)
    best = _search(small, background)
    if best is None:
        return _full_frame(small, image.shape)
    (x, y, a, b), _ = _refine(small, background, best, FEW_RAYS, 0.10, ROUGH)
    to_x, to_y = width / small.shape[1], height / small.shape[0]
    best = (x + 0.5) * to_x - 0.5, (y + 0.5) * to_y - 0.5, a * to_x, b * to_y
    (x, y, a, b), is_ellipse = _refine(image, background, best, RAYS, 0.03, FINE)
    overhang = max(a - x - 0.5, b - y - 0.5, x + a - width + 0.5, y + b - height + 0.5)
    words = {"ellipse"} if is_ellipse else set()
    return Disc(x, y, a, b, frozenset(words | ({"clipped"} if overhang > 0.01 * a + 1 else set())))


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


def _distance(image: np.ndarray, background: np.ndarray) -> np.ndarray:
    """How far each pixel is from the background, in the channel where it is farthest: uint8."""
    red, green, blue = cv2.split(cv2.absdiff(image, (*background.tolist(), 0)))
    return cv2.max(cv2.max(red, green), blue)


def _search(small: np.ndarray, background: np.ndarray) -> Ellipse | None:
    """The candidate with the strongest edge, if any has one."""
    distance = _distance(cv2.GaussianBlur(small, (3, 3), 0.8), background)
    found: list[tuple[float, Ellipse]] = []
    for mask in _masks(distance):
        points = _outline(mask)
        if len(points) < 12 or any(_explains(ellipse, points) for _, ellipse in found):
            continue
        for ellipse in _candidates(points):
            score = _edge_score(distance, ellipse) if _plausible(ellipse, small.shape) else 0.0
            if score > 0:
                found.append((score, ellipse))
        if found and max(found)[0] > 0.5 * cv2.mean(distance, mask)[0]:
            break  # a halo's end has 0.1 to 0.4, the retina's of most photographs 0.5 to 1
    return max(found)[1] if found else None


def _explains(ellipse: Ellipse, points: np.ndarray) -> bool:
    """Whether the ellipse passes within 1.2 % of most points: then they would only find it again."""
    x, y, a, b = ellipse
    misses = np.abs(np.hypot((points[:, 0] - x) / a, (points[:, 1] - y) / b) - 1)
    return np.count_nonzero(misses < 0.012) > 0.8 * len(points)


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
    """At most 120 points of the largest shape's contour, without what lies on the frame: (n, 2) px."""
    contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    if not contours:
        return np.empty((0, 2))
    points = max(contours, key=cv2.contourArea)[:, 0].astype(float)
    height, width = mask.shape
    x, y = points.T
    points = points[(x > 2) & (y > 2) & (x < width - 3) & (y < height - 3)]
    return points[:: len(points) // 120 + 1]


def _candidates(points: np.ndarray) -> Iterator[Ellipse]:
    """What fits an outline as a whole, and if that misses much of it the circle through most of it."""
    ellipse, _ = fit_robustly(points, ROUGH)
    yield ellipse
    if not _explains(ellipse, points) and (circle := fit_circle_of_most(points)):
        yield circle


def _plausible(ellipse: Ellipse, shape: tuple[int, ...]) -> bool:
    x, y, a, b = ellipse
    radius = (a + b) / 2
    height, width = shape[:2]
    inside = -0.1 * width < x < 1.1 * width and -0.1 * height < y < 1.1 * height
    return inside and 0.12 * min(height, width) < radius < 0.75 * max(height, width)


def _sample_rays(
    image: np.ndarray, ellipse: Ellipse, rays: np.ndarray, depths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Follow rays from the centre outwards, at those fractions of the semi-axes.

    Returns:
        What the image shows there, (rays, depths, ...); and how many samples of each ray, from the first on, lie
        inside the frame, (rays,). A sample beyond the frame has the value of the nearest pixel.
    """
    x, y, a, b = ellipse
    at_x = (x + np.outer(a * rays[:, 0], depths)).astype(np.float32)
    at_y = (y + np.outer(b * rays[:, 1], depths)).astype(np.float32)
    height, width = image.shape[:2]
    inside = (at_x >= 0.5) & (at_y >= 0.5) & (at_x <= width - 1.5) & (at_y <= height - 1.5)
    num_inside = np.where(inside.all(axis=1), len(depths), inside.argmin(axis=1))
    return cv2.remap(image, at_x, at_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE), num_inside


def _edge_score(distance: np.ndarray, ellipse: Ellipse) -> float:
    """Strength of the step at the edge, times how much of the edge shows it and of the inside is no background."""
    depths = np.array([0.3, 0.45, 0.6, 0.7, 0.8, 0.86, 0.92, 0.96, 1.03, 1.06])
    values, num_inside = _sample_rays(distance, ellipse, FEW_RAYS, depths)
    visible = num_inside >= 9
    if visible.mean() < 0.03:  # of a disc that all four sides of the frame cut, the corners show 4 to 10 %
        return 0.0
    inner, outer = values[visible, 6:8].mean(axis=1), values[visible, 8:].mean(axis=1)
    step = inner - outer
    clear = (step > 3) & (outer < 0.7 * inner)
    filled = np.count_nonzero(values[:, :8] > 2) / values[:, :8].size  # 2: a disc of 10 % brightness has 4 to 20
    if clear.mean() < 0.5 or filled < 0.75:  # text fills 51 %, the emptiest of 833 photographs 91 %
        return 0.0
    return float((clear * step).mean() * np.sqrt(visible.mean()) * filled)


def _refine(
    image: np.ndarray, background: np.ndarray, ellipse: Ellipse, rays: np.ndarray, reach: float, tolerance: float
) -> tuple[Ellipse, bool]:
    """Locate the edge along rays with sub-pixel precision, drop outliers, and decide between circle and ellipse."""
    depths = np.linspace(1 - reach, 1 + reach, int(np.clip(3 * reach * ellipse[2], 16, 64)))
    values, num_inside = _sample_rays(image, ellipse, rays, depths)
    clear, edges = _find_edges(_distance(values, background), num_inside, depths)
    if len(edges) < 0.06 * len(rays):
        raise NoFundusError("no edge of a disc stands out from the background")
    points = ellipse[:2] + edges[:, None] * ellipse[2:] * rays[clear]
    if len(edges) < 0.25 * len(rays):  # a short arc says little about its shape
        return fit_circle_robustly(points), False
    return fit_robustly(points, tolerance)


def _find_edges(values: np.ndarray, num_inside: np.ndarray, depths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which rays have one clear fall inside the frame, and the depth where it is steepest in each of those."""
    smooth = cv2.GaussianBlur(values.astype(np.float32), (7, 3), sigmaX=1.0, sigmaY=0.6)
    falls = smooth[:, :-2] - smooth[:, 2:]
    falls[np.arange(falls.shape[1]) + 3 >= num_inside[:, None]] = 0
    at = falls[:, 1:-1].argmax(axis=1) + 1
    rows = np.arange(len(at))
    left, peak, right = falls[rows, at - 1], falls[rows, at], falls[rows, at + 1]
    curvature = left - 2 * peak + right
    shift = np.where(curvature < 0, (left - right) / (2 * np.minimum(curvature, -1e-6)), 0)
    inner, outer = smooth[:, 0], smooth[rows, num_inside - 1]
    clear = (inner - outer > 3) & (outer < 0.7 * inner) & (peak > 0) & (np.abs(shift) <= 1)
    return clear, (depths[at + 1] + shift * (depths[1] - depths[0]))[clear]


def _full_frame(small: np.ndarray, shape: tuple[int, ...]) -> Disc:
    """Accept a picture without any background if all its borders have the colour of a retina."""
    height, width = small.shape[:2]
    k = max(2, min(height, width) // 24)
    borders = [small[:k], small[-k:], small[:, :k], small[:, -k:]]
    colours = np.array([np.median(border.reshape(-1, 3), axis=0) for border in borders])
    reddish = (colours[:, 0] > 1.2 * colours[:, 1]) & (colours[:, 1] >= colours[:, 2]) & (colours[:, 0] > 40)
    rough = np.abs(np.diff(small.astype(np.float32), axis=1)).mean()
    if not reddish.all() or rough > 12:
        raise NoFundusError("no disc stands out from the background")
    height, width = shape[:2]
    radius = np.hypot(width, height) / 2
    return Disc((width - 1) / 2, (height - 1) / 2, radius, radius, frozenset({"full_frame"}))
