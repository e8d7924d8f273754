"""Colour profiles: what a colour-managed program shows of a file is what its crop shows."""

import zlib

import numpy as np
import pytest
from PIL import ImageCms

from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.errors import UnreadableImageError
from tests.data.photograph.pictures import IMAGE, add_chunk, differ, to_file, write_tiff

SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def write_profile(primaries: list[list[float]]) -> bytes:
    """sRGB's profile with other primaries, in XYZ under D50 (ICC.1:2010, 7.2 and 10)."""
    profile = SRGB
    for name, xyz in zip((b"rXYZ", b"gXYZ", b"bXYZ"), primaries, strict=True):
        entry = profile.index(name) + 4
        at = int.from_bytes(profile[entry : entry + 4]) + 8
        point = b"".join(round(v * 65536).to_bytes(4, signed=True) for v in xyz)
        profile = profile[:at] + point + profile[at + 12 :]
    return profile


# columns of the matrix of Display P3, adapted to D50 (its own profile has them)
PRIMARIES = [[0.5151, 0.2412, -0.0011], [0.2920, 0.6922, 0.0419], [0.1571, 0.0666, 0.7841]]
P3 = write_profile(PRIMARIES)
WRITERS = {
    "jpeg": lambda profile: to_file(IMAGE, ".jpg", quality=95, icc_profile=profile),
    "png": lambda profile: to_file(IMAGE, ".png", icc_profile=profile),
    "tiff": lambda profile: write_tiff(IMAGE, iccprofile=profile),
    "webp": lambda profile: to_file(IMAGE, ".webp", lossless=True, icc_profile=profile),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_profile_is_applied(kind):
    """Of every format: the colours of a point, linear, times P3's matrix and the inverse of sRGB's,
    as IEC 61966-2-1 has it.
    """
    plain = crop_fundus(WRITERS[kind](b"")).image
    converted = crop_fundus(WRITERS[kind](P3)).image
    to_xyz = np.transpose(PRIMARIES)
    from_srgb = np.array(
        [[0.4361, 0.3851, 0.1431], [0.2225, 0.7169, 0.0606], [0.0139, 0.0971, 0.7141]]
    )
    shown = plain[100:200:10, 150].T / 255
    linear = np.where(shown <= 0.04045, shown / 12.92, ((shown + 0.055) / 1.055) ** 2.4)
    light = np.linalg.solve(from_srgb, to_xyz @ linear).clip(0, 1)
    curve = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    assert np.abs(255 * curve.T - converted[100:200:10, 150]).max() < 4
    assert differ(converted, plain) > 5 and not converted[0, :100].any()


@pytest.mark.parametrize("profile", [SRGB, b"no profile", P3[:200]], ids=len)
@pytest.mark.parametrize("kind", WRITERS)
def test_what_is_srgb_or_no_profile_changes_nothing(kind, profile):
    """sRGB's own, or a damaged one: the same crop to the bit."""
    expected = crop_fundus(WRITERS[kind](b""))
    crop = crop_fundus(WRITERS[kind](profile))
    assert crop.status == "ok" and (crop.image == expected.image).all()


def test_a_profile_of_many_bytes_takes_no_memory():
    """A PNG whose profile unpacks to 300 MB is refused."""
    profile = b"x\0\0" + zlib.compress(bytes(300_000_000), 9)
    with pytest.raises(UnreadableImageError, match="damaged"):
        crop_fundus(add_chunk(to_file(IMAGE, ".png"), b"iCCP", profile))
