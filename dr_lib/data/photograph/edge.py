"""Locate the edge of the field of view along rays from its centre, and fit circles and ellipses
to such points.
"""

import cv2
import numpy as np

from dr_lib.data.photograph.errors import NoFundusError

ANGLES = np.linspace(0, 2 * np.pi, 240, endpoint=False)
# directions in which the edge is looked for
RAYS = np.column_stack([np.cos(ANGLES), np.sin(ANGLES)])
FEW_RAYS = RAYS[::2]  # as long as it is only roughly known
ROUGH = 0.01
FINE = 0.003  # tolerances for a circle: an ellipse of 0.98 misses its best circle by 0.005
# Where an edge is scored, in radii: four samples of the middle, two unused, two just inside and two
# just outside.
DEPTHS = np.array([0.3, 0.45, 0.6, 0.7, 0.8, 0.86, 0.92, 0.96, 1.02, 1.05])
MIN_LIGHT = 2  # grey levels; a photograph at 10 % of its brightness has 4 to 20
MIN_STEP = 3
MAX_OUTER = 0.7  # grey levels that an edge falls by; what is left outside, of the inside
MIN_FILLED = 0.75  # of the middle that is no background: text fills 0.51, photographs 0.91
# of the rays: where all four sides of the frame cut the field of view the corners show 3 to 10 %
MIN_VISIBLE = 0.02
MIN_CLEAR = 0.5  # of the visible rays, with a clear step at the edge
MIN_EDGES = 0.06  # of the rays, with an edge anywhere near
SHORT_ARC = 0.25  # of the rays; fewer say little about the shape
LIT = 0.3  # of the brightness inside, its 90th percentile: behind a mask it is darker
TINY = 1e-9 * np.eye(4)  # keeps points that no single ellipse fits best from being an error
# times the median deviation: 2.5 standard deviations of a normal distribution
OUTLIER = 2.5 * 1.4826
ON_EDGE = 0.012
MOST = 0.8  # of the radius, within which a fit passes a point; of the points, that it should pass

# x, y, horizontal and vertical semi-axis; of a circle both are the same
Ellipse = tuple[float, float, float, float]


def measure_distance(image: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Measure how far each pixel is from the background, in the channel where it is farthest:
    uint8.
    """
    red, green, blue = cv2.split(cv2.absdiff(image, (*background.tolist(), 0)))
    return cv2.max(cv2.max(red, green), blue)


def score_edge(distance: np.ndarray, ellipse: Ellipse) -> float:
    """Score an edge: how strong its step is, times the shares of it that show one and of the
    inside that is lit.
    """
    values, num_inside = _sample_rays(distance, ellipse, FEW_RAYS, DEPTHS)
    middle = values[:, :4]
    columns = values.T.astype(np.float32)
    inner = (columns[6] + columns[7]) / 2
    outer = (columns[8] + columns[9]) / 2
    filled = np.count_nonzero(middle > MIN_LIGHT) / middle.size
    # a ray is hidden where the frame ends before the edge, or a mask cuts the field of view
    visible = (num_inside >= 9) & (inner > max(MIN_LIGHT, 0.1 * median(middle.ravel())))
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
    ellipse: Ellipse,
    rays: np.ndarray,
    reach: float,
    tolerance: float,
) -> tuple[Ellipse, bool, float]:
    """Follow rays, (n, 2) unit vectors, across the edge, drop outliers, and decide between circle
    and ellipse.

    Args:
        image: (height, width, 3) uint8.
        background: (3,) uint8.
        ellipse: a rough field of view; the edge lies up to the share `reach` of its semi-axes
            inside or outside.
        tolerance: of `fit_robustly`.

    Returns:
        The field of view; whether it is an ellipse; and the share of the rays through lit retina
        whose edge lies on it.

    Raises:
        NoFundusError: there is no edge.
    """
    depths = np.linspace(1 - reach, 1 + reach, int(np.clip(3 * reach * ellipse[2], 16, 64)))
    values, num_inside = _sample_rays(image, ellipse, rays, depths)
    distance = measure_distance(values, background)
    clear, edges = _find_edges(distance, num_inside, depths)
    if len(edges) < MIN_EDGES * len(rays):
        raise NoFundusError("no edge of a field of view stands out from the background")
    points = ellipse[:2] + edges[:, None] * ellipse[2:] * rays[clear]
    fit, is_ellipse = _fit_edge(points, len(rays), tolerance)
    explained = explain(fit, points)
    if np.count_nonzero(explained) <= MOST * len(points):  # a mask, a tab or text has an edge too
        rivals = ellipse, fit_circle_of_most(points) or ellipse
        explained = max(
            (explained, *(explain(rival, points) for rival in rivals)), key=np.count_nonzero
        )
        fit, is_ellipse = _fit_edge(points[explained], len(rays), tolerance)
        explained = explain(fit, points)
    on_edge = np.zeros(len(rays), bool)
    on_edge[clear] = explained
    return fit, is_ellipse, _measure_roundness(on_edge, distance[:, 0], num_inside == len(depths))


def _measure_roundness(on_edge: np.ndarray, inner: np.ndarray, visible: np.ndarray) -> float:
    """Measure the share of rays whose edge lies on the fit, of those that neither the frame cuts
    nor a mask darkens.
    """
    if not visible.any():
        return 1.0
    seen = inner[visible]
    on_edge = on_edge[visible]
    lit = seen > LIT * np.sort(seen)[int(0.9 * len(seen))]
    return np.count_nonzero(on_edge & lit) / max(1, np.count_nonzero(lit))


def _sample_rays(
    image: np.ndarray, ellipse: Ellipse, rays: np.ndarray, depths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sample the image along rays from the centre outwards, at those fractions of the semi-axes:
    (rays, depths, ...).

    Also count those of each ray, from the first on, that lie inside the frame; beyond it the
    nearest pixel is repeated.
    """
    x, y, a, b = ellipse
    at_x = (x + a * rays[:, :1] * depths).astype(np.float32)
    at_y = (y + b * rays[:, 1:] * depths).astype(np.float32)
    height, width = image.shape[:2]
    inside = cv2.inRange(at_x, 0.5, width - 1.5) & cv2.inRange(at_y, 0.5, height - 1.5)
    num_inside = np.where(inside.all(axis=1), len(depths), inside.argmin(axis=1))
    return (
        cv2.remap(image, at_x, at_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE),
        num_inside,
    )


def _fit_edge(points: np.ndarray, num_rays: int, tolerance: float) -> tuple[Ellipse, bool]:
    is_short = len(points) < SHORT_ARC * num_rays
    return (fit_circle_robustly(points), False) if is_short else fit_robustly(points, tolerance)


def _find_edges(
    values: np.ndarray, num_inside: np.ndarray, depths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find the rays with one clear fall inside the frame, and the depth of each where it is
    steepest, by a parabola.
    """
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
    clear = (
        (inner - outer > MIN_STEP) & (outer < MAX_OUTER * inner) & (peak > 0) & (np.abs(shift) <= 1)
    )
    return clear, (depths[at + 1] + shift * (depths[1] - depths[0]))[clear]


def fit_robustly(points: np.ndarray, tolerance: float) -> tuple[Ellipse, bool]:
    """Fit a circle to (n, 2) points, or an axis-parallel ellipse where that fits clearly better,
    and tell which.

    An ellipse is tried where the median point misses the circle by the fraction `tolerance` of the
    radius.
    """
    x, y, radius, _ = circle = fit_circle_robustly(points)
    u, v = offsets = ((points - (x, y)) / radius).T
    misses = median(np.abs(np.hypot(u, v) - 1))
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
        keep = off < max(OUTLIER * median(off), 0.002)
    if median(off) >= 0.5 * misses or abs(a / b - 1) < 0.02 or not 0.4 < a / b < 2.5:
        return circle, False
    return (x + cu * radius, y + cv * radius, a * radius, b * radius), True


def fit_circle_robustly(points: np.ndarray, rounds: int = 5) -> Ellipse:
    """Fit a circle, dropping in each round what misses it by more than 2.5 standard deviations.

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
        keep = misses < OUTLIER * median(misses) + 0.1
        if np.count_nonzero(keep) == num_kept:
            break
        num_kept = np.count_nonzero(keep)
        weighed = terms * keep
    return float(middle[0]) + cu, float(middle[1]) + cv, radius, radius


def fit_circle_of_most(points: np.ndarray, draws: int = 120) -> Ellipse | None:
    """Find the circle that most points lie on, refitted to them (RANSAC, always with the same
    seed).
    """
    triples = points[np.random.default_rng(0).integers(0, len(points), (draws, 3))]
    a = triples[:, 0]
    u, v = (triples[:, 1] - triples[:, 0]).T
    s, t = (triples[:, 2] - triples[:, 0]).T
    twice_area = u * t - v * s
    valid = np.abs(twice_area) > 1e-3
    if not valid.any():
        return None
    a = a[valid]
    u = u[valid]
    v = v[valid]
    s = s[valid]
    t = t[valid]
    d = 2 * twice_area[valid]
    from_a = np.column_stack(
        [(t * (u**2 + v**2) - v * (s**2 + t**2)) / d, (u * (s**2 + t**2) - s * (u**2 + v**2)) / d]
    )
    centres = a + from_a
    radii = np.hypot(*from_a.T)
    x, y = points[::2, :, None].transpose(1, 0, 2)  # every other point votes
    misses = np.abs(np.sqrt((x - centres[:, 0]) ** 2 + (y - centres[:, 1]) ** 2) - radii)
    best = np.count_nonzero(misses < np.clip(0.02 * radii, 1.0, 4.0), axis=0).argmax()
    inliers = np.abs(np.hypot(*(points - centres[best]).T) - radii[best]) < 2.0
    return (
        fit_circle_robustly(points[inliers], rounds=0) if np.count_nonzero(inliers) >= 8 else None
    )


def explain(ellipse: Ellipse, points: np.ndarray) -> np.ndarray:
    """Tell which of the points the ellipse passes within 1.2 % of its radius: (n,) bool."""
    x, y, a, b = ellipse
    return np.abs(np.hypot((points[:, 0] - x) / a, (points[:, 1] - y) / b) - 1) < ON_EDGE


def explains(ellipse: Ellipse, points: np.ndarray) -> bool:
    """Whether the ellipse passes most of the points, so that a fit to them would only find it
    again.
    """
    return np.count_nonzero(explain(ellipse, points)) > MOST * len(points)


def drop_straight(points: np.ndarray) -> np.ndarray:
    """Drop from a whole outline, (n, 2), what lies on a line for longer than a circle does, as
    where a mask cuts it.
    """
    if len(points) < 60:
        return points
    starts = points[::6]
    ends = np.roll(points, -30, axis=0)[::6]
    ways = ends - starts
    normals = np.column_stack([-ways[:, 1], ways[:, 0]]) / np.maximum(np.hypot(*ways.T), 1)[:, None]
    near = np.abs(points @ normals.T - (starts * normals).sum(axis=1)) < 1.0  # (points, lines)
    # a circle is within 1 px of a line along 2.8 sqrt(radius)
    longest = 5 * np.sqrt(np.ptp(points, axis=0).max() / 2)
    return points[~near[:, near.sum(axis=0) > longest].any(axis=1)]


def median(values: np.ndarray) -> np.ndarray:
    """Find the median along the first axis, the upper one of two; np.median takes five times as
    long for a few.
    """
    middle = len(values) // 2
    values = values.copy()
    values.partition(middle, axis=0)
    return values[middle]
