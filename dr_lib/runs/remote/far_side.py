"""What is done on the far machine: unpack what was uploaded, make runs of the study by its own
runner, zip what came.

It is sent alone, before anything else is there: Python 3.9, the standard library, nothing else.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

BROUGHT_BACK = ("rows", "notebooks", "logs", "runs")  # folders of a study
MAX_MIB = 64  # of one file that is brought back
WATCHED_S = 0.5
LEAST_HOURS = 1 / 60  # in less no run is begun
# in what is brought back: the exit status of each run's runner, and the files left out
ENDED = "ended.json"
READY = "the far side is ready"
INSTALL = "from dr_lib.notebook import setup; print(*setup.install_missing(*setup.RUNNER))"
_runners: dict[str, subprocess.Popen] = {}  # of this process, by run


def set_up(home: str, uploads: str, name: str) -> None:
    """Put the parts of that name, wherever below `uploads` they lie, together; add what the
    runner needs.
    """
    whole = Path(home, "whole")
    whole.parent.mkdir(parents=True, exist_ok=True)
    with whole.open("wb") as file:
        for part in sorted(Path(uploads).rglob(f"{name}*"), key=lambda path: path.name):
            with part.open("rb") as piece:
                shutil.copyfileobj(piece, file)
    with tarfile.open(whole) as archive:
        archive.extractall(home)
    whole.unlink()
    install = subprocess.run([sys.executable, "-c", INSTALL], cwd=home, stderr=subprocess.PIPE)
    if install.returncode:
        lines = install.stderr.decode(errors="replace").strip().splitlines()
        print(*lines, sep="\n", file=sys.stderr)
        raise RuntimeError(lines[-1] if lines else f"pip ended with {install.returncode}")
    print(READY, flush=True)


def make(job: dict[str, Any], run: str, hours: float, *, wait_s: float = math.inf) -> bool:
    """Start a run unless it is under way, watch it for so long, and say whether it has ended.

    Args:
        job: home (folder of the repository), study (its file there), session, options (of the
            command run), prices (a table of prices, or empty); for `make_all` platform, device and
            on_cpu, see `is_on`.
        run: scenario and repetition, such as C3-r02.
        hours: until the session has to end; 0 for no limit.
        wait_s: seconds to watch.
    """
    home = Path(job["home"])
    until = time.monotonic() + wait_s
    shown = ""
    folder = (home / job["study"]).with_suffix("")
    if run not in _runners:
        _runners[run] = _start(job, run, hours)
    while (status := _runners[run].poll()) is None:
        if time.monotonic() > until:
            return False
        for path in folder.glob(f"progress/{run}-*.json"):
            if shown != (
                text := "epoch {done} of {total}".format(**json.loads(path.read_bytes()))
            ):
                print(f"{run}: {text}", flush=True)
                shown = text
        time.sleep(WATCHED_S)
    print(f"{run} ended with {status}", flush=True)
    return True


def make_all(job: dict[str, Any], runs: list[str], hours: float, results: str) -> None:
    """Make the runs one after another while the hours last, and keep what came in one archive after
    each.

    It ends at the first row of another device than `job["device"]`.
    """
    start = time.monotonic()
    for run in runs:
        left = hours - (time.monotonic() - start) / 3600
        if left < LEAST_HOURS:
            collect(job, runs, results)  # so that something is there
            break
        make(job, run, left)
        collect(job, runs, results)
        rows = (Path(job["home"]) / job["study"]).with_suffix("").glob(f"rows/{run}-*.json")
        about = (job["platform"], job["device"], job["on_cpu"])
        if not all(is_on(json.loads(path.read_bytes()), *about) for path in rows):
            break


def collect(job: dict[str, Any], runs: list[str], results: str) -> None:
    """Zip what the runs left, those files that are not too large to bring back, in one step."""
    folder = (Path(job["home"]) / job["study"]).with_suffix("")
    left_out = []
    with zipfile.ZipFile(f"{results}.tmp", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            parts = path.relative_to(folder).parts
            is_of_run = (
                len(parts) > 1 and parts[0] in BROUGHT_BACK and parts[1].startswith(tuple(runs))
            )
            if is_of_run and path.is_file() and path.stat().st_size > MAX_MIB * 2**20:
                left_out.append(str(path.relative_to(folder)))
            elif is_of_run and path.is_file():
                archive.write(path, path.relative_to(folder))
        status = {run: _runners[run].poll() for run in runs if run in _runners}
        archive.writestr(ENDED, json.dumps({"status": status, "left_out": left_out}))
    os.replace(f"{results}.tmp", results)


def is_on(row: dict[str, Any], platform: str, device: str, on_cpu: list[str]) -> bool:
    """Whether a row is of a platform's device, by a pattern of its name, such as Tesla T4 or 2x
    Tesla T4.

    The run's name ends in the machine's, which holds its devices: by it go runs that are not
    completed, and those that used the processor because they were to, `on_cpu`, or because there is
    nothing else.
    """
    machine = row["run_id"]
    used = row.get("accelerator") or "cpu"
    count = re.search(r"-(\d+x)-", machine)
    was_to = machine.startswith(tuple(f"{run}-" for run in on_cpu))
    if row["status"] != "ok" or (used == "cpu" and (was_to or not count)):
        used = machine
    elif count:
        used = f"{count[1]} {used}"
    return f"-{platform}-" in machine and bool(re.search(device, used, re.IGNORECASE))


def _start(job: dict[str, Any], run: str, hours: float) -> subprocess.Popen:
    home = Path(job["home"])
    environment = {**os.environ, "DR_LIB_SESSION": job["session"]}
    if job["prices"]:
        (home / "prices.csv").write_text(job["prices"], encoding="utf-8")
        environment["DR_LIB_PRICES"] = str(home / "prices.csv")
    command = [
        sys.executable,
        "-m",
        "dr_lib",
        "run",
        job["study"],
        "--only",
        run,
        *job["options"],
    ]
    command += ["--max-hours", f"{hours:.4f}"] if hours else []
    log = (home / job["study"]).with_suffix("") / "logs" / f"{run}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        return subprocess.Popen(
            command, cwd=home, env=environment, stdout=file, stderr=subprocess.STDOUT
        )
