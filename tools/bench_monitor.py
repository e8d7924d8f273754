"""What the monitor costs: python -m tools.bench_monitor.

The CPU seconds of a process that sleeps at ten samples a second, while 200 idle processes stand
around that have to be read through in the search for its children. Where there is a GPU, the energy
of a training in CUDA C by its counter and by Zeus around the same time, if Zeus is installed
(pip install zeus).
"""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from dr_lib.data.small_images import load_mnist
from dr_lib.errors import DrError
from dr_lib.hardware import HardwareError
from dr_lib.rooms.mnist import cuda as mnist
from dr_lib.rooms.mnist.build import Library, build
from dr_lib.runs.monitor import Monitor, summarise
from tools.bench import describe

PERIOD_S = 0.1
SECONDS = 20
REPEATS = 3
NUM_OTHERS = 200


def measure_percent(folder: Path) -> float:
    """The monitor's share of one core in per cent, over so many seconds with an event in each."""
    with Monitor(folder / "samples.csv", period_s=PERIOD_S) as monitor:
        start_s = time.monotonic()
        start_cpu_s = time.process_time()
        for second in range(SECONDS):
            time.sleep(1)
            monitor.mark(f"epoch {second + 1}")
        return 100 * (time.process_time() - start_cpu_s) / (time.monotonic() - start_s)


def measure_joules(library: Library, path: Path, zeus: Any) -> tuple[float, float, float]:
    """Energy of one training by Zeus and by the counter [J], and its seconds."""
    data = load_mnist("synthetic")
    with Monitor(path, period_s=PERIOD_S, num_gpus=1):
        zeus.begin_window("training")
        mnist.train(
            library,
            *data,
            implementation="fused",
            epochs=40,
            replicas=library.num_multiprocessors,
        )
        theirs = zeus.end_window("training")
    ours = summarise(path)
    return theirs.total_energy, ours["gpu_energy_j"], ours["monitored_s"]


def compare_energy(folder: Path) -> None:
    """Print how far the counter's energy is from what Zeus measures."""
    try:
        library = build("gpu")
        from zeus.monitor import ZeusMonitor
    except (DrError, HardwareError, ImportError) as error:
        return print(f"energy of a GPU: not measured ({error})")
    zeus = ZeusMonitor(gpu_indices=[0])
    measured = [
        measure_joules(library, folder / f"{repeat}.csv", zeus) for repeat in range(REPEATS + 1)
    ][1:]
    theirs, counted, seconds = np.transpose(measured)
    joules = f"{np.median(theirs):.0f} J in {np.median(seconds):.1f} s"
    ratios = describe(counted / theirs, "{:.3f}", (0, 100))
    print(f"energy of {library.device}: Zeus {joules}; counter / Zeus: {ratios}")


def main() -> None:
    """Print the median share and the range, against the goal; then the energy."""
    start_others = (
        # no children of ours
        f"for other in $(seq {NUM_OTHERS}); do sleep 600 > /dev/null 2>&1 & echo $!; done"
    )
    others = subprocess.run(
        ["sh", "-c", start_others], capture_output=True, text=True, check=True
    ).stdout.split()
    try:
        shares = [measure_percent(Path(tempfile.mkdtemp())) for _ in range(REPEATS)]
    finally:
        for pid in others:
            os.kill(int(pid), signal.SIGTERM)
    print(
        f"monitor: one sample each {PERIOD_S} s, {NUM_OTHERS} other processes, {SECONDS} s:"
        f" {describe(shares, ends=(0, 100))} % of a core; goal: under 1 %"
    )
    compare_energy(Path(tempfile.mkdtemp()))


if __name__ == "__main__":
    main()
