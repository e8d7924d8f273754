"""Files that were cut short or otherwise damaged, files that are none, and files made to do
harm.
"""

import os
import struct
import subprocess
import sys
import zlib

import cv2
import imagecodecs
import numpy as np
import pytest
from PIL import Image

from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.decode import MAX_SIDE, decode, open_picture
from dr_lib.data.photograph.errors import NoFundusError, UnreadableImageError
from tests.data.photograph.pictures import (
    GREY,
    IMAGE,
    PLACE,
    add_chunk,
    differ,
    draw_fov,
    error,
    to_file,
    write_tiff,
)
from tests.data.photograph.test_formats import FILES, make_png

JPEGS = {kind: FILES[kind] for kind in ("jpeg", "jpeg, restart markers", "jpeg, progressive")}
JPEG = FILES["jpeg"]
PNG = FILES["png"]
PROGRESSIVE = FILES["jpeg, progressive"]
OTHERS = {kind: encoded for kind, encoded in FILES.items() if not kind.startswith("jpeg")}
OTHERS["tiff, packed"] = write_tiff(GREY, photometric="minisblack", compression="zlib")


def cut(encoded: bytes, share: float) -> bytes:
    """The first part of a file."""
    return encoded[: int(len(encoded) * share)]


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.85, 0.999])
@pytest.mark.parametrize("kind", JPEGS)
def test_a_cut_jpeg_gives_the_right_circle_or_an_error(kind, share):
    """Wherever it is cut: the true circle, marked as truncated, or an error; of most of a file
    always the circle.
    """
    try:
        crop = crop_fundus(cut(JPEGS[kind], share))
    except UnreadableImageError:
        assert share < 0.85
        return
    assert "truncated" in crop.status and error(crop.circle, *PLACE) < 0.02
    if share >= 0.85:
        whole = crop_fundus(JPEGS[kind])
        assert differ(crop.image[20:140], whole.image[20:140]) < 12


@pytest.mark.parametrize(
    ("encoded", "method", "status", "lost"),
    [
        # an interrupted copy ends in zeros, a rescued file in an end marker
        (cut(JPEG, 0.7) + bytes(5000), "robust", "truncated", 60),
        (cut(JPEG, 0.7) + b"\xff\xd9", "robust", "truncated", 60),
        (cut(PROGRESSIVE, 0.3), "robust", "truncated", 12),  # whole and coarse
        # a second picture behind it is no part of the photograph
        (JPEG + JPEG[:5000], "robust", "ok", 0),
        (JPEG + bytes(100), "robust", "ok", 0),
        # of bytes that are left over libjpeg warns
        (JPEG[:-2] + bytes(range(1, 100)) + JPEG[-2:], "robust", "doubtful", 60),
        (JPEG[:-2] + bytes(range(1, 100)) + JPEG[-2:], "voets", "doubtful", 60),
    ],
)
def test_a_damaged_jpeg_says_so(encoded, method, status, lost):
    """What can be used is used, with the status; levels by which its crop may differ."""
    crop = crop_fundus(encoded, method=method)
    assert crop.status.removeprefix("clipped+") == status
    assert error(crop.circle, *PLACE) < 0.02
    assert differ(crop.image, crop_fundus(JPEG, method=method).image) <= lost


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.filterwarnings("ignore")  # Pillow's, about a TIFF that is cut short
def test_other_cut_files_are_unreadable(kind):
    """Wherever it is cut, and where zeros follow, as after an interrupted copy: an error, never
    a wrong crop.
    """
    whole = OTHERS[kind]
    for num_lost in (20, len(whole) // 20, len(whole) // 3, len(whole) * 2 // 3):
        for end in [b"", bytes(num_lost + 100)][: 1 + ("png" in kind or "packed" in kind)]:
            with pytest.raises(UnreadableImageError):
                crop_fundus(whole[:-num_lost] + end)


def test_a_jpeg_damaged_inside_is_not_ok():
    """Of files of which 64 bytes are others, nine of ten whose crop differs by more than three
    levels in the mean are doubtful, truncated or rejected.
    """
    rng = np.random.default_rng(0)
    statuses = []
    for encoded in JPEGS.values():
        whole = crop_fundus(encoded)
        for at in np.linspace(0.1, 0.9, 40) * len(encoded):
            damaged = encoded[: int(at)] + rng.bytes(64) + encoded[int(at) + 64 :]
            try:
                crop = crop_fundus(damaged)
            except (UnreadableImageError, NoFundusError):
                continue
            if differ(crop.image, whole.image) > 3:
                statuses.append("doubtful" in crop.status or "truncated" in crop.status)
    assert len(statuses) > 30 and np.mean(statuses) >= 0.9


def test_pixels_are_those_of_opencv():
    """Decoded strictly or by OpenCV, at any fraction, a JPEG has the same pixels to the bit."""
    for encoded in JPEGS.values():
        for reduction in (1, 2, 4, 8):
            flags = getattr(cv2, f"IMREAD_REDUCED_GRAYSCALE_{reduction}", 0)
            buffer = np.frombuffer(encoded, np.uint8)
            expected = cv2.imdecode(buffer, flags | cv2.IMREAD_COLOR_RGB)
            image, is_damaged = decode(open_picture(encoded), reduction)
            assert not is_damaged and (image == expected).all()


def test_the_end_of_a_thumbnail_is_not_the_end():
    """A JPEG cut in its pixels holds an end marker all the same where its EXIF holds a
    thumbnail.
    """
    thumbnail = to_file(np.zeros((60, 80, 3), np.uint8), ".jpg")
    segment = b"\xff\xe1" + struct.pack(">H", len(thumbnail) + 8) + b"Exif\0\0" + thumbnail
    encoded = JPEG[:2] + segment + JPEG[2:]
    found = [open_picture(encoded[:end]).truncated for end in (None, -2, -9000)]
    assert found == [False, True, True]


EMPTY = zlib.compress(b"")
SCAN = b"\xff\xda\0\x08\1\1\0\0\x3f\0"


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
        (PNG.replace(b"IHDR", b"IDAT", 1), "damaged"),
        (make_png(20_000, 20_000, EMPTY), "far too large"),
        (make_png(8_000, 8_000, EMPTY), "too many"),
        (make_png(MAX_SIDE + 1, 10, EMPTY), "too many"),
        (make_png(100, 100, EMPTY), "cut short|damaged"),
        # millions of empty chunks, or scans, would keep a reader busy for seconds
        (PNG[:33] + add_chunk(b"", b"tEXt", b"") * 20_000 + PNG[33:], "too many parts"),
        (PROGRESSIVE[:-2] + SCAN * 9_000 + b"\xff\xd9", "too many scans"),
        # comments that would hide the scans behind them
        (
            PROGRESSIVE[:-2] + b"\xff\xfe\0\2" * 10_050 + SCAN * 9_000 + b"\xff\xd9",
            "too many scans",
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


def replace_frame(encoded: bytes, marker: int) -> bytes:
    """A baseline JPEG whose frame claims to be of another kind."""
    at = encoded.index(b"\xff\xc0")
    return encoded[: at + 1] + bytes([marker]) + encoded[at + 2 :]


def test_no_kind_of_jpeg_ends_the_process(tmp_path):
    """Lossless ones, by libjpeg-turbo, of which simplejpeg overruns its memory where it decodes a
    fraction; and frames of every kind that the standard has (ITU T.81, table B.1). A process of its
    own crops them, to be ended in place of this one.
    """
    large = cv2.resize(IMAGE, (1600, 1600))
    files = {f"{kind:x}": replace_frame(JPEG, kind) for kind in (*range(0xC0, 0xD0),)}
    files["lossless"] = imagecodecs.jpeg8_encode(large, lossless=True, predictor=1)
    files["lossless grey"] = imagecodecs.jpeg8_encode(
        large[..., 1].copy(), lossless=True, predictor=1
    )
    for name, content in files.items():
        (tmp_path / f"{name}.jpg").write_bytes(content)
    code = """
import sys
from pathlib import Path
from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.errors import NoFundusError, UnreadableImageError
for path in sorted(Path(sys.argv[1]).iterdir()):
    for size in (299, 64):
        try:
            print(path.stem, crop_fundus(path, size).status)
        except (NoFundusError, UnreadableImageError) as error:
            print(path.stem, error)
print("alive")
"""
    ran = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True
    )
    lines = ran.stdout.splitlines()
    assert lines[-1] == "alive"
    refused = {
        line.partition(" the JPEG")[0] for line in lines if "lossless or hierarchical" in line
    }
    others = {f"c{kind:x}" for kind in (3, 5, 6, 7, 11, 13, 14, 15)}
    assert refused == {"lossless", "lossless grey", *others}
    assert {line for line in lines if line.startswith("c0")} == {"c0 ok"}


def test_the_published_steps_are_not_done_on_a_part():
    """Voets et al. would take the missing part of a cut file for retina: it is refused."""
    with pytest.raises(UnreadableImageError, match="cut short"):
        crop_fundus(JPEG[:-9000], method="voets")


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
    paths = [tmp_path / name for name in ("x.jpg", "none.jpg", "pipe.jpg", "no\0name.jpg")]
    paths.append("/dev/zero")
    if os.geteuid():  # root may read everything
        (tmp_path / "locked.jpg").write_bytes(JPEG)
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
    print("too " in str(error) and "refused", end=" ")
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


def make_bombs() -> dict[str, bytes]:
    """PNGs that OpenCV alone would make room for, or unpack."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    # may be repeated
    rows = pack.compress(bytes(100 * (1 + 20_000 * 3))) + pack.flush(zlib.Z_FULL_FLUSH)
    bombs = {
        "20,000 x 20,000 px": make_png(20_000, 20_000, b"\x78\xda" + 200 * rows + pack.flush()),
        "pixels without end": make_png(64, 48, zlib.compress(bytes(300_000_000), 9)),
    }
    for kind, name in (("png", b"IDAT"), ("png, palette", b"PLTE")):
        before, _, after = OTHERS[kind].partition(name)
        bombs[f"{kind} of 2 GB"] = before[:-4] + struct.pack(">I", 2 * 10**9) + name + after
    return bombs


@pytest.mark.slow
def test_a_small_png_takes_no_memory(tmp_path):
    """A picture of 1.2 MB that is all there, chunks that claim 2 GB, and 300 MB that are no
    pixels.
    """
    for kind, encoded in make_bombs().items():
        (tmp_path / "eye.png").write_bytes(encoded)
        outcome, grown_mb, _ = crop_alone(tmp_path / "eye.png")
        assert grown_mb < 50 and len(encoded) < 1.5e6, kind
        assert outcome == "refused" or "px" not in kind


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "width", "height", "options"),
    [
        (".jpg", 9_500, 6_300, {}),
        (".jpg", 5_500, 3_700, {"progressive": True, "subsampling": 0}),
        (".png", 5_500, 5_500, {"compress_level": 1, "transparent": True}),
        (".tif", 5_000, 4_000, {"compression": "tiff_lzw"}),
        (".webp", 4_000, 3_500, {"method": 0}),
    ],
)
def test_large_photographs_fit_into_300_mb(suffix, width, height, options, tmp_path):
    """The largest of each kind that a camera makes are used; with Python and all imports it
    stays under 300 MB.
    """
    small = Image.fromarray(draw_fov(950, 700, 470.0, 350.0, 310.0))
    if options.pop("transparent", False):
        small.putalpha(small.convert("L").point(lambda v: 255 * (v > 30)))
    large = small.resize((width, height), Image.Resampling.NEAREST)
    large.save(tmp_path / f"eye{suffix}", **options)
    outcome, _, peak_mb = crop_alone(tmp_path / f"eye{suffix}")
    assert outcome == "used" and peak_mb < 300
