"""The sampler: a process of its own that writes a CSV of the machine beside a training.

It is run as a script, by foreign kernels too: it needs Python 3.9 and psutil, nvidia-ml-py for
GPUs, and nothing of this library.
"""

from __future__ import annotations

import csv
import math
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any

import psutil

PERCENTS = (
    "cpu_percent",
    "steal_percent",
    "memory_percent",
    "gpu_percent",
    "gpu_memory_percent",
)
# means of shares, sums of the others; energy counts from when the driver was loaded
GPU = ("gpu_percent", "gpu_memory_percent", "gpu_memory_mib", "gpu_power_w", "gpu_energy_j")
MACHINE = (*PERCENTS[:3], "memory_mib")
COLUMNS = ("seconds", "monotonic_s", "event", *MACHINE, "process_cpu_s", "process_mib", *GPU)
START = "start"
END = "end"
ERROR = "error"
DIED = "died"  # the monitor's own events
# CPU time is counted in ticks of 10 ms: a share of less time than this says nothing
MIN_PERIOD_S = 0.05
RESCAN_S = 10.0  # to find new children all processes are read: 5 ms where there are 200
NAN = math.nan


def read_cpu_times() -> tuple[float, float, float]:
    """CPU seconds of the machine since it began: all, busy ones, and those that other guests of the
    host took.

    Waiting for a disk is not busy, what other guests took is; NaN where the system does not count
    them.
    """
    times = psutil.cpu_times()  # user time holds the guests of this machine already
    all_s = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return (
        all_s,
        all_s - times.idle - getattr(times, "iowait", 0.0),
        getattr(times, "steal", NAN),
    )


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
            row["gpu_energy_j"] = (
                sum(map(nvml.nvmlDeviceGetTotalEnergyConsumption, gpus)) / 1000
            )
    return row


if __name__ == "__main__":
    sample(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
