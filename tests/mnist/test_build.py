"""The library is built once, for the device that is here, and says what is missing where it
cannot be.
"""

import shutil
import subprocess
import sys

import pytest

from dr_lib.errors import DrError
from dr_lib.hardware import HardwareError
from dr_lib.mnist import build
from tests.hardware.nvml import put_nvml


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
                f"#!/bin/sh\necho '{words or 'broken'}' >&2\nexit {int(not words)}\n"
            )
            program.chmod(0o755)

    return make


def test_the_second_build_is_the_first_one(library, cache, monkeypatch):
    """Nothing is compiled again; auto takes the CPU where CUDA_VISIBLE_DEVICES hides the GPUs."""
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    before = library.path.stat().st_mtime_ns
    again = build.build()
    assert again.kind == "cpu" and again.path == library.path
    assert again.path.stat().st_mtime_ns == before
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


T4 = ("T4", 15.0, 7.5, "GPU-1")


@pytest.mark.parametrize(
    ("printed", "gpus", "fault", "device", "error", "words"),
    [
        ({}, [], None, "cpu", HardwareError, r"no C\+\+ compiler"),
        ({"c++": None}, [], None, "cpu", DrError, "broken"),
        ({"nvcc": "sm_75"}, [], None, "gpu", HardwareError, "no NVIDIA GPU"),
        ({}, [], "NVMLError_Unknown", "auto", HardwareError, "driver"),
        ({}, [T4], None, "auto", HardwareError, "nvidia-cuda-nvcc"),  # never the CPU in silence
        ({"nvcc": None}, [T4], None, "auto", DrError, "broken"),
    ],
)
def test_what_is_missing_is_named(
    programs, monkeypatch, printed, gpus, fault, device, error, words
):
    """A compiler, a GPU, its driver or nvcc; a compiler that fails shows its own words."""
    programs(**printed)
    put_nvml(monkeypatch, *gpus, fault=fault)
    if "nvcc" not in printed:  # a toolkit may be installed where it is looked for
        monkeypatch.setattr(build, "find_nvcc", lambda: None)
    with pytest.raises(error, match=words):
        build.build(device)


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
def test_the_python_package_s_nvcc_builds_for_the_gpus_of_colab_and_newer(
    tmp_path, monkeypatch
):
    """For sm_75, sm_90 and sm_120 by a compiler that pip installs; the GPUs need not be here."""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", tmp_path / "site"]
    packages = ["nvidia-cuda-nvcc", "nvidia-cuda-runtime", "nvidia-cuda-cccl"]
    subprocess.run([*install, *packages], check=True, timeout=900)
    (nvcc,) = tmp_path.glob("site/nvidia/*/bin/nvcc")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert build.build_gpu(str(nvcc), {"75", "90", "120"}).stat().st_size > 100_000
