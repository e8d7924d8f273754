"""Find the disc that the retina fills in a decoded fundus photograph."""

from collections.abc import Iterator
from typing import NamedTuple

import cv2
import numpy as np

SEARCH_SIDE = 256  # px of the longer side on which the disc is first looked for
NUM_RAYS = 360
ANGLES = np.linspace(0, 2 * np.pi, NUM_RAYS, endpoint=False)

Ellipse = tuple[float, float, float, float]  # x, y, horizontal and vertical semi-axis


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
    x, y, a, b = best
    to_x, to_y = width / small.shape[1], height / small.shape[0]
    best = (x + 0.5) * to_x - 0.5, (y + 0.5) * to_y - 0.5, a * to_x, b * to_y
    (x, y, a, b), is_ellipse = _refine(image, background, best)
    overhang = max(a - x - 0.5, b - y - 0.5, x + a - width + 0.5, y + b - height + 0.5)
    words = {"ellipse"} if is_ellipse else set()
    return Disc(x, y, a, b, frozenset(words | ({"clipped"} if overhang > 0.01 * a + 1 else set())))


def _shrink(image: np.ndarray) -> np.ndarray:
    """A copy of SEARCH_SIDE px; of a large picture only every k-th pixel is averaged, five times as fast at 2464 px."""
    k = max(1, max(image.shape[:2]) // (2 * SEARCH_SIDE))
    factor = SEARCH_SIDE / max(image.shape[:2])
    wanted = [max(1, round(length * factor)) for length in image.shape[1::-1]]
    return cv2.resize(image[::k, ::k], wanted, interpolation=cv2.INTER_AREA) if factor < 1 else image


def _background(image: np.ndarray) -> np.ndarray:
    """The colour of the corners, (3,) float32."""
    k = max(2, min(image.shape[:2]) // 24)
    ends = (slice(k), slice(-k, None))
    corners = [image[y, x].reshape(-1, 3) for y in ends for x in ends]
    return np.median(np.concatenate(corners), axis=0).astype(np.float32)


def _distance(image: np.ndarray, background: np.ndarray) -> np.ndarray:
    """How far each pixel is from the background, in the channel where it is farthest: float32, 0-255."""
    channels = zip(cv2.split(image), background, strict=True)
    red, green, blue = (cv2.absdiff(channel.astype(np.float32), float(level)) for channel, level in channels)
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
    return max(found)[1] if found else None


def _explains(ellipse: Ellipse, points: np.ndarray) -> bool:
    """Whether the ellipse passes within 1.2 % of most points: then they would only find it again."""
    x, y, a, b = ellipse
    misses = np.abs(np.hypot((points[:, 0] - x) / a, (points[:, 1] - y) / b) - 1)
    return np.count_nonzero(misses < 0.012) > 0.8 * len(points)


def _masks(distance: np.ndarray) -> Iterator[np.ndarray]:
    """Masks of what differs from the background, from a timid threshold to a bold one."""
    scaled = distance.astype(np.uint8)
    otsu, _ = cv2.threshold(scaled, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))
    for threshold in sorted({5, 10, 18, 30, *(int(otsu * k) for k in (0.6, 1.0, 1.4))}):
        yield cv2.morphologyEx((scaled > threshold).astype(np.uint8), cv2.MORPH_OPEN, kernel)


def _outline(mask: np.ndarray) -> np.ndarray:
    """At most 120 points of the largest shape's contour, without what lies on the frame: (n, 2) px."""
    contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    if not contours:
        return np.empty((0, 2))
    points = max(contours, key=cv2.contourArea)[:, 0].astype(float)
    height, width = mask.shape
    x, y = points.T
    points = points[(x > 2) & (y > 2) & (x < width - 3) & (y < height - 3)]
    return points[np.linspace(0, len(points) - 1, min(len(points), 120)).astype(int)]


def _candidates(points: np.ndarray) -> Iterator[Ellipse]:
    """What fits an outline as a whole, and if that misses much of it the circle through most of it."""
    ellipse, _ = _fit_robustly(points)
    yield ellipse
    if not _explains(ellipse, points) and (circle := _fit_ransac(points)):
        yield (*circle, circle[2])


def _plausible(ellipse: Ellipse, shape: tuple[int, ...]) -> bool:
    x, y, a, b = ellipse
    radius = (a + b) / 2
    height, width = shape[:2]
    inside = -0.1 * width < x < 1.1 * width and -0.1 * height < y < 1.1 * height
    return inside and 0.12 * min(height, width) < radius < 0.75 * max(height, width)


def _sample_rays(image: np.ndarray, ellipse: Ellipse, depths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Follow rays from the centre outwards, at those fractions of the semi-axes.

    Returns:
        What the image shows there, (rays, depths, ...); and how many samples of each ray, from the first on, lie
        inside the frame, (rays,). A ray that leaves the frame repeats its last value.
    """
    x, y, a, b = ellipse
    at_x = (x + a * np.outer(np.cos(ANGLES), depths)).astype(np.float32)
    at_y = (y + b * np.outer(np.sin(ANGLES), depths)).astype(np.float32)
    height, width = image.shape[:2]
    inside = (at_x >= 0.5) & (at_y >= 0.5) & (at_x <= width - 1.5) & (at_y <= height - 1.5)
    num_inside = np.where(inside.all(axis=1), len(depths), inside.argmin(axis=1))
    rows = np.arange(NUM_RAYS)[:, None]
    columns = np.minimum(np.arange(len(depths)), np.maximum(num_inside, 1)[:, None] - 1)
    return cv2.remap(image, at_x[rows, columns], at_y[rows, columns], cv2.INTER_LINEAR), num_inside


def _edge_score(distance: np.ndarray, ellipse: Ellipse) -> float:
    """Strength of the step at the edge, times how much of the edge shows it and of the inside is no background."""
    depths = np.array([0.3, 0.45, 0.6, 0.7, 0.8, 0.86, 0.92, 0.96, 1.03, 1.06])
    values, num_inside = _sample_rays(distance, ellipse, depths)
    visible = num_inside >= 9
    if visible.mean() < 0.06:  # of a disc that all four sides of the frame cut, the corners show 10 %
        return 0.0
    inner, outer = values[visible, 6:8].mean(axis=1), values[visible, 8:].mean(axis=1)
    step = inner - outer
    clear = (step > 3) & (outer < 0.7 * inner)
    filled = np.count_nonzero(values[:, :8] > 2) / values[:, :8].size  # 2: a disc of 10 % brightness has 4 to 20
    if clear.mean() < 0.5 or filled < 0.75:  # text fills 51 %, the emptiest of 833 photographs 91 %
        return 0.0
    return float((clear * step).mean() * np.sqrt(visible.mean()) * filled)


def _refine(image: np.ndarray, background: np.ndarray, ellipse: Ellipse) -> tuple[Ellipse, bool]:
    """Locate the edge along rays with sub-pixel precision, drop outliers, and decide between circle and ellipse."""
    is_ellipse = ellipse[2] != ellipse[3]
    for reach in (0.10, 0.04, 0.02):
        depths = np.linspace(1 - reach, 1 + reach, int(np.clip(3 * reach * ellipse[2], 16, 64)))
        rays, num_inside = _sample_rays(image, ellipse, depths)
        angles, edges = _find_edges(_distance(rays, background), num_inside, depths)
        if len(edges) < 0.06 * NUM_RAYS:
            raise NoFundusError("no edge of a disc stands out from the background")
        x, y, a, b = ellipse
        points = np.column_stack([x + a * edges * np.cos(angles), y + b * edges * np.sin(angles)])
        if len(edges) < (0.25 if is_ellipse else 0.5) * NUM_RAYS:  # a short arc says little about its shape
            ellipse = (*(circle := _fit_circle_robustly(points)), circle[2])
        else:
            ellipse, is_ellipse = _fit_robustly(points)
    return ellipse, is_ellipse


def _find_edges(values: np.ndarray, num_inside: np.ndarray, depths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Angle and depth of the steepest fall on each ray that has one clear fall inside the frame."""
    smooth = cv2.GaussianBlur(values, (7, 3), sigmaX=1.0, sigmaY=0.6)
    falls = smooth[:, :-2] - smooth[:, 2:]
    at = falls[:, 1:-1].argmax(axis=1) + 1
    rows = np.arange(len(at))
    left, peak, right = falls[rows, at - 1], falls[rows, at], falls[rows, at + 1]
    curvature = left - 2 * peak + right
    shift = np.where(curvature < 0, (left - right) / (2 * np.minimum(curvature, -1e-6)), 0)
    whole = at + 3 < num_inside
    inner, outer = smooth[:, 0], smooth[:, -1]
    clear = whole & (inner - outer > 3) & (outer < 0.7 * inner) & (peak > 0) & (np.abs(shift) <= 1)
    return ANGLES[clear], (depths[at + 1] + shift * (depths[1] - depths[0]))[clear]


def _fit_circle(points: np.ndarray) -> tuple[float, float, float]:
    """Least squares on x^2 + y^2 = 2 x cx + 2 y cy + c (Kasa 1976)."""
    terms = np.column_stack([2 * points, np.ones(len(points))])
    cx, cy, c = np.linalg.lstsq(terms, (points**2).sum(axis=1), rcond=None)[0]
    return float(cx), float(cy), float(np.sqrt(max(c + cx**2 + cy**2, 0)))


def _fit_ransac(points: np.ndarray, draws: int = 120) -> tuple[float, float, float] | None:
    """The circle that most outline points lie on, refitted to them; seeded, so the same each time."""
    triples = points[np.random.default_rng(0).integers(0, len(points), (draws, 3))]
    a, (u, v), (s, t) = triples[:, 0], (triples[:, 1] - triples[:, 0]).T, (triples[:, 2] - triples[:, 0]).T
    twice_area = u * t - v * s
    valid = np.abs(twice_area) > 1e-3
    if not valid.any():
        return None
    a, u, v, s, t, d = a[valid], u[valid], v[valid], s[valid], t[valid], 2 * twice_area[valid]
    from_a = np.column_stack([(t * (u**2 + v**2) - v * (s**2 + t**2)) / d, (u * (s**2 + t**2) - s * (u**2 + v**2)) / d])
    centres, radii = a + from_a, np.hypot(*from_a.T)
    x, y = points[::2, :, None].transpose(1, 0, 2)  # every other point votes
    misses = np.abs(np.sqrt((x - centres[:, 0]) ** 2 + (y - centres[:, 1]) ** 2) - radii)
    best = np.count_nonzero(misses < np.clip(0.02 * radii, 1.0, 4.0), axis=0).argmax()
    inliers = np.abs(np.hypot(*(points - centres[best]).T) - radii[best]) < 2.0
    return _fit_circle(points[inliers]) if inliers.sum() >= 8 else None


def _fit_circle_robustly(points: np.ndarray) -> tuple[float, float, float]:
    """A circle to edge points of which some are wrong."""
    x, y, radius = _fit_circle(points)
    kept = len(points)
    for _ in range(5):
        misses = np.abs(np.hypot(points[:, 0] - x, points[:, 1] - y) - radius)
        keep = misses < 2.5 * 1.4826 * np.median(misses) + 0.1
        if np.count_nonzero(keep) == kept:
            break
        kept = np.count_nonzero(keep)
        x, y, radius = _fit_circle(points[keep])
    return x, y, radius


def _fit_robustly(points: np.ndarray) -> tuple[Ellipse, bool]:
    """A circle, or an axis-parallel ellipse where that fits clearly better (then True), to points of an edge."""
    x, y, radius = _fit_circle_robustly(points)
    circle = (x, y, radius, radius)
    misses = np.median(np.abs(np.hypot(points[:, 0] - x, points[:, 1] - y) / radius - 1))
    if misses < 0.003:  # an ellipse of 0.98 misses its best circle by 0.005
        return circle, False
    u, v = ((points - (x, y)) / radius).T
    keep = np.ones(len(u), bool)
    terms = np.column_stack([u**2, v**2, u, v])
    for _ in range(5):
        p, q, r, s = np.linalg.lstsq(terms[keep], np.ones(np.count_nonzero(keep)), rcond=None)[0]
        if p <= 0 or q <= 0:
            return circle, False
        cu, cv, full = -r / (2 * p), -s / (2 * q), 1 + r**2 / (4 * p) + s**2 / (4 * q)
        a, b = np.sqrt(full / p), np.sqrt(full / q)
        off = np.abs(np.hypot((u - cu) / a, (v - cv) / b) - 1)
        keep = off < max(2.5 * 1.4826 * np.median(off), 0.002)
    if np.median(off) >= 0.5 * misses or abs(a / b - 1) < 0.02 or not 0.4 < a / b < 2.5:
        return circle, False
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
