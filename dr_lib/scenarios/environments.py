"""Environments of frameworks that cannot share TensorFlow's: where they are, how they are made."""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from dr_lib.command import ROOT, write_command, write_install
from dr_lib.errors import DrError
from dr_lib.processes import read_last_words
from dr_lib.runs.run import UnavailableError
from dr_lib.scenarios.frameworks.program import PACKAGES

FOLDER = ROOT / ".environments"
READY = "ready"  # in an environment: it is complete


class Environment(NamedTuple):
    """What an environment is made of; its name is that of the module that computes."""

    packages: tuple[str, ...]
    packages_gpu: tuple[str, ...]  # in place of these on a machine with a GPU
    pythons: tuple[str, ...]  # versions that it runs on, the best first


PYTHONS = ("3.12", "3.11", "3.13")
TORCH = ("torch==2.13.0", "keras>=3.13")
CUDA_11_7 = (  # what mxnet-cu117 loads, and its wheel does not have
    "nvidia-cuda-runtime-cu11==11.7.99",
    "nvidia-cuda-nvrtc-cu11==11.7.99",
    "nvidia-cublas-cu11==11.10.3.66",
    "nvidia-cudnn-cu11==8.5.0.96",
    "nvidia-cufft-cu11==10.9.0.58",
    "nvidia-curand-cu11==10.2.10.91",
    "nvidia-cusolver-cu11==11.4.0.1",
    "nvidia-cusparse-cu11==11.7.4.91",
    "nvidia-nccl-cu11==2.14.3",
    "nvidia-nvtx-cu11==11.7.91",
)
ENVIRONMENTS = {
    # retired in 2023: the last release knows neither NumPy 2 nor Python 3.12
    "mxnet": Environment(
        ("mxnet==1.9.1", "numpy<1.24"),
        ("mxnet-cu117==1.9.1", "numpy<1.24", *CUDA_11_7),
        ("3.11", "3.10", "3.9"),
    ),
    "torch": Environment(TORCH, TORCH, PYTHONS),
    "jax": Environment(
        ("jax>=0.7", "keras>=3.13"), ("jax[cuda12]>=0.7", "keras>=3.13"), PYTHONS
    ),
}


def find_python(framework: str) -> str:
    """Find the Python of a framework's own environment, else this one if it has the framework.

    Raises:
        UnavailableError: there is none; the message says how to get one.
    """
    packages = PACKAGES[framework]
    name = packages[-1]
    if (FOLDER / name / READY).exists():
        return str(FOLDER / name / "bin" / "python")
    if all(map(find_spec, packages)):
        return sys.executable
    advice = write_install(name)
    if name in ENVIRONMENTS:
        advice = f"{write_command('environments', name)} sets it up or explains why it cannot"
    raise UnavailableError(f"no environment for {framework}: {advice}")


def set_up(name: str, *, has_gpu: bool) -> str:
    """Set up an environment in FOLDER, unless it exists or this Python has the framework.

    Args:
        name: of ENVIRONMENTS.
        has_gpu: take the builds that drive an NVIDIA one.

    Returns:
        What it is in one line, or that this machine has no Python for it.

    Raises:
        DrError: there is no such environment, or its packages do not install.
    """
    if name not in ENVIRONMENTS:
        raise DrError(f"no environment {name!r}: choose from {', '.join(ENVIRONMENTS)}")
    environment = ENVIRONMENTS[name]
    folder = FOLDER / name
    python = str(folder / "bin" / "python")
    is_ready = (folder / READY).exists()
    if find_spec(name) and not is_ready:
        python = sys.executable
    elif not is_ready:
        base = next(filter(None, map(_find_python, environment.pythons)), "")
        if not base:  # nothing to be done here: its scenarios are skipped
            versions = ", ".join(environment.pythons)
            return f"not possible: this machine has no Python {versions}, which it needs"
        packages = environment.packages_gpu if has_gpu else environment.packages
        _call(base, "-m", "venv", "--clear", str(folder))
        _call(python, "-m", "pip", "install", "--quiet", *packages)
        (folder / READY).touch()
    version = "m.__name__, m.__version__, '/ Python', sys.version.split()[0]"
    return _call(python, "-c", f"import sys, {name} as m; print({version})").splitlines()[-1]


def _find_python(version: str) -> str:
    """Find a Python of that version and check that it starts: a name on the path may be a shim."""
    if sys.version.startswith(f"{version}."):
        return sys.executable
    python = shutil.which(f"python{version}") or ""
    try:
        return python and _call(
            python, "-c", "import sys, venv, ensurepip; print(sys.executable)"
        )
    except DrError:
        return ""


def _call(*command: str) -> str:
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        printed = process.stderr or process.stdout
        errors = [line for line in printed.splitlines() if "error" in line.lower()]
        reason = read_last_words("\n".join(errors) or printed)
        raise DrError(f"{Path(command[0]).name} {' '.join(command[1:4])} ...: {reason}")
    return process.stdout.strip()
