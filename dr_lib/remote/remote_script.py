"""What the remote machine executes: unpack the upload, execute runs of the study, zip the results.

It is sent as it is; its settings lie in the upload. Kaggle executes it as a script, a kernel of
Colab starts it and looks how far it is. Results go to the working directory. Python 3.9, the
standard library, nothing else.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

SETTINGS = "dr-lib.json"
PART = "dr-lib.part"  # Kaggle would unpack what is called tar or zip
HOME = "../dr-lib"  # the repository; what lies in the working directory would be a result
HAS_ENDED = " ended with "  # printed between a run and its exit status
STATUS = "remote script: "  # above new lines of the log, and before how it has ended
LEAST_HOURS = 1 / 60  # no run begins in less
# `backlog.STOPPED_STATUS`: exit status of a runner where the first two runs have failed
STOPPED = 3
INSTALL = "from dr_lib.report import setup; print(*setup.install_missing(*setup.RUNNER))"


def look(folder: str, shown: int, wait_s: float) -> None:
    """Start this file in its folder, once; wait for more lines than were shown, and print them."""
    log = Path(folder, "log")
    if not log.exists():
        log.touch()
        run = f'"{sys.executable}" -u remote_script.py > log 2>&1 && state=complete || state=error'
        run += f'; echo "\n{STATUS}$state" >> log'  # on a line of its own
        subprocess.Popen(run, shell=True, cwd=folder, start_new_session=True)
    end = time.monotonic() + wait_s
    while True:
        lines = log.read_text(errors="replace").splitlines()[shown:]
        if lines or time.monotonic() > end:
            break
        time.sleep(0.5)
    print(STATUS, *lines, sep="\n")


def set_up(uploads: str) -> None:
    """Join the parts of the archive, unpack it, and install what the runner needs."""
    os.makedirs(HOME, exist_ok=True)
    whole = f"{HOME}/upload.zip"
    subprocess.run(f'cat "{uploads}/{PART}"* > "{whole}"', shell=True, check=True)
    shutil.unpack_archive(whole, HOME)
    if status := subprocess.call([sys.executable, "-c", INSTALL], cwd=HOME):
        sys.exit(status)  # the last error in the session's log is its own
    print("the remote machine is ready", flush=True)


def make_all(settings: dict[str, Any]) -> None:
    """Execute the runs one after another within the hours, and zip the files of each.

    It ends at the first row of another device, and where the first two have failed.

    Args:
        settings: those of `commands.run_on_service`.
    """
    os.environ["DR_LIB_SESSION"] = settings["session"]
    # on Kaggle a warning may stand in place of the hosts, and libtpu takes it for one
    if " " in os.environ.get("TPU_WORKER_HOSTNAMES", ""):
        del os.environ["TPU_WORKER_HOSTNAMES"]
    folder = Path(HOME, settings["study"]).with_suffix("")
    end = time.monotonic() + 3600 * settings["hours"]
    for run in settings["runs"]:
        hours = (end - time.monotonic()) / 3600
        if hours < LEAST_HOURS:
            break
        print(f"{run} begins", flush=True)
        command = ["run", settings["study"], "--only", run, "--max-hours", f"{hours:.4f}"]
        status = _make(command, run, folder)
        _collect(folder, run)
        print(f"{run}{HAS_ENDED}{status}", flush=True)
        rows = [json.loads(path.read_bytes()) for path in folder.glob(f"rows/{run}-*.json")]
        if status == STOPPED:
            print("the first two runs failed: the others are not made", flush=True)
            break
        if not all(is_on(row, settings["platform"], settings["device"]) for row in rows):
            break


def _make(command: list[str], run: str, folder: Path) -> int:
    """Execute a run, print its epochs, and return the exit status of its runner."""
    log = folder / "logs" / f"{run}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        words = [sys.executable, "-m", "dr_lib", *command]
        runner = subprocess.Popen(words, cwd=HOME, stdout=out, stderr=out)
    shown = 0
    is_running = True
    while is_running:
        is_running = runner.poll() is None
        for path in folder.glob(f"progress/{run}-*.json"):
            progress = json.loads(path.read_bytes())
            if progress["done"] > shown:
                shown = progress["done"]
                print(f"{run}: epoch {shown} of {progress['total']}", flush=True)
        time.sleep(0.1)  # s: a small run has short epochs
    return runner.returncode


def _collect(folder: Path, run: str) -> None:
    """Zip a run's files in one step, except those that are too large to download."""
    with zipfile.ZipFile("part", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            is_of_run = re.match(f"(rows|notebooks|logs|runs)/{run}[-.]", name)
            if not is_of_run or not path.is_file():
                continue
            if path.stat().st_size > 2**26:
                print(f"{name} is left out: it has more than 64 MiB", flush=True)
            else:
                archive.write(path, name)
    os.replace("part", f"{run}.zip")


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
    sys.tracebacklimit = 0  # an error is a line of the session's log
    pattern = f"/kaggle/input/**/{SETTINGS}"
    found = (glob.glob(SETTINGS) or glob.glob(pattern, recursive=True))[0]
    set_up(os.path.dirname(os.path.abspath(found)))
    make_all(json.loads(Path(found).read_bytes()))


if __name__ == "__main__":
    main()
