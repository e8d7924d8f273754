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
    pythons = ENVIRONMENTS[name].pythons
    python = str(FOLDER / name / "bin" / "python")
    if not (FOLDER / name / READY).exists():
        if find_spec(name):
            python = sys.executable
        elif base := next(filter(None, map(_find_python, pythons)), ""):
            _make(base, name, has_gpu)
        else:  # nothing to be done here: its scenarios are skipped
            versions = ", ".join(pythons)
            return (
                f"not possible: it needs Python {versions}, and this machine has none of them"
            )
    version = "m.__name__, m.__version__, '/ Python', sys.version.split()[0]"
    return _call(python, "-c", f"import sys, {name} as m; print({version})").splitlines()[-1]


def add_cuda() -> str:
    """Install the CUDA libraries that fit this Python's TensorFlow, unless it already lists a GPU.

    Returns:
        What it is in one line.

    Raises:
        DrError: they do not install, or it lists none with them.
    """
    version, num_gpus = _ask_tensorflow()
    if not num_gpus:
        package = f"tensorflow[and-cuda]=={version}"
        _call(sys.executable, "-m", "pip", "install", "--quiet", package)
        version, num_gpus = _ask_tensorflow()
    if not num_gpus:
        raise DrError(
            f"tensorflow {version} lists no GPU: check that the driver is new enough for its CUDA"
        )
    return f"tensorflow {version} lists {num_gpus} GPU"


def _ask_tensorflow() -> tuple[str, int]:
    """Ask a new process for TensorFlow's version and the number of GPUs that it lists."""
    listed = "len(tf.config.list_physical_devices('GPU'))"
    code = f"import tensorflow as tf; print(tf.__version__, {listed})"
    version, number = _call(sys.executable, "-c", code).splitlines()[-1].split()
    return version, int(number)


def _make(base: str, name: str, has_gpu: bool) -> None:
    """Install an environment's packages into a new folder."""
    environment = ENVIRONMENTS[name]
    packages = environment.packages_gpu if has_gpu else environment.packages
    folder = FOLDER / name
    try:
        _call(base, "-m", "venv", "--clear", str(folder))
        _call(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages)
        (folder / READY).touch()
    except DrError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


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
