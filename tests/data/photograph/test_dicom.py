"""DICOM in every layout: the pixels are those that were written, or the reason is true."""

import time
import zlib

import cv2
import numpy as np
import pytest

from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.decode import decode, load_reader, open_picture
from dr_lib.data.photograph.errors import NoFundusError, UnreadableImageError
from tests.data.photograph.dicoms import (
    BIG,
    DEFLATED,
    IMPLICIT,
    JPEG,
    JPEG_2000_LOSSLESS,
    RLE,
    to_codestream,
    write_dicom,
)
from tests.data.photograph.pictures import GREY, IMAGE, differ, make_exif, to_file
from tests.data.photograph.test_colour import P3

pytestmark = pytest.mark.slow


PHOTOGRAPH = to_file(IMAGE, ".jpg", quality=95)
# encoded as RGB, and without any mark of it
MARKED = to_file(IMAGE, ".jpg", quality=95, keep_rgb=True)
UNMARKED = MARKED[:2] + MARKED[18:]


def decode_with_opencv(encoded: bytes) -> np.ndarray:
    """Decode by another path, (height, width, 3) uint8 RGB."""
    return cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR_RGB)


GREYS = cv2.cvtColor(GREY, cv2.COLOR_GRAY2RGB)
FROM_JPEG = decode_with_opencv(PHOTOGRAPH)
LOSSLESS_2000 = to_codestream(IMAGE, irreversible=False)
LAYOUTS = {  # file, pixels, levels by which they may be off
    "explicit": (write_dicom(IMAGE), IMAGE, 0),
    "implicit": (write_dicom(IMAGE, syntax=IMPLICIT), IMAGE, 0),
    "big-endian": (write_dicom(IMAGE, syntax=BIG), IMAGE, 0),
    "grey": (write_dicom(GREY, "MONOCHROME2"), GREYS, 0),
    "RLE": (write_dicom(IMAGE, syntax=RLE), IMAGE, 0),
    "JPEG": (write_dicom(IMAGE, "YBR_FULL_422", JPEG, frame=PHOTOGRAPH), FROM_JPEG, 0),
    "JPEG, RGB": (write_dicom(IMAGE, "RGB", JPEG, frame=MARKED), IMAGE, 8),
    "JPEG 2000": (
        write_dicom(IMAGE, "YBR_RCT", JPEG_2000_LOSSLESS, frame=LOSSLESS_2000),
        IMAGE,
        0,
    ),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_pixels_are_those_that_were_written(layout):
    """To the bit, or within a level where colours are converted; and the crop is that of a PNG of
    these pixels.
    """
    encoded, expected, tolerance = LAYOUTS[layout]
    image, flags = decode(open_picture(encoded), 1)
    assert cv2.absdiff(image, expected).max() <= tolerance
    crop = crop_fundus(encoded)
    as_png = crop_fundus(to_file(image))
    assert not flags and crop.status == as_png.status == "ok"
    np.testing.assert_array_equal(crop.image, as_png.image)


def test_its_colour_profile_counts_and_the_orientation_within_does_not():
    """The profile is applied as that of a PNG; viewers of DICOM know no EXIF."""
    as_png = crop_fundus(to_file(IMAGE, icc_profile=P3))
    found = crop_fundus(write_dicom(IMAGE, ICCProfile=P3))
    np.testing.assert_array_equal(found.image, as_png.image)
    plain = crop_fundus(PHOTOGRAPH)
    assert differ(found.image, plain.image) > 3
    turned = to_file(IMAGE, ".jpg", quality=95, exif=make_exif(6))
    frame = write_dicom(IMAGE, "YBR_FULL", JPEG, frame=turned)
    np.testing.assert_array_equal(crop_fundus(frame).image, plain.image)


TINY = np.zeros((8, 8, 3), np.uint8)
REFUSED = {
    "stores its colours in a way": write_dicom(IMAGE, "RGB", JPEG, frame=UNMARKED),
    "is a scan by OCT": write_dicom(TINY, Modality="OPT"),
    "holds no picture": write_dicom(TINY, Modality="SR", PixelData=None),
    "stores its colours": write_dicom(TINY, "YBR_FULL"),
    "has other samples": write_dicom(TINY, PixelRepresentation=1),
    "than whole numbers of 8 bits": write_dicom(IMAGE.astype(np.uint16) << 4),
    "supported format, or damaged": write_dicom(IMAGE)[:500_000],
    "or is cut short": LAYOUTS["JPEG"][0][:20_000],
    "too many pixels": write_dicom(TINY, Rows=60_000, Columns=60_000),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_refusal_says_why(reason):
    """What shows no single photograph, and what is not read, in one sentence."""
    with pytest.raises(UnreadableImageError, match=reason):
        crop_fundus(REFUSED[reason])


@pytest.mark.parametrize("name", ["Rows", "SamplesPerPixel", "BitsAllocated"])
@pytest.mark.parametrize("value", [0, None])
def test_a_header_that_lies_is_an_error_of_the_file(name, value):
    """Whatever it says of its size: no other error."""
    with pytest.raises((UnreadableImageError, NoFundusError)):
        crop_fundus(write_dicom(IMAGE, **{name: value}))


def test_a_file_made_to_do_harm_is_refused_at_once():
    """A deflated gigabyte, wherever its header says that it begins."""
    deflated = write_dicom(IMAGE, syntax=DEFLATED)
    end = 144 + int.from_bytes(deflated[140:144], "little")
    packer = zlib.compressobj(1, wbits=-15)
    bomb = b"".join(packer.compress(bytes(2**24)) for _ in range(64)) + packer.flush()
    for length in (deflated[140:144], b"\5\0\0\0"):
        encoded = deflated[:140] + length + deflated[144:end] + bomb
        start = time.process_time()
        with pytest.raises(UnreadableImageError):
            crop_fundus(encoded)
        assert time.process_time() - start < 3


@pytest.mark.parametrize(
    ("elements", "eye", "visit"),
    [
        ({"ImageLaterality": "L", "Laterality": "R"}, "left", ""),
        ({"ImageLaterality": "B", "StudyDate": "last week"}, "", ""),
        (
            {"AcquisitionDateTime": "20240229101500.5-0300", "StudyDate": "20240101"},
            "",
            "20240229",
        ),
    ],
)
def test_it_says_of_whom_it_is(tmp_path, elements, eye, visit):
    """Eye and day of one picture come before those of its series and study; an unknown word says
    nothing.
    """
    read_stated = load_reader("dicom").read_stated
    path = tmp_path / "IM0001"
    for syntax in (IMPLICIT, BIG, RLE):
        path.write_bytes(write_dicom(TINY, syntax=syntax, **elements))
        assert read_stated(path) == ("12", eye, visit)
    for nothing in (path.read_bytes()[:150], write_dicom(TINY, syntax=DEFLATED)):
        path.write_bytes(nothing)
        assert read_stated(path) == ("", "", "")
