"""Tell from its losses whether a training diverges."""

from __future__ import annotations

import math
from collections.abc import Sequence


def find_fault(losses: Sequence[float]) -> str:
    """Explain why a training with these losses of its epochs so far cannot succeed; empty if it
    may.

    Its last loss is not finite, or its last three are above the limit.
    """
    number = len(losses)
    if not math.isfinite(losses[-1]):
        return f"the loss is {losses[-1]} in epoch {number}: lower the learning rate"
    limit = find_limit(losses)
    if number > 2 and min(losses[-3:]) > limit:
        last = f"the loss of epochs {number - 2} to {number} is above {limit:.3g}"
        return f"{last} (that of the first is {losses[0]:.3g}): lower the learning rate"
    return ""


def find_limit(losses: Sequence[float]) -> float:
    """Compute ten times the first loss; at least 1, for a head that is fitted may begin near 0, and
    at most 1000, for a training may diverge at once.
    """
    return min(max(10 * losses[0], 1.0), 1000.0)
