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
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LISTS, HOMES = ROOT / "tests" / "runtimes", ROOT / ".runtimes"
RECORDS = Path("papermill_runs", "sample", "records")
HINTS = {"colab": {"COLAB_RELEASE_TAG": "look-alike"}, "kaggle": {"KAGGLE_KERNEL_RUN_TYPE": "Batch"}}
OPENCV = frozenset({"opencv-python-headless"})
PYDANTIC = frozenset({"annotated-types", "pydantic", "pydantic-core", "typing-inspection"})
COLUMNS = "{:11} {:7} {:10} {:7} {:6} {:10} {:>7}  {:20} {}"


class Runtime(NamedTuple):
    """A cloud runtime, the parameters of notebook 10 there, and what has to come of it."""

    name: str  # of the list of packages, behind colab- or kaggle-, what the library has to take it for
    python: str
    lacks: frozenset[str]  # packages that the notebooks have to add, and may
    parameters: dict[str, Any]
    row: dict[str, Any]


ONE = {"strategy": "none", "num_replicas": 1}
MIRRORED = {"backend": "tensorflow", "strategy": "MirroredStrategy", "num_replicas": 2}
PARALLEL = {"backend": "jax", "strategy": "DataParallel", "num_replicas": 8}
RUNTIMES = (
    Runtime("colab-cpu", "3.13", frozenset(), {}, {"backend": "tensorflow"} | ONE),
    Runtime("colab-tpu", "3.13", OPENCV, {}, {"backend": "jax"} | ONE),
    Runtime("kaggle-gpu", "3.12", frozenset(), {"num_devices": 2}, MIRRORED),
    Runtime("kaggle-tpu", "3.12", PYDANTIC, {"backend": "jax", "num_devices": 8}, PARALLEL),
)


def list_jobs(runtime: Runtime) -> list[tuple]:
    """Title, notebook, parameters, and the packages that it has to add; the last one reads shards, without OpenCV."""
    training, rest = {"epochs": 3, "image_size": 48} | runtime.parameters, runtime.lacks - OPENCV
    return [
        ("10 paper", "10_train_referable", training | {"mode": "paper"}, runtime.lacks),
        ("10 fast", "10_train_referable", training | {"mode": "fast"}, runtime.lacks),
        ("11", "11_gpu_vs_tpu", {"runs": "papermill_runs/adhoc", "allow": "mode"}, rest),
        ("00", "00_start_here", {}, runtime.lacks),
        ("10 shards", "10_train_referable", training | {"mode": "fast", "data_dir": str(RECORDS)}, rest),
    ]


def find_python(version: str) -> str | None:
    """A Python of that version, on the PATH or pyenv's; a shim of pyenv may be there without it."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for candidate in (f"python{version}", *map(str, pyenv.glob(f"versions/{version}.*/bin/python"))):
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
    home, listed = HOMES / runtime.name, LISTS / f"{runtime.name}.txt"
    ready, python = home / "ready", home / "bin" / "python"
    if ready.exists() and ready.stat().st_mtime >= listed.stat().st_mtime:
        shipped, found = json.loads(ready.read_text()), read_packages(python)
        if shipped.items() <= found.items():
            if added := found.keys() - shipped.keys():
                pip(python, "uninstall", "--quiet", "--yes", *added)
            return python, shipped
    print(f"{runtime.name}: building {home.relative_to(ROOT)}, which downloads up to 1 GB", file=sys.stderr)
    subprocess.run([source, "-m", "venv", "--clear", home], check=True)
    pip(python, "install", "--quiet", "--requirement", str(listed))
    shipped = read_packages(python)
    ready.write_text(json.dumps(shipped, indent=1), encoding="utf-8")
    return python, shipped


def execute(runtime: Runtime, python: Path, clone: Path, notebook: str, parameters: dict[str, Any]) -> list[str]:
    """Run a notebook of the clone in the runtime; return papermill's errors, if any."""
    spec = {"argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python"}
    spec |= {"display_name": runtime.name, "env": HINTS.get(runtime.name.split("-")[0], {})}
    kernel = clone / "jupyter" / "kernels" / runtime.name / "kernel.json"
    kernel.parent.mkdir(parents=True, exist_ok=True)
    kernel.write_text(json.dumps(spec), encoding="utf-8")
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", "--execution-timeout", "600"]
    command += ["-k", runtime.name, f"notebooks/{notebook}.ipynb", "out.ipynb"]
    command += [word for name, value in parameters.items() for word in ("-p", name, str(value))]
    # without the path to this repository the kernel has the clone's library alone
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"JUPYTER_PATH": str(clone / "jupyter")}
    ran = subprocess.run(command, capture_output=True, text=True, cwd=clone, env=environment)
    errors = re.sub(r"\x1b\[[\d;]*m", "", ran.stderr).strip().splitlines()[-15:]
    return ["\n".join(errors or ["papermill failed"])] if ran.returncode else []


def try_service(runtime: Runtime, python: Path, clone: Path) -> list[str]:
    """Send a study of notebook 10 to a stand-in of the runtime's service, whose machine is the look-alike."""
    service, study = runtime.name.split("-")[0], clone / "papermill_runs" / "look_alike.yaml"
    shutil.copytree(ROOT / RECORDS, clone / RECORDS, dirs_exist_ok=True)
    parameters = {"epochs": 3, "image_size": 48, "data_dir": str(RECORDS)} | runtime.parameters
    study.write_text(json.dumps({"notebook": "10_train_referable", "repetitions": 1, "parameters": parameters}))
    environment = {"STAND_IN": str(clone / "cloud"), "STAND_IN_PYTHON": str(python)}
    environment |= {"PATH": f"{put_stand_ins(clone / 'bin')}:{os.environ['PATH']}", "PYTHONPATH": str(clone)}
    command = [sys.executable, "-m", "dr_lib", "run", str(study), "--on", f"{service}:cpu", "--yes"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=clone, env=os.environ | environment)
    reasons = [ran.stdout[-2000:] + ran.stderr] if ran.returncode else []
    if not reasons:
        (row,) = (json.loads(path.read_text()) for path in study.with_suffix("").glob("rows/*.json"))
        expected = runtime.row | {"status": "ok", "platform": service, "data_kind": "synthetic"}
        reasons = find_differences(frozenset(), row, expected, {}, {})
    left = [str(path) for path in clone.glob("cloud/*/*")]
    return reasons + [f"{path} was left" for path in left]


def put_stand_ins(folder: Path) -> Path:
    """Put stand-ins of the two services' clients into a folder, under their names."""
    folder.mkdir()
    source = (ROOT / "tests" / "runs" / "remote" / "stand_in.py").read_text()
    for name in ("colab", "kaggle"):
        (folder / name).write_text(f"#!{sys.executable}\n{source}")
        (folder / name).chmod(0o755)
    return folder


def find_differences(
    adds: frozenset[str], row: dict[str, Any], expected: dict[str, Any], shipped: dict[str, str], found: dict[str, str]
) -> list[str]:
    """What a notebook that ended without an error did otherwise than expected."""
    added, moved = found.keys() - shipped.keys(), sorted(name for name in shipped if found.get(name) != shipped[name])
    differences = [f"added {sorted(added)}, expected {sorted(adds)}"] if added != adds else []
    differences += [f"changed the version of {', '.join(moved)}"] if moved else []
    wrong = [name for name in expected if row and row[name] != expected[name]]
    return differences + [f"{name} of the row is {row[name]!r}, expected {expected[name]!r}" for name in wrong]


def try_runtime(runtime: Runtime, source: str, clone: Path) -> list[str]:
    """Run the jobs of a runtime in a copy of the repository and print a line on each; return what went wrong."""
    for name in ("dr_lib", "notebooks"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    if not OPENCV & runtime.lacks:  # where it is missing, the notebook has to prepare the sample
        shutil.copytree(ROOT / RECORDS, clone / RECORDS)
    wrong = []
    for title, notebook, parameters, adds in list_jobs(runtime):
        python, shipped = build(runtime, source)
        start, row = time.monotonic(), {}
        reasons = execute(runtime, python, clone, notebook, parameters)
        seconds = time.monotonic() - start
        if not reasons:
            if notebook == "10_train_referable":
                rows = clone.glob("papermill_runs/adhoc/rows/*.json")
                row = json.loads(max(rows, key=os.path.getmtime).read_text())
            expected = runtime.row | {"status": "ok", "platform": runtime.name.split("-")[0]}
            expected |= {"mode": parameters.get("mode"), "tensorflow": shipped.get("tensorflow-cpu", "")}
            expected |= {name: shipped[name] for name in ("keras", "jax", "numpy")}
            reasons = find_differences(adds, row, expected, shipped, read_packages(python))
        versions = tuple(shipped.get(name, "none") for name in ("tensorflow-cpu", "keras", "jax"))
        how = f"{row['strategy']} x {row['num_replicas']}" if row else ""
        outcome = "FAILED" if reasons else f"ok, added {', '.join(sorted(adds)) or 'nothing'}"
        line = COLUMNS.format(runtime.name, runtime.python, *versions, title, f"{seconds:.0f}", how, outcome)
        print(line, flush=True)
        wrong += [f"{runtime.name}, notebook {title}: {reason}" for reason in reasons]
    start, reasons = time.monotonic(), try_service(runtime, python, clone)
    outcome = "FAILED" if reasons else "ok, from a stand-in of the service, nothing left there"
    print(
        COLUMNS.format(runtime.name, runtime.python, *versions, "--on", f"{time.monotonic() - start:.0f}", "", outcome)
    )
    return wrong + [f"{runtime.name}, --on: {reason}" for reason in reasons]


def main() -> int:
    """Try the runtimes named, or all; 1 if anything went wrong in one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(runtime.name for runtime in RUNTIMES))
    names, wrong = parser.parse_args().names, []
    if unknown := set(names) - {runtime.name for runtime in RUNTIMES}:
        parser.error(f"{', '.join(sorted(unknown))}: no such runtime")
    print(COLUMNS.format(*"runtime python tensorflow keras jax notebook seconds strategy".split(), "outcome"))
    for runtime in (runtime for runtime in RUNTIMES if not names or runtime.name in names):
        if (source := find_python(runtime.python)) is None:
            print(f"{runtime.name:11} {runtime.python:7} not run: there is no Python {runtime.python} here")
            continue
        with tempfile.TemporaryDirectory() as folder:
            wrong += try_runtime(runtime, source, Path(folder))
    print(*wrong, sep="\n\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
