"""The crop of a fundus photograph, against fields of view at known places and real photographs."""

import io

import cv2
import numpy as np
import pytest
from PIL import Image

from dr_lib.data.photograph.crop import _choose_sigma, crop_fundus
from dr_lib.data.photograph.errors import NoFundusError
from dr_lib.data.photograph.fov import find_fov
from tests.data.photograph.pictures import draw_fov, error, make_exif, to_file


@pytest.mark.parametrize(
    ("place", "background", "status"),
    [
        ((301.37, 251.8, 171.3), 0, "ok"),
        ((320.0, 240.0, 200.0), 255, "ok"),
        ((320.0, 240.0, 370.0), 0, "clipped"),  # on all four sides: corners alone show an edge
        ((150.0, 240.0, 220.0), 0, "clipped"),  # on three sides
        ((320.0, 240.0, 148.0), 0, "enlarged"),
    ],
)
def test_finds_a_fov_at_a_known_place(place, background, status):
    """Centre and radius within 0.5 % of the radius, whatever the background or the frame's cuts; a
    field of view of fewer pixels than its crop says so.
    """
    crop = crop_fundus(to_file(draw_fov(640, 480, *place, background=background)))
    assert error(crop.circle, *place) < 0.005 and crop.status == status


def test_a_small_fov_in_a_nearly_square_jpeg_loses_no_pixels():
    """Its crop is that of a PNG of the same pixels, which is never decoded at a fraction of its
    size.
    """
    encoded = to_file(draw_fov(1000, 850, 480.0, 430.0, 210.0), ".jpg", quality=92)
    whole = to_file(Image.open(io.BytesIO(encoded)))
    assert (crop_fundus(encoded).image == crop_fundus(whole).image).all()


@pytest.mark.parametrize("orientation", [3, 6])
def test_a_reduced_jpeg_of_odd_size_keeps_its_place(orientation):
    """1/4 of 2,403 px are 601 that show 2,404: the circle does not drift with that, however the
    picture is turned.
    """
    image = draw_fov(2403, 1999, 1252.0, 1003.0, 950.0)
    encoded = to_file(image, ".jpg", exif=make_exif(orientation), quality=92)
    # where the stored point (1252, 1003) lies after the turn, by hand
    place = {3: (2402 - 1252, 1998 - 1003), 6: (1998 - 1003, 1252)}
    assert error(crop_fundus(encoded).circle, *place[orientation], 950.0) < 0.0005


DISTANCE = np.hypot(*np.mgrid[-149:150, -149:150])  # from the middle of a crop


@pytest.mark.parametrize("width", [pytest.param(3888, marks=pytest.mark.slow), 1024])
def test_the_crop_does_not_alias(width):
    """At least 42 dB against the mean of 8 x 8 samples of the whole photograph for each pixel of
    the crop, where the retina has grains of three pixels.
    """
    height = width * 2 // 3
    image = draw_fov(width, height, width * 0.5, width * 0.33, width * 0.3)
    grain = np.random.default_rng(0).normal(0, 10, (height // 3, width // 3))
    grain = cv2.resize(grain, (width, height), interpolation=cv2.INTER_CUBIC)[..., None]
    is_retina = image.max(axis=-1, keepdims=True) > 30
    image = np.where(is_retina, np.clip(image + grain, 0, 255), 0).astype(np.uint8)
    encoded = to_file(image, ".jpg", quality=92)
    crop = crop_fundus(encoded)
    whole = np.asarray(Image.open(io.BytesIO(encoded)))
    x, y, radius = crop.circle

    offsets = ((np.arange(8 * 299) + 0.5) / (4 * 299) - 1) * radius
    places = np.meshgrid(np.float32(x + offsets), np.float32(y + offsets))
    samples = cv2.remap(whole, *places, cv2.INTER_LINEAR).astype(np.float32)
    expected = cv2.resize(samples, (299, 299), interpolation=cv2.INTER_AREA)
    squares = ((crop.image - expected)[DISTANCE < 147] ** 2).mean()
    assert 10 * np.log10(255**2 / squares) > 42


def test_the_crop_is_black_outside_the_fov():
    """Text in a corner and a bright tab do not survive; the field of view touches the sides of
    the crop.
    """
    image = draw_fov()
    cv2.putText(image, "NAME 1970", (5, 30), cv2.FONT_HERSHEY_SIMPLEX, 1, (255, 255, 255), 2)
    crop = crop_fundus(to_file(image), 299)
    assert crop.image.shape == (299, 299, 3) and crop.image.dtype == np.uint8
    assert not crop.image[DISTANCE > 150].any()
    assert crop.image[DISTANCE < 147].max(axis=-1).min() > 60
    assert error(crop.circle, 320, 240, 200) < 0.005


def test_a_retina_without_border_is_kept_whole():
    """A frame filled by the retina gets the circle around it: nothing is lost, the corners touch
    the field of view.
    """
    crop = crop_fundus(to_file(draw_fov(400, 300, 200.0, 150.0, 900.0)))
    assert crop.status == "full_frame" and crop.circle.radius == pytest.approx(250, abs=1)


def test_a_tiny_fov_is_refused():
    """Below 48 px nothing can be graded; of a squashed picture the longer axis counts."""
    with pytest.raises(NoFundusError, match="46 px wide, and 48 px are needed"):
        crop_fundus(to_file(draw_fov(64, 60, 31.5, 29.5, 23.0)))
    assert crop_fundus(to_file(draw_fov(64, 60, 31.5, 29.5, 25.0, squash=0.8))).image.any()


@pytest.mark.slow
def test_every_photograph_of_odir_has_its_fov(real_data):
    """All 610 are accepted, and the crop's rim is retina where the frame does not cut it: looked
    at one by one.
    """
    rims = []
    for path in sorted((real_data / "odir512" / "images").iterdir()):
        crop = crop_fundus(path)
        assert (
            200 < crop.circle.radius < 300
            and max(abs(crop.circle.x - 255.5), abs(crop.circle.y - 255.5)) < 35
        )
        rims.append(min(crop.image[149, 3:8].max(), crop.image[149, -8:-3].max()))
    assert len(rims) == 610 and np.mean(np.array(rims) > 8) > 0.95


@pytest.mark.slow
def test_drive_masks_overlap(real_data):
    """The field of view covers DRIVE's field-of-view masks, IoU at least 0.985 in each and 0.99
    in the median.
    """
    overlaps = []
    for path in sorted((real_data / "geometry" / "drive").glob("*_test.tif")):
        mask = np.asarray(Image.open(str(path).replace(".tif", "_mask.gif"))) > 0
        fov = find_fov(np.ascontiguousarray(np.asarray(Image.open(path).convert("RGB"))))
        row, column = np.indices(mask.shape)
        found = ((column - fov.x) / fov.a) ** 2 + ((row - fov.y) / fov.b) ** 2 <= 1
        overlaps.append((found & mask).sum() / (found | mask).sum())
    assert len(overlaps) == 8 and min(overlaps) > 0.985 and np.median(overlaps) > 0.99


@pytest.mark.parametrize("step", [1.2, 2.0, 2.6])
def test_what_is_shrunk_is_blurred_as_much_as_a_step_is_wide(step):
    """Three weights of OpenCV with the variance of a square of that width, step^2 / 12."""
    first, _, last = cv2.getGaussianKernel(3, _choose_sigma(step)).ravel()
    assert first + last == pytest.approx(step**2 / 12)
