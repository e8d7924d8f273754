"""Tell a retina from other pictures that fill a circle or a frame: faces, screens, landscapes.

What only looks unlike a retina is doubtful, never refused: a dark haemorrhage can look like an eye
in a face.
"""

import cv2
import numpy as np

from dr_lib.data.photograph.edge import Ellipse, upper_median
from dr_lib.data.photograph.errors import NoFundusError

CORNER = 24  # a 24th of the shorter side is taken for a corner, or for a border
MIN_SIDE = 64  # px of the longer side; smaller pictures show too little to tell
# of the light; of 641 photographs 2 have more than 0.4, at most 0.59; eyes in a face have 0.5 to 1
MAX_HOLE = 0.62
MIN_HOLE = 0.005  # of the area; smaller ones are vessels and haemorrhages


def is_doubtful(
    image: np.ndarray,
    distance: np.ndarray,
    ellipse: Ellipse,
    roundness: float,
    *,
    is_ellipse: bool,
) -> bool:
    """Whether a field of view shows something that no retina shows.

    That is a hole as dark as an eye, or more than background around it.

    Args:
        image: (height, width, 3) uint8 RGB, the photograph at 64 to 128 px; of a smaller one only
            roundness is checked.
        distance: (height, width) uint8, how far each pixel is from the background.
        ellipse: the field of view.
        roundness: share of its edge that lies on the ellipse.
        is_ellipse: whether it is no circle, as a head is none.

    Raises:
        NoFundusError: it is not round.
    """
    if roundness < 0.4:  # photographs have 0.47 and more, a square 0.13
        raise NoFundusError("the region that stands out from the background is not round")
    if max(image.shape[:2]) < MIN_SIDE:
        return False
    level = float(upper_median(distance[_cut_square(distance.shape, ellipse)].ravel()))
    max_hole = 0.45 if is_ellipse else MAX_HOLE
    # nearer than 0.2 of the median distance is background, farther than 0.5 is not
    if _has_hole(image, distance <= 0.2 * level, ellipse, max_hole):
        return True
    x, y, a, b = map(np.float32, ellipse)
    row, column = np.ogrid[: distance.shape[0], : distance.shape[1]]
    outside = distance[((column - x) / a) ** 2 + ((row - y) / b) ** 2 > 1.06**2]
    # photographs have 0.06 at most
    return len(outside) > 20 and bool((outside > 0.5 * level).mean() > 0.15)


def is_doubtful_frame(image: np.ndarray) -> bool:
    """Whether a picture without background has a spot as dark as an eye in a face.

    Args:
        image: (height, width, 3) uint8 RGB, at 64 to 128 px.

    Raises:
        NoFundusError: it has not a retina's colours, or more detail.
    """
    height, width = image.shape[:2]
    k = max(2, min(height, width) // CORNER)
    borders = [image[:k], image[-k:], image[:, :k], image[:, -k:]]
    red, green, blue = np.array(
        [np.median(border.reshape(-1, 3), axis=0) for border in borders]
    ).T
    is_red = (red > 1.2 * green) & (green >= blue) & (red > 40)
    detail = cv2.absdiff(image[:, 1:], image[:, :-1]).mean() if width > 1 else 0
    # 90 % of 1,052 pieces out of retinas have 0.48 or less, skin has 0.39 to 0.67
    is_blue = np.median(blue) > 0.45 * np.median(red)
    is_rough = detail > 12  # grey levels from a pixel to the next on average
    if not is_red.all() or is_rough or is_blue:
        raise NoFundusError("no field of view stands out from the background")
    radius = min(height, width) / 2
    if radius < MIN_SIDE / 2:
        return False
    middle = (width - 1) / 2, (height - 1) / 2, radius, radius
    return _has_hole(image, np.zeros((height, width), bool), middle, MAX_HOLE)


def _has_hole(
    image: np.ndarray, is_background: np.ndarray, ellipse: Ellipse, max_hole: float
) -> bool:
    """Whether a spot inside is darker in red light than its surroundings by more than that share.

    Red light passes blood, so vessels and haemorrhages hardly show in it; eyes, lungs and letters
    do. Background that reaches in from the frame, as where a mask cuts the field of view, is no
    spot inside.
    """
    square = _cut_square(image.shape, ellipse)
    red = np.ascontiguousarray(image[square][..., 0])
    half = cv2.resize(red, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    kernel = int(max(ellipse[2:]) / 4) | 1
    surroundings = cv2.resize(cv2.medianBlur(half, kernel), red.shape[::-1])
    # in the dark a few grey levels are nothing but noise
    light = np.maximum(surroundings, 16).astype(np.float32)
    hole = cv2.subtract(surroundings, cv2.GaussianBlur(red, (3, 3), 0.6)) > max_hole * light
    if np.count_nonzero(hole) <= MIN_HOLE * hole.size:
        return False
    framed = cv2.copyMakeBorder(
        is_background.view(np.uint8), *[1] * 4, cv2.BORDER_CONSTANT, value=1
    )
    cv2.floodFill(framed, None, (0, 0), 2, flags=8)
    reached = cv2.dilate((framed[1:-1, 1:-1] == 2).view(np.uint8), np.ones((7, 7), np.uint8))
    return np.count_nonzero(hole & (reached[square] == 0)) > MIN_HOLE * hole.size


def _cut_square(shape: tuple[int, ...], ellipse: Ellipse) -> tuple[slice, slice]:
    """Cut the largest square out of a circle, whose centre is moved into the picture."""
    middle = np.clip(ellipse[1::-1], 0, np.subtract(shape[:2], 1))
    half = 0.7 * np.array(ellipse[:1:-1])
    first = np.maximum(middle - half, 0).astype(int)
    last = (middle + half).astype(int) + 1
    return slice(first[0], last[0]), slice(first[1], last[1])
