"""Read a TIFF of the plain kinds that cameras and programs write.

tifffile and imagecodecs are imported for the first TIFF: other photographs need neither.
"""

import io
import logging

import numpy as np
import tifffile

from dr_lib.data.photograph.decode import (
    MAX_PARTS,
    ORIENTATION_TAG,
    Picture,
    check_size,
    refuse,
    to_rgb,
)

PROFILE_TAG = "InterColorProfile"
# samples of a pixel, by values of PhotometricInterpretation: grey and RGB
NUM_SAMPLES = {1: (1,), 2: (3, 4)}
# values of Compression whose decoders are given the size that they may unpack: none, LZW, Deflate,
# PackBits, LZMA, Zstandard
PACKED = {1, 5, 8, 32773, 32946, 34925, 50000}


def read_tiff(encoded: bytes) -> Picture:
    """Read a TIFF's first page.

    Raises:
        UnreadableImageError: the page is a thumbnail, is stored in a way that is not read, or is
            damaged.
    """
    logging.getLogger("tifffile").setLevel(logging.CRITICAL)
    page = tifffile.TiffFile(io.BytesIO(encoded)).pages.first
    reasons = {
        "begins with a thumbnail: export the photograph alone": page.is_reduced,
        "is compressed in a way that is not read: export it with LZW": (
            page.compression not in PACKED
        ),
        "is a volume or has its colours in planes: export one picture, by pixels": (
            page.axes not in ("YX", "YXS")
        ),
        "stores its colours in another way than grey and RGB: export it as RGB": (
            page.samplesperpixel not in NUM_SAMPLES.get(page.photometric, ())
        ),
        "has other samples than whole numbers of 8 bits: export it with 8 bits": (
            page.bitspersample != 8 or page.sampleformat != 1
        ),
    }
    refuse("TIFF", reasons)
    height, width = page.shape[:2]
    rows, columns = np.maximum(page.shape, page.chunks)[:2].tolist()
    check_size(encoded, columns, rows, 3 * page.samplesperpixel)
    sizes = page.databytecounts
    is_whole = all(sizes) and all(page.dataoffsets) and sum(sizes) <= len(encoded)
    # an interrupted copy leaves zeros at the end of compressed pixels
    has_zeros = page.compression != 1 and encoded.endswith(bytes(64))
    is_broken = not is_whole or has_zeros or len(sizes) > MAX_PARTS
    refuse("TIFF", {"is damaged or cut short, or has too many parts": is_broken})
    samples = page.asarray(maxworkers=1)
    if 0 in page.extrasamples:  # not opacity
        samples = samples[..., :3]
    orientation, profile = (page.tags.valueof(tag) for tag in (ORIENTATION_TAG, PROFILE_TAG))
    orientation = orientation if isinstance(orientation, int) else 1
    return Picture(width, height, orientation, profile, to_rgb(samples))
