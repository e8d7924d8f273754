"""What is no fundus photograph is refused or doubtful: drawn pictures of many kinds, and real ones of other things."""

import functools
import gzip

import cv2
import numpy as np
import pytest
from matplotlib.cbook import get_sample_data
from sklearn.datasets import load_sample_images

from dr_lib.data.photograph.errors import NoFundusError
from dr_lib.data.photograph.fov import find_fov
from dr_lib.data.synthetic import draw_eye, draw_look

HEIGHT, WIDTH = 480, 640
SKINS = ((236, 188, 160), (224, 172, 140), (198, 134, 100), (141, 85, 60), (90, 56, 40))
SCENES = ("white", "black", "blue", "outdoors", "room")


def blank(level=0, height=HEIGHT, width=WIDTH) -> np.ndarray:
    """One flat colour, (height, width, 3) uint8."""
    return np.full((height, width, 3), level, np.uint8)


def add_noise(image: np.ndarray, seed: int, sigma: float) -> np.ndarray:
    """Gaussian noise, the same for all channels where the picture is grey."""
    noise = np.random.default_rng(seed).normal(0, sigma, (*image.shape[:2], 1))
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def draw_noise(kind: str, side: int) -> np.ndarray:
    """Uniform, grey, dark, sparse or blotchy noise, (side * 3 / 4, side, 3) uint8."""
    rng, shape = np.random.default_rng(side), (side * 3 // 4, side)
    if kind == "sparse":
        return np.where(rng.random((*shape, 1)) < 0.02, 255, 0).astype(np.uint8).repeat(3, axis=2)
    if kind == "blotches":
        return cv2.resize(rng.integers(0, 255, (6, 8, 3), np.uint8), shape[::-1], interpolation=cv2.INTER_CUBIC)
    image = rng.integers(0, 25 if kind == "dark" else 255, (*shape, 3), np.uint8)
    return image[..., :1].repeat(3, axis=2) if kind == "grey" else image


def draw_text(ink, paper, *, thickness=2, size=1.0) -> np.ndarray:
    """A page of writing."""
    image = blank(paper)
    for row, line in enumerate(range(40, HEIGHT, 44)):
        text = f"{row + 1}. patient, left eye, {row * 37 % 100} years"
        cv2.putText(image, text, (20, line), cv2.FONT_HERSHEY_SIMPLEX, size, (ink, ink, ink), thickness, cv2.LINE_AA)
    return image


def draw_oct(seed: int) -> np.ndarray:
    """A slice of optical coherence tomography: bright curved layers with a pit, speckle, black above and grey below."""
    rng = np.random.default_rng(seed)
    row, column = np.mgrid[:HEIGHT, :WIDTH].astype(float)
    bend, tilt, middle = rng.uniform(-60, 90), rng.uniform(-60, 60), rng.uniform(0.35, 0.6) * HEIGHT
    across = column / WIDTH - 0.5
    top = middle + 4 * bend * across**2 + tilt * across
    pit = rng.uniform(20, 60) * np.exp(-((across / rng.uniform(0.06, 0.12)) ** 2))
    depth = row - top
    signal = np.zeros((HEIGHT, WIDTH))
    for start, end, level in ((0, 18, 150), (18, 45, 70), (45, 60, 120), (60, 90, 55), (90, 102, 190), (102, 112, 230)):
        signal += level * ((depth >= start + pit * max(0, 1 - start / 90)) & (depth < end))
    signal += (depth >= 112) * 110 * np.exp(-np.maximum(depth - 112, 0) / rng.uniform(40, 120))
    speckle = rng.gamma(4, 0.25, signal.shape)
    return (
        cv2.GaussianBlur(np.clip(signal * speckle + rng.gamma(2, 6, signal.shape), 0, 255), (0, 0), 0.8)
        .astype(np.uint8)[..., None]
        .repeat(3, axis=2)
    )


def draw_scene(kind: str) -> np.ndarray:
    """A background: a wall of one colour, a meadow under the sky, or a room."""
    image = blank(255 if kind == "white" else 8)
    if kind == "blue":
        image[:] = (60, 90, 150)
    if kind == "outdoors":
        image[: HEIGHT // 2] = np.linspace((90, 140, 220), (190, 210, 240), HEIGHT // 2)[:, None]
        image[HEIGHT // 2 :] = np.linspace((90, 130, 60), (50, 90, 30), HEIGHT - HEIGHT // 2)[:, None]
    if kind == "room":
        image[:] = (170, 160, 150)
        image[360:] = (110, 80, 60)
        image[60:260, 40:200] = (210, 225, 240)
        image[150:, 520:610] = (80, 50, 40)
    return image


def draw_face(seed: int, scene: str, *, aspect=1.3, size=130) -> np.ndarray:
    """A head with hair, eyes, brows, nose, mouth, neck and shirt; aspect 1 is a round head, no neck for a large one."""
    rng = np.random.default_rng(seed)
    image, skin = draw_scene(scene), np.array(SKINS[seed % len(SKINS)], float)
    x, y = int(WIDTH / 2 + rng.integers(-60, 60)), int(HEIGHT * 0.47)
    hair, shirt = [tuple(rng.integers(low, high, 3).tolist()) for low, high in ((10, 90), (30, 230))]
    down = int(size * aspect)
    cv2.ellipse(image, (x, y + 2 * down), (2 * size, down), 0, 0, 360, shirt, -1, cv2.LINE_AA)
    cv2.rectangle(image, (x - size // 3, y), (x + size // 3, y + int(1.25 * down)), (0.85 * skin).tolist(), -1)
    if seed % 3:  # else the head is bald
        cv2.ellipse(image, (x, y - down // 8), (int(size * 1.1), int(down * 1.08)), 0, 0, 360, hair, -1, cv2.LINE_AA)
    cv2.ellipse(image, (x, y), (size, down), 0, 0, 360, skin.tolist(), -1, cv2.LINE_AA)
    for side in (-1, 1):
        eye = (x + side * size * 2 // 5, y - down // 6)
        cv2.ellipse(image, eye, (size // 6, size // 11), 0, 0, 360, (245, 245, 245), -1, cv2.LINE_AA)
        cv2.circle(image, eye, size // 13, (60, 40, 30), -1, cv2.LINE_AA)
        cv2.ellipse(image, (eye[0], eye[1] - size // 6), (size // 5, size // 20), 0, 180, 360, hair, 4, cv2.LINE_AA)
    cv2.line(image, (x, y - size // 10), (x - size // 10, y + size // 4), (0.7 * skin).tolist(), 3, cv2.LINE_AA)
    cv2.ellipse(image, (x, y + down // 2), (size // 3, size // 10), 0, 0, 180, (170, 60, 60), -1, cv2.LINE_AA)
    light = 1.1 - 0.35 * np.hypot(np.linspace(-0.9, 0.7, WIDTH)[None], np.linspace(-0.8, 0.8, HEIGHT)[:, None])
    return add_noise(np.clip(cv2.GaussianBlur(image, (0, 0), 1.2) * light[..., None], 0, 255), seed, 4)


def draw_skin(seed: int) -> np.ndarray:
    """Skin that fills the frame, brighter where the lamp shines, with pores and a few moles."""
    rng = np.random.default_rng(seed)
    waves = cv2.resize(rng.normal(0, 14, (5, 7)).astype(np.float32), (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
    image = np.clip(np.array(SKINS[seed % len(SKINS)], float) + waves[..., None], 0, 255).astype(np.uint8)
    for at_x, at_y in rng.integers(0, (WIDTH, HEIGHT), (6, 2)).tolist():
        cv2.circle(image, (at_x, at_y), int(rng.integers(3, 9)), (80, 50, 40), -1, cv2.LINE_AA)
    return add_noise(image, seed, 3)


def draw_chessboard(squares: int) -> np.ndarray:
    """Black and white squares, as many in a row."""
    row, column = np.mgrid[:HEIGHT, :WIDTH] * squares // WIDTH
    return ((row + column) % 2 * 255).astype(np.uint8)[..., None].repeat(3, axis=2)


def to_grey(image: np.ndarray) -> np.ndarray:
    """The same in grey, three channels all the same."""
    return cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)


def draw_plain() -> dict[str, np.ndarray]:
    """Closed shutters, blank pages and noise."""
    pictures = {f"flat {level}": blank(level) for level in (0, 1, 60, 128, 200, 255)}
    pictures |= {f"nearly flat {level}": add_noise(blank(level), level, 3) for level in (2, 20, 128, 250)}
    noises = ("uniform", "grey", "dark", "sparse", "blotches")
    return pictures | {f"noise, {kind}, {side}": draw_noise(kind, side) for kind in noises for side in (64, 320, 1200)}


def draw_pages() -> dict[str, np.ndarray]:
    """Text, chessboards and rectangles."""
    pictures = {f"chessboard {squares}": draw_chessboard(squares) for squares in (2, 4, 8, 16, 64)}
    for ink, paper in ((255, 0), (200, 10), (0, 255), (40, 230)):
        for thickness, size in ((1, 0.6), (2, 1.0), (5, 1.6)):
            pictures[f"text {size}, {ink} on {paper}"] = draw_text(ink, paper, thickness=thickness, size=size)
    for paper in (0, 128, 255):
        for side in (200, 280, 360):
            pictures[f"rectangle {side} on {paper}"] = image = blank(paper)
            image[100 : 100 + side, 120 : 120 + side] = (200, 120, 70)  # the colour of a retina
    return pictures


def draw_slices() -> dict[str, np.ndarray]:
    """Other pictures that clinics make."""
    return {f"oct {seed}": draw_oct(seed) for seed in range(12)}


@functools.cache
def draw_faces() -> dict[str, np.ndarray]:
    """Five kinds of skin, five scenes, long and round heads, near and far."""
    sizes = ((1.3, 130), (1.0, 150), (1.0, 210), (1.2, 260))
    return {
        f"face {seed}, {scene}, {aspect} x {size}": draw_face(seed, scene, aspect=aspect, size=size)
        for seed in range(5)
        for scene in SCENES
        for aspect, size in sizes
    }


def draw_skins() -> dict[str, np.ndarray]:
    """Skin without any background."""
    return {f"skin {seed}": draw_skin(seed) for seed in range(10)}


def vary(name: str, image: np.ndarray) -> dict[str, np.ndarray]:
    """A photograph turned to four sides, and ten pieces of it."""
    rng, (height, width) = np.random.default_rng(0), image.shape[:2]
    pictures = {f"{name}, {90 * k} degrees": np.ascontiguousarray(np.rot90(image, k)) for k in range(4)}
    for k in range(10):
        share = rng.uniform(0.4, 0.9)
        at_y, at_x = rng.integers(0, height * (1 - share)), rng.integers(0, width * (1 - share))
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
                accepted.append(f"{name}: {[round(value) for value in fov[:4]]} {sorted(fov.flags)}")
        except NoFundusError as error:
            assert str(error)
    return accepted


@pytest.mark.parametrize("colours", ["coloured", "grey"])
@pytest.mark.parametrize("draw", [draw_plain, draw_pages, draw_slices], ids=lambda f: f.__name__)
def test_drawings_without_a_field_of_view_are_refused(draw, colours):
    """No circle in any of them, with their colours or without."""
    pictures = {name: to_grey(image) if colours == "grey" else image for name, image in draw().items()}
    assert find_accepted(pictures, or_doubtful=True) == []


@pytest.mark.parametrize("colours", ["coloured", "grey"])
@pytest.mark.parametrize(("draw", "at_most"), [(draw_faces, 13), (draw_skins, 4)], ids=["faces", "skins"])
def test_faces_and_skin_are_doubtful_or_refused(draw, at_most, colours):
    """But for round heads without a neck whose eyes are faint, and skin as red as a retina."""
    pictures = {name: to_grey(image) if colours == "grey" else image for name, image in draw().items()}
    accepted = find_accepted(pictures)
    assert len(accepted) <= at_most, accepted


@pytest.mark.parametrize("place", [(0, 0), (-0.3, 0.2), (0.4, -0.1)])
def test_an_eye_with_a_dark_shadow_is_kept(place):
    """A haemorrhage into the vitreous is dark in red light too: doubtful, with the circle that it has without it."""
    rng = np.random.default_rng(1)
    image, circle, _ = draw_eye(2, "right", draw_look(rng), rng)
    shadow = np.zeros(image.shape[:2], np.float32)
    at = [int(circle.x + place[0] * circle.radius), int(circle.y + place[1] * circle.radius)]
    cv2.circle(shadow, at, int(0.22 * circle.radius), 0.9, -1)
    shadow = cv2.GaussianBlur(shadow, (0, 0), 0.03 * circle.radius)
    fov = find_fov((image * (1 - shadow[..., None])).astype(np.uint8))
    assert "doubtful" in fov.flags and "doubtful" not in find_fov(image).flags
    assert fov[:3] == pytest.approx((circle.x, circle.y, circle.radius), abs=0.01 * circle.radius)


@pytest.mark.parametrize("colours", ["coloured", "grey"])
def test_a_portrait_is_doubtful_or_refused(colours):
    """Rear Admiral Grace Hopper, as matplotlib has her: upright, turned, and pieces."""
    portrait = cv2.cvtColor(cv2.imread(str(get_sample_data("grace_hopper.jpg", asfileobj=False))), cv2.COLOR_BGR2RGB)
    assert find_accepted(vary("portrait", to_grey(portrait) if colours == "grey" else portrait)) == []


def test_a_landscape_is_refused():
    """A Chinese palace, as scikit-learn has it."""
    assert find_accepted(vary("palace", load_sample_images().images[0])) == []


def test_a_slice_of_a_head_is_refused():
    """Magnetic resonance, 256 x 256 px of 16 bits, as matplotlib has it: as it is, brighter, and turned."""
    with gzip.open(get_sample_data("s1045.ima.gz", asfileobj=False)) as file:
        values = np.frombuffer(file.read(), np.uint16).reshape(256, 256).astype(float)
    for gain in (255, 600, 1000):
        grey = np.clip(values * gain / values.max(), 0, 255).astype(np.uint8)
        turned = {f"slice {gain}, {k}": cv2.cvtColor(np.rot90(grey, k).copy(), cv2.COLOR_GRAY2RGB) for k in range(4)}
        assert find_accepted(turned) == []


@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (2, 30_000), (3, 3), (11, 11)])
def test_pictures_too_small_for_a_fov_are_refused(shape):
    """A line or a few pixels are none."""
    assert find_accepted({"small": blank(200, *shape)}) == []
