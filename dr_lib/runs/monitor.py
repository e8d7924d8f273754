"""Monitor the machine in a thread while a notebook trains, and summarise the samples."""

from __future__ import annotations

import csv
import math
import threading
import time
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil

from dr_lib.errors import DrError
from dr_lib.hardware.cgroups import read_memory, read_quotas
from dr_lib.hardware.cpus import count_cpus
from dr_lib.hardware.facts import list_gpus

PERCENTS = (
    "cpu_percent",
    "steal_percent",
    "memory_percent",
    "gpu_percent",
    "gpu_memory_percent",
)
COLUMNS = ("seconds", "monotonic_s", "event", *PERCENTS, "process_cpu_s", "process_mib")
# sums over the GPUs, as shares are means; energy counts from when the driver was loaded
COLUMNS += ("gpu_power_w", "gpu_energy_j", "stood_still_s")
START = "start"
END = "end"
ERROR = "error"
# CPU time is counted in ticks of 10 ms: a share of less time than this says nothing
MIN_PERIOD_S = 0.05
TICK_S = 0.5  # between two looks at the clocks
STILL_S = 2.0  # a busy machine delays a look by less
NAN = math.nan


class Monitor:
    """Samples the machine into a CSV between entering and leaving: `with Monitor(path) as monitor:
    ...`.

    Whatever becomes of the samples, the training goes on. A child of the training that is younger
    than 10 s may be missed until it ends, or the training does.

    Example:
        >>> with Monitor("samples.csv", period_s=1.0) as monitor:
        ...     monitor.mark("epoch 1")
        >>> monitor.summarise()["process_peak_mib"] > 0
        True
    """

    def __init__(
        self,
        path: Path,
        period_s: float = 1.0,
        *,
        num_gpus: int = 1000,
        pid: int | None = None,
    ):
        """Set the CSV's path, the seconds between samples, the number of GPUs that train, and the
        process that does, if it is not this one.

        Raises:
            DrError: the period is no number above 0.05.
        """
        if not MIN_PERIOD_S < period_s < math.inf:
            raise DrError(
                f"a period of {period_s} s is too short: use more than {MIN_PERIOD_S} s, such "
                "as 1 s"
            )
        self.path = Path(path)
        self.period_s = period_s
        self.num_gpus = num_gpus
        self.pid = pid

    def __enter__(self) -> Monitor:
        """Write the first row and start sampling.

        Raises:
            OSError: the file cannot be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("w", encoding="utf-8", newline="", buffering=1)
        self._writer = csv.DictWriter(self._file, COLUMNS, restval="", lineterminator="\n")
        self._writer.writeheader()
        self._process = psutil.Process(self.pid)
        self._children: list[psutil.Process] = []
        self._gpus = _find_gpus(self.num_gpus)
        self._cpu_times = (NAN, NAN, NAN)
        self._clocks = _read_clocks()
        self._stood_still_s = 0.0
        self._start_s = self._rescan_s = time.monotonic()
        self._sample(START)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def mark(self, event: str) -> None:
        """Record an event, such as the end of an epoch, with its time."""
        self._write({}, " ".join(event.split()), time.monotonic())

    def summarise(self) -> dict[str, Any]:
        """Summarise the samples so far, see the function `summarise`."""
        return summarise(self.path)

    def __exit__(self, kind: type | None, *_: object) -> None:
        """Record the end, or that an error ended it."""
        self._is_over.set()
        self._thread.join(5.0)  # seconds of a sample under way, should a driver hang
        self._look()
        self._sample(ERROR if kind else END)
        self._file.close()

    def _watch(self) -> None:
        """Sample on a fixed time grid, so that delays do not accumulate."""
        due_s = self._start_s + self.period_s
        while not self._is_over.wait(min(TICK_S, max(0.0, due_s - self._clocks[0]))):
            self._look()
            now_s = self._clocks[0]
            if now_s >= due_s:
                due_s += self.period_s * (1 + (now_s - due_s) // self.period_s)
                self._sample("")

    def _look(self) -> None:
        """Look at the clocks; add the time for which the process or the machine stood still."""
        before = self._clocks
        self._clocks = _read_clocks()
        passed_s, wall_s, cpu_s = (
            now - then for then, now in zip(before, self._clocks, strict=False)
        )
        still_s = max(passed_s, wall_s) - TICK_S
        # a main thread that computes may hold Python's lock, which makes this one late
        if still_s > STILL_S and cpu_s < TICK_S + still_s / 20:
            self._stood_still_s += still_s

    def _sample(self, event: str) -> None:
        now_s = time.monotonic()
        if event or now_s >= self._rescan_s:
            # to find new children all processes are read: 5 ms where there are 200
            self._rescan_s = now_s + 10
            with suppress(psutil.Error):
                self._children = self._process.children(recursive=True)
        memory = read_memory()
        last = self._cpu_times
        self._cpu_times = _read_own_cpu_times()
        row = {
            "memory_percent": 100 * (1 - memory.available / memory.total),
            **_share_cpu(last, self._cpu_times),
            **_read_tree([self._process, *self._children]),
            **_read_gpus(*self._gpus),
            "stood_still_s": self._stood_still_s,
        }
        self._write(row, event, now_s)

    def _write(self, row: dict[str, float], event: str, now_s: float) -> None:
        times = {"seconds": now_s - self._start_s, "monotonic_s": now_s}
        numbers = {name: round(value, 3) for name, value in {**times, **row}.items()}
        with suppress(OSError):  # a full disk stops no training
            self._writer.writerow({**numbers, "event": event})


def _read_clocks() -> tuple[float, float, float]:
    """Read a clock that may stop while the machine sleeps, one that does not, and the main thread's
    CPU seconds.
    """
    cpu_s = time.process_time()
    with suppress(AttributeError, OSError):  # not of every system
        clock = time.pthread_getcpuclockid(threading.main_thread().ident)
        cpu_s = time.clock_gettime(clock)
    return time.monotonic(), time.time(), cpu_s


def read_cpu_times(cpus: Collection[int] = ()) -> tuple[float, float, float]:
    """Read the CPU seconds since boot of all CPUs, or of some: total, busy, and taken by other
    guests of the host (steal).

    Waiting for a disk is not busy, what other guests took is; NaN where the system does not count
    them.
    """
    sums: Counter[str] = Counter()
    for number, times in enumerate(psutil.cpu_times(percpu=True)):
        if not cpus or number in cpus:
            sums.update(times._asdict())
    # user time holds the guests of this machine already
    all_s = sum(sums.values()) - sums["guest"] - sums["guest_nice"]
    return all_s, all_s - sums["idle"] - sums["iowait"], sums.get("steal", NAN)


def _read_own_cpu_times() -> tuple[float, float, float]:
    """Read the same of the CPUs that this process may use: in a container, of its quota."""
    quota = min(read_quotas(), default=None)
    return (quota.cpus * time.monotonic(), quota.used_s, NAN) if quota else read_cpu_times()


def read_process_cpu_s(process: psutil.Process) -> float:
    """Read the CPU seconds of a process, including children that have ended and been waited for."""
    return sum(process.cpu_times()[:4])


def read_samples(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a monitor's CSV, in order of time; it may still grow or be cut short.

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
        # an older file has other ones behind them
        if lines and not {*COLUMNS[:3]} <= {*rows.fieldnames}:
            raise ValueError("its header differs")
        samples = []
        for row in rows:
            if None in row:
                raise ValueError("a row has more cells than the header")
            numbers = {name: float(row.get(name) or NAN) for name in COLUMNS if name != "event"}
            samples.append({**numbers, "event": row["event"]})
        return samples
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise DrError(f"{path} holds no samples of a monitor: {error}") from error


def summarise(path: Path) -> dict[str, Any]:
    """Summarise the samples of a training run; of an interrupted one, up to the last row.

    A value stands for the time since the one before it, so rows that come close together do not
    weigh more.

    Returns:
        `<name>_mean` and `<name>_peak` of cpu_percent, steal_percent, memory_percent, gpu_percent
        and gpu_memory_percent; `process_cpu_s` of the process and its children; `process_peak_mib`;
        `num_samples`, rows of events among them; `monitored_s`; `stood_still_s` of them, because
        the process or the machine was stopped, or the clock was set; `gpu_energy_j` of the GPUs by
        their own counter (NVML, Volta and later). NaN where nothing is to be summed up, never 0.

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
    cpu_s = series["process_cpu_s"]
    # not of a training's own event
    own = [row["gpu_energy_j"] for row in rows if row["event"] in ("", START, END, ERROR)]
    used_j = own[-1] - own[0]
    # a counter stands still on some virtual machines, or begins anew
    is_counted = used_j > 0
    return {
        **{f"{name}_mean": _weigh(series[name], start_s) for name in PERCENTS},
        **{f"{name}_peak": _find_peak(series[name]) for name in PERCENTS},
        "process_cpu_s": cpu_s[-1][1] - cpu_s[0][1] if cpu_s else NAN,
        "process_peak_mib": _find_peak(series["process_mib"]),
        "gpu_energy_j": used_j if is_counted else NAN,
        "stood_still_s": _find_peak(series["stood_still_s"]),
        "num_samples": len(rows),
        "monitored_s": rows[-1]["seconds"] - start_s,
    }


def _share_cpu(last: tuple[float, ...], now: tuple[float, ...]) -> dict[str, float]:
    """Compute shares of the machine's CPU time between two readings; NaN without a first one or
    with
    too little time between.
    """
    all_s, busy_s, steal_s = (after - before for before, after in zip(last, now, strict=False))
    if not all_s >= MIN_PERIOD_S * count_cpus():
        return {}
    return {"cpu_percent": 100 * busy_s / all_s, "steal_percent": 100 * steal_s / all_s}


def _read_tree(processes: list[psutil.Process]) -> dict[str, float]:
    """Sum CPU seconds and memory of the processes that are still running."""
    cpu_s = mib = 0.0
    for process in processes:
        with suppress(psutil.Error):
            cpu_s += read_process_cpu_s(process)
            mib += process.memory_info().rss / 2**20
    return {"process_cpu_s": cpu_s, "process_mib": mib}


def _find_gpus(num_gpus: int) -> tuple[Any, list[Any]]:
    """Find NVIDIA's library and the first GPUs that CUDA may use; none without library or
    driver.
    """
    with suppress(Exception):
        import pynvml

        uuids = [gpu.uuid for gpu in list_gpus()]
        return pynvml, list(map(pynvml.nvmlDeviceGetHandleByUUID, uuids[:num_gpus]))
    return None, []


def _read_gpus(nvml: Any, gpus: list[Any]) -> dict[str, float]:
    """Read what all the GPUs report."""
    row = {}
    if not gpus:
        return row
    with suppress(nvml.NVMLError):
        rates = [nvml.nvmlDeviceGetUtilizationRates(gpu).gpu for gpu in gpus]
        row["gpu_percent"] = fmean(rates)
    with suppress(nvml.NVMLError):
        memory = [nvml.nvmlDeviceGetMemoryInfo(gpu) for gpu in gpus]
        row["gpu_memory_percent"] = 100 * fmean(one.used / one.total for one in memory)
    with suppress(nvml.NVMLError):
        row["gpu_power_w"] = sum(map(nvml.nvmlDeviceGetPowerUsage, gpus)) / 1000
    with suppress(nvml.NVMLError):  # before Volta there is no such counter
        row["gpu_energy_j"] = sum(map(nvml.nvmlDeviceGetTotalEnergyConsumption, gpus)) / 1000
    return row


def _find_peak(series: list[tuple[float, float]]) -> float:
    return max((value for _, value in series), default=NAN)


def _weigh(series: list[tuple[float, float]], start_s: float) -> float:
    """Compute the time-weighted mean; a value at the start alone is returned; NaN without
    values.
    """
    if not series or series[-1][0] == start_s:
        return series[0][1] if series else NAN
    times = [start_s, *(seconds for seconds, _ in series)]
    area = sum((now - before) * v for before, (now, v) in zip(times, series, strict=False))
    return round(area / (times[-1] - start_s), 3)  # as the samples are: 100 % stay 100
