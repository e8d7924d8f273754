"""The bootstrap adds what a cloud runtime lacks, moves nothing, and asks nobody's laptop to change."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CALL = "from dr_lib.bootstrap import install_missing; print(*install_missing('cv2'))"


def run(python: Path | str, code: str, **variables: str) -> subprocess.CompletedProcess:
    """Run code with this interpreter in the repository."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run([python, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)


def test_nothing_is_installed_where_nothing_is_missing():
    """With the requirements there, the call is silent, on Colab too."""
    done = run(sys.executable, CALL, COLAB_RELEASE_TAG="r")
    assert done.returncode == 0 and done.stdout.strip() == ""


def test_a_laptop_is_told_and_not_changed():
    """Outside a cloud runtime a missing package is an error that says how to get it."""
    done = run(sys.executable, f"import sys; sys.modules['seaborn'] = None; {CALL}")
    assert done.returncode and "seaborn missing: pip install -r requirements.txt" in done.stderr


def test_an_installation_that_fails_says_what_to_do(tmp_path):
    """Without a network, Kaggle's switch is named."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}
    done = run(tmp_path / "bin" / "python", CALL, KAGGLE_KERNEL_RUN_TYPE="Batch", **nowhere)
    assert done.returncode and "could not install google-crc32c, matplotlib, pandas" in done.stderr
    assert "internet switched on" in done.stderr


@pytest.mark.slow
def test_a_runtime_gets_what_it_lacks_and_keeps_what_it_has(tmp_path):
    """A real environment with an older NumPy: the packages come, NumPy stays, and a second call finds all there."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    python = tmp_path / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "numpy==2.1.3", "psutil"], check=True)
    done = run(python, CALL, COLAB_RELEASE_TAG="r")
    assert done.returncode == 0, done.stderr
    assert "opencv-python-headless" in done.stdout and "psutil" not in done.stdout
    imports = "import cv2, numpy, pandas, PIL, pydantic, scipy, seaborn, sklearn; print(numpy.__version__)"
    assert run(python, imports).stdout.strip() == "2.1.3"
    assert run(python, CALL, COLAB_RELEASE_TAG="r").stdout.strip() == ""
