"""The steps of Voets et al. 2019, to the pixel, against the same steps stated a second time in
another way.
"""

import cv2
import numpy as np
import pytest

from dr_lib.data.photograph.crop import Circle, Crop, crop_fundus
from dr_lib.data.photograph.errors import NoFundusError
from tests.data.photograph.pictures import draw_fov, to_file


def find_again(image: np.ndarray) -> Circle:
    """The reference's circle: contrast and grey in floats, the centroid by the shoelace formula
    in whole numbers.
    """
    contrast = np.floor(255 / 1.3 * (image / (255 / 1.5)) ** 2) % 256
    mask = (contrast @ [0.299, 0.587, 0.114] >= 0.5).astype(np.uint8)
    contours = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)[0]
    largest = sorted(contours, key=cv2.contourArea)[-1]
    here = largest[:, 0].astype(np.int64)
    after = np.roll(here, -1, axis=0)
    cross = here[:, 0] * after[:, 1] - after[:, 0] * here[:, 1]
    x, y = ((here + after) * cross[:, None]).sum(axis=0) // (3 * cross.sum())
    return Circle(int(x), int(y), cv2.minEnclosingCircle(largest)[1])


def crop_again(image: np.ndarray, size: int) -> Crop:
    """The reference's crop: rows and columns chosen one by one, padded last."""
    circle = find_again(image)
    chosen = image
    borders = []
    for axis, middle in ((0, circle.y), (1, circle.x)):
        start = int(np.clip(middle - circle.radius, 0, None))
        within = [
            i for i in range(image.shape[axis]) if 0 <= i - start < int(circle.radius * 2)
        ]
        chosen = np.take(chosen, within, axis)
    factor = size / 2 / circle.radius
    chosen = cv2.resize(chosen, (0, 0), fx=factor, fy=factor)
    for missing in (size - chosen.shape[0], size - chosen.shape[1]):
        borders.append((missing - missing // 2, missing // 2))
    return Crop(np.pad(chosen, [*borders, (0, 0)]), circle, "ok")


def check_same(encoded: bytes, size: int = 299) -> None:
    """The library's crop of a file is the second statement's, circle and all."""
    crop = crop_fundus(encoded, size, method="voets")
    stored = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR_RGB)
    expected = crop_again(stored, size)
    assert crop.circle == expected.circle and crop.status in ("ok", "enlarged")
    assert crop.image.any() and np.array_equal(crop.image, expected.image)


@pytest.mark.parametrize(
    "truth",
    [
        {},
        {"radius": 113.7},
        {"x": 131.6, "y": 110.2},
        {"radius": 300.0},
        {"background": 60},
        {"squash": 0.8},
    ],
    ids=str,
)
def test_voets_is_the_reference_to_the_pixel(truth):
    """Whole, cut on any side, bright, dark or squashed: window, resampling and odd pixel are the
    published ones.
    """
    for size in (299, 128):
        check_same(to_file(draw_fov(**{"x": 320.4, "y": 240.6, **truth})), size)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (draw_fov(radius=90.0), "100 px or less"),
        # 196.15 (12 / 170)^2 = 0.98 is cut to 0
        (np.full((480, 640, 3), 12, np.uint8), "nothing is bright enough"),
        # 260 starts again at 4, x 0.114 = 0.46
        (np.full((480, 640, 3), (0, 0, 196), np.uint8), "nothing is bright"),
        # where the reference stopped with an error of OpenCV
        (np.full((2, 3000, 3), 100, np.uint8), "line"),
    ],
)
def test_voets_refuses_what_shows_no_field_of_view_to_it(image, message):
    """Small ones, what the contrast step brings to 0, by hand, and strips that shrink to
    nothing.
    """
    with pytest.raises(NoFundusError, match=message):
        crop_fundus(to_file(image), method="voets")
