"""Monitors the machine while a notebook trains, by the sampler's process, and sums its samples up.

Foreign kernels do so too: this file needs Python 3.9 and psutil.
"""

from __future__ import annotations

import csv
import math
import os
import select
import subprocess
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from dr_lib.errors import DrError
from dr_lib.runs import sampler
from dr_lib.runs.sampler import COLUMNS, END, ERROR, MIN_PERIOD_S, NAN, PERCENTS, START

OLD_COLUMNS = ("cpu_energy_j",)  # of older files; not read
START_TIMEOUT_S = 30.0
END_TIMEOUT_S = 5.0  # of the sampler, on a machine that is busy


class Monitor:
    """Samples the machine into a CSV between entering and leaving: `with Monitor(path) as monitor:
    ...`.

    Whatever becomes of the sampler, the training goes on; at its end a warning says that the
    samples end early.
    """

    def __init__(self, path: Path, period_s: float = 1.0, *, num_gpus: int = 1000):
        """Say where the CSV goes, the seconds between two samples, and how many of the machine's
        GPUs train.

        Raises:
            DrError: the period is no number above 0.05.
        """
        if not MIN_PERIOD_S < period_s < math.inf:
            raise DrError(
                f"a period of {period_s} s is not possible: take more than {MIN_PERIOD_S} s, 1"
                " s say"
            )
        self.path = Path(path)
        self.period_s = period_s
        self.num_gpus = num_gpus

    def __enter__(self) -> Monitor:
        """Start the sampler and wait for its first row, so that its start-up falls into no timed
        part.

        Raises:
            OSError: the file cannot be written.
            DrError: the sampler does not start; its own words are in the message.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("")
        arguments = [self.path, str(self.period_s), str(self.num_gpus)]
        command = [sys.executable, sampler.__file__, *arguments]
        pipe = subprocess.PIPE
        # in a session of its own: Ctrl-C is for the training alone
        self.sampler = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
        # a sampler that hangs must not hold up the training
        os.set_blocking(self.sampler.stdin.fileno(), False)
        if not (
            select.select([self.sampler.stdout], [], [], START_TIMEOUT_S)[0]
            and self.sampler.stdout.readline()
        ):
            raise DrError(f"the sampler did not start: {self._stop(0.0) or 'no message'}")
        return self

    def mark(self, event: str) -> None:
        """Note an event of your own, the end of an epoch say, with its time."""
        # the sampler is gone; where it hangs, what its full pipe does not take is dropped
        with suppress(OSError):
            self.sampler.stdin.write(f"{' '.join(event.split())}\n".encode())

    def __exit__(self, kind: type | None, *_: object) -> None:
        """Note the end, or that it was an error, and wait until the sampler has written it."""
        self.mark(ERROR if kind else END)
        self._stop(END_TIMEOUT_S)
        if self.sampler.returncode:
            warnings.warn(
                f"the sampler is gone: {self.path} ends early", RuntimeWarning, stacklevel=2
            )

    def _stop(self, timeout_s: float) -> str:
        """Wait for the sampler's end, or end it, and return its error messages."""
        with suppress(subprocess.TimeoutExpired):
            self.sampler.communicate(timeout=timeout_s)
        self.sampler.kill()
        return self.sampler.communicate()[1].decode(errors="replace").strip()[-2000:]


def read_samples(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a monitor's CSV, which may still be growing or be cut short, in the order of
    time.

    Of each row `event` is a text, empty for a sample; all else are numbers, NaN where there was
    none.

    Raises:
        DrError: there is no such file, or it is none of a monitor.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        # a row without its line's end is cut short
        lines = text[: text.rfind("\n") + 1].splitlines()
        rows = csv.DictReader(lines, restval="missing")
        # an older file has fewer
        if lines and not {*COLUMNS[:3]} <= {*rows.fieldnames} <= {*COLUMNS, *OLD_COLUMNS}:
            raise ValueError("its header is another")
        numbers = dict.fromkeys(COLUMNS, NAN)
        return [
            {**numbers, **{k: v if k == "event" else float(v or NAN) for k, v in row.items()}}
            for row in rows
        ]
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise DrError(f"{path} holds no samples of a monitor: {error}") from error


def summarise(path: Path) -> dict[str, Any]:
    """Sum up the samples of a training, of one that was cut off up to the last row.

    A value stands for the time since the one before it, so rows that come close together do not
    weigh more.

    Returns:
        `<name>_mean` and `<name>_peak` of cpu_percent, steal_percent, memory_percent, gpu_percent
        and gpu_memory_percent; `process_cpu_s` of the process and its children; `process_peak_mib`;
        `num_samples`, rows of events among them; `monitored_s`; `gpu_energy_j` of the GPUs by their
        own counter (NVML, Volta and later), else by their sampled power, `gpu_energy_sampled_j` by
        that alone, `gpu_energy_from` which of the two (empty: none). Energy counts if its readings
        reach from the first sample to the last. NaN where nothing is to be summed up, never 0.

    Raises:
        DrError: the file holds no samples.
    """
    rows = read_samples(path)
    if not rows:
        raise DrError(f"{path} holds no samples: monitor the run again")
    start_s = rows[0]["seconds"]
    series = {
        name: [(row["seconds"], row[name]) for row in rows if not math.isnan(row[name])]
        for name in COLUMNS[3:]
    }
    # not of a training's own event
    own = [row["seconds"] for row in rows if row["event"] in ("", START, END, ERROR)]
    for name in ("gpu_power_w", "gpu_energy_j"):  # of a part of the time: none
        if [seconds for seconds, _ in series[name][:1] + series[name][-1:]] != [
            own[0],
            own[-1],
        ]:
            series[name] = []
    peaks = {
        name: max((value for _, value in values), default=NAN)
        for name, values in series.items()
    }
    cpu_s = series["process_cpu_s"]
    power_w = series["gpu_power_w"]
    # trapezoids
    joules = [(t1 - t0) * (v0 + v1) / 2 for (t0, v0), (t1, v1) in zip(power_w, power_w[1:])]
    sampled_j = sum(joules) if joules else NAN
    counted_j = _count(series["gpu_energy_j"])
    gpu_j = sampled_j if math.isnan(counted_j) else counted_j
    return {
        **{f"{name}_mean": _weigh(series[name], start_s) for name in PERCENTS},
        **{f"{name}_peak": peaks[name] for name in PERCENTS},
        "process_cpu_s": cpu_s[-1][1] - cpu_s[0][1] if cpu_s else NAN,
        "process_peak_mib": peaks["process_mib"],
        "gpu_energy_j": gpu_j,
        "gpu_energy_sampled_j": sampled_j,
        "gpu_energy_from": (
            ""
            if math.isnan(gpu_j)
            else "sampled power"
            if math.isnan(counted_j)
            else "NVML counter"
        ),
        "num_samples": len(rows),
        "monitored_s": rows[-1]["seconds"] - start_s,
    }


def _count(series: list[tuple[float, float]]) -> float:
    """What a counter grew by; NaN where it stands still, as some virtual machines' do, or began
    anew.
    """
    grown = series[-1][1] - series[0][1] if series else NAN
    return grown if grown > 0 else NAN


def _weigh(series: list[tuple[float, float]], start_s: float) -> float:
    """The mean over time; of a value at the start itself that value; NaN of none."""
    if not series or series[-1][0] == start_s:
        return series[0][1] if series else NAN
    times = [start_s, *(seconds for seconds, _ in series)]
    area = sum((now - before) * v for before, (now, v) in zip(times, series))
    return round(area / (times[-1] - start_s), 3)  # as the samples are: 100 % stay 100
