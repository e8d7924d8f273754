"""Monitors the machine while a notebook trains, by a process of its own, and sums its samples up.

Run as a script, this file is that process, the sampler. Foreign kernels start it too: it needs
Python 3.9 and psutil, and nvidia-ml-py for GPUs.
"""

from __future__ import annotations

import csv
import math
import os
import select
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

PERCENTS = ("cpu_percent", "steal_percent", "memory_percent", "gpu_percent", "gpu_memory_percent")
# means of shares, sums of the others; energy counts from when the driver was loaded
GPU = ("gpu_percent", "gpu_memory_percent", "gpu_memory_mib", "gpu_power_w", "gpu_energy_j")
MACHINE = (*PERCENTS[:3], "memory_mib")
COLUMNS = ("seconds", "monotonic_s", "event", *MACHINE, "process_cpu_s", "process_mib", *GPU)
OLD_COLUMNS = ("cpu_energy_j",)  # of older files; not read
START = "start"
END = "end"
ERROR = "error"
DIED = "died"  # the monitor's own events
# CPU time is counted in ticks of 10 ms: a share of less time than this says nothing
MIN_PERIOD_S = 0.05
RESCAN_S = 10.0  # to find new children all processes are read: 5 ms where there are 200
START_TIMEOUT_S = 30.0
END_TIMEOUT_S = 5.0  # of the sampler, on a machine that is busy
NAN = math.nan


class MonitorError(RuntimeError):
    """The machine cannot be monitored in this way, or a file holds no samples."""


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
            MonitorError: the period is no number above 0.05.
        """
        if not MIN_PERIOD_S < period_s < math.inf:
            raise MonitorError(
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
            MonitorError: the sampler does not start; its own words are in the message.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("")
        command = [sys.executable, __file__, self.path, str(self.period_s), str(self.num_gpus)]
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
            raise MonitorError(f"the sampler did not start: {self._stop(0.0) or 'no message'}")
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
        MonitorError: there is no such file, or it is none of a monitor.
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
        raise MonitorError(f"{path} holds no samples of a monitor: {error}") from error


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
        MonitorError: the file holds no samples.
    """
    rows = read_samples(path)
    if not rows:
        raise MonitorError(f"{path} holds no samples: monitor the run again")
    start_s = rows[0]["seconds"]
    series = {
        name: [(row["seconds"], row[name]) for row in rows if not math.isnan(row[name])]
        for name in COLUMNS[3:]
    }
    # not of a training's own event
    own = [row["seconds"] for row in rows if row["event"] in ("", START, END, ERROR)]
    for name in ("gpu_power_w", "gpu_energy_j"):  # of a part of the time: none
        if [seconds for seconds, _ in series[name][:1] + series[name][-1:]] != [own[0], own[-1]]:
            series[name] = []
    peaks = {
        name: max((value for _, value in values), default=NAN) for name, values in series.items()
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


def read_cpu_times() -> tuple[float, float, float]:
    """CPU seconds of the machine since it began: all, busy ones, and those that other guests of the
    host took.

    Waiting for a disk is not busy, what other guests took is; NaN where the system does not count
    them.
    """
    times = psutil.cpu_times()  # user time holds the guests of this machine already
    all_s = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return all_s, all_s - times.idle - getattr(times, "iowait", 0.0), getattr(times, "steal", NAN)


def read_process_cpu_s(process: psutil.Process) -> float:
    """CPU seconds of a process, those of children that ended and were waited for included."""
    return sum(process.cpu_times()[:4])


def sample(path: str, period_s: float, num_gpus: int) -> None:
    """What the sampler does: write a row for each event at once and one each period, until an end
    or a death.

    A child of the training that is younger than 10 s may be missed until it ends, or the training
    does.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    training = psutil.Process(os.getppid())
    gpus = _find_gpus(num_gpus)
    cpu_times = (NAN, NAN, NAN)
    now_s = start_s = rescan_s = time.monotonic()
    event = START
    children = []
    with open(path, "w", encoding="utf-8", newline="", buffering=1) as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        while True:
            row = {"seconds": now_s - start_s, "monotonic_s": now_s}
            # a row of the training's own events is its time alone
            if event in ("", START, END, ERROR):
                if event or now_s >= rescan_s:
                    rescan_s = now_s + RESCAN_S
                    with suppress(psutil.Error):
                        children = [
                            child
                            for child in training.children(recursive=True)
                            if child.pid != os.getpid()
                        ]
                last = cpu_times
                cpu_times = read_cpu_times()
                memory = psutil.virtual_memory()
                row.update(
                    memory_percent=memory.percent,
                    memory_mib=(memory.total - memory.available) / 2**20,
                )
                row.update(
                    {
                        **_share_cpu(last, cpu_times),
                        **_read_tree(training, children),
                        **_read_gpus(*gpus),
                    }
                )
            numbers = {
                name: round(value, 3) for name, value in row.items() if not math.isnan(value)
            }
            writer.writerow({**numbers, "event": event})
            if event in (END, ERROR, DIED):
                return
            if event == START:
                print("started", flush=True)
            # a fixed grid: lateness adds up to none
            periods = math.floor((time.monotonic() - start_s) / period_s) + 1
            event = _wait(start_s + periods * period_s, training.pid)
            now_s = time.monotonic()


def _wait(due_s: float, parent: int) -> str:
    """The next event, which is a line on standard input, or an empty one when a sample is due."""
    # unbuffered: what is not read yet stays with `select`
    with open(0, "rb", buffering=0, closefd=False) as pipe:
        while True:
            if select.select([pipe], [], [], min(max(0.0, due_s - time.monotonic()), 1.0))[0]:
                return pipe.readline().decode().rstrip("\n") or DIED
            # the training's forked children may still hold the pipe open
            if os.getppid() != parent:
                return DIED
            if time.monotonic() >= due_s:
                return ""


def _share_cpu(last: tuple[float, ...], now: tuple[float, ...]) -> dict[str, float]:
    """Shares of the machine's CPU time between two readings; NaN without a first one, or with
    too little between.
    """
    all_s, busy_s, steal_s = (after - before for before, after in zip(last, now))
    if not all_s >= MIN_PERIOD_S * (psutil.cpu_count() or 1):
        return {}
    return {"cpu_percent": 100 * busy_s / all_s, "steal_percent": 100 * steal_s / all_s}


def _read_tree(training: psutil.Process, children: list[psutil.Process]) -> dict[str, float]:
    """CPU seconds and memory of the training and its children; nothing if it is gone itself."""
    cpu_s = mib = 0.0
    for process in (*children, training):
        try:
            cpu_s = cpu_s + read_process_cpu_s(process)
            mib = mib + process.memory_info().rss / 2**20
        except psutil.Error:
            if process is training:
                return {}
    return {"process_cpu_s": cpu_s, "process_mib": mib}


def _find_gpus(num_gpus: int) -> tuple[Any, list[Any]]:
    """NVIDIA's library and the first of the GPUs that CUDA may use; none without the library or
    a driver.
    """
    with suppress(Exception):
        import pynvml

        pynvml.nvmlInit()
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")  # numbers or UUIDs
        names = (
            map(str, range(pynvml.nvmlDeviceGetCount()))
            if visible is None
            else visible.replace(" ", "").split(",")
        )
        number = pynvml.nvmlDeviceGetHandleByIndex
        uuid = pynvml.nvmlDeviceGetHandleByUUID
        return (
            pynvml,
            [number(int(name)) if name.isdigit() else uuid(name) for name in names if name][
                :num_gpus
            ],
        )
    return None, []


def _read_gpus(nvml: Any, gpus: list[Any]) -> dict[str, float]:
    """What all the GPUs can tell: with MIG on, they know no utilisation."""
    row = {}
    if gpus:
        with suppress(nvml.NVMLError):
            row["gpu_percent"] = sum(
                nvml.nvmlDeviceGetUtilizationRates(gpu).gpu for gpu in gpus
            ) / len(gpus)
        with suppress(nvml.NVMLError):
            memory = [nvml.nvmlDeviceGetMemoryInfo(gpu) for gpu in gpus]
            row["gpu_memory_percent"] = (
                100 * sum(one.used / one.total for one in memory) / len(gpus)
            )
            row["gpu_memory_mib"] = sum(one.used for one in memory) / 2**20
        with suppress(nvml.NVMLError):
            row["gpu_power_w"] = sum(map(nvml.nvmlDeviceGetPowerUsage, gpus)) / 1000
        with suppress(nvml.NVMLError):  # before Volta there is no such counter
            row["gpu_energy_j"] = sum(map(nvml.nvmlDeviceGetTotalEnergyConsumption, gpus)) / 1000
    return row


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


if __name__ == "__main__":
    sample(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
