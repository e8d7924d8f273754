"""The bootstrap adds what a cloud runtime lacks, moves nothing, and asks nobody's laptop to
change.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from dr_lib.errors import DrError
from dr_lib.report import setup

ROOT = Path(__file__).resolve().parents[2]
# a notebook's cells up to its set-up, with Colab's own module standing in
SET_UP_ON_COLAB = """
import sys
from types import SimpleNamespace

import nbformat
from IPython.core.interactiveshell import InteractiveShell

name, results = sys.argv[1:]
drive = SimpleNamespace(mount=lambda folder: print("mounted", folder))
sys.modules["google.colab"] = SimpleNamespace(drive=drive)
shell = InteractiveShell.instance()
for cell in nbformat.read(f"notebooks/{name}.ipynb", 4).cells:
    if cell.cell_type == "code":
        shell.run_cell(cell.source, store_history=True).raise_error()
        if "parameters" in cell.metadata.get("tags", ()):
            injected = f"# Parameters\\nresults = {results!r}"
            shell.run_cell(injected, store_history=True).raise_error()
    elif "setup" in shell.user_ns:  # the text behind the set-up
        break
"""
CALL = "from dr_lib.report.setup import install_missing; print(*install_missing('cv2'))"


def run(
    python: Path | str, code: str, *arguments: str, **variables: str
) -> subprocess.CompletedProcess:
    """Run code with this interpreter in the repository."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [python, "-c", code, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )


def make_environment(folder: Path) -> None:
    """A virtual environment with nothing but this one's pip, linked, for installing it takes
    long.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "pip").symlink_to(Path(find_spec("pip").origin).parent)


def test_a_laptop_is_told_and_not_changed():
    """Outside a cloud runtime a missing package is an error that says how to get it; where nothing
    is missing the call is silent, on Colab too.
    """
    done = run(sys.executable, CALL, COLAB_RELEASE_TAG="r")
    assert done.returncode == 0 and done.stdout.strip() == ""
    done = run(sys.executable, f"import sys; sys.modules['seaborn'] = None; {CALL}")
    assert done.returncode and "seaborn missing: " in done.stderr
    assert "-m pip install -r requirements.txt" in done.stderr


@pytest.mark.parametrize("name", ["10_train", "30_train_scenario"])
def test_a_notebook_keeps_its_rows_on_the_drive(name):
    """On Colab, the set-up of a notebook mounts the Drive that holds its folder for results, also
    where it runs in other frameworks' kernels; without a folder one sentence offers it.
    """
    colab = {"COLAB_RELEASE_TAG": "r", "PIP_NO_INDEX": "1"}
    done = run(sys.executable, SET_UP_ON_COLAB, name, "/content/drive/MyDrive/a", **colab)
    assert done.returncode == 0, done.stderr
    assert "mounted /content/drive" in done.stdout
    assert "set results to a folder" not in done.stdout
    done = run(sys.executable, SET_UP_ON_COLAB, name, "", **colab)
    assert "set results to a folder on your Drive" in done.stdout
    assert "mounted" not in done.stdout


def test_a_kernel_without_colabs_module_takes_a_mounted_drive_alone(monkeypatch):
    """It cannot mount the Drive: a folder that would be lost with the machine is refused in a
    sentence, and a Drive that is mounted already is enough.
    """
    monkeypatch.setenv("COLAB_RELEASE_TAG", "r")
    monkeypatch.setitem(sys.modules, "google.colab", None)
    with pytest.raises(DrError, match=r"run this in a Colab notebook: .*drive\.mount"):
        setup.keep_results("/content/drive/MyDrive/a")
    monkeypatch.setattr(setup, "DRIVE", "/proc")  # something that is mounted
    setup.keep_results("/proc/MyDrive/a")


@pytest.mark.slow
def test_a_runtime_gets_what_it_lacks_and_keeps_what_it_has(tmp_path):
    """A real environment with an older NumPy: the packages come, NumPy stays, and a second call
    finds all there.
    """
    make_environment(tmp_path)
    python = tmp_path / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "numpy==2.1.3", "psutil"], check=True
    )
    done = run(python, CALL, COLAB_RELEASE_TAG="r")
    assert done.returncode == 0, done.stderr
    assert "opencv-python-headless" in done.stdout and "psutil" not in done.stdout
    imports = "import cv2, numpy, pandas, PIL, pydantic, scipy, seaborn, sklearn;"
    imports += " print(numpy.__version__)"
    assert run(python, imports).stdout.strip() == "2.1.3"
    assert run(python, CALL, COLAB_RELEASE_TAG="r").stdout.strip() == ""
