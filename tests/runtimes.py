"""Run the notebooks in look-alikes of the cloud runtimes: python tests/runtimes.py [NAME ...].

A look-alike is a virtual environment in `.runtimes/` with the package versions that the runtime ships, on this
machine's CPU. papermill runs outside it, so that nothing is in it that the notebooks do not add themselves.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LISTS, HOMES = ROOT / "tests" / "runtimes", ROOT / ".runtimes"
SAMPLE = Path("papermill_runs", "sample")
ROWS = "papermill_runs/adhoc/rows/*.json"
OPENCV = frozenset({"opencv-python-headless"})
PYDANTIC = frozenset({"annotated-types", "pydantic", "pydantic-core", "typing-inspection"})
HINTS = {"colab": {"COLAB_RELEASE_TAG": "look-alike"}, "kaggle": {"KAGGLE_KERNEL_RUN_TYPE": "Batch"}}
SIZE = {"epochs": 3, "image_size": 48}
COLUMNS = "{:11} {:7} {:10} {:7} {:6} {:10} {:>7}  {:20} {}"


class Runtime(NamedTuple):
    """A cloud runtime, what is asked of notebook 10 there, and what has to come of it."""

    name: str  # of the list of packages
    python: str
    lacks: frozenset[str]  # packages that the notebooks have to add, and may
    asked: dict[str, Any]
    backend: str
    strategy: str
    num_replicas: int

    @property
    def platform(self) -> str:
        """What the library has to take it for: colab or kaggle."""
        return self.name.split("-")[0]


RUNTIMES = (
    Runtime("colab-cpu", "3.13", frozenset(), {}, "tensorflow", "none", 1),
    Runtime("colab-tpu", "3.13", OPENCV, {}, "jax", "none", 1),
    Runtime("kaggle-gpu", "3.12", frozenset(), {"num_devices": 2}, "tensorflow", "MirroredStrategy", 2),
    Runtime("kaggle-tpu", "3.12", PYDANTIC, {"backend": "jax", "num_devices": 8}, "jax", "DataParallel", 8),
)


class Job(NamedTuple):
    """A notebook to run in a runtime as shipped, and the packages that it has to add there."""

    title: str
    notebook: str
    parameters: dict[str, Any]
    adds: frozenset[str]


def list_jobs(runtime: Runtime) -> list[Job]:
    """The notebooks of a runtime, in order; the last one reads shards, which needs no OpenCV."""
    asked, without_opencv = SIZE | runtime.asked, runtime.lacks - OPENCV
    trainings = [
        Job(f"10 {mode}", "10_train_referable", asked | {"mode": mode}, runtime.lacks) for mode in ("paper", "fast")
    ]
    shards = {"mode": "fast", "data_dir": str(SAMPLE / "records")}
    return [
        *trainings,
        Job("11", "11_gpu_vs_tpu", {"runs": "papermill_runs/adhoc", "allow": "mode"}, without_opencv),
        Job("00", "00_start_here", {}, runtime.lacks),
        Job("10 shards", "10_train_referable", asked | shards, without_opencv),
    ]


def find_python(wanted: str) -> str | None:
    """A Python of that version, on the PATH or pyenv's; a shim of pyenv may be there without it."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for candidate in (f"python{wanted}", *map(str, pyenv.glob(f"versions/{wanted}.*/bin/python"))):
        if shutil.which(candidate) and not subprocess.run([candidate, "--version"], capture_output=True).returncode:
            return candidate
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
    """Build a look-alike, once, and bring it back to what it ships; return its Python and its packages."""
    home, wanted = HOMES / runtime.name, LISTS / f"{runtime.name}.txt"
    ready, python = home / "ready", home / "bin" / "python"
    if ready.exists() and ready.stat().st_mtime >= wanted.stat().st_mtime:
        shipped, found = json.loads(ready.read_text()), read_packages(python)
        if shipped.items() <= found.items():
            if added := found.keys() - shipped.keys():
                pip(python, "uninstall", "--quiet", "--yes", *added)
            return python, shipped
    print(f"{runtime.name}: building {home.relative_to(ROOT)}, which downloads up to 1 GB", file=sys.stderr)
    subprocess.run([source, "-m", "venv", "--clear", home], check=True)
    pip(python, "install", "--quiet", "--requirement", str(wanted))
    shipped = read_packages(python)
    ready.write_text(json.dumps(shipped, indent=1), encoding="utf-8")
    return python, shipped


def make_clone(runtime: Runtime, clone: Path) -> Path:
    """Copy the repository as a user has it, with the prepared sample; without OpenCV the notebook has to prepare it."""
    for name in ("dr_lib", "notebooks"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    if not OPENCV & runtime.lacks:
        shutil.copytree(ROOT / SAMPLE / "records", clone / SAMPLE / "records")
    return clone


def execute(job: Job, runtime: Runtime, python: Path, clone: Path) -> str:
    """Run a notebook of the clone in the runtime; return papermill's errors, or nothing."""
    jupyter = clone / "jupyter"
    spec = {"argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python"}
    spec |= {"display_name": runtime.name, "env": HINTS[runtime.platform]}
    kernel = jupyter / "kernels" / runtime.name / "kernel.json"
    kernel.parent.mkdir(parents=True, exist_ok=True)
    kernel.write_text(json.dumps(spec), encoding="utf-8")
    source, out = clone / "notebooks" / f"{job.notebook}.ipynb", clone / f"{job.title}.ipynb"
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", "--execution-timeout", "600"]
    command += ["-k", runtime.name, "--cwd", str(clone), str(source), str(out)]
    for name, value in job.parameters.items():
        command += ["-p", name, str(value)]
    # without the path to this repository the kernel has the clone's library alone
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        command, capture_output=True, text=True, cwd=clone, env=environment | {"JUPYTER_PATH": str(jupyter)}
    )
    return re.sub(r"\x1b\[[\d;]*m", "", ran.stderr).strip() if ran.returncode else ""


def find_differences(
    job: Job, runtime: Runtime, shipped: dict[str, str], found: dict[str, str], row: dict[str, Any]
) -> Iterator[str]:
    """Say what a notebook that ended without an error did otherwise than expected."""
    added = found.keys() - shipped.keys()
    if added != job.adds:
        yield f"added {sorted(added)}, expected {sorted(job.adds)}"
    if moved := sorted(name for name in shipped if found.get(name) != shipped[name]):
        yield f"changed the version of {', '.join(moved)}"
    if job.notebook != "10_train_referable":
        return
    wanted = {"status": "ok", "platform": runtime.platform, "mode": job.parameters["mode"], "backend": runtime.backend}
    wanted |= {"strategy": runtime.strategy, "num_replicas": runtime.num_replicas}
    wanted |= {name: shipped[name] for name in ("keras", "jax", "numpy")}
    wanted |= {"tensorflow": shipped.get("tensorflow-cpu", "")}
    for name, value in wanted.items():
        if row[name] != value:
            yield f"{name} of the row is {row[name]!r}, expected {value!r}"


def try_runtime(runtime: Runtime, source: str, clone: Path) -> list[str]:
    """Run the jobs of a runtime and print a line on each; return what went wrong."""
    make_clone(runtime, clone)
    wrong = []
    for job in list_jobs(runtime):
        python, shipped = build(runtime, source)
        start = time.monotonic()
        error = execute(job, runtime, python, clone)
        seconds, row = time.monotonic() - start, {}
        if not error and job.notebook == "10_train_referable":
            row = json.loads(max(clone.glob(ROWS), key=os.path.getmtime).read_text())
        differences = [] if error else list(find_differences(job, runtime, shipped, read_packages(python), row))
        versions = (shipped.get(name, "none") for name in ("tensorflow-cpu", "keras", "jax"))
        how = f"{row['strategy']} x {row['num_replicas']}" if row else ""
        outcome = "FAILED" if error or differences else f"ok, added {', '.join(sorted(job.adds)) or 'nothing'}"
        print(COLUMNS.format(runtime.name, runtime.python, *versions, job.title, f"{seconds:.0f}", how, outcome))
        sys.stdout.flush()
        wrong += [f"{runtime.name}, notebook {job.title}: {reason}" for reason in differences]
        if error:
            wrong.append(f"{runtime.name}, notebook {job.title}:\n" + "\n".join(error.splitlines()[-15:]))
    return wrong


def main() -> int:
    """Try the runtimes named, or all; 1 if anything went wrong in one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(runtime.name for runtime in RUNTIMES))
    names, wrong = parser.parse_args().names, []
    if unknown := set(names) - {runtime.name for runtime in RUNTIMES}:
        parser.error(f"{', '.join(sorted(unknown))}: no such runtime")
    print(COLUMNS.format(*"runtime python tensorflow keras jax notebook seconds strategy".split(), "outcome"))
    for runtime in RUNTIMES:
        if names and runtime.name not in names:
            continue
        source = find_python(runtime.python)
        if source is None:
            print(f"{runtime.name:11} {runtime.python:7} not run: there is no Python {runtime.python} here")
            continue
        with tempfile.TemporaryDirectory() as folder:
            wrong += try_runtime(runtime, source, Path(folder))
    print(*wrong, sep="\n\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
