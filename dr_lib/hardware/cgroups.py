"""Control groups: how containers and schedulers limit CPUs and memory (versions 1 and 2)."""

from __future__ import annotations

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
        limit = read_text(group / "cpu.max")  # such as 50000 100000, or max 100000
        used_s = _read_numbers(group / "cpu.stat").get("usage_usec", 0) / 1e6
        if not limit:
            limit = read_text(group / "cpu.cfs_quota_us") + read_text(
                group / "cpu.cfs_period_us"
            )
            folder = top.with_name("cpuacct") / group.relative_to(top)
            usage = read_text(group / "cpuacct.usage") or read_text(folder / "cpuacct.usage")
            used_s = float(usage or 0) / 1e9
        words = limit.split()
        if len(words) == 2 and words[0].isdigit():  # neither max nor -1: no limit
            yield Quota(int(words[0]) / int(words[1]), used_s)


def read_memory(root: Path = ROOT) -> Memory:
    """Read the machine's memory, or what the limits of this process's groups leave of it."""
    import psutil

    machine = psutil.virtual_memory()
    total = machine.total
    available = machine.available
    for _, group in _list_groups("memory", root):
        numbers = _read_numbers(group / "memory.stat")
        # above memory.high a group is slowed down; version 1 knows the limits around a container
        limits = ["memory.max", "memory.high", "memory.limit_in_bytes"]
        limits = [read_text(group / name).strip() for name in limits]
        limits.append(str(numbers.get("hierarchical_memory_limit", "")))
        limit = min([int(text) for text in limits if text.isdigit()], default=machine.total)
        if limit >= machine.total:
            continue
        usage = read_text(group / "memory.current") or read_text(
            group / "memory.usage_in_bytes"
        )
        # pages of files are given up when memory is needed
        files = numbers.get("total_inactive_file", numbers.get("inactive_file", 0))
        total = min(total, limit)
        available = max(0, min(available, limit - max(0, int(usage or 0) - files)))
    return Memory(total, available)


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
