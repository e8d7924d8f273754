"""Facts: found without a framework, from the driver's library and the runtime's hints."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dr_lib.hardware import HardwareError, Request, choose, probe
from dr_lib.hardware import facts as facts_module
from tests.hardware.nvml import put_nvml


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    """Nobody has chosen GPUs."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_probing_imports_no_framework():
    """Facts come before Keras: neither probe nor choose may import a backend."""
    code = (
        "import sys; from dr_lib import hardware; "
        "hardware.choose(hardware.probe(), hardware.Request(accelerator='cpu')); "
        "sys.exit(any(name in sys.modules for name in ('tensorflow', 'jax', 'keras', 'torch')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


T4 = ("Tesla T4", 15.0, 7.5, "GPU-12ab")
L4 = ("NVIDIA L4", 22.5, 8.9, "GPU-12cd")


def test_gpus_are_those_that_the_driver_lists(monkeypatch):
    """Names in order, the smallest memory, the lowest compute capability, the driver."""
    put_nvml(monkeypatch, T4, L4)
    facts = probe()
    assert (facts.gpus, facts.driver) == (("Tesla T4", "NVIDIA L4"), "550.54.15")
    assert (facts.gpu_memory_gib, facts.compute_capability) == (15.0, 7.5)


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [
        ("", ()),
        ("1,0", ("NVIDIA L4", "Tesla T4")),
    ],
)
def test_gpus_are_those_of_cuda(monkeypatch, visible, gpus):
    """What is hidden trains nothing, as the CUDA programming guide has it; CUDA numbers GPUs as
    the driver's library does.
    """
    put_nvml(monkeypatch, T4, L4)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert probe().gpus == gpus
    assert not gpus or os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


@pytest.mark.parametrize(
    ("fault", "has_device"),
    [
        ("NVMLError_LibraryNotFound", True),
        ("NVMLError_Unknown", False),
    ],
)
def test_a_driver_that_does_not_answer_stops_what_needs_a_gpu(
    monkeypatch, tmp_path, fault, has_device
):
    """To plan for the CPU would be a fallback in silence, unless it is asked for. The sentence is
    the driver's own.
    """
    put_nvml(monkeypatch, fault=fault)
    monkeypatch.setattr(facts_module, "DEVICES", tmp_path)
    if has_device:
        (tmp_path / "nvidia3").touch()
    facts = probe()
    for accelerator in ("auto", "gpu"):
        with pytest.raises(HardwareError, match=f"{fault}.*, or set accelerator='cpu'"):
            choose(facts, Request(accelerator))
    assert choose(facts, Request("cpu")).accelerator == "cpu"


def test_a_machine_without_a_gpu_has_none(monkeypatch, tmp_path):
    """An image for GPUs has the library, and a device of control, on any machine."""
    put_nvml(monkeypatch, fault="NVMLError_DriverNotLoaded")
    monkeypatch.setattr(facts_module, "DEVICES", tmp_path)
    (tmp_path / "nvidiactl").touch()
    assert probe().gpus == () and probe().driver == "" and not probe().gpu_error


@pytest.mark.parametrize(
    ("variables", "platform", "chips"),
    [
        ({}, "local", 0),
        ({"COLAB_RELEASE_TAG": "r", "TPU_ACCELERATOR_TYPE": "v5e-1"}, "colab", 1),
        ({"KAGGLE_KERNEL_RUN_TYPE": "B", "TPU_ACCELERATOR_TYPE": "v5litepod-8"}, "kaggle", 8),
        ({"COLAB_RELEASE_TAG": "r", "COLAB_TPU_1VM": ""}, "colab", 0),
    ],
)
def test_the_runtime_gives_hints(monkeypatch, variables, platform, chips):
    """Platform and chips by the variables that Colab and Kaggle set."""
    if list(Path("/dev").glob("accel*")) or Path("/content/sample_data").is_dir():
        pytest.skip("this machine has hints of its own")
    kind = "TPU_ACCELERATOR_TYPE"
    for name in ("COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE", *facts_module.TPU_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    facts = probe()
    assert (facts.platform, facts.num_tpu_chips) == (platform, chips)
    assert facts.tpu_kind == variables.get(kind, "")


def test_a_slice_of_a_gpu_is_an_error_and_no_cpu(monkeypatch):
    """`auto` would train on the CPU without a word; asked for, the CPU is there."""
    put_nvml(monkeypatch, T4, L4)
    for visible in ("MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", "GPU-12cd", "0,2"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        facts = probe()
        with pytest.raises(HardwareError, match="name whole GPUs by numbers below 2, or set"):
            choose(facts)
        assert choose(facts, Request("cpu")).accelerator == "cpu"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")  # as in a container that was given a slice
    put_nvml(monkeypatch, ("H100", 80.0, 9.0, "GPU-1"), is_sliced=True)
    with pytest.raises(HardwareError, match="^GPU 0 is divided into slices"):
        choose(probe())
