"""A recalibration in a file: probabilities moved on the logit scale, and a threshold for them.

What serves a model reads it: this file needs NumPy alone.
"""

import hashlib
import json
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dr_lib.errors import DrError

NEAR = 1e-6  # probabilities nearer to 0 or 1 are taken for this


class Recalibration(NamedTuple):
    """Intercept and slope on the logit scale (Cox 1958), called with probabilities."""

    intercept: float
    slope: float
    threshold: float = 0.5  # of recalibrated probabilities, for a referral
    model_version: str = ""  # of the model that it is for
    version: str = ""  # the first 12 digits of the file's sha256
    thresholds: tuple[float, ...] = ()  # of all operating points
    patients: tuple[str, ...] = ()  # pseudonyms of those whom it was fitted on

    def __call__(self, probability: ArrayLike) -> np.ndarray:
        """Recalibrate probabilities of any shape."""
        near = np.clip(np.asarray(probability, dtype=float), NEAR, 1 - NEAR)
        odds = near / (1 - near)
        return 1 / (1 + np.exp(-self.intercept - self.slope * np.log(odds)))


def read_recalibration(path: Path | None, model_version: str) -> Recalibration | None:
    """Read the file of `recalibrate`, for a model; None without a path.

    Raises:
        DrError: it is no such file, or is for another model.
    """
    if path is None:
        return None
    try:
        content = Path(path).read_bytes()
        facts = json.loads(content)
        found = Recalibration(
            float(facts["intercept"]),
            float(facts["slope"]),
            float(facts["thresholds"]["high sensitivity"]),
            str(facts["model_version"]),
            hashlib.sha256(content).hexdigest()[:12],
            tuple(map(float, facts["thresholds"].values())),
            tuple(map(str, facts.get("patients", ()))),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DrError(f"{path} is no file of the command recalibrate") from error
    if not all(map(math.isfinite, found[:3])) or not found.slope > 0:
        raise DrError(
            f"{path}: intercept, slope and threshold must be finite, the slope above 0"
        )
    if found.model_version != model_version:
        raise DrError(
            f"{path} recalibrates the model {found.model_version}, this one is {model_version}: "
            "recalibrate the predictions of this model"
        )
    return found
