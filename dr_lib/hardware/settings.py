"""Settings of the environment that change what is timed: those that somebody set, and our own."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from dr_lib.hardware.cgroups import read_text
from dr_lib.hardware.cpus import count_cpus
from dr_lib.hardware.facts import find_platform

# variables of TensorFlow, XLA, JAX, PyTorch, MXNet, their thread pools, OpenCV and NVIDIA
FAMILIES = re.compile(
    "(TF|XLA|JAX|PJRT|TORCH|PYTORCH|ATEN|MXNET|DNNL|ONEDNN|OMP|GOMP|KMP|MKL|OPENBLAS|GOTO|BLIS"
    "|VECLIB|OPENCV|NVIDIA|CUDA|CUDNN|CUBLAS|NCCL)_|LIBTPU_INIT_ARGS|NPROC$"
)
# what changes no time, picks devices or machines, or describes an image; Terraform's TF_ too
HARMLESS = re.compile(
    r"\w*(LOG|VERBOS)\w*|NCCL_DEBUG\w*|\w+_VERSION(_\w+)?|\w+_VISIBLE_DEVICES|CUDA_DEVICE_ORDER"
    r"|(CUDA|CUDNN|NCCL|MKL|OPENBLAS|OPENCV|TORCH)_(\w+_)?(HOME|ROOT|BASE|(DIR|PATH|INC|LIB)\w*)"
    r"|NVIDIA_(DRIVER|REQUIRE|DISABLE|PRODUCT|BUILD|MIG)\w*"
    r"|JAX_(PLATFORMS?(_NAME)?|COORDINATOR\w*|PROCESS\w*|NUM_PROCESSES)"
    r"|KMP_(DUPLICATE_LIB_OK|INIT_AT_FORK)|MKL_THREADING_LAYER|TF_FORCE_GPU_ALLOW_GROWTH|TF_CONFIG"
    r"|TF_(CLI|VAR|DATA_DIR|PLUGIN|INPUT|WORKSPACE|TOKEN|IN_AUTO|REGISTRY|STATE|REATTACH)\w*"
)
OWN: dict[str, str] = {}  # variables that this process has set as planned, and their values


def describe_settings(image: Path = Path("/proc/1/environ")) -> str:
    """Describe what somebody set that changes times: the names, and a hash of the values.

    Numbers of threads that are those of all CPUs change nothing. On Colab and Kaggle the runtime's
    image sets some for everybody: those of its first process.

    Returns:
        Such as `TF_NUM_INTRAOP_THREADS, XLA_FLAGS: 3fa2b1c09d8e`; none without any. Values may be
        secrets or paths, so they are never shown.
    """
    shipped = [] if find_platform() == "local" else read_text(image).split("\0")
    settings = []
    for name, value in sorted(os.environ.items()):
        is_number = re.fullmatch(
            r"\w+_(NUM|MAX)_THREADS|TF_NUM_INT(RA|ER)OP_THREADS|NPROC", name
        )
        is_whole = is_number and value == str(count_cpus())
        is_ours = OWN.get(name) == value or f"{name}={value}" in shipped
        if (
            value
            and FAMILIES.match(name)
            and not (HARMLESS.fullmatch(name) or is_whole or is_ours)
        ):
            settings.append((name, value))
    if not settings:
        return "none"
    digits = hashlib.sha256(repr(settings).encode()).hexdigest()[:12]
    return f"{', '.join(name for name, _ in settings)}: {digits}"
