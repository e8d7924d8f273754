"""Detect what a machine has, without importing a framework."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from dr_lib.errors import DrError
from dr_lib.hardware.cloud import find_instance_type
from dr_lib.hardware.cpus import count_cpus, find_cpu_model, read_text

BACKENDS = ("tensorflow", "jax")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
GPU_DEVICE = Path("/dev/nvidia0")
TPU_KIND = "TPU_ACCELERATOR_TYPE"  # a variable of the cloud's TPU runtimes


class HardwareError(DrError):
    """The machine lacks the requested hardware, or cannot be queried for its hardware."""


class Facts(NamedTuple):
    """What a machine seems to have; `activate` verifies it."""

    platform: str  # kaggle, colab or local
    cpu: str  # model
    num_cpus: int  # that this process may use
    memory_gib: float
    gpus: tuple[str, ...]  # names of those that CUDA may use, as the driver lists them
    gpu_memory_gib: float  # of the smallest GPU
    compute_capability: float  # of the oldest GPU
    driver: str  # of the GPUs, or empty
    num_tpu_chips: int
    backends: tuple[str, ...]  # of tensorflow and jax, those installed
    instance_type: str = ""  # the cloud's name of the machine, where it tells
    tpu_kind: str = ""  # as the runtime names it, such as v5litepod-8

    def describe(self) -> dict[str, Any]:
        """Describe the machine in columns of a run's row."""
        names = ("platform", "instance_type", "cpu", "num_cpus", "memory_gib", "driver")
        return {name: getattr(self, name) for name in names}


def probe() -> Facts:
    """Collect the facts of this machine; neither a framework nor a driver's library is imported.

    Raises:
        HardwareError: there is a GPU, and its driver does not answer.
    """
    import psutil

    gpus = list_gpus()
    return Facts(
        platform=find_platform(),
        cpu=find_cpu_model(),
        num_cpus=count_cpus(),
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        gpus=tuple(name for name, *_ in gpus),
        gpu_memory_gib=min((round(_number(mib) / 1024, 1) for _, mib, *_ in gpus), default=0.0),
        compute_capability=min(
            (_number(capability) for _, _, capability, *_ in gpus), default=0.0
        ),
        driver=gpus[0][3] if gpus else "",
        num_tpu_chips=_count_tpu_chips(),
        backends=tuple(name for name in BACKENDS if importlib.util.find_spec(name)),
        instance_type=find_instance_type(),
        tpu_kind=os.environ.get(TPU_KIND, ""),
    )


def read_version(module: str) -> str:
    """Find the version of a module: its own statement if it is imported, else the installed
    version.

    The installed package may have a longer name than its module, such as tensorflow-cpu or
    tf-nightly.

    Args:
        module: as it is imported, such as tensorflow.

    Returns:
        The version; empty where it is not known, or the module is not installed.
    """
    said = getattr(sys.modules.get(module), "__version__", "")
    if said:
        return str(said)
    # a server that needs none of it has a MB less
    from importlib.metadata import PackageNotFoundError, version

    for name in (module, f"{module}-cpu"):
        with suppress(PackageNotFoundError):
            return version(name)
    return ""


def find_boot() -> str:
    """Identify this boot of the machine, by Linux's random id or else by its time (UNIX, s)."""
    import psutil

    return read_text(BOOT_ID).strip()[:13] or f"{psutil.boot_time():.0f}"


def find_platform() -> str:
    """Where this runs: kaggle, colab or local."""
    if "KAGGLE_KERNEL_RUN_TYPE" in os.environ:
        return "kaggle"
    # the folder is there in every Colab runtime, in a kernel that papermill started too
    colab = "COLAB_RELEASE_TAG" in os.environ or Path("/content/sample_data").is_dir()
    return "colab" if colab else "local"


def list_gpus() -> list[list[str]]:
    """List name, memory [MiB], compute capability, driver and UUID of each visible GPU, as the
    driver's tool prints them.

    Raises:
        HardwareError: there is a GPU, and its driver does not answer.
    """
    query = "name,memory.total,compute_cap,driver_version,uuid"
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        listed = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=60
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        if GPU_DEVICE.exists():
            raise HardwareError(
                f"this machine has a GPU, but nvidia-smi fails ({error}): repair or update "
                "its driver"
            ) from error
        return []
    gpus = [
        [field.strip() for field in line.split(",")]
        for line in listed.splitlines()
        if "," in line
    ]
    return _take_visible(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))


def _take_visible(gpus: list[list[str]], names: str | None) -> list[list[str]]:
    """Select the GPUs named in CUDA_VISIBLE_DEVICES, by number or by the beginning of a UUID, up to
    the first unknown name.

    A slice of a GPU (MIG) counts as one of its own, of unknown memory; slices are those of the
    first GPU here.
    """
    if names is None:
        return gpus
    visible = []
    for name in names.split(","):
        name = name.strip()
        if name.startswith("MIG-") and gpus:
            visible.append([f"{gpus[0][0]} MIG", "", *gpus[0][2:]])
            continue
        found = [gpu for number, gpu in enumerate(gpus) if name == str(number)]
        found = found or [gpu for gpu in gpus if name and gpu[-1].startswith(name)]
        if len(found) != 1:
            break
        visible += found
    return visible


def _number(field: str) -> float:
    """Convert a field of the driver's tool to a number; 0 if it does not apply."""
    try:
        return float(field)
    except ValueError:
        return 0.0


def _count_tpu_chips() -> int:
    """Count the chips by their device files, else by the runtime's type name, such as v5litepod-8,
    else one.
    """
    kind = os.environ.get(TPU_KIND, "")
    files = [
        path for path in Path("/dev").glob("accel*") if re.fullmatch(r"accel\d+", path.name)
    ]
    if kind and not files:  # a GPU handed through to a virtual machine has such files too
        files = [path for path in Path("/dev/vfio").glob("*") if path.name.isdigit()]
    named = re.search(r"-(\d+)$", kind)
    return len(files) or (
        int(named[1]) if named else int(bool(kind or "ISTPUVM" in os.environ))
    )
