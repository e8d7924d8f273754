"""The crop of a fundus photograph, against discs drawn at known places and real photographs."""

import io
import struct
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from dr_lib.data.disc import find_disc
from dr_lib.data.fundus import Circle, NoFundusError, UnreadableImageError, crop_fundus


def draw_disc(width=640, height=480, x=320.0, y=240.0, radius=200.0, *, background=0, brightness=1.0, squash=1.0):
    """A mottled reddish disc with a hard, antialiased edge (supersampled), (height, width, 3) uint8 RGB."""
    k = 4 if width < 1000 else 2
    rng = np.random.default_rng(int(x * 7 + y))
    fields = [cv2.resize(rng.normal(0, 18, (n, n)).astype(np.float32), (width * k, height * k)) for n in (6, 24)]
    mottle = sum(fields)[..., None] * [1.0, 0.6, 0.3]
    retina = np.clip((np.array([190.0, 100.0, 50.0]) + mottle) * brightness, 0, 255)
    row, column = np.mgrid[: height * k, : width * k]
    # the centre of pixel i of the small picture lies at k i + (k - 1) / 2 of the large one
    at_x, at_y = (column - (k - 1) / 2) / k - x, (row - (k - 1) / 2) / k - y
    inside = (at_x**2 + (at_y / squash) ** 2 < radius**2)[..., None]
    large = np.where(inside, retina, background).astype(np.uint8)
    return cv2.resize(large, (width, height), interpolation=cv2.INTER_AREA)


def to_file(image: np.ndarray | Image.Image, suffix=".png", **options) -> bytes:
    """Encode with Pillow; options such as exif or quality are passed on."""
    buffer = io.BytesIO()
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    picture.save(buffer, Image.registered_extensions()[suffix], **options)
    return buffer.getvalue()


def error(found: Circle, x: float, y: float, radius: float) -> float:
    """The larger of the errors of centre and radius, as a share of the radius."""
    return max(np.hypot(found.x - x, found.y - y), abs(found.radius - radius)) / radius


@pytest.mark.parametrize(
    "truth",
    [
        {},
        {"x": 301.37, "y": 251.8, "radius": 171.3},
        {"radius": 300.0},  # cut by the frame above and below
        {"radius": 370.0},  # cut on all four: only the corners show an edge
        {"x": 150.0, "radius": 220.0},  # cut on three sides
        {"radius": 90.0, "x": 200.0, "y": 150.0},
        {"brightness": 0.15},
        {"background": 255},
        {"background": 128},
    ],
    ids=lambda truth: ",".join(f"{k}={v}" for k, v in truth.items()) or "plain",
)
def test_finds_a_disc_at_a_known_place(truth):
    """Centre and radius within 0.5 % of the radius, whatever the background, the darkness or the frame's cuts."""
    crop = crop_fundus(to_file(draw_disc(**truth)))
    place = {"x": 320.0, "y": 240.0, "radius": 200.0} | {k: v for k, v in truth.items() if k in "x y radius".split()}
    assert error(crop.circle, **place) < 0.005
    assert crop.status == ("clipped" if truth.get("radius", 0) >= 220 else "ok")


@pytest.mark.parametrize("truth", [(1190.0, 905.0, 820.0), (700.0, 600.0, 300.0)], ids=["large", "small"])
def test_a_large_jpeg_decoded_small_gives_the_circle_of_the_whole(truth):
    """A JPEG of 2400 px is decoded as small as its disc allows; the circle still counts its own pixels."""
    crop = crop_fundus(to_file(draw_disc(2400, 1800, *truth), ".jpg", quality=92))
    assert error(crop.circle, *truth) < 0.003


@pytest.mark.parametrize("orientation", [3, 6])
def test_a_reduced_jpeg_of_odd_size_keeps_its_place(orientation):
    """1/4 of 2,403 px are 601 that show 2,404: the circle does not drift with that, however the picture is turned."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = draw_disc(2403, 1999, 1252.0, 1003.0, 950.0)
    circle = crop_fundus(to_file(image, ".jpg", exif=exif, quality=92)).circle
    # where the stored point (1252, 1003) lies after the turn, by hand
    place = {3: (2402 - 1252, 1998 - 1003), 6: (1998 - 1003, 1252)}
    assert error(circle, *place[orientation], 950.0) < 0.0005


@pytest.mark.parametrize("width", [pytest.param(3888, marks=pytest.mark.slow), 2048, 1024])
def test_the_crop_does_not_alias(width):
    """At least 42 dB against the mean of 8 x 8 samples of the whole photograph for each pixel of the crop."""
    encoded = to_file(draw_disc(width, width * 2 // 3, width * 0.5, width * 0.33, width * 0.3), ".jpg", quality=92)
    crop = crop_fundus(encoded)
    whole, (x, y, radius) = np.asarray(Image.open(io.BytesIO(encoded))), crop.circle
    offsets = ((np.arange(299 * 8) + 0.5) / (299 * 4) - 1) * radius
    at_x, at_y = np.meshgrid((x + offsets).astype(np.float32), (y + offsets).astype(np.float32))
    samples = cv2.remap(whole, at_x, at_y, cv2.INTER_LINEAR).astype(np.float32)
    expected = samples.reshape(299, 8, 299, 8, 3).mean(axis=(1, 3))
    row, column = np.mgrid[:299, :299] - 149
    misses = (crop.image - expected)[np.hypot(row, column) < 147]
    assert 10 * np.log10(255**2 / (misses**2).mean()) > 42


def test_the_crop_is_black_outside_the_disc():
    """Text in a corner and a bright tab do not survive; the disc touches the sides of the crop."""
    image = draw_disc()
    cv2.putText(image, "NAME 1970", (5, 30), cv2.FONT_HERSHEY_SIMPLEX, 1, (255, 255, 255), 2)
    crop = crop_fundus(to_file(image), 299)
    assert crop.image.shape == (299, 299, 3) and crop.image.dtype == np.uint8
    row, column = np.mgrid[:299, :299] - 149
    distance = np.hypot(row, column)
    assert (crop.image[distance > 150] == 0).all() and (crop.image[distance < 147].max(axis=-1) > 60).all()
    assert error(crop.circle, 320, 240, 200) < 0.005


def test_the_crop_is_the_area_average_of_the_photograph():
    """A quadrant painted green keeps its place and colour: the warp moves nothing."""
    image = draw_disc(1200, 1200, 600.0, 600.0, 500.0)
    image[600:, 600:][image[600:, 600:].max(axis=-1) > 30] = (20, 200, 20)
    crop = crop_fundus(to_file(image), 299).image.astype(int)
    green = crop[..., 1] > crop[..., 0]
    assert green[155:220, 155:220].all() and not green[:145].any() and not green[:, :145].any()


@pytest.mark.parametrize("squash", [0.8, 1.15])
def test_a_squashed_disc_is_straightened(squash):
    """An ellipse is recognised, and its crop is a whole disc again."""
    crop = crop_fundus(to_file(draw_disc(squash=squash)))
    assert crop.status == "ellipse"
    row, column = np.mgrid[:299, :299] - 149
    assert (crop.image[np.hypot(row, column) < 145].max(axis=-1) > 60).all()


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif", ".webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(orientation, suffix):
    """Whatever the orientation tag, circle and crop are those of the picture that Pillow turned upright."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = to_file(draw_disc(640, 480, 260.0, 230.0, 150.0), suffix, exif=exif, quality=95)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(stored)))
    crop, expected = crop_fundus(stored), crop_fundus(to_file(upright))
    assert error(crop.circle, *expected.circle) < 0.002
    assert np.abs(crop.image.astype(int) - expected.image).mean() < 1


@pytest.mark.parametrize("kind", ["grey", "rgba", "palette", "16 bit", "cmyk", ".tif", ".bmp", ".webp"])
def test_formats(kind):
    """The usual kinds of files give the same disc."""
    image = draw_disc()
    if kind == "16 bit":
        encoded = cv2.imencode(".png", image[..., ::-1].astype(np.uint16) * 257)[1].tobytes()
    elif kind.startswith("."):
        encoded = to_file(image, kind)
    else:
        mode = {"grey": "L", "rgba": "RGBA", "palette": "P", "cmyk": "CMYK"}[kind]
        encoded = to_file(Image.fromarray(image).convert(mode), ".jpg" if mode == "CMYK" else ".png")
    assert error(crop_fundus(encoded).circle, 320, 240, 200) < 0.006


def test_path_and_bytes_are_the_same(tmp_path):
    """A file and its bytes give the same crop."""
    (tmp_path / "eye.jpg").write_bytes(to_file(draw_disc(), ".jpg"))
    one, other = crop_fundus(tmp_path / "eye.jpg"), crop_fundus((tmp_path / "eye.jpg").read_bytes())
    assert one.circle == other.circle and (one.image == other.image).all()


def test_a_cut_file_that_stands_on_its_side_is_used():
    """Cut rows become cut columns of the upright picture; the disc is found all the same."""
    exif = Image.Exif()
    exif[0x0112] = 6
    encoded = to_file(draw_disc(radius=220.0), ".jpg", quality=95, exif=exif)
    crop = crop_fundus(encoded[: int(len(encoded) * 0.85)])
    assert "truncated" in crop.status and error(crop.circle, 479 - 240, 320, 220) < 0.02


def test_a_cut_file_is_used_where_most_of_the_disc_is_there():
    """Of a JPEG cut late the disc is found and marked; cut early it is unreadable."""
    encoded = to_file(draw_disc(radius=220.0), ".jpg", quality=95)
    crop = crop_fundus(encoded[: int(len(encoded) * 0.85)])
    assert "truncated" in crop.status and error(crop.circle, 320, 240, 220) < 0.02
    with pytest.raises(ValueError, match="cut short|no disc|no edge"):
        crop_fundus(encoded[: int(len(encoded) * 0.3)])


def test_a_retina_without_border_is_kept_whole():
    """A frame filled by the retina gets the circle around it: nothing is lost, the corners touch the disc."""
    crop = crop_fundus(to_file(draw_disc(400, 300, 200.0, 150.0, 900.0)))
    assert crop.status == "full_frame" and crop.circle.radius == pytest.approx(250, abs=1)


@pytest.mark.parametrize("kind", ["black", "white", "noise", "text", "bars"])
def test_what_is_no_fundus_is_refused(kind):
    """A closed shutter, a blank page, noise, text and a test pattern are errors, never a circle."""
    image = np.zeros((480, 640, 3), np.uint8)
    if kind == "white":
        image[:] = 255
    if kind == "noise":
        image[:] = np.random.default_rng(0).integers(0, 255, image.shape)
    if kind == "text":
        for line in range(60, 480, 60):
            cv2.putText(image, "patient 12 left eye", (20, line), cv2.FONT_HERSHEY_SIMPLEX, 1.5, (255, 255, 255), 3)
    if kind == "bars":
        image[100:380, 80:560] = 200
    with pytest.raises(NoFundusError):
        crop_fundus(to_file(image))


def make_bomb(side: int) -> bytes:
    """A PNG that promises side x side px and holds none: to look for them is to fail."""
    chunks = (b"IHDR" + struct.pack(">2I5B", side, side, 8, 2, 0, 0, 0), b"IDAT" + zlib.compress(b""))
    packed = [struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"not a picture at all", "not a picture"),
        (b"\x00" * 128 + b"DICM" + b"\x00" * 100, "DICOM"),
        (b"\xff\xd8\xff\xe0garbage", "damaged"),
        (make_bomb(20_000), "too many"),
        (make_bomb(12_650), "too many"),
    ],
    ids=["empty", "garbage", "dicom", "header only", "bomb", "small bomb"],
)
def test_unreadable_files_say_why(content, message, tmp_path):
    """Each is an UnreadableImageError, which does not name the file."""
    (tmp_path / "maria_silva.jpg").write_bytes(content)
    with pytest.raises(UnreadableImageError, match=message) as caught:
        crop_fundus(tmp_path / "maria_silva.jpg")
    assert "maria" not in str(caught.value)


def test_missing_files_and_folders_are_unreadable(tmp_path):
    """A path that is no file is an error of the same kind."""
    (tmp_path / "x.jpg").mkdir()
    for path in (tmp_path / "x.jpg", tmp_path / "none.jpg"):
        with pytest.raises(UnreadableImageError, match="cannot be read"):
            crop_fundus(path)


def test_voets_does_the_published_steps():
    """On a bright disc radius and centre are those of the mask; the orientation tag is ignored, as it was there."""
    image = draw_disc(640, 480, 260.0, 230.0, 150.0)
    exif = Image.Exif()
    exif[0x0112] = 6
    crop = crop_fundus(to_file(image, ".jpg", exif=exif, quality=100), method="voets")
    assert error(crop.circle, 260.0, 230.0, 150.0) < 0.01 and crop.image.shape == (299, 299, 3)
    with pytest.raises(NoFundusError, match="100 px or less"):
        crop_fundus(to_file(draw_disc(radius=90.0)), method="voets")


def test_voets_drops_what_is_darker_than_13():
    """By hand: 196.15 (12 / 170)^2 = 0.98 is cut to 0, 196.15 (13 / 170)^2 = 1.15 to 1, which is a disc."""
    inside = draw_disc().max(axis=-1, keepdims=True) > 30
    dark, less_dark = (np.where(inside, level, 0).astype(np.uint8).repeat(3, axis=-1) for level in (12, 13))
    assert error(crop_fundus(to_file(less_dark), method="voets").circle, 320, 240, 200) < 0.01
    with pytest.raises(NoFundusError, match="nothing is bright enough"):
        crop_fundus(to_file(dark), method="voets")


def test_an_unknown_method_is_refused():
    """The methods there are stand in the message."""
    with pytest.raises(ValueError, match="robust, voets"):
        crop_fundus(to_file(draw_disc()), method="hough")


@pytest.mark.slow
def test_every_photograph_of_odir_has_its_disc(real_data):
    """All 610 are accepted, and the crop's rim is retina where the frame does not cut it: looked at one by one."""
    rims = []
    for path in sorted((real_data / "odir512" / "images").iterdir()):
        crop = crop_fundus(path)
        assert 200 < crop.circle.radius < 300 and max(abs(crop.circle.x - 255.5), abs(crop.circle.y - 255.5)) < 35
        rims.append(min(crop.image[149, 3:8].max(), crop.image[149, -8:-3].max()))
    assert len(rims) == 610 and np.mean(np.array(rims) > 8) > 0.95


def test_tiny_squashed_photographs_are_ellipses(real_data):
    """Pictures squashed to 64 x 64 px, many of them cut above and below, are accepted; few pass for circles."""
    crops = [crop_fundus(path) for path in sorted((real_data / "eyepacs64" / "images").iterdir())[::24]]
    assert len(crops) == 100 and sum("ellipse" in crop.status for crop in crops) >= 97


@pytest.mark.slow
def test_drive_masks_overlap(real_data):
    """The disc covers DRIVE's field-of-view masks, IoU at least 0.985 in each and 0.99 in the median."""
    overlaps = []
    for path in sorted((real_data / "geometry" / "drive").glob("*_test.tif")):
        mask = np.asarray(Image.open(str(path).replace(".tif", "_mask.gif"))) > 0
        disc = find_disc(np.ascontiguousarray(np.asarray(Image.open(path).convert("RGB"))))
        row, column = np.indices(mask.shape)
        found = ((column - disc.x) / disc.a) ** 2 + ((row - disc.y) / disc.b) ** 2 <= 1
        overlaps.append((found & mask).sum() / (found | mask).sum())
    assert len(overlaps) == 8 and min(overlaps) > 0.985 and np.median(overlaps) > 0.99
