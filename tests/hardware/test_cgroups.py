"""Limits of containers, read from files laid out as Linux has them."""

from pathlib import Path

import psutil
import pytest

from dr_lib.hardware.cgroups import read_memory

GIB = 2**30
HOST = psutil.virtual_memory().total


def write(root: Path, files: dict[str, str]) -> None:
    """Write files below a root."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def write_groups(root: Path, cgroup: str, files: dict[str, str]) -> None:
    """Write what a process sees of its groups."""
    write(root, {"proc/self/cgroup": cgroup})
    write(root, {f"sys/fs/cgroup/{name}": f"{text}\n" for name, text in files.items()})


@pytest.mark.parametrize(
    ("cgroup", "files", "total"),
    [
        ("0::/pods/a\n", {"pods/a/memory.max": "max", "pods/memory.max": f"{GIB}"}, GIB),
        ("0::/a\n", {"a/memory.max": f"{10**15}"}, HOST),
        ("4:memory:/a\n0::/b\n", {"b/memory.max": f"{GIB}"}, GIB),
        ("", {}, HOST),
    ],
)
def test_a_limit_is_the_memory(tmp_path, cgroup, files, total):
    """A container sees the memory of its host and is killed beyond its own."""
    write_groups(tmp_path, cgroup, files)
    memory = read_memory(tmp_path)
    assert memory.total == total and 0 < memory.available <= total


def test_what_a_container_uses_is_not_available(tmp_path):
    """Of 1,000 bytes 700 are in use, 200 of them of files that can be read again: 500 are left."""
    files = {"memory.max": "1000", "memory.current": "700", "memory.stat": "inactive_file 200"}
    write_groups(tmp_path, "0::/\n", files)
    assert read_memory(tmp_path) == (1000, 500)
