"""Environments: set up once, found, and refused with the reason where they cannot be."""

import sys

import pytest

from dr_lib.errors import DrError
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
    assert "this machine has no Python 3.2, 3.1, which it needs" in told
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
