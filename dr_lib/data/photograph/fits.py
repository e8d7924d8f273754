"""Fit circles and axis-parallel ellipses to points of an edge, of which some are wrong."""

import numpy as np

TINY = 1e-9 * np.eye(4)  # keeps points that no single ellipse fits best from being an error
OUTLIER = 2.5 * 1.4826  # times the median deviation: 2.5 standard deviations of a normal distribution
ON_EDGE, MOST = 0.012, 0.8  # of the radius, within which a fit passes a point; of the points, that it should pass

Ellipse = tuple[float, float, float, float]  # x, y, horizontal and vertical semi-axis; of a circle both are the same


def fit_robustly(points: np.ndarray, tolerance: float) -> tuple[Ellipse, bool]:
    """Fit a circle to (n, 2) points, or an axis-parallel ellipse where that fits clearly better, and tell which.

    An ellipse is tried where the median point misses the circle by the fraction `tolerance` of the radius.
    """
    x, y, radius, _ = circle = fit_circle_robustly(points)
    misses = median(np.abs(np.hypot(points[:, 0] - x, points[:, 1] - y) / radius - 1))
    if misses < tolerance:
        return circle, False
    u, v = ((points - (x, y)) / radius).T
    keep, num_kept = np.ones(len(u), bool), 0
    terms = np.column_stack([u**2, v**2, u, v])
    for _ in range(5):
        kept = terms[keep]
        if len(kept) == num_kept:
            break
        num_kept = len(kept)
        p, q, r, s = np.linalg.solve(kept.T @ kept + TINY, kept.sum(axis=0))
        if p <= 0 or q <= 0:
            return circle, False
        cu, cv, full = -r / (2 * p), -s / (2 * q), 1 + r**2 / (4 * p) + s**2 / (4 * q)
        a, b = np.sqrt(full / p), np.sqrt(full / q)
        off = np.abs(np.hypot((u - cu) / a, (v - cv) / b) - 1)
        keep = off < max(OUTLIER * median(off), 0.002)
    if median(off) >= 0.5 * misses or abs(a / b - 1) < 0.02 or not 0.4 < a / b < 2.5:
        return circle, False
    return (x + cu * radius, y + cv * radius, a * radius, b * radius), True


def fit_circle_robustly(points: np.ndarray) -> Ellipse:
    """Fit a circle, dropping what misses it by more than 2.5 standard deviations."""
    circle, kept = _fit_circle(points), len(points)
    for _ in range(5):
        x, y, radius, _ = circle
        misses = np.abs(np.hypot(points[:, 0] - x, points[:, 1] - y) - radius)
        keep = misses < OUTLIER * median(misses) + 0.1
        if np.count_nonzero(keep) == kept:
            break
        kept = np.count_nonzero(keep)
        circle = _fit_circle(points[keep])
    return circle


def fit_circle_of_most(points: np.ndarray, draws: int = 120) -> Ellipse | None:
    """Find the circle that most points lie on, refitted to them (RANSAC, always with the same seed)."""
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


def explain(ellipse: Ellipse, points: np.ndarray) -> np.ndarray:
    """Tell which of the points the ellipse passes within 1.2 % of its radius: (n,) bool."""
    x, y, a, b = ellipse
    return np.abs(np.hypot((points[:, 0] - x) / a, (points[:, 1] - y) / b) - 1) < ON_EDGE


def explains(ellipse: Ellipse, points: np.ndarray) -> bool:
    """Whether the ellipse passes most of the points, so that a fit to them would only find it again."""
    return np.count_nonzero(explain(ellipse, points)) > MOST * len(points)


def drop_straight(points: np.ndarray) -> np.ndarray:
    """Drop from a whole outline, (n, 2), what lies on a line for longer than a circle does, as where a mask cuts it."""
    if len(points) < 60:
        return points
    starts, ends = points[::6], np.roll(points, -30, axis=0)[::6]
    ways = ends - starts
    normals = np.column_stack([-ways[:, 1], ways[:, 0]]) / np.maximum(np.hypot(*ways.T), 1)[:, None]
    near = np.abs(points @ normals.T - (starts * normals).sum(axis=1)) < 1.0  # (points, lines)
    longest = 5 * np.sqrt(np.ptp(points, axis=0).max() / 2)  # a circle is within 1 px of a line along 2.8 sqrt(radius)
    return points[~near[:, near.sum(axis=0) > longest].any(axis=1)]


def median(values: np.ndarray) -> np.ndarray:
    """Find the median along the first axis, the upper one of two; np.median takes five times as long for a few."""
    middle = len(values) // 2
    return np.partition(values, middle, axis=0)[middle]


def _fit_circle(points: np.ndarray) -> Ellipse:
    """Least squares on (x - cx)^2 + (y - cy)^2 = r^2 (Kasa 1976), solved by hand about the points' mean."""
    mean = points.mean(axis=0)
    (u, v) = centred = (points - mean).T
    (uu, uv), (_, vv) = centred @ centred.T
    squares = u**2 + v**2
    u_squares, v_squares = centred @ squares / 2
    area = max(uu * vv - uv**2, 1e-9)  # 0 on a straight line, whose circle is beyond all measure
    cu, cv = (vv * u_squares - uv * v_squares) / area, (uu * v_squares - uv * u_squares) / area
    radius = float(np.sqrt(cu**2 + cv**2 + squares.mean()))
    return float(mean[0] + cu), float(mean[1] + cv), radius, radius
