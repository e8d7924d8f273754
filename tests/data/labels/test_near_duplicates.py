"""A picture that is there twice, saved otherwise, is found; no two eyes are taken for one."""

import cv2
import numpy as np
import pytest

from dr_lib.data.labels.near_duplicates import (
    THRESHOLD,
    find_near_duplicates,
    perceptual_hash,
)
from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.pixels import encode_jpeg
from dr_lib.data.synthetic import draw_eye, draw_look


def save(image: np.ndarray, quality: int = 90) -> bytes:
    """The photograph as a file."""
    options = [cv2.IMWRITE_JPEG_QUALITY, quality]
    return cv2.imencode(".jpg", np.ascontiguousarray(image[..., ::-1]), options)[1].tobytes()


def recolour(image: np.ndarray, gain: float) -> np.ndarray:
    """The photograph brighter or darker."""
    return np.clip(gain * image, 0, 255).astype(np.uint8)


def turn(image: np.ndarray) -> np.ndarray:
    """The photograph turned by a degree about its middle."""
    height, width = image.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), 1, 1)
    return cv2.warpAffine(image, matrix, (width, height), flags=cv2.INTER_CUBIC)


COPIES = {  # never the fellow eye, which a mirrored photograph is like
    "half the size": lambda image: save(
        cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    ),
    "turned by 1 degree": lambda image: save(turn(image)),
    "mirrored": lambda image: save(np.fliplr(image), 50),
    "turned by 90 degrees": lambda image: save(np.rot90(image), 50),
}


def hash_crops(files: list[bytes]) -> list[str]:
    """Hash photographs the way that `prepare` does."""
    crops = (encode_jpeg(crop_fundus(encoded).image) for encoded in files)
    return [perceptual_hash(crop).hex() for crop in crops]


def find_between(left: list[str], right: list[str]) -> list[tuple[int, int]]:
    """The near duplicates between two lists of photographs, as places in each."""
    pairs = find_near_duplicates(left + right)[:, :2]
    return [(i, j - len(left)) for i, j in pairs.tolist() if i < len(left) <= j]


@pytest.fixture(scope="module")
def eyes() -> list[np.ndarray]:
    """Both eyes of four patients, each patient with a camera of its own."""
    images = []
    for number in range(4):
        rng = np.random.default_rng([3, number])
        look = draw_look(rng)._replace(width=1024, height=768)
        images += [draw_eye(number, eye, look, rng)[0] for eye in ("left", "right")]
    return images


@pytest.mark.parametrize("kind", COPIES)
def test_a_copy_is_found_and_no_other_eye(eyes, kind):
    """Each copy is found with its original and with nothing else."""
    originals = hash_crops([save(image) for image in eyes])
    copies = hash_crops([COPIES[kind](image) for image in eyes])
    assert find_between(originals, copies) == [(i, i) for i in range(len(eyes))]


@pytest.mark.parametrize("gain", [0.1, 20])
def test_bad_photographs_are_no_copies_of_each_other(eyes, gain):
    """Dark, or plain white: the same file still is the same picture."""
    spoilt = hash_crops([save(recolour(image, gain)) for image in eyes])
    assert find_between(spoilt, spoilt) == [(i, i) for i in range(len(eyes))]


def test_pairs_are_those_up_to_the_threshold_in_bits():
    """By hand: bits 0 to 39 of the first are turned, 0 to 40 of the second; a mirror turns the sign
    of each wave that is odd, and wave 1 stands first.
    """
    some = np.random.default_rng(1).integers(0, 2, (3, 16, 16), np.uint8)
    others = some.reshape(3, 256).copy()
    others[0, :THRESHOLD] ^= 1
    others[1, : THRESHOLD + 1] ^= 1
    others[2] ^= np.tile([1, 0], 128).astype(np.uint8)
    bits = np.concatenate([some.reshape(3, 256), others])
    hashes = [np.packbits(row).tobytes().hex() for row in bits]
    assert find_near_duplicates(hashes).tolist() == [[0, 3, THRESHOLD], [2, 5, 0]]
