"""Settings of the environment: named where somebody set them, with a hash of their values."""

import os

import pytest

from dr_lib.hardware.cpus import count_cpus
from dr_lib.hardware.settings import OWN, describe_settings

ORDINARY = {  # of images, batch systems and tools, which change no time
    "CUDA_VISIBLE_DEVICES": "0",
    "CUDA_VERSION": "12.5.1",
    "CUDA_MAJOR_VERSION": "12",
    "CUDA_HOME": "/usr/local/cuda",
    "CUDA_PATH_V12_5": "x",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "NVIDIA_REQUIRE_CUDA": "cuda>=12.5",
    "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    "NCCL_VERSION": "2.22",
    "NV_LIBCUBLAS_VERSION": "12.5",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "MKL_THREADING_LAYER": "GNU",
    "KMP_DUPLICATE_LIB_OK": "True",
    "TF_VAR_password": "secret",
    "TF_CLI_CONFIG_FILE": ".terraformrc",
    "TF_XLA_FLAGS": "",
    "OMP_NUM_THREADS": str(count_cpus()),
}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Nothing but what a test sets."""
    for name in os.environ:
        if name != "PATH":
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    "setting",
    [
        ("TF_NUM_INTRAOP_THREADS", "1000"),
        ("OMP_NUM_THREADS", "1000"),
        ("NPROC", "1000"),
        ("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false"),
        ("TF_XLA_FLAGS", "--tf_xla_auto_jit=2"),
        ("NVIDIA_TF32_OVERRIDE", "off"),
        ("CUDNN_LOGINFO_X", "1"),
        ("NCCL_P2P_DISABLE", "on"),
        ("JAX_ENABLE_X64", "on"),
        ("LIBTPU_INIT_ARGS", "--x"),
    ],
)
def test_what_changes_a_time_is_named_and_not_shown(monkeypatch, setting):
    """Equal values give an equal hash, others another one; what changes nothing is not named."""
    name, value = setting
    for each in ORDINARY.items():
        monkeypatch.setenv(*each)
    assert describe_settings() == "none"
    monkeypatch.setenv(name, value)
    found = describe_settings()
    if "LOG" in name:
        assert found == "none"
        return
    assert found.startswith(f"{name}: ") and value not in found
    assert found == describe_settings()
    monkeypatch.setenv(name, f"{value} ")
    assert describe_settings().split(": ")[1] != found.split(": ")[1]


def test_what_was_set_as_planned_is_no_setting(monkeypatch):
    """Until somebody sets it otherwise."""
    monkeypatch.setitem(OWN, "OMP_NUM_THREADS", "1000")
    monkeypatch.setenv("OMP_NUM_THREADS", "1000")
    assert describe_settings() == "none"
    monkeypatch.setenv("OMP_NUM_THREADS", "999")
    assert describe_settings().startswith("OMP_NUM_THREADS: ")


def test_what_a_cloud_runtime_sets_for_everybody_is_no_setting(monkeypatch, tmp_path):
    """Its first process has the image's variables; elsewhere it has those of `docker run -e`."""
    (tmp_path / "environ").write_bytes(b"HOME=/root\0XLA_FLAGS=--a=b\0")
    monkeypatch.setenv("XLA_FLAGS", "--a=b")
    assert describe_settings(tmp_path / "environ").startswith("XLA_FLAGS")
    monkeypatch.setenv("KAGGLE_KERNEL_RUN_TYPE", "Batch")
    assert describe_settings(tmp_path / "environ") == "none"
    monkeypatch.setenv("XLA_FLAGS", "--a=c")
    assert describe_settings(tmp_path / "environ").startswith("XLA_FLAGS")
