"""What a machine has, found without importing a framework."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

BACKENDS = ("tensorflow", "jax")
GPU_DEVICE = Path("/dev/nvidia0")


class HardwareError(RuntimeError):
    """The machine does not have what was asked for, or does not say what it has."""


class Facts(NamedTuple):
    """What a machine has, found without importing a framework; hints, which `activate` checks."""

    platform: str  # kaggle, colab or local
    cpu: str  # model
    num_cpus: int
    memory_gib: float
    gpus: tuple[str, ...]  # names, as the driver lists them
    gpu_memory_gib: float  # of the smallest GPU
    compute_capability: float  # of the oldest GPU
    driver: str  # of the GPUs, or empty
    num_tpu_chips: int
    backends: tuple[str, ...]  # of tensorflow and jax, those installed
    tensorflow_tpu: bool  # the build of TensorFlow that drives a TPU is installed


def probe() -> Facts:
    """Collect the facts of this machine; neither a framework nor a driver's library is imported.

    Raises:
        HardwareError: there is a GPU, and its driver does not answer.
    """
    import psutil

    gpus = _list_gpus()
    return Facts(
        platform=find_platform(),
        cpu=_cpu_model(),
        num_cpus=count_cores(),
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        gpus=tuple(name for name, *_ in gpus),
        gpu_memory_gib=min((round(_number(mib) / 1024, 1) for _, mib, *_ in gpus), default=0.0),
        compute_capability=min((_number(capability) for *_, capability, _ in gpus), default=0.0),
        driver=gpus[0][-1] if gpus else "",
        num_tpu_chips=_count_tpu_chips(),
        backends=tuple(name for name in BACKENDS if importlib.util.find_spec(name)),
        tensorflow_tpu=bool(read_version("tensorflow-tpu")),
    )


def count_cores() -> int:
    """The cores that this process may use, which a scheduler may have limited."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_version(package: str) -> str:
    """The installed version of a package; empty where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def find_platform() -> str:
    """Where this runs: kaggle, colab or local."""
    if "KAGGLE_KERNEL_RUN_TYPE" in os.environ:
        return "kaggle"
    # the folder is there in every Colab runtime, in a kernel that papermill started too
    colab = "COLAB_RELEASE_TAG" in os.environ or Path("/content/sample_data").is_dir()
    return "colab" if colab else "local"


def _list_gpus() -> list[list[str]]:
    """Name, memory [MiB], compute capability and driver of each GPU, from the tool that comes with the driver."""
    query = "name,memory.total,compute_cap,driver_version"
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError) as error:
        if GPU_DEVICE.exists():
            raise HardwareError(f"a GPU is here and nvidia-smi fails ({error}): repair or update its driver") from error
        return []
    return [[field.strip() for field in line.split(",")] for line in listed.splitlines() if line.strip()]


def _number(field: str) -> float:
    """A field of the driver's tool; 0 where it says that it does not apply."""
    try:
        return float(field)
    except ValueError:
        return 0.0


def _count_tpu_chips() -> int:
    """Chips by their device files, else by the name that the runtime gives, such as v5litepod-8, else one."""
    kind = os.environ.get("TPU_ACCELERATOR_TYPE", "")
    files = [path for path in Path("/dev").glob("accel*") if re.fullmatch(r"accel\d+", path.name)]
    if kind and not files:  # a GPU handed through to a virtual machine has such files too
        files = [path for path in Path("/dev/vfio").glob("*") if path.name.isdigit()]
    named = re.search(r"-(\d+)$", kind)
    return len(files) or (int(named[1]) if named else int(bool(kind or "ISTPUVM" in os.environ)))


def _cpu_model() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())
