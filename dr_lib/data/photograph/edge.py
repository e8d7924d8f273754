"""Find the edge of the field of view, first by thresholds, then along rays from its centre.

Circles and ellipses are fitted to what is found, outliers or not.
"""

from collections.abc import Iterator

import cv2
import numpy as np

from dr_lib.data.photograph.errors import NoFundusError

ANGLES = np.linspace(0, 2 * np.pi, 240, endpoint=False)
# directions in which the edge is looked for
RAYS = np.column_stack([np.cos(ANGLES), np.sin(ANGLES)])
FEW_RAYS = RAYS[::2]  # as long as it is only roughly known
# tolerances for a circle: an ellipse of 0.98 misses its best circle by 0.005
ROUGH = 0.01
FINE = 0.003
FRAME = 2  # px; an outline that near to the frame is the frame's
# thresholds of the distance: fixed ones, and Otsu's times
LEVELS = (5, 10, 18, 30)
OTSU_FACTORS = (0.6, 1.0, 1.4)
# strength of an edge by the mean distance inside: a halo has 0.1 to 0.75, photographs 0.6 to 1
ENOUGH = 0.5  # no higher threshold is tried
SHARP = 0.76  # no second look is taken
LARGE = 64  # px of the radius, for that
# of the radius: how far from the first guess its edge is looked for
REACH_ROUGH = 0.07
REACH_FINE = 0.03
# of the radius, of the score: moved farther and weaker than that, a mask's edge was followed
MOVED = 0.02
WEAKER = 0.6
# of the shorter and of the longer side
MIN_RADIUS = 0.12
MAX_RADIUS = 0.75
MAX_OFF = 0.6  # of the side, by which the centre may lie off the frame's, outside it too
# Where an edge is scored, in radii: four samples of the middle, two unused, two just inside and two
# just outside.
DEPTHS = np.array([0.3, 0.45, 0.6, 0.7, 0.8, 0.86, 0.92, 0.96, 1.02, 1.05])
MIN_LIGHT = 2  # grey levels; a photograph at 10 % of its brightness has 4 to 20
MIN_STEP = 3  # grey levels that an edge falls by
MAX_OUTER = 0.7  # what is left outside, of the inside
MIN_FILLED = 0.75  # of the middle that is no background: text fills 0.51, photographs 0.91
# of the rays: where all four sides of the frame cut the field of view the corners show 3 to 10 %
MIN_VISIBLE = 0.02
MIN_CLEAR = 0.5  # of the visible rays, with a clear step at the edge
MIN_EDGES = 0.06  # of the rays, with an edge anywhere near
LIT = 0.3  # of the brightness inside, its 90th percentile: behind a mask it is darker
TINY = 1e-9 * np.eye(4)  # keeps points that no single ellipse fits best from being an error
# times the median deviation: 2.5 standard deviations of a normal distribution
OUTLIER = 2.5 * 1.4826
ON_EDGE = 0.012  # of the radius, within which a fit passes a point
MOST = 0.8  # of the points, that a fit should pass
SHORT_ARC = 0.25  # of the rays; fewer say little about the shape
MIN_POINTS = 12  # of an outline: fewer say nothing
MAX_POINTS = 120  # more say nothing new

# x, y, horizontal and vertical semi-axis; of a circle both are the same
Ellipse = tuple[float, float, float, float]


def measure_distance(image: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Measure each pixel's distance from the background in the channel that differs most: uint8."""
    red, green, blue = cv2.split(cv2.absdiff(image, (*background.tolist(), 0)))
    return cv2.max(cv2.max(red, green), blue)


def search(small: np.ndarray, background: np.ndarray) -> Ellipse:
    """Find the field of view roughly: fit the candidate that has the strongest edge.

    Args:
        small: (height, width, 3) uint8, the photograph at 256 px.
        background: (3,) uint8.
    """
    distance = measure_distance(cv2.GaussianBlur(small, (3, 3), 0.8), background)
    candidates: list[tuple[float, Ellipse]] = []  # with their scores
    strength = 0
    for mask in _threshold(distance):
        points = _outline(mask)
        if len(points) < MIN_POINTS or any(explains(fit, points) for _, fit in candidates):
            continue
        for ellipse in fit_outline(points):
            if _is_possible(ellipse, small.shape) and (score := score_edge(distance, ellipse)):
                candidates.append((score, ellipse))
        if candidates:
            strength = max(candidates)[0] / cv2.mean(distance, mask)[0]
        if strength > ENOUGH:
            break
    if not candidates:
        raise NoFundusError("no field of view stands out from the background")

    score, best = max(candidates)
    if strength > SHARP and best[2] > LARGE:
        return best
    closer, _, _ = locate_edge(small, background, best, FEW_RAYS, REACH_ROUGH, ROUGH)
    has_moved = np.abs(np.subtract(closer, best)).max() > MOVED * best[2]
    return best if has_moved and score_edge(distance, closer) < WEAKER * score else closer


def _threshold(distance: np.ndarray) -> Iterator[np.ndarray]:
    """Yield masks of what differs from the background, by rising thresholds; skip equal masks."""
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
    """Find the largest shape's contour, without its part on the frame: (n, 2) px."""
    contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    largest = max(contours, key=cv2.contourArea, default=np.empty((0, 1, 2)))
    points = largest[:, 0].astype(float)
    ends = np.subtract(mask.shape[::-1], 1 + FRAME)
    return points[((points > FRAME) & (points < ends)).all(axis=1)]


def _is_possible(ellipse: Ellipse, shape: tuple[int, ...]) -> bool:
    """Whether a field of view may have this centre and radius."""
    x, y, a, b = ellipse
    height, width = shape[:2]
    is_near = abs(x / width - 0.5) < MAX_OFF and abs(y / height - 0.5) < MAX_OFF
    smallest = MIN_RADIUS * min(height, width)
    largest = MAX_RADIUS * max(height, width)
    return is_near and smallest < (a + b) / 2 < largest


def score_edge(distance: np.ndarray, ellipse: Ellipse) -> float:
    """Score an edge: its strength, times the visible share of it, times the lit share inside it."""
    values, num_inside = _sample_rays(distance, ellipse, FEW_RAYS, DEPTHS)
    middle = values[:, :4]
    columns = values.T.astype(np.float32)
    inner = (columns[6] + columns[7]) / 2
    outer = (columns[8] + columns[9]) / 2
    filled = np.count_nonzero(middle > MIN_LIGHT) / middle.size
    # a ray is hidden where the frame ends before the edge, or a mask cuts the field of view
    visible = (num_inside >= 9) & (inner > max(MIN_LIGHT, 0.1 * upper_median(middle.ravel())))
    num_visible = np.count_nonzero(visible)
    if num_visible < MIN_VISIBLE * len(FEW_RAYS) or filled < MIN_FILLED:
        return 0.0
    inner = inner[visible]
    outer = outer[visible]
    step = inner - outer
    clear = (step > MIN_STEP) & (outer < MAX_OUTER * inner)
    share_clear = np.count_nonzero(clear) / num_visible
    if share_clear < MIN_CLEAR:
        return 0.0
    # of the outside: around the optic disc there is retina
    darker = (step / inner).sum() / num_visible
    strength = step[clear].sum() / num_visible * share_clear * max(darker, 0)
    return float(strength * np.sqrt(num_visible / len(FEW_RAYS)) * filled)


def locate_edge(
    image: np.ndarray,
    background: np.ndarray,
    guess: Ellipse,
    rays: np.ndarray = RAYS,
    reach: float = REACH_FINE,
    tolerance: float = FINE,
) -> tuple[Ellipse, bool, float]:
    """Follow rays, (n, 2) unit vectors, across the edge, and fit a circle or an ellipse to it.

    Args:
        image: (height, width, 3) uint8.
        background: (3,) uint8.
        guess: a rough field of view; the edge lies up to the share `reach` of its semi-axes inside
            or outside.
        tolerance: of `fit_robustly`.

    Returns:
        The field of view; whether it is an ellipse; and the share of the rays through lit retina
        whose edge lies on it.

    Raises:
        NoFundusError: there is no edge.
    """
    depths = np.linspace(1 - reach, 1 + reach, int(np.clip(3 * reach * guess[2], 16, 64)))
    values, num_inside = _sample_rays(image, guess, rays, depths)
    distance = measure_distance(values, background)
    clear, edges = _find_edges(distance, num_inside, depths)
    if len(edges) < MIN_EDGES * len(rays):
        raise NoFundusError("no edge of a field of view stands out from the background")
    points = guess[:2] + edges[:, None] * guess[2:] * rays[clear]
    fit, is_ellipse, passed = fit_edge(points, guess, len(rays), tolerance)

    on_edge = np.zeros(len(rays), bool)
    on_edge[clear] = passed
    visible = num_inside == len(depths)  # of the others the frame cuts the edge
    inner = distance[visible, 0]
    if not len(inner):
        return fit, is_ellipse, 1.0
    lit = inner > LIT * np.sort(inner)[int(0.9 * len(inner))]
    roundness = np.count_nonzero(on_edge[visible] & lit) / max(1, np.count_nonzero(lit))
    return fit, is_ellipse, roundness


def _sample_rays(
    image: np.ndarray, ellipse: Ellipse, rays: np.ndarray, depths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sample the image along rays from the centre, at those fractions of the semi-axes.

    Returns:
        The samples, (rays, depths, ...), and how many of each ray, from the first on, lie inside
        the frame; beyond it the nearest pixel is repeated.
    """
    x, y, a, b = ellipse
    at_x = (x + a * rays[:, :1] * depths).astype(np.float32)
    at_y = (y + b * rays[:, 1:] * depths).astype(np.float32)
    height, width = image.shape[:2]
    inside = cv2.inRange(at_x, 0.5, width - 1.5) & cv2.inRange(at_y, 0.5, height - 1.5)
    num_inside = np.where(inside.all(axis=1), len(depths), inside.argmin(axis=1))
    values = cv2.remap(image, at_x, at_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return values, num_inside


def _find_edges(
    values: np.ndarray, num_inside: np.ndarray, depths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find the rays with one clear fall inside the frame, and its depth by fitting a parabola."""
    smooth = cv2.GaussianBlur(values.astype(np.float32), (7, 3), sigmaX=1.0, sigmaY=0.6)
    falls = smooth[:, :-2] - smooth[:, 2:]
    falls *= np.arange(falls.shape[1]) + 3 < num_inside[:, None]
    at = falls[:, 1:-1].argmax(axis=1) + 1
    rows = np.arange(len(at))
    left = falls[rows, at - 1]
    peak = falls[rows, at]
    right = falls[rows, at + 1]
    curvature = left - 2 * peak + right
    shift = np.where(curvature < 0, (left - right) / (2 * np.minimum(curvature, -1e-6)), 0)
    inner = smooth[:, 0]
    outer = smooth[rows, num_inside - 1]
    clear = (inner - outer > MIN_STEP) & (outer < MAX_OUTER * inner)
    clear &= (peak > 0) & (np.abs(shift) <= 1)
    return clear, (depths[at + 1] + shift * (depths[1] - depths[0]))[clear]


def scale(ellipse: Ellipse, old: tuple[int, ...], new: tuple[int, ...]) -> Ellipse:
    """Scale an ellipse from a picture of one shape to a resized copy."""
    x, y, a, b = ellipse
    to_x = new[1] / old[1]
    to_y = new[0] / old[0]
    return (x + 0.5) * to_x - 0.5, (y + 0.5) * to_y - 0.5, a * to_x, b * to_y


def explain(ellipse: Ellipse, points: np.ndarray) -> np.ndarray:
    """Tell which of the points the ellipse passes within 1.2 % of its radius: (n,) bool."""
    x, y, a, b = ellipse
    return np.abs(np.hypot((points[:, 0] - x) / a, (points[:, 1] - y) / b) - 1) < ON_EDGE


def explains(ellipse: Ellipse, points: np.ndarray) -> bool:
    """Whether the ellipse passes most points, so that another fit would only find it again."""
    return np.count_nonzero(explain(ellipse, points)) > MOST * len(points)


def fit_outline(points: np.ndarray) -> Iterator[Ellipse]:
    """Fit an outline; if much of it misses the fit, fit only the parts that are not straight."""
    few = _thin_out(points)
    ellipse, _ = fit_robustly(few, ROUGH)
    yield ellipse
    if explains(ellipse, few):
        return
    curved = _drop_straight(points)
    if len(curved) < MIN_POINTS:
        return
    if circle := _fit_circle_of_most(_thin_out(curved)):
        yield circle
    if len(curved) < len(points):
        yield fit_robustly(_thin_out(curved), ROUGH)[0]


def fit_edge(
    points: np.ndarray, guess: Ellipse, num_rays: int, tolerance: float
) -> tuple[Ellipse, bool, np.ndarray]:
    """Fit the edge found along some rays, ignoring what a mask, a tab or text adds.

    Returns:
        The fit, whether it is an ellipse, and which points it passes, (n,) bool.
    """
    fit, is_ellipse = _fit_arc(points, num_rays, tolerance)
    passed = explain(fit, points)
    if np.count_nonzero(passed) <= MOST * len(points):
        rivals = guess, _fit_circle_of_most(points) or guess
        choices = passed, *(explain(rival, points) for rival in rivals)
        passed = max(choices, key=np.count_nonzero)
        fit, is_ellipse = _fit_arc(points[passed], num_rays, tolerance)
        passed = explain(fit, points)
    return fit, is_ellipse, passed


def _fit_arc(points: np.ndarray, num_rays: int, tolerance: float) -> tuple[Ellipse, bool]:
    if len(points) < SHORT_ARC * num_rays:
        return fit_circle_robustly(points), False
    return fit_robustly(points, tolerance)


def fit_robustly(points: np.ndarray, tolerance: float) -> tuple[Ellipse, bool]:
    """Fit a circle, or an axis-parallel ellipse if it fits clearly better, and tell which.

    Args:
        points: (n, 2).
        tolerance: fraction of the radius by which the median point has to miss the circle for an
            ellipse to be tried.
    """
    x, y, radius, _ = circle = fit_circle_robustly(points)
    u, v = offsets = ((points - (x, y)) / radius).T
    misses = upper_median(np.abs(np.hypot(u, v) - 1))
    if misses < tolerance:
        return circle, False
    keep = np.ones(len(u), bool)
    num_kept = 0
    terms = np.concatenate([offsets**2, offsets]).T
    for _ in range(5):
        kept = terms[keep]
        if len(kept) == num_kept:
            break
        num_kept = len(kept)
        p, q, r, s = np.linalg.solve(kept.T @ kept + TINY, kept.sum(axis=0))
        if p <= 0 or q <= 0:
            return circle, False
        cu = -r / (2 * p)
        cv = -s / (2 * q)
        full = 1 + r**2 / (4 * p) + s**2 / (4 * q)
        a = np.sqrt(full / p)
        b = np.sqrt(full / q)
        off = np.abs(np.hypot((u - cu) / a, (v - cv) / b) - 1)
        keep = off < max(OUTLIER * upper_median(off), 0.002)
    if upper_median(off) >= 0.5 * misses or abs(a / b - 1) < 0.02 or not 0.4 < a / b < 2.5:
        return circle, False
    return (x + cu * radius, y + cv * radius, a * radius, b * radius), True


def fit_circle_robustly(points: np.ndarray, rounds: int = 5) -> Ellipse:
    """Fit a circle; in each round, drop points more than 2.5 standard deviations off it.

    Least squares on (x - cx)^2 + (y - cy)^2 = r^2 (Kasa 1976), solved by hand from sums about the
    points' mean: one product of matrices makes them all, as time goes into the number of calls.
    """
    middle = points.sum(axis=0) / len(points)
    u, v = offsets = (points - middle).T
    terms = np.concatenate([offsets, [u * u + v * v, np.ones(len(points))]])
    weighed = terms
    num_kept = len(points)
    for _ in range(rounds + 1):
        (uu, uv, us, u1), (_, vv, vs, v1), _, (*_, s1, n) = (weighed @ terms.T).tolist()
        suu = uu - u1 * u1 / n
        suv = uv - u1 * v1 / n
        svv = vv - v1 * v1 / n
        su = (us - u1 * s1 / n) / 2
        sv = (vs - v1 * s1 / n) / 2
        # 0 on a straight line, whose circle is beyond all measure
        area = max(suu * svv - suv**2, 1e-9)
        cu = (svv * su - suv * sv) / area
        cv = (suu * sv - suv * su) / area
        radius = max((s1 - 2 * (cu * u1 + cv * v1)) / n + cu**2 + cv**2, 0) ** 0.5
        misses = np.abs(np.hypot(u - cu, v - cv) - radius)
        keep = misses < OUTLIER * upper_median(misses) + 0.1
        if np.count_nonzero(keep) == num_kept:
            break
        num_kept = np.count_nonzero(keep)
        weighed = terms * keep
    return float(middle[0]) + cu, float(middle[1]) + cv, radius, radius


def _fit_circle_of_most(points: np.ndarray, draws: int = 120) -> Ellipse | None:
    """Find the circle that most points lie on (RANSAC with a fixed seed) and refit it to them."""
    triples = points[np.random.default_rng(0).integers(0, len(points), (draws, 3))]
    u, v = (triples[:, 1] - triples[:, 0]).T
    s, t = (triples[:, 2] - triples[:, 0]).T
    twice_area = u * t - v * s
    valid = np.abs(twice_area) > 1e-3
    if not valid.any():
        return None
    from_first = np.stack(
        [t * (u**2 + v**2) - v * (s**2 + t**2), u * (s**2 + t**2) - s * (u**2 + v**2)]
    )
    from_first = from_first[:, valid] / (2 * twice_area[valid])
    centres = triples[valid, 0] + from_first.T
    radii = np.hypot(*from_first)
    x, y = points[::2, :, None].transpose(1, 0, 2)  # every other point votes
    misses = np.abs(np.sqrt((x - centres[:, 0]) ** 2 + (y - centres[:, 1]) ** 2) - radii)
    best = np.count_nonzero(misses < np.clip(0.02 * radii, 1.0, 4.0), axis=0).argmax()
    inliers = points[np.abs(np.hypot(*(points - centres[best]).T) - radii[best]) < 2.0]
    return fit_circle_robustly(inliers, rounds=0) if len(inliers) >= 8 else None


def _drop_straight(points: np.ndarray) -> np.ndarray:
    """Drop parts of an outline that are straighter than a circle: a mask cuts it there."""
    if len(points) < 60:
        return points
    starts = points[::6]
    ways = np.roll(points, -30, axis=0)[::6] - starts
    normals = (
        np.column_stack([-ways[:, 1], ways[:, 0]]) / np.maximum(np.hypot(*ways.T), 1)[:, None]
    )
    near = np.abs(points @ normals.T - (starts * normals).sum(axis=1)) < 1.0  # (points, lines)
    # a circle is within 1 px of a line along 2.8 sqrt(radius)
    longest = 5 * np.sqrt(np.ptp(points, axis=0).max() / 2)
    return points[~near[:, near.sum(axis=0) > longest].any(axis=1)]


def _thin_out(points: np.ndarray) -> np.ndarray:
    """Choose at most MAX_POINTS of the points, evenly spaced."""
    return points[:: len(points) // MAX_POINTS + 1]


def upper_median(values: np.ndarray) -> np.ndarray:
    """Find the (upper) median along the first axis; np.median takes five times longer."""
    middle = len(values) // 2
    values = values.copy()
    values.partition(middle, axis=0)
    return values[middle]
