"""Files that were cut short or otherwise damaged, files that are none, and files made to do harm."""

import os
import struct
import subprocess
import sys
import time
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image

from dr_lib.data.photograph.crop import NoFundusError, UnreadableImageError, crop_fundus
from dr_lib.data.photograph.damage import is_cut_short, mend
from dr_lib.data.photograph.decode import MAX_SIDE, count_rows_decoded
from dr_lib.data.photograph.headers import read_header
from tests.data.photograph.pictures import draw_disc, error, to_file

PLACE = (320.0, 240.0, 215.0)
DISC = draw_disc(640, 480, *PLACE)
FILES = {
    "jpeg": to_file(DISC, ".jpg", quality=95),
    "jpeg, restart markers": to_file(DISC, ".jpg", quality=95, restart_marker_blocks=9),
    "jpeg, progressive": to_file(DISC, ".jpg", quality=95, progressive=True),
    "png": to_file(DISC),
    "png, OpenCV's": cv2.imencode(".png", DISC[..., ::-1])[1].tobytes(),
    "png, grey": to_file(Image.fromarray(DISC).convert("L")),
    "png, palette": to_file(Image.fromarray(DISC).quantize(200)),
    "png, 16 bit": cv2.imencode(".png", DISC[..., ::-1].astype(np.uint16) * 257)[1].tobytes(),
    "tiff": to_file(DISC, ".tif"),
    "tiff, one strip": to_file(DISC, ".tif", tiffinfo={278: 480}),
    "tiff, lzw": to_file(DISC, ".tif", compression="tiff_lzw"),
    "tiff, OpenCV's": cv2.imencode(".tif", DISC[..., ::-1])[1].tobytes(),
    "bmp": to_file(DISC, ".bmp"),
    "webp": to_file(DISC, ".webp", quality=95),
    "webp, lossless": to_file(DISC, ".webp", lossless=True),
    "gif": to_file(Image.fromarray(DISC).quantize(200), ".gif"),
    "ppm": to_file(DISC, ".ppm"),
}


def directory_first(encoded: bytes) -> bytes:
    """A little-endian TIFF with its directory moved in front of the pixels, as cameras and scanners write it."""
    (at,) = struct.unpack_from("<I", encoded, 4)
    (num_entries,) = struct.unpack_from("<H", encoded, at)
    entries = [list(struct.unpack_from("<2H2I", encoded, at + 2 + 12 * k)) for k in range(num_entries)]
    sizes = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8}
    first = 8 + 2 + 12 * num_entries + 4
    lists, body = b"", encoded[8:at]
    long_lists = [e for e in entries if e[2] * sizes[e[1]] > 4]
    pixels_at = first + sum(e[2] * sizes[e[1]] for e in long_lists)
    for entry in entries:
        tag, kind, count, value = entry
        if entry in long_lists:
            values = encoded[value : value + count * sizes[kind]]
            if tag == 273:
                values = struct.pack(f"<{count}I", *(v - 8 + pixels_at for v in struct.unpack(f"<{count}I", values)))
            entry[3], lists = first + len(lists), lists + values
        elif tag == 273:
            entry[3] = value - 8 + pixels_at
    packed = struct.pack("<H", num_entries) + b"".join(struct.pack("<2H2I", *e) for e in entries) + bytes(4)
    return encoded[:4] + struct.pack("<I", 8) + packed + lists + body


FILES["tiff, lzw, directory first"] = directory_first(FILES["tiff, lzw"])
LOST = ("tiff, lzw", "tiff, OpenCV's", "webp", "webp, lossless", "gif", "ppm")  # a directory behind the pixels, or none
RESCUED = [kind for kind in FILES if kind not in LOST]


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.85, 0.95, 0.999])
@pytest.mark.parametrize("kind", FILES)
def test_a_cut_file_gives_the_right_circle_or_an_error(kind, share):
    """Wherever it is cut: the circle that was drawn, marked as truncated, or an error; never a silent wrong crop."""
    encoded = FILES[kind][: int(len(FILES[kind]) * share)]
    try:
        crop = crop_fundus(encoded)
    except (UnreadableImageError, NoFundusError):
        return
    assert "truncated" in crop.status and error(crop.circle, *PLACE) < 0.03


@pytest.mark.parametrize("kind", RESCUED)
def test_most_of_a_disc_is_used(kind):
    """Of 85 % of the bytes most formats give the disc, and the crop shows what the whole file's shows."""
    crop, whole = crop_fundus(FILES[kind][: int(len(FILES[kind]) * 0.85)]), crop_fundus(FILES[kind])
    assert "truncated" in crop.status and error(crop.circle, *PLACE) < 0.02
    half = slice(160, 280) if kind == "bmp" else slice(20, 140)  # the last row of a BMP comes first
    assert np.abs(crop.image[half].astype(int) - whole.image[half]).mean() < 12


@pytest.mark.parametrize("kind", ["png", "png, palette", "png, 16 bit", "tiff", "tiff, lzw, directory first", "bmp"])
def test_the_rows_that_are_there_are_the_whole_files(kind):
    """Not a pixel of a mended file differs from the whole one's, and what lies past the cut is no part of it."""
    read = lambda encoded: cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)  # noqa: E731
    whole = read(FILES[kind])[:: -1 if kind == "bmp" else 1]
    for share in (0.4, 0.6, 0.9):
        cut = FILES[kind][: int(len(FILES[kind]) * share)]
        mended, header, truncated = mend(cut, read_header(cut))
        image = read(mended)
        assert truncated and (header.width, header.height) == (640, 480)
        assert 60 < len(image) < 480 and (image == whole[: len(image)]).all()


def test_a_cut_file_that_stands_on_its_side_is_used():
    """Cut rows become cut columns of the upright picture; the disc is found all the same."""
    exif = Image.Exif()
    exif[0x0112] = 6
    for suffix in (".jpg", ".png"):
        encoded = to_file(DISC, suffix, quality=95, exif=exif)
        crop = crop_fundus(encoded[: int(len(encoded) * 0.85)])
        assert "truncated" in crop.status and error(crop.circle, 479 - 240, 320, 215) < 0.02


@pytest.mark.parametrize("kind", [kind for kind in RESCUED if "progressive" not in kind])
def test_a_file_without_most_of_its_disc_is_unreadable(kind):
    """Cut early, it says so."""
    with pytest.raises(ValueError, match="cut short|no disc|no edge|no fundus"):
        crop_fundus(FILES[kind][: int(len(FILES[kind]) * 0.3)])


@pytest.mark.parametrize("share", [0.7, 0.85])
@pytest.mark.parametrize("end", [bytes(5000), b"\xff\xd9"], ids=["zeros", "end marker"])
def test_a_cut_jpeg_with_something_behind_it_is_cut_all_the_same(end, share):
    """An interrupted copy ends in zeros, a rescued file in an end marker: neither makes it whole, or worthless."""
    encoded = FILES["jpeg"][: int(len(FILES["jpeg"]) * share)] + end
    crop = crop_fundus(encoded)
    assert "truncated" in crop.status and error(crop.circle, *PLACE) < 0.02


@pytest.mark.parametrize("compression", ["tiff_lzw", "tiff_adobe_deflate"])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.9])
def test_zeros_in_a_packed_tiff_are_missing_rows(compression, share):
    """Of the right length, but zeros from some byte on: never ok."""
    encoded = directory_first(to_file(DISC, ".tif", compression=compression))
    kept = int(len(encoded) * share)
    try:
        crop = crop_fundus(encoded[:kept] + bytes(len(encoded) - kept))
    except ValueError:
        assert share < 0.7
    else:
        assert "truncated" in crop.status and error(crop.circle, *PLACE) < 0.02


def test_a_tiff_that_begins_with_a_thumbnail_is_refused():
    """Its first page says that it is a smaller copy: no crop of 60 px blown up."""
    with pytest.raises(UnreadableImageError, match="thumbnail"):
        crop_fundus(to_file(DISC[::8, ::8], ".tif", tiffinfo={254: 1}))


def test_a_png_of_many_parts_is_refused_at_once():
    """Two million empty chunks keep a reader busy for seconds: refused before any is looked into."""
    empty = struct.pack(">I", 0) + b"tEXt" + struct.pack(">I", zlib.crc32(b"tEXt"))
    start = time.process_time()
    with pytest.raises(UnreadableImageError, match="too many parts"):
        crop_fundus(FILES["png"][:33] + empty * 2_000_000 + FILES["png"][33:])
    assert time.process_time() - start < 2


def test_a_progressive_jpeg_cut_early_is_whole_and_coarse():
    """Its first scan shows all of the disc without details: used, and marked, for something is missing."""
    encoded = FILES["jpeg, progressive"]
    crop, whole = crop_fundus(encoded[: int(len(encoded) * 0.3)]), crop_fundus(encoded)
    assert crop.status == "truncated" and error(crop.circle, *PLACE) < 0.02
    assert 1 < np.abs(crop.image.astype(int) - whole.image).mean() < 12


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_a_cut_behind_the_pixels_loses_nothing(kind):
    """What is missing of a comment, or of a second picture, is no part of the photograph: ok."""
    if kind == "png":
        text = b"tEXt" + b"Comment\0" + bytes(100)
        whole = FILES["png"][:-12] + struct.pack(">I", 108) + text + struct.pack(">I", zlib.crc32(text))
        behind = [whole[:-50], whole, FILES["png"][:-12], FILES["png"][:-3]]
    else:
        behind = [FILES["jpeg"] + FILES["jpeg"][:5000], FILES["jpeg"] + bytes(100)]
    for encoded in behind:
        crop, expected = crop_fundus(encoded), crop_fundus(FILES[kind])
        assert crop.status == "ok" and (crop.image == expected.image).all()


def test_the_published_steps_are_not_done_on_a_part():
    """Voets et al. would take the missing part of a cut file for retina: it is refused."""
    with pytest.raises(UnreadableImageError, match="cut short"):
        crop_fundus(FILES["png"][:-9000], method="voets")


def test_the_end_of_a_thumbnail_is_not_the_end():
    """A JPEG cut in its pixels holds an end marker all the same where its EXIF holds a thumbnail."""
    thumbnail = to_file(np.zeros((60, 80, 3), np.uint8), ".jpg")
    segment = b"\xff\xe1" + struct.pack(">H", len(thumbnail) + 8) + b"Exif\0\0" + thumbnail
    encoded = FILES["jpeg"][:2] + segment + FILES["jpeg"][2:]
    assert not is_cut_short(encoded) and is_cut_short(encoded[:-2]) and is_cut_short(encoded[:-9000])


def test_the_rows_of_a_jpeg_end_where_its_flat_filling_begins():
    """By hand: 30 rows of noise, of which the last block of 16 may be grey in part, then 20 of grey; half the size."""
    image = np.full((50, 40, 3), (128, 127, 129), np.uint8)
    image[:30] = np.random.default_rng(0).integers(0, 255, (30, 40, 3))
    assert count_rows_decoded(image, 1) == 14 and count_rows_decoded(image, 2) == 22
    assert count_rows_decoded(image[:30], 1) == 30


def make_bomb(width: int, height: int, *, depth=8, filled=False) -> bytes:
    """A PNG that promises so many px; it holds none, so to look for them is to fail, or holds them all, black."""
    pack, row = zlib.compressobj(9), bytes(1 + width * 3 * depth // 8)
    rows = b"".join([*(pack.compress(row) for _ in range(height if filled else 0)), pack.flush()])
    chunks = b"IHDR" + struct.pack(">2I5B", width, height, depth, 2, 0, 0, 0), b"IDAT" + rows, b"IEND"
    packed = [struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


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
        (make_bomb(20_000, 20_000), "too many"),
        (make_bomb(8_000, 8_000), "too many"),
        (make_bomb(5_000, 5_000, depth=16), "too many"),
        (make_bomb(MAX_SIDE + 1, 10), "too many"),
        (make_bomb(100, 100), "cut short|damaged"),
        (FILES["jpeg, progressive"][:-2] + b"\xff\xda\0\x08\1\1\0\0\x3f\0" * 9_000 + b"\xff\xd9", "too many scans"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} bytes",
)
def test_unreadable_files_say_why(content, message, tmp_path):
    """Each is an UnreadableImageError, which does not name the file."""
    (tmp_path / "maria_silva.jpg").write_bytes(content)
    with pytest.raises(UnreadableImageError, match=message) as caught:
        crop_fundus(tmp_path / "maria_silva.jpg")
    assert "maria" not in str(caught.value)


def test_missing_files_and_folders_are_unreadable(tmp_path):
    """A path that is no file, or cannot be one, is an error of the same kind, and is not waited for."""
    (tmp_path / "x.jpg").mkdir()
    os.mkfifo(tmp_path / "pipe.jpg")
    for path in (tmp_path / "x.jpg", tmp_path / "none.jpg", tmp_path / "pipe.jpg", "/dev/zero", "no\0name.jpg"):
        with pytest.raises(UnreadableImageError, match="cannot be read"):
            crop_fundus(path)


def test_a_file_that_may_not_be_read_is_unreadable(tmp_path):
    """Nor is it a crash where the rights are missing."""
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (tmp_path / "x.jpg").write_bytes(FILES["jpeg"])
    (tmp_path / "x.jpg").chmod(0)
    with pytest.raises(UnreadableImageError, match="cannot be read"):
        crop_fundus(tmp_path / "x.jpg")


CROP = """
import re, sys, time
from pathlib import Path
from dr_lib.data.photograph.crop import crop_fundus
peak = lambda: int(re.search(r"VmHWM:[^0-9]+([0-9]+)", Path("/proc/self/status").read_text())[1]) * 1024 / 1e6
before, start = peak(), time.perf_counter()
try:
    crop_fundus(sys.argv[1])
    print("used", end=" ")
except ValueError as error:
    print("too many" in str(error) and "refused", end=" ")
print(peak() - before, peak(), time.perf_counter() - start)
"""


def crop_alone(path) -> tuple[str, float, float, float]:
    """Crop in a process of its own, by Linux' own account of it, for ru_maxrss knows the parent's memory too.

    Returns:
        What came out, by how much its memory grew beyond the imports [MB], its peak [MB], and the seconds.
    """
    done = subprocess.run([sys.executable, "-c", CROP, str(path)], capture_output=True, text=True, check=True)
    outcome, *figures = done.stdout.split()
    return outcome, *map(float, figures)


@pytest.mark.slow
def test_a_bomb_is_refused_at_once(tmp_path):
    """20,000 x 20,000 px in a PNG of 1.2 MB, all there: refused by its header, in under 50 MB and 0.1 s."""
    (tmp_path / "bomb.png").write_bytes(make_bomb(20_000, 20_000, filled=True))
    assert 1e6 < (tmp_path / "bomb.png").stat().st_size < 1.5e6
    outcome, grown_mb, _, seconds = crop_alone(tmp_path / "bomb.png")
    assert outcome == "refused" and grown_mb < 50 and seconds < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["a chunk of 2 GB", "a palette of 2 GB", "pixels without end"])
def test_a_small_png_takes_no_memory_and_no_time(kind, tmp_path):
    """OpenCV alone would make room for what a chunk claims, or unpack 300 MB that are no pixels."""
    encoded = bytearray(FILES["png, palette" if "palette" in kind else "png"])
    if kind == "pixels without end":
        packed = zlib.compress(bytes(300_000_000), 9)
        body = struct.pack(">I", len(packed)) + b"IDAT" + packed + struct.pack(">I", zlib.crc32(b"IDAT" + packed))
        small = to_file(draw_disc(64, 48, 32.0, 24.0, 20.0))
        encoded = small[:33] + body + small[-12:]
    else:
        at = encoded.index(b"PLTE" if "palette" in kind else b"IDAT") - 4
        encoded[at : at + 4] = struct.pack(">I", 2_000_000_000)
    (tmp_path / "eye.png").write_bytes(encoded)
    _, grown_mb, _, seconds = crop_alone(tmp_path / "eye.png")
    assert grown_mb < 50 and seconds < 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "width", "height", "options"),
    [
        (".jpg", 9_500, 6_300, {}),
        (".jpg", 7_000, 4_600, {"progressive": True}),
        (".jpg", 5_500, 3_700, {"progressive": True, "subsampling": 0}),
        (".png", 6_200, 5_200, {"compress_level": 1}),
        (".tif", 5_000, 4_000, {"compression": "tiff_lzw"}),
        (".webp", 5_000, 4_000, {"method": 0}),
    ],
)
def test_large_photographs_fit_into_300_mb(suffix, width, height, options, tmp_path):
    """The largest of each kind that a camera makes are used; with Python and all imports it stays under 300 MB."""
    small = Image.fromarray(draw_disc(950, 700, 470.0, 350.0, 310.0))
    small.resize((width, height)).save(tmp_path / f"eye{suffix}", **options)
    outcome, _, peak_mb, _ = crop_alone(tmp_path / f"eye{suffix}")
    assert outcome == "used" and peak_mb < 300
