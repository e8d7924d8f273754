"""Run the notebooks in look-alikes of the cloud runtimes: python -m tools.runtimes [--reports]
[NAME ...].

With --reports only those run that show what is there already, on small studies of stored rows.

A look-alike is a virtual environment in `.runtimes/` with the package versions that the runtime
ships, on this machine's CPU. papermill runs outside it, so that nothing is in it that the notebooks
do not add themselves; they may move no version.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.studies import PREDICTIONS, write_studies
from tools.bench import ROOT

LISTS = ROOT / "tools" / "runtimes"
HOMES = ROOT / ".runtimes"
SAMPLE = Path("papermill_runs", "sample")
RECORDS = SAMPLE / "records"
HINTS = {
    "colab": {"COLAB_RELEASE_TAG": "look-alike"},
    "kaggle": {"KAGGLE_KERNEL_RUN_TYPE": "Batch"},
}
# TensorFlow converts to LiteRT, and reads the shards of mode plain
NEED_TENSORFLOW = ("10 plain", "21", "22")
COLUMNS = "{:11} {:7} {:10} {:7} {:6} {:10} {:>7}  {:20} {}"


class Runtime(NamedTuple):
    """A cloud runtime, the parameters of notebook 10 there, and what has to come of it."""

    # of the list of packages, behind colab- or kaggle-, what the library has to take it for
    name: str
    python: str
    parameters: dict[str, Any]
    row: dict[str, Any]


ONE = {"strategy": "none", "num_replicas": 1}
MIRRORED = {"backend": "tensorflow", "strategy": "MirroredStrategy", "num_replicas": 2}
PARALLEL = {"backend": "jax", "strategy": "DataParallel", "num_replicas": 8}
RUNTIMES = (
    Runtime("colab-cpu", "3.13", {}, {"backend": "tensorflow"} | ONE),
    Runtime("colab-tpu", "3.13", {}, {"backend": "jax"} | ONE),
    Runtime("kaggle-gpu", "3.12", {"num_devices": 2}, MIRRORED),
    Runtime("kaggle-tpu", "3.12", {"backend": "jax", "num_devices": 8}, PARALLEL),
)


class Job(NamedTuple):
    """A notebook to run, under a title."""

    title: str
    notebook: str
    parameters: dict[str, Any]


REPORTS = (
    Job("00", "00_start_here", {}),
    Job("11 rows", "11_gpu_vs_tpu", {"runs": "papermill_runs/trained"}),
    Job("12", "12_evaluate", {"predictions": str(PREDICTIONS)}),
    Job("21", "21_export_quantize", {"model": "small_cnn", "image_size": 48, "num_rounds": 2}),
    Job("23", "23_serving_cost", {"runs": "papermill_runs/serving"}),
    Job("31", "31_factor_effects", {"runs": "papermill_runs/scenarios"}),
    Job("41", "41_cuda_vs_keras", {"runs": "papermill_runs/mnist"}),
)


def list_trainings(runtime: Runtime) -> list[Job]:
    """What trains, serves and prepares in a runtime; the one on shards does without OpenCV."""
    training = {"epochs": 3, "image_size": 48} | runtime.parameters
    grades = training | {"epochs": 2, "task": "grades", "mode": "paper"}
    serving = {
        "model": "small_cnn",
        "image_size": 48,
        "num_requests": 5,
        "gap_s": 0.0,
        "load_seconds": 0.5,
    }
    framework = {"tensorflow": "tensorflow", "jax": "keras_jax"}[runtime.row["backend"]]
    scenario = {"framework": framework, "data_share": 0.005, "epochs": 2}
    mnist = {"implementation": "fused@1", "epochs": 1}
    return [
        Job("10 paper", "10_train", training | {"mode": "paper"}),
        Job("10 fast", "10_train", training | {"mode": "fast"}),
        Job("10 plain", "10_train", training | {"mode": "plain"}),
        Job("11", "11_gpu_vs_tpu", {"runs": "papermill_runs/adhoc"}),
        Job("10 shards", "10_train", training | {"mode": "fast", "data_dir": str(RECORDS)}),
        Job("01", "01_prepare_fundus", {}),
        Job("10 grades", "10_train", grades),
        Job("13", "13_explain", {}),
        Job("22", "22_serve_and_load", serving),
        Job("30", "30_train_scenario", scenario),
        Job("40", "40_mnist_cuda", mnist),
    ]


def find_python(version: str) -> str | None:
    """A Python of that version, on the PATH or pyenv's; a shim of pyenv may be there without it."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for candidate in (f"python{version}", *pyenv.glob(f"versions/{version}.*/bin/python")):
        command = [candidate, "--version"]
        if (
            shutil.which(candidate)
            and not subprocess.run(command, capture_output=True).returncode
        ):
            return str(candidate)
    return None


def pip(python: Path, *arguments: str) -> str:
    """Run the pip of a runtime and return what it prints; its errors go to the terminal."""
    command = [python, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def read_packages(python: Path) -> dict[str, str]:
    """The packages of a runtime and their versions."""
    pairs = (line.split("==") for line in pip(python, "freeze").splitlines() if "==" in line)
    return {name.replace("_", "-").lower(): number for name, number in pairs}


def build(runtime: Runtime, source: str) -> tuple[Path, dict[str, str]]:
    """Build a look-alike, once, and bring it back to what it ships; return its Python and its
    packages.
    """
    home = HOMES / runtime.name
    listed = LISTS / f"{runtime.name}.txt"
    ready = home / "ready"
    python = home / "bin" / "python"
    if ready.exists() and ready.stat().st_mtime >= listed.stat().st_mtime:
        shipped = json.loads(ready.read_text())
        found = read_packages(python)
        if shipped.items() <= found.items():
            if added := found.keys() - shipped.keys():
                pip(python, "uninstall", "--quiet", "--yes", *added)
            return python, shipped
    print(
        f"{runtime.name}: building {home.relative_to(ROOT)}, which downloads up to 1 GB",
        file=sys.stderr,
    )
    subprocess.run([source, "-m", "venv", "--clear", home], check=True)
    constraints = str(ROOT / "constraints" / f"{runtime.name}.txt")
    pip(python, "install", "--quiet", "-r", str(listed), "-c", constraints)
    shipped = read_packages(python)
    ready.write_text(json.dumps(shipped, indent=1), encoding="utf-8")
    return python, shipped


def execute(
    runtime: Runtime, python: Path, clone: Path, notebook: str, parameters: dict[str, Any]
) -> list[str]:
    """Run a notebook of the clone in the runtime; return papermill's errors, if any."""
    spec = {
        "argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "language": "python",
        "display_name": runtime.name,
        "env": HINTS.get(runtime.name.split("-")[0], {}),
    }
    kernel = clone / "jupyter" / "kernels" / runtime.name / "kernel.json"
    kernel.parent.mkdir(parents=True, exist_ok=True)
    kernel.write_text(json.dumps(spec), encoding="utf-8")
    command = f"-m papermill --no-progress-bar --execution-timeout 600 -k {runtime.name}"
    command += f" notebooks/{notebook}.ipynb out.ipynb"
    command = [sys.executable, *command.split()]
    command += [word for name, value in parameters.items() for word in ("-p", name, str(value))]
    # without the path to this repository the kernel has the clone's library alone
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"JUPYTER_PATH": str(clone / "jupyter")}
    ran = subprocess.run(command, capture_output=True, text=True, cwd=clone, env=environment)
    errors = re.sub(r"\x1b\[[\d;]*m", "", ran.stderr).strip().splitlines()[-15:]
    return ["\n".join(errors or ["papermill failed"])] if ran.returncode else []


def try_service(runtime: Runtime, python: Path, clone: Path) -> list[str]:
    """Send a study of notebook 10 to a stand-in of the runtime's service, whose machine is the
    look-alike.
    """
    service = runtime.name.split("-")[0]
    study = clone / "papermill_runs" / "look_alike.yaml"
    shutil.copytree(ROOT / RECORDS, clone / RECORDS, dirs_exist_ok=True)
    parameters = {"epochs": 3, "image_size": 48, "data_dir": str(RECORDS)} | runtime.parameters
    study.write_text(
        json.dumps({"notebook": "10_train", "repetitions": 1, "parameters": parameters})
    )
    from tests.remote.conftest import open_services

    home = clone / "cloud"
    code = (
        "import sys; sys.executable, content = sys.argv.pop(1), sys.argv.pop(1);"
        "from dr_lib.remote.colab import Colab; Colab.content = content;"
        "from dr_lib.__main__ import main; main()"
    )
    with open_services(home, str(python)) as (kaggle, programs):
        command = [
            sys.executable,
            "-c",
            code,
            str(programs / "python"),
            str(home / "machine" / "content"),
        ]
        command += ["run", str(study), "--on", f"{service}:cpu", "--yes"]
        environment = os.environ | {"PYTHONPATH": str(clone), "HOME": str(clone)}
        ran = subprocess.run(
            command, capture_output=True, text=True, cwd=clone, env=environment
        )
        left = [*kaggle.scripts, *kaggle.data_sets]
    machines = home / "machines.json"
    left += json.loads(machines.read_text()) if machines.exists() else []
    reasons = [ran.stdout[-2000:] + ran.stderr] if ran.returncode else []
    if not reasons:
        (path,) = study.with_suffix("").glob("rows/*.json")
        row = json.loads(path.read_text())
        expected = runtime.row | {"status": "ok", "platform": service, "data_kind": "synthetic"}
        reasons = find_unlike(row, expected)
    return reasons + [f"{name} was left" for name in left]


def find_unlike(row: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """The columns of a row that have another value than expected."""
    return [
        f"{name} of the row is {row[name]!r}, expected {value!r}"
        for name, value in expected.items()
        if row[name] != value
    ]


def try_job(runtime: Runtime, job: Job, source: str, clone: Path) -> list[str]:
    """Run a notebook in a runtime as it ships, print a line on it, and return what went wrong."""
    python, shipped = build(runtime, source)
    start = time.monotonic()
    wrong = execute(runtime, python, clone, job.notebook, job.parameters)
    seconds = time.monotonic() - start
    used = ""
    added = read_packages(python)
    if not wrong:
        moved = [name for name in shipped if added.get(name) != shipped[name]]
        wrong = [f"changed the version of {', '.join(moved)}"] if moved else []
        if job.notebook == "10_train":
            rows = clone.glob("papermill_runs/adhoc/rows/*.json")
            row = json.loads(max(rows, key=os.path.getmtime).read_text())
            used = f"{row['strategy']} x {row['num_replicas']}"
            expected = {
                **runtime.row,
                **{name: shipped[name] for name in ("keras", "jax", "numpy")},
                "tensorflow": shipped.get("tensorflow-cpu", ""),
                "status": "ok",
                "platform": runtime.name.split("-")[0],
                "mode": job.parameters["mode"],
            }
            wrong += find_unlike(row, expected)
    names = ", ".join(sorted(added.keys() - shipped.keys())) or "nothing"
    print_line(
        runtime, shipped, job.title, seconds, used, "FAILED" if wrong else f"ok, added {names}"
    )
    return [f"{runtime.name}, notebook {job.title}: {reason}" for reason in wrong]


def print_line(
    runtime: Runtime,
    shipped: dict[str, str],
    title: str,
    seconds: float,
    used: str,
    outcome: str,
) -> None:
    """Print a line of the table."""
    versions = [shipped.get(name, "none") for name in ("tensorflow-cpu", "keras", "jax")]
    cells = (*runtime[:2], *versions, title, f"{seconds:.0f}", used, outcome)
    print(COLUMNS.format(*cells), flush=True)


def try_runtime(runtime: Runtime, source: str, clone: Path, only_reports: bool) -> list[str]:
    """Run the jobs of a runtime in a copy of the repository; return what went wrong."""
    for name in ("dr_lib", "notebooks"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "requirements.txt", clone)  # which `--on` takes along
    write_studies(clone)
    python, shipped = build(runtime, source)
    # where it is missing, a notebook has to prepare the sample
    if "opencv-python-headless" in shipped:
        shutil.copytree(ROOT / SAMPLE, clone / SAMPLE)
    jobs = list(REPORTS) if only_reports else [*list_trainings(runtime), *REPORTS]
    if "tensorflow-cpu" not in shipped:
        jobs = [job for job in jobs if job.title not in NEED_TENSORFLOW]
    wrong = []
    for job in jobs:
        wrong += try_job(runtime, job, source, clone)
    if only_reports:
        return wrong
    start = time.monotonic()
    reasons = try_service(runtime, python, clone)
    outcome = "FAILED" if reasons else "ok, from a stand-in of the service, nothing left there"
    print_line(runtime, shipped, "--on", time.monotonic() - start, "", outcome)
    return wrong + [f"{runtime.name}, --on: {reason}" for reason in reasons]


def main() -> int:
    """Try the runtimes named, or all; 1 if anything went wrong, or one that is named has no
    Python here.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = [runtime.name for runtime in RUNTIMES]
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument(
        "--reports", action="store_true", help="only what shows rows that are there already"
    )
    asked = parser.parse_args()
    if unknown := set(asked.names) - set(known):
        parser.error(f"{', '.join(sorted(unknown))}: no such runtime")
    wrong = []
    header = "runtime python tensorflow keras jax notebook seconds strategy outcome"
    print(COLUMNS.format(*header.split()))
    for runtime in RUNTIMES:
        if asked.names and runtime.name not in asked.names:
            continue
        source = find_python(runtime.python)
        if source:
            with tempfile.TemporaryDirectory() as folder:
                wrong += try_runtime(runtime, source, Path(folder), asked.reports)
            continue
        fault = f"not run, Python {runtime.python} is not on this machine"
        missing = f"{runtime.name}: {fault}: install it"
        print(missing)
        if asked.names:
            wrong.append(missing)
    print(*wrong, sep="\n\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
