"""Find photographs that a data set holds twice, in two files, by a perceptual hash."""

import hashlib
from collections.abc import Iterable

import cv2
import numpy as np

NUM_WAVES = 16  # across and down; 16 x 16 = 256 bits
SIDE = 32  # px of the square that is hashed
# grey levels; added before the logarithm, so that the noise of a dark photograph does not count
NOISE = 16
# real photographs have 0.027 and more, those overexposed to plain white 0.010 and less
LEAST_DETAIL = 0.015
# Of 185,745 pairs of different photographs (610 of ODIR) none, in any of eight orientations,
# differs by less than 63 bits, of 2.9 million pairs of EyePACS at 64 px none by less than 43
# (alike eyes, stains on a lens; mirrored or turned, 60). Of 5,304 copies (13 kinds, such as JPEG of
# quality 30, half the size, other contrast, text, a turn of 1 degree; each in eight orientations)
# 99.85 % differ by 40 bits or less.
THRESHOLD = 40  # bits of 256
PAIRS_AT_ONCE = 2**22  # a few tens of MB


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
    inside = np.log(
        image[margin : len(image) - margin, margin : len(image) - margin].astype(np.float32)
        + NOISE
    )
    waves = cv2.dct(cv2.resize(inside, (SIDE, SIDE), interpolation=cv2.INTER_AREA))[1:, 1:][
        :NUM_WAVES, :NUM_WAVES
    ]
    if waves.std() < LEAST_DETAIL:
        return hashlib.sha256(encoded).digest()  # as many bits, near to no others
    return np.packbits(waves > 0).tobytes()


def parse_hashes(texts: Iterable[str]) -> np.ndarray:
    """Convert hexadecimal perceptual hashes to an (n, 32) uint8 array."""
    return np.frombuffer(bytes.fromhex("".join(texts)), np.uint8).reshape(-1, 32)


def find_near_duplicates(hashes: np.ndarray) -> np.ndarray:
    """Find pairs of photographs that show nearly the same image, turned or mirrored or not.

    A mirror changes the sign of every other wave, and a turn by 90 degrees swaps across and down
    too. The bits are therefore counted by kind (odd or even, down and across), from which follow
    the distances in four orientations, and again with one photograph's bits transposed. The two
    eyes of a person, mirrored, differ by far more than THRESHOLD.

    Args:
        hashes: (n, 32) uint8, a perceptual hash in each row.

    Returns:
        (pairs, 3) int: the rows of both, the smaller first, and the number of bits in which they
        differ in the best orientation; sorted.
    """
    bits = np.unpackbits(hashes, axis=1).reshape(-1, NUM_WAVES, NUM_WAVES)
    upright = _sort_by_kind(bits)
    transposed = _sort_by_kind(bits.transpose(0, 2, 1))
    step = PAIRS_AT_ONCE // (len(bits) + 1) + 1
    tables = [np.empty((0, 3), int)]
    for start in range(0, len(bits), step):
        firsts = upright[:, start : start + step, None]
        distances = np.minimum(
            _count_least(firsts, upright[:, None, start:]),
            _count_least(firsts, transposed[:, None, start:]),
        )
        i, j = np.nonzero(np.triu(distances <= THRESHOLD - 128, 1))
        tables.append(
            np.column_stack([start + i, start + j, 128 + distances[i, j].astype(int)])
        )
    return np.concatenate(tables)


def _sort_by_kind(bits: np.ndarray) -> np.ndarray:
    """Pack bits, (n, 16, 16), by whether their wave is odd, down and across: (4, n) uint64."""
    kinds = [bits[:, i::2, j::2].reshape(-1, 64) for i in (0, 1) for j in (0, 1)]
    return np.packbits(kinds, axis=2).view(np.uint64)[..., 0]


def _count_least(firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Count in how many bits hashes differ, at least, in four orientations: int8, less 128.

    A mirror inverts all bits of a kind that is odd along it: of 64 bits 64 - d differ where d did,
    which changes the sign of d - 32.
    """
    odd, odd_down, odd_across, even = (
        np.bitwise_count(first ^ second).view(np.int8) - np.int8(32)
        for first, second in zip(firsts, seconds, strict=True)
    )
    mirrored_across = even + odd_down - abs(odd + odd_across)
    mirrored_down = even - odd_down - abs(odd - odd_across)
    return np.minimum(mirrored_across, mirrored_down)
