"""What the monitor's sampler costs: python tests/bench_monitor.py.

The sampler's own CPU seconds at ten samples a second, from its first row on, while 200 idle processes stand around that
it has to read through when it looks for the training's children.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import psutil

from dr_lib.runs.monitor import Monitor

PERIOD_S, SECONDS, REPEATS, NUM_OTHERS, GOAL_PERCENT = 0.1, 20, 3, 200, 1.0


def measure_percent(folder: Path) -> float:
    """The sampler's share of one core in per cent, over so many seconds with an event in each."""
    with Monitor(folder / "samples.csv", period_s=PERIOD_S) as monitor:
        sampler = psutil.Process(monitor.sampler.pid)
        start_s, start_cpu_s = time.monotonic(), sum(sampler.cpu_times()[:2])
        for second in range(SECONDS):
            time.sleep(1)
            monitor.mark(f"epoch {second + 1}")
        return 100 * (sum(sampler.cpu_times()[:2]) - start_cpu_s) / (time.monotonic() - start_s)


def main() -> None:
    """Print the median share and the range, against the goal."""
    start_others = (
        f"for other in $(seq {NUM_OTHERS}); do sleep 600 > /dev/null 2>&1 & echo $!; done"  # no children of ours
    )
    others = subprocess.run(["sh", "-c", start_others], capture_output=True, text=True, check=True).stdout.split()
    try:
        shares = [measure_percent(Path(tempfile.mkdtemp())) for _ in range(REPEATS)]
    finally:
        for pid in others:
            os.kill(int(pid), signal.SIGTERM)
    print(
        f"monitor: one sample each {PERIOD_S} s, {NUM_OTHERS} other processes: {np.median(shares):.2f} % of a core "
        f"[{min(shares):.2f}, {max(shares):.2f}], n = {REPEATS} x {SECONDS} s; goal: under {GOAL_PERCENT} %"
    )


if __name__ == "__main__":
    main()
