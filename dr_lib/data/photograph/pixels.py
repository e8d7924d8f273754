"""Encode crops as JPEG for storage, and decode and shrink them for a network.

Training reads crops out of records, a server makes them from the photographs it is sent; both call
the functions here, so that a network sees the same pixels in both, to the bit.
"""

import io
from functools import cache

import numpy as np
from PIL import Image

# now: a thread that looks for it while another imports it is told that it is broken
try:
    import cv2
except ImportError:  # Colab's TPU: what is prepared can be read all the same
    cv2 = None

IMAGE_SIZE = 299  # side of a stored crop [px], unless another is asked for


def encode_jpeg(image: np.ndarray, quality: int = 95) -> bytes:
    """Encode a (height, width, 3) uint8 RGB image as JPEG, chroma at half the resolution.

    Example:
        >>> encode_jpeg(np.zeros((299, 299, 3), np.uint8))[:2]
        b'\\xff\\xd8'
    """
    options = [cv2.IMWRITE_JPEG_QUALITY, quality]
    return cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), options)[1].tobytes()


def decode_jpeg(encoded: bytes, size: int = IMAGE_SIZE) -> np.ndarray:
    """Decode a stored crop to (size, size, 3) uint8 RGB; `shrink` shrinks a larger one.

    OpenCV decodes, or Pillow on a machine without it (Colab's TPU); both hold libjpeg-turbo, and
    the pixels are the same to the bit.

    Example:
        >>> decode_jpeg(encode_jpeg(np.zeros((299, 299, 3), np.uint8)), size=96).shape
        (96, 96, 3)
    """
    if cv2:
        image = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    else:
        image = np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))
    return image if image.shape[:2] == (size, size) else shrink(image, size)


@cache
def mask_circle(size: int) -> np.ndarray:
    """Whether each pixel of a crop lies inside the circle that touches its sides: (size, size)."""
    offsets = (np.arange(size) - (size - 1) / 2) ** 2
    return offsets[:, None] + offsets <= (size / 2) ** 2


def halve(image: np.ndarray) -> np.ndarray:
    """Average 2 x 2 pixels, ten times as fast as any other factor; an odd last row is dropped."""
    height, width = (max(1, length // 2) for length in image.shape[:2])
    image = image[: 2 * height, : 2 * width]
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)


def shrink(image: np.ndarray, size: int) -> np.ndarray:
    """Shrink a crop: each new pixel is the mean of the area that it covers.

    Weights are whole numbers out of 256, so every machine comes to the same bits; a server has no
    Pillow and a TPU's runtime no OpenCV, which each would do it otherwise.

    Args:
        image: (height, width, 3) uint8, no side shorter than `size`.
        size: new side [px]; below 32 the weights are coarse.
    """
    for _ in range(2):
        image = _swap_sides(_shrink_down(image, size))
    return image


def _shrink_down(image: np.ndarray, size: int) -> np.ndarray:
    rows, weights = _weigh_rows(len(image), size)
    old = image.reshape(len(image), -1).astype(np.uint16)
    new = old[rows[0]]
    new *= weights[0][:, None]
    new += 128  # a half, to round; 128 + 256 x 255 still fits
    for row, weight in zip(rows[1:], weights[1:], strict=True):
        part = old[row]
        part *= weight[:, None]
        new += part
    new >>= 8
    return new.astype(np.uint8).reshape(size, *image.shape[1:])


@cache
def _weigh_rows(height: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the old rows that each new row may cover, and their weights, which sum to 256."""
    edges = np.arange(size + 1) * (height / size)
    firsts = np.floor(edges[:-1]).astype(int)
    borders = firsts + np.arange(int(np.ceil(height / size)) + 2)[:, None]
    # of the new row, up to each border of old rows
    covered = np.clip(borders, edges[:-1], edges[1:]) - edges[:-1]
    weights = np.diff(np.floor(covered * (256 * size / height) + 0.5).astype(int), axis=0)
    return np.minimum(borders[:-1], height - 1), weights.astype(np.uint16)


def _swap_sides(image: np.ndarray) -> np.ndarray:
    """Swap height and width, in memory too; OpenCV takes a twentieth of the time NumPy takes."""
    if cv2:
        return cv2.transpose(image)
    return np.ascontiguousarray(image.transpose(1, 0, 2))
