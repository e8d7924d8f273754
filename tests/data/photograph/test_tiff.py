"""TIFF in every layout: the crop is that of the same picture as a PNG, or the reason is true."""

import struct

import numpy as np
import pytest

from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.errors import UnreadableImageError
from tests.data.photograph.pictures import GREY, IMAGE, IS_INSIDE, differ, to_file, write_tiff

ALPHA = (255 * IS_INSIDE).astype(np.uint8)
ON_WHITE = np.where(IS_INSIDE[..., None], IMAGE, 255).astype(np.uint8)
LAYOUTS = {
    "tiles": (IMAGE, {"tile": (64, 64)}),
    "BigTIFF, big-endian": (IMAGE, {"bigtiff": True, "byteorder": ">"}),
    "LZW, differences": (IMAGE, {"compression": "lzw", "predictor": True}),
    "transparent": (np.dstack([ON_WHITE, ALPHA]), {"extrasamples": ["unassalpha"]}),
    "another sample": (np.dstack([IMAGE, 0 * GREY]), {"extrasamples": ["unspecified"]}),
    "several pages": (np.stack([IMAGE, IMAGE[::-1]]), {}),
    "grey": (GREY, {"photometric": "minisblack"}),
}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_layout_changes_nothing(kind):
    """However the samples are stored, the crop is that of the PNG, but for the soft edge of what
    is transparent.
    """
    stored, options = LAYOUTS[kind]
    crop = crop_fundus(write_tiff(stored, **options))
    expected = crop_fundus(to_file(GREY if kind == "grey" else IMAGE))
    assert crop.status == "ok" and differ(crop.image, expected.image) < 0.1


@pytest.mark.parametrize(
    ("stored", "options", "reason"),
    [
        (IMAGE.astype(np.float32), {}, "has other samples"),
        (np.dstack([IMAGE, GREY]), {"photometric": "separated"}, "its colours in another way"),
        (GREY, {"photometric": "miniswhite"}, "stores its colours in another way"),
        (np.moveaxis(IMAGE, -1, 0), {"planarconfig": "separate"}, "its colours in planes"),
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
