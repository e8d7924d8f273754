"""Install what a cloud runtime lacks, check a notebook's parameters, and print where it runs."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from dr_lib.code import Cells, explain_commit, read_commit, shorten_commit
from dr_lib.command import write_install
from dr_lib.errors import DrError
from dr_lib.hardware.facts import find_platform, probe
from dr_lib.processes import read_last_words

PACKAGES = {  # module: what pip calls it
    "cv2": "opencv-python-headless",
    "google_crc32c": "google-crc32c",
    "pynvml": "nvidia-ml-py",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "tensorflow": "tensorflow-cpu",  # where a TPU's runtime has none
}
DRIVE = "/content/drive"  # where Colab mounts Google Drive
# needed by all notebooks
ALWAYS = (
    "filelock",
    "google_crc32c",
    "matplotlib",
    "pandas",
    "PIL",
    "psutil",
    "pydantic",
    "pynvml",
    "ruamel.yaml",
    "scipy",
    "seaborn",
    "sklearn",
)
# needed to serve a model
SERVER = ("ai_edge_litert", "granian", "prometheus_client", "starlette")
# needed to run a study
RUNNER = ("click", "ipykernel", "jupyter_client", "nbformat", "papermill", "tqdm")


def install_missing(*modules: str) -> list[str]:
    """Install missing packages on Colab or Kaggle; elsewhere report how to install them.

    What the runtime ships is held at its version, so that its TensorFlow, JAX and NumPy still fit
    each other.

    Args:
        modules: needed besides those that every notebook needs, such as cv2.

    Returns:
        The packages installed.

    Raises:
        DrError: this is no cloud runtime, or the installation failed.
    """
    needed = (*ALWAYS, *modules)
    absent = [name for name in needed if not _is_there(name)]
    missing = [PACKAGES.get(name, name) for name in absent]
    if missing and find_platform() == "local":
        install = write_install("-r", "requirements.txt")
        raise DrError(f"{', '.join(missing)} missing: {install}")
    if missing:
        _install(missing)
        importlib.invalidate_caches()
    return missing


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of ruamel.yaml, ruamel, which others have, too
        return False


def set_up(root: Path, notebook: str, *modules: str) -> None:
    """Install what the runtime lacks, check the notebook's parameters, and print where it runs.

    A notebook that Jupyter opened below the repository works in the root from then on, as studies
    and commands do. Figures start from Matplotlib's own style: a user's matplotlibrc may need a
    LaTeX that is not there, and it or a style of IPython's start-up would change what a report
    shows.

    Args:
        root: folder that holds dr_lib.
        notebook: its name without suffix.
        modules: to install besides those of every notebook, by the names that are imported.

    Raises:
        DrError: see `install_missing`.
        SystemExit: an unknown parameter or an invalid value; Jupyter shows it as one sentence.
    """
    from IPython import get_ipython

    shell = get_ipython()
    names = shell.user_ns if shell else {}
    if names.get("mode") == "plain":  # whose tf.data reads the records
        modules = (*modules, "tensorflow")
    added = install_missing(*modules)
    from matplotlib import rcdefaults

    from dr_lib.parameters import ParameterError, read_parameters

    rcdefaults()
    try:
        if shell:
            cells = shell.history_manager.input_hist_raw
            names.update(dict(read_parameters(notebook, cells, names)))
    except ParameterError as error:
        raise SystemExit(str(error)) from None
    if root.resolve() in Path.cwd().resolve().parents:
        os.chdir(root)
        print(f"Folders are named from {Path.cwd()}.")
    print(describe_machine(root))
    if added:
        print("added", *added)
    if Cells(root, notebook).find_edits():
        print(f"This notebook is not that of {root}: its version or its cells are others.")
    if "results" in names:
        keep_results(names["results"])


def keep_results(results: str) -> None:
    """Mount the Drive that holds the folder for results; on Colab without one, recommend it.

    Args:
        results: folder, empty for one that is lost with the machine.

    Raises:
        DrError: the Drive is not mounted, and this kernel cannot mount it.
    """
    if find_platform() != "colab":
        return
    if Path(DRIVE) in Path(results).absolute().parents:
        if os.path.ismount(DRIVE):
            return
        try:
            from google.colab import drive  # Colab's own, absent from kernels set up by ours
        except ImportError:
            mount = f"from google.colab import drive; drive.mount({DRIVE!r})"
            raise DrError(
                f"Drive is not mounted: run this in a Colab notebook: {mount}"
            ) from None
        drive.mount(DRIVE)
    elif not results:
        print(
            "Rows and models are lost with this machine. To keep them and to resume interrupted"
            f' runs, set results to a folder on your Drive, such as "{DRIVE}/MyDrive/results".'
        )


def describe_machine(root: Path) -> str:
    """Describe in one line where a notebook runs: platform, device, Keras backend, commit of the
    folder.
    """
    facts = probe()
    device = " + ".join(facts.gpus) or f"{facts.cpu} ({facts.num_cpus} cores)"
    if facts.gpu_error:  # an error where a training needs it
        device = f"{device}; {facts.gpu_error}"
    backend = next(iter(facts.backends), "no backend")
    if facts.num_tpu_chips:
        backend = "jax"
        device = f"TPU ({facts.num_tpu_chips} chips)"
    backend = os.environ.get("KERAS_BACKEND", backend)
    commit = shorten_commit(read_commit(root))
    if why := explain_commit(root):
        commit += f" ({why})"
    return f"{facts.platform}, {device}, Keras on {backend}, commit {commit}"


def _install(packages: list[str]) -> None:
    pip = [sys.executable, "-m", "pip"]
    listed = [*pip, "list", "--format=freeze"]
    shipped = subprocess.run(listed, capture_output=True, text=True).stdout
    accepted = Path(__file__).resolve().parents[2] / "requirements.txt"
    lines = accepted.read_text(encoding="utf-8").splitlines() if accepted.exists() else []
    versions = {re.split("[<>=]", line)[0]: line for line in lines}
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        constraints.write_text(shipped, encoding="utf-8")
        command = [*pip, "install", "--quiet", "--constraint", str(constraints)]
        command += [versions.get(name, name) for name in packages]
        ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        why = read_last_words(ran.stderr, "pip failed")
        hint = "on Kaggle, turn on Internet in the notebook's settings"
        raise DrError(f"could not install {', '.join(packages)} ({why}); {hint}")
