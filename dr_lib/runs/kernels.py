"""Jupyter kernels for frameworks that do not live beside TensorFlow: an environment each, set up
once.
"""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

SUPPORT = ("ipykernel", "psutil", "nvidia-ml-py")  # what notebook 30 needs beside the framework


class KernelError(RuntimeError):
    """A kernel cannot be set up; the message says why."""


class NoPythonError(KernelError):
    """This machine has no Python that the kernel runs on."""


class Kernel(NamedTuple):
    """What a kernel is made of."""

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
        ("jax", "keras"), ("jax>=0.7", "keras>=3.13"), ("jax[cuda12]>=0.7", "keras>=3.13"), PYTHONS
    ),
}


def set_up(name: str, folder: Path, *, has_gpu: bool) -> str:
    """Set a kernel up for this Python's Jupyter, unless it is there and works; say what it is in
    one line.

    Its environment goes to a folder of its name in `folder`, with a GPU the builds that drive an
    NVIDIA one.

    Raises:
        KernelError: there is no such kernel, no Python that it runs on, or its packages do not
            install.
    """
    if name not in KERNELS:
        raise KernelError(f"no kernel {name!r}: choose from {', '.join(KERNELS)}")
    kernel = KERNELS[name]
    python = find_kernel(name)
    if not python:
        is_here = all(map(importlib.util.find_spec, kernel.modules))
        python = (
            sys.executable if is_here else _make_environment(name, kernel, folder / name, has_gpu)
        )
        _call(
            [
                python,
                "-m",
                "ipykernel",
                "install",
                "--prefix",
                sys.prefix,
                "--name",
                name,
                "--display-name",
                name,
            ]
        )
    code = (
        f"import sys, {kernel.modules[0]} as m; print(m.__name__, m.__version__, '/ Python',"
        " sys.version.split()[0])"
    )
    return _call([python, "-c", code]).splitlines()[-1]


def find_kernel(name: str) -> str:
    """The Python of a kernel that is set up; empty if there is none."""
    try:
        return shutil.which(KernelSpecManager().get_kernel_spec(name).argv[0]) or ""
    except NoSuchKernel:
        return ""


def _make_environment(name: str, kernel: Kernel, folder: Path, has_gpu: bool) -> str:
    base = next(filter(None, map(_find_python, kernel.pythons)), "")
    if not base:
        versions = ", ".join(sorted(kernel.pythons, key=lambda version: int(version.split(".")[1])))
        raise NoPythonError(f"{name} needs Python {versions}, and this machine has none of them")
    python = str(folder / "bin" / "python")
    packages = kernel.packages_gpu if has_gpu else kernel.packages
    try:
        _call([base, "-m", "venv", "--clear", str(folder)])
        _call(
            [
                python,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                *packages,
                *SUPPORT,
            ]
        )
    except KernelError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return python


def _find_python(version: str) -> str:
    """A Python of that version that starts: a name on the path may be a shim with nothing behind
    it.
    """
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    python = shutil.which(f"python{version}") or ""
    works = (
        python
        and not subprocess.run(
            [python, "-c", "import venv, ensurepip"], capture_output=True
        ).returncode
    )
    return python if works else ""


def _call(command: list[str]) -> str:
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        lines = [
            line for line in (process.stderr or process.stdout).splitlines() if line.strip()
        ] or ["no message"]
        errors = [line for line in lines if "error" in line.lower()] or lines
        raise KernelError(
            f"{Path(command[0]).name} {' '.join(command[1:4])} ...: {errors[-1].strip()}"
        )
    return process.stdout.strip()
