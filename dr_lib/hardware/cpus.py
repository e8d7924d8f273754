"""The processor: its model, and the number of its CPUs that this process may use."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterator
from pathlib import Path

# implementer and part of an ARM core, which names no model: arch/arm64/include/asm/cputype.h of
# Linux
ARM_CORES = {
    ("0x41", "0xd03"): "Cortex-A53",
    ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd0b"): "Cortex-A76",
    ("0x41", "0xd0c"): "Neoverse-N1",  # AWS Graviton 2
    ("0x41", "0xd40"): "Neoverse-V1",  # AWS Graviton 3
    ("0x41", "0xd49"): "Neoverse-N2",
    ("0x41", "0xd4f"): "Neoverse-V2",  # AWS Graviton 4
}


def find_cpu_model(root: Path = Path("/")) -> str:
    """Find the processor's model; for ARM that of its core, such as ARM Neoverse-N1, or its codes,
    such as ARM 0x61 0x022, if unknown.
    """
    fields = [
        line.partition(":")[::2] for line in read_text(root / "proc/cpuinfo").splitlines()
    ]
    fields = [(name.strip(), value.strip()) for name, value in fields]
    models = [value for name, value in fields if name == "model name"]
    if models:
        return models[0]
    implementers, parts = (
        [v for name, v in fields if name == f"CPU {what}"] for what in ("implementer", "part")
    )
    cores = dict.fromkeys(zip(implementers, parts))  # phones and boards have several kinds
    named = [ARM_CORES.get(core, " ".join(core)) for core in cores]
    return f"ARM {' + '.join(named)}" if named else platform.processor() or platform.machine()


def count_cpus(root: Path = Path("/")) -> int:
    """Count the CPUs that this process may use: those it is bound to, at most its cgroups' quota,
    rounded up.
    """
    bound = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )
    return max(1, min([bound, *(math.ceil(quota) for quota in _read_quotas(root))]))


def _read_quotas(root: Path) -> Iterator[float]:
    """Yield the CPUs that each cgroup (version 1 or 2) grants this process, up to the outermost
    visible one.

    A container may see its own cgroup as the outermost, under another path than /proc says.
    """
    mounted = root / "sys/fs/cgroup"
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = mounted / "cpu" if controllers else mounted
        group = top / path.lstrip("/")
        for folder in [group, *group.parents][: len(group.parts) - len(top.parts) + 1]:
            if controllers:
                quota, period = (
                    read_text(folder / f"cpu.cfs_{what}_us") for what in ("quota", "period")
                )
            else:
                quota, _, period = read_text(folder / "cpu.max").partition(" ")
            if quota.strip().isdigit() and int(period):  # neither max nor -1: no limit
                yield int(quota) / int(period)


def read_text(path: Path) -> str:
    """Read a system file; empty if it is missing."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
