"""Find the device and a compiler, build mnist_cnn.cu for it once, and load it."""

import ctypes
import hashlib
import os
import re
import shutil
import site
import subprocess
import tempfile
from pathlib import Path

from dr_lib.hardware.cpus import find_cpu_model, read_text
from dr_lib.hardware.facts import HardwareError, list_gpus

SOURCE = Path(__file__).with_name("mnist_cnn.cu")
GPU_FLAGS = ("-O3", "-std=c++17", "-shared", "-Xcompiler", "-fPIC", "-cudart", "static")
CPU_FLAGS = ("-O3", "-x", "c++", "-std=c++17", "-shared", "-fPIC", "-fno-math-errno")
# flags that not every compiler has: Apple's lacks OpenMP (then one core trains one replica after
# another)
CPU_EXTRAS = ("-march=native", "-fopenmp")


class CudaError(RuntimeError):
    """The device or the library cannot do what was asked; the message says what to change."""


class NoCompilerError(CudaError):
    """There is no compiler for the device."""


class NoDeviceError(CudaError):
    """There is no GPU, or its driver does not answer or is too old."""


class BuildError(CudaError):
    """The compiler fails, or what it made cannot be kept or loaded."""


class Library:
    """The built kernels on a device that is awake; the functions of `mnist` take it."""

    def __init__(self, path: Path, kind: str):
        """Load a built library, of kind gpu or cpu, and wake its device.

        Raises:
            BuildError: it cannot be loaded.
            NoDeviceError: the GPU's driver is too old or shows no GPU.
            CudaError: the device does not start.
        """
        self.path, self.kind, self.device = path, kind, f"the {kind.upper()}"
        try:
            self._functions = ctypes.CDLL(str(path))
        except OSError as error:
            raise BuildError(
                f"{path} cannot be loaded ({error}): delete it, and it is built again"
            ) from error
        self._functions.cnn_message.restype = ctypes.c_char_p
        name = ctypes.create_string_buffer(256)
        number = ctypes.c_int()
        self.call("cnn_open", name, len(name), ctypes.byref(number))
        self.device = name.value.decode() or find_cpu_model()
        self.num_multiprocessors = number.value  # cores, on a CPU

    def call(self, function: str, *arguments) -> None:
        """Call a C function that returns a status.

        Raises:
            NoDeviceError: there is no usable GPU.
            CudaError: anything else that the function reports, such as too little memory.
        """
        status = getattr(self._functions, function)(*arguments)
        if not status:
            return
        message = f"{self.device}: {self._functions.cnn_message().decode(errors='replace')}"
        if status == 2:
            raise CudaError(
                f"{message}: take fewer replicas, epochs or images, or free the device's memory"
            )
        if status == 3:
            raise NoDeviceError(
                f"{message}: update the driver, take an older CUDA toolkit, or build('cpu')"
            )
        raise CudaError(message)


def build(device: str = "auto") -> Library:
    """Build the network for this machine at first use, and load it.

    Args:
        device: gpu, cpu, or auto: the GPU where there is one and nvcc, else the CPU.

    Returns:
        The library; it lies in the folder dr_lib of the user's cache (XDG_CACHE_HOME), and is built
        again only if source, flags, compiler or processor change.

    Raises:
        NoDeviceError: gpu, and there is none, or a driver that does not answer.
        NoCompilerError: there is no compiler for the device.
        BuildError: the compiler fails, does not know the GPU, or the cache folder cannot be
            written.
        ValueError: there is no such device.
    """
    if device not in ("auto", "gpu", "cpu"):
        raise ValueError(f"device {device!r}: there are auto, gpu and cpu")
    if device != "cpu":
        try:
            known = [capability for _, _, capability, *_ in list_gpus()]
        except HardwareError as error:
            raise NoDeviceError(f"{error}, or build('cpu')") from error
        capabilities = {name.replace(".", "") for name in known if re.fullmatch(r"\d+\.\d", name)}
        nvcc = find_nvcc()
        if capabilities and nvcc:
            return Library(build_gpu(nvcc, capabilities), "gpu")
        if device == "gpu" and not capabilities:
            raise NoDeviceError(
                "there is no NVIDIA GPU (nvidia-smi): choose a runtime with one, or build('cpu')"
            )
        if device == "gpu":
            packages = (
                "the CUDA toolkit or nvidia-cuda-nvcc, nvidia-cuda-runtime and nvidia-cuda-cccl"
            )
            raise NoCompilerError(
                f"there is a GPU but no nvcc: install {packages}, or build('cpu')"
            )
    compiler = next(
        filter(None, map(shutil.which, (os.environ.get("CXX") or "c++", "g++", "clang++"))), None
    )
    if compiler is None:
        raise NoCompilerError(
            "there is no C++ compiler (c++, g++, clang++): install one, or name it in CXX"
        )
    return Library(_compile([compiler, *CPU_FLAGS], CPU_EXTRAS), "cpu")


def build_gpu(nvcc: str, capabilities: set[str]) -> Path:
    """Compile for GPUs of some compute capabilities: machine code for each, so that no driver has
    to translate PTX.

    Args:
        nvcc: the compiler.
        capabilities: such as {"75", "90"}; the GPUs need not be here.

    Raises:
        BuildError: the compiler fails or does not know a capability, or the cache folder cannot be
            written.
    """
    listed = _run([nvcc, "--list-gpu-code"])
    known = sorted(
        (name.removeprefix("sm_") for name in listed.split() if name.startswith("sm_")), key=_number
    )
    for capability in capabilities - set(known):
        age = "newer" if _number(capability) > _number(known[-1]) else "older"
        raise BuildError(
            f"a GPU of compute capability sm_{capability} is {age} than what {nvcc} builds for"
            f" (sm_{known[0]} to sm_{known[-1]}): take a CUDA toolkit that is {age}, or"
            " build('cpu')"
        )
    code = [
        f"-gencode=arch=compute_{capability},code=sm_{capability}"
        for capability in sorted(capabilities)
    ]
    return _compile([nvcc, *GPU_FLAGS, *code])


def find_nvcc() -> str | None:
    """The CUDA compiler: on the path, of CUDA_HOME, where toolkits are installed, or of the
    Python package.
    """
    folders = [
        Path(site_folder) / "nvidia"
        for site_folder in (*site.getsitepackages(), site.getusersitepackages())
    ]
    packages = [
        str(path.parent)
        for folder in folders
        for path in sorted(folder.glob("*/bin/nvcc"), reverse=True)
    ]
    homes = [
        str(Path(os.environ[name]) / "bin")
        for name in ("CUDA_HOME", "CUDA_PATH")
        if os.environ.get(name)
    ]
    searched = (os.environ.get("PATH", ""), *homes, "/usr/local/cuda/bin", *packages)
    return next(filter(None, (shutil.which("nvcc", path=path) for path in searched)), None)


def _compile(command: list[str], extras: tuple[str, ...] = ()) -> Path:
    """The library that a command makes, with those extra flags that the compiler has; from the
    cache if it is there.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dr_lib"
    cpu = {
        line
        for line in read_text(Path("/proc/cpuinfo")).splitlines()
        if line.startswith(("flags", "Features"))
    }
    made_by = command, extras, _run([command[0], "--version"]), find_cpu_model(), sorted(cpu)
    key = hashlib.sha256(repr(made_by).encode())
    for path in sorted(SOURCE.parent.glob("*.cu*")):
        key.update(path.read_bytes())
    library = folder / f"mnist_cnn-{key.hexdigest()[:20]}.so"
    if library.is_file():
        return library
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # built beside its place and then renamed: another process sees all of it or nothing
        with tempfile.TemporaryDirectory(dir=folder) as made:
            command = [*command, *(flag for flag in extras if _takes(command, flag, Path(made)))]
            _run([*command, str(SOURCE), "-o", str(Path(made, "library.so"))])
            Path(made, "library.so").replace(library)
    except OSError as error:
        raise BuildError(
            f"{folder} cannot be written ({error}): name another in XDG_CACHE_HOME"
        ) from error
    return library


def _takes(command: list[str], flag: str, folder: Path) -> bool:
    """Whether the compiler has a flag, and what it needs to link with it."""
    empty = folder / "empty.cpp"
    empty.write_text("")
    try:
        _run([*command, flag, str(empty), "-o", str(folder / "empty.so")])
    except BuildError:
        return False
    return True


def _run(command: list[str]) -> str:
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"{command[0]} does not run ({error}): repair or replace it") from error
    if ran.returncode:
        told = (ran.stderr or ran.stdout).strip()[:1500]  # the first error is the one to mend
        raise BuildError(f"{' '.join(command)}\nfailed with status {ran.returncode}: {told}")
    return ran.stdout


def _number(capability: str) -> int:
    """The number in 75 or 90a."""
    return int("".join(filter(str.isdigit, capability)))
