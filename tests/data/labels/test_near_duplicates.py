"""A picture that is there twice, saved otherwise, is found; no two eyes are taken for one."""

import itertools

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


def save(image: np.ndarray, suffix: str = ".jpg", quality: int = 90) -> bytes:
    """The photograph as a file."""
    options = [cv2.IMWRITE_JPEG_QUALITY, quality]
    return cv2.imencode(suffix, np.ascontiguousarray(image[..., ::-1]), options)[1].tobytes()


def resize(image: np.ndarray, factor: float) -> bytes:
    """The photograph in another size."""
    way = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    return save(cv2.resize(image, None, fx=factor, fy=factor, interpolation=way))


def recolour(image: np.ndarray, gain: float = 1, gamma: float = 1) -> np.ndarray:
    """The photograph brighter, darker or in other contrast."""
    return np.clip(gain * (image / 255) ** gamma * 255, 0, 255).astype(np.uint8)


def turn(image: np.ndarray, degrees: float) -> np.ndarray:
    """The photograph turned about its middle."""
    height, width = image.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1)
    return cv2.warpAffine(image, matrix, (width, height), flags=cv2.INTER_CUBIC)


def write(image: np.ndarray) -> np.ndarray:
    """The photograph with text in a corner."""
    return cv2.putText(image.copy(), "2019-03-01 OD", (10, 40), 0, 1, (255, 255, 255), 2)


def cut(image: np.ndarray) -> np.ndarray:
    """The photograph without a border."""
    border = len(image) // 50
    return image[border:-border, border:-border]


def turn_and_save(way):
    """A copy that is turned, darker and packed harder."""
    return lambda image: save(way(recolour(image, 0.8)), quality=50)


COPIES = {  # never the fellow eye, which a mirrored photograph is like
    "JPEG of quality 30": lambda image: save(image, quality=30),
    "PNG": lambda image: save(image, ".png"),
    "half the size": lambda image: resize(image, 0.5),
    "larger": lambda image: resize(image, 1.5),
    "darker": lambda image: save(recolour(image, 0.7)),
    "brighter": lambda image: save(recolour(image, 1.3)),
    "much darker": lambda image: save(recolour(image, 0.4)),
    "other contrast": lambda image: save(recolour(image, gamma=1.6)),
    "text": lambda image: save(write(image)),
    "cut": lambda image: save(cut(image)),
    "turned by 1 degree": lambda image: save(turn(image, 1)),
    "grey": lambda image: save(np.repeat(image.mean(2, keepdims=True).astype(np.uint8), 3, 2)),
    "mirrored": turn_and_save(np.fliplr),
    "upside down": turn_and_save(np.flipud),
    "turned by 180 degrees": turn_and_save(lambda image: np.rot90(image, 2)),
    "turned by 90 degrees": turn_and_save(np.rot90),
    "turned by 270 degrees": turn_and_save(lambda image: np.rot90(image, 3)),
    "transposed": turn_and_save(lambda image: image.transpose(1, 0, 2)),
    "transposed and turned": turn_and_save(lambda image: image.transpose(1, 0, 2)[::-1, ::-1]),
}


def hash_crops(files: list[bytes]) -> np.ndarray:
    """Hash photographs the way that `prepare` does."""
    crops = (encode_jpeg(crop_fundus(encoded).image) for encoded in files)
    return join([perceptual_hash(crop) for crop in crops])


def join(hashes: list[bytes]) -> np.ndarray:
    """The hashes, one in each row."""
    return np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, 32)


def find_between(left: np.ndarray, right: np.ndarray) -> list[tuple[int, int]]:
    """The near duplicates between two lists of photographs, as rows of each."""
    pairs = find_near_duplicates(np.concatenate([left, right]))[:, :2]
    return [(i, j - len(left)) for i, j in pairs.tolist() if i < len(left) <= j]


@pytest.fixture(scope="module")
def eyes() -> list[np.ndarray]:
    """Eight drawn photographs: both eyes of four patients, each patient with a camera of its
    own.
    """
    images = []
    for number in range(4):
        rng = np.random.default_rng([3, number])
        look = draw_look(rng)._replace(width=1024, height=768)
        images += [draw_eye(number, eye, look, rng)[0] for eye in ("left", "right")]
    return images


@pytest.fixture(scope="module")
def hashes(eyes) -> np.ndarray:
    """The hashes of the drawn photographs."""
    return hash_crops([save(image) for image in eyes])


@pytest.mark.parametrize("kind", COPIES)
def test_a_copy_is_found_and_no_other_eye(eyes, hashes, kind):
    """Saved otherwise, shrunk, brightened, written on, mirrored or turned: each copy is found with
    its original and with nothing else.
    """
    copies = hash_crops([COPIES[kind](image) for image in eyes])
    assert find_between(hashes, copies) == [(i, i) for i in range(len(eyes))]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda image: recolour(image, 0.1),
        lambda image: cv2.GaussianBlur(image, (0, 0), 16),
        lambda image: recolour(image, 20),
    ],
    ids=["dark", "blurred", "plain white"],
)
def test_bad_photographs_are_no_copies_of_each_other(eyes, spoil):
    """Where little or nothing can be seen, little is alike; the same file still is the same
    picture.
    """
    spoilt = hash_crops([save(spoil(image)) for image in eyes])
    assert find_between(spoilt, spoilt) == [(i, i) for i in range(len(eyes))]


@pytest.mark.slow
def test_real_photographs_and_their_copies_are_told_apart(real_data):
    """Of 20,706 pairs of different photographs none, turned or mirrored, comes near the threshold;
    of real copies at most 1 % is missed.
    """
    paths = sorted((real_data / "odir512" / "images").iterdir())[::3]
    hashes = hash_crops([path.read_bytes() for path in paths])
    assert count_nearest(hashes)[np.triu_indices(len(paths), 1)].min() >= THRESHOLD + 16
    images = [cv2.imread(str(path))[..., ::-1] for path in paths[::10]]
    copies = hash_crops([copy(image) for copy in COPIES.values() for image in images])
    found = find_between(hashes[::10], copies)
    assert all(j % len(images) == i for i, j in found)
    assert len(found) >= 0.99 * len(copies)


WAYS = list(itertools.product((0, 1), repeat=3))


def turn_hashes(hashes: np.ndarray, across: int, down: int, transposed: int) -> np.ndarray:
    """The hashes of mirrored and transposed photographs: (n, 256) bits. A mirror turns the sign of
    each wave that is odd along it, and wave 1 stands first.
    """
    bits = np.unpackbits(hashes, axis=1).reshape(-1, 16, 16)
    bits = bits.transpose(0, 2, 1) if transposed else bits
    odd = np.arange(16) % 2 == 0
    return (bits ^ (odd * across) ^ (odd * down)[:, None]).reshape(len(hashes), -1)


def count_nearest(hashes: np.ndarray) -> np.ndarray:
    """The bits in which each two hashes differ, in the best of eight orientations: (n, n)."""
    bits = np.unpackbits(hashes, axis=1)
    return np.min(
        [(bits[:, None] != turn_hashes(hashes, *way)).sum(-1) for way in WAYS], axis=0
    )


def flip(hashed: np.ndarray, num_bits: int) -> np.ndarray:
    """The hash with its first bits turned over."""
    return hashed ^ np.packbits(np.arange(256) < num_bits)


def test_pairs_are_at_most_the_threshold_apart():
    """At the threshold is a pair, one bit more is none; sorted, the smaller row first."""
    base, other = np.random.default_rng(0).integers(0, 256, (2, 32), np.uint8)
    rows = [flip(base, THRESHOLD), other, base, base, flip(other, THRESHOLD + 1), flip(base, 1)]
    assert find_near_duplicates(np.array(rows)).tolist() == [
        [0, 2, THRESHOLD],
        [0, 3, THRESHOLD],
        [0, 5, THRESHOLD - 1],
        [2, 3, 0],
        [2, 5, 1],
        [3, 5, 1],
    ]


def test_parts_lose_and_double_nothing(monkeypatch):
    """However they are shared out, the result is that of every orientation of every
    pair, counted one bit after another.
    """
    some = np.random.default_rng(1).integers(0, 256, (12, 32), np.uint8)
    turned = [turn_hashes(some, *way) for way in WAYS]
    noise = np.random.default_rng(2).random((96, 256)) < 0.06
    hashes = np.packbits(np.concatenate(turned) ^ noise, axis=1)
    nearest = count_nearest(hashes)
    near = [[i, j, nearest[i, j]] for i, j in np.argwhere(np.triu(nearest <= THRESHOLD, 1))]
    assert 300 < len(near) <= 12 * 28
    for parts in (1, 7, 95, 96, 97, 200):
        monkeypatch.setattr("dr_lib.data.labels.near_duplicates.PARTS", parts)
        assert find_near_duplicates(hashes).tolist() == near
