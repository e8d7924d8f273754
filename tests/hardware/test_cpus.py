"""The processor: read from files laid out as Linux has them."""

import os

import pytest

from dr_lib.hardware.cpus import count_cpus, find_cpu_model
from tests.hardware.test_cgroups import write, write_groups

ARM = "CPU implementer\t: 0x41\nCPU part\t: {}\n"


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("processor\t: 0\nmodel name\t: AMD EPYC 7B13\n" * 2, "AMD EPYC 7B13"),
        (ARM.format("0xd0c") * 2, "ARM 0xd0c"),
        ("model name\t: ARMv7 rev 3 (v7l)\n" + ARM.format("0xd08"), "ARM 0xd08"),
    ],
)
def test_processors_that_differ_have_other_models(tmp_path, text, model):
    """ARM names no model: Graviton 2 and 3, the serving paper's pair, differ in the part of
    their cores. Layouts are those of Linux's cpuinfo.c.
    """
    write(tmp_path, {"proc/cpuinfo": text})
    assert find_cpu_model(tmp_path) == model


@pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="one CPU has no share to take away"
)
@pytest.mark.parametrize(
    ("inner", "outer", "is_limited"),
    [
        ("max 100000", "50000 100000", True),
        ("max 100000", "max 100000", False),
    ],
)
def test_a_quota_limits_the_cpus(tmp_path, inner, outer, is_limited):
    """Containers see all CPUs and are given the time of some; `test_cgroups` has the layouts."""
    files = {"pods/a/cpu.max": inner, "pods/cpu.max": outer}
    write_groups(tmp_path, "0::/pods/a\n", files)
    assert count_cpus(tmp_path) == (1 if is_limited else len(os.sched_getaffinity(0)))
