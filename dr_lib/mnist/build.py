"""Find the device and a compiler, build mnist_cnn.cu for it once, and load it."""

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from dr_lib.errors import DrError
from dr_lib.hardware.cgroups import read_text
from dr_lib.hardware.facts import HardwareError, list_gpus

SOURCE = Path(__file__).with_name("mnist_cnn.cu")


class Library:
    """The built kernels on an initialised device, for the functions of `mnist`."""

    def __init__(self, path: Path, kind: str):
        """Load a built library of kind gpu or cpu and initialise its device."""
        self.path = path
        self.kind = kind
        self.device = kind
        try:
            self._functions = ctypes.CDLL(str(path))
        except OSError as error:
            raise DrError(
                f"{path} cannot be loaded ({error}): delete it to have it built again; if "
                "its disk executes nothing, set XDG_CACHE_HOME to a folder of another"
            ) from error
        self._functions.cnn_message.restype = ctypes.c_char_p
        name = ctypes.create_string_buffer(256)
        self.call("cnn_open", name, len(name))
        self.device = name.value.decode() or "cpu"

    def call(self, function: str, *arguments: Any) -> None:
        """Call a C function that returns a status; arrays must be contiguous.

        Raises:
            HardwareError: there is no usable GPU.
        """
        status = getattr(self._functions, function)(*map(_convert, arguments))
        if not status:
            return
        fault = f"{self.device}: {self._functions.cnn_message().decode(errors='replace')}"
        if status == 1:
            raise DrError(fault)
        advice = "update the driver, use an older CUDA toolkit, or build('cpu')"
        raise HardwareError(f"{fault}: {advice}")


def build(device: str = "auto") -> Library:
    """Build the network for this machine at first use, and load it.

    Args:
        device: gpu, cpu, or auto: the GPU where there is one, else the CPU.

    Returns:
        The library; it lies in the folder dr_lib of the user's cache (XDG_CACHE_HOME), and is built
        again only if source, flags, compiler or processor change.

    Raises:
        HardwareError: there is no such device, its driver does not answer, or there is no compiler.
    """
    if device not in ("auto", "gpu", "cpu"):
        raise ValueError(f"device {device!r}: choose from auto, gpu and cpu")
    gpus = [] if device == "cpu" else list_gpus()
    capabilities = {f"{10 * gpu.compute_capability:.0f}" for gpu in gpus}
    if capabilities:
        nvcc = find_nvcc()
        if nvcc is None:
            raise HardwareError(
                "there is a GPU but no nvcc: install the CUDA toolkit or nvidia-cuda-nvcc,"
                " nvidia-cuda-runtime and nvidia-cuda-cccl, or build('cpu')"
            )
        return Library(build_gpu(nvcc, capabilities), "gpu")
    if device == "gpu":
        raise HardwareError(
            "this machine has no NVIDIA GPU: choose a runtime with one, or build('cpu')"
        )
    compiler = shutil.which(os.environ.get("CXX") or "c++")
    if compiler is None:
        raise HardwareError(
            "this machine has no C++ compiler (c++): install one, or name it in CXX"
        )
    flags = "-O3 -x c++ -std=c++17 -shared -fPIC -fno-math-errno -march=native"
    return Library(_compile([compiler, *flags.split()]), "cpu")


def build_gpu(nvcc: str, capabilities: set[str]) -> Path:
    """Compile for GPUs of the given compute capabilities, such as {"75", "90"}; no GPU is needed.

    It is machine code for each, so that no driver has to translate PTX.
    """
    targets = [f"-gencode=arch=compute_{c},code=sm_{c}" for c in sorted(capabilities)]
    flags = "-O3 -std=c++17 -shared -Xcompiler -fPIC -cudart static"
    return _compile([nvcc, *flags.split(), *targets])


def find_nvcc() -> str | None:
    """Find the CUDA compiler on the path, in a toolkit or in the Python package."""
    packages = Path(np.__file__).parents[1]
    installed = sorted(map(str, packages.glob("nvidia/*/bin")), reverse=True)
    folders = [os.environ.get("PATH", os.defpath), "/usr/local/cuda/bin", *installed]
    return shutil.which("nvcc", path=os.pathsep.join(folders))


def _compile(command: list[str]) -> Path:
    """Build the library, or find the one that this command has built."""
    cpu = re.findall(r"(?m)^(?:flags|Features).*", read_text(Path("/proc/cpuinfo")))[:1]
    key = hashlib.sha256(repr((command, _run([command[0], "--version"]), cpu)).encode())
    for path in sorted(SOURCE.parent.glob("*.cu*")):
        key.update(path.read_bytes())
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dr_lib"
    library = folder / f"mnist_cnn-{key.hexdigest()[:20]}.so"
    if library.is_file():
        return library
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # built beside its place and then renamed: another process sees all of it or nothing
        with tempfile.TemporaryDirectory(dir=folder) as made:
            built = Path(made, "library.so")
            _run([*command, str(SOURCE), "-o", str(built)])
            built.replace(library)
    except OSError as error:
        message = f"{folder} cannot be written ({error}): set XDG_CACHE_HOME to another folder"
        raise DrError(message) from error
    return library


def _run(command: list[str]) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        raise DrError(f"{command[0]} does not run ({error}): repair or replace it") from error
    if result.returncode:
        output = result.stderr.strip()[:1500]  # the first error is to be mended
        raise DrError(f"{' '.join(command)}\nfailed with status {result.returncode}: {output}")
    return result.stdout


def _convert(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    return ctypes.c_float(argument) if isinstance(argument, float) else argument
