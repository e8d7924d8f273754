"""The circle that is found, against fields of view at known places of every kind that cameras
and people make.
"""

import cv2
import numpy as np
import pytest

from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.fov import find_fov
from tests.data.photograph.known_fovs import draw_cases, draw_known_fov, draw_texture
from tests.data.photograph.pictures import error


def check(widths: tuple[int, ...], seeds: range, textures: list[np.ndarray]) -> None:
    """The promise, of the larger of the errors of centre and radius as a share of the radius:
    0.15 % in the median, 0.6 % at the 95th percentile, no failure.
    """
    errors = {}
    for name, encoded, (_, *place) in draw_cases(widths, seeds, textures):
        errors[name] = error(crop_fundus(encoded).circle, *place)
    assert not {name: off for name, off in errors.items() if off > 0.05}
    assert np.quantile(list(errors.values()), 0.5) < 0.0015
    assert np.quantile(list(errors.values()), 0.95) < 0.006


def test_fovs_of_every_kind_are_found():
    """One of each kind; the slow test draws ten times as many."""
    check((640,), range(1), [draw_texture(np.random.default_rng(1))])


@pytest.mark.slow
def test_many_fovs_of_every_kind_are_found():
    """Every kind at four sizes, three seeds (of the largest one) and six textures, from JPEG and
    PNG files.
    """
    rng = np.random.default_rng(2)
    textures = [draw_texture(rng) for _ in range(6)]
    check((300, 512, 1024), range(1, 4), textures)
    check((2048,), range(1, 2), textures)


@pytest.mark.parametrize(
    ("kind", "squash"), [("plain", 0.75), ("cut by a mask", 0.9), ("noisy", 1.2)]
)
def test_squashed_fovs_are_ellipses(kind, squash):
    """A picture squashed to another height has an ellipse of that shape, within half a percent."""
    truth = draw_known_fov(kind, 800, 5, [draw_texture(np.random.default_rng(3))])
    height = round(len(truth.image) * squash)
    fov = find_fov(cv2.resize(truth.image, (800, height), interpolation=cv2.INTER_AREA))
    squash = height / len(truth.image)
    expected = (truth.x, (truth.y + 0.5) * squash - 0.5, truth.radius, truth.radius * squash)
    assert np.abs(np.subtract(fov[:4], expected)).max() < 0.005 * truth.radius
    assert "ellipse" in fov.flags
