"""Kernels: set up once, found by Jupyter, and refused with the reason where they cannot be."""

import shutil
import sys
from pathlib import Path

import pytest

from dr_lib.runs import kernels
from dr_lib.runs.kernels import Kernel, KernelError, find_kernel, set_up


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
