"""Fields of view at known places: a texture in an antialiased circle, then all that cameras and
people do to one.
"""

from collections.abc import Iterator
from typing import NamedTuple

import cv2
import numpy as np

SIDES = {  # mask -> which of left, right, top and bottom it cuts
    "top": "t",
    "left": "l",
    "top and bottom": "tb",
    "four sides": "lrtb",
}
KINDS = (
    "plain",
    *(f"{where} cut by the {what}" for what in ("frame", "mask") for where in SIDES),
    "off-centre",
    "small",
    "at 25 %",
    "at 10 %",
    "dark on one side",
    "noisy",
    "dark and noisy",
    "on grey",
    "on noisy grey",
    "on noise",
    "on white",
    "text",
    "tab",
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


def draw_texture(rng: np.random.Generator, side: int = 900) -> np.ndarray:
    """A retina without an edge: mottled, with an optic disc and vessels, (side, side, 3) uint8
    RGB.
    """
    mottle = sum(
        cv2.resize(
            rng.normal(0, spread, (n, n)).astype(np.float32),
            (side, side),
            interpolation=cv2.INTER_CUBIC,
        )
        for n, spread in ((4, 14), (12, 9), (60, 5), (220, 4))
    )
    image = rng.uniform((150, 65, 20), (225, 130, 90)) + mottle[..., None] * [1.0, 0.7, 0.4]
    at = rng.uniform(0.3, 0.7, 2) * side
    for _ in range(14):
        turns = np.cumsum(rng.normal(0, 0.12, 60)) + rng.uniform(0, 2 * np.pi)
        path = (
            at + np.cumsum(np.column_stack([np.cos(turns), np.sin(turns)]), axis=0) * side / 70
        )
        width = int(rng.integers(2, 12))
        cv2.polylines(image, [np.int32(path)], False, (120, 40, 25), width, cv2.LINE_AA)
    row, column = np.mgrid[:side, :side] - at[::-1, None, None]
    # an optic disc's soft edge
    glow = np.clip(2.5 - 1.6 * np.hypot(row * 0.9, column) / (side / 14), 0, 1)[..., None]
    image = image * (1 - glow) + glow * (250, 215, 150)
    return np.clip(cv2.GaussianBlur(image, (5, 5), 0), 0, 255).astype(np.uint8)


def draw_known_fov(kind: str, width: int, seed: int, textures: list[np.ndarray]) -> KnownFov:
    """Draw one of the `KINDS` into a picture that wide, its place, texture and details from the
    seed.
    """
    rng = np.random.default_rng([KINDS.index(kind), width, seed])
    height = round(width * rng.choice((2 / 3, 3 / 4, 1.0)))
    x, y, radius = _place(kind, width, height, rng)
    column, row = np.meshgrid(
        np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32)
    )
    u = (column - x) / radius
    v = (row - y) / radius
    depth = np.hypot(u, v)
    retina = (
        _fill(textures[rng.integers(len(textures))], u, v, rng)
        * _light(kind, u, depth, rng)[..., None]
    )
    softness = radius * rng.uniform(0.01, 0.03) if kind == "soft edge" else 1
    inside = np.clip((1 - depth) * radius / softness + 0.5, 0, 1)
    if kind.endswith("mask"):
        inside *= _mask(SIDES[kind.removesuffix(" cut by the mask")], u, v, rng)
    if kind == "tab":
        angle = rng.uniform(0, 2 * np.pi)
        half = rng.uniform(0.03, 0.08)
        along = u * np.cos(angle) + v * np.sin(angle)
        across = v * np.cos(angle) - u * np.sin(angle)
        inside = np.maximum(
            inside, (np.abs(across) < half) & (along > 0.9) & (along < rng.uniform(1.04, 1.12))
        )
    image = retina * inside[..., None] + _background(kind, depth, rng) * (1 - inside[..., None])
    if kind in ("noisy", "dark and noisy"):
        image += rng.normal(0, rng.uniform(5, 14) if kind == "noisy" else 4, image.shape)
    image = np.clip(np.round(image), 0, 255).astype(np.uint8)
    if kind == "text":
        _write(image, rng)
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
                quality = (
                    [cv2.IMWRITE_JPEG_QUALITY, 75 + seed * 7 % 22] if suffix == ".jpg" else []
                )
                encoded = cv2.imencode(suffix, fov.image[..., ::-1], quality)[1].tobytes()
                yield f"{kind}, {width} px, seed {seed}, {suffix}", encoded, fov


def _place(
    kind: str, width: int, height: int, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Centre and radius [px], anywhere between the pixels."""
    x = width / 2 + rng.uniform(-0.02, 0.02) * width
    y = height / 2 + rng.uniform(-0.01, 0.01) * height
    radius = height * rng.uniform(0.4, 0.47)
    if kind == "off-centre":
        radius *= 0.7
        x = x + rng.choice((-1, 1)) * 0.12 * width
        y = y + rng.choice((-1, 1)) * 0.12 * height
    if kind == "small":
        radius *= rng.uniform(0.35, 0.6)
    if kind.endswith("frame"):
        sides = SIDES[kind.removesuffix(" cut by the frame")]
        shown = rng.uniform(0.72, 0.9) * radius  # from the centre to the frame that cuts
        if sides == "t":
            y = shown
        if sides == "l":
            x = shown
        if sides == "tb":
            radius = height / 2 / rng.uniform(0.78, 0.93)
            x = width / 2 if height == width else x
        if sides == "lrtb":
            radius = np.hypot(width, height) / 2 * rng.uniform(0.86, 0.94)
    return float(x), float(y), float(radius)


def _fill(
    texture: np.ndarray, u: np.ndarray, v: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The texture stretched over the circle and a little beyond, turned by any angle: (height,
    width, 3) float32.
    """
    turn = rng.uniform(0, 2 * np.pi)
    zoom = texture.shape[0] / 2 / rng.uniform(1.05, 1.4)
    centre = texture.shape[0] / 2
    at_x = (centre + zoom * (u * np.cos(turn) - v * np.sin(turn))).astype(np.float32)
    at_y = (centre + zoom * (u * np.sin(turn) + v * np.cos(turn))).astype(np.float32)
    return cv2.remap(
        texture, at_x, at_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT
    ).astype(np.float32)


def _light(kind: str, u: np.ndarray, depth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """How much of the light arrives, 0 to 1."""
    if kind == "dark on one side":
        way = rng.choice((-1, 1))
        return np.clip(0.5 + way * rng.uniform(0.4, 0.48) * u, 0.06, 1)
    if kind == "vignette":
        return np.clip(1 - rng.uniform(0.6, 0.88) * depth ** rng.uniform(2, 4), 0.1, 1)
    return np.full_like(
        u, {"at 25 %": 0.25, "at 10 %": 0.10, "dark and noisy": 0.3}.get(kind, 1)
    )


def _mask(sides: str, u: np.ndarray, v: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """True where the mask's straight edges leave the field of view."""
    low, high = (0.76, 0.82) if len(sides) == 4 else (0.7, 0.92)
    kept = np.ones(u.shape, bool)
    for side, beyond in (("l", -u), ("r", u), ("t", -v), ("b", v)):
        if side in sides:
            kept &= beyond < rng.uniform(low, high)
    return kept


def _background(kind: str, depth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What surrounds the field of view, (height, width, 3) float."""
    level = {
        "on grey": rng.uniform(90, 150),
        "on noisy grey": 70,
        "on noise": 15,
        "on white": rng.uniform(235, 255),
    }
    back = np.full((*depth.shape, 3), level.get(kind, rng.integers(0, 9)), float)
    if "nois" in kind and kind.startswith("on"):
        back += rng.normal(0, 10, back.shape)
    if kind == "halo":
        glow = rng.uniform(30, 75) * np.exp(-np.maximum(depth - 1, 0) / rng.uniform(0.04, 0.1))
        back += glow[..., None] * [1.0, 0.9, 0.8]
    return back


def _write(image: np.ndarray, rng: np.random.Generator) -> None:
    """Letters in two corners and beside the field of view, of any size."""
    height, width = image.shape[:2]
    size = width / rng.uniform(700, 1100)
    thickness = max(1, round(2 * size))
    for words, at in (
        ("ID 000123 OD", (0.01, 0.07)),
        ("45 deg", (0.8, 0.97)),
        ("2024-03-01", (0.02, 0.95)),
    ):
        place = int(at[0] * width), int(at[1] * height)
        cv2.putText(
            image,
            words,
            place,
            cv2.FONT_HERSHEY_SIMPLEX,
            size,
            (255, 255, 255),
            thickness,
            cv2.LINE_AA,
        )
