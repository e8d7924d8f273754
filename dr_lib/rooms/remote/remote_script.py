"""What the remote machine executes: unpack the upload, execute runs of the study, zip the results.

It is sent as it is; its settings lie in the upload. Kaggle executes it as a script, a kernel of
Colab starts it and looks how far it is. Python 3.9, the standard library, nothing else.
"""

from __future__ import annotations

import glob
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

SETTINGS = "dr-lib.json"
PART = "dr-lib.part"  # Kaggle would unpack what is called tar or zip
MAX_MIB = 64  # of one file that is brought back
HAS_ENDED = " ended with "  # printed between a run and its exit status
STATUS = "remote script: "  # printed before its state
LEAST_HOURS = 1 / 60  # no run begins in less
# `backlog.ALIKE_STATUS`: exit status of a runner where every other run would fail alike
ALIKE = 3
INSTALL = "from dr_lib.report import setup; print(*setup.install_missing(*setup.RUNNER))"


def look(folder: str, shown: int, wait_s: float) -> None:
    """Start this file in its folder, once; wait for more lines than were shown, or the end, and
    print the lines and the state.
    """
    log = Path(folder, "log")
    status = Path(folder, "status")
    if not log.exists():
        log.touch()
        run = f'"{sys.executable}" -u remote_script.py > log 2>&1; echo $? > status'
        subprocess.Popen(run, shell=True, cwd=folder, start_new_session=True)
    end = time.monotonic() + wait_s
    while True:
        ended = status.read_text().strip() if status.exists() else ""
        lines = log.read_text(errors="replace").splitlines()[shown:]
        if lines or ended or time.monotonic() > end:
            break
        time.sleep(0.5)
    print(*lines, STATUS + {"": "running", "0": "complete"}.get(ended, "error"), sep="\n")


def set_up(uploads: str, home: str) -> None:
    """Join the parts of the archive, unpack it, and install what the runner needs."""
    Path(home).mkdir(parents=True, exist_ok=True)
    unpack = f"cat '{uploads}'/{PART}* | tar xz"
    # the last error in the session's log is its own
    for command in (["bash", "-ceo", "pipefail", unpack], [sys.executable, "-c", INSTALL]):
        if status := subprocess.call(command, cwd=home):
            sys.exit(status)
    print("the remote machine is ready", flush=True)


def make_all(settings: dict[str, Any]) -> None:
    """Execute the runs one after another within the hours, and zip the files of each.

    It ends at the first row of another device, and at a failure that every other run would repeat.

    Args:
        settings: those of `commands.run_on_service`.
    """
    begun = time.monotonic()
    folder = Path(settings["home"], settings["study"]).with_suffix("")
    for run in settings["runs"]:
        hours = settings["hours"] - (time.monotonic() - begun) / 3600
        if hours < LEAST_HOURS:
            break
        print(f"{run} begins", flush=True)
        status = _make(settings, run, hours, folder)
        _collect(folder, run, Path(settings["results"], f"{run}.zip"))
        print(f"{run}{HAS_ENDED}{status}", flush=True)
        rows = [json.loads(path.read_bytes()) for path in folder.glob(f"rows/{run}-*.json")]
        if status == ALIKE:
            print("every other run would fail alike: they are not made", flush=True)
            break
        if not all(is_on(row, settings["platform"], settings["device"]) for row in rows):
            break


def _make(settings: dict[str, Any], run: str, hours: float, folder: Path) -> int:
    """Execute a run, print its epochs, and return the exit status of its runner."""
    environment = {**os.environ, "DR_LIB_SESSION": settings["session"]}
    # on Kaggle a warning may stand in place of the hosts, and libtpu takes it for one
    if " " in environment.get("TPU_WORKER_HOSTNAMES", ""):
        del environment["TPU_WORKER_HOSTNAMES"]
    command = [sys.executable, "-m", "dr_lib", "run", settings["study"], "--only", run]
    command += ["--max-hours", f"{hours:.4f}"]
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    shown = 0
    with (folder / "logs" / f"{run}.log").open("wb") as log:
        home = settings["home"]
        runner = subprocess.Popen(command, cwd=home, env=environment, stdout=log, stderr=log)
    while runner.poll() is None:
        for path in folder.glob(f"progress/{run}-*.json"):
            progress = json.loads(path.read_bytes())
            if progress["done"] > shown:
                shown = progress["done"]
                print(f"{run}: epoch {shown} of {progress['total']}", flush=True)
        time.sleep(0.5)
    return runner.returncode


def _collect(folder: Path, run: str, results: Path) -> None:
    """Zip a run's files in one step, except those that are too large to download."""
    part = results.with_suffix(".tmp")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            is_of_run = re.match(f"(rows|notebooks|logs|runs)/{run}[-.]", name)
            if not is_of_run or not path.is_file():
                continue
            if path.stat().st_size > MAX_MIB * 2**20:
                print(f"{name} is left out: it has more than {MAX_MIB} MiB", flush=True)
            else:
                archive.write(path, name)
    os.replace(part, results)


def is_on(row: dict[str, Any], platform: str, device: str) -> bool:
    """Whether a row is of a platform's device, by a pattern of its name.

    The machine's name, in which the run's ends, holds its GPUs; the kind of a TPU only a completed
    row has.
    """
    name = row["run_id"]
    used = row.get("accelerator") or ""
    if f"-{platform}-" not in name:
        return False
    if row["status"] == "ok" and "tpu" in used.lower():
        name = used
    return bool(re.search(device, name, re.IGNORECASE))


def main() -> None:
    """Find the settings, here or among Kaggle's data sets, and make the runs."""
    pattern = f"/kaggle/input/**/{SETTINGS}"
    found = (glob.glob(SETTINGS) or glob.glob(pattern, recursive=True))[0]
    settings = json.loads(Path(found).read_bytes())
    set_up(os.path.dirname(os.path.abspath(found)), settings["home"])
    make_all(settings)


if __name__ == "__main__":
    main()
