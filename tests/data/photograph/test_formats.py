"""Files of every format and kind: circle and colours are those of what Pillow decodes."""

import io
import struct
from importlib.util import find_spec

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.decode import load_reader
from dr_lib.data.photograph.errors import UnreadableImageError
from tests.data.photograph.pictures import (
    GREY,
    IMAGE,
    IS_INSIDE,
    PLACE,
    add_chunk,
    differ,
    draw_fov,
    error,
    make_exif,
    to_file,
)

PICTURE = Image.fromarray(IMAGE)
CMYK = PICTURE.convert("CMYK")
GREY_PICTURE = PICTURE.convert("L")
PALETTE = PICTURE.quantize(200)
# what is transparent is white underneath
RGBA = np.dstack([np.where(IS_INSIDE[..., None], IMAGE, 255), 255 * IS_INSIDE]).astype(np.uint8)


def make_png(width: int, height: int, packed: bytes) -> bytes:
    """A PNG in colour around packed rows as they are given."""
    png = b"\x89PNG\r\n\x1a\n"
    header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    for kind, content in ((b"IHDR", header), (b"IDAT", packed), (b"IEND", b"")):
        png = add_chunk(png, kind, content, len(png))
    return png


JPEGS = {
    "jpeg": (PICTURE, {}),
    "jpeg, progressive": (PICTURE, {"progressive": True}),
    "jpeg, grey": (GREY_PICTURE, {}),
    "jpeg, restart markers": (PICTURE, {"restart_marker_blocks": 7}),
    "jpeg, cmyk": (CMYK, {}),
}
FILES = {
    kind: to_file(picture, ".jpg", quality=95, **options)
    for kind, (picture, options) in JPEGS.items()
}
FILES["jpeg, bytes behind its end"] = FILES["jpeg"] + b"\xff\xd8\xff\xda" + bytes(500)
FILES |= {
    "png": to_file(PICTURE),
    "png, transparent": to_file(RGBA),
    "png, transparent palette": to_file(PALETTE, transparency=bytes([0, 128] + [255] * 198)),
    "tiff": to_file(PICTURE, ".tif"),
    "bmp": to_file(PICTURE, ".bmp"),
    "webp, transparent": to_file(RGBA, ".webp", quality=95),
    "gif": to_file(PALETTE, ".gif"),
}
TURNED = [".jpg", ".png", ".tif", ".webp"]
if find_spec("pillow_heif"):
    load_reader("heic")
    FILES["heic"] = to_file(PICTURE, ".heic", quality=95)
    TURNED.append(".heic")


def decode_with_pillow(encoded: bytes) -> np.ndarray:
    """Upright, on black where it is transparent, (height, width, 3) uint8 RGB."""
    with Image.open(io.BytesIO(encoded)) as picture:
        upright = ImageOps.exif_transpose(picture).convert("RGBA")
    shown = Image.new("RGBA", upright.size, (0, 0, 0, 255))
    return np.asarray(Image.alpha_composite(shown, upright).convert("RGB"))


@pytest.mark.parametrize("kind", FILES)
def test_circle_and_colours_are_those_of_pillow(kind):
    """Every kind of file gives the field of view that was drawn, in the colours that Pillow
    sees.
    """
    crop = crop_fundus(FILES[kind])
    expected = crop_fundus(to_file(decode_with_pillow(FILES[kind])))
    assert error(crop.circle, *PLACE) < 0.006 and error(crop.circle, *expected.circle) < 0.002
    assert differ(crop.image, expected.image) < 1.5 and crop.status == "ok"


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", TURNED)
def test_exif_orientation_is_applied(orientation, suffix):
    """Whatever the orientation tag, circle and crop are those of the picture that Pillow turned
    upright.
    """
    turned = draw_fov(640, 480, 260.0, 230.0, 150.0)
    stored = to_file(turned, suffix, exif=make_exif(orientation).tobytes(), quality=95)
    crop = crop_fundus(stored)
    expected = crop_fundus(to_file(decode_with_pillow(stored)))
    assert error(crop.circle, *expected.circle) < 0.002
    assert differ(crop.image, expected.image) < 1


EXIF = make_exif(6).tobytes()


@pytest.mark.parametrize(
    "exif",
    [
        make_exif(9).tobytes(),
        EXIF[:-8],  # cut in its directory
        EXIF.replace(b"\1\x12\0\3", b"\1\x12\0\x99"),  # of no type
    ],
)
def test_what_is_no_orientation_turns_nothing(exif):
    """EXIF has 1 to 8. Where it is damaged the photograph is there all the same."""
    plain = to_file(IMAGE, ".jpg")
    segment = b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif
    crop = crop_fundus(plain[:2] + segment + plain[2:])
    assert crop.status == "ok" and (crop.image == crop_fundus(plain).image).all()


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_samples_of_16_bits_are_refused(suffix):
    """Many have 12 bits of light and would be black."""
    for picture in (IMAGE, GREY):
        encoded = cv2.imencode(suffix, picture.astype(np.uint16) << 4)[1].tobytes()
        with pytest.raises(UnreadableImageError, match="export it with 8 bits"):
            crop_fundus(encoded)
