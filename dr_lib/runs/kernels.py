"""Jupyter kernels for frameworks that do not live beside TensorFlow: an environment each, set up once."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from jupyter_client.kernelspec import KernelSpecManager

SUPPORT = ("ipykernel", "psutil", "nvidia-ml-py")  # what notebook 30 needs beside the framework


class KernelError(RuntimeError):
    """A kernel cannot be set up; the message says why."""


class NoPythonError(KernelError):
    """This machine has no Python that the kernel runs on."""


class Kernel(NamedTuple):
    """What a kernel is made of."""

    modules: tuple[str, ...]  # where this Python has them all, the kernel is this Python
    packages: tuple[str, ...]
    packages_gpu: tuple[str, ...]  # on a machine with a GPU
    pythons: tuple[str, ...]  # versions it runs on, the best first


KERNELS = {
    "dr-mxnet": Kernel(  # retired in 2023: the last release knows neither NumPy 2 nor Python 3.12
        ("mxnet",), ("mxnet==1.9.1", "numpy<1.24"), ("mxnet-cu117==1.9.1", "numpy<1.24"), ("3.11", "3.10", "3.9")
    ),
    "dr-torch": Kernel(
        ("torch", "keras"), ("torch==2.13.0", "keras>=3.13"), ("torch==2.13.0", "keras>=3.13"), ("3.12", "3.11", "3.13")
    ),
    "dr-jax": Kernel(
        ("jax", "keras"), ("jax>=0.7", "keras>=3.13"), ("jax[cuda12]>=0.7", "keras>=3.13"), ("3.12", "3.11", "3.13")
    ),
}


def set_up(name: str, folder: Path, *, has_gpu: bool) -> str:
    """Set a kernel up for this Python's Jupyter, unless it is there and works; say what it is in one line.

    Args:
        name: one of `KERNELS`.
        folder: where the environments lie.
        has_gpu: take the builds that drive an NVIDIA GPU.

    Raises:
        KernelError: there is no such kernel, no Python that it runs on, or its packages do not install.
    """
    if name not in KERNELS:
        raise KernelError(f"no kernel {name!r}: choose from {', '.join(KERNELS)}")
    kernel = KERNELS[name]
    python = find_kernel(name)
    if not python and all(map(importlib.util.find_spec, kernel.modules)):
        python = sys.executable
        _register(name, python)
    elif not python:
        python = _make_environment(name, kernel, folder / name, has_gpu)
        _register(name, python)
    code = f"import sys, {kernel.modules[0]} as m; print(m.__name__, m.__version__, '/ Python', sys.version.split()[0])"
    return _call([python, "-c", code]).splitlines()[-1]


def find_kernel(name: str) -> str:
    """The Python of a kernel that is set up; empty if there is none."""
    specs = KernelSpecManager().find_kernel_specs()
    if name not in specs:
        return ""
    python = json.loads((Path(specs[name]) / "kernel.json").read_text())["argv"][0]
    return python if shutil.which(python) else ""


def _make_environment(name: str, kernel: Kernel, folder: Path, has_gpu: bool) -> str:
    base = next(filter(None, map(_find_python, kernel.pythons)), "")
    if not base:
        needed = ", ".join(sorted(kernel.pythons, key=lambda version: int(version.split(".")[1])))
        raise NoPythonError(f"{name} needs Python {needed}, and this machine has none of them")
    python = folder / "bin" / "python"
    packages = kernel.packages_gpu if has_gpu else kernel.packages
    try:
        _call([base, "-m", "venv", "--clear", str(folder)])
        _call([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages, *SUPPORT])
    except KernelError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return str(python)


def _find_python(version: str) -> str:
    """A Python of that version that starts: a name on the path may be a shim with nothing behind it."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    found = shutil.which(f"python{version}") or ""
    works = found and not subprocess.run([found, "-c", "import venv, ensurepip"], capture_output=True).returncode
    return found if works else ""


def _register(name: str, python: str) -> None:
    """Tell the Jupyter of this Python of the kernel."""
    folder = Path(sys.prefix) / "share" / "jupyter" / "kernels" / name
    folder.mkdir(parents=True, exist_ok=True)
    argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (folder / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": name, "language": "python"}))


def _call(command: list[str]) -> str:
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        said = [line for line in (ran.stderr or ran.stdout).splitlines() if line.strip()] or ["nothing said"]
        told = [line for line in said if "error" in line.lower()] or said
        raise KernelError(f"{Path(command[0]).name} {' '.join(command[1:4])} ...: {told[-1].strip()}")
    return ran.stdout.strip()
