"""Run notebooks 00, 10 and 11 with the oldest and the newest versions that requirements.txt allows.

    python -m tools.floors [oldest|newest ...]

Each set is resolved by uv and installed into a virtual environment of its own in `.runtimes/`.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.bench import ROOT
from tools.constraints import REQUIREMENTS, read_list
from tools.runtimes import HOMES, RECORDS, Runtime, execute, read_packages

JOBS = {
    "00_start_here": {},
    "10_train": {"epochs": 3, "image_size": 48},
    "11_gpu_vs_tpu": {"runs": "papermill_runs/adhoc"},
}


def build(name: str) -> tuple[Path, dict[str, str]]:
    """Install a set anew; return its Python and its packages."""
    home = HOMES / name
    resolution = {"oldest": "lowest-direct", "newest": "highest"}[name]
    subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
    python = home / "bin" / "python"
    command = [sys.executable, *"-m uv pip install --quiet --resolution".split(), resolution]
    subprocess.run([*command, "--python", python, "--requirement", REQUIREMENTS], check=True)
    return python, read_packages(python)


def main() -> int:
    """Try the sets named, or both; print what each notebook did, 1 if one failed."""
    failed = []
    for name in sys.argv[1:] or ["oldest", "newest"]:
        python, packages = build(name)
        versions = [f"{package} {packages[package]}" for package in read_list(REQUIREMENTS)]
        print(f"{name}:", ", ".join(versions), flush=True)
        with tempfile.TemporaryDirectory() as folder:
            clone = Path(folder)
            for part in ("dr_lib", "notebooks", RECORDS):
                shutil.copytree(
                    ROOT / part, clone / part, ignore=shutil.ignore_patterns("__pycache__")
                )
            for notebook, parameters in JOBS.items():
                start = time.monotonic()
                errors = execute(Runtime(name, "", {}, {}), python, clone, notebook, parameters)
                print(
                    f"{name:7} {notebook:20} {time.monotonic() - start:4.0f} s "
                    f" {'FAILED' if errors else 'ok'}",
                    flush=True,
                )
                failed += [f"{name}, {notebook}: {error}" for error in errors]
            for path in clone.glob("papermill_runs/adhoc/rows/*.json"):
                row = json.loads(path.read_text())
                print(
                    f"{name:7} AUC {row['metric_auc_test']:.3f}, keras {row['keras']}, tensorflow"
                    f" {row['tensorflow']}"
                )
    print(*failed, sep="\n\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
