"""Monitors the machine while a notebook trains, by a process of its own, and sums its samples up.

Notebooks of foreign kernels are monitored too: this file needs Python 3.9 and psutil, nothing else.
"""

from __future__ import annotations

import csv
import math
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from dr_lib.runs import sampler
from dr_lib.runs.sampler import COLUMNS, DIED, END, ERROR, PROCESS, START

PERCENTS = ("cpu_percent", "steal_percent", "memory_percent", "gpu_percent", "gpu_memory_percent")
MIN_PERIOD_S = 0.05
ALL_GPUS = 1000
START_PATIENCE_S, END_PATIENCE_S = 30.0, 5.0  # for the sampler, on a machine that is busy
NAN = math.nan


class MonitorError(RuntimeError):
    """The machine cannot be monitored as asked, or a file holds no samples."""


class Monitor:
    """Samples the machine into a CSV between entering and leaving: `with Monitor(path) as monitor: ...`.

    Whatever becomes of the sampler, the training goes on; a warning says that the samples end early.
    """

    def __init__(self, path: Path, period_s: float = 1.0, *, num_gpus: int = ALL_GPUS):
        """Say where the samples go and how often one is taken.

        Args:
            path: of the CSV; an older one is replaced.
            period_s: seconds between two samples, more than 0.05.
            num_gpus: the GPUs that train, the first of the machine's; others would dilute their utilisation.

        Raises:
            MonitorError: the period is no such number.
        """
        if not MIN_PERIOD_S < period_s < math.inf:
            raise MonitorError(f"a period of {period_s} s is not possible: take more than {MIN_PERIOD_S} s, 1 s say")
        self.path, self.period_s, self.num_gpus = Path(path), period_s, num_gpus
        self.sampler: subprocess.Popen | None = None
        self._is_lost = False

    def __enter__(self) -> Monitor:
        """Start the sampler and wait for its first row, so that its start-up falls into no timed part.

        Raises:
            MonitorError: the file cannot be written, or the sampler does not start; its own words are in the message.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text("")
        except OSError as error:
            raise MonitorError(f"samples cannot be written to {self.path}: {error}") from error
        self._is_lost = False
        self.sampler = subprocess.Popen(
            [
                sys.executable,
                sampler.__file__,
                str(self.path),
                str(self.period_s),
                str(os.getpid()),
                str(self.num_gpus),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C in the terminal is for the training alone
        )
        if os.name == "posix":  # a sampler that hangs must not hold up the training
            os.set_blocking(self.sampler.stdin.fileno(), False)
        self._send(START)
        try:
            self._wait_for_first_row()
        except KeyboardInterrupt:
            self._stop(0.0)
            raise
        return self

    def mark(self, event: str) -> None:
        """Note an event, the end of an epoch say, with its time.

        Raises:
            MonitorError: the event has no name, more than one line, or a name that the monitor itself uses.
        """
        if not event.strip() or len(event.splitlines()) > 1 or event in (START, END, ERROR, DIED):
            raise MonitorError(f"{event!r} is no name of an event: take one line, not start, end, error or died")
        self._send(event)

    def __exit__(self, kind: type | None, *_: object) -> None:
        """Note the end, or that it was an error, and wait until the sampler has written it."""
        event = ERROR if kind else END
        self._send(event)
        self._stop(END_PATIENCE_S)
        if self.sampler.returncode:
            self._warn(event)

    def _send(self, event: str) -> None:
        try:
            is_sent = self.sampler.stdin.write(f"{event}\n".encode()) is not None  # None: the pipe is full
        except OSError:
            is_sent = False
        if not is_sent:
            self._warn(event)

    def _warn(self, event: str) -> None:
        if not self._is_lost:
            warnings.warn(f"the sampler is gone: {self.path} ends before {event!r}", RuntimeWarning, stacklevel=4)
        self._is_lost = True

    def _wait_for_first_row(self) -> None:
        deadline = time.monotonic() + START_PATIENCE_S
        while not read_samples(self.path):
            if self.sampler.poll() is not None or time.monotonic() > deadline:
                raise MonitorError(f"the sampler did not start: {self._stop(0.0) or 'it said nothing'}")
            time.sleep(0.002)

    def _stop(self, patience_s: float) -> str:
        """Wait for the sampler's end, or end it, and return what it said."""
        self.sampler.stdin.close()
        try:
            self.sampler.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.sampler.kill()
            self.sampler.wait()
        with self.sampler.stderr as said:
            return said.read().decode(errors="replace").strip()[-2000:]


def read_samples(path: Path) -> list[dict[str, Any]]:
    """Read the rows of samples and events, in the order of time.

    Args:
        path: of a monitor's CSV; it may still be growing, or cut short.

    Returns:
        A dictionary per row: `event` is a text, empty for a sample; all else are numbers, NaN where there was none.

    Raises:
        MonitorError: there is no such file, or it is none of a monitor.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1].splitlines()  # a row without its line's end is cut short
        if whole and whole[0] != ",".join(COLUMNS):
            raise ValueError("its header is another")
        return [_parse(values) for values in csv.reader(whole[1:])]
    except (OSError, ValueError, csv.Error) as error:
        raise MonitorError(f"{path} holds no samples of a monitor: {error}") from error


def summarise(path: Path) -> dict[str, float]:
    """Sum up the samples between the start and the end, the error or the last row.

    A value stands for the time since the one before it, so events that come close together do not weigh more.

    Returns:
        `<name>_mean` and `<name>_peak` of cpu_percent, steal_percent, memory_percent, gpu_percent and
        gpu_memory_percent; `process_cpu_s` of the process and its children; `process_peak_mib`; `energy_kwh` of the
        GPUs alone; `num_samples`, rows of events among them; `monitored_s`. NaN where there is nothing to sum up.

    Raises:
        MonitorError: the file holds no start.
    """
    rows = read_samples(path)
    events = [row["event"] for row in rows]
    if START not in events:
        raise MonitorError(f"{path} holds no start of a training: monitor the run again")
    ends = [number for number, event in enumerate(events) if event in (END, ERROR, DIED)]
    rows = rows[events.index(START) : ends[0] + 1 if ends else None]
    summary = {}
    for name in PERCENTS:
        series = _select(rows, name)
        summary[f"{name}_mean"] = _weigh(series, rows[0]["seconds"])
        summary[f"{name}_peak"] = max((value for _, value in series), default=NAN)
    cpu_s, process_mib = (_select(rows, name) for name in PROCESS)
    return {
        **summary,
        "process_cpu_s": cpu_s[-1][1] - cpu_s[0][1] if cpu_s else NAN,
        "process_peak_mib": max((value for _, value in process_mib), default=NAN),
        "energy_kwh": _integrate(_select(rows, "gpu_power_w")) / 3.6e6,
        "num_samples": len(rows),
        "monitored_s": rows[-1]["seconds"] - rows[0]["seconds"],
    }


def _parse(values: list[str]) -> dict[str, Any]:
    if len(values) != len(COLUMNS):
        raise ValueError(f"a row has {len(values)} values, not {len(COLUMNS)}")
    row = dict(zip(COLUMNS, values))
    return {name: value if name == "event" else float(value or NAN) for name, value in row.items()}


def _select(rows: list[dict[str, Any]], name: str) -> list[tuple[float, float]]:
    """The times and values of a column, where it has any."""
    return [(row["seconds"], row[name]) for row in rows if not math.isnan(row[name])]


def _weigh(series: list[tuple[float, float]], start_s: float) -> float:
    times = [start_s, *(seconds for seconds, _ in series)]
    weights = [after - before for before, after in zip(times, times[1:])]
    if not sum(weights):
        return series[0][1] if series else NAN
    return sum(weight * value for weight, (_, value) in zip(weights, series)) / sum(weights)


def _integrate(series: list[tuple[float, float]]) -> float:
    """The area below a series by trapezoids; NaN with less than two values."""
    steps = [(t1 - t0) * (v0 + v1) / 2 for (t0, v0), (t1, v1) in zip(series, series[1:])]
    return sum(steps) if steps else NAN
