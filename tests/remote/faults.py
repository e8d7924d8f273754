"""Faults of the services in a seeded order, and what each costs a session of two quick runs."""

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest

from tests.remote.conftest import Cloud, end_machines, enter
from tests.runs.conftest import PARAMETERS, complete, write_study

# of a session in their order: the client's commands, or the service's names of requests
# each with a number of right answers that a session gets before
REQUESTS = {
    "colab": {"new": 0, "sessions": 1, "upload": 2, "exec": 4, "download": 1, "stop": 0},
    "kaggle": {
        "GetAcceleratorQuotaStatistics": 0,
        "GetDatasetStatus": 0,
        "StartBlobUpload": 2,
        "PUT": 2,
        "CreateDataset": 0,
        "SaveKernel": 0,
        "GetKernelSessionStatus": 2,
        "logs": 0,
        "ListKernelSessionOutput": 0,
        "GET": 1,
        "DeleteKernel": 0,
        "DeleteDataset": 0,
    },
}
FAULTS = {
    "colab": ("down", "cut", "lost", "silent", "empty"),
    "kaggle": (401, 403, 404, 429, 500, 503, "hang", "cut", "short", "empty"),
}
SIGNALS = ("SIGINT", "SIGKILL", "SIGTERM")
LASTING = 99
# in place of the library on the machine: a run takes no time
QUICK = """\
import json
import sys
from pathlib import Path

run = sys.argv[sys.argv.index("--only") + 1]
study = Path(sys.argv[2]).with_suffix("")
row = json.loads(Path("dr_lib", "row.json").read_text())
row["repetition"] = int(run[-2:])
row["run_id"] = row["run_id"].replace("C1-r00", run)
(study / "rows").mkdir(parents=True, exist_ok=True)
(study / "rows" / f"{row['run_id']}.json").write_text(json.dumps(row))
"""
SAID = re.compile("stays open|is not closed|is still running")


class Fault(NamedTuple):
    """What the next calls of a service meet: right answers first, then the fault so many times."""

    on: str
    request: str
    kind: int | str
    after: int
    times: int


def list_faults(number: int, seed: int) -> Iterator[Fault]:
    """Each service in turn, once or lasting; of the calls of a session, any one."""
    rng = random.Random(seed)
    for index in range(number):
        on = ("colab", "kaggle")[index % 2]
        kind = rng.choice(FAULTS[on] + SIGNALS)
        times = 1 if kind in SIGNALS else rng.choice((1, LASTING))
        request, calls = rng.choice([*REQUESTS[on].items()])
        yield Fault(f"{on}:cpu", request, kind, rng.randint(0, calls), times)


def build_house(house: Path, platform: str) -> Path:
    """Build a root whose library makes no runs but rows; return its study."""
    for name in ("notebooks", "papermill_runs", "dr_lib/report"):
        (house / name).mkdir(parents=True)
    cell = nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel})
    nbformat.write(notebook, house / "notebooks" / "quick.ipynb")
    path = write_study(house)
    run_id = f"C1-r00-{platform}-2-cpus-4-gib"
    complete(house, path, {"C1": 1.0}, run_id=run_id, accelerator="cpu")
    (row,) = path.with_suffix("").glob("rows/*.json")
    row.rename(house / "dr_lib" / "row.json")
    for package in ("dr_lib", "dr_lib/report"):
        (house / package / "__init__.py").touch()
    (house / "requirements.txt").touch()
    (house / "dr_lib" / "__main__.py").write_text(QUICK)
    set_up = "RUNNER = ()\n\n\ndef install_missing():\n    return []\n"
    (house / "dr_lib" / "report" / "setup.py").write_text(set_up)
    return path


def try_fault(fault: Fault, house: Path, services: tuple) -> dict[str, bool | str]:
    """Strike one session, and repeat the command without faults until nothing is left to do.

    Returns:
        Whether the fault struck; whether finished rows were lost, something was left that the
        first command had not said, something was left in the end, there was a traceback, or a
        secret in what was said and written; what was said.
    """
    kaggle, programs = services
    path = build_house(house, fault.on.partition(":")[0])
    with pytest.MonkeyPatch.context() as patch:
        enter(programs, house, patch)
        patch.setattr("dr_lib.__main__.ROOT", house)
        cloud = Cloud(programs.parent, house, kaggle)
        waiting = [0] * fault.after + [fault.kind] * fault.times
        cloud.strike(fault.on, {fault.request: waiting})
        status = wait(cloud.fork(path, fault.on))
        first = cloud.said
        left = cloud.list_left()
        rest = kaggle.faults.get(fault.request, ())
        is_struck = (cloud.home / "struck").exists() or 0 < len(rest) < fault.times
        is_struck |= fault.on.startswith("kaggle") and len(rest) <= fault.times - 1
        lost = not has_rows(cloud)
        cloud.strike(fault.on, {})
        for _ in range(4):
            if wait(cloud.fork(path, fault.on)) == 0 and "all 2 runs" in cloud.said:
                break
            if "is still running on Colab" in cloud.said:  # which the reader ends by hand
                end_machines(cloud.home)
    written = [file.read_text(errors="replace") for file in path.parent.rglob("*.*")]
    return {
        "struck": is_struck,
        "lost": lost or "COMPLETE" in kaggle.lost,
        "untold": bool(left) and status >= 0 and not SAID.search(first),
        "left": bool(cloud.list_left()) or len(list(path.parent.rglob("rows/*.json"))) < 2,
        "trace": "Traceback" in first + cloud.said,
        "secret": "SECRET" in first + "".join(written),
        "said": (first.strip().splitlines() or ["(killed)"])[-1],
    }


def wait(pid: int) -> int:
    """Wait for a process; return how it ended, -9 if it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def has_rows(cloud: Cloud) -> bool:
    """Whether the results that were on Colab's machines when these ended are here."""
    stopped = cloud.home / "stopped"
    runs = stopped.read_text().split() if stopped.exists() else []
    rows = cloud.house / "papermill_runs" / "trial" / "rows"
    return all(list(rows.glob(f"{run}-*.json")) for run in runs)
