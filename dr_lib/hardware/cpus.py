"""The processor: its model, and the number of its CPUs that this process may use."""

from __future__ import annotations

import math
import os
import platform
import re
import subprocess
from contextlib import suppress
from pathlib import Path

from dr_lib.hardware.cgroups import ROOT, read_limit, read_text


def find_cpu_model(root: Path = ROOT) -> str:
    """Find the processor's model; for ARM the code of its cores on Linux, such as ARM 0xd40 for
    Graviton 3.
    """
    if platform.system() == "Darwin":  # Python says arm or i386
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        with suppress(OSError, subprocess.SubprocessError):
            return subprocess.check_output(command, text=True, timeout=10).strip()
    fields = dict(re.findall(r"(?m)^([^\t:]+?)\s*: *(.+)$", read_text(root / "proc/cpuinfo")))
    part = fields.get("CPU part")  # before the model name that some add, of the instruction set
    if part:
        return f"ARM {part}"
    return fields.get("model name") or platform.processor() or platform.machine()


def count_cpus(root: Path = ROOT) -> int:
    """Count the CPUs that this process may use: those it is bound to, at most its cgroups' quota,
    rounded up.
    """
    bound = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        bound = len(os.sched_getaffinity(0))
    return math.ceil(min(bound, read_limit("cpu.max", root)[0]))
