"""The bootstrap adds what a cloud runtime lacks, moves nothing, and asks nobody's laptop to
change.
"""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest

from dr_lib.errors import DrError
from dr_lib.hardware.facts import Facts
from dr_lib.parameters import NOTEBOOKS
from dr_lib.report import setup
from tests.notebooks import forget

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


def test_an_installation_that_fails_says_what_to_do(tmp_path):
    """Without a network, Kaggle's switch is named."""
    make_environment(tmp_path)
    nowhere = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/",
        "PIP_RETRIES": "0",
        "PIP_CONFIG_FILE": os.devnull,
    }
    done = run(tmp_path / "bin" / "python", CALL, KAGGLE_KERNEL_RUN_TYPE="Batch", **nowhere)
    assert (
        done.returncode
        and "could not install filelock, google-crc32c, matplotlib" in done.stderr
    )
    assert "turn on Internet" in done.stderr


def test_what_is_missing_is_installed_in_a_version_that_will_do():
    """Else pip may go back to one of years ago that fits what the runtime ships."""
    assert setup._find_version("papermill") == "papermill>=2.6"
    assert setup._find_version("google-crc32c") == "google-crc32c>=1.5"
    assert setup._find_version("matplotlib") == "matplotlib"


def test_what_notebooks_ask_for_is_required():
    """Each module that a notebook may add is a package of requirements.txt, so that a typo
    installs nothing.
    """
    required = set(re.findall(r"(?m)^[\w.-]+", (ROOT / "requirements.txt").read_text()))
    notebooks = " ".join(path.read_text() for path in ROOT.glob("notebooks/*.py"))
    calls = " ".join(re.findall(r"setup.set_up\((.*)\)", notebooks))
    modules = {*re.findall(r'"(\w+)"', calls)} - {"sample", *NOTEBOOKS}
    assert {"cv2", "statsmodels"} < modules
    packages = {
        setup.PACKAGES.get(name, name).replace("_", "-").split("<")[0]
        for name in (*setup.ALWAYS, *setup.SERVER, *modules)
    }
    assert packages - {"matplotlib"} <= required  # seaborn brings it


@pytest.mark.parametrize(
    ("found", "variables", "expected"),
    [
        (
            {"gpus": ("Tesla T4", "Tesla T4")},
            {},
            "colab, Tesla T4 + Tesla T4, Keras on tensorflow, commit unknown",
        ),
        ({"num_tpu_chips": 8}, {}, "colab, TPU (8 chips), Keras on jax, commit unknown"),
        ({"backends": ()}, {}, "colab, Xeon (2 cores), Keras on no backend, commit unknown"),
        ({}, {"KERAS_BACKEND": "jax"}, "colab, Xeon (2 cores), Keras on jax, commit unknown"),
    ],
)
def test_one_line_says_where_a_notebook_runs(monkeypatch, tmp_path, found, variables, expected):
    """Platform, device, the backend that Keras will take, and no commit of a repository around
    an unpacked archive.
    """
    facts = Facts("colab", "Xeon", 2, 12.7, (), 0.0, 0.0, "", 0, ("tensorflow", "jax"))
    monkeypatch.setattr(setup, "probe", lambda: facts._replace(**found))
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "unpacked").mkdir()
    assert setup.describe_machine(tmp_path / "unpacked", "10_train") == expected
    assert (
        setup.describe_machine(tmp_path / "unpacked", "10_train", "a", "b")
        == f"{expected}, added a b"
    )


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


def test_a_driver_that_does_not_answer_stops_no_analysis(monkeypatch):
    """Notebooks that only read rows run where a GPU is broken; the line says so."""
    broken = setup.probe()._replace(gpu_error="repair its driver")
    monkeypatch.setattr(setup, "probe", lambda: broken)
    assert (
        setup.describe_machine(ROOT, "11_gpu_vs_tpu")
        .split(", Keras")[0]
        .endswith("; repair its driver")
    )


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
    imports = (
        "import cv2, numpy, pandas, PIL, pydantic, scipy, seaborn, sklearn;"
        " print(numpy.__version__)"
    )
    assert run(python, imports).stdout.strip() == "2.1.3"
    assert run(python, CALL, COLAB_RELEASE_TAG="r").stdout.strip() == ""


def test_a_notebook_below_the_root_works_in_it(tmp_path, monkeypatch, capsys):
    """Folders are named from there, and a line says so; elsewhere the working directory stays."""
    (tmp_path / "notebooks").mkdir()
    for root, is_moved in ((tmp_path / "notebooks", False), (tmp_path, True)):
        monkeypatch.chdir(tmp_path / "notebooks")
        setup.describe_machine(root, "11_gpu_vs_tpu")
        assert (Path.cwd() == tmp_path) == is_moved
        assert (capsys.readouterr().out == f"Folders are named from {tmp_path}.\n") == is_moved


@pytest.mark.parametrize("is_other", [False, True])
def test_a_notebook_of_another_version_than_the_library_says_so(clone, kernel, is_other):
    """At set-up, before a run of it ends at a name that the library no longer has."""
    notebook = nbformat.read(clone / "notebooks" / "11_gpu_vs_tpu.ipynb", as_version=4)
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"][:3]
    cells[2] += "\nold = True" if is_other else ""
    (client := kernel.client()).start_channels()
    client.wait_for_ready(timeout=60)
    forget(client, clone)
    said = []
    for cell in cells:
        client.execute_interactive(
            cell, output_hook=lambda message: said.append(message["content"].get("text", ""))
        )
    client.stop_channels()
    assert ("This notebook is not that of " in "".join(said)) == is_other, said
