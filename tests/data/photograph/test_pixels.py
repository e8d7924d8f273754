"""Crops as they are stored and as networks get them: one decoder's pixels, shrunk by area."""

import io

import cv2
import numpy as np
import pytest
from PIL import Image

from dr_lib.data.photograph import pixels


def draw_crop(seed: int, blur: float = 1.0) -> np.ndarray:
    """A random picture of the size of a crop."""
    noise = np.random.default_rng(seed).integers(0, 256, (299, 299, 3), dtype=np.uint8)
    return cv2.GaussianBlur(noise, (0, 0), blur)


def test_pillow_encodes_and_decodes_the_same(monkeypatch):
    """OpenCV and Pillow agree to the bit, so it is all the same which of them a machine has."""
    image = draw_crop(1)
    encoded = pixels.encode_jpeg(image)
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "JPEG", quality=95)
    by_opencv = [pixels.decode_jpeg(encoded, size) for size in (299, 224)]
    assert (by_opencv[0] == np.asarray(Image.open(buffer))).all()
    monkeypatch.setattr(pixels, "cv2", None)
    assert all((pixels.decode_jpeg(encoded, len(image)) == image).all() for image in by_opencv)


@pytest.mark.parametrize("size", [32, 48, 96, 150, 224, 298, 299])
def test_shrinking_averages_areas(size):
    """Each pixel is the mean of what it covers, as OpenCV's area interpolation has it, within
    one level.
    """
    image = draw_crop(size)
    wanted = cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA)
    assert np.abs(pixels.shrink(image, size).astype(int) - wanted).max() <= 1
