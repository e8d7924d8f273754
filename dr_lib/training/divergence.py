"""Tell from its losses whether a training has diverged."""

from __future__ import annotations

import math
from collections.abc import Sequence


def find_fault(losses: Sequence[float]) -> str:
    """Explain why a training with these losses of its epochs so far cannot succeed: its last loss
    is not finite. Empty if it may.
    """
    if math.isfinite(losses[-1]):
        return ""
    return f"the loss is {losses[-1]} in epoch {len(losses)}: lower the learning rate"
