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
from dr_lib.data.photograph.decode import decode, open_picture
from dr_lib.data.photograph.errors import NoFundusError, UnreadableImageError
from tests.data.photograph.pictures import (
    GREY,
    IMAGE,
    add_chunk,
    differ,
    draw_fov,
    to_file,
    write_tiff,
)
from tests.data.photograph.test_formats import FILES, make_png

JPEGS = {kind: FILES[kind] for kind in ("jpeg", "jpeg, restart markers", "jpeg, progressive")}
JPEG = FILES["jpeg"]
PNG = FILES["png"]
PROGRESSIVE = FILES["jpeg, progressive"]
PACKED = {"tiff, packed": write_tiff(GREY, photometric="minisblack", compression="zlib")}


@pytest.mark.parametrize("kind", FILES | PACKED)
@pytest.mark.filterwarnings("ignore")  # Pillow's, about a TIFF that is cut short
def test_a_file_that_is_cut_short_is_refused(kind):
    """Wherever it is cut; where zeros follow, as after an interrupted copy; and a JPEG with an end
    marker, as rescued files have: never a wrong crop.
    """
    whole = (FILES | PACKED)[kind]
    whole = whole[: -510 * ("behind its end" in kind) or None]
    for num_lost in (20, len(whole) // 20, len(whole) // 3, len(whole) * 2 // 3):
        ends = [b""]
        if kind.startswith(("jpeg", "png")) or "packed" in kind:
            ends.append(bytes(num_lost + 100))
        if kind.startswith("jpeg"):
            ends.append(b"\xff\xd9")
        for end in ends:
            for method in ("robust", "voets"):
                with pytest.raises(UnreadableImageError):
                    crop_fundus(whole[:-num_lost] + end, method=method)


def test_what_stands_behind_a_jpeg_is_no_part_of_it():
    """A second picture, or zeros; left over before its end they are damage."""
    whole = crop_fundus(JPEG)
    for end in (JPEG[:5000], bytes(100)):
        crop = crop_fundus(JPEG + end)
        assert crop.status == "ok" and (crop.image == whole.image).all()
    for method in ("robust", "voets"):
        damaged = JPEG[:-2] + bytes(range(1, 100)) + JPEG[-2:]
        assert crop_fundus(damaged, method=method).status == "doubtful"


def test_a_jpeg_damaged_inside_is_not_ok():
    """Of files of which 64 bytes are others, nine of ten whose crop differs by more than three
    levels in the mean are doubtful or rejected.
    """
    rng = np.random.default_rng(0)
    noticed = []
    for encoded in JPEGS.values():
        whole = crop_fundus(encoded)
        for at in np.linspace(0.1, 0.9, 40) * len(encoded):
            damaged = encoded[: int(at)] + rng.bytes(64) + encoded[int(at) + 64 :]
            try:
                crop = crop_fundus(damaged)
            except (UnreadableImageError, NoFundusError):
                noticed.append(True)
                continue
            if differ(crop.image, whole.image) > 3:
                noticed.append("doubtful" in crop.status)
    assert len(noticed) > 30 and np.mean(noticed) >= 0.9


def test_pixels_are_those_of_opencv():
    """Decoded strictly or by OpenCV, at any fraction, a JPEG has the same pixels to the bit."""
    for encoded in JPEGS.values():
        for reduction in (1, 2, 4, 8):
            flags = getattr(cv2, f"IMREAD_REDUCED_GRAYSCALE_{reduction}", 0)
            buffer = np.frombuffer(encoded, np.uint8)
            expected = cv2.imdecode(buffer, flags | cv2.IMREAD_COLOR_RGB)
            image, flags = decode(open_picture(encoded), reduction)
            assert not flags and (image == expected).all()


EMPTY = zlib.compress(b"")
# the decoder of a progressive JPEG keeps two bytes a sample: of so many it is not begun
FULL = to_file(Image.fromarray(IMAGE), ".jpg", progressive=True, subsampling=0)
FRAME = FULL.index(b"\xff\xc2") + 5
HUGE = FULL[:FRAME] + struct.pack(">2H", 6_000, 9_000) + FULL[FRAME + 4 :]
# comments hide the scans behind them
SCANS = b"\xff\xfe\0\2" * 10_050 + b"\xff\xda\0\x08\1\1\0\0\x3f\0" * 9_000 + b"\xff\xd9"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (np.random.default_rng(0).bytes(3000), "not a picture"),
        (b"\x00" * 128 + b"DICM" + b"\x00" * 100, "DICOM"),
        (make_png(20_000, 20_000, EMPTY), "far too large"),
        (make_png(8_000, 8_000, EMPTY), "too many pixels"),
        (HUGE, "too many pixels"),
        # millions of empty chunks, or scans, would keep a reader busy for seconds
        (PNG[:33] + add_chunk(b"", b"tEXt", b"") * 20_000 + PNG[33:], "too many parts"),
        (PROGRESSIVE[:-2] + SCANS, "too many scans"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} bytes",
)
def test_unreadable_files_say_why(content, message, tmp_path):
    """Each is an UnreadableImageError, which does not name the file."""
    (tmp_path / "maria_silva.jpg").write_bytes(content)
    with pytest.raises(UnreadableImageError, match=message) as caught:
        crop_fundus(tmp_path / "maria_silva.jpg")
    assert "maria" not in str(caught.value)


CROP_ALL = """
import sys
from pathlib import Path
from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.errors import DrError
for path in sorted(Path(sys.argv[1]).iterdir()):
    for size in (299, 64):
        try:
            print(path.stem, crop_fundus(path, size).status)
        except DrError as error:
            print(path.stem, error)
"""


def test_no_kind_of_jpeg_ends_the_process(tmp_path):
    """Lossless ones, by libjpeg-turbo, of which simplejpeg overruns its memory where it decodes a
    fraction; and frames of every kind that the standard has (ITU T.81, table B.1). A process of its
    own crops them, to be ended in place of this one.
    """
    large = cv2.resize(IMAGE, (1600, 1600))
    at = JPEG.index(b"\xff\xc0") + 1
    files = {
        f"{kind:x}": JPEG[:at] + bytes([kind]) + JPEG[at + 1 :] for kind in range(0xC0, 0xD0)
    }
    files["lossless"] = imagecodecs.jpeg8_encode(large, lossless=True, predictor=1)
    for name, content in files.items():
        (tmp_path / f"{name}.jpg").write_bytes(content)
    ran = subprocess.run(
        [sys.executable, "-c", CROP_ALL, tmp_path], capture_output=True, text=True, check=True
    )
    lines = ran.stdout.splitlines()
    assert len(lines) == 2 * len(files)
    refused = {line.split()[0] for line in lines if "lossless or hierarchical" in line}
    assert refused == {"lossless", *(f"c{kind:x}" for kind in (3, 5, 6, 7, 11, 13, 14, 15))}
    assert {line for line in lines if line.startswith("c0")} == {"c0 ok"}


def test_missing_files_and_folders_are_unreadable(tmp_path):
    """A path that is no file, or cannot be one, is an error of the same kind, and is not waited
    for.
    """
    (tmp_path / "x.jpg").mkdir()
    os.mkfifo(tmp_path / "pipe.jpg")
    for name in ("x.jpg", "none.jpg", "pipe.jpg", "no\0name.jpg"):
        with pytest.raises(UnreadableImageError, match="cannot be read"):
            crop_fundus(tmp_path / name)


CROP = """
import re, sys
from pathlib import Path
from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.errors import DrError
try:
    crop_fundus(sys.argv[1])
    print("used", end=" ")
except DrError as error:
    print("refused", end=" ")
print(re.search(r"VmHWM:[^0-9]+([0-9]+)", Path("/proc/self/status").read_text())[1])
"""


def crop_alone(path) -> tuple[str, float]:
    """Crop in a process of its own, by Linux' own account of it, for ru_maxrss knows the parent's
    memory too: what came out, and the peak [MB].
    """
    done = subprocess.run(
        [sys.executable, "-c", CROP, str(path)], capture_output=True, text=True, check=True
    )
    outcome, peak_kib = done.stdout.split()
    return outcome, int(peak_kib) * 1024 / 1e6


def make_bombs() -> dict[str, bytes]:
    """PNGs that OpenCV alone would make room for, or unpack."""
    before, _, after = PNG.partition(b"IDAT")
    return {
        "pixels without end": make_png(64, 48, zlib.compress(bytes(300_000_000), 9)),
        "2 GB": before[:-4] + struct.pack(">I", 2 * 10**9) + b"IDAT" + after,
    }


@pytest.mark.slow
def test_a_small_png_takes_no_memory(tmp_path):
    """A chunk that claims 2 GB, and 300 MB that are no pixels: as much as Python and the imports
    take, and 50 MB.
    """
    (tmp_path / "eye.png").write_bytes(b"")
    _, imports_mb = crop_alone(tmp_path / "eye.png")
    for kind, encoded in make_bombs().items():
        (tmp_path / "eye.png").write_bytes(encoded)
        outcome, peak_mb = crop_alone(tmp_path / "eye.png")
        assert peak_mb < imports_mb + 50 and outcome == "refused", kind


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "width", "height", "most_mb", "options"),
    [
        (".jpg", 9_500, 6_300, 300, {}),
        (".png", 5_500, 5_500, 300, {"compress_level": 1}),
        # a decoder keeps the scans until the last
        (".jpg", 7_400, 5_400, 400, {"progressive": True, "subsampling": 0}),
    ],
)
def test_the_largest_photographs_fit(suffix, width, height, most_mb, options, tmp_path):
    """The largest of each kind that are read are used, in so much memory with Python and all
    imports.
    """
    small = Image.fromarray(draw_fov(950, 700, 470.0, 350.0, 310.0))
    large = small.resize((width, height), Image.Resampling.NEAREST)
    large.save(tmp_path / f"eye{suffix}", **options)
    outcome, peak_mb = crop_alone(tmp_path / f"eye{suffix}")
    assert outcome == "used" and peak_mb < most_mb
