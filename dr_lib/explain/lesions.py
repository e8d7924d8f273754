"""Lesion masks: find those of IDRiD and DDR, and crop them like their photographs."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import cv2
import numpy as np

from dr_lib.data.labels.label_files import PICTURES
from dr_lib.data.photograph.crop import Circle, crop_fundus
from dr_lib.data.photograph.pixels import IMAGE_SIZE, shrink
from dr_lib.data.prepared.folder import Prepared
from dr_lib.data.synthetic import draw_masks
from dr_lib.errors import DrError
from dr_lib.files import is_foreign

# Microaneurysms, haemorrhages, hard and soft exudates: IDRiD_01_MA.tif, or MA/007-1774-100.tif as
# DDR has it.
MASK = re.compile(
    r"(?:^|/)(?:(?:MA|HE|EX|SE)/([^/]+)|([^/]+)_(?:MA|HE|EX|SE))\.(?:tif|tiff|png)$",
    re.IGNORECASE,
)


def find_masks(folder: Path) -> dict[Path, list[Path]]:
    """Find the photographs under a folder that have lesion masks, and these masks, by file name.

    The folder is IDRiD's `A. Segmentation` or DDR's `lesion_segmentation`, or one of one's own laid
    out like these; the optic disc's mask is left out.

    Raises:
        DrError: there are none.
    """
    files = sorted(
        path
        for path in Path(folder).rglob("*")
        if path.suffix.lower() in PICTURES and not is_foreign(path.name)
    )
    names = {path: MASK.search(path.as_posix()) for path in files}
    masks = defaultdict(list)
    for path, name in names.items():
        if name:
            masks[name[1] or name[2]].append(path)
    pairs = {path: masks[path.stem] for path in files if not names[path] and path.stem in masks}
    if not pairs:
        raise DrError(
            f"{folder}: no photograph here has masks such as NAME_MA.tif (IDRiD) or "
            "MA/NAME.tif (DDR)"
        )
    return pairs


def load_masked(folder: Path, image_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Crop the photographs of `find_masks`, and their masks.

    Returns:
        The crops, (n, side, side, 3) uint8, and the masks, (n, side, side) in [0, 1].
    """
    images = []
    lesions = []
    for path, masks in find_masks(folder).items():
        crop = crop_fundus(path, max(IMAGE_SIZE, image_size))
        images.append(shrink(crop.image, image_size))
        lesions.append(crop_mask(read_masks(masks), crop.circle, image_size))
    return np.stack(images), np.stack(lesions)


def draw_lesions(
    prepared: Prepared, image_id: Sequence[str], image_size: int
) -> np.ndarray | None:
    """Draw again where the sample's lesions are, (n, side, side) in [0, 1].

    Returns:
        None for photographs that are not of the sample.
    """
    sample = prepared.path.parent / "photographs"
    if not (sample / "sample.json").exists():
        return None
    chosen = prepared.photographs.set_index("image_id").loc[image_id]
    circles = chosen[["x", "y", "radius"]].itertuples(index=False)
    drawn = draw_masks(sample, chosen["row"].tolist())
    masks = [
        crop_mask(mask, Circle(*circle), image_size)
        for mask, circle in zip(drawn, circles, strict=True)
    ]
    return np.stack(masks)


def read_masks(paths: Iterable[Path]) -> np.ndarray:
    """Read the masks of one photograph: (height, width) bool, True where any mask is not black."""
    masks = [cv2.imread(str(path), cv2.IMREAD_GRAYSCALE) for path in paths]
    if any(mask is None for mask in masks):
        raise DrError("a mask cannot be read: it must be a picture as large as its photograph")
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
    fine = max(
        1, round(2 * radius / size)
    )  # readings of each pixel of the crop, then their mean
    step = 2 * radius / size / fine
    left = x - radius + step / 2
    top = y - radius + step / 2
    inverse = np.array([[step, 0, left], [0, step, top]])
    side = (size * fine, size * fine)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    placed = cv2.warpAffine(mask.astype(np.float32), inverse, side, flags=flags)
    return cv2.resize(placed, (size, size), interpolation=cv2.INTER_AREA)
