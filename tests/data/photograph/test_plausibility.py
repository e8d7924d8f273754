"""What is no fundus photograph is refused or doubtful: drawn pictures of many kinds, and real
ones of other things.
"""

import cv2
import numpy as np
import pytest
from matplotlib.cbook import get_sample_data
from sklearn.datasets import load_sample_images

from dr_lib.data.photograph.errors import NoFundusError
from dr_lib.data.photograph.fov import find_fov
from tests.data.photograph.pictures import draw_fov

HEIGHT = 480
WIDTH = 640


def blank(level=0) -> np.ndarray:
    """One flat colour, (height, width, 3) uint8."""
    return np.full((HEIGHT, WIDTH, 3), level, np.uint8)


def to_grey(image: np.ndarray) -> np.ndarray:
    """The same in grey, three channels all the same."""
    return cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)


def draw_others() -> dict[str, np.ndarray]:
    """Closed shutters, blank pages, noise, text, chessboards and a rectangle."""
    rng = np.random.default_rng(0)
    row, column = np.mgrid[:HEIGHT, :WIDTH]
    pictures = {f"flat {level}": blank(level) for level in (0, 60, 255)}
    pictures["noise"] = rng.integers(0, 255, (HEIGHT, WIDTH, 3), np.uint8)
    board = (row // 80 + column // 80) % 2 * 255
    pictures["chessboard"] = np.dstack([board] * 3).astype(np.uint8)
    tiles = (row // 20 + column // 20)[..., None] % 2
    pictures["brown chessboard"] = np.where(tiles, (200, 100, 40), (60, 30, 10)).astype(
        np.uint8
    )
    pictures["text"] = page = blank(230)
    for line in range(40, HEIGHT, 44):
        cv2.putText(page, "patient, left eye", (20, line), 0, 1.6, (40, 40, 40), 5)
    pictures["rectangle"] = image = blank()
    image[100:380, 120:400] = (200, 120, 70)  # the colour of a retina
    return pictures


def find_accepted(pictures: dict[str, np.ndarray], *, or_doubtful: bool = False) -> list[str]:
    """The names of those that pass for a fundus; or are not refused, at least."""
    accepted = []
    for name, image in pictures.items():
        try:
            fov = find_fov(image)
        except NoFundusError as error:
            assert str(error)
            continue
        if or_doubtful or "doubtful" not in fov.flags:
            accepted.append(f"{name}: {fov}")
    return accepted


@pytest.mark.parametrize("is_grey", [False, True])
def test_drawings_without_a_field_of_view_are_refused(is_grey):
    """No circle in any of them, with their colours or without."""
    pictures = {
        name: to_grey(image) if is_grey else image for name, image in draw_others().items()
    }
    assert find_accepted(pictures, or_doubtful=True) == []


def test_a_hole_is_doubtful():
    """As dark as an eye in a face: it may be a haemorrhage, so the field of view is kept."""
    image = draw_fov()
    cv2.circle(image, (260, 280), 40, (20, 10, 5), -1)
    fov = find_fov(image)
    assert fov.flags == {"doubtful"} and fov[:3] == pytest.approx((320, 240, 200), abs=1)


def test_what_a_mask_cuts_off_is_no_hole():
    """Its black reaches in from outside."""
    image = draw_fov()
    image[:150, :260] = 0
    assert find_fov(image).flags == set()


@pytest.mark.parametrize("shape", [(16, 4000), (4000, 16)])
def test_a_red_strip_is_no_error_of_the_library(shape):
    """Of a pixel's height where it is looked at."""
    image = np.full((*shape, 3), (150, 70, 30), np.uint8)
    assert find_fov(image).flags == {"full_frame"}


def test_one_disc_of_several_is_doubtful():
    """As where both eyes of a person are in one picture."""
    eyes = [draw_fov(320, 300, x, 150.0, 130.0) for x in (160.0, 150.0)]
    assert find_fov(np.hstack(eyes)).flags == {"doubtful"}


def test_a_background_that_jumps_is_doubtful():
    """From a row on all is brighter, as behind damage that a JPEG's decoder does not notice; a
    background that is brighter on one side is none.
    """
    below = draw_fov()
    below[240:] = cv2.add(below[240:], 20)
    beside = draw_fov()
    beside[:, 500:] = cv2.add(beside[:, 500:], 20)
    assert find_fov(below).flags == {"doubtful"} and find_fov(beside).flags == set()


def test_other_pictures_are_doubtful_or_refused():
    """Rear Admiral Grace Hopper, as matplotlib has her, and a Chinese palace, as scikit-learn has
    it, upright and turned.
    """
    portrait = cv2.imread(str(get_sample_data("grace_hopper.jpg", asfileobj=False)))[..., ::-1]
    pictures = {"portrait": portrait, "grey portrait": to_grey(np.ascontiguousarray(portrait))}
    pictures["palace"] = load_sample_images().images[0]
    for turns in range(4):
        turned = {name: np.rot90(image, turns).copy() for name, image in pictures.items()}
        assert find_accepted(turned) == []
