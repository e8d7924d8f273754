"""Jupyter kernels for frameworks that cannot share TensorFlow's environment: each has its own."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

from dr_lib.errors import DrError
from dr_lib.processes import read_last_words


class KernelError(DrError):
    """A kernel cannot be set up; the message says why."""


class Kernel(NamedTuple):
    """The definition of a kernel."""

    modules: tuple[str, ...]  # where this Python has them all, the kernel is this Python
    packages: tuple[str, ...]
    packages_gpu: tuple[str, ...]  # in place of these on a machine with a GPU
    pythons: tuple[str, ...]  # versions that it runs on, the best first


PYTHONS = ("3.12", "3.11", "3.13")
TORCH = ("torch==2.13.0", "keras>=3.13")
KERNELS = {
    # retired in 2023: the last release knows neither NumPy 2 nor Python 3.12
    "dr-mxnet": Kernel(
        ("mxnet",),
        ("mxnet==1.9.1", "numpy<1.24"),
        ("mxnet-cu117==1.9.1", "numpy<1.24"),
        ("3.11", "3.10", "3.9"),
    ),
    "dr-torch": Kernel(("torch", "keras"), TORCH, TORCH, PYTHONS),
    "dr-jax": Kernel(
        ("jax", "keras"),
        ("jax>=0.7", "keras>=3.13"),
        ("jax[cuda12]>=0.7", "keras>=3.13"),
        PYTHONS,
    ),
}


def set_up(name: str, folder: Path, *, has_gpu: bool) -> str:
    """Set up a kernel for this Python's Jupyter, unless it exists and works.

    Args:
        name: of KERNELS.
        folder: gets its environment, in a folder of its name.
        has_gpu: take the builds that drive an NVIDIA one.

    Returns:
        What it is in one line, or that this machine has no Python for it.

    Raises:
        KernelError: there is no such kernel, or its packages do not install.
    """
    if name not in KERNELS:
        raise KernelError(f"no kernel {name!r}: choose from {', '.join(KERNELS)}")
    kernel = KERNELS[name]
    python = find_kernel(name)
    if not python:
        python = sys.executable
        if not all(map(importlib.util.find_spec, kernel.modules)):
            base = next(filter(None, map(_find_python, kernel.pythons)), "")
            if not base:  # nothing to be done here: its scenarios are skipped
                versions = ", ".join(kernel.pythons)
                return (
                    f"not possible: it needs Python {versions}, and this machine has none of "
                    "them"
                )
            python = _make_environment(base, kernel, folder / name, has_gpu)
        install = ["ipykernel", "install", "--prefix", sys.prefix]
        _call(python, "-m", *install, "--name", name, "--display-name", name)
    module = kernel.modules[0]
    version = "m.__name__, m.__version__, '/ Python', sys.version.split()[0]"
    return _call(python, "-c", f"import sys, {module} as m; print({version})").splitlines()[-1]


def add_cuda() -> str:
    """Install the CUDA libraries that fit this Python's TensorFlow, unless it already lists a GPU.

    Returns:
        What it is in one line.

    Raises:
        KernelError: they do not install, or it lists none with them.
    """
    version, num_gpus = _ask_tensorflow()
    if not num_gpus:
        package = f"tensorflow[and-cuda]=={version}"
        _call(sys.executable, "-m", "pip", "install", "--quiet", package)
        version, num_gpus = _ask_tensorflow()
    if not num_gpus:
        raise KernelError(
            f"tensorflow {version} lists no GPU: check that the driver is new enough for its CUDA"
        )
    return f"tensorflow {version} lists {num_gpus} GPU"


def find_kernel(name: str) -> str:
    """Find the Python of an installed kernel; empty if there is none."""
    try:
        return shutil.which(KernelSpecManager().get_kernel_spec(name).argv[0]) or ""
    except NoSuchKernel:
        return ""


def _ask_tensorflow() -> tuple[str, int]:
    """Ask a new process for TensorFlow's version and the number of GPUs that it lists."""
    listed = "len(tf.config.list_physical_devices('GPU'))"
    code = f"import tensorflow as tf; print(tf.__version__, {listed})"
    version, number = _call(sys.executable, "-c", code).splitlines()[-1].split()
    return version, int(number)


def _make_environment(base: str, kernel: Kernel, folder: Path, has_gpu: bool) -> str:
    """Install a kernel's packages into a new environment; return its Python."""
    python = str(folder / "bin" / "python")
    packages = kernel.packages_gpu if has_gpu else kernel.packages
    support = ("ipykernel", "psutil", "nvidia-ml-py")  # what notebook 30 needs beside them
    try:
        _call(base, "-m", "venv", "--clear", str(folder))
        _call(python, "-m", "pip", "install", "--quiet", *packages, *support)
    except KernelError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return python


def _find_python(version: str) -> str:
    """Find a Python of that version and check that it starts: a name on the path may be a shim."""
    if sys.version.startswith(f"{version}."):
        return sys.executable
    python = shutil.which(f"python{version}") or ""
    try:
        return python and _call(
            python, "-c", "import sys, venv, ensurepip; print(sys.executable)"
        )
    except KernelError:
        return ""


def _call(*command: str) -> str:
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        printed = process.stderr or process.stdout
        errors = [line for line in printed.splitlines() if "error" in line.lower()]
        reason = read_last_words("\n".join(errors) or printed)
        raise KernelError(f"{Path(command[0]).name} {' '.join(command[1:4])} ...: {reason}")
    return process.stdout.strip()
