"""The progress bar of a study: runs done, what the present one says of itself, and how long is left."""

import time
from statistics import median
from typing import Protocol

from tqdm import tqdm


class NamedRun(Protocol):
    """What the bar needs to know of a run."""

    scenario: str
    repetition: int


class RunsBar:
    """A bar over runs; the time left follows from the runs done, or from how far the first one is."""

    def __init__(self, *, show: bool = True):
        """Begin with no runs, see `expect`."""
        layout = "{desc} |{bar:24}| {percentage:3.0f} %{postfix}"
        self._bar = tqdm(total=0, disable=not show, bar_format=layout)
        self._total, self._seconds, self._title = 0, [], ""

    def __enter__(self) -> "RunsBar":
        """Show the bar."""
        return self

    def __exit__(self, *_) -> None:
        """Leave the bar where it is."""
        self._bar.close()

    def expect(self, number: int) -> None:
        """So many more runs are to be made."""
        self._total += number
        self._bar.total = self._total

    def pass_over(self) -> None:
        """A run that was expected is not made."""
        self.expect(-1)

    def seconds_of_next(self) -> float:
        """Seconds that the next run will take, by those made; 0 before the first."""
        return median(self._seconds) if self._seconds else 0.0

    def say(self, sentence: str) -> None:
        """Print a sentence above the bar."""
        self._bar.write(sentence)

    def start_run(self, run: NamedRun) -> None:
        """A run begins."""
        self._start = time.monotonic()
        self._title = f"run {len(self._seconds) + 1} of {self._total}: {run.scenario}, repetition {run.repetition}"
        self.show(None)

    def show(self, progress: dict[str, int] | None) -> None:
        """Draw the bar; `progress` is what the run has said: epochs `done` and `total`."""
        spent = time.monotonic() - self._start
        told = progress["done"] / progress["total"] if progress else 0.0
        expected = max(median(self._seconds), spent) if self._seconds else spent / told if told else 0.0
        self._bar.n = len(self._seconds) + (min(spent / expected, 0.99) if expected else 0)
        left = expected * (self._total - len(self._seconds)) - spent
        self._bar.set_postfix_str(f"{tqdm.format_interval(left)} left" if expected else "time left: after an epoch")
        epoch = f", epoch {progress['done']} of {progress['total']}" if progress else ""
        self._bar.set_description_str(self._title + epoch)

    def finish_run(self) -> None:
        """The run has ended, well or not."""
        self._seconds.append(time.monotonic() - self._start)
        self._bar.n = len(self._seconds)
        self._bar.refresh()
