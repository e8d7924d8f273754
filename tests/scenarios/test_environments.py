"""Environments: set up once, found, and refused with the reason where they cannot be."""

import sys
from importlib.metadata import metadata

import pytest
import tensorflow as tf
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.errors import DrError
from dr_lib.hardware import facts
from dr_lib.runs.run import UnavailableError
from dr_lib.scenarios import environments
from dr_lib.scenarios.environments import Environment, find_python, set_up


@pytest.fixture
def trial(monkeypatch, tmp_path):
    """Environments of the test alone, in a folder of its own, and a framework that is not here."""
    made = {}
    monkeypatch.setattr(environments, "ENVIRONMENTS", made)
    monkeypatch.setattr(environments, "FOLDER", tmp_path / "environments")
    monkeypatch.setattr(
        environments, "PACKAGES", {"ours": ("no_such_module",), "here": ("yaml",)}
    )
    return made


def test_a_framework_that_is_here_needs_no_environment(trial):
    """Where this Python has it, as on Colab and Kaggle, the framework's is this Python."""
    trial["yaml"] = Environment((), (), ())
    assert set_up("yaml", has_gpu=False).startswith("yaml ")
    assert find_python("here") == sys.executable and not environments.FOLDER.exists()


def test_no_python_for_it_is_told(trial):
    """MXNet on a machine with Python 3.12 alone: the versions that it needs are named, and nothing
    is left; a misspelt name lists the environments there are."""
    trial["no_such_module"] = Environment((), (), ("3.2", "3.1"))
    told = set_up("no_such_module", has_gpu=False)
    assert "it needs Python 3.2, 3.1, and this machine has none" in told
    assert not environments.FOLDER.exists()
    with pytest.raises(DrError, match="choose from no_such_module"):
        set_up("trail", has_gpu=False)


def test_an_environment_counts_when_it_is_complete(trial):
    """One whose set-up was killed has a Python, and not all packages; without any the message names
    the command, or TensorFlow's package.
    """
    python = environments.FOLDER / "no_such_module" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    with pytest.raises(UnavailableError, match="for ours: .* pip install no_such_module"):
        find_python("ours")
    trial["no_such_module"] = Environment((), (), ())
    with pytest.raises(UnavailableError, match="-m dr_lib environments no_such_module sets it"):
        find_python("ours")
    (python.parents[1] / "ready").touch()
    assert find_python("ours") == str(python)


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

    monkeypatch.setattr(environments, "_call", record)
    monkeypatch.setattr(facts, "list_gpus", lambda: ["Tesla T4"])
    found = CliRunner().invoke(main, ["environments"])
    assert f"tensorflow: tensorflow {tf.__version__} {says}" in found.output
    assert found.exit_code == (says == "lists no GPU")
    installed = [command for command in ran if "pip" in command]
    package = f"tensorflow[and-cuda]=={tf.__version__}"
    assert installed == [("-m", "pip", "install", "--quiet", package)] * (before == 0)


def test_beside_a_gpu_mxnet_gets_the_libraries_of_cuda(monkeypatch, tmp_path):
    """Its build for CUDA 11.7, whose wheel has no libraries; without a GPU neither."""
    ran = []
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    monkeypatch.setattr(environments, "_find_python", lambda version: "python")

    def record(*command):
        ran.append(" ".join(command))
        (tmp_path / "mxnet").mkdir(exist_ok=True)
        return ""

    monkeypatch.setattr(environments, "_call", lambda *command: record(*command) or "mxnet")
    for has_gpu in (True, False):
        (tmp_path / "mxnet" / "ready").unlink(missing_ok=True)
        assert set_up("mxnet", has_gpu=has_gpu) == "mxnet"
        (installs,) = (each for each in ran if " install " in each)
        assert ("mxnet-cu117==1.9.1" in installs) == has_gpu
        assert ("nvidia-cudnn-cu11" in installs) == has_gpu
        ran.clear()


@pytest.mark.slow
def test_tensorflow_has_the_extra_and_says_what_it_lists():
    """pip only warns of an extra that a version does not have."""
    assert "and-cuda" in metadata("tensorflow").get_all("Provides-Extra")
    num_gpus = len(tf.config.list_physical_devices("GPU"))
    assert environments._ask_tensorflow() == (tf.__version__, num_gpus)


@pytest.mark.slow
def test_packages_that_do_not_install_leave_nothing(trial, tmp_path):
    """pip's reason is in the message, and the half environment is gone."""
    missing = str(tmp_path / "no_such_package")
    python = f"3.{sys.version_info.minor}"
    trial["no_such_module"] = Environment((missing,), (), (python,))
    with pytest.raises(DrError, match="no_such_package"):
        set_up("no_such_module", has_gpu=False)
    assert not (environments.FOLDER / "no_such_module").exists()
