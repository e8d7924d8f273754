"""The script for the remote machine: unpack the upload, execute runs of the study, zip the results.

It is sent alone, before anything else is there: Python 3.9, the standard library, nothing else. It
needs nobody while it runs; a notebook's kernel may start it, and look how far it is.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

BROUGHT_BACK = ("rows", "notebooks", "logs", "runs")  # folders of a study
MAX_MIB = 64  # of one file that is brought back
WATCHED_S = 0.5
SHOW_S = 10.0  # until what was printed is shown
LEAST_HOURS = 1 / 60  # in less no run is begun
ALIKE = (
    3  # `backlog.ALIKE_STATUS`: exit status of a runner where every other run would fail alike
)
# in what is brought back: the exit status of the runner, and the files left out
ENDED = "ended.json"
HAS_ENDED = " ended with "  # printed between a run and its exit status
STATUS = "far side: "  # printed before how it is
INSTALL = "from dr_lib.report import setup; print(*setup.install_missing(*setup.RUNNER))"


def start(folder: str) -> None:
    """Start this file once, in its folder."""
    if not Path(folder, "log").exists():
        run = f'"{sys.executable}" -u remote_script.py > log 2>&1; echo $? > status'
        subprocess.Popen(run, shell=True, cwd=folder, start_new_session=True)


def look(folder: str, shown: int, wait_s: float) -> None:
    """Wait for more lines than were shown, print them, and say how it is: a run's end at once."""
    start = time.monotonic()
    while True:
        status = Path(folder, "status")
        ended = status.read_text().strip() if status.exists() else ""
        lines = Path(folder, "log").read_text(errors="replace").splitlines()[shown:]
        waited_s = time.monotonic() - start
        if ended or HAS_ENDED in "".join(lines) or waited_s > (SHOW_S if lines else wait_s):
            break
        time.sleep(WATCHED_S)
    word = {"": "running", "0": "complete"}.get(ended, "error")
    print(*lines, STATUS + word, sep="\n", flush=True)


def set_up(home: str, uploads: str, name: str) -> None:
    """Join the parts of an archive, found anywhere below `uploads`, and install what the runner
    needs.
    """
    Path(home).mkdir(parents=True, exist_ok=True)
    unpack = (
        f"find -L '{uploads}' -name '{name}*' | sort | xargs -d '\\n' cat | tar xz -C '{home}'"
    )
    # the last error in the session's log is its own
    for command in (["bash", "-ceo", "pipefail", unpack], [sys.executable, "-c", INSTALL]):
        if status := subprocess.call(command, cwd=home):
            sys.exit(status)
    print("the remote machine is ready", flush=True)


def make_all(job: dict[str, Any], runs: list[str], hours: float, results: str) -> None:
    """Execute the runs one after another within the hours, and archive the files of each.

    It ends at the first row of another device than `job["device"]`, and at a failure that every
    other run would repeat.

    Args:
        job: home (folder of the repository), study (its file there), session, instance and prices
            (to price by, or empty); platform, device and on_cpu, see `is_on`.
        runs: scenario and repetition, such as C3-r02.
        hours: of the session; 0 for no limit.
        results: folder of the archives.
    """
    start = time.monotonic()
    folder = Path(job["home"], job["study"]).with_suffix("")
    for number, run in enumerate(runs, 1):
        left = hours - (time.monotonic() - start) / 3600
        if hours and left < LEAST_HOURS:
            break
        print(f"{run} begins, {number} of {len(runs)}", flush=True)
        status = _make(job, run, left if hours else 0.0, folder)
        _collect(folder, run, status, Path(results, f"{run}.zip"))
        print(f"{run}{HAS_ENDED}{status}", flush=True)
        rows = [json.loads(path.read_bytes()) for path in folder.glob(f"rows/{run}-*.json")]
        is_right = all(
            is_on(row, job["platform"], job["device"], job["on_cpu"]) for row in rows
        )
        if status == ALIKE:
            print("every other run would fail alike: they are not made", flush=True)
        if status == ALIKE or not is_right:
            break


def _make(job: dict[str, Any], run: str, hours: float, folder: Path) -> int:
    """Execute a run, print its progress, and return the exit status of its runner."""
    home = job["home"]
    environment = {**os.environ, "DR_LIB_SESSION": job["session"]}
    # on Kaggle a warning may stand in place of the hosts, and libtpu takes it for one
    if " " in environment.get("TPU_WORKER_HOSTNAMES", ""):
        del environment["TPU_WORKER_HOSTNAMES"]
    command = [sys.executable, "-m", "dr_lib", "run", job["study"], "--only", run]
    if job["prices"]:
        Path(home, "prices.csv").write_text(job["prices"], encoding="utf-8")
        environment["DR_LIB_PRICES"] = f"{home}/prices.csv"
        command += ["--instance", job["instance"]]
    if job.get("needs_nothing"):
        command += ["--on-cpu"]
    if hours:
        command += ["--max-hours", f"{hours:.4f}"]
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    shown = 0
    with (folder / "logs" / f"{run}.log").open("wb") as log:
        runner = subprocess.Popen(command, cwd=home, env=environment, stdout=log, stderr=log)
    while runner.poll() is None:
        for path in folder.glob(f"progress/{run}-*.json"):
            progress = json.loads(path.read_bytes())
            done, total = progress["done"], progress["total"]
            if done > shown:
                left_min = (time.monotonic() - begun) * (total - done) / done / 60
                print(f"{run}: epoch {done} of {total}, {left_min:.0f} min left", flush=True)
                shown = done
        time.sleep(WATCHED_S)
    return runner.returncode


def _collect(folder: Path, run: str, status: int, results: Path) -> None:
    """Zip a run's files in one step, except those that are too large to download."""
    ended = {"run": run, "status": status, "left_out": []}
    names = (f"{run}-", f"{run}.")
    part = results.with_suffix(".tmp")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            kind, _, rest = name.partition("/")
            if kind in BROUGHT_BACK and rest.startswith(names) and path.is_file():
                if path.stat().st_size > MAX_MIB * 2**20:
                    ended["left_out"].append(name)
                else:
                    archive.write(path, name)
        archive.writestr(ENDED, json.dumps(ended))
    os.replace(part, results)


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
