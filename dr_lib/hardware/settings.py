"""Settings of the environment that change what is timed."""

from __future__ import annotations

import hashlib
import os

# of XLA, TensorFlow, JAX, libtpu, cuBLAS and the pools of threads
VARIABLES = (
    "XLA_FLAGS TF_XLA_FLAGS TF_ENABLE_ONEDNN_OPTS TF_CUDNN_USE_AUTOTUNE TF_DETERMINISTIC_OPS"
    " TF_GPU_THREAD_MODE TF_NUM_INTRAOP_THREADS TF_NUM_INTEROP_THREADS JAX_ENABLE_X64"
    " JAX_DEFAULT_MATMUL_PRECISION LIBTPU_INIT_ARGS NVIDIA_TF32_OVERRIDE NCCL_P2P_DISABLE"
    " OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS NPROC"
).split()
OWN: dict[str, str] = {}  # variables that this process has set as planned, and their values


def describe_settings() -> str:
    """Describe what somebody set that changes times: the names, and a hash of the values.

    Returns:
        Such as `TF_NUM_INTRAOP_THREADS, XLA_FLAGS: 3fa2b1c09d8e`; none without any. Values may be
        paths, so they are never shown.
    """
    found = {name: os.environ.get(name, "") for name in VARIABLES}
    settings = {
        name: value for name, value in found.items() if value not in ("", OWN.get(name))
    }
    if not settings:
        return "none"
    digits = hashlib.sha256(repr(settings).encode()).hexdigest()[:12]
    return f"{', '.join(settings)}: {digits}"
