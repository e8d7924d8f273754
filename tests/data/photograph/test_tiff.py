"""TIFF in every layout: the crop is that of the same picture as a PNG, or the reason is true."""

import io

import cv2
import numpy as np
import pytest
import tifffile

from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.errors import UnreadableImageError
from tests.data.photograph.pictures import GREY, IMAGE, IS_INSIDE, differ, to_file, write_tiff

DEEP = IMAGE.astype(np.uint16) * 257
OF_12_BITS = IMAGE.astype(np.uint16) << 4 | IMAGE >> 4
PLANES = np.moveaxis(IMAGE, -1, 0)
ALPHA = (255 * IS_INSIDE).astype(np.uint8)
ON_WHITE = np.where(IS_INSIDE[..., None], IMAGE, 255).astype(np.uint8)
# of every ink as much as there is no light, none of black
INKS = np.dstack([255 - IMAGE, np.zeros_like(GREY)])
YCBCR = cv2.cvtColor(IMAGE, cv2.COLOR_RGB2YCrCb)[..., [0, 2, 1]]
APART = {"planarconfig": "separate"}
TILES = {"tile": (64, 64)}
LAYOUTS = {
    "strips": (IMAGE, {"rowsperstrip": 7}),
    "tiles": (IMAGE, TILES),
    "planes": (PLANES, APART),
    "BigTIFF": (IMAGE, {"bigtiff": True}),
    "big-endian": (DEEP, {"byteorder": ">"}),
    "LZW, differences": (DEEP, {"compression": "lzw", "predictor": True}),
    "Deflate": (IMAGE, {"compression": "zlib"}),
    "PackBits": (IMAGE, {"compression": "packbits"}),
    "Zstandard": (IMAGE, {"compression": "zstd"}),
    "JPEG 2000": (IMAGE, {"compression": "jpeg2000"} | TILES),
    "WebP": (IMAGE, {"compression": "webp"} | TILES),
    "JPEG": (IMAGE, {"compression": "jpeg", "compressionargs": {"level": 97}} | TILES),
    "JPEG, YCbCr": (
        YCBCR,
        {"compression": "jpeg", "compressionargs": {"level": 97}, "photometric": "ycbcr"},
    ),
    "YCbCr": (YCBCR, {"photometric": "ycbcr"}),
    "inks": (INKS, {"photometric": "separated"}),
    "12 bits, packed": (OF_12_BITS, {"bitspersample": 12}),
    "12 bits of 16, stated": (OF_12_BITS, {"extratags": [(281, "H", 3, (4095,) * 3, True)]}),
    "transparent": (np.dstack([ON_WHITE, ALPHA]), {"extrasamples": ["unassalpha"]}),
    "transparent, multiplied": (np.dstack([IMAGE, ALPHA]), {"extrasamples": ["assocalpha"]}),
    "another sample": (np.dstack([IMAGE, 0 * GREY]), {"extrasamples": ["unspecified"]}),
    "several pages": (np.stack([IMAGE, IMAGE[::-1]]), {}),
}
GREYS = {
    "grey": (GREY, {}),
    "white is zero": (255 - GREY, {"photometric": "miniswhite"}),
    "white is zero, 12 bits": (
        4095 - (GREY.astype(np.uint16) << 4 | GREY >> 4),
        {"photometric": "miniswhite"},
    ),
    "grey and transparent": (
        np.dstack([np.where(IS_INSIDE, GREY, 255).astype(np.uint8), ALPHA]),
        {"planarconfig": "contig", "extrasamples": ["unassalpha"]},
    ),
}


@pytest.mark.parametrize("kind", [*LAYOUTS, *GREYS])
def test_a_layout_changes_nothing(kind):
    """However the samples are stored, the crop is that of the PNG, but for what JPEG, YCbCr and
    the soft edge of what is transparent lose.
    """
    stored, options = (LAYOUTS | GREYS)[kind]
    if kind in GREYS:
        options = {"photometric": "minisblack", **options}
    crop = crop_fundus(write_tiff(stored, **options))
    expected = crop_fundus(to_file(GREY if kind in GREYS else IMAGE))
    most = 1 if "JPEG" in kind or "YCbCr" in kind else 0.1
    assert crop.status == "ok" and differ(crop.image, expected.image) < most


def test_a_pyramid_shows_its_largest_picture():
    """Smaller copies behind the photograph, as scanners write them, are not looked at."""
    buffer = io.BytesIO()
    with tifffile.TiffWriter(buffer) as tiff:
        tiff.write(IMAGE, photometric="rgb", subifds=1)
        tiff.write(IMAGE[::2, ::2], photometric="rgb", subfiletype=1)
    assert (crop_fundus(buffer.getvalue()).image == crop_fundus(to_file(IMAGE)).image).all()


@pytest.mark.parametrize(
    ("stored", "options", "reason"),
    [
        (IMAGE.astype(np.float32), {}, "samples of type float32"),
        (DEEP.astype(np.int16), {}, "samples of type int16"),
        (DEEP.astype(np.uint32), {}, "samples of type uint32"),
        (IMAGE, {"photometric": "cielab"}, "stores its colours as CIELAB"),
        (IMAGE, {"compression": "lerc"}, "is compressed as LERC"),
        (IMAGE, {"subfiletype": 1}, "begins with a thumbnail"),
        (np.stack([IMAGE] * 3), {"volumetric": True, "tile": (1, 64, 64)}, "a volume"),
    ],
)
def test_what_is_refused_has_its_reason(stored, options, reason):
    """Samples without a scale and colours without a meaning are no black picture."""
    encoded = write_tiff(stored, **options)
    with pytest.raises(UnreadableImageError, match=reason):
        crop_fundus(encoded)


def test_a_part_cannot_be_larger_than_the_picture():
    """A small TIFF around a JPEG of 10,000 x 10,000 px is refused by that header."""
    encoded = write_tiff(IMAGE, compression="jpeg")
    at = encoded.index(b"\xff\xc0")
    huge = encoded[: at + 5] + b"\x27\x10\x27\x10" + encoded[at + 9 :]
    with pytest.raises(UnreadableImageError, match="damaged header"):
        crop_fundus(huge)
