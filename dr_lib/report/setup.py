"""Install what a cloud runtime lacks, check a notebook's parameters, and print where it runs."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

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
    except ModuleNotFoundError:  # of ruamel.yaml, ruamel
        return False


def set_up(root: Path, notebook: str, *modules: str) -> None:
    """Install what the runtime lacks, check the notebook's parameters, and print where it runs.

    Figures start from Matplotlib's own style: a user's matplotlibrc may need a LaTeX that is not
    there, and it or a style of IPython's start-up would change what a report shows.

    Args:
        root: folder that holds dr_lib.
        notebook: its name without suffix.
        modules: to install besides those of every notebook, by the names that are imported.

    Raises:
        DrError, SystemExit: see `install_missing` and `describe_machine`.
    """
    from IPython import get_ipython

    shell = get_ipython()
    if shell and shell.user_ns.get("mode") == "plain":  # whose tf.data reads the records
        modules = (*modules, "tensorflow")
    print(describe_machine(root, notebook, *install_missing(*modules)))
    if Cells(root, notebook).find_edits():
        print(f"This notebook is not that of {root}: its version or its cells are others.")
    from matplotlib import rcdefaults

    rcdefaults()
    if shell and "results" in shell.user_ns:
        keep_results(shell.user_ns["results"])


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


def describe_machine(root: Path, notebook: str, *added: str) -> str:
    """Read the notebook's parameters by `read_parameters`, and describe in one line where it runs.

    A notebook that Jupyter opened below the repository works in the root from then on, as studies
    and commands do; an input that lies beside the notebook alone is found there.

    Returns:
        Platform, device, Keras backend, commit of the folder, packages added.

    Raises:
        SystemExit: an unknown parameter or an invalid value; Jupyter shows it as one sentence.
    """
    from IPython import get_ipython

    from dr_lib.parameters import ParameterError, read_parameters  # which needs pydantic

    shell = get_ipython()
    try:
        if shell:
            cells = shell.history_manager.input_hist_raw
            parameters = read_parameters(notebook, cells, shell.user_ns)
            inputs = parameters.find_inputs()
            shell.user_ns.update(_find_inputs(dict(parameters), inputs, root))
    except ParameterError as error:
        raise SystemExit(str(error)) from None
    facts = probe()
    backends = facts.backends
    device = " + ".join(facts.gpus) or f"{facts.cpu} ({facts.num_cpus} cores)"
    if facts.gpu_error:  # an error where a training needs it
        device = f"{device}; {facts.gpu_error}"
    if facts.num_tpu_chips:
        backends = ("jax",)
        device = f"TPU ({facts.num_tpu_chips} chips)"
    backend = os.environ.get("KERAS_BACKEND") or next(iter(backends), "no backend")
    more = f", added {' '.join(added)}" if added else ""
    commit = shorten_commit(read_commit(root))
    if why := explain_commit(root):
        commit += f" ({why})"
    return f"{facts.platform}, {device}, Keras on {backend}, commit {commit}{more}"


def _find_inputs(parameters: dict[str, Any], inputs: list[str], root: Path) -> dict[str, Any]:
    """Work in the root, where the notebook lies below it; find inputs that lie beside it alone."""
    here = Path.cwd()
    if root.resolve() in here.resolve().parents:
        os.chdir(root)
    found = dict(parameters)
    for name in inputs:
        for path in (here / parameters[name], root / parameters[name]):
            if not Path(found[name]).exists() and path.exists():
                found[name] = str(path)
    return found


def _install(packages: list[str]) -> None:
    shipped: dict[str, str] = {}
    # in the order of sys.path: the first of a name is the one that is imported
    for package in distributions():
        if package.metadata["Name"]:
            name = re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower()
            shipped.setdefault(name, package.version)
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        lines = [f"{name}=={version}" for name, version in shipped.items()]
        constraints.write_text("\n".join(lines), encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "install", "--quiet"]
        command = [*pip, "--constraint", str(constraints), *map(_find_version, packages)]
        ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        why = read_last_words(ran.stderr, "pip failed")
        hint = "on Kaggle, turn on Internet in the notebook's settings"
        raise DrError(f"could not install {', '.join(packages)} ({why}); {hint}")


def _find_version(package: str) -> str:
    """Add the accepted versions to a package's name, if the folder states them."""
    path = Path(__file__).resolve().parents[2] / "requirements.txt"
    listed = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next((line for line in listed if re.split("[<>=]", line)[0] == package), package)
