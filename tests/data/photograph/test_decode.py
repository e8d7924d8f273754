"""Files that were cut short or otherwise damaged, files that are none, and files made to do
harm.
"""

import os
import struct
import subprocess
import sys
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image

from dr_lib.data.photograph.crop import NoFundusError, UnreadableImageError, crop_fundus
from dr_lib.data.photograph.decode import MAX_SIDE, count_rows_decoded, decode, open_picture
from tests.data.photograph.pictures import draw_fov, error, to_file
from tests.data.photograph.test_formats import FILES, IMAGE, PLACE, make_png

JPEGS = {kind: FILES[kind] for kind in ("jpeg", "jpeg, restart markers", "jpeg, progressive")}


def make_tiff() -> bytes:
    """A packed TIFF with its directory in front of the pixels, as cameras write it; to be cut
    behind the directory.
    """
    pixels = zlib.compress(IMAGE[..., 0].tobytes())
    values = {
        256: 640,
        257: 480,
        258: 8,
        259: 8,
        262: 1,
        273: 8 + 2 + 9 * 12 + 4,
        277: 1,
        278: 480,
        279: len(pixels),
    }
    entries = b"".join(struct.pack("<2H2I", tag, 4, 1, value) for tag, value in values.items())
    return b"II*\0" + struct.pack("<IH", 8, len(values)) + entries + bytes(4) + pixels


# without a second page the first is whole
OTHERS = {
    kind: encoded
    for kind, encoded in FILES.items()
    if "jpeg" not in kind[:4] and "pages" not in kind
}
OTHERS["tiff, packed"] = make_tiff()


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.85, 0.999])
@pytest.mark.parametrize("kind", JPEGS)
def test_a_cut_jpeg_gives_the_right_circle_or_an_error(kind, share):
    """Wherever it is cut: the true circle, marked as truncated, or an error; of most of a file
    always the circle.
    """
    encoded = JPEGS[kind][: int(len(JPEGS[kind]) * share)]
    try:
        crop = crop_fundus(encoded)
    except UnreadableImageError:
        assert share < 0.85
        return
    assert "truncated" in crop.status and error(crop.circle, *PLACE) < 0.02
    if share >= 0.85:
        whole = crop_fundus(JPEGS[kind]).image.astype(int)
        assert np.abs(crop.image[20:140] - whole[20:140]).mean() < 12


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.filterwarnings("ignore")  # Pillow's, about a TIFF that is cut short
def test_other_cut_files_are_unreadable(kind):
    """Wherever it is cut, and where zeros follow, as after an interrupted copy: an error, never
    a wrong crop.
    """
    whole = OTHERS[kind]
    for num_lost in (20, len(whole) // 20, len(whole) // 3, len(whole) * 2 // 3):
        with pytest.raises(UnreadableImageError):
            crop_fundus(whole[:-num_lost])
        if kind.startswith("png") or kind == "tiff, packed":
            with pytest.raises(UnreadableImageError):
                crop_fundus(whole[:-num_lost] + bytes(num_lost + 100))


def test_a_jpeg_damaged_inside_is_not_ok():
    """Of files of which 64 bytes are others, 19 of 20 whose crop differs by more than three levels
    in the mean are doubtful, truncated or rejected.
    """
    rng = np.random.default_rng(0)
    num_spoilt = 0
    num_missed = 0
    for encoded in JPEGS.values():
        whole = crop_fundus(encoded)
        for at in np.linspace(0.1, 0.9, 40) * len(encoded):
            damaged = bytearray(encoded)
            damaged[int(at) : int(at) + 64] = rng.bytes(64)
            try:
                crop = crop_fundus(bytes(damaged))
            except (UnreadableImageError, NoFundusError):
                continue
            if np.abs(crop.image.astype(int) - whole.image).mean() > 3:
                num_spoilt += 1
                num_missed += not {"doubtful", "truncated"} & set(crop.status.split("+"))
    assert num_spoilt > 30 and num_missed <= num_spoilt / 20


def test_what_libjpeg_warns_of_is_not_ok_by_the_published_steps():
    """They do not look at what they crop, but bytes that were left over are damage to them too."""
    encoded = JPEGS["jpeg"]
    damaged = encoded[:-2] + bytes(range(1, 100)) + encoded[-2:]
    statuses = [crop_fundus(damaged, method=method).status for method in ("robust", "voets")]
    assert statuses == ["doubtful", "doubtful"]


def test_a_seam_that_libjpeg_does_not_notice_is_doubtful():
    """From a line of blocks on all is brighter, as behind damage that leaves the number of blocks
    as it was. A step between two lines of a block, the edge of a mask and text are no damage.
    """
    is_below = (np.arange(480) >= 240)[:, None] & (IMAGE.max(-1) > 20)
    brighter = cv2.add(IMAGE, 25 * np.dstack([is_below] * 3).astype(np.uint8))
    masked = IMAGE.copy()
    masked[:96] = 0
    written = cv2.putText(IMAGE.copy(), "2019-03-01", (30, 256), 0, 2, (255, 255, 255), 5)
    pictures = [brighter, np.roll(brighter, 3, axis=0), IMAGE, masked, written]
    statuses = [crop_fundus(to_file(one, ".jpg", quality=95)).status for one in pictures]
    assert statuses == ["doubtful", "ok", "ok", "ok", "ok"]


def test_pixels_are_those_of_opencv():
    """Decoded strictly or by OpenCV, at any fraction, a JPEG has the same pixels to the bit."""
    for encoded in JPEGS.values():
        for reduction in (1, 2, 4, 8):
            flags = getattr(cv2, f"IMREAD_REDUCED_GRAYSCALE_{reduction}", 0)
            buffer = np.frombuffer(encoded, np.uint8)
            expected = cv2.imdecode(buffer, flags | cv2.IMREAD_COLOR_RGB)
            image, is_damaged = decode(open_picture(encoded), reduction)
            assert not is_damaged and (image == expected).all()


@pytest.mark.parametrize("end", [bytes(5000), b"\xff\xd9"], ids=["zeros", "end marker"])
def test_a_cut_jpeg_with_something_behind_it_is_cut_all_the_same(end):
    """An interrupted copy ends in zeros, a rescued file in an end marker: neither makes it
    whole, or worthless.
    """
    encoded = JPEGS["jpeg"][: int(len(JPEGS["jpeg"]) * 0.7)] + end
    crop = crop_fundus(encoded)
    assert "truncated" in crop.status and error(crop.circle, *PLACE) < 0.02


def test_a_tiff_that_begins_with_a_thumbnail_is_refused():
    """Its first page says that it is a smaller copy: no crop of 60 px blown up."""
    with pytest.raises(UnreadableImageError, match="thumbnail"):
        crop_fundus(to_file(IMAGE[::8, ::8], ".tif", tiffinfo={254: 1}))


def test_a_png_of_many_parts_is_refused_at_once():
    """Millions of empty chunks would keep a reader busy for seconds: refused after the first
    10,000.
    """
    empty = struct.pack(">I", 0) + b"tEXt" + struct.pack(">I", zlib.crc32(b"tEXt"))
    with pytest.raises(UnreadableImageError, match="too many parts"):
        crop_fundus(OTHERS["png"][:33] + empty * 20_000 + OTHERS["png"][33:])


def test_a_progressive_jpeg_cut_early_is_whole_and_coarse():
    """Its first scan shows all of the field of view without details: used, and marked, for
    something is missing.
    """
    encoded = JPEGS["jpeg, progressive"]
    crop = crop_fundus(encoded[: int(len(encoded) * 0.3)])
    whole = crop_fundus(encoded)
    assert crop.status == "truncated" and error(crop.circle, *PLACE) < 0.02
    assert 1 < np.abs(crop.image.astype(int) - whole.image).mean() < 12


def test_a_cut_behind_the_pixels_loses_nothing():
    """What is missing of a second picture behind it is no part of the photograph: ok."""
    expected = crop_fundus(JPEGS["jpeg"])
    for behind in (JPEGS["jpeg"][:5000], bytes(100)):
        crop = crop_fundus(JPEGS["jpeg"] + behind)
        assert crop.status == "ok" and (crop.image == expected.image).all()


def test_the_published_steps_are_not_done_on_a_part():
    """Voets et al. would take the missing part of a cut file for retina: it is refused."""
    with pytest.raises(UnreadableImageError, match="cut short"):
        crop_fundus(JPEGS["jpeg"][:-9000], method="voets")


def test_the_end_of_a_thumbnail_is_not_the_end():
    """A JPEG cut in its pixels holds an end marker all the same where its EXIF holds a
    thumbnail.
    """
    thumbnail = to_file(np.zeros((60, 80, 3), np.uint8), ".jpg")
    segment = b"\xff\xe1" + struct.pack(">H", len(thumbnail) + 8) + b"Exif\0\0" + thumbnail
    encoded = JPEGS["jpeg"][:2] + segment + JPEGS["jpeg"][2:]
    assert not open_picture(encoded).truncated
    assert open_picture(encoded[:-2]).truncated and open_picture(encoded[:-9000]).truncated


def test_the_rows_of_a_jpeg_end_where_its_flat_filling_begins():
    """By hand: 30 rows of noise, of which the last block of 16 may be grey in part, then 20 of
    grey; half the size.
    """
    image = np.full((50, 40, 3), (128, 127, 129), np.uint8)
    image[:30] = np.random.default_rng(0).integers(0, 255, (30, 40, 3))
    assert count_rows_decoded(image, 1) == 14 and count_rows_decoded(image, 2) == 22
    assert count_rows_decoded(image[:30], 1) == 30


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"not a picture at all", "not a picture"),
        (np.random.default_rng(0).bytes(3000), "not a picture"),
        (b"\x00" * 128 + b"DICM" + b"\x00" * 100, "DICOM"),
        (b"\x02\0\0\0UL\x04\0" + bytes(100), "DICOM"),
        (b"\x08\0\x05\0\x0a\0\0\0ISO_IR 100" + bytes(100), "DICOM"),
        (b"\xff\xd8\xff\xe0garbage", "damaged"),
        (b"\xff\xd8\xff\xe0\x00\x04ab\xff\xda\x00\x08", "damaged"),  # a scan without a frame
        (make_png(0, 10, b""), "damaged"),
        (OTHERS["png"].replace(b"IHDR", b"IDAT", 1), "damaged"),
        (make_png(20_000, 20_000, zlib.compress(b"")), "too many"),
        (make_png(8_000, 8_000, zlib.compress(b"")), "too many"),
        (make_png(5_000, 5_000, zlib.compress(b""), bits=16), "too many"),
        (make_png(MAX_SIDE + 1, 10, zlib.compress(b"")), "too many"),
        (make_png(100, 100, zlib.compress(b"")), "cut short|damaged"),
        (
            JPEGS["jpeg, progressive"][:-2]
            + b"\xff\xda\0\x08\1\1\0\0\x3f\0" * 9_000
            + b"\xff\xd9",
            "too many scans",
        ),
        (  # comments that would hide the scans behind them
            JPEGS["jpeg, progressive"][:-2]
            + b"\xff\xfe\0\2" * 10_050
            + b"\xff\xda\0\x08\1\1\0\0\x3f\0" * 2_000
            + b"\xff\xd9",
            "too many parts",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} bytes",
)
def test_unreadable_files_say_why(content, message, tmp_path):
    """Each is an UnreadableImageError, which does not name the file."""
    (tmp_path / "maria_silva.jpg").write_bytes(content)
    with pytest.raises(UnreadableImageError, match=message) as caught:
        crop_fundus(tmp_path / "maria_silva.jpg")
    assert "maria" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "package", "start"),
    [
        ("dicom", "pydicom", bytes(128) + b"DICM"),
        ("heic", "pillow_heif", b"\0\0\0\x18ftypheic"),
    ],
)
def test_without_its_extra_the_command_that_adds_it_is_named(monkeypatch, kind, package, start):
    """DICOM and HEIC need packages that are no requirement."""
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"dr_lib.data.photograph.{kind}", raising=False)
    with pytest.raises(UnreadableImageError, match=rf"-m pip install -e '?\.\[{kind}\]'?$"):
        crop_fundus(start + bytes(100))


def test_missing_files_and_folders_are_unreadable(tmp_path):
    """A path that is no file, may not be read or cannot be one is an error of the same kind, and
    is not waited for.
    """
    (tmp_path / "x.jpg").mkdir()
    os.mkfifo(tmp_path / "pipe.jpg")
    paths = [
        tmp_path / "x.jpg",
        tmp_path / "none.jpg",
        tmp_path / "pipe.jpg",
        "/dev/zero",
        "no\0name.jpg",
    ]
    if os.geteuid():  # root may read everything
        (tmp_path / "locked.jpg").write_bytes(JPEGS["jpeg"])
        (tmp_path / "locked.jpg").chmod(0)
        paths.append(tmp_path / "locked.jpg")
    for path in paths:
        with pytest.raises(UnreadableImageError, match="cannot be read"):
            crop_fundus(path)


CROP = """
import re, sys
from pathlib import Path
from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.errors import DrError
def peak():
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:[^0-9]+([0-9]+)", status)[1]) * 1024 / 1e6
before = peak()
try:
    crop_fundus(sys.argv[1])
    print("used", end=" ")
except DrError as error:
    print("too many" in str(error) and "refused", end=" ")
print(peak() - before, peak())
"""


def crop_alone(path) -> tuple[str, float, float]:
    """Crop in a process of its own, by Linux' own account of it, for ru_maxrss knows the parent's
    memory too.

    Returns:
        What came out, by how much its memory grew beyond the imports [MB], and its peak [MB].
    """
    done = subprocess.run(
        [sys.executable, "-c", CROP, str(path)], capture_output=True, text=True, check=True
    )
    outcome, *figures = done.stdout.split()
    return outcome, *map(float, figures)


@pytest.mark.slow
def test_a_bomb_is_refused_at_once(tmp_path):
    """20,000 x 20,000 px in a PNG of 1.2 MB, all there: refused by its header, in under 50 MB."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    # may be repeated
    rows = pack.compress(bytes(100 * (1 + 20_000 * 3))) + pack.flush(zlib.Z_FULL_FLUSH)
    (tmp_path / "bomb.png").write_bytes(
        make_png(20_000, 20_000, b"\x78\xda" + 200 * rows + pack.flush())
    )
    assert 1e6 < (tmp_path / "bomb.png").stat().st_size < 1.5e6
    outcome, grown_mb, _ = crop_alone(tmp_path / "bomb.png")
    assert outcome == "refused" and grown_mb < 50


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["a chunk of 2 GB", "a palette of 2 GB", "pixels without end"])
def test_a_small_png_takes_no_memory(kind, tmp_path):
    """OpenCV alone would make room for what a chunk claims, or unpack 300 MB that are no pixels."""
    encoded = bytearray(OTHERS["png, palette" if "palette" in kind else "png"])
    if kind == "pixels without end":
        encoded = make_png(64, 48, zlib.compress(bytes(300_000_000), 9))
    else:
        at = encoded.index(b"PLTE" if "palette" in kind else b"IDAT") - 4
        encoded[at : at + 4] = struct.pack(">I", 2_000_000_000)
    (tmp_path / "eye.png").write_bytes(encoded)
    _, grown_mb, _ = crop_alone(tmp_path / "eye.png")
    assert grown_mb < 50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "width", "height", "options"),
    [
        (".jpg", 9_500, 6_300, {}),
        (".jpg", 5_500, 3_700, {"progressive": True, "subsampling": 0}),
        (".png", 5_500, 5_500, {"compress_level": 1, "transparent": True}),
        (".tif", 5_000, 4_000, {"compression": "tiff_lzw"}),
        (".webp", 5_000, 4_000, {"method": 0}),
    ],
)
def test_large_photographs_fit_into_300_mb(suffix, width, height, options, tmp_path):
    """The largest of each kind that a camera makes are used; with Python and all imports it
    stays under 300 MB.
    """
    small = Image.fromarray(draw_fov(950, 700, 470.0, 350.0, 310.0))
    if options.pop("transparent", False):
        small.putalpha(small.convert("L").point(lambda v: 255 * (v > 30)))
    small.resize((width, height), Image.Resampling.NEAREST).save(
        tmp_path / f"eye{suffix}", **options
    )
    outcome, _, peak_mb = crop_alone(tmp_path / f"eye{suffix}")
    assert outcome == "used" and peak_mb < 300
