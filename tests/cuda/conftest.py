"""Fixtures of the CUDA network: libraries built once, in a cache of the tests' own, and synthetic digits."""

import numpy as np
import pytest

from dr_lib.cuda import build

SEGMENTS = {  # of a seven-segment display: top, upper left, upper right, middle, lower left, lower right, bottom
    "top": (slice(5, 8), slice(9, 19)),
    "upper left": (slice(5, 15), slice(8, 11)),
    "upper right": (slice(5, 15), slice(17, 20)),
    "middle": (slice(13, 16), slice(9, 19)),
    "lower left": (slice(14, 24), slice(8, 11)),
    "lower right": (slice(14, 24), slice(17, 20)),
    "bottom": (slice(21, 24), slice(9, 19)),
}
LIT = ("1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011")


def draw_digits(number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(number, 28, 28) uint8 images of seven-segment digits, shifted and noisy, and the digits."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, number).astype(np.uint8)
    x = rng.integers(0, 60, (number, 28, 28))
    for image, digit in zip(x, y, strict=True):
        for lit, (rows, columns) in zip(LIT[digit], SEGMENTS.values(), strict=True):
            image[rows, columns] += int(lit) * 180
        image[:] = np.roll(image, rng.integers(-2, 3, 2), axis=(0, 1))
    return x.astype(np.uint8), y


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """600 digits to train on and 200 to test on; read only."""
    return (*draw_digits(600, seed=1), *draw_digits(200, seed=2))


@pytest.fixture(scope="session")
def cache(tmp_path_factory) -> str:
    """A cache folder for the built libraries of this session."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def library(cache) -> build.Library:
    """The network on this CPU, with its own width of vectors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", cache)
        return build.build("cpu")


@pytest.fixture(scope="session")
def warps(cache) -> build.Library:
    """The network on this CPU, with vectors of 32: the threads of a GPU, warp by warp."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", cache)
        return build.build_cpu(lanes=32)
