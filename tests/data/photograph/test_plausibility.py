"""What is no fundus photograph is refused or doubtful: drawn pictures of many kinds, and real
ones of other things.
"""

import gzip

import cv2
import numpy as np
import pytest
from matplotlib.cbook import get_sample_data
from sklearn.datasets import load_sample_images

from dr_lib.data.photograph.errors import NoFundusError
from dr_lib.data.photograph.fov import find_fov
from dr_lib.data.synthetic import draw_eye, draw_look
from tests.data.photograph.pictures import draw_fov

HEIGHT = 480
WIDTH = 640


def blank(level=0, height=HEIGHT, width=WIDTH) -> np.ndarray:
    """One flat colour, (height, width, 3) uint8."""
    return np.full((height, width, 3), level, np.uint8)


def add_noise(image: np.ndarray, seed: int, sigma: float) -> np.ndarray:
    """Gaussian noise, the same for all channels where the picture is grey."""
    noise = np.random.default_rng(seed).normal(0, sigma, (*image.shape[:2], 1))
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def draw_oct(seed: int) -> np.ndarray:
    """A slice of optical coherence tomography: bright curved layers with a pit, speckle, black
    above and grey below.
    """
    rng = np.random.default_rng(seed)
    row, column = np.mgrid[:HEIGHT, :WIDTH].astype(float)
    bend = rng.uniform(-60, 90)
    tilt = rng.uniform(-60, 60)
    middle = rng.uniform(0.35, 0.6) * HEIGHT
    across = column / WIDTH - 0.5
    top = middle + 4 * bend * across**2 + tilt * across
    pit = rng.uniform(20, 60) * np.exp(-((across / rng.uniform(0.06, 0.12)) ** 2))
    depth = row - top
    signal = np.zeros((HEIGHT, WIDTH))
    for start, end, level in (
        (0, 18, 150),
        (18, 45, 70),
        (45, 60, 120),
        (60, 90, 55),
        (90, 102, 190),
        (102, 112, 230),
    ):
        signal += level * ((depth >= start + pit * max(0, 1 - start / 90)) & (depth < end))
    signal += (depth >= 112) * 110 * np.exp(-np.maximum(depth - 112, 0) / rng.uniform(40, 120))
    grey = np.clip(
        signal * rng.gamma(4, 0.25, signal.shape) + rng.gamma(2, 6, signal.shape), 0, 255
    )
    return cv2.GaussianBlur(grey, (0, 0), 0.8).astype(np.uint8)[..., None].repeat(3, axis=2)


def to_grey(image: np.ndarray) -> np.ndarray:
    """The same in grey, three channels all the same."""
    return cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)


def draw_others() -> dict[str, np.ndarray]:
    """Closed shutters, blank pages, noise, text, chessboards, rectangles and other pictures that
    clinics make.
    """
    rng = np.random.default_rng(0)
    row, column = np.mgrid[:HEIGHT, :WIDTH]
    pictures = {f"flat {level}": blank(level) for level in (0, 1, 60, 128, 255)}
    pictures |= {
        f"nearly flat {level}": add_noise(blank(level), level, 3) for level in (2, 128, 250)
    }
    for most in (25, 255):
        pictures[f"noise up to {most}"] = rng.integers(0, most, (HEIGHT, WIDTH, 3), np.uint8)
    pictures["blotches"] = cv2.resize(
        rng.integers(0, 255, (6, 8, 3), np.uint8), (WIDTH, HEIGHT)
    )
    for squares in (2, 8, 64):
        board = (row * squares // WIDTH + column * squares // WIDTH) % 2 * 255
        pictures[f"chessboard {squares}"] = board.astype(np.uint8)[..., None].repeat(3, axis=2)
    for ink, paper, size in ((255, 0, 0.6), (200, 10, 1.6), (0, 255, 1), (40, 230, 1.6)):
        pictures[f"text {size}, {ink} on {paper}"] = page = blank(paper)
        for line in range(40, HEIGHT, 44):
            cv2.putText(
                page,
                f"{line}. patient, left eye",
                (20, line),
                0,
                size,
                (ink, ink, ink),
                round(3 * size),
            )
    for paper in (0, 128, 255):
        pictures[f"rectangle on {paper}"] = image = blank(paper)
        image[100:380, 120:400] = (200, 120, 70)  # the colour of a retina
    pictures["skin"] = add_noise(np.full((HEIGHT, WIDTH, 3), (198, 134, 100)), 0, 3)
    return pictures | {f"oct {seed}": draw_oct(seed) for seed in range(6)}


def vary(name: str, image: np.ndarray) -> dict[str, np.ndarray]:
    """A photograph turned to four sides, and ten pieces of it."""
    rng = np.random.default_rng(0)
    height, width = image.shape[:2]
    pictures = {
        f"{name}, {90 * k} degrees": np.ascontiguousarray(np.rot90(image, k)) for k in range(4)
    }
    for k in range(10):
        share = rng.uniform(0.4, 0.9)
        at_y = rng.integers(0, height * (1 - share))
        at_x = rng.integers(0, width * (1 - share))
        piece = image[at_y : at_y + int(height * share), at_x : at_x + int(width * share)]
        pictures[f"{name}, piece {k}"] = np.ascontiguousarray(piece)
    return pictures


def find_accepted(pictures: dict[str, np.ndarray], *, or_doubtful: bool = False) -> list[str]:
    """The names of those that pass for a fundus; or are not refused, at least."""
    accepted = []
    for name, image in pictures.items():
        try:
            fov = find_fov(image)
            if or_doubtful or "doubtful" not in fov.flags:
                accepted.append(
                    f"{name}: {[round(value) for value in fov[:4]]} {sorted(fov.flags)}"
                )
        except NoFundusError as error:
            assert str(error)
    return accepted


@pytest.mark.parametrize("is_grey", [False, True])
def test_drawings_without_a_field_of_view_are_refused(is_grey):
    """No circle in any of them, with their colours or without."""
    pictures = {
        name: to_grey(image) if is_grey else image for name, image in draw_others().items()
    }
    assert find_accepted(pictures, or_doubtful=True) == []


@pytest.mark.parametrize("place", [(0, 0), (-0.3, 0.2), (0.4, -0.1)])
def test_an_eye_with_a_dark_shadow_is_kept(place):
    """A haemorrhage into the vitreous is dark in red light too: doubtful, with the circle that
    it has without it.
    """
    rng = np.random.default_rng(1)
    image, circle, _ = draw_eye(2, "right", draw_look(rng), rng)
    shadow = np.zeros(image.shape[:2], np.float32)
    at = [int(circle.x + place[0] * circle.radius), int(circle.y + place[1] * circle.radius)]
    cv2.circle(shadow, at, int(0.22 * circle.radius), 0.9, -1)
    shadow = cv2.GaussianBlur(shadow, (0, 0), 0.03 * circle.radius)
    fov = find_fov((image * (1 - shadow[..., None])).astype(np.uint8))
    assert "doubtful" in fov.flags and "doubtful" not in find_fov(image).flags
    assert fov[:3] == pytest.approx(
        (circle.x, circle.y, circle.radius), abs=0.01 * circle.radius
    )


def test_a_hole_in_a_full_frame_and_bright_surroundings_are_doubtful():
    """As dark as an eye in a face; brighter than what surrounds a retina."""
    full = draw_fov(400, 300, 200.0, 150.0, 900.0)
    round_one = draw_fov()
    assert find_fov(full).flags == {"full_frame"} and find_fov(round_one).flags == set()
    cv2.circle(full, (200, 150), 30, (20, 10, 5), -1)
    round_one[100:380, :90] = round_one[100:380, -90:] = 250
    assert find_fov(full).flags == {"full_frame", "doubtful"} and find_fov(round_one).flags == {
        "doubtful"
    }


@pytest.mark.parametrize("is_grey", [False, True])
def test_a_portrait_is_doubtful_or_refused(is_grey):
    """Rear Admiral Grace Hopper, as matplotlib has her: upright, turned, and pieces."""
    portrait = cv2.cvtColor(
        cv2.imread(str(get_sample_data("grace_hopper.jpg", asfileobj=False))), cv2.COLOR_BGR2RGB
    )
    assert find_accepted(vary("portrait", to_grey(portrait) if is_grey else portrait)) == []


def test_a_landscape_is_refused():
    """A Chinese palace, as scikit-learn has it."""
    assert find_accepted(vary("palace", load_sample_images().images[0])) == []


def test_a_slice_of_a_head_is_refused():
    """Magnetic resonance, 256 x 256 px of 16 bits, as matplotlib has it: as it is, brighter, and
    turned.
    """
    with gzip.open(get_sample_data("s1045.ima.gz", asfileobj=False)) as file:
        values = np.frombuffer(file.read(), np.uint16).reshape(256, 256).astype(float)
    for gain in (255, 600, 1000):
        grey = np.clip(values * gain / values.max(), 0, 255).astype(np.uint8)
        turned = {
            f"slice {gain}, {k}": cv2.cvtColor(np.rot90(grey, k).copy(), cv2.COLOR_GRAY2RGB)
            for k in range(4)
        }
        assert find_accepted(turned) == []


@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (2, 30_000), (3, 3), (11, 11)])
def test_pictures_too_small_for_a_fov_are_refused(shape):
    """A line or a few pixels are none."""
    assert find_accepted({"small": blank(200, *shape)}) == []
