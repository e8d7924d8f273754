"""TIFF in every layout: the crop is that of the same picture as a PNG, or the reason is true."""

import io
import struct

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
GREY_DEEP = GREY.astype(np.uint16) * 257
TILES = {"tile": (64, 64)}
LAYOUTS = {
    "strips": (IMAGE, {"rowsperstrip": 7}),
    "tiles": (IMAGE, TILES),
    "BigTIFF": (IMAGE, {"bigtiff": True}),
    "big-endian": (DEEP, {"byteorder": ">"}),
    "LZW, differences": (DEEP, {"compression": "lzw", "predictor": True}),
    "Deflate": (IMAGE, {"compression": "zlib"}),
    "PackBits": (IMAGE, {"compression": "packbits"}),
    "Zstandard": (IMAGE, {"compression": "zstd"}),
    "12 bits, packed": (OF_12_BITS, {"bitspersample": 12}),
    "transparent": (np.dstack([ON_WHITE, ALPHA]), {"extrasamples": ["unassalpha"]}),
    "transparent, multiplied": (np.dstack([IMAGE, ALPHA]), {"extrasamples": ["assocalpha"]}),
    "another sample": (np.dstack([IMAGE, 0 * GREY]), {"extrasamples": ["unspecified"]}),
    "a profile's name": (IMAGE, {"extratags": [(34675, "s", 0, "Adobe RGB (1998)", True)]}),
    "numbers for a profile": (IMAGE, {"extratags": [(34675, "H", 2000, (7,) * 2000, True)]}),
    "two orientations": (IMAGE, {"extratags": [(274, "H", 2, (6, 8), True)]}),
    "several pages": (np.stack([IMAGE, IMAGE[::-1]]), {}),
}
GREYS = {
    "grey": (GREY, {}),
    "white is zero": (255 - GREY, {"photometric": "miniswhite"}),
    "white is zero, 16 bits": (65535 - GREY_DEEP, {"photometric": "miniswhite"}),
}


@pytest.mark.parametrize("kind", [*LAYOUTS, *GREYS])
def test_a_layout_changes_nothing(kind):
    """However the samples are stored, the crop is that of the PNG, but for the soft edge of what
    is transparent.
    """
    stored, options = (LAYOUTS | GREYS)[kind]
    if kind in GREYS:
        options = {"photometric": "minisblack", **options}
    crop = crop_fundus(write_tiff(stored, **options))
    expected = crop_fundus(to_file(GREY if kind in GREYS else IMAGE))
    assert crop.status == "ok" and differ(crop.image, expected.image) < 0.1


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
        (IMAGE.astype(np.float32), {}, "has samples of another kind"),
        (DEEP.astype(np.int16), {}, "has samples of another kind"),
        (DEEP.astype(np.uint32), {}, "has samples of another kind"),
        (IMAGE, {"photometric": "cielab"}, "stores its colours in another way"),
        (np.dstack([IMAGE, GREY]), {"photometric": "separated"}, "its colours in another way"),
        (IMAGE, {"photometric": "ycbcr"}, "stores its colours in another way"),
        (IMAGE, {"compression": "lerc"}, "is compressed in a way"),
        (IMAGE, {"compression": "jpeg"}, "is compressed in a way"),
        (IMAGE, {"subfiletype": 1}, "begins with a thumbnail"),
        (PLANES, {"planarconfig": "separate"}, "its colours in planes"),
        (np.stack([IMAGE] * 3), {"volumetric": True, "tile": (1, 64, 64)}, "a volume"),
        (OF_12_BITS, {}, "uses 14 or fewer"),
    ],
)
def test_what_is_refused_has_its_reason(stored, options, reason):
    """Samples without a scale and colours without a meaning are no black picture."""
    encoded = write_tiff(stored, **options)
    with pytest.raises(UnreadableImageError, match=f"{reason}.*: export"):
        crop_fundus(encoded)


def test_a_tile_cannot_be_larger_than_the_memory():
    """A small TIFF that claims tiles of 30,000 x 30,000 px is refused by its header."""
    encoded = write_tiff(IMAGE, tile=(64, 64), compression="zlib")
    for tag in (322, 323):  # TileWidth and TileLength, a LONG each (TIFF 6.0, section 15)
        entry = struct.pack("<2HI", tag, 4, 1)
        encoded = encoded.replace(
            entry + struct.pack("<I", 64), entry + struct.pack("<I", 30_000)
        )
    with pytest.raises(UnreadableImageError, match="too many pixels"):
        crop_fundus(encoded)


def test_a_deep_tiff_of_ten_megapixels_is_not_too_large():
    """As large as a camera's: its pixels are read, and there are none in them."""
    encoded = write_tiff(np.zeros((2592, 3888, 3), np.uint16))
    with pytest.raises(UnreadableImageError, match="uses 14 or fewer"):
        crop_fundus(encoded)
