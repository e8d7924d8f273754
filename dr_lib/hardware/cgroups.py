"""Control groups: how containers and schedulers on Linux limit CPUs and memory (version 2)."""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/")


class Memory(NamedTuple):
    """Memory that this process may use [bytes]."""

    total: int
    available: int  # without swapping


def read_limit(name: str, root: Path = ROOT) -> tuple[float, Path]:
    """Read the least limit that this process's groups set, and find the group that sets it.

    Args:
        name: cpu.max, in CPUs, or memory.max, in bytes.
        root: of the file system.

    Returns:
        Infinity, and the root, without a limit.
    """
    limits = [(math.inf, root)]
    for group in _list_groups(root):
        limit, *period = read_text(group / name).split() or ["max"]
        if limit != "max":
            limits.append((int(limit) / int(*period or [1]), group))
    return min(limits)


def read_memory(root: Path = ROOT) -> Memory:
    """Read the machine's memory, or what the limit of this process's groups leaves of it."""
    import psutil

    machine = psutil.virtual_memory()
    limit, group = read_limit("memory.max", root)
    if limit >= machine.total:
        return Memory(machine.total, machine.available)
    used = int(read_text(group / "memory.current") or 0)
    # pages of files are given up when memory is needed
    files = re.search(r"(?m)^inactive_file (\d+)", read_text(group / "memory.stat"))
    left = int(limit) - used + int(files[1] if files else 0)
    return Memory(int(limit), max(0, min(machine.available, left)))


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
    own = re.search(r"(?m)^0::/(.*)$", read_text(root / "proc/self/cgroup"))
    if not own:
        return []
    group = top / own[1]
    return [group, *group.parents][: len(group.parts) - len(top.parts) + 1]
