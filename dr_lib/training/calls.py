"""Divide the seconds of a training."""

from collections.abc import Sequence


class Calls:
    """The calls of the device in training, or in validation, of this process.

    The first one compiles: what it takes more than as many steps of the others is `compile_s`.
    """

    def __init__(self):
        """Start without a call."""
        self.ends: dict[int, float] = {}  # of this epoch, by the last batch of a call
        self.steps = 0
        self.first_steps = 0  # of the first call
        self.total_s = 0.0
        self.first_s = float("nan")
        self.input_s = 0.0  # in which the device waited for a batch, but for its first

    def finish(self, start: float, end: float, ready_s: Sequence[float] = ()) -> None:
        """Add the calls of an epoch.

        Args:
            start: of its first call, monotonic [s], as are `end` and the ends.
            end: when the device had finished.
            ready_s: when each batch was ready. A call of n steps waits for its last batch, less the
                n - 1 steps before, of which each takes as long as the one behind it.
        """
        ends = sorted(self.ends.items())
        self.ends = {}
        free = start
        last = -1
        for end_step, now in ends:  # Keras counts the last call as full
            batch = min(end_step, len(ready_s) - 1) if ready_s else end_step
            if self.steps and ready_s:
                ready = ready_s[batch]
                self.input_s += max(0.0, ready - free - (batch - last - 1) * (now - ready))
            elif not self.steps:
                self.first_s = now - start
                self.first_steps = batch + 1
            self.steps += batch - last
            free = now
            last = batch
        self.total_s += end - start

    @property
    def compile_s(self) -> float:
        """Seconds that the first call took more than its steps; NaN after it alone."""
        others = self.steps - self.first_steps
        if self.steps and not others:
            return float("nan")
        others_s = self.total_s - self.first_s - self.input_s
        return max(0.0, self.first_s - others_s * self.first_steps / max(others, 1))
