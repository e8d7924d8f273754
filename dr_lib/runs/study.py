"""A study: its file, checked against the notebook, and its runs in order."""

import ast
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import papermill
from pydantic import Field

from dr_lib.command import write_command
from dr_lib.errors import DrError
from dr_lib.files import find_line, read_yaml
from dr_lib.hardware.facts import BACKENDS, Facts, HardwareError
from dr_lib.parameters import Checked, Count, ParameterError, Parameters, find_model
from dr_lib.training.config import TrainingConfig

SET_BY_THE_STUDY = ("repetition", "seed", "results")


class Study(Checked):
    """The content of a study file."""

    notebook: str
    report: str = ""  # the notebook that analyses the rows
    repetitions: int = Field(ge=1, le=10_000)
    parameters: dict[str, Any] = {}
    factors: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    # the number of the first one, where this is a part of a larger study
    first_scenario: int = Field(default=1, ge=1, le=10_000)
    # of a scenario in one session, a boot of the machine; the others wait for another
    session_repetitions: int | None = Field(default=None, ge=1, le=10_000)
    order: Literal["random", "sequential"] = "random"
    seed: Count = 0
    instance: str = ""  # the machine's name in the table of prices
    max_hours: float | None = Field(default=None, gt=0, le=8760)
    # of one run, which is then ended
    timeout_hours: float | None = Field(default=None, gt=0, le=8760)
    retries: int = Field(default=0, ge=0, le=100)  # of a run that failed, in one session
    needs: list[Literal["gpu", "tpu"]] = []  # one of them, or --on-cpu
    # by which data_dir has to be split
    scheme: Literal["random", "paper", "official", "folds"] | None = None
    _defaults: dict[str, Any] = {}  # of the notebook's parameters

    def read(self, values: dict[str, Any]) -> Parameters:
        """Read the parameters of a run, with the defaults of its notebook's cell."""
        return find_model(self.notebook)(**{**self._defaults, **values})


class PlannedRun(NamedTuple):
    """One repetition of one cell of the design."""

    run_id: str
    scenario: str
    repetition: int
    order: int
    parameters: dict[str, Any]  # as passed to the notebook

    @property
    def name(self) -> str:
        """The run's name on any machine: C3-r02."""
        return name_run(self.scenario, self.repetition)


def find_results(path: Path) -> Path:
    """Find the folder of a study's results: beside its file, of its name without .yaml.

    Raises:
        DrError: it is a folder, or its name does not end in .yaml.
    """
    path = Path(path)
    if path.suffix != ".yaml":
        file = find_file(path)
        hint = f"did you mean {file}?" if file else f"name it {path.name}.yaml"
        raise DrError(f"{path} is no study file, which ends in .yaml: {hint}")
    return path.with_suffix("")


def find_file(folder: Path) -> Path | None:
    """Find the study file beside a folder of results; None if there is none."""
    folder = Path(folder).absolute()
    file = folder.with_name(f"{folder.name}.yaml")
    return file if file.is_file() else None


def load_study(path: Path, root: Path, *, instance: str = "") -> Study:
    """Read a study file and check it against its notebook, before anything runs.

    Args:
        path: the study file.
        root: the repository.
        instance: in place of the file's.

    Raises:
        DrError: the file or its notebook is missing, a key or a parameter is misspelt or cannot
            have its value.
    """
    keys = read_keys(Path(path))
    with _name_line(path, ()):
        study = Study(**keys)
    study.instance = instance or study.instance
    for name in filter(None, (study.notebook, study.report)):
        if not (root / "notebooks" / f"{name}.ipynb").is_file():
            raise DrError(f"{path}: notebook {name!r} is not in {root / 'notebooks'}")
    study._defaults = read_defaults(root / "notebooks" / f"{study.notebook}.ipynb")
    with _name_line(path, ("parameters",), ("factors",)):
        _check_parameters(study)
    return study


def read_keys(path: Path) -> dict[str, Any]:
    """Read the keys of a study file that have a value.

    Raises:
        DrError: there is no such file, or it is no YAML with keys, in one sentence.
    """
    find_results(path)
    if not path.is_file():
        raise DrError(f"{path}: no such study file")
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise DrError(f"{path}: a study file needs lines such as notebook: 10_train")
    return {str(key): value for key, value in content.items() if value is not None}


def read_heading(path: Path) -> str:
    """Read the comment with which a study file begins: what it shows, and in which time."""
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    comments = itertools.takewhile(lambda line: line.startswith("#"), lines)
    return "\n".join(line.lstrip("# ") for line in comments)


def read_defaults(notebook: Path) -> dict[str, Any]:
    """Read the parameters that the cell of a notebook declares."""
    declared = papermill.inspect_notebook(str(notebook))
    return {name: ast.literal_eval(each["default"]) for name, each in declared.items()}


@contextmanager
def _name_line(path: Path, *parents: tuple[str, ...]) -> Iterator[None]:
    """Name the study file and the line of a value that cannot be, below one of these keys."""
    try:
        yield
    except ParameterError as error:
        line = max(find_line(path, *parent, *error.place) for parent in parents)
        where = f"{path}, line {line}" if line else path
        raise DrError(f"{where}: {error}") from error


def _check_parameters(study: Study) -> None:
    """Check a study's parameters and factors by the model of its notebook.

    Raises:
        ParameterError: one cannot be as written.
    """
    names = find_model(study.notebook).model_fields
    if "repetition" not in names:
        raise ParameterError(f"{study.notebook} has no parameter repetition: run it by hand")
    given = [*study.parameters, *study.factors]
    for name in given:
        if name in SET_BY_THE_STUDY or given.count(name) > 1:
            fault = "set by the study itself, or twice: remove it from the parameters"
            raise ParameterError(f"{name} is {fault}", name)
    cells = [study.read(values) for values in list_cells(study)]
    study.parameters = {name: getattr(cells[0], name) for name in study.parameters}
    for factor, levels in study.factors.items():
        study.factors[factor] = list(dict.fromkeys(getattr(cell, factor) for cell in cells))
        if len(levels) > len(study.factors[factor]):
            raise ParameterError(f"factor {factor} has a repeated level", factor)


def check_needs(study: Study, path: Path, facts: Facts) -> None:
    """Refuse a machine without any of the accelerators that the study needs."""
    present = {"gpu": facts.gpus, "tpu": facts.num_tpu_chips}
    if study.needs and not any(present[name] for name in study.needs):
        names = " or ".join(map(str.upper, study.needs))
        raise DrError(
            f"{path} needs a {names}, and this machine has none: "
            "run it on one, as with --on, or here with --on-cpu"
        )


def find_refused(study: Study, runs: Iterable[PlannedRun], facts: Facts) -> dict[str, str]:
    """Explain why scenarios of notebook 10 can never be made on this machine, such as TensorFlow
    on a TPU. A missing package or a broken driver is an error of the run.
    """
    reasons = {}
    if study.notebook != "10_train" or facts.gpu_error:
        return reasons
    complete = facts._replace(backends=BACKENDS)
    for run in runs:
        config = TrainingConfig.from_parameters(dict(study.read(run.parameters)))
        try:
            config.plan(complete, num_images=0)
        except HardwareError as error:
            reasons[run.scenario] = str(error)
    return reasons


def check_paths(study: Study, path: Path, root: Path) -> list[tuple[str, str]]:
    """Refuse a study whose input folders or files are missing on this machine, before anything
    runs.

    `data_dir` has to be prepared, with crops as large as the networks' input, and split by the
    study's scheme.

    Returns:
        Parameter and value of each input that is there.

    Raises:
        DrError: one is not there.
    """
    inputs = {}
    for cell in list_cells(study):
        values = {**study._defaults, **cell}
        fault = _find_fault(values, study.scheme, root) if "data_dir" in values else ""
        for name in study.read(cell).find_inputs():
            inputs[name, values[name]] = None
            if not (root / values[name]).exists() and not fault:
                fault = (
                    f"{name} {values[name]!r} does not exist: create it, or correct the path"
                )
        if fault:
            raise DrError(f"{path}: {fault}")
    return list(inputs)


def _find_fault(values: dict[str, Any], scheme: str | None, root: Path) -> str:
    """Find why a prepared folder does not fit a run's parameters; nothing if it does."""
    data_dir = values["data_dir"]
    name = values.get("split") or "split.csv"
    sample = root / "papermill_runs/sample/records"
    folder = sample if data_dir == "sample" else root / data_dir
    chosen = ("--scheme", scheme) if scheme else ()
    path = folder / "manifest.json"
    if not path.is_file():
        if data_dir == "sample":
            return ""  # the first run makes it
        options = ("--images", "photographs", "--labels", "labels.csv", "--out", data_dir)
        advice = write_command("prepare", *options, *chosen)
        if folder == sample:
            advice = write_command("sample")
        return f"data_dir {data_dir!r} is not prepared: {advice}"
    manifest = json.loads(path.read_bytes())
    size = manifest["parameters"]["size"]
    if values.get("image_size", 0) > size:
        return f"image_size {values['image_size']}: the crops of {data_dir} have {size} px"
    facts = manifest["splits"].get(name, {})
    if not (folder / name).is_file() or scheme not in (None, facts.get("scheme")):
        folds = re.fullmatch(r"split-\d+-of-(\d+)\.csv", name)
        options = ("--scheme", "folds", "--folds", folds[1]) if folds else chosen
        advice = write_command("split", data_dir, *options)
        found = f" of scheme {scheme}" if scheme else ""
        return f"no split table {name!r}{found} in {data_dir}: {advice}"
    return ""


def list_cells(study: Study) -> Iterator[dict[str, Any]]:
    """List the parameters of each combination of levels, the last factor changing fastest."""
    for levels in itertools.product(*study.factors.values()):
        yield {**study.parameters, **dict(zip(study.factors, levels, strict=True))}


def plan_runs(study: Study, machine: str) -> list[PlannedRun]:
    """List all runs of a study in the order of execution.

    Scenarios are numbered C1, C2, ... (or from `first_scenario` on) in the order of the factors in
    the file, the last factor changing fastest.
    Each repetition is a block that holds every scenario once, in an order drawn from the study's
    seed. A run is made once per machine, whose name is from `name_machine`.
    """
    cells = enumerate(list_cells(study), start=study.first_scenario)
    scenarios = {f"C{number}": values for number, values in cells}
    generator = random.Random(study.seed)
    runs = []
    for repetition in range(study.repetitions):
        block = list(scenarios)
        if study.order == "random":
            block = generator.sample(block, len(block))
        for scenario in block:
            values = scenarios[scenario]
            run = PlannedRun(
                run_id=f"{name_run(scenario, repetition)}-{machine}",
                scenario=scenario,
                repetition=repetition,
                order=len(runs),
                parameters={**values, "repetition": repetition, "seed": study.seed},
            )
            runs.append(run)
    return runs


def find_runs(planned: list[PlannedRun], only: str, path: Path) -> list[PlannedRun]:
    """Find all runs of a plan, or the one named by scenario and repetition, such as C3-r02.

    Raises:
        DrError: the study file, `path`, asks for no such run.
    """
    runs = [run for run in planned if only in ("", run.name)]
    if not runs:
        raise DrError(f"{path} has no run {only!r}: write scenario and repetition as in C3-r02")
    return runs


def name_run(scenario: str, repetition: int) -> str:
    """Name a run independent of its machine: C3-r02."""
    return f"{scenario}-r{repetition:02d}"


def name_machine(facts: Facts) -> str:
    """Name machines of one kind, as used in a run's name: local-amd-epyc-2-cpus-24-gib."""
    gpus = [f"{count}x {name}" for name, count in Counter(facts.gpus).items()]
    devices = " ".join(gpus) or facts.cpu
    if facts.num_tpu_chips:
        devices = f"{facts.num_tpu_chips}x tpu {facts.tpu_kind}"
    size = f"{facts.num_cpus} cpus {facts.memory_gib:.0f} gib"
    return re.sub(r"[^a-z0-9]+", "-", f"{facts.platform} {devices} {size}".lower()).strip("-")
