"""Find photographs that a data set holds twice, in two files, by a perceptual hash."""

import hashlib
import itertools
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import cv2
import numpy as np

from dr_lib.hardware.cpus import count_cpus

NUM_WAVES = 16  # across and down; 16 x 16 = 256 bits
SIDE = 32  # px of the square that is hashed
# grey levels; added before the logarithm, so that the noise of a dark photograph does not count
NOISE = 16
# Of 185,745 pairs of different photographs (610 of ODIR) none, in any of eight orientations,
# differs by less than 63 bits, of 2.9 million pairs of EyePACS at 64 px none by less than 43
# (alike eyes, stains on a lens; mirrored or turned, 60). Of 5,304 copies (13 kinds, such as JPEG of
# quality 30, half the size, other contrast, text, a turn of 1 degree; each in eight orientations)
# 99.85 % differ by 40 bits or less.
THRESHOLD = 40  # bits of 256
PARTS = 64  # of all photographs, which the cores share


def perceptual_hash(encoded: bytes) -> bytes:
    """Hash what a stored crop shows, from its file's bytes: 32 bytes, nearly equal for copies.

    The bits are the signs of the slow waves in the picture, 16 down by 16 across (a DCT hash,
    Zauner 2010), with two changes, for all fundus photographs are a bright circle on black: only
    the square inside it counts, in logarithms, where a change of brightness or contrast hardly
    matters; and what is constant across or down does not count. A photograph without any detail is
    a copy of nothing but itself.
    """
    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_REDUCED_GRAYSCALE_4)
    margin = round(len(image) * (1 - 0.5**0.5) / 2)
    inside = np.log(image[margin:-margin, margin:-margin].astype(np.float32) + NOISE)
    waves = cv2.dct(cv2.resize(inside, (SIDE, SIDE), interpolation=cv2.INTER_AREA))[1:, 1:][
        :NUM_WAVES, :NUM_WAVES
    ]
    # real photographs have 0.027 and more, those overexposed to plain white 0.010 and less
    if waves.std() < 0.015:
        return hashlib.sha256(encoded).digest()  # as many bits, near to no others
    return np.packbits(waves > 0).tobytes()


def find_near_duplicates(hashes: Iterable[str]) -> np.ndarray:
    """Find pairs of photographs that show nearly the same image, turned or mirrored or not.

    Every pair is compared, on all cores. The two eyes of a person, mirrored, differ by far more
    than THRESHOLD.

    Args:
        hashes: hexadecimal perceptual hashes.

    Returns:
        (pairs, 3) int: the places of both, the smaller first, and the number of bits in which they
        differ in the best orientation; sorted.
    """
    bits = np.unpackbits(np.frombuffer(bytes.fromhex("".join(hashes)), np.uint8))
    ways = _turn(bits.reshape(-1, NUM_WAVES, NUM_WAVES))
    parts = np.array_split(np.arange(ways.shape[-1]), PARTS)
    with ThreadPoolExecutor(count_cpus()) as pool:
        return np.concatenate(list(pool.map(partial(_compare, ways), parts)))


def _turn(bits: np.ndarray) -> np.ndarray:
    """Turn and mirror hashes, (n, 16, 16) bits, in all ways, the upright one first: (8, 4, n)
    uint64.

    A mirror changes the sign of every other wave, and a turn by 90 degrees swaps across and down
    too.
    """
    is_odd = 1 - np.arange(NUM_WAVES, dtype=np.uint8) % 2  # the first is wave 1
    ways = []
    for picture in (bits, bits.transpose(0, 2, 1)):
        for down, across in itertools.product((0, 1), repeat=2):
            mirrored = picture ^ (is_odd * across) ^ (is_odd * down)[:, None]
            ways.append(
                np.packbits(mirrored.reshape(-1, NUM_WAVES**2), axis=1).view(np.uint64).T
            )
    return np.array(ways)


def _compare(ways: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Compare some hashes, each with all behind it; result of `find_near_duplicates`."""
    pairs = [np.empty((0, 3), int)]
    for row in rows:
        nearest = np.int16(256)
        for way in ways:
            # one at a time, for a core keeps so much near
            unlike = np.bitwise_count(ways[0, :, row, None] ^ way[:, row + 1 :])
            nearest = np.minimum(nearest, unlike.sum(0, dtype=np.int16))
        (near,) = np.nonzero(nearest <= THRESHOLD)
        pairs.append(np.column_stack([np.full_like(near, row), row + 1 + near, nearest[near]]))
    return np.concatenate(pairs)
