"""Probabilities moved on the logit scale."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

NEAR = 1e-6  # probabilities nearer to 0 or 1 are taken for this


class Recalibration(NamedTuple):
    """Intercept and slope on the logit scale (Cox 1958), called with probabilities."""

    intercept: float
    slope: float

    def __call__(self, probability: ArrayLike) -> np.ndarray:
        """Recalibrate probabilities of any shape."""
        near = np.clip(np.asarray(probability, dtype=float), NEAR, 1 - NEAR)
        odds = near / (1 - near)
        return 1 / (1 + np.exp(-self.intercept - self.slope * np.log(odds)))
