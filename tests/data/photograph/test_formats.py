"""Files of every format and kind: circle and colours are those of what Pillow decodes."""

import io
import struct
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.decode import decode, open_picture
from tests.data.photograph.pictures import draw_fov, error, to_file

PLACE = (331.0, 236.0, 190.0)
IMAGE = draw_fov(640, 480, *PLACE)
TURNED = draw_fov(640, 480, 260.0, 230.0, 150.0)
PICTURE = Image.fromarray(IMAGE)
GREY = PICTURE.convert("L")
PALETTE = PICTURE.quantize(200)
INSIDE = (
    np.hypot(*(np.indices(IMAGE.shape[:2])[::-1] - np.array(PLACE[:2])[:, None, None]))
    < PLACE[2]
)
# what is transparent is white underneath
RGBA = Image.fromarray(
    np.dstack([np.where(INSIDE[..., None], IMAGE, 255), 255 * INSIDE]).astype(np.uint8)
)


def to_deep(suffix: str, image: np.ndarray, bits: int) -> bytes:
    """Samples of that many bits in a file of 16, as cameras write them: encoded by OpenCV."""
    deep = image.astype(np.uint16) << (bits - 8) | image >> (16 - bits)
    return cv2.imencode(suffix, deep[..., ::-1] if deep.ndim == 3 else deep)[1].tobytes()


def to_jpegs() -> dict[str, bytes]:
    """JPEGs of every kind."""
    return {
        "jpeg": to_file(PICTURE, ".jpg", quality=95),
        "jpeg, progressive": to_file(PICTURE, ".jpg", quality=95, progressive=True),
        "jpeg, progressive, 4:4:4": to_file(
            PICTURE, ".jpg", quality=95, progressive=True, subsampling=0
        ),
        "jpeg, grey": to_file(GREY, ".jpg", quality=95),
        "jpeg, restart markers": to_file(PICTURE, ".jpg", quality=95, restart_marker_blocks=7),
        "jpeg, cmyk, Adobe's": to_file(PICTURE.convert("CMYK"), ".jpg", quality=95),
        "jpeg, colour profile": to_file(
            PICTURE, ".jpg", quality=95, icc_profile=bytes(150_000), comment=b"\xff\xc0"
        ),
        "jpeg, cmyk, progressive": to_file(
            PICTURE.convert("CMYK"), ".jpg", quality=95, progressive=True
        ),
        "jpeg, bytes behind its end": (
            to_file(PICTURE, ".jpg", quality=95) + b"\xff\xd8\xff\xda" + bytes(500)
        ),
    }


def to_pngs() -> dict[str, bytes]:
    """PNGs of every kind."""
    return {
        "png": to_file(PICTURE, ".png"),
        "png, grey": to_file(GREY, ".png"),
        "png, grey and alpha": to_file(GREY.convert("LA"), ".png"),
        "png, transparent": to_file(RGBA, ".png"),
        "png, palette": to_file(PALETTE, ".png"),
        "png, transparent palette": to_file(
            PALETTE, ".png", transparency=bytes([0, 128] + [255] * 198)
        ),
        "png, 4 bit": to_file(PICTURE.quantize(16), ".png", bits=4),
        "png, 1 bit": to_file(GREY.point(lambda v: 255 * (v > 25)).convert("1"), ".png"),
        "png, 16 bit": to_deep(".png", IMAGE, 16),
    }


def to_others() -> dict[str, bytes]:
    """TIFF, BMP and WebP of every kind, and what else is read."""
    second = Image.new("RGB", (50, 40), "red")
    return {
        "tiff": to_file(PICTURE, ".tif"),
        "tiff, lzw": to_file(PICTURE, ".tif", compression="tiff_lzw"),
        "tiff, jpeg": to_file(PICTURE, ".tif", compression="jpeg", quality=95),
        "tiff, grey": to_file(GREY, ".tif"),
        "tiff, cmyk": to_file(PICTURE.convert("CMYK"), ".tif"),
        "tiff, several pages": to_file(PICTURE, ".tif", save_all=True, append_images=[second]),
        "tiff, 16 bit": to_deep(".tif", IMAGE, 16),
        "bmp": to_file(PICTURE, ".bmp"),
        "bmp, palette": to_file(PALETTE, ".bmp"),
        "webp": to_file(PICTURE, ".webp", quality=95),
        "webp, lossless": to_file(PICTURE, ".webp", lossless=True),
        "webp, transparent": to_file(RGBA, ".webp", quality=95),
        "gif": to_file(PALETTE, ".gif"),
        "ppm": to_file(PICTURE, ".ppm"),
    }


def make_png(width: int, height: int, packed: bytes, *, bits=8) -> bytes:
    """A PNG in colour around packed rows as they are given."""
    header = struct.pack(">2I5B", width, height, bits, 2, 0, 0, 0)
    chunks = (b"IHDR" + header, b"IDAT" + packed, b"IEND")
    parts = [
        struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


FILES = to_jpegs() | to_pngs() | to_others()


def decode_with_pillow(encoded: bytes) -> np.ndarray:
    """Upright, on black where it is transparent, (height, width, 3) uint8 RGB."""
    with Image.open(io.BytesIO(encoded)) as picture:
        upright = ImageOps.exif_transpose(picture)
        visible = (
            upright.getchannel("A")
            if "A" in upright.getbands()
            else Image.new("L", upright.size, 255)
        )
        return np.asarray(
            Image.composite(upright.convert("RGB"), Image.new("RGB", upright.size), visible)
        )


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.filterwarnings("ignore:Palette images")
def test_circle_and_colours_are_those_of_pillow(kind):
    """Every kind of file gives the field of view that was drawn, in the colours that Pillow
    sees.
    """
    crop = crop_fundus(FILES[kind])
    expected = crop_fundus(to_file(decode_with_pillow(FILES[kind])))
    assert error(crop.circle, *PLACE) < 0.006 and error(crop.circle, *expected.circle) < 0.002
    assert np.abs(crop.image.astype(int) - expected.image).mean() < 1.5
    assert crop.status == "ok"


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif", ".webp"])
def test_exif_orientation_is_applied(orientation, suffix):
    """Whatever the orientation tag, circle and crop are those of the picture that Pillow turned
    upright.
    """
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = to_file(TURNED, suffix, exif=exif, quality=95)
    crop = crop_fundus(stored)
    expected = crop_fundus(to_file(decode_with_pillow(stored)))
    assert error(crop.circle, *expected.circle) < 0.002
    assert np.abs(crop.image.astype(int) - expected.image).mean() < 1


WHITE = {
    "nothing": np.zeros_like(INSIDE),
    "hot pixels": np.indices(INSIDE.shape).sum(0) == 3,
    "a figure": np.indices(INSIDE.shape).max(0) < 60,
    "the background": ~INSIDE,
}


@pytest.mark.parametrize("white", WHITE)
@pytest.mark.parametrize("suffix", [".png", ".tif"])
@pytest.mark.parametrize("bits", [10, 12, 14, 16])
def test_deep_samples_are_scaled_from_their_own_depth(bits, suffix, white):
    """10, 12 and 14 bits in samples of 16 show what 8 bits show, also beside what is as white as
    the file can be; of 14 bits a dark picture of 16 is as likely, which is doubtful.
    """
    for picture in (IMAGE, np.asarray(GREY)):
        deep = picture.astype(np.uint16) << (bits - 8) | picture >> (16 - bits)
        deep[WHITE[white]] = 65535
        plain = picture.copy()
        plain[WHITE[white]] = 255
        crop = crop_fundus(
            cv2.imencode(suffix, deep[..., ::-1] if deep.ndim == 3 else deep)[1].tobytes()
        )
        expected = crop_fundus(to_file(plain))
        is_uncertain = bits == 14 and white != "nothing"
        assert crop.status == ("doubtful" if is_uncertain else expected.status) and (
            expected.status == "ok"
        )
        assert np.abs(crop.image.astype(int) - expected.image).mean() < 1.5
        assert error(crop.circle, *expected.circle) < 0.003


@pytest.mark.parametrize(("stated", "bits"), [(12, 12), (8, 16), (255, 16)])
def test_significant_bits_of_a_png_are_believed_unless_there_are_more(stated, bits):
    """A dark picture of 12 bits needs 10 of them: it stays dark where the file states 12. What the
    chunk sBIT states of a picture that fills 16 bits, or in 8 bits, changes nothing.
    """
    deep = (IMAGE // 5).astype(np.uint16) << (bits - 8)
    plain = to_file(IMAGE // 5)
    encoded = cv2.imencode(".png", deep[..., ::-1])[1].tobytes()
    chunk = b"sBIT" + bytes([stated] * 3)
    chunk = struct.pack(">I", 3) + chunk + struct.pack(">I", zlib.crc32(chunk))
    crop = crop_fundus(encoded[:33] + chunk + encoded[33:])
    expected = crop_fundus(plain).image
    assert np.abs(crop.image.astype(int) - expected).mean() < 1
    assert (crop_fundus(plain[:33] + chunk + plain[33:]).image == expected).all()


def test_a_deep_picture_that_stays_black_is_doubtful():
    """A sixteenth of its brightness, as of 12 bits where the file states 16, is no photograph."""
    deep = IMAGE[..., ::-1].astype(np.uint16) << 4
    encoded = cv2.imencode(".png", deep)[1].tobytes()
    chunk = b"sBIT" + bytes([16] * 3)
    chunk = struct.pack(">I", 3) + chunk + struct.pack(">I", zlib.crc32(chunk))
    assert crop_fundus(encoded).status == "ok"
    assert crop_fundus(encoded[:33] + chunk + encoded[33:]).status == "doubtful"


def test_a_large_deep_picture_is_shrunk_before_it_is_scaled():
    """2,400 px of 12 bits, two halvings: the colours are those of 8 bits."""
    image = draw_fov(2400, 1800, 1190.0, 905.0, 820.0)
    crop = crop_fundus(to_deep(".png", image, 12))
    expected = crop_fundus(to_file(image))
    assert np.abs(crop.image.astype(int) - expected.image).mean() < 1.5
    assert error(crop.circle, 1190.0, 905.0, 820.0) < 0.003


def test_reduced_decoding_keeps_colours():
    """Whatever the reduction, a flat patch keeps its colour in every format that is common."""
    flat = np.zeros((512, 512, 3), np.uint8)
    flat[128:384, 128:384] = (200, 110, 60)
    for encoded in (to_file(flat, ".jpg"), to_file(flat, ".png")):
        for reduction in (1, 2, 4, 8):
            image, _ = decode(open_picture(encoded), reduction)
            assert image.shape == (512 // reduction, 512 // reduction, 3)
            assert (
                np.abs(
                    image[256 // reduction, 256 // reduction].astype(int) - (200, 110, 60)
                ).max()
                <= 3
            )
