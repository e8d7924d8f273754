"""Facts: found without a framework, from the driver's tool and the runtime's hints."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dr_lib.hardware import HardwareError, Request, choose, probe
from dr_lib.hardware import facts as facts_module


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """A program of that name that answers as two T4 do, or fails."""

    def install(script: str) -> None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return install


def test_probing_imports_no_framework():
    """Facts come before Keras: neither probe nor choose may import a backend."""
    code = (
        "import sys; from dr_lib import hardware; "
        "hardware.choose(hardware.probe(), hardware.Request(accelerator='cpu')); "
        "sys.exit(any(name in sys.modules for name in ('tensorflow', 'jax', 'keras', 'torch')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_version_is_found_whatever_the_package_is_called(tmp_path, monkeypatch):
    """The module says it where it is imported; tensorflow-cpu is TensorFlow; what is unknown
    stops nobody.
    """
    (tmp_path / "some_framework.py").write_text("__version__ = '1.2.3'")
    about = tmp_path / "other_cpu-4.5.dist-info" / "METADATA"
    about.parent.mkdir()
    about.write_text("Name: other-cpu\nVersion: 4.5\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert facts_module.read_version("some_framework") == ""
    importlib.import_module("some_framework")
    assert facts_module.read_version("some_framework") == "1.2.3"
    assert facts_module.read_version("other") == "4.5"


T4_AND_L4 = (
    'echo "Tesla T4, 15360, 7.5, 550.54.15, GPU-12ab"; echo "NVIDIA L4, 23034, 8.9, 550.54.15,'
    ' GPU-12cd"'
)
A100_MIG = 'echo "NVIDIA A100, 81920, 8.0, 550.54.15, GPU-1, Enabled";'
GB10 = 'echo "NVIDIA GB10, [N/A], 12.1, 550.54.15, GPU-1"'


@pytest.mark.parametrize(
    ("script", "gpus", "memory_gib", "capability"),
    [
        (T4_AND_L4, ("Tesla T4", "NVIDIA L4"), 15.0, 7.5),
        # CUDA takes one slice, of less memory than the GPU has
        (A100_MIG * 2, ("NVIDIA A100 MIG",), 0.0, 8.0),
        # it shares the host's memory and names none of its own
        (GB10, ("NVIDIA GB10",), 0.0, 12.1),
    ],
)
def test_gpus_are_those_that_the_driver_lists(nvidia_smi, script, gpus, memory_gib, capability):
    """Names in order, the smallest memory, the lowest compute capability, the driver. Where the
    memory is unknown nothing is kept on the device.
    """
    nvidia_smi(script)
    facts = probe()
    assert (facts.gpus, facts.driver) == (gpus, "550.54.15")
    assert (facts.gpu_memory_gib, facts.compute_capability) == (memory_gib, capability)
    plan = choose(
        facts, Request(mode="fast", backend="tensorflow", num_devices=1, data_gib=0.1)
    )
    assert plan.on_device == bool(memory_gib)


@pytest.mark.parametrize(
    ("variable", "value", "gpus"),
    [
        ("CUDA_VISIBLE_DEVICES", "", ()),
        ("CUDA_VISIBLE_DEVICES", "-1", ()),
        ("CUDA_VISIBLE_DEVICES", "1", ("NVIDIA L4",)),
        ("CUDA_VISIBLE_DEVICES", "1,0", ("NVIDIA L4", "Tesla T4")),
        # CUDA reads up to the first name that it does not know
        ("CUDA_VISIBLE_DEVICES", "0,-1,1", ("Tesla T4",)),
        ("CUDA_VISIBLE_DEVICES", "GPU-12c", ("NVIDIA L4",)),  # the beginning of one UUID
        ("CUDA_VISIBLE_DEVICES", "GPU-12", ()),  # of two
        ("CUDA_VISIBLE_DEVICES", "MIG-3f", ("Tesla T4 MIG",)),
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID", ("Tesla T4", "NVIDIA L4")),
        ("CUDA_DEVICE_ORDER", "FASTEST_FIRST", ("NVIDIA L4", "Tesla T4")),
    ],
)
def test_gpus_are_those_of_cuda(nvidia_smi, monkeypatch, variable, value, gpus):
    """What is hidden trains nothing, and the order is CUDA's, both as the CUDA programming guide
    has it; where no order is set it becomes the tool's own, so that CUDA follows.
    """
    nvidia_smi(T4_AND_L4)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    monkeypatch.setenv(variable, value)
    assert probe().gpus == gpus
    if gpus:
        order = value if variable == "CUDA_DEVICE_ORDER" else "PCI_BUS_ID"
        assert os.environ["CUDA_DEVICE_ORDER"] == order


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'NVML: Driver/library version mismatch'; echo 570.86; exit 18", "mismatch'"),
        ("echo 'No devices were found' >&2; exit 6", "'No devices were found'"),
        ("echo 'No devices were found'", "'No devices were found'"),
        ("exit 9", "'nothing'"),
    ],
)
def test_a_driver_that_does_not_answer_stops_what_needs_a_gpu(
    nvidia_smi, monkeypatch, tmp_path, script, said
):
    """To plan for the CPU would be a fallback in silence, unless it is asked for; an image for GPUs
    has the tool on any machine. The sentence is the tool's own.
    """
    nvidia_smi(script)
    monkeypatch.setattr(facts_module, "DEVICES", tmp_path)
    (tmp_path / "nvidiactl").touch()
    assert probe().gpus == () and probe().driver == "" and not probe().gpu_error
    (tmp_path / "nvidia3").touch()
    facts = probe()
    for accelerator in ("auto", "gpu"):
        with pytest.raises(HardwareError, match=f"{said}.*, or set accelerator='cpu'"):
            choose(facts, Request(accelerator))
    assert choose(facts, Request("cpu")).accelerator == "cpu"
    tpu = facts._replace(num_tpu_chips=8, backends=("jax",))
    assert choose(tpu).accelerator == "tpu"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not probe().gpu_error


def test_the_tool_need_not_be_on_the_path(nvidia_smi, monkeypatch, tmp_path):
    """WSL, Colab and Kubernetes have it in folders of their own."""
    nvidia_smi(T4_AND_L4)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(facts_module, "TOOL_FOLDERS", (str(tmp_path),))
    assert len(probe().gpus) == 2


@pytest.mark.parametrize(
    ("variables", "platform", "chips"),
    [
        ({}, "local", 0),
        ({"COLAB_RELEASE_TAG": "r"}, "colab", 0),
        ({"COLAB_RELEASE_TAG": "r", "TPU_ACCELERATOR_TYPE": "v5e-1"}, "colab", 1),
        ({"KAGGLE_KERNEL_RUN_TYPE": "B", "TPU_ACCELERATOR_TYPE": "v5litepod-8"}, "kaggle", 8),
        ({"KAGGLE_KERNEL_RUN_TYPE": "B", "ISTPUVM": "1"}, "kaggle", 1),
        ({"TPU_NAME": "local"}, "local", 1),
        ({"COLAB_RELEASE_TAG": "r", "COLAB_TPU_1VM": ""}, "colab", 0),  # a GPU runtime's
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
