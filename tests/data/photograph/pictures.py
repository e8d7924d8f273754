"""Pictures of one plain field of view at a known place, and files of them."""

import io
import zlib

import cv2
import numpy as np
import tifffile
from PIL import Image

from dr_lib.data.photograph.crop import Circle

PLACE = (331.0, 236.0, 190.0)  # x, y, radius in IMAGE


def draw_fov(
    width=640,
    height=480,
    x=320.0,
    y=240.0,
    radius=200.0,
    *,
    background=0,
    brightness=1.0,
    squash=1.0,
):
    """A mottled reddish field of view with a hard, antialiased edge (16 samples a pixel),
    (height, width, 3) uint8.
    """
    rng = np.random.default_rng(int(x * 7 + y))
    mottle = sum(
        cv2.resize(rng.normal(0, 18, (n, n)).astype(np.float32), (width, height))
        for n in (6, 24)
    )
    retina = (
        np.float32([190, 100, 50]) + mottle[..., None] * np.float32([1.0, 0.6, 0.3])
    ) * np.float32(brightness)
    # sample i lies at (i + 0.5) / 4 - 0.5 of the pixels, whose centres are whole numbers
    at_x, at_y = (
        ((np.arange(4 * n) + 0.5) / 4 - 0.5 - at) ** 2 for n, at in ((width, x), (height, y))
    )
    inside = 255 * (at_x < radius**2 - (at_y / squash**2)[:, None]).astype(np.uint8)
    inside = cv2.resize(inside, (width, height), interpolation=cv2.INTER_AREA)[
        ..., None
    ] / np.float32(255)
    return (np.clip(retina, 0, 255) * inside + background * (1 - inside)).astype(np.uint8)


def to_file(image: np.ndarray | Image.Image, suffix=".png", **options) -> bytes:
    """Encode with Pillow; options such as exif or quality are passed on."""
    buffer = io.BytesIO()
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    picture.save(buffer, Image.registered_extensions()[suffix], **options)
    return buffer.getvalue()


def write_tiff(image: np.ndarray, **options) -> bytes:
    """Encode with tifffile, in RGB if the options name nothing else."""
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, image, **{"photometric": "rgb", **options})
    return buffer.getvalue()


def add_chunk(png: bytes, kind: bytes, content: bytes, at: int = 33) -> bytes:
    """Put a chunk into a PNG, behind its header unless `at` says otherwise."""
    chunk = kind + content
    packed = len(content).to_bytes(4) + chunk + zlib.crc32(chunk).to_bytes(4)
    return png[:at] + packed + png[at:]


def make_exif(orientation: int) -> Image.Exif:
    """EXIF that says how to turn a picture."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def differ(one: np.ndarray, other: np.ndarray) -> float:
    """By how many levels two crops differ in the mean."""
    return cv2.absdiff(one, other).mean()


def error(found: Circle, x: float, y: float, radius: float) -> float:
    """The larger of the errors of centre and radius, as a share of the radius."""
    return max(np.hypot(found.x - x, found.y - y), abs(found.radius - radius)) / radius


IMAGE = draw_fov(640, 480, *PLACE)
GREY = cv2.cvtColor(IMAGE, cv2.COLOR_RGB2GRAY)
IS_INSIDE = np.hypot(*(np.indices(GREY.shape).T - PLACE[1::-1]).T) < PLACE[2]
