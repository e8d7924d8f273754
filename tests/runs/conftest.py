"""A small house for studies: a notebook that takes no time, in a folder of its own."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import nbformat
import psutil
import pytest
from click.testing import CliRunner

from dr_lib import hardware
from dr_lib.__main__ import main
from dr_lib.runs import schema
from dr_lib.runs.row import write_row
from dr_lib.runs.runner import run_study
from dr_lib.runs.study import load_study, name_machine, plan_runs
from dr_lib.schema import SCHEMA
from tests.processes import wait_until
from tests.runs import quick  # noqa: F401  its parameters

ROOT = Path(__file__).resolve().parents[2]
GOOD = {"notebook": "quick", "repetitions": 2, "seed": 20}

PARAMETERS = """\
level: str = "a"
pause_s: float = 0.0
fail_at: int = 99
fails: int = 99
trouble: str = ""
pace: str = "even"
data_dir: str = "sample"
split: str = "split.csv"
weights: str = "none"
needs_s: float = 0.0
results: str = ""
seed: int = 0
repetition: int = 0
"""
BODY = """\
import os
import signal
import time
from pathlib import Path

import psutil

from dr_lib.errors import DrError
from dr_lib.runs.run import Run, UnavailableError


class OutOfTimeError(RuntimeError):
    pass


asked = {"level": level, "repetition": repetition, "seed": seed}
run = Run(Path.cwd(), "quick", asked)
begun = run.study_dir / "begun"
begun.mkdir(parents=True, exist_ok=True)
(begun / f"{run.identity['run_id']}-{time.monotonic_ns()}").touch()
for step in range(5):
    time.sleep(pause_s / 5)
    run.show_progress(step + 1, 5)
match trouble:
    case "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    case "hangs":
        time.sleep(3600)
    case "unavailable":
        raise UnavailableError("no such thing on this machine")
    case "diverges":
        run.fail("the loss is nan", accelerator="Tesla T4")
        raise DrError("the loss is nan")
    case "fails":
        raise ValueError("it fails")
    case "runner dies" if not Path("died").exists():
        Path("died").touch()
        os.kill(psutil.Process(os.getppid()).ppid(), signal.SIGKILL)
        time.sleep(3600)
tries = len(list(begun.glob(f"{run.identity['run_id']}-*")))
if repetition == fail_at and tries <= fails:
    missing = f" for {level}/labels.csv in {Path.cwd()}/a" if "/" in level else ""
    raise ValueError(f"this one fails{missing}")
saved = run.folder / "saved"
if needs_s and run.seconds_left() < needs_s and not saved.exists():
    saved.touch()
    raise OutOfTimeError("the time is up, saved after epoch 2: run it again")
epoch_s = [0.5, 0.5 + repetition]
run.finish(disturbed=False, resumed=int(saved.exists()), train_s=1.0 + repetition, epoch_s=epoch_s)
"""


@pytest.fixture
def house(tmp_path, monkeypatch) -> Path:
    """A root with `notebooks/quick.ipynb` and an empty `papermill_runs/`."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cells = [
        nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(BODY),
    ]
    kernel = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
    }
    root = tmp_path / "Ana Maria"
    (root / "notebooks").mkdir(parents=True)
    (root / "papermill_runs").mkdir()
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=kernel)
    nbformat.write(notebook, root / "notebooks" / "quick.ipynb")
    return root


@pytest.fixture
def command(house, monkeypatch) -> Callable[..., str]:
    """The command line in this house: what it prints, and ends with this status."""
    monkeypatch.setattr("dr_lib.__main__.ROOT", house)

    def invoke(*words: object, status: int = 0) -> str:
        result = CliRunner().invoke(main, list(map(str, words)))
        assert result.exit_code == status, result.output
        return result.output

    return invoke


@pytest.fixture
def dear(house, monkeypatch) -> None:
    """A machine named dear, which costs a dollar a second."""
    (house / "own.csv").write_text(
        "provider,instance,region,currency,usd_per_hour,date,source\nsomebody,dear,,USD,3600,,made"
        " up\n"
    )
    monkeypatch.setenv("DR_LIB_PRICES", str(house / "own.csv"))


def run_quietly(path: Path, house: Path, **options) -> list[str]:
    """Run a study without a bar."""
    return run_study(path, house, show_progress=False, **options)


def write_study(house: Path, **changes) -> Path:
    """Write a study file; a value of None leaves a key out."""
    path = house / "papermill_runs" / "trial.yaml"
    keys = {key: value for key, value in (GOOD | changes).items() if value is not None}
    path.write_text(json.dumps(keys, indent=1))  # which is YAML, too
    return path


def complete(house: Path, path: Path, process_s: dict[str, float], **columns) -> None:
    """Write a row for the first repetition of each of these scenarios, as if it had run so many
    seconds here.
    """
    for run in plan_runs(load_study(path, house), name_machine(hardware.probe())):
        if run.scenario in process_s and run.repetition == 0:
            row = {name: kind() for name, kind in schema.RUN.items()} | {
                "schema": SCHEMA,
                "run_id": run.run_id,
                "study": "trial",
                "notebook": "quick",
                "scenario": run.scenario,
                "order": run.order,
                "session_id": "earlier",
                "started_at": "2026-01-01",
                "status": "ok",
                "wall_s": 1.0,
                "process_s": process_s[run.scenario],
            }
            write_row(path.with_suffix(""), row | run.parameters | columns)


def trial(house: Path) -> Path:
    """The study's folder."""
    return house / "papermill_runs" / "trial"


def list_begun(house: Path) -> list[str]:
    """Scenario and repetition of every run that was begun, in their order."""
    begun = sorted(trial(house).glob("begun/*"), key=lambda path: path.name.split("-")[-1])
    return ["-".join(path.name.split("-")[:2]) for path in begun]


def wait_for_silence(house: Path) -> None:
    """Wait until no process of this house is left: papermill, kernel or sampler."""
    wait_until(lambda: not any(is_of(process, house) for process in psutil.process_iter()))


def is_of(process: psutil.Process, house: Path) -> bool:
    """Whether a process was started for a study in this house."""
    with suppress(psutil.Error):
        is_over = process.status() == psutil.STATUS_ZOMBIE
        return not is_over and process.pid != os.getpid() and str(house) in process.cwd()
    return False


def write_prepared(folder, scheme: str = "random", *splits: str) -> None:
    """The manifest of a folder with these split tables."""
    manifest = {"parameters": {"size": 299}}
    manifest["splits"] = dict.fromkeys(splits, {"scheme": scheme})
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    for name in splits:
        (folder / name).touch()
