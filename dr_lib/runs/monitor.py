"""Monitor the machine by a process beside a training, and summarise its samples.

As in Moura Filho and Sousa, it samples the use of processor, memory and GPU every 10 s or less. Run
as a module, this is that process.
"""

from __future__ import annotations

import csv
import io
import math
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil

from dr_lib.hardware.cgroups import read_memory
from dr_lib.hardware.facts import list_gpus

PERCENTS = ("cpu_percent", "memory_percent", "gpu_percent", "gpu_memory_percent")
# sums over the GPUs, as shares are means; energy counts from when the driver was loaded
COLUMNS = ("seconds", *PERCENTS, "process_cpu_s", "process_mib", "gpu_energy_j")
# CPU time is counted in ticks of 10 ms: a share of less time than this says nothing
MIN_PERIOD_S = 0.05
MANY = 1000  # GPUs


class Monitor:
    """Samples the machine into a CSV between entering and leaving: `with Monitor(path) as monitor:
    ...`. Whatever becomes of the samples, the training goes on.

    Example:
        >>> with Monitor("samples.csv", period_s=1.0) as monitor:
        ...     pass
        >>> monitor.summarise()["process_peak_mib"] > 0
        True
    """

    def __init__(
        self,
        path: Path,
        period_s: float = 1.0,
        *,
        num_gpus: int = MANY,
        pid: int | None = None,
    ):
        """Set the CSV's path, the seconds between samples (the paper's were 10 at most), the number
        of GPUs that train, and the process that does, if it is not this one.
        """
        self.path = Path(path)
        self.period_s = period_s
        self.num_gpus = num_gpus
        self.pid = pid or os.getpid()

    def __enter__(self) -> Monitor:
        """Start the process, and wait for its first sample.

        Raises:
            OSError: the file cannot be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        program = [sys.executable, "-m", "dr_lib.runs.monitor"]
        numbers = map(str, (self.period_s, self.num_gpus, self.pid))
        with self.path.open("wb") as file:
            self._process = subprocess.Popen(
                [*program, *numbers],
                cwd=Path(__file__).parents[2],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.DEVNULL,
            )
        while self._process.poll() is None and self.path.read_bytes().count(b"\n") < 2:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        """End the process, which takes a last sample."""
        with suppress(OSError):  # it has ended: a full disk, say
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:  # a driver hangs
            self._process.kill()
            self._process.wait()

    def summarise(self) -> dict[str, Any]:
        """Summarise the samples of a training run; of an interrupted one, up to the last whole row.

        A value counts for the time since the one before it.

        Returns:
            `<name>_mean` of cpu_percent, memory_percent, gpu_percent and gpu_memory_percent;
            `process_cpu_s` and `process_peak_mib` of the process and its
            children; `num_samples`; `monitored_s`; `gpu_energy_j` of the GPUs by their own counter
            (NVML, Volta and later). NaN where nothing was measured, never 0.
        """
        import pandas as pd

        text = self.path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1] or ",".join(COLUMNS)
        rows = pd.read_csv(io.StringIO(whole), dtype=float)
        num_samples = len(rows)
        rows = rows if num_samples else rows.reindex([0])
        step_s = rows["seconds"].diff()
        change = rows.iloc[-1] - rows.iloc[0]
        later = rows[list(PERCENTS)].iloc[1:]
        means = later.mul(step_s.iloc[1:], axis=0).sum(skipna=False) / change["seconds"]
        used_j = change["gpu_energy_j"]
        summary = {
            # a counter stands still on some virtual machines, or begins anew
            "gpu_energy_j": used_j if used_j > 0 else math.nan,
            "process_cpu_s": change["process_cpu_s"],
            "process_peak_mib": rows["process_mib"].max(),
            "monitored_s": change["seconds"],
            **means.add_suffix("_mean"),
        }
        measured = {name: round(float(value), 3) for name, value in summary.items()}
        return {**measured, "num_samples": num_samples}


def measure_gpu_use() -> float:
    """Measure the share of time that the GPUs are at work, for others as this process does not use
    them: the smaller of two readings, because what has just ended is in the first.
    """
    gpus = find_gpus()
    percent = read_gpus(gpus).get("gpu_percent", 0.0)
    if percent:
        time.sleep(1)
        percent = min(percent, read_gpus(gpus).get("gpu_percent", 0.0))
    return percent / 100


def find_gpus(num_gpus: int = MANY) -> list[Any]:
    """Find the first GPUs that CUDA may use; none without NVIDIA's library or driver."""
    with suppress(Exception):
        import pynvml

        uuids = [gpu.uuid for gpu in list_gpus()]
        return list(map(pynvml.nvmlDeviceGetHandleByUUID, uuids[:num_gpus]))
    return []


def read_gpus(gpus: list[Any]) -> dict[str, float]:
    """Read what all the GPUs report."""
    sample = {}
    if not gpus:
        return sample
    import pynvml

    with suppress(pynvml.NVMLError):
        rates = [pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu for gpu in gpus]
        sample["gpu_percent"] = fmean(rates)
    with suppress(pynvml.NVMLError):
        memory = [pynvml.nvmlDeviceGetMemoryInfo(gpu) for gpu in gpus]
        sample["gpu_memory_percent"] = 100 * fmean(one.used / one.total for one in memory)
    with suppress(pynvml.NVMLError):  # before Volta there is no such counter
        used_mj = sum(map(pynvml.nvmlDeviceGetTotalEnergyConsumption, gpus))
        sample["gpu_energy_j"] = used_mj / 1000
    return sample


def read_process_cpu_s(process: psutil.Process) -> float:
    """Read the CPU seconds of a process, including children that have ended and been waited for."""
    return sum(process.cpu_times()[:4])


def _read_tree(process: psutil.Process) -> dict[str, float]:
    """Sum CPU seconds and memory of a process and its children, without this one."""
    cpu_s = 0.0
    mib = 0.0
    for one in [process, *process.children(recursive=True)]:
        with suppress(psutil.Error):
            if one.pid != os.getpid():
                cpu_s += read_process_cpu_s(one)
                mib += one.memory_info().rss / 2**20
    return {"process_cpu_s": cpu_s, "process_mib": mib}


def main(period_s: str, num_gpus: str, pid: str) -> None:
    """Sample on a fixed grid of time until the input ends."""
    is_over = threading.Event()
    end = threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True)
    end.start()
    process = psutil.Process(int(pid))
    gpus = find_gpus(int(num_gpus))
    writer = csv.DictWriter(sys.stdout, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    start = time.monotonic()
    is_last = False
    while True:
        seconds = time.monotonic() - start
        memory = read_memory()
        sample = {
            "seconds": seconds,
            "cpu_percent": psutil.cpu_percent(),
            "memory_percent": 100 * (1 - memory.available / memory.total),
            **_read_tree(process),
            **read_gpus(gpus),
        }
        writer.writerow({name: round(value, 3) for name, value in sample.items()})
        sys.stdout.flush()
        if is_last:
            return
        is_last = is_over.wait(float(period_s) - seconds % float(period_s))
        if is_last:
            time.sleep(MIN_PERIOD_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
