"""A picture that is there twice, saved otherwise, is found; no two eyes are taken for one."""

import cv2
import numpy as np
import pytest

from dr_lib.data.labels.near_duplicates import (
    PAIRS_AT_ONCE,
    THRESHOLD,
    find_near_duplicates,
    perceptual_hash,
)
from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.pixels import encode_jpeg
from dr_lib.data.prepared.folder import Prepared
from dr_lib.data.synthetic import draw_eye, draw_look
from tests.data.prepared.test_prepare import read_jpegs


def save(image: np.ndarray, suffix: str = ".jpg", quality: int = 90) -> bytes:
    """The photograph as a file."""
    return cv2.imencode(suffix, image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[
        1
    ].tobytes()


def resize(image: np.ndarray, factor: float) -> np.ndarray:
    """The photograph in another size."""
    way = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    return cv2.resize(image, None, fx=factor, fy=factor, interpolation=way)


def recolour(image: np.ndarray, gain: float = 1, gamma: float = 1) -> np.ndarray:
    """The photograph brighter, darker or in other contrast."""
    return np.clip(gain * (image / 255) ** gamma * 255, 0, 255).astype(np.uint8)


def turn(image: np.ndarray, degrees: float) -> np.ndarray:
    """The photograph turned about its middle."""
    height, width = image.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1)
    return cv2.warpAffine(image, matrix, (width, height), flags=cv2.INTER_CUBIC)


COPIES = {
    "JPEG of quality 30": lambda image: save(image, quality=30),
    "PNG": lambda image: save(image, ".png"),
    "half the size": lambda image: save(resize(image, 0.5)),
    "larger": lambda image: save(resize(image, 1.5)),
    "darker": lambda image: save(recolour(image, 0.7)),
    "brighter": lambda image: save(recolour(image, 1.3)),
    "much darker": lambda image: save(recolour(image, 0.4)),
    "other contrast": lambda image: save(recolour(image, gamma=1.6)),
    "text": lambda image: save(
        cv2.putText(image.copy(), "2019-03-01 OD", (10, 40), 0, 1, (255, 255, 255), 2)
    ),
    "cut": lambda image: save(
        image[len(image) // 50 : -len(image) // 50, len(image) // 50 : -len(image) // 50]
    ),
    "turned by 1 degree": lambda image: save(turn(image, 1)),
    "grey": lambda image: save(np.repeat(image.mean(2, keepdims=True).astype(np.uint8), 3, 2)),
}


def hash_crops(files: list[bytes]) -> np.ndarray:
    """Hash photographs the way that `prepare` does."""
    crops = (encode_jpeg(crop_fundus(encoded).image) for encoded in files)
    return np.frombuffer(b"".join(map(perceptual_hash, crops)), np.uint8).reshape(-1, 32)


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
    """Saved otherwise, shrunk, brightened, written on: each copy is found with its original and
    with nothing else.
    """
    copies = hash_crops([COPIES[kind](image) for image in eyes])
    assert find_between(hashes, copies) == [(i, i) for i in range(len(eyes))]


def test_a_mirrored_picture_is_another_picture(eyes, hashes):
    """A left eye is no copy of a right one, however alike the two are."""
    assert find_between(hashes, hash_crops([save(image[:, ::-1]) for image in eyes])) == []


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


def test_the_drawn_sample_has_no_copies(small_sample):
    """No two photographs of the sample pass for one."""
    hashes = {
        image_id: perceptual_hash(jpeg) for image_id, jpeg in read_jpegs(small_sample).items()
    }
    listed = (
        Prepared(small_sample)
        .photographs.set_index("image_id")["perceptual_hash"]
        .map(bytes.fromhex)
    )
    assert hashes == listed.to_dict() and len(hashes) == 32
    assert (
        len(
            find_near_duplicates(
                np.frombuffer(b"".join(hashes.values()), np.uint8).reshape(-1, 32)
            )
        )
        == 0
    )


@pytest.mark.slow
def test_real_photographs_and_their_copies_are_told_apart(real_data):
    """Of 20,706 pairs of different photographs none comes near the threshold; of real copies at
    most 1 % is missed.
    """
    files = [
        path.read_bytes() for path in sorted((real_data / "odir512" / "images").iterdir())[::3]
    ]
    hashes = hash_crops(files)
    signs = np.unpackbits(hashes, axis=1) * 2.0 - 1
    distances = (256 - signs @ signs.T) / 2  # of +-1 vectors: bits alike less bits that differ
    assert distances[np.triu_indices(len(files), 1)].min() >= THRESHOLD + 16
    few = range(0, len(files), 10)
    images = [
        cv2.imdecode(np.frombuffer(files[i], np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
        for i in few
    ]
    copies = hash_crops([copy(image) for copy in COPIES.values() for image in images])
    bits = np.unpackbits(np.tile(hashes[few], (len(COPIES), 1)) ^ copies, axis=1)
    assert (bits.sum(1) <= THRESHOLD).mean() >= 0.99


def flip(hashed: np.ndarray, num_bits: int) -> np.ndarray:
    """The hash with its first bits turned over."""
    return hashed ^ np.packbits(np.arange(256) < num_bits)


def test_pairs_are_at_most_the_threshold_apart():
    """At the threshold is a pair, one bit more is none; sorted, the smaller row first."""
    base = np.random.default_rng(0).integers(0, 256, 32, np.uint8)
    rows = [flip(base, THRESHOLD), ~base, base, base, flip(~base, THRESHOLD + 1), flip(base, 1)]
    expected = [
        (0, 2, THRESHOLD),
        (0, 3, THRESHOLD),
        (0, 5, THRESHOLD - 1),
        (2, 3, 0),
        (2, 5, 1),
        (3, 5, 1),
    ]
    assert find_near_duplicates(np.array(rows)).tolist() == [list(pair) for pair in expected]


def test_blocks_lose_and_double_nothing(monkeypatch):
    """However few pairs are compared at a time, the result is that of counting bits one pair
    after another.
    """
    # one bit in eight at random
    hashes = np.random.default_rng(1).integers(0, 2, (90, 32), np.uint8)
    numbers = [int.from_bytes(row.tobytes(), "big") for row in hashes]
    distances = {
        (i, j): (numbers[i] ^ numbers[j]).bit_count() for j in range(90) for i in range(j)
    }
    near = [[i, j, d] for (i, j), d in sorted(distances.items()) if d <= 14]
    assert 100 < len(near) < 3500
    monkeypatch.setattr("dr_lib.data.labels.near_duplicates.THRESHOLD", 14)
    for at_once in (1, 7, 30, 31, 32, PAIRS_AT_ONCE):
        monkeypatch.setattr("dr_lib.data.labels.near_duplicates.PAIRS_AT_ONCE", at_once)
        assert find_near_duplicates(hashes).tolist() == near
