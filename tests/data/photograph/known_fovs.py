"""Fields of view at known places: a texture in an antialiased circle, then all that cameras and
people do to one.
"""

from collections.abc import Iterator
from typing import NamedTuple

import cv2
import numpy as np

from dr_lib.data.synthetic import draw_eye, draw_look

KINDS = (
    "plain",
    "top cut by the frame",
    "left cut by the frame",
    "four sides cut by the frame",
    "cut by a mask",
    "small",
    "at 10 %",
    "dark on one side",
    "noisy",
    "on grey",
    "on noise",
    "on white",
    "halo",
    "soft edge",
    "vignette",
)


class KnownFov(NamedTuple):
    """A picture of a field of view, and where it is."""

    image: np.ndarray  # (height, width, 3) uint8 RGB
    x: float  # px, the centre of the first pixel being (0, 0)
    y: float
    radius: float


def draw_texture(rng: np.random.Generator) -> np.ndarray:
    """The middle of a drawn retina, without an edge: (side, side, 3) uint8 RGB."""
    look = draw_look(rng)._replace(width=1280, height=1280, coverage=1.3, is_marked=False)
    image, circle = draw_eye(1, "right", look, rng)
    x, y = int(circle.x), int(circle.y)
    piece = image[y - 450 : y + 450, x - 450 : x + 450]
    # a halo would outshine the darkest
    return cv2.convertScaleAbs(piece, alpha=90 / piece.mean())


def draw_known_fov(kind: str, width: int, seed: int, textures: list[np.ndarray]) -> KnownFov:
    """Draw one of the `KINDS` into a picture that wide, its place, texture and details from the
    seed.
    """
    rng = np.random.default_rng([KINDS.index(kind), width, seed])
    height = round(width * rng.choice((2 / 3, 3 / 4, 1.0)))
    x, y, radius = _place(kind, width, height, rng)
    row, column = np.mgrid[:height, :width].astype(np.float32)
    u = (column - x) / radius
    v = (row - y) / radius
    depth = np.hypot(u, v)
    retina = _fill(textures[rng.integers(len(textures))], u.shape, (x, y, radius), rng)
    softness = radius * rng.uniform(0.01, 0.03) if kind == "soft edge" else 1
    inside = np.clip((1 - depth) * radius / softness + 0.5, 0, 1)
    if kind == "cut by a mask":
        for beyond in (u, -v):
            inside *= beyond < rng.uniform(0.7, 0.92)
    light = _light(kind, u, depth, rng)[..., None] * inside[..., None]
    image = retina * light + _background(kind, depth, rng) * (1 - inside[..., None])
    if kind == "noisy":
        image += rng.normal(0, rng.uniform(5, 14), image.shape)
    image = np.clip(np.round(image), 0, 255).astype(np.uint8)
    return KnownFov(image, x, y, radius)


def draw_cases(
    widths: tuple[int, ...], seeds: range, textures: list[np.ndarray]
) -> Iterator[tuple[str, bytes, KnownFov]]:
    """Every kind at every width and seed, as a name, a file (JPEG and PNG in turn) and the
    truth.
    """
    for kind in KINDS:
        for width in widths:
            for seed in seeds:
                fov = draw_known_fov(kind, width, seed, textures)
                suffix = ".jpg" if (seed + width) % 3 else ".png"
                quality = [cv2.IMWRITE_JPEG_QUALITY, 75 + seed * 7 % 22]
                options = quality if suffix == ".jpg" else []
                encoded = cv2.imencode(suffix, fov.image[..., ::-1], options)[1].tobytes()
                yield f"{kind}, {width} px, seed {seed}, {suffix}", encoded, fov


def _place(
    kind: str, width: int, height: int, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Centre and radius [px], anywhere between the pixels."""
    x = width / 2 + rng.uniform(-0.02, 0.02) * width
    y = height / 2 + rng.uniform(-0.01, 0.01) * height
    radius = height * rng.uniform(0.4, 0.47)
    shown = rng.uniform(0.72, 0.9) * radius  # from the centre to the frame that cuts
    if kind == "small":
        radius *= rng.uniform(0.35, 0.6)
    if kind == "top cut by the frame":
        y = shown
    if kind == "left cut by the frame":
        x = shown
    if kind == "four sides cut by the frame":
        radius = np.hypot(width, height) / 2 * rng.uniform(0.86, 0.94)
    return float(x), float(y), float(radius)


def _fill(
    texture: np.ndarray,
    shape: tuple[int, int],
    circle: tuple[float, float, float],
    rng: np.random.Generator,
) -> np.ndarray:
    """The texture stretched over the circle and a little beyond, turned by any angle: (height,
    width, 3) float32.
    """
    middle = len(texture) / 2
    zoom = rng.uniform(1.05, 1.4) * circle[2] / middle
    matrix = cv2.getRotationMatrix2D((middle, middle), rng.uniform(0, 360), zoom)
    matrix[:, 2] += np.subtract(circle[:2], middle)
    filled = cv2.warpAffine(texture, matrix, shape[::-1], borderMode=cv2.BORDER_REFLECT)
    return filled.astype(np.float32)


def _light(kind: str, u: np.ndarray, depth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """How much of the light arrives, 0 to 1."""
    if kind == "dark on one side":
        way = rng.choice((-1, 1))
        return np.clip(0.5 + way * rng.uniform(0.4, 0.48) * u, 0.06, 1)
    if kind == "vignette":
        return np.clip(1 - rng.uniform(0.6, 0.88) * depth ** rng.uniform(2, 4), 0.1, 1)
    return np.full_like(u, 0.1 if kind == "at 10 %" else 1)


def _background(kind: str, depth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What surrounds the field of view, (height, width, 3) float."""
    level = {
        "on grey": rng.uniform(90, 150),
        "on noise": 15,
        "on white": rng.uniform(235, 255),
    }
    back = np.full((*depth.shape, 3), level.get(kind, rng.integers(0, 9)), float)
    if kind == "on noise":
        back += rng.normal(0, 10, back.shape)
    if kind == "halo":
        glow = rng.uniform(30, 75) * np.exp(-np.maximum(depth - 1, 0) / rng.uniform(0.04, 0.1))
        back += glow[..., None] * [1.0, 0.9, 0.8]
    return back
