"""Read a TIFF in any layout, with every tag that changes what it shows.

tifffile and imagecodecs are imported for the first TIFF: other photographs need neither.
"""

import io
import logging

import cv2
import numpy as np
import tifffile
from PIL import Image

from dr_lib.data.photograph.decode import (
    MAX_MEMORY,
    MAX_PARTS,
    MAX_PROFILE,
    ORIENTATION_TAG,
    Picture,
    hide_transparent,
)
from dr_lib.data.photograph.errors import UnreadableImageError

# values of PhotometricInterpretation
WHITE_IS_ZERO = 0
BLACK_IS_ZERO = 1
RGB = 2
PALETTE = 3
CMYK = 5
YCBCR = 6
NUM_COLOURS = {WHITE_IS_ZERO: 1, BLACK_IS_ZERO: 1, RGB: 3, PALETTE: 1, CMYK: 4, YCBCR: 3}
# Values of Compression: none, fax, LZW, Deflate, PackBits, LZMA, Zstandard, whose decoders are
# given the size that they may unpack; and JPEG, JPEG 2000, WebP, which state their own size.
PACKED = {1, 2, 3, 4, 5, 8, 32773, 32946, 34925, 50000}
PICTURES = {7, 33005, 34712, 50001}


def read_tiff(encoded: bytes) -> Picture:
    """Read the header of a TIFF's first page.

    Raises:
        UnreadableImageError: the page is a thumbnail, stores what cannot be shown, or is damaged.
    """
    logging.getLogger("tifffile").setLevel(logging.CRITICAL)
    page = tifffile.TiffFile(io.BytesIO(encoded)).pages.first
    kind = page.dtype.kind if page.dtype else ""
    refused = {
        "begins with a thumbnail: export the photograph alone": page.is_reduced,
        "is a volume: export one picture": page.imagedepth > 1,
        f"stores its colours as {_name(page.photometric)}: export it as RGB": (
            page.photometric not in NUM_COLOURS
        ),
        f"is compressed as {_name(page.compression)}: export it with LZW": (
            page.compression not in PACKED | PICTURES
        ),
        f"has samples of type {page.dtype}: export it with 8 or 16 bits": (
            kind not in ("b", "u") or page.dtype.itemsize > 2
        ),
    }
    for reason, holds in refused.items():
        if holds:
            raise UnreadableImageError(f"the TIFF {reason}")
    sizes = page.databytecounts
    is_whole = sizes and all(sizes) and all(page.dataoffsets) and all(page.shape)
    num_bytes = page.samplesperpixel * page.dtype.itemsize  # of a pixel
    is_huge = page.is_tiled and page.tilelength * page.tilewidth * num_bytes > MAX_MEMORY / 4
    if not is_whole or is_huge or len(sizes) > MAX_PARTS or sum(sizes) > len(encoded):
        raise UnreadableImageError("the TIFF is damaged or cut short, or has too many parts")
    end = max(map(sum, zip(page.dataoffsets, sizes, strict=True)))
    # an interrupted copy leaves zeros at the end of compressed pixels
    if (
        page.compression != 1
        and encoded.endswith(bytes(64))
        and end > len(encoded.rstrip(b"\0"))
    ):
        raise UnreadableImageError("the file is cut short: it ends in zeros")

    orientation = page.tags.valueof(ORIENTATION_TAG, 1)
    profile = page.tags.valueof("InterColorProfile", b"")
    return Picture(
        encoded,
        int(page.imagewidth),  # damaged it may be several
        int(page.imagelength),
        "tiff",
        orientation if orientation in range(1, 9) else 1,
        bits=8 * page.dtype.itemsize,
        kept_bytes=max(6, 2 * num_bytes + (page.planarconfig == 2)),
        depth=_find_stated(page),
        profile=profile if isinstance(profile, bytes) and len(profile) < MAX_PROFILE else b"",
        page=page,
    )


def read_samples(picture: Picture) -> np.ndarray:
    """Decode the samples of a TIFF's colours: (height, width, colours) uint8 or uint16."""
    page = picture.page
    if page.compression in PICTURES:
        _check_parts(picture)
    samples = page.asarray(maxworkers=1)
    if page.planarconfig == 2 and page.samplesperpixel > 1:
        samples = np.moveaxis(samples, 0, -1)
    samples = samples.reshape(picture.height, picture.width, page.samplesperpixel)
    if samples.dtype == bool:
        samples = samples.view(np.uint8)
    if page.photometric == PALETTE:
        table = page.colormap >> (8 if page.colormap.max() > 255 else 0)
        return table.T.astype(np.uint8)[samples[..., 0]]
    num_colours = NUM_COLOURS[page.photometric]
    colours = np.ascontiguousarray(samples[..., :num_colours])
    alphas = [i for i, kind in enumerate(page.extrasamples, num_colours) if kind in (1, 2)]
    if alphas and page.photometric in (BLACK_IS_ZERO, RGB):
        colours = hide_transparent(colours, samples[..., alphas[0]])
    return colours


def to_rgb(samples: np.ndarray, page: tifffile.TiffPage) -> np.ndarray:
    """Convert samples, (height, width, colours) uint8, to (height, width, 3) RGB."""
    if page.photometric == CMYK:
        inks = 255 - samples.astype(np.uint16)
        return (inks[..., :3] * inks[..., 3:] // 255).astype(np.uint8)
    if page.photometric == YCBCR and page.compression not in PICTURES:
        return cv2.cvtColor(samples[..., [0, 2, 1]], cv2.COLOR_YCrCb2RGB)
    if page.photometric == WHITE_IS_ZERO:
        samples = 255 - samples
    return samples if samples.shape[-1] == 3 else cv2.cvtColor(samples, cv2.COLOR_GRAY2RGB)


def _find_stated(page: tifffile.TiffPage) -> int:
    """Find how many bits of a sample carry light, where the file says it."""
    if page.photometric == PALETTE:
        return 8
    bits = page.bitspersample
    if bits != 16:  # where red, green and blue have different ones, tifffile scales them
        return bits if isinstance(bits, int) else 8
    for tag in ("MaxSampleValue", "SMaxSampleValue"):
        largest = np.max(page.tags.valueof(tag, 0))
        if 255 <= largest < 65535:
            return int(largest).bit_length()
    return 0


def _check_parts(picture: Picture) -> None:
    """Refuse parts that claim more pixels than the header gives them."""
    page = picture.page
    size = (page.imagewidth, page.imagelength)
    if page.is_tiled:
        size = (page.tilewidth, page.tilelength)
    for start, length in zip(page.dataoffsets, page.databytecounts, strict=True):
        with Image.open(io.BytesIO(picture.encoded[start : start + length])) as part:
            if part.width > size[0] or part.height > size[1]:
                raise UnreadableImageError("the TIFF has a damaged header")


def _name(value: int) -> str:
    """Name the value of a tag; by its number where tifffile knows no name."""
    return getattr(value, "name", f"number {value}")
