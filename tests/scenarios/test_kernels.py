"""Kernels: set up once, found by Jupyter, and refused with the reason where they cannot be."""

import shutil
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest
import tensorflow as tf
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.hardware import facts
from dr_lib.scenarios import kernels
from dr_lib.scenarios.kernels import Kernel, KernelError, find_kernel, set_up


@pytest.fixture
def trial(monkeypatch):
    """Kernels of the test alone, taken out of this Python's Jupyter again."""
    made = {}
    monkeypatch.setattr(kernels, "KERNELS", made)
    yield made
    for name in made:
        shutil.rmtree(
            Path(sys.prefix) / "share" / "jupyter" / "kernels" / name, ignore_errors=True
        )


def test_a_framework_that_is_here_needs_no_environment(trial, tmp_path):
    """Where this Python has the modules, as on Colab and Kaggle, the kernel is this Python."""
    trial["dr-trial"] = Kernel(("yaml",), (), (), ())
    assert find_kernel("dr-trial") == ""
    assert set_up("dr-trial", tmp_path, has_gpu=False).startswith("yaml ")
    assert find_kernel("dr-trial") == sys.executable and not list(tmp_path.iterdir())


def test_no_python_for_it_is_told(trial, tmp_path):
    """MXNet on a machine with Python 3.12 alone: the versions that it needs are named, and nothing
    is left; a misspelt name lists the kernels there are."""
    trial["dr-trial"] = Kernel(("no_such_module",), (), (), ("3.2", "3.1"))
    assert "it needs Python 3.2, 3.1, and this machine has none" in set_up(
        "dr-trial", tmp_path, has_gpu=False
    )
    assert find_kernel("dr-trial") == "" and not list(tmp_path.iterdir())
    with pytest.raises(KernelError, match="choose from dr-trial"):
        set_up("dr-trail", tmp_path, has_gpu=False)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [(0, 1, "lists 1 GPU"), (2, None, "lists 2 GPU"), (0, 0, "lists no GPU")],
)
def test_beside_a_gpu_tensorflow_gets_cuda(trial, monkeypatch, before, after, says):
    """pip adds an extra to the version that is here, unless that sees the GPU already; a machine
    with one is not at hand, so what TensorFlow lists is given.
    """
    ran = []
    listed = [after, before]

    def record(*command):
        ran.append(command[1:])
        return f"{tf.__version__} {listed.pop()}" if "-c" in command else ""

    monkeypatch.setattr(kernels, "_call", record)
    monkeypatch.setattr(facts, "list_gpus", lambda: ["Tesla T4"])
    found = CliRunner().invoke(main, ["kernels"])
    assert f"python3: tensorflow {tf.__version__} {says}" in found.output
    assert found.exit_code == (says == "lists no GPU")
    installed = [command for command in ran if "pip" in command]
    package = f"tensorflow[and-cuda]=={tf.__version__}"
    assert installed == [("-m", "pip", "install", "--quiet", package)] * (before == 0)


@pytest.mark.slow
def test_tensorflow_has_the_extra_and_says_what_it_lists():
    """pip only warns of an extra that a version does not have."""
    assert "and-cuda" in metadata("tensorflow").get_all("Provides-Extra")
    num_gpus = len(tf.config.list_physical_devices("GPU"))
    assert kernels._ask_tensorflow() == (tf.__version__, num_gpus)


@pytest.mark.slow
def test_packages_that_do_not_install_leave_nothing(trial, tmp_path):
    """pip's reason is in the message, and the half environment is gone."""
    missing = str(tmp_path / "no_such_package")
    trial["dr-trial"] = Kernel(
        ("no_such_module",), (missing,), (), (f"3.{sys.version_info.minor}",)
    )
    with pytest.raises(KernelError, match="no_such_package"):
        set_up("dr-trial", tmp_path / "kernels", has_gpu=False)
    assert find_kernel("dr-trial") == "" and not (tmp_path / "kernels" / "dr-trial").exists()
