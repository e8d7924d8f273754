"""The processor: its model, and the number of its CPUs that this process may use."""

from __future__ import annotations

import math
import os
import platform
import subprocess
from contextlib import suppress
from pathlib import Path

from dr_lib.hardware.cgroups import ROOT, read_quotas, read_text

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
ARM_FIELDS = ("cpu implementer", "cpu part")
MODEL_FIELDS = (  # of /proc/cpuinfo that together name a model
    ARM_FIELDS,  # before the model name that some add, of the instruction set
    ("model name",),  # x86, LoongArch
    ("vendor_id", "cpu family", "model"),  # x86 in a sandbox that hides the name
    ("uarch",),  # RISC-V
    ("mvendorid", "marchid", "mimpid"),  # the same, its codes
    ("cpu model",),  # MIPS
    ("cpu",),  # POWER
)


def find_cpu_model(root: Path = ROOT) -> str:
    """Find the processor's model; for ARM that of its cores, such as ARM Neoverse-N1.

    Where Linux knows no name, its codes are the name, such as ARM 0x61 0x022.
    """
    if platform.system() == "Darwin":  # Python says arm or i386
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        with suppress(OSError, subprocess.SubprocessError):
            return subprocess.check_output(command, text=True, timeout=10).strip()
    fields: dict[str, list[str]] = {}  # values of each name, one for each CPU
    for line in read_text(root / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip().lower(), []).append(value.strip())
    for names in MODEL_FIELDS:
        models = list(dict.fromkeys(zip(*(fields.get(name, []) for name in names))))
        if not models or models[0] == ("unknown",):
            continue
        # phones, boards and Macs have several kinds of cores
        named = " + ".join(ARM_CORES.get(model, " ".join(model)) for model in models)
        return f"ARM {named}" if names == ARM_FIELDS else named
    return platform.processor() or platform.machine()


def count_cpus(root: Path = ROOT) -> int:
    """Count the CPUs that this process may use: those it is bound to, at most its cgroups' quota,
    rounded up.
    """
    quotas = [quota.cpus for quota in read_quotas(root)]
    return max(1, math.ceil(min([len(list_bound()), *quotas])))


def list_bound() -> list[int]:
    """List the CPUs that this process is bound to, by itself, a scheduler or a container."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
