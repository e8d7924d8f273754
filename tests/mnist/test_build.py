"""The library is built once, for the device that is here, and says what is missing where it
cannot be.
"""

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from dr_lib.errors import DrError
from dr_lib.hardware import HardwareError
from dr_lib.mnist import build
from tests.hardware.nvml import put_nvml

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Make the programs that a machine has: name -> what it prints, or None for a failure; no
    others are found.
    """
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("CXX", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def make(**printed):
        for name, words in printed.items():
            program = folder / name.replace("_", "-")
            program.write_text(
                f"#!/bin/sh\necho '{words or 'broken'}'\nexit {int(not words)}\n"
            )
            program.chmod(0o755)

    return make


def test_the_second_build_is_the_first_one(library, cache, monkeypatch):
    """Nothing is compiled again: the file stays as it is, and the compiler is asked for its
    version alone.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    before = library.path.stat()
    again = build.build("cpu")
    assert again.path == library.path and again.path.stat().st_mtime_ns == before.st_mtime_ns
    assert again.kind == "cpu"
    assert not list(library.path.parent.glob("tmp*"))


def test_another_source_is_another_library(library, cache, monkeypatch, tmp_path):
    """A changed header alone makes it build again, and a source that does not compile shows the
    compiler's words.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    for path in build.SOURCE.parent.glob("*.cu*"):
        shutil.copy(path, tmp_path)
    (tmp_path / "lanes.cuh").write_text("#error changed on purpose\n")
    monkeypatch.setattr(build, "SOURCE", tmp_path / build.SOURCE.name)
    with pytest.raises(DrError, match="changed on purpose"):
        build.build("cpu")


def test_auto_takes_the_cpu_where_there_is_no_gpu(cache, monkeypatch, tmp_path):
    """CUDA_VISIBLE_DEVICES hides the GPUs, as it does for every CUDA program."""
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert build.build().kind == "cpu"


def test_without_a_compiler_or_a_gpu(programs, monkeypatch):
    """It says which compilers were looked for, shows a failing one's words; a missing GPU is an
    error by name alone.
    """
    with pytest.raises(HardwareError, match=r"c\+\+, g\+\+, clang\+\+"):
        build.build("cpu")
    programs(**{"c++": None})
    with pytest.raises(DrError, match="broken"):
        build.build("cpu")
    with pytest.raises(HardwareError, match="no NVIDIA GPU"):
        build.build("gpu")
    programs(nvcc="sm_75")
    put_nvml(monkeypatch)
    with pytest.raises(HardwareError, match="no NVIDIA GPU"):
        build.build("gpu")


def test_a_driver_that_does_not_answer(programs, monkeypatch):
    """A GPU whose driver fails is no machine without a GPU."""
    put_nvml(monkeypatch, fault="NVMLError_Unknown")
    with pytest.raises(HardwareError, match="driver"):
        build.build()


def test_a_gpu_without_nvcc(programs, monkeypatch):
    """It names the packages that bring the compiler."""
    put_nvml(monkeypatch, ("T4", 15.0, 7.5, "GPU-1"))
    # a toolkit may be installed where it is looked for
    monkeypatch.setattr(build, "find_nvcc", lambda: None)
    for device in ("gpu", "auto"):  # never the CPU in silence
        with pytest.raises(HardwareError, match="nvidia-cuda-nvcc"):
            build.build(device)


def test_a_gpu_that_the_toolkit_does_not_know(programs, monkeypatch):
    """The compiler's own words name the architecture; nothing is left to the driver."""
    programs(nvcc=None)
    put_nvml(monkeypatch, ("V100", 16.0, 7.0, "GPU-1"))
    with pytest.raises(DrError, match="broken"):
        build.build()


def test_refuses_what_it_cannot_use(monkeypatch, tmp_path):
    """A cache that cannot be written, a spoilt library and an unknown device: each says what to
    do.
    """
    (tmp_path / "file").write_bytes(b"no library")
    with pytest.raises(DrError, match="delete it"):
        build.Library(tmp_path / "file", "cpu")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DrError, match="XDG_CACHE_HOME"):
        build.build("cpu")
    with pytest.raises(ValueError, match="auto, gpu and cpu"):
        build.build("tpu")


@pytest.mark.slow
def test_two_processes_may_build_at_once(tmp_path):
    """Both get a library that works, and one file stays."""
    code = "from dr_lib.mnist.build import build; print(build('cpu').path)"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    pipe = {"stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(command, env=environment, **pipe) for _ in range(2)]
    paths = {process.communicate(timeout=300)[0].strip() for process in started}
    assert [process.returncode for process in started] == [0, 0]
    assert paths == {str(path) for path in (tmp_path / "dr_lib").iterdir()}


def list_images(library: bytes) -> list[tuple[int, int]]:
    """(kind, compute capability) of what a library holds for GPUs; kind 1 is PTX, 2 is machine
    code.
    """
    found = []
    magic = struct.pack("<I", 0xBA55ED50)
    start = -1
    while (start := library.find(magic, start + 1)) >= 0:
        _, _, header, size = struct.unpack_from("<IHHQ", library, start)
        at = start + header
        end = start + header + size
        while header == 16 and at < end:
            kind, _, length, payload = struct.unpack_from("<HHIQ", library, at)
            found.append((kind, struct.unpack_from("<I", library, at + 28)[0]))
            at += length + payload
    return found


@pytest.mark.slow
def test_the_python_package_s_nvcc_builds_for_the_gpus_of_colab_and_newer(
    tmp_path, monkeypatch
):
    """Machine code for sm_75, sm_90 and sm_120, no PTX, by a compiler that pip installs; the
    GPUs need not be here.
    """
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", tmp_path / "site"]
    packages = ["nvidia-cuda-nvcc", "nvidia-cuda-runtime", "nvidia-cuda-cccl"]
    subprocess.run([*install, *packages], check=True, timeout=900)
    (nvcc,) = tmp_path.glob("site/nvidia/*/bin/nvcc")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    images = list_images(build.build_gpu(str(nvcc), {"75", "90", "120"}).read_bytes())
    assert {kind for kind, _ in images} == {2}
    assert {capability for _, capability in images} == {75, 90, 120}
