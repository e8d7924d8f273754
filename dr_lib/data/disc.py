"""Find the disc that the retina fills in a decoded fundus photograph."""

from typing import NamedTuple

import cv2
import numpy as np

SEARCH_SIDE = 288  # px of the longer side on which the disc is first looked for
NUM_RAYS = 360


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
    factor = min(1.0, SEARCH_SIDE / max(height, width))
    small = cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA) if factor < 1 else image
    distance = _distance_from_background(small)
    best, best_score = None, 0.0
    for mask in _masks(distance):
        points = _outline(mask)
        for ellipse in _candidates(points) if len(points) >= 12 else ():
            score = _edge_score(distance, ellipse) if _plausible(ellipse, small.shape) else 0.0
            if score > best_score:
                best, best_score = ellipse, score
    if best is None:
        return _full_frame(small, image.shape)
    x, y, a, b = best
    start = (x + 0.5) / factor - 0.5, (y + 0.5) / factor - 0.5, a / factor, b / factor
    return _refine(_distance_from_background(image), start)


def _distance_from_background(image: np.ndarray) -> np.ndarray:
    """How far each pixel is from the colour of the corners, 0-255, softened against noise."""
    height, width = image.shape[:2]
    k = max(2, min(height, width) // 24)
    corners = np.concatenate(
        [image[y, x].reshape(-1, 3) for y in (slice(k), slice(-k, None)) for x in (slice(k), slice(-k, None))]
    )
    background = np.median(corners, axis=0).astype(np.float32)
    blurred = cv2.GaussianBlur(image.astype(np.float32), (0, 0), max(0.8, max(height, width) / 700))
    red, green, blue = cv2.split(cv2.absdiff(blurred, np.broadcast_to(background, blurred.shape)))
    return cv2.max(cv2.max(red, green), blue)


def _masks(distance: np.ndarray):
    """Masks of what differs from the background, from a timid threshold to a bold one."""
    scaled = np.clip(distance, 0, 255).astype(np.uint8)
    otsu, _ = cv2.threshold(scaled, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))
    for threshold in sorted({5, 10, 18, 30, *(int(otsu * k) for k in (0.6, 1.0, 1.4))}):
        yield cv2.morphologyEx((scaled > threshold).astype(np.uint8), cv2.MORPH_OPEN, kernel)


def _outline(mask: np.ndarray) -> np.ndarray:
    """The hull of the largest shape, filled in between its corners, without what lies on the frame: (n, 2) px."""
    contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    if not contours:
        return np.empty((0, 2))
    points = max(contours, key=cv2.contourArea)[:, 0].astype(float)
    height, width = mask.shape
    x, y = points.T
    points = points[(x > 2) & (y > 2) & (x < width - 3) & (y < height - 3)]
    return points[:: max(1, len(points) // 300)]


def _fit_circle(points: np.ndarray) -> tuple[float, float, float]:
    """Least squares on x^2 + y^2 = 2 x cx + 2 y cy + c (Kasa 1976)."""
    terms = np.column_stack([2 * points, np.ones(len(points))])
    cx, cy, c = np.linalg.lstsq(terms, (points**2).sum(axis=1), rcond=None)[0]
    return cx, cy, float(np.sqrt(max(c + cx**2 + cy**2, 0)))


def _fit_ransac(points: np.ndarray, draws: int = 160) -> tuple[float, float, float] | None:
    """The circle that most outline points lie on, refitted to them; seeded, so the same each time."""
    rng = np.random.default_rng(0)
    triples = points[rng.integers(0, len(points), (draws, 3))]
    a, b, c = triples[:, 0], triples[:, 1], triples[:, 2]
    d = 2 * (a[:, 0] * (b[:, 1] - c[:, 1]) + b[:, 0] * (c[:, 1] - a[:, 1]) + c[:, 0] * (a[:, 1] - b[:, 1]))
    valid = np.abs(d) > 1e-3
    a, b, c, d = a[valid], b[valid], c[valid], d[valid, None]
    if not len(d):
        return None
    squares = [(p**2).sum(axis=1, keepdims=True) for p in (a, b, c)]
    x = (squares[0] * (b - c)[:, 1:] + squares[1] * (c - a)[:, 1:] + squares[2] * (a - b)[:, 1:]) / d
    y = (squares[0] * (c - b)[:, :1] + squares[1] * (a - c)[:, :1] + squares[2] * (b - a)[:, :1]) / d
    radius = np.hypot(a[:, :1] - x, a[:, 1:] - y)
    misses = np.abs(np.hypot(points[:, 0] - x, points[:, 1] - y) - radius)
    tolerance = np.clip(0.02 * radius, 1.0, 4.0)
    inliers = misses[np.argmax((misses < tolerance).sum(axis=1))] < 2.0
    return _fit_circle(points[inliers]) if inliers.sum() >= 8 else None


def _candidates(points: np.ndarray):
    """The circle through most of an outline, and the ellipse that a squashed disc would leave."""
    circle = _fit_ransac(points)
    if circle:
        yield (*circle, circle[2])
    ellipse, is_ellipse = _fit_robustly(points)
    if is_ellipse:
        yield ellipse


def _plausible(ellipse: tuple[float, float, float, float], shape: tuple[int, ...]) -> bool:
    x, y, a, b = ellipse
    radius = (a + b) / 2
    height, width = shape[:2]
    inside = -0.1 * width < x < 1.1 * width and -0.1 * height < y < 1.1 * height
    return inside and 0.12 * min(height, width) < radius < 0.75 * max(height, width)


def _sample_rays(distance: np.ndarray, ellipse: tuple[float, float, float, float], depths: np.ndarray) -> np.ndarray:
    """Values along rays from the centre at those fractions of the semi-axes; NaN outside the frame: (rays, depths)."""
    x, y, a, b = ellipse
    angles = np.linspace(0, 2 * np.pi, NUM_RAYS, endpoint=False)[:, None]
    at_x = (x + a * depths * np.cos(angles)).astype(np.float32)
    at_y = (y + b * depths * np.sin(angles)).astype(np.float32)
    values = cv2.remap(distance, at_x, at_y, cv2.INTER_LINEAR)
    height, width = distance.shape
    outside = (at_x < 0.5) | (at_y < 0.5) | (at_x > width - 1.5) | (at_y > height - 1.5)
    return np.where(outside, np.nan, values)


def _edge_score(distance: np.ndarray, ellipse: tuple[float, float, float, float]) -> float:
    """How strong the step across the edge is, times the share of rays that show one; 0 without a disc."""
    values = _sample_rays(distance, ellipse, np.array([0.92, 0.96, 1.03, 1.06]))
    step = values[:, :2].mean(axis=1) - values[:, 2:].mean(axis=1)
    visible = ~np.isnan(step)
    if visible.sum() < 0.12 * NUM_RAYS:
        return 0.0
    inner, outer = values[:, :2].mean(axis=1)[visible], values[:, 2:].mean(axis=1)[visible]
    clear = (step[visible] > 3) & (outer < 0.7 * inner)
    if clear.mean() < 0.5:
        return 0.0
    return float((clear * step[visible]).mean() * np.sqrt(visible.mean()))


def _refine(distance: np.ndarray, ellipse: tuple[float, float, float, float]) -> Disc:
    """Locate the edge along rays with sub-pixel precision, drop outliers, and decide between circle and ellipse."""
    is_ellipse = ellipse[2] != ellipse[3]
    for reach in (0.10, 0.04, 0.02):
        depths = np.linspace(1 - reach, 1 + reach, int(np.clip(4 * reach * ellipse[2], 16, 96)))
        angles, edges = _find_edges(_sample_rays(distance, ellipse, depths), depths)
        if len(edges) < 0.08 * NUM_RAYS:
            raise NoFundusError("no edge of a disc stands out from the background")
        x, y, a, b = ellipse
        points = np.column_stack([x + a * edges * np.cos(angles), y + b * edges * np.sin(angles)])
        if len(edges) < (0.25 if is_ellipse else 0.5) * NUM_RAYS:  # a short arc says little about its shape
            ellipse = (*(circle := _fit_circle_robustly(points)), circle[2])
        else:
            ellipse, is_ellipse = _fit_robustly(points)
    x, y, a, b = ellipse
    height, width = distance.shape
    overhang = max(a - x - 0.5, b - y - 0.5, x + a - width + 0.5, y + b - height + 0.5)
    words = {"ellipse"} if is_ellipse else set()
    return Disc(x, y, a, b, frozenset(words | ({"clipped"} if overhang > 0.01 * a + 1 else set())))


def _find_edges(values: np.ndarray, depths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Angle and depth of the steepest fall on each ray that has one clear fall inside the frame."""
    whole = ~np.isnan(values).any(axis=1)
    smooth = cv2.GaussianBlur(np.nan_to_num(values).astype(np.float32), (0, 1), sigmaX=1.0, sigmaY=0.01)
    falls = smooth[:, :-2] - smooth[:, 2:]
    at = falls[:, 1:-1].argmax(axis=1) + 1
    rows = np.arange(len(at))
    left, peak, right = falls[rows, at - 1], falls[rows, at], falls[rows, at + 1]
    curvature = left - 2 * peak + right
    shift = np.where(curvature < 0, (left - right) / (2 * np.minimum(curvature, -1e-6)), 0)
    clear = whole & (values[:, 0] - values[:, -1] > 3) & (peak > 0) & (np.abs(shift) <= 1)
    spacing = depths[1] - depths[0]
    angles = np.linspace(0, 2 * np.pi, NUM_RAYS, endpoint=False)
    return angles[clear], (depths[at + 1] + shift * spacing)[clear]


def _fit_circle_robustly(points: np.ndarray) -> tuple[float, float, float]:
    """A circle to edge points of which some are wrong."""
    x, y, radius = _fit_circle(points)
    for _ in range(5):
        misses = np.abs(np.hypot(points[:, 0] - x, points[:, 1] - y) - radius)
        keep = misses < 2.5 * 1.4826 * np.median(misses) + 0.1
        x, y, radius = _fit_circle(points[keep])
    return x, y, radius


def _fit_robustly(points: np.ndarray) -> tuple[tuple[float, float, float, float], bool]:
    """A circle, or an axis-parallel ellipse where that fits clearly better (then True), to points of an edge."""
    x, y, radius = _fit_circle_robustly(points)
    misses = np.abs(np.hypot(points[:, 0] - x, points[:, 1] - y) - radius)
    u, v = ((points - (x, y)) / radius).T
    keep = np.ones(len(u), bool)
    for _ in range(5):
        terms = np.column_stack([u, v, u, v])[keep] ** [2, 2, 1, 1]
        p, q, r, s = np.linalg.lstsq(terms, np.ones(keep.sum()), rcond=None)[0]
        if p <= 0 or q <= 0:
            return (x, y, radius, radius), False
        cu, cv, full = -r / (2 * p), -s / (2 * q), 1 + r**2 / (4 * p) + s**2 / (4 * q)
        a, b = np.sqrt(full / p), np.sqrt(full / q)
        off = np.abs(np.hypot((u - cu) / a, (v - cv) / b) - 1)
        keep = off < max(2.5 * 1.4826 * np.median(off), 0.002)
    better = np.median(off) < 0.5 * np.median(misses) / radius
    if not better or abs(a / b - 1) < 0.02 or not 0.4 < a / b < 2.5:
        return (x, y, radius, radius), False
    return (x + cu * radius, y + cv * radius, a * radius, b * radius), True


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
