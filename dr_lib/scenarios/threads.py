"""Give every framework the same number of threads; unpinned, each chooses its own number."""

from __future__ import annotations

import os

from dr_lib.hardware.cpus import count_cpus
from dr_lib.hardware.settings import OWN


def pin(threads: int) -> int:
    """Pin this process and those that it starts to a number of CPUs, and tell their frameworks.

    A framework sizes its pools once, when it starts, from these variables or from the CPUs it may
    use. Where the system has no affinity (macOS, Windows) the variables alone have to do.

    Args:
        threads: number of CPUs, or 0 for all that the process may use.

    Returns:
        The number pinned.
    """
    has_affinity = hasattr(os, "sched_getaffinity")
    allowed = sorted(os.sched_getaffinity(0)) if has_affinity else range(count_cpus())
    cpus = allowed[: count_cpus()]
    if not 0 <= threads <= len(cpus):
        raise RuntimeError(
            f"threads {threads}: this process may use {len(cpus)} CPUs, choose 1 to "
            f"{len(cpus)}, or 0"
        )
    threads = threads or len(cpus)
    if has_affinity:
        # the calling thread's, which what it starts inherits
        os.sched_setaffinity(0, cpus[:threads])
    numbers = {
        "OMP_NUM_THREADS": str(threads),  # PyTorch and MXNet
        "MKL_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "TF_NUM_INTRAOP_THREADS": str(threads),
        "TF_NUM_INTEROP_THREADS": str(threads),
        "NPROC": str(threads),  # JAX
        "MXNET_CPU_WORKER_NTHREADS": "1",  # operators at a time, each has all the threads
    }
    os.environ.update(numbers)
    OWN.update(numbers)
    return threads
