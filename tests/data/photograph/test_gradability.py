"""How well a crop can be graded: real photographs, made worse in known steps."""

from itertools import islice

import numpy as np
import pytest

from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.gradability import score_gradability
from tests.bench_gradability import STEPS, degrade, is_well_exposed, read_photographs


@pytest.fixture(scope="module")
def photographs(real_data):
    """Ten photographs that are neither dark nor overexposed to begin with, which a new exposure
    could mend.
    """
    return list(islice(filter(is_well_exposed, read_photographs(real_data)[::37]), 10))


@pytest.mark.parametrize("kind", STEPS)
def test_the_score_falls_with_each_step(photographs, kind):
    """Blur, a shorter or longer exposure, a part that is covered: less with each step, on
    average and in 9 of 10.
    """
    scores = np.array(
        [
            [score_gradability(degrade(image, kind, by)) for by in STEPS[kind]]
            for image in photographs
        ]
    )
    assert len(scores) == 10 and (0 <= scores).all() and (scores < 1).all()
    assert (np.diff(scores.mean(axis=0)) < 0).all() and (
        (np.diff(scores, axis=1) < 0).mean(axis=0) >= 0.9
    ).all()


def test_what_shows_nothing_scores_nothing():
    """A black crop, and an even one: there is nothing to see."""
    assert score_gradability(np.zeros((299, 299, 3), np.uint8)) == 0
    assert score_gradability(np.full((299, 299, 3), 128, np.uint8)) < 1e-4


def test_noise_is_not_detail_and_lost_pixels_count_one_by_one():
    """An even crop with noise scores below half of what the noise alone would; stripes of lost
    red weigh their half.
    """
    even = np.full((299, 299, 3), (180, 100, 60), np.uint8)
    noisy = np.clip(even + np.random.default_rng(0).normal(0, 3, even.shape), 0, 255).astype(
        np.uint8
    )
    assert score_gradability(noisy) < 0.15
    striped = noisy.copy()
    striped[:, np.arange(299) % 4 < 2, 0] = 255
    assert score_gradability(striped) == pytest.approx(score_gradability(noisy) * 0.5**3, rel=0.05)


def test_the_size_of_the_crop_hardly_counts(real_data):
    """The same photograph, of 2,000 px and more a side, cropped to 299 and to 512 px."""
    path = sorted((real_data / "fullres" / "images").iterdir())[0]
    small, large = (score_gradability(crop_fundus(path, size).image) for size in (299, 512))
    assert small == pytest.approx(large, rel=0.15)
