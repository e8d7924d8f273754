"""Read a HEIC, as telephones write it; pillow-heif comes with the extra `heic`."""

import io

import numpy as np
from pillow_heif import HeifFile, open_heif

from dr_lib.data.photograph.decode import MAX_PROFILE, Picture


def read_heic(encoded: bytes) -> Picture:
    """Read the header of a HEIC's main picture, which its decoder turns upright."""
    opened = open_heif(io.BytesIO(encoded))
    profile = (opened.info.get("icc_profile") or b"")[:MAX_PROFILE]
    return Picture(
        encoded, *opened.size, "heic", 1, kept_bytes=12, profile=profile, page=opened
    )


def read_samples(picture: Picture) -> np.ndarray:
    """Decode to (height, width, 3) uint8 RGB."""
    return np.array(picture.page.to_pillow().convert("RGB"))


def to_rgb(samples: np.ndarray, opened: HeifFile) -> np.ndarray:
    """Return what is RGB already."""
    return samples
