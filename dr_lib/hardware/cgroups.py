"""Control groups: how containers and schedulers on Linux limit CPUs and memory (versions 1 and 2).

Foreign kernels use them too: this file needs Python 3.9 and psutil.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/")


class Quota(NamedTuple):
    """CPU time that a group of processes may take, and has taken."""

    cpus: float  # 0.5 is half of the time of one CPU
    used_s: float  # CPU seconds of all its processes so far


class Memory(NamedTuple):
    """Memory that this process may use [bytes]."""

    total: int
    available: int  # without swapping


def read_quotas(root: Path = ROOT) -> Iterator[Quota]:
    """Yield the CPU quotas of this process's groups, its own first."""
    for top, group in _list_groups("cpu", root):
        text = read_text(group / "cpu.max")  # such as 50000 100000, or max 100000
        used_s = _read_numbers(group / "cpu.stat").get("usage_usec", 0) / 1e6
        if not text:
            files = (group / f"cpu.cfs_{name}_us" for name in ("quota", "period"))
            text = " ".join(map(read_text, files))
            separate = top.with_name("cpuacct") / group.relative_to(top)
            usage = [read_text(folder / "cpuacct.usage") for folder in (group, separate)]
            used_s = float(next(filter(None, usage), 0)) / 1e9
        words = text.split()
        if len(words) == 2 and words[0].isdigit():  # neither max nor -1: no limit
            yield Quota(int(words[0]) / int(words[1]), used_s)


def read_memory(root: Path = ROOT) -> Memory:
    """Read the machine's memory, or what the limits of this process's groups leave of it."""
    import psutil

    machine = psutil.virtual_memory()
    total = machine.total
    available = machine.available
    for _, group in _list_groups("memory", root):
        held = _read_numbers(group / "memory.stat")
        # version 1 also knows the limits of the groups around a container
        limits = [held.get("hierarchical_memory_limit", math.inf)]
        usage = ""
        for limit, use in (
            ("memory.max", "memory.current"),
            ("memory.high", "memory.current"),  # above it a group is slowed down until it swaps
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limits += [int(word) for word in read_text(group / limit).split() if word.isdigit()]
            usage = usage or read_text(group / use)
        # pages of files are given up when memory is needed
        files = held.get("total_inactive_file", held.get("inactive_file", 0))
        used = max(0, int(usage or 0) - files)
        total = min(total, *limits)
        available = max(0, min(available, *(limit - used for limit in limits)))
    return Memory(int(total), int(available))


def read_text(path: Path) -> str:
    """Read a system file; empty if it is missing."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _list_groups(controller: str, root: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the mounted folder of a controller, and each group of this process in it, its own
    first.

    A container may see its own group as the outermost, under another path than /proc says.
    """
    mounted = root / "sys/fs/cgroup"
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        names = {controller, controllers} if controllers else {"", "unified"}
        for top in (mounted / name for name in sorted(names)):
            group = top / path.lstrip("/")
            for folder in [group, *group.parents][: len(group.parts) - len(top.parts) + 1]:
                yield top, folder


def _read_numbers(path: Path) -> dict[str, int]:
    """Read lines of a name and a number."""
    lines = (line.split() for line in read_text(path).splitlines())
    return {line[0]: int(line[1]) for line in lines if len(line) == 2}
