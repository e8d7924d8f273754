"""Control groups: how containers and schedulers on Linux limit CPUs and memory (version 2)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
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
    for group in _list_groups(root):
        limit = read_text(group / "cpu.max").split()  # such as 50000 100000, or max 100000
        if len(limit) == 2 and limit[0] != "max":
            used_s = _read_numbers(group / "cpu.stat").get("usage_usec", 0) / 1e6
            yield Quota(int(limit[0]) / int(limit[1]), used_s)


def read_memory(root: Path = ROOT) -> Memory:
    """Read the machine's memory, or what the limits of this process's groups leave of it."""
    import psutil

    machine = psutil.virtual_memory()
    total = machine.total
    available = machine.available
    for group in _list_groups(root):
        limit = read_text(group / "memory.max").strip()
        if limit.isdigit() and int(limit) < machine.total:
            # pages of files are given up when memory is needed
            files = _read_numbers(group / "memory.stat").get("inactive_file", 0)
            used = int(read_text(group / "memory.current") or 0) - files
            total = min(total, int(limit))
            available = max(0, min(available, int(limit) - used))
    return Memory(total, available)


def read_text(path: Path) -> str:
    """Read a system file; empty if it is missing."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


@cache
def _list_groups(root: Path) -> list[Path]:
    """List the folders of this process's groups, its own first.

    A container may see its own group as the outermost, under another path than /proc says.
    """
    top = root / "sys/fs/cgroup"
    for line in read_text(root / "proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            group = top / line[3:].lstrip("/")
            return [group, *group.parents][: len(group.parts) - len(top.parts) + 1]
    return []


def _read_numbers(path: Path) -> dict[str, int]:
    """Read lines of a name and a number."""
    lines = (line.split() for line in read_text(path).splitlines())
    return {line[0]: int(line[1]) for line in lines if len(line) == 2}
