"""Headers against bytes put together by hand."""

import struct
import time

import numpy as np
import pytest
from PIL import Image

from dr_lib.data.photograph.decode import open_picture
from dr_lib.data.photograph.errors import UnreadableImageError
from tests.data.photograph.pictures import add_chunk, to_file

PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 255, (37, 61, 3), np.uint8))
PNG = to_file(PICTURE)
JPEG = to_file(PICTURE, ".jpg")


def make_exif(orientation: int, order="<", *, thumbnail=b"") -> bytes:
    """EXIF by hand: the camera's name, the orientation, and in a second directory a thumbnail."""

    def pack(kinds: str, *values) -> bytes:
        return struct.pack(order + kinds, *values)

    first = pack("H2HI4s2HI2H", 2, 0x010F, 2, 4, b"cam\0", 0x0112, 3, 1, orientation, 0)
    next_at = 8 + len(first) + 4
    second = pack("H2H2I2H2II", 2, 0x0201, 4, 1, next_at + 30, 0x0202, 4, 1, len(thumbnail), 0)
    head = {"<": b"II*\0", ">": b"MM\0*"}[order] + pack("I", 8)
    return b"Exif\0\0" + head + first + pack("I", next_at) + second + thumbnail


@pytest.mark.parametrize("order", ["<", ">"], ids=["little-endian", "big-endian"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_finds_the_orientation(orientation, order):
    """In both byte orders, past a thumbnail that is a JPEG of another size with another
    orientation; of a PNG behind the pixels too, where its specification lets it stand.
    """
    small = PICTURE.resize((16, 12))
    inner = to_file(small, ".jpg", exif=make_exif(9 - orientation, order))
    exif = make_exif(orientation, order, thumbnail=inner)
    files = {suffix: to_file(PICTURE, f".{suffix}", exif=exif) for suffix in ("jpg", "webp")}
    files["png"] = add_chunk(PNG, b"eXIf", exif[6:])
    for kind, encoded in [*files.items(), ("png", add_chunk(PNG, b"eXIf", exif[6:], -12))]:
        assert open_picture(encoded)[:3] == (61, 37, orientation), kind


@pytest.mark.parametrize(
    "exif",
    [
        make_exif(6)[:-40],  # cut in the first directory
        make_exif(6).replace(b"*\0\x08\0\0\0", b"*\0\xff\xff\xff\xff"),  # directory nowhere
        make_exif(6).replace(struct.pack("<2H", 0x0112, 3), struct.pack("<2H", 0x0112, 99)),
        b"Exif\0\0",
    ],
    ids=["cut", "directory nowhere", "unknown type", "empty"],
)
def test_damaged_exif_is_no_orientation(exif):
    """The photograph is there all the same, and is taken as it is stored."""
    segment = b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif
    assert open_picture(JPEG[:2] + segment + JPEG[2:])[:3] == (61, 37, 1)


@pytest.mark.parametrize("filling", [b"\xff", b"\xff\xe0\x00\x02", b"\xff\xe0\x00\x00"])
def test_twenty_megabytes_of_nothing_take_no_time(filling):
    """A file made to keep the reader busy is refused within half a second."""
    encoded = b"\xff\xd8\xff\xe0\x00\x02" + filling * (20_000_000 // len(filling))
    start = time.process_time()
    with pytest.raises(UnreadableImageError, match="damaged"):
        open_picture(encoded)
    assert time.process_time() - start < 0.5
