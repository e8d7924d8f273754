"""Limits of containers, read from files laid out as Linux has them."""

from pathlib import Path

import psutil
import pytest

from dr_lib.hardware.cgroups import Quota, read_memory, read_quotas

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
        ("0::/\n", {"memory.max": f"{GIB}"}, GIB),
        ("0::/pods/a\n", {"pods/a/memory.max": "max", "pods/memory.max": f"{GIB}"}, GIB),
        ("0::/a\n", {"a/memory.max": f"{GIB}", "a/memory.high": f"{GIB // 2}"}, GIB // 2),
        ("0::/a\n", {"a/memory.max": f"{10**15}"}, HOST),  # more than the machine has
        ("0::/a\n", {"unified/a/memory.max": f"{GIB}"}, GIB),  # both versions are mounted
        ("0::/../other\n", {"memory.max": f"{GIB}"}, GIB),  # of another namespace
        ("4:memory:/docker/1\n", {"memory/memory.limit_in_bytes": f"{GIB}"}, GIB),
        ("4:cpu,memory:/a\n", {"cpu,memory/a/memory.limit_in_bytes": f"{GIB}"}, GIB),
        ("4:memory:/a\n", {"memory/a/memory.limit_in_bytes": "9223372036854771712"}, HOST),
        # of a group around the container, which it cannot see
        ("4:memory:/a\n", {"memory/memory.stat": f"hierarchical_memory_limit {GIB}"}, GIB),
        ("4:cpu:/a\n", {"cpu/a/memory.max": f"{GIB}"}, HOST),
        ("", {}, HOST),
    ],
)
def test_a_limit_is_the_memory(tmp_path, cgroup, files, total):
    """A container sees the memory of its host and is killed beyond its own."""
    write_groups(tmp_path, cgroup, files)
    memory = read_memory(tmp_path)
    assert memory.total == total and 0 < memory.available <= total


@pytest.mark.parametrize(
    ("cgroup", "names"),
    [
        ("0::/\n", ("memory.max", "memory.current", "inactive_file")),
        (
            "1:memory:/\n",
            (
                "memory/memory.limit_in_bytes",
                "memory/memory.usage_in_bytes",
                "total_inactive_file",
            ),
        ),
    ],
)
def test_what_a_container_uses_is_not_available(tmp_path, cgroup, names):
    """Of 1,000 bytes 700 are in use, 200 of them of files that can be read again: 500 are left."""
    limit, usage, files = names
    stat = f"{limit.rpartition('/')[0]}/memory.stat"
    write_groups(tmp_path, cgroup, {limit: "1000", usage: "700", stat: f"{files} 200"})
    assert read_memory(tmp_path) == (1000, 500)


@pytest.mark.parametrize(
    ("cgroup", "files", "quotas"),
    [
        (
            "0::/a\n",
            {
                "a/cpu.max": "50000 100000",
                "a/cpu.stat": "usage_usec 7000000\nnr_throttled 1",
                "cpu.max": "max 100000",
            },
            [Quota(0.5, 7.0)],
        ),
        (
            "2:cpuacct:/a\n1:cpu:/a\n",
            {
                "cpu/a/cpu.cfs_quota_us": "300000",
                "cpu/a/cpu.cfs_period_us": "100000",
                "cpuacct/a/cpuacct.usage": "7000000000",
            },
            [Quota(3.0, 7.0)],
        ),
        (
            "1:cpu,cpuacct:/a\n",
            {
                "cpu,cpuacct/cpu.cfs_quota_us": "25000",
                "cpu,cpuacct/cpu.cfs_period_us": "50000",
                "cpu,cpuacct/cpuacct.usage": "7000000000",
            },
            [Quota(0.5, 7.0)],
        ),
        ("1:cpu:/a\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "1"}, []),
    ],
)
def test_quotas_and_what_was_taken_of_them(tmp_path, cgroup, files, quotas):
    """By the documents of the kernel: microseconds per period, and micro- or nanoseconds used."""
    write_groups(tmp_path, cgroup, files)
    assert list(read_quotas(tmp_path)) == quotas
