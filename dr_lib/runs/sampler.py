"""Samples the machine into a CSV: a script of its own, which dr_lib.runs.monitor starts and talks to.

Lines on its standard input are events. When the training ends without a word, however that comes, the pipe closes, and
the sampler notes it and ends too. Foreign kernels start it: it needs Python 3.9 and psutil, and nvidia-ml-py for GPUs.
"""

from __future__ import annotations

import contextlib
import csv
import math
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import psutil

MACHINE = ("cpu_percent", "steal_percent", "memory_percent", "memory_mib")
PROCESS = ("process_cpu_s", "process_mib")
GPU = ("gpu_percent", "gpu_memory_percent", "gpu_memory_mib", "gpu_power_w")
COLUMNS = ("seconds", "monotonic_s", "event", *MACHINE, *PROCESS, *GPU)
START, END, ERROR, DIED = "start", "end", "error", "died"  # the events that every file has
MIN_CPU_S = 0.05  # the system counts CPU time in ticks of 10 ms: a share of less time than this says nothing
RESCAN_S = 10.0  # to find new children all processes are read: 5 ms where there are 200
TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
SLOW_S = 0.5  # memory and processes change slowly, and each process costs 0.3 ms: no more often than this


def sample(path: str, period_s: float, pid: int, num_gpus: int) -> None:
    """What the sampler does: write a row for each event at once and one each period, until an end or a death."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    meters, events, parent = Meters(pid, num_gpus), queue.SimpleQueue(), os.getppid()
    threading.Thread(target=_listen, args=(events,), daemon=True).start()
    with open(path, "w", encoding="utf-8", newline="", buffering=1) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        start_s, event = _wait(events, math.inf, parent)
        now_s = start_s
        while True:
            read = meters.read(in_full=event in (START, END, ERROR))
            row = {"seconds": now_s - start_s, "monotonic_s": now_s, **read}
            writer.writerow([event if name == "event" else _round(row.get(name)) for name in COLUMNS])
            if event in (END, ERROR, DIED):
                break
            periods = math.floor((time.monotonic() - start_s) / period_s) + 1  # a fixed grid: lateness adds up to none
            now_s, event = _wait(events, start_s + periods * period_s, parent)


class Meters:
    """Everything that a row holds, and what of the last reading the next one needs."""

    def __init__(self, pid: int, num_gpus: int):
        """Find what is to be read for the machine, its first GPUs, and the process of that id."""
        self.watched, self.children = psutil.Process(pid), []
        self.scanned_s = self.slow_s = -math.inf
        self.cpu_clock = CpuClock()
        self.cpu, self.min_cpu_s = None, MIN_CPU_S * (psutil.cpu_count() or 1)  # psutil's first share would be 0.0
        self.nvml, gpus = _find_gpus()
        self.gpus = gpus[:num_gpus]

    def read(self, *, in_full: bool) -> dict[str, float | None]:
        """Read the meters; children that are younger than 10 s may be missed until they end, unless `in_full`."""
        now_s = time.monotonic()
        if in_full or now_s - self.scanned_s >= RESCAN_S:
            self.scanned_s, self.children = now_s, _find_children(self.watched)
        read = {**self._read_cpu(), **self._read_gpus()}
        if in_full or now_s - self.slow_s >= SLOW_S:
            self.slow_s, memory = now_s, psutil.virtual_memory()
            read["memory_percent"], read["memory_mib"] = memory.percent, (memory.total - memory.available) / 2**20
            read["process_cpu_s"], read["process_mib"] = self._sum(_read_cpu_s), self._sum(_read_mib)
        return read

    def _sum(self, read_one: Callable[[psutil.Process], float]) -> float | None:
        """The sum over the watched process and those of its children that are there; None if it is gone itself."""
        try:
            total = read_one(self.watched)
        except psutil.Error:
            return None
        for child in self.children:
            with contextlib.suppress(psutil.Error):
                total += read_one(child)
        return total

    def _read_cpu(self) -> dict[str, float]:
        """Shares of the machine's CPU time since they were last read, as psutil counts them."""
        now, last = self.cpu_clock.read(), self.cpu
        if last and now.all_s - last.all_s < self.min_cpu_s:
            return {}
        self.cpu = now
        if not last:
            return {}
        passed_s = now.all_s - last.all_s
        shares = {"cpu_percent": 1 - (now.idle_s - last.idle_s) / passed_s}
        if now.steal_s is not None:
            shares["steal_percent"] = (now.steal_s - last.steal_s) / passed_s
        return {name: 100 * min(max(share, 0.0), 1.0) for name, share in shares.items()}

    def _read_gpus(self) -> dict[str, float]:
        """Means and sums over the GPUs, of what all of them can tell: with MIG on, they know no utilisation."""
        if not self.gpus:
            return {}
        read = {}
        for use in self._ask("nvmlDeviceGetUtilizationRates"):
            read["gpu_percent"] = read.get("gpu_percent", 0.0) + use.gpu / len(self.gpus)
        for memory in self._ask("nvmlDeviceGetMemoryInfo"):
            share = 100 * memory.used / memory.total / len(self.gpus)
            read["gpu_memory_percent"] = read.get("gpu_memory_percent", 0.0) + share
            read["gpu_memory_mib"] = read.get("gpu_memory_mib", 0.0) + memory.used / 2**20
        for milliwatt in self._ask("nvmlDeviceGetPowerUsage"):
            read["gpu_power_w"] = read.get("gpu_power_w", 0.0) + milliwatt / 1000
        return read

    def _ask(self, question: str) -> list[Any]:
        try:
            return [getattr(self.nvml, question)(gpu) for gpu in self.gpus]
        except self.nvml.NVMLError:
            return []


class CpuTimes(NamedTuple):
    """Seconds of all CPUs together since the machine began."""

    all_s: float
    idle_s: float  # waiting for a disk is idle
    steal_s: float | None  # taken by other guests of the host; None where the system does not say


class CpuClock:
    """Reads the machine's CPU times; on Linux from a file kept open, which halves what psutil costs."""

    def __init__(self):
        """Open Linux's file of CPU times."""
        self.file = os.open("/proc/stat", os.O_RDONLY) if sys.platform == "linux" else None

    def read(self) -> CpuTimes:
        """The times now."""
        if self.file is None:
            times = psutil.cpu_times()
            return CpuTimes(sum(times), times.idle, None)
        line = os.pread(self.file, 512, 0).split(b"\n", 1)[0]
        # user, nice, system, idle, iowait, irq, softirq, steal; guests follow, which user and nice hold already
        ticks = [int(ticks) / TICKS_PER_S for ticks in line.split()[1:9]]
        return CpuTimes(sum(ticks), ticks[3] + ticks[4], ticks[7])


def _listen(events: queue.SimpleQueue) -> None:
    with open(0, "rb", buffering=0, closefd=False) as pipe:  # unbuffered: a line is there when it is sent
        for line in pipe:
            events.put((time.monotonic(), line.decode().rstrip("\n")))
    events.put((time.monotonic(), DIED))


def _wait(events: queue.SimpleQueue, due_s: float, parent: int) -> tuple[float, str]:
    """The next event and its time, or an empty one when a sample is due."""
    while True:
        left_s = max(0.0, due_s - time.monotonic())
        try:
            return events.get(timeout=min(left_s, 1.0))
        except queue.Empty:
            now_s = time.monotonic()
        if os.getppid() != parent:  # its forked children may still hold the pipe open
            return now_s, DIED
        if now_s >= due_s:
            return now_s, ""


def _find_gpus() -> tuple[Any, list[Any]]:
    """NVIDIA's library and the GPUs it knows; none where either is missing."""
    try:
        import pynvml
    except ImportError:
        return None, []
    try:
        pynvml.nvmlInit()
        return pynvml, [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return pynvml, []


def _find_children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [child for child in process.children(recursive=True) if child.pid != os.getpid()]
    except psutil.Error:
        return []


def _read_cpu_s(process: psutil.Process) -> float:
    """CPU seconds, those of children that ended and were waited for included."""
    return sum(process.cpu_times()[:4])


def _read_mib(process: psutil.Process) -> float:
    return process.memory_info().rss / 2**20


def _round(value: float | None) -> float | str:
    return "" if value is None else round(value, 3)


if __name__ == "__main__":
    sample(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
