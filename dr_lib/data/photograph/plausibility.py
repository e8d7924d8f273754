"""Tell a retina from other pictures that fill a circle or a frame: faces, screens, landscapes.

What only looks unlike a retina is doubtful, never refused: a dark haemorrhage can look like an eye
in a face.
"""

import cv2
import numpy as np

from dr_lib.data.photograph.edge import Ellipse, measure_distance

CORNER = 24  # a 24th of the shorter side is taken for a corner, or for a border
MIN_SIDE = 64  # px of the longer side; smaller pictures show too little to tell
# of the light; of 641 photographs 2 have more than 0.4, at most 0.59; eyes in a face have 0.5 to 1
MAX_HOLE = 0.62
MAX_BESIDE = 0.3  # of the light within
INNER = 0.9  # of the radius; nearer to the edge it is dark
MIN_HOLE = 0.005  # of the area; smaller ones are vessels and haemorrhages


def is_doubtful(image: np.ndarray, background: np.ndarray, ellipse: Ellipse) -> bool:
    """Whether a field of view has a spot as dark as an eye in a face, or much beside it is bright,
    as where it is one disc of several.

    Red light passes blood, so vessels and haemorrhages hardly show in it; eyes, lungs and letters
    do. What reaches in from outside is a mask's black.

    Args:
        image: (height, width, 3) uint8 RGB, the photograph at 64 to 128 px; a smaller one has none.
        background: (3,) uint8.
        ellipse: the field of view.
    """
    if max(image.shape[:2]) < MIN_SIDE or min(image.shape[:2]) < 2:
        return False
    x, y, a, b = ellipse
    row, column = np.indices(image.shape[:2])
    depth = np.hypot((column - x) / a, (row - y) / b)
    distance = measure_distance(image, background)
    areas = depth < INNER, depth > 1.06
    within, beside = (cv2.mean(distance, area.view(np.uint8))[0] for area in areas)

    red = image[..., 0].copy()
    small = cv2.resize(red, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    surroundings = cv2.medianBlur(small, int(max(a, b) / 4) | 1)
    surroundings = cv2.resize(surroundings, red.shape[::-1])
    # in the dark a few grey levels are nothing but noise
    light = np.maximum(surroundings, 16)
    hole = cv2.subtract(surroundings, cv2.GaussianBlur(red, (3, 3), 0.6)) > MAX_HOLE * light
    reached = (~areas[0] | (distance < 0.2 * within)).view(np.uint8)
    reached = cv2.copyMakeBorder(reached, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=1)
    cv2.floodFill(reached, None, (0, 0), 2)
    num_dark = np.count_nonzero(hole & (reached[1:-1, 1:-1] < 2))
    return beside > MAX_BESIDE * within or num_dark > MIN_HOLE * np.count_nonzero(areas[0])


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
