"""Fits, to points put on circles and ellipses by hand."""

import numpy as np
import pytest

from dr_lib.data.photograph.fits import fit_circle_of_most, fit_circle_robustly, fit_robustly, median


def put_points(x, y, a, b, *, num_points=90, arc=2 * np.pi):
    """Points on an arc of an axis-parallel ellipse, (n, 2) px."""
    angles = np.linspace(0, arc, num_points, endpoint=False)
    return np.column_stack([x + a * np.cos(angles), y + b * np.sin(angles)])


@pytest.mark.parametrize("arc", [2 * np.pi, np.pi, np.pi / 3])
def test_a_circle_is_found_from_any_arc_of_it(arc):
    """Without noise the fit is exact, far from the origin too."""
    found, is_ellipse = fit_robustly(put_points(4000.0, -300.0, 250.0, 250.0, arc=arc), 0.003)
    assert found == pytest.approx((4000, -300, 250, 250), abs=1e-5) and not is_ellipse


@pytest.mark.parametrize("b", [60.0, 97.0, 130.0])
def test_an_ellipse_is_found_among_wrong_points(b):
    """A tenth of the points lies elsewhere; axes within 1 %."""
    points = put_points(10.0, 20.0, 100.0, b)
    points[::10] *= 1.2
    found, is_ellipse = fit_robustly(points, 0.003)
    assert is_ellipse and found == pytest.approx((10, 20, 100, b), abs=1)


def test_a_hundredth_of_squash_is_no_ellipse():
    """Lenses and edges do that; only from 2 % on it counts."""
    assert not fit_robustly(put_points(10.0, 20.0, 100.0, 99.0), 0.003)[1]


def test_wrong_points_are_left_out():
    """A flat cut across a circle, which is a fifth of its points, does not pull at it."""
    points = put_points(50.0, 50.0, 40.0, 40.0)
    points[:, 1] = np.minimum(points[:, 1], 50 + 32)
    assert fit_circle_robustly(points)[:3] == pytest.approx((50, 50, 40), abs=0.01)
    assert fit_circle_of_most(points)[:3] == pytest.approx((50, 50, 40), abs=0.5)


def test_points_on_a_line_are_no_error():
    """There is no such circle: what comes back is finite and beyond any picture, or nothing."""
    line = np.column_stack([np.arange(30.0), np.arange(30.0)])
    found, _ = fit_robustly(line, 0.003)
    assert np.isfinite(found).all() and fit_circle_of_most(line) is None


def test_median_of_columns():
    """The middle of an odd number of rows, the upper middle of an even number."""
    assert median(np.array([[3, 10], [1, 30], [2, 20]])).tolist() == [2, 20]
    assert median(np.array([1, 4, 2, 3])) == 3
