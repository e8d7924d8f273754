"""HEIC, as telephones write it."""

import io

import numpy as np
import pytest
from PIL import Image

from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.errors import UnreadableImageError
from tests.data.photograph.pictures import differ, draw_fov, make_exif, to_file

pytestmark = pytest.mark.slow
heif = pytest.importorskip("pillow_heif")

IMAGE = draw_fov(640, 480, 260.0, 230.0, 150.0)


def to_heic(picture: Image.Image, **options) -> bytes:
    """Encode as a telephone does."""
    buffer = io.BytesIO()
    heif.from_pillow(picture).save(buffer, quality=95, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("orientation", (1, 6))
def test_it_is_turned_upright(orientation):
    """As Pillow turns a JPEG of this orientation: the same circle, and nearly the same colours."""
    exif = make_exif(orientation)
    heic = crop_fundus(to_heic(Image.fromarray(IMAGE), exif=exif.tobytes()))
    jpeg = crop_fundus(to_file(IMAGE, ".jpg", quality=95, exif=exif))
    assert heic.circle == pytest.approx(jpeg.circle, abs=0.3)
    assert differ(heic.image, jpeg.image) < 1.5


def test_what_is_damaged_is_refused():
    """Wherever it is cut: a crop or an error of one sentence."""
    encoded = to_heic(Image.fromarray(IMAGE))
    for share in np.linspace(0.1, 0.95, 12):
        with pytest.raises(UnreadableImageError):
            crop_fundus(encoded[: int(share * len(encoded))])
