"""Detect what a machine has, without importing a framework."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from dr_lib.errors import DrError
from dr_lib.hardware.cgroups import read_limit, read_memory, read_text
from dr_lib.hardware.cpus import count_cpus, find_cpu_model

BACKENDS = ("tensorflow", "jax")
DEVICES = Path("/dev")
TPU_KIND = "TPU_ACCELERATOR_TYPE"  # a variable of the cloud's TPU runtimes
# those of Colab, Kaggle and the cloud that say that a TPU is lent, with or without its type
TPU_VARIABLES = (
    TPU_KIND,
    *"ISTPUVM COLAB_TPU_ADDR COLAB_TPU_1VM TPU_NAME TPU_WORKER_ID".split(),
)


class HardwareError(DrError):
    """The machine lacks the requested hardware, or cannot be queried for its hardware."""


class Gpu(NamedTuple):
    """A GPU of NVIDIA that CUDA may use."""

    name: str
    memory_gib: float  # 0 where it shares the host's
    compute_capability: float
    driver: str
    uuid: str


class Facts(NamedTuple):
    """What a machine seems to have; `activate` verifies it."""

    platform: str  # kaggle, colab or local
    cpu: str  # model
    num_cpus: int  # that this process may use, rounded up
    memory_gib: float  # that this process may use
    gpus: tuple[str, ...]  # names of those that CUDA may use, in its order
    gpu_memory_gib: float  # of the smallest GPU
    compute_capability: float  # of the oldest GPU
    driver: str  # of the GPUs, or empty
    num_tpu_chips: int
    backends: tuple[str, ...]  # of tensorflow and jax, those installed
    tpu_kind: str = ""  # as the runtime names it, such as v5litepod-8
    cpu_quota: float = math.inf  # CPUs whose time a container grants
    gpu_error: str = ""  # why the GPUs of this machine cannot be used
    has_jax_cuda: bool = False  # whether JAX has its plugin for them

    def describe(self) -> dict[str, Any]:
        """Describe the machine in columns of a run's row."""
        names = ("platform", "cpu", "num_cpus", "memory_gib", "driver")
        columns = {name: getattr(self, name) for name in names}
        if math.isfinite(self.cpu_quota):
            columns["cpu_quota"] = self.cpu_quota
        return columns


def probe() -> Facts:
    """Collect the facts of this machine; no framework is imported.

    Example:
        >>> facts = probe()
        >>> facts.num_cpus > 0 and facts.memory_gib > 0
        True
    """
    gpus = []
    gpu_error = ""
    try:
        gpus = list_gpus()
    except HardwareError as error:  # raised where a GPU is wanted
        gpu_error = str(error)
    return Facts(
        platform=find_platform(),
        cpu=find_cpu_model(),
        num_cpus=count_cpus(),
        memory_gib=round(read_memory().total / 2**30, 1),
        gpus=tuple(gpu.name for gpu in gpus),
        gpu_memory_gib=min((gpu.memory_gib for gpu in gpus), default=0.0),
        compute_capability=min((gpu.compute_capability for gpu in gpus), default=0.0),
        driver=gpus[0].driver if gpus else "",
        num_tpu_chips=_count_tpu_chips(),
        backends=tuple(name for name in BACKENDS if importlib.util.find_spec(name)),
        tpu_kind=os.environ.get(TPU_KIND, ""),
        cpu_quota=read_limit("cpu.max")[0],
        gpu_error=gpu_error,
        has_jax_cuda=any(importlib.util.find_spec(f"jax_cuda{n}_plugin") for n in (12, 13)),
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

    boot_id = read_text(Path("/proc/sys/kernel/random/boot_id"))
    return boot_id.strip()[:13] or f"{psutil.boot_time():.0f}"


def find_platform() -> str:
    """Where this runs: kaggle, colab or local."""
    if "KAGGLE_KERNEL_RUN_TYPE" in os.environ:
        return "kaggle"
    # the folder is there in every Colab runtime, in a kernel that papermill started too
    colab = "COLAB_RELEASE_TAG" in os.environ or Path("/content/sample_data").is_dir()
    return "colab" if colab else "local"


def list_gpus() -> list[Gpu]:
    """List the GPUs that CUDA may use, in its order, which is set to that of the slots.

    Raises:
        HardwareError: there is a GPU, and its driver does not answer; or CUDA_VISIBLE_DEVICES does
            not name whole GPUs by their numbers.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip()
    if visible in ("", "-1"):
        return []
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    import pynvml

    try:
        pynvml.nvmlInit()
        gpus = [_read_gpu(pynvml, number) for number in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        # an image for GPUs has the library on any machine
        is_absent = isinstance(
            error, (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded)
        )
        if is_absent and not any(path.name[6:].isdigit() for path in DEVICES.glob("nvidia*")):
            return []
        raise HardwareError(
            f"this machine has a GPU, but its driver fails ({error}): repair or update it"
        ) from error
    if visible == "all":
        return gpus
    by_number = {str(number): gpu for number, gpu in enumerate(gpus)}
    numbers = [name.strip() for name in visible.split(",")]
    if not set(numbers) <= by_number.keys():
        raise HardwareError(
            f"CUDA_VISIBLE_DEVICES is {visible}: name whole GPUs by numbers below {len(gpus)}"
        )
    return list(map(by_number.get, numbers))


def _read_gpu(nvml: Any, number: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(number)
    with suppress(nvml.NVMLError):  # older GPUs have no slices
        if nvml.nvmlDeviceGetMigMode(handle)[0]:
            raise HardwareError(f"GPU {number} is divided into slices (MIG): take a whole GPU")
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    memory_gib = 0.0
    with suppress(nvml.NVMLError_NotSupported):
        memory_gib = round(nvml.nvmlDeviceGetMemoryInfo(handle).total / 2**30, 1)
    return Gpu(
        name=nvml.nvmlDeviceGetName(handle),
        memory_gib=memory_gib,
        compute_capability=float(f"{major}.{minor}"),
        driver=nvml.nvmlSystemGetDriverVersion(),
        uuid=nvml.nvmlDeviceGetUUID(handle),
    )


def _count_tpu_chips() -> int:
    """Count the chips by their device files, else by the runtime's type name, such as v5litepod-8,
    else one where the runtime says that a TPU is lent: `activate` refuses one that is not there.
    """
    is_lent = any(os.environ.get(name) for name in TPU_VARIABLES)
    files = [*DEVICES.glob("accel[0-9]*")]
    if is_lent and not files:  # a GPU handed through to a virtual machine has such files too
        files = [*DEVICES.glob("vfio/[0-9]*")]
    named = re.search(r"-(\d+)$", os.environ.get(TPU_KIND, ""))
    return len(files) or (int(named[1]) if named else int(is_lent))
