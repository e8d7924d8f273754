"""Masks of lesions: find those of IDRiD and DDR beside their photographs, and crop them as a
photograph is cropped.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import cv2
import numpy as np

from dr_lib.data.labels.label_files import PICTURES
from dr_lib.data.photograph.crop import Circle, crop_fundus
from dr_lib.data.photograph.pixels import IMAGE_SIZE, shrink

# Microaneurysms, haemorrhages, hard and soft exudates: IDRiD_01_MA.tif, or MA/007-1774-100.tif as
# DDR has it.
MASK = re.compile(
    r"(?:^|/)(?:(?:MA|HE|EX|SE)/([^/]+)|([^/]+)_(?:MA|HE|EX|SE))\.(?:tif|tiff|png)$", re.IGNORECASE
)


class NoMasksError(ValueError):
    """The folder holds no photographs with masks of lesions."""


def find_masks(folder: Path) -> dict[Path, list[Path]]:
    """Find the photographs under a folder that have masks of lesions, by name: the masks of each.

    The folder is IDRiD's `A. Segmentation` or DDR's `lesion_segmentation`, or one of one's own laid
    out like these; the optic disc's mask is left out.

    Raises:
        NoMasksError: there are none.
    """
    files = sorted(path for path in Path(folder).rglob("*") if path.suffix.lower() in PICTURES)
    masks: dict[str, list[Path]] = {}
    for path in files:
        if found := MASK.search(path.as_posix()):
            masks.setdefault(found[1] or found[2], []).append(path)
    pairs = {
        path: masks[path.stem]
        for path in files
        if path.stem in masks and not MASK.search(path.as_posix())
    }
    if not pairs:
        raise NoMasksError(
            f"{folder}: no photograph has masks like NAME_MA.tif (IDRiD) or MA/NAME.tif (DDR) here"
        )
    return pairs


def load_masked(folder: Path, image_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Crop the photographs of `find_masks`, and their masks: (n, side, side, 3) uint8 and (n,
    side, side) in [0, 1].
    """
    images = []
    lesions = []
    for path, masks in find_masks(folder).items():
        crop = crop_fundus(path, max(IMAGE_SIZE, image_size))
        images.append(shrink(crop.image, image_size))
        lesions.append(crop_mask(read_masks(masks), crop.circle, image_size))
    return np.stack(images), np.stack(lesions)


def read_masks(paths: Iterable[Path]) -> np.ndarray:
    """Read the masks of one photograph, (height, width) bool: where any of them is not black."""
    masks = [cv2.imread(str(path), cv2.IMREAD_GRAYSCALE) for path in paths]
    if any(mask is None for mask in masks):
        raise NoMasksError(
            "a mask cannot be read: it has to be a picture, as large as its photograph"
        )
    return np.any(np.stack(masks), axis=0)


def crop_mask(mask: np.ndarray, circle: Circle, size: int) -> np.ndarray:
    """Crop a mask to the field of view of its photograph.

    Args:
        mask: (height, width) bool, as large as the upright photograph.
        circle: where `crop_fundus` found the field of view.
        size: side [px].

    Returns:
        (size, size) float32: the share of each pixel that lesions cover, 0 to 1.
    """
    x, y, radius = circle
    step = 2 * radius / size
    fine = max(1, round(step))  # one reading for each pixel of the photograph, then their mean
    inverse = np.array(
        [
            [step / fine, 0, x - radius + step / fine / 2],
            [0, step / fine, y - radius + step / fine / 2],
        ]
    )
    side = (size * fine, size * fine)
    placed = cv2.warpAffine(
        mask.astype(np.float32), inverse, side, flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    )
    return cv2.resize(placed, (size, size), interpolation=cv2.INTER_AREA)
