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


# first and last line below the top of a retina [px], grey level
LAYERS = (
    (0, 18, 150),
    (18, 45, 70),
    (45, 60, 120),
    (60, 90, 55),
    (90, 102, 190),
    (102, 112, 230),
)


def draw_oct(seed: int) -> np.ndarray:
    """A slice of optical coherence tomography: bright curved layers with a pit, speckle, black
    above and grey below.
    """
    rng = np.random.default_rng(seed)
    row, column = np.mgrid[:HEIGHT, :WIDTH]
    across = column / WIDTH - 0.5
    bend, tilt, middle, depth, width = rng.uniform(
        (-60, -60, 0.35, 20, 0.06), (90, 60, 0.6, 60, 0.12)
    )
    depth_px = row - middle * HEIGHT - 4 * bend * across**2 - tilt * across
    pit = depth * np.exp(-((across / width) ** 2))
    signal = (depth_px >= 112) * 110 * np.exp(-np.maximum(depth_px - 112, 0) / 80)
    for start, end, level in LAYERS:
        is_below = depth_px >= start + pit * max(0, 1 - start / 90)
        signal += level * (is_below & (depth_px < end))
    speckle = rng.gamma(4, 0.25, signal.shape)
    grey = np.clip(signal * speckle + rng.gamma(2, 6, signal.shape), 0, 255)
    return cv2.cvtColor(
        cv2.GaussianBlur(grey, (0, 0), 0.8).astype(np.uint8), cv2.COLOR_GRAY2RGB
    )


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
    for level in (2, 128, 250):
        pictures[f"nearly flat {level}"] = add_noise(blank(level), level, 3)
    for most in (25, 255):
        pictures[f"noise up to {most}"] = rng.integers(0, most, (HEIGHT, WIDTH, 3), np.uint8)
    blotches = rng.integers(0, 255, (6, 8, 3), np.uint8)
    pictures["blotches"] = cv2.resize(blotches, (WIDTH, HEIGHT))
    for squares in (2, 8, 64):
        board = (row * squares // WIDTH + column * squares // WIDTH) % 2 * 255
        pictures[f"chessboard {squares}"] = np.dstack([board] * 3).astype(np.uint8)
    for ink, paper, size in ((255, 0, 0.6), (200, 10, 1.6), (0, 255, 1), (40, 230, 1.6)):
        pictures[f"text {size}, {ink} on {paper}"] = page = blank(paper)
        for line in range(40, HEIGHT, 44):
            words = f"{line}. patient, left eye"
            cv2.putText(page, words, (20, line), 0, size, [ink] * 3, round(3 * size))
    for paper in (0, 128, 255):
        pictures[f"rectangle on {paper}"] = image = blank(paper)
        image[100:380, 120:400] = (200, 120, 70)  # the colour of a retina
    pictures["skin"] = add_noise(np.full((HEIGHT, WIDTH, 3), (198, 134, 100)), 0, 3)
    return pictures | {f"oct {seed}": draw_oct(seed) for seed in range(6)}


def vary(image: np.ndarray) -> dict[str, np.ndarray]:
    """A photograph turned to four sides, and ten pieces of it."""
    rng = np.random.default_rng(0)
    pictures = {f"{90 * k} degrees": np.rot90(image, k).copy() for k in range(4)}
    for k in range(10):
        size = (np.array(image.shape[:2]) * rng.uniform(0.4, 0.9)).astype(int)
        y, x = rng.integers(0, image.shape[:2] - size)
        pictures[f"piece {k}"] = image[y : y + size[0], x : x + size[1]].copy()
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


@pytest.mark.parametrize("place", [(0, 0), (-0.3, 0.2), (0.4, -0.1)])
def test_an_eye_with_a_dark_shadow_is_kept(place):
    """A haemorrhage into the vitreous is dark in red light too: doubtful, with the circle that
    it has without it.
    """
    rng = np.random.default_rng(1)
    image, circle, _ = draw_eye(2, "right", draw_look(rng), rng)
    shadow = np.zeros(image.shape[:2], np.float32)
    at = (np.array(circle[:2]) + np.multiply(place, circle.radius)).astype(int)
    cv2.circle(shadow, at.tolist(), int(0.22 * circle.radius), 0.9, -1)
    shadow = cv2.GaussianBlur(shadow, (0, 0), 0.03 * circle.radius)
    fov = find_fov((image * (1 - shadow[..., None])).astype(np.uint8))
    assert "doubtful" in fov.flags and "doubtful" not in find_fov(image).flags
    assert fov[:3] == pytest.approx(circle, abs=0.01 * circle.radius)


def test_a_hole_in_a_full_frame_and_bright_surroundings_are_doubtful():
    """As dark as an eye in a face; brighter than what surrounds a retina."""
    full = draw_fov(400, 300, 200.0, 150.0, 900.0)
    plain = draw_fov()
    assert [find_fov(image).flags for image in (full, plain)] == [{"full_frame"}, set()]
    cv2.circle(full, (200, 150), 30, (20, 10, 5), -1)
    plain[100:380, :90] = plain[100:380, -90:] = 250
    assert find_fov(full).flags == {"full_frame", "doubtful"}
    assert find_fov(plain).flags == {"doubtful"}


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
    it: upright, turned, and pieces.
    """
    portrait = cv2.imread(str(get_sample_data("grace_hopper.jpg", asfileobj=False)))[..., ::-1]
    pictures = {"portrait": portrait, "grey portrait": to_grey(np.ascontiguousarray(portrait))}
    pictures["palace"] = load_sample_images().images[0]
    for name, image in pictures.items():
        assert find_accepted(vary(image)) == [], name


@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (2, 30_000), (3, 3), (11, 11)])
def test_pictures_too_small_for_a_fov_are_refused(shape):
    """A line or a few pixels are none."""
    assert find_accepted({"small": blank(200, *shape)}) == []
