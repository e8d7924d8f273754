"""The processor: its model, and how many CPUs this process may use of it."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterator
from pathlib import Path


def find_cpu_model(root: Path = Path("/")) -> str:
    """The processor's model; an ARM one tells the implementer and part of its cores alone, such as
    ARM 0x41 0xd0c (Neoverse-N1, of Graviton 2): arch/arm64/include/asm/cputype.h of Linux.
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
    # phones and boards have several kinds
    cores = dict.fromkeys(map(" ".join, zip(implementers, parts)))
    return f"ARM {' + '.join(cores)}" if cores else platform.processor() or platform.machine()


def count_cpus(root: Path = Path("/")) -> int:
    """CPUs that this process may use: those it is bound to, and no more than its cgroups' quota,
    rounded up.
    """
    bound = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )
    return max(1, min([bound, *(math.ceil(quota) for quota in _read_quotas(root))]))


def _read_quotas(root: Path) -> Iterator[float]:
    """CPUs that each cgroup of this process grants it, up to the outermost in sight.

    A container may see its own cgroup as the outermost, under another path than /proc says.
    """
    mounted = root / "sys/fs/cgroup"
    path = read_text(root / "proc/self/cgroup").strip().rpartition("0::")[2]
    group = mounted / path.lstrip("/")
    for folder in [group, *group.parents]:
        quota, _, period = read_text(folder / "cpu.max").partition(" ")
        if quota.isdigit() and int(period):  # not max: no limit
            yield int(quota) / int(period)
        if folder == mounted:
            break


def read_text(path: Path) -> str:
    """A file of the system; empty where it is not there."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
