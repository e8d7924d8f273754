"""Pictures of one plain field of view at a known place, and files of them."""

import io

import cv2
import numpy as np
from PIL import Image

from dr_lib.data.photograph.crop import Circle


def draw_fov(width=640, height=480, x=320.0, y=240.0, radius=200.0, *, background=0, brightness=1.0, squash=1.0):
    """A mottled reddish field of view with a hard, antialiased edge (supersampled), (height, width, 3) uint8 RGB."""
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
