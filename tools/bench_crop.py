"""The crop beside the full decode and the published steps, in turns: python -m tools.bench_crop
[PHOTOGRAPH ...].
"""

import argparse
import sys
import time
from functools import partial

import cv2
import numpy as np

from dr_lib.data.photograph.crop import crop_fundus
from tools.bench import describe, draw_photograph, time_in_turn

REPEATS = 15
# px, quality: a JPEG as a camera makes it has 0.8 to 1.3 MB (real ones: 0.9 to 1.2)
SIZES = ((1024, 683, 95), (2048, 1365, 95), (3888, 2592, 90))


def compare(name: str, photograph: bytes) -> None:
    """Print the CPU time of a crop, and its ratios to a decode and to the published steps."""
    encoded = np.frombuffer(photograph, np.uint8)
    crop, decode, published = time_in_turn(
        partial(crop_fundus, photograph),
        partial(cv2.imdecode, encoded, cv2.IMREAD_COLOR),
        partial(crop_fundus, photograph, method="voets"),
        repeats=REPEATS,
        clock=time.thread_time,
    )
    print(
        f"{name}, {len(photograph) / 1e6:.2f} MB: crop {1000 * np.median(crop):.1f} ms;"
        f" of a decode {describe(crop / decode)}; of voets {describe(crop / published)}"
    )


def main() -> None:
    """Compare on the photographs that are named, or on drawn ones; OpenCV on one thread."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photographs", nargs="*", type=argparse.FileType("rb"))
    cv2.setNumThreads(1)
    for file in parser.parse_args().photographs:
        compare(file.name, file.read())
    if len(sys.argv) == 1:
        for width, height, quality in SIZES:
            photograph = draw_photograph(width, height, 2, quality=quality, grain=2.0)
            compare(f"drawn {width}x{height}", photograph)


if __name__ == "__main__":
    main()
