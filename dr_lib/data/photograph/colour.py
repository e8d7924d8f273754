"""Convert colours to sRGB."""

import io
from functools import lru_cache

import cv2
import numpy as np
from PIL import Image, ImageCms


def to_srgb(image: np.ndarray, profile: bytes) -> np.ndarray:
    """Convert colours from an ICC profile to sRGB.

    Args:
        image: (height, width, 3) uint8 RGB; it comes back as it is where the profile is one of
            sRGB's own variants, is damaged, or is for grey or for a printer's inks.
        profile: the profile's file; a damaged picture may have something else in its place.
    """
    try:
        transform = _open_profile(profile)
    except (ImageCms.PyCMSError, OSError, TypeError):
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
