"""Fixtures of the CUDA network: libraries built once, in a cache of the tests' own, and
synthetic digits.
"""

import numpy as np
import pytest

from dr_lib.mnist import build


def draw_digits(n, seed=0):
    """Images of ten classes: a coarse pattern each, under noise."""
    rng = np.random.default_rng(seed)
    patterns = np.random.default_rng(99).integers(0, 2, (10, 7, 7))
    digits = rng.integers(0, 10, n, dtype=np.uint8)
    large = patterns[digits].repeat(4, axis=1).repeat(4, axis=2)
    return (150 * large + rng.integers(0, 100, (n, 28, 28))).astype(np.uint8), digits


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
    """The network on this CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", cache)
        return build.build("cpu")
