"""What faults of Kaggle cost: python tools/bench_remote.py [NUMBER [SEED]].

Sessions by Kaggle's own client against a service on this machine, each with one random fault of one
request, once or lasting; then the same command is called without faults until it has nothing to do.
A row of the table is a fault: how often it struck, sessions whose finished rows were deleted, that
were begun once more, that left something which nobody was told of, and that left something in the
end; and what was said. Seeded; 100 faults by default.
"""

import json
import os
import random
import re
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import nbformat
import pytest
from click.testing import CliRunner

import dr_lib.__main__ as command
from dr_lib.rooms.remote import client, kaggle, remote_script, session
from tests.rooms.remote.conftest import make_clients, put_kaggle
from tests.rooms.remote.kaggle_service import KaggleService
from tests.runs.conftest import PARAMETERS, complete, write_study

SEED = 31
# of a session in their order: the service's names, and the client's ways to send and to get files
REQUESTS = (
    "GetAcceleratorQuotaStatistics GetDatasetStatus StartBlobUpload PUT CreateDataset SaveKernel"
    " GetKernelSessionStatus logs ListKernelSessionOutput GET DeleteKernel DeleteDataset"
).split()
FAULTS = (401, 403, 404, 429, 500, 503, "hang", "cut", "short", "empty", "SIGINT", "SIGKILL")
LASTING = 99
SCRIPT = """\
import shutil
import time

print("the far side is ready", flush=True)
for run in {runs!r}:
    time.sleep(0.3)
    shutil.copy(f"{made}/{{run}}.zip", '/kaggle/working')
    print(f"{{run}} ended with 0", flush=True)
"""
TOLD = re.compile("stays open|keeps the upload|is not closed")


def write_results(house: Path, path: Path) -> None:
    """Have what the two runs of a study would leave at hand."""
    complete(house, path, {"C1": 1.0}, run_id="C1-r00-kaggle-2-cpus-4-gib", accelerator="cpu")
    (row,) = path.with_suffix("").glob("rows/*.json")
    (house / "made").mkdir()
    for repetition in (0, 1):
        run = f"C1-r0{repetition}"
        about = {"run_id": f"{run}-kaggle-2-cpus-4-gib", "repetition": repetition}
        far = house / "far" / run
        (far / "rows").mkdir(parents=True)
        content = json.dumps(json.loads(row.read_bytes()) | about)
        (far / "rows" / f"{about['run_id']}.json").write_text(content)
        remote_script._collect(far, run, 0, house / "made" / f"{run}.zip")
    row.unlink()


def call(service: KaggleService, path: Path, said: Path) -> int:
    """Call the command in a process of its own, and return how it ended; -9 of one killed."""
    pid = os.fork()
    if not pid:
        arguments = ["run", str(path), "--on", "kaggle:cpu", "--yes"]
        result = CliRunner().invoke(command.main, arguments)
        trace = f"\nTraceback: {result.exception!r}"
        is_clean = isinstance(result.exception, SystemExit | None)
        said.write_text(result.output + ("" if is_clean else trace))
        os._exit(result.exit_code)
    service.caller = pid
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def try_fault(request: str, faults: list, house: Path, service: KaggleService) -> dict:
    """Strike one session, and go on without faults until nothing is left to do."""
    path = house / "papermill_runs" / "trial.yaml"
    said = house / "said"
    said.write_text("")
    service.faults = {request: faults}
    num_faults = len(faults)
    status = call(service, path, said)
    first = said.read_text()
    found = {
        "struck": len(faults) < num_faults,
        "untold": bool(service.scripts or service.data_sets)
        and status != -9
        and not TOLD.search(first),
        "trace": "Traceback" in first,
        "said": (first.strip().splitlines() or ["(killed)"])[-1],
    }
    service.faults = {}
    for _ in range(4):
        call(service, path, said)
        if "all 2 runs are already completed" in said.read_text():
            break
    sessions = json.loads((path.with_suffix("") / "sessions.json").read_text())
    return found | {
        "lost": "COMPLETE" in service.lost,
        "again": len(sessions) > 1,
        "left": bool(service.scripts or service.data_sets)
        or len(list(path.with_suffix("").glob("rows/*"))) < 2,
    }


def main() -> None:
    """Print the table."""
    number, seed = map(int, (sys.argv[1:] + ["100", str(SEED)][len(sys.argv) - 1 :]))
    client.PATIENCE_S = kaggle.READY_S = 3.0
    client.PAUSE_S = kaggle.POLL_S = 0.1
    client.LIMIT_S = 4.0
    kaggle.LISTENED_S = 0.4
    session.HURRY_S = 1.0
    rng = random.Random(seed)
    rows: dict[tuple, list[dict]] = defaultdict(list)
    start = time.monotonic()
    clients = make_clients()
    python = sys.executable
    for _ in range(number):
        request = rng.choice(REQUESTS)
        fault = rng.choice(FAULTS)
        times = rng.choice((1, LASTING)) if fault not in ("SIGINT", "SIGKILL") else 1
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            house = Path(folder)
            (house / "notebooks").mkdir()
            (house / "papermill_runs").mkdir()
            (house / "dr_lib").symlink_to(Path(command.__file__).parent)
            cell = nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
            kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
            notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel})
            nbformat.write(notebook, house / "notebooks" / "quick.ipynb")
            path = write_study(house)
            write_results(house, path)
            service = KaggleService(house / "kaggle")
            service.script = SCRIPT.format(runs=["C1-r00", "C1-r01"], made=house / "made")
            threading.Thread(target=service.serve_forever, daemon=True).start()
            patch.setattr(command, "ROOT", house)
            patch.setenv("HOME", folder)
            programs = house / "bin"
            programs.mkdir()
            patch.setattr(sys, "executable", str(programs / "python"))
            with put_kaggle(clients, programs, service.address):
                (programs / "python").symlink_to(python)
                found = try_fault(request, [fault] * times, house, service)
                rows[request, fault, times].append(found)
                print(request, fault, times, found, file=sys.stderr, flush=True)
            service.shutdown()
            service.server_close()
    print(f"{number} faults, seed {seed}, {time.monotonic() - start:.0f} s")
    print("request, fault, times: n, struck, lost, again, untold, left, trace: said")
    for about, found in sorted(rows.items(), key=str):
        counts = [
            sum(one[name] for one in found)
            for name in ("struck", "lost", "again", "untold", "left", "trace")
        ]
        print(*about, ":", len(found), *counts, ":", found[0]["said"][:150])


if __name__ == "__main__":
    main()
