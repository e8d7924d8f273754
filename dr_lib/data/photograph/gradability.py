"""Score how well a crop can be graded, from its pixels alone: no weights, nothing learned."""

from functools import cache

import cv2
import numpy as np

SIDE = 299
# px to which a crop is brought first, so that its size hardly counts; cells of its light
CELLS = (23, 23)
VESSELS = (5, 13)  # px of two kernels, between whose blurs lie the calibres of vessels
GRAIN = 3  # px of a kernel: what it blurs away is mostly the grain of the sensor
# of white noise of deviation 1 between the two kernels, by the median of what GRAIN blurs away:
# 0.80 of 0.198 / 0.54
NOISE_PER_GRAIN = 0.293
SHOWN = 0.15
# of the bright end of the light, and grey levels of green: what is darker shows nothing
DARKEST = 8.0
HALF_SHARP = 0.005
HALF_LIT = 32.0  # contrast, and grey levels of green, that are worth a half
SATURATED = 248
POWER = 3  # grey level of red from which on it is lost, and the power of the share that is left


def score_gradability(crop: np.ndarray) -> float:
    """Score a crop from 0 (nothing can be seen) to 1: sharpness x illumination x field.

    Sharpness is the contrast of the green channel, in which vessels stand out, at the calibres of
    vessels and relative to the light around, less what the finest grain says that noise adds. It is
    not divided by the noise: a slight blur takes more of that than of the vessels, and would be
    rewarded. So noise is no gain on an even crop and little on a photograph, but the score does not
    fall with it. Illumination is the light in green, cell by cell, so that a dark half counts, and
    falls with the share of the pixels that is saturated in red or not shown: to cover a saturated
    part is no gain. Field is the share of the circle that shows.

    The constants are set by hand; from which score on a photograph can be graded is for marks to
    say.

    Args:
        crop: (size, size, 3) uint8 RGB, whose field of view is the circle that touches its sides.
    """
    red = cv2.extractChannel(crop, 0)
    green = cv2.extractChannel(crop, 1).astype(np.float32)
    green = cv2.resize(
        green, (SIDE, SIDE), interpolation=cv2.INTER_AREA if len(crop) > SIDE else cv2.INTER_LINEAR
    )
    light = cv2.resize(green, CELLS, interpolation=cv2.INTER_AREA)
    shown = _disc() & (light > max(DARKEST, SHOWN * float(np.quantile(light[_disc()], 0.95))))
    # no vessel: a border
    inside = cv2.erode(shown.view(np.uint8), np.ones((3, 3), np.uint8), borderValue=0).view(bool)
    if not inside.any():
        return 0.0
    fine, coarse = (cv2.GaussianBlur(green, (size, size), 0) for size in VESSELS)
    details = cv2.resize(cv2.absdiff(fine, coarse), CELLS, interpolation=cv2.INTER_AREA)
    grain = cv2.absdiff(green, cv2.GaussianBlur(green, (GRAIN, GRAIN), 0))
    is_inside = cv2.resize(
        inside.view(np.uint8), (SIDE, SIDE), interpolation=cv2.INTER_NEAREST
    ).view(bool)
    noise = NOISE_PER_GRAIN * float(np.median(grain[is_inside]))
    contrast = float(
        np.mean(np.sqrt(np.maximum(details[inside] ** 2 - noise**2, 0)) / light[inside])
    )
    lost = cv2.resize((red >= SATURATED).astype(np.float32), CELLS, interpolation=cv2.INTER_AREA)
    field, usable = (float(cells.sum() / _disc().sum()) for cells in (shown, shown * (1 - lost)))
    illumination = float(np.mean(light[shown] / (light[shown] + HALF_LIT))) * usable**POWER
    return contrast / (contrast + HALF_SHARP) * illumination * field


@cache
def _disc() -> np.ndarray:
    """Whether each cell lies inside the circle that touches the sides."""
    offsets = (np.arange(CELLS[0]) - (CELLS[0] - 1) / 2) ** 2
    return offsets[:, None] + offsets <= (CELLS[0] / 2 - 1) ** 2
