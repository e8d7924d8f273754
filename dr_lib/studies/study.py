"""A study: the file that asks for runs, and the runner that makes them, one papermill process each."""

import ctypes
import fcntl
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import nbformat
import papermill
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dr_lib import hardware
from dr_lib.studies.progress import RunsBar
from dr_lib.studies.run import RUN_VARIABLE, progress_path, read_commit, read_rows, row_path, write_row

SET_BY_THE_STUDY = ("repetition", "seed")
OUT_OF_TIME = "OutOfTimeError"  # how a notebook says that it has saved and stopped in time
TYPES = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}


class StudyError(ValueError):
    """The study cannot be run as written; the message says what to change."""


class Study(BaseModel):
    """What a study file asks for."""

    model_config = ConfigDict(extra="forbid")

    notebook: str
    repetitions: int = Field(ge=1)
    parameters: dict[str, Any] = {}
    factors: dict[str, list[Any]] = {}
    kernel: str = "python3"
    order: Literal["random", "sequential"] = "random"
    seed: int = 0
    max_hours: float | None = Field(default=None, gt=0)


class PlannedRun(NamedTuple):
    """One cell of the design, once."""

    run_id: str
    scenario: str
    repetition: int
    order: int
    parameters: dict[str, Any]  # as passed to the notebook


def load_study(path: Path, root: Path) -> Study:
    """Read a study file and hold it against its notebook, before anything runs.

    Raises:
        StudyError: the file or its notebook is missing, a key or a parameter is misspelt or has the wrong type.
    """
    try:
        study = Study.model_validate(yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {})
    except FileNotFoundError as error:
        raise StudyError(f"{path}: no such study file") from error
    except (yaml.YAMLError, ValidationError) as error:
        raise StudyError(f"{path} is not a valid study file: {error}") from error
    notebook = root / "notebooks" / f"{study.notebook}.ipynb"
    if not notebook.is_file():
        raise StudyError(f"{path}: notebook {study.notebook!r} is not in {notebook.parent}")
    known = papermill.inspect_notebook(str(notebook))
    given = [(name, value) for name, value in study.parameters.items()]
    given += [(name, value) for name, levels in study.factors.items() for value in levels]
    if not all(study.factors.values()):
        raise StudyError(f"{path}: a factor has no levels")
    for name, value in given:
        if name in SET_BY_THE_STUDY or (name in study.parameters and name in study.factors):
            raise StudyError(f"{path}: {name} is set by the study itself or twice: take it out of the parameters")
        if name not in known:
            raise StudyError(f"{path}: {study.notebook} has no parameter {name!r}, it has {', '.join(known)}")
        allowed = TYPES.get(known[name]["inferred_type_name"])
        if allowed and (not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed)):
            wanted = known[name]["inferred_type_name"]
            raise StudyError(f"{path}: {name} has to be a {wanted}, {value!r} is none")
    missing = [name for name in SET_BY_THE_STUDY if name not in known]
    if missing:
        raise StudyError(f"{path}: {study.notebook} has no parameter {', '.join(missing)}: it cannot be repeated")
    return study


def plan_runs(study: Study, machine: str) -> list[PlannedRun]:
    """All runs of a study in the order in which they are to be made.

    Scenarios are numbered C1, C2, ... in the order of the factors in the file, the last factor changing fastest.
    Each repetition is a block that holds every scenario once, in an order drawn from the study's seed.

    Args:
        study: from `load_study`.
        machine: from `name_machine`; a run is made once per machine.
    """
    levels = [dict(zip(study.factors, values, strict=True)) for values in itertools.product(*study.factors.values())]
    scenarios = [(f"C{number}", values) for number, values in enumerate(levels, start=1)]
    draw, runs = random.Random(study.seed), []
    for repetition in range(study.repetitions):
        block = draw.sample(scenarios, len(scenarios)) if study.order == "random" else scenarios
        for scenario, values in block:
            parameters = {**study.parameters, **values, "repetition": repetition, "seed": study.seed}
            run_id = f"{scenario}-r{repetition:02d}-{machine}"
            runs.append(PlannedRun(run_id, scenario, repetition, len(runs), parameters))
    return runs


def name_machine(facts: hardware.Facts) -> str:
    """A short name for machines that are alike, as it stands in a run's name: local-amd-epyc, kaggle-2x-tesla-t4."""
    devices = (
        f"{facts.num_tpu_chips}x tpu"
        if facts.num_tpu_chips
        else f"{len(facts.gpus)}x {facts.gpus[0]}"
        if facts.gpus
        else facts.cpu
    )
    return re.sub(r"[^a-z0-9]+", "-", f"{facts.platform} {devices}".lower()).strip("-")


def run_study(path: Path, root: Path, *, max_hours: float | None = None, show_progress: bool = True) -> list[str]:
    """Make the runs of a study that are not finished yet, one after another.

    Everything goes to `<study>/` beside the study file: `rows/`, executed `notebooks/`, `logs/`, and what the runs
    leave in `runs/`. A run counts as finished when its row says ok; a run that was cut off has no row and is made
    again, a failed one too, each in the folder where it may have left a checkpoint. Kill it at any moment and start
    it again.

    Args:
        path: the study file.
        root: the repository.
        max_hours: in place of the file's: no run is begun that would not fit, and one that is under way then saves
            and stops.
        show_progress: draw a bar.

    Returns:
        The errors of the runs that failed, one line each; empty if all went well.

    Raises:
        StudyError: the study is not valid, or is being run by another process.
    """
    study, study_dir = load_study(path, root), Path(path).with_suffix("")
    runs, session_id, failures = plan_runs(study, name_machine(hardware.probe())), uuid.uuid4().hex[:12], []
    max_hours = max_hours or study.max_hours
    stop_at = time.time() + 3600 * max_hours if max_hours else None
    with _lock(study_dir) as lock:
        earlier = {row["run_id"]: row for row in read_rows(study_dir)}
        todo = [run for run in runs if earlier.get(run.run_id, {}).get("status") != "ok"]
        with RunsBar(len(todo), show=show_progress) as bar:
            for run in todo:
                if max_hours and bar.seconds_after_next() > 3600 * max_hours:
                    bar.say(f"max_hours: {max_hours} h hold no further run; start again to go on")
                    break
                before = earlier.get(run.run_id)
                identity = {
                    **{name: getattr(run, name) for name in ("run_id", "scenario", "order")},
                    "study_dir": str(study_dir.resolve()),
                    "session_id": session_id,
                    "retries": before["retries"] + 1 if before else 0,
                    **({"stop_at": stop_at} if stop_at else {}),
                }
                error = _run_one(root, study, run, identity, lock, bar)
                if error.startswith(OUT_OF_TIME):
                    bar.say(f"{run.run_id}: {error.removeprefix(OUT_OF_TIME + ': ')}")
                    break
                if error:
                    failures.append(f"{run.run_id}: {error}")
    return failures


def _run_one(root: Path, study: Study, run: PlannedRun, identity: dict, lock: int, bar: RunsBar) -> str:
    """Run the notebook in a process of its own; return its error, after writing it to the run's row."""
    study_dir = Path(identity["study_dir"])
    source = root / "notebooks" / f"{study.notebook}.ipynb"
    output = study_dir / "notebooks" / f"{run.run_id}.ipynb"
    progress = progress_path(study_dir, run.run_id)
    for left_by_an_earlier_try in (progress, output):
        left_by_an_earlier_try.unlink(missing_ok=True)
    for folder in ("notebooks", "logs", "parameters"):
        (study_dir / folder).mkdir(parents=True, exist_ok=True)
    parameters = study_dir / "parameters" / f"{run.run_id}.yaml"
    parameters.write_text(yaml.safe_dump(run.parameters), encoding="utf-8")
    command = [sys.executable, "-m", "papermill", str(source), str(output), "-f", str(parameters)]
    started_at, start = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    bar.start_run(run)
    with (study_dir / "logs" / f"{run.run_id}.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "-k", study.kernel, "--no-progress-bar"],
            cwd=root,
            env={**os.environ, RUN_VARIABLE: json.dumps(identity)},
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=[lock],  # the study stays locked while a run of it lives, even if this process is killed
            preexec_fn=_die_with_parent,
        )
        try:
            while process.poll() is None:
                time.sleep(0.2)
                bar.show(json.loads(progress.read_text()) if progress.exists() else None)
        finally:
            process.kill()
            process.wait()
    bar.finish_run()
    row = row_path(study_dir, run.run_id)
    if process.returncode == 0 and row.exists() and json.loads(row.read_text())["status"] == "ok":
        return ""
    error = _find_error(output)
    if error.startswith(OUT_OF_TIME):
        return error  # neither finished nor failed: it has no row
    error = error or f"papermill ended with {process.returncode} and no row: see logs/{run.run_id}.log"
    row = {name: identity[name] for name in ("run_id", "scenario", "order", "session_id", "retries")}
    row |= {"study": study_dir.name, "notebook": study.notebook, "commit": read_commit(root), "started_at": started_at}
    row |= {name: _hide_folders(value) for name, value in run.parameters.items()}
    row |= {"seed": study.seed + run.repetition, "resumed": 0, "notebook_sha256": "", "status": "failed"}
    write_row(study_dir, {**row, "error": _hide_folders(error), "wall_s": time.monotonic() - start})
    return error


def _hide_folders(value: Any) -> Any:
    """A row names files, never where they lie: of an absolute path in a text its last part stays."""
    return re.sub(r"(?<![\w.])/(?:[^\s/'\":,;]+/)*(?=[^\s/'\":,;])", "", value) if isinstance(value, str) else value


def _find_error(notebook: Path) -> str:
    """The error that stopped an executed notebook, in one line; empty if there is none."""
    if not notebook.exists():
        return ""
    cells = nbformat.read(notebook, as_version=4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", []) if output.output_type == "error"]
    return f"{outputs[-1].ename}: {outputs[-1].evalue}".split("\n")[0] if outputs else ""


@contextmanager
def _lock(study_dir: Path) -> Iterator[int]:
    """Hold the study for this process and the runs it starts."""
    study_dir.mkdir(parents=True, exist_ok=True)
    with (study_dir / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StudyError(f"{study_dir} is being run by another process: wait for it, or end it") from error
        yield file.fileno()


def _die_with_parent() -> None:
    """Ask Linux to end this process when the runner ends; elsewhere the lock keeps a second runner waiting."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 = PR_SET_PDEATHSIG
