"""A crop as it is stored and as a network gets it: encoded as JPEG, decoded, shrunk.

Training reads crops out of records, a server makes them from the photographs it is sent; both call the functions here,
so that a network sees the same pixels in both, to the bit.
"""

import io
from functools import cache
from importlib.util import find_spec

import numpy as np

IMAGE_SIZE = 299  # side of every stored crop [px]
JPEG_QUALITY = 95


def encode_jpeg(image: np.ndarray) -> bytes:
    """Encode a (height, width, 3) uint8 RGB image as JPEG of quality 95, chroma at half the resolution."""
    import cv2

    quality = [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY]
    return cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), quality)[1].tobytes()


def decode_jpeg(encoded: bytes, size: int = IMAGE_SIZE) -> np.ndarray:
    """Decode a stored crop to (size, size, 3) uint8 RGB, shrunk by `shrink` where the crop is larger.

    OpenCV decodes, or Pillow on a machine without it (Colab's TPU); both hold libjpeg-turbo, and the pixels are the
    same to the bit.
    """
    if find_spec("cv2"):
        import cv2

        image = cv2.cvtColor(cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    else:
        from PIL import Image

        image = np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))
    return image if image.shape[:2] == (size, size) else shrink(image, size)


def shrink(image: np.ndarray, size: int) -> np.ndarray:
    """Shrink a crop: each new pixel is the mean of the area that it covers, first down, then across.

    Weights are whole numbers out of 65,536, so every machine comes to the same bits; a server has no Pillow and a TPU's
    runtime no OpenCV, which each would do it otherwise.

    Args:
        image: (height, width, 3) uint8, no side shorter than `size`.
        size: new side [px].

    Returns:
        (size, size, 3) uint8.
    """
    for _ in range(2):
        image = np.ascontiguousarray(_shrink_down(image, size).transpose(1, 0, 2))
    return image


def _shrink_down(image: np.ndarray, size: int) -> np.ndarray:
    firsts, weights = _weigh_rows(len(image), size)
    wide = image.astype(np.uint32)
    sums = np.full((size, *image.shape[1:]), 1 << 15, np.uint32)  # a half, to round
    for tap, weight in enumerate(weights):
        rows = np.minimum(firsts + tap, len(image) - 1)  # past the end the weight is 0
        sums += wide[rows] * weight[:, None, None]
    return (sums >> 16).astype(np.uint8)


@cache
def _weigh_rows(height: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """For each new row the first old row that it covers, (size,), and weights of that and the next, (taps, size)."""
    edges = np.arange(size + 1) * (height / size)
    firsts = np.floor(edges[:-1]).astype(int)
    taps = firsts + np.arange(int(np.ceil(height / size)) + 1)[:, None]
    covered = np.clip(np.minimum(taps + 1, edges[1:]) - np.maximum(taps, edges[:-1]), 0, None)
    weights = np.floor(covered * (65536 * size / height) + 0.5).astype(int)
    weights[np.argmax(weights, axis=0), np.arange(size)] += 65536 - weights.sum(axis=0)  # each column sums to 65,536
    return firsts, weights.astype(np.uint32)
