"""Tell a retina from other pictures that fill a circle or a frame: faces, screens, landscapes.

What only looks unlike a retina is doubtful, never refused: a dark haemorrhage can look like an eye
in a face.
"""

import cv2
import numpy as np

from dr_lib.data.photograph.edge import Ellipse

CORNER = 24  # a 24th of the shorter side is taken for a corner, or for a border
MIN_SIDE = 64  # px of the longer side; smaller pictures show too little to tell
# of the light; of 641 photographs 2 have more than 0.4, at most 0.59; eyes in a face have 0.5 to 1
MAX_HOLE = 0.62
MIN_HOLE = 0.005  # of the area; smaller ones are vessels and haemorrhages


def has_hole(image: np.ndarray, ellipse: Ellipse) -> bool:
    """Whether a field of view has a spot as dark as an eye in a face.

    Red light passes blood, so vessels and haemorrhages hardly show in it; eyes, lungs and letters
    do.

    Args:
        image: (height, width, 3) uint8 RGB, the photograph at 64 to 128 px; a smaller one has none.
        ellipse: the field of view, of which the largest square is looked at.
    """
    middle = np.clip(ellipse[1::-1], 0, np.subtract(image.shape[:2], 1))
    half = 0.7 * np.array(ellipse[:1:-1])
    top, left = np.maximum(middle - half, 0).astype(int)
    bottom, right = (middle + half).astype(int) + 1
    red = np.ascontiguousarray(image[top:bottom, left:right, 0])
    if max(image.shape[:2]) < MIN_SIDE or min(red.shape) < 2:
        return False
    small = cv2.resize(red, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    kernel = int(max(ellipse[2:]) / 4) | 1
    surroundings = cv2.resize(cv2.medianBlur(small, kernel), red.shape[::-1])
    # in the dark a few grey levels are nothing but noise
    light = np.maximum(surroundings, 16).astype(np.float32)
    smooth = cv2.GaussianBlur(red, (3, 3), 0.6)
    hole = cv2.subtract(surroundings, smooth) > MAX_HOLE * light
    return np.count_nonzero(hole) > MIN_HOLE * hole.size


def is_red(image: np.ndarray) -> bool:
    """Whether all four borders of (height, width, 3) uint8 RGB have a retina's colours, and the
    whole no more detail than a retina.
    """
    k = max(2, min(image.shape[:2]) // CORNER)
    borders = [image[:k], image[-k:], image[:, :k], image[:, -k:]]
    red, green, blue = np.array(
        [np.median(border.reshape(-1, 3), axis=0) for border in borders]
    ).T
    # 90 % of 1,052 pieces out of retinas have 0.48 or less, skin has 0.39 to 0.67
    is_blue = np.median(blue) > 0.45 * np.median(red)
    detail = cv2.absdiff(image[:, 1:], image[:, :-1]).mean() if image.shape[1] > 1 else 0
    is_rough = detail > 12  # grey levels from a pixel to the next on average
    has_colours = (red > 1.2 * green) & (green >= blue) & (red > 40)
    return bool(has_colours.all()) and not is_blue and not is_rough
