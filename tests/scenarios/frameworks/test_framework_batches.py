"""FixedBatches for the frameworks: full, in an order of their own, each image at most once an
epoch.
"""

import numpy as np
import pytest

from dr_lib.data.small_images import to_floats
from dr_lib.scenarios.frameworks.batches import FixedBatches


@pytest.fixture
def batches() -> FixedBatches:
    """23 images of one pixel, whose value is their number, in batches of 5."""
    numbers = np.arange(23)
    return FixedBatches(numbers.astype(np.uint8).reshape(-1, 1, 1, 1), numbers % 10, 5, seed=2)


def read_numbers(batches: FixedBatches, epoch: int) -> list[int]:
    """The images of an epoch, by number."""
    pixels = np.concatenate([images.ravel() for images, _ in batches.epoch(epoch)])
    return pixels.tolist()


def test_an_epoch_has_full_batches_of_different_images(batches):
    """Of 23 images, 4 batches of 5 and 3 dropped; images and labels stay together."""
    assert len(batches) == 4
    assert batches.num_dropped == 3
    for images, labels in batches.epoch(0):
        assert (images.shape, images.dtype) == ((5, 1, 1, 1), np.uint8)
        assert (labels.shape, labels.dtype) == ((5,), np.int64)
        assert (images.ravel() % 10 == labels).all()
    numbers = read_numbers(batches, 0)
    assert len(set(numbers)) == 20
    assert set(numbers) <= set(range(23))


def test_the_order_depends_on_seed_and_epoch_alone(batches):
    """Asked for again it is the same; another epoch or seed has another."""
    assert read_numbers(batches, 1) == read_numbers(batches, 1) != read_numbers(batches, 0)
    other = FixedBatches(batches.images, batches.labels, 5, seed=3)
    assert read_numbers(other, 1) != read_numbers(batches, 1)


def test_pixels_are_scaled_to_one():
    """0, 51 and 255 are 0, 0.2 and 1."""
    assert to_floats(np.array([0, 51, 255], np.uint8)).tolist() == pytest.approx(
        [0, 0.2, 1], abs=1e-7
    )


@pytest.mark.parametrize("batch_size", [0, 24])
def test_what_makes_no_batches_is_refused(batches, batch_size):
    """The message says what may be."""
    with pytest.raises(ValueError, match="1 to 23"):
        FixedBatches(batches.images, batches.labels, batch_size, seed=0)
