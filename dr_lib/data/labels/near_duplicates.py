"""Find photographs that a data set holds twice, in two files, by a perceptual hash."""

import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count

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
PAIRS_AT_ONCE = 2**22  # a few tens of MB
FEW = 20_000  # photographs, of which comparing every pair takes less time than sorting


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
    # real photographs have 0.027 and more, those overexposed to plain white 0.010 and less
    if waves.std() < 0.015:
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
    words = np.concatenate([upright, transposed], axis=1)
    codes = _compare_all(words) if len(hashes) <= FEW else _compare_neighbours(words)
    firsts, seconds = np.divmod(codes, max(1, len(hashes)))
    distances = _count_differing(words, firsts, seconds)
    return np.column_stack([firsts, seconds, 128 + distances.astype(int)])


def _compare_all(words: np.ndarray) -> np.ndarray:
    """Compare every hash with every other; args and result of `_compare_sorted`."""
    num = words.shape[1] // 2
    step = PAIRS_AT_ONCE // (num + 1) + 1
    codes = [np.empty(0, int)]
    for start in range(0, num, step):
        firsts = np.arange(start, min(start + step, num))[:, None]
        distances = _count_differing(words, firsts, np.arange(start, num)[None])
        i, j = np.nonzero(np.triu(distances <= THRESHOLD - 128, 1))
        codes.append((start + i) * num + start + j)
    return np.concatenate(codes)


def _compare_neighbours(words: np.ndarray) -> np.ndarray:
    """Compare hashes that agree in some bits, on all cores; args and result of `_compare_sorted`.

    No pair is missed. Of the four kinds there is one in which two near duplicates differ in at most
    9 or 10 bits, or all but these: 9 + 9 + 9 + 10 + 4 is more than THRESHOLD. A mask of `_cover`
    leaves out all these bits.
    """
    jobs = []
    for kind in range(4):
        masks = _cover((THRESHOLD + 1 + kind) // 4 - 1)
        jobs += [(kind, some) for some in np.array_split(masks, 16)]
    codes = np.empty(0, int)
    with ThreadPoolExecutor(count_cpus()) as pool:
        for found in pool.map(partial(_compare_sorted, words), *zip(*jobs, strict=True)):
            codes = np.union1d(codes, found)
    return codes


def _cover(radius: int) -> np.ndarray:
    """Choose masks of 64 bits, uint64, so that for any `radius` bits one mask leaves them all out.

    Each bit has a vector of radius + 1 bits, and each such vector a mask: the bits whose vectors
    have an odd product with it. To `radius` vectors another one is orthogonal (Pagh 2016).
    """
    vectors = np.arange(1, 2 ** (radius + 1))
    of_bits = np.random.default_rng(0).permutation(vectors)[:64]
    is_left = np.bitwise_count(vectors[:, None] & of_bits) & 1
    return np.packbits(is_left, axis=1).view(np.uint64)[:, 0]


def _compare_sorted(words: np.ndarray, kind: int, masks: np.ndarray) -> np.ndarray:
    """Compare hashes that are equal in a kind's bits under one of the masks, inverted or not.

    Args:
        words: (4, 2 n) uint64, the bits of n hashes by kind, then those of the transposed hashes.
        kind: of the four.
        masks: uint64.

    Returns:
        Of each near duplicate n times the first row, plus the second; sorted.
    """
    rows = np.arange(words.shape[1], dtype=np.uint64)
    num = len(rows) // 2
    num_low = len(rows).bit_length()  # bits of a row, the low ones of its key
    codes = [np.empty(0, int)]
    mixer = 0x9E3779B97F4A7C15  # odd: a product with it differs where a number does
    for mask in masks:
        left = words[kind] & mask
        keys = np.minimum(left, left ^ mask) * mixer >> num_low << num_low | rows
        keys.sort()
        at = (keys & (2**num_low - 1)).astype(int)
        keys >>= num_low
        same = np.arange(len(rows))
        for step in count(1):
            same = same[: np.searchsorted(same, len(rows) - step)]
            same = same[keys[same] == keys[same + step]]
            if not len(same):
                break
            lower, upper = np.sort([at[same], at[same + step]], axis=0)
            # two transposed hashes differ as the hashes do
            is_pair = (lower < num) & (upper != lower + num)
            firsts, seconds = np.sort([lower[is_pair], upper[is_pair] % num], axis=0)
            is_near = _count_differing(words, firsts, seconds) <= THRESHOLD - 128
            codes.append((firsts * num + seconds)[is_near])
    return np.unique(np.concatenate(codes))


def _sort_by_kind(bits: np.ndarray) -> np.ndarray:
    """Pack bits, (n, 16, 16), by whether their wave is odd, down and across: (4, n) uint64."""
    kinds = [bits[:, i::2, j::2].reshape(-1, 64) for i in (0, 1) for j in (0, 1)]
    return np.packbits(kinds, axis=2).view(np.uint64)[..., 0]


def _count_differing(words: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Count in how many bits the hashes i and j differ in the best orientation: int8, less 128."""
    firsts = words[:, i]
    transposed = words[:, j + words.shape[1] // 2]
    return np.minimum(_count_least(firsts, words[:, j]), _count_least(firsts, transposed))


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
