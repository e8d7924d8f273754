"""A study: its file, checked against the notebook, and its runs in order."""

import itertools
import random
import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import papermill
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dr_lib.command import write_command
from dr_lib.errors import DrError
from dr_lib.hardware import Facts
from dr_lib.parameters import GONE, INPUTS, ParameterError, check_value
from dr_lib.runs.row import RENAMED

SET_BY_THE_STUDY = ("repetition", "seed")
DEFAULT_KERNEL = "python3"
FOLD = re.compile(r"split-\d+-of-(\d+)\.csv")  # the split table of one fold


class Study(BaseModel):
    """The content of a study file."""

    model_config = ConfigDict(extra="forbid")

    notebook: str
    report: str = ""  # the notebook that analyses the rows
    repetitions: int = Field(ge=1)
    parameters: dict[str, Any] = {}
    factors: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    # the number of the first one, where this is a part of a larger study
    first_scenario: int = Field(default=1, ge=1)
    # one for all, or factor: {its value: a kernel}
    kernel: str | dict[str, dict[str, str]] = DEFAULT_KERNEL
    # of a scenario in one session, a boot of the machine; the others wait for another
    session_repetitions: int | None = Field(default=None, ge=1)
    order: Literal["random", "sequential"] = "random"
    seed: int = 0
    instance: str = ""  # the machine's name in the table of prices
    max_hours: float | None = Field(default=None, gt=0)
    max_usd: float | None = Field(default=None, gt=0)  # of all sessions together
    timeout_hours: float | None = Field(default=None, gt=0)  # of one run, which is then ended
    retries: int = Field(default=0, ge=0)  # of a run that failed, in one session

    def name_kernel(self, values: dict[str, Any]) -> str:
        """Return the kernel for runs with these values of the factors."""
        if isinstance(self.kernel, str):
            return self.kernel
        for factor, kernels in self.kernel.items():
            if str(values.get(factor)) in kernels:
                return kernels[str(values[factor])]
        return DEFAULT_KERNEL


class PlannedRun(NamedTuple):
    """One repetition of one cell of the design."""

    run_id: str
    scenario: str
    repetition: int
    order: int
    parameters: dict[str, Any]  # as passed to the notebook
    kernel: str

    @property
    def name(self) -> str:
        """The run's name on any machine: C3-r02."""
        return name_run(self.scenario, self.repetition)

    @property
    def num_machines(self) -> int:
        """Number of machines that the run trains on and pays for."""
        return self.parameters.get("num_machines", 1)


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
    study = _read(Path(path))
    study.instance = instance or study.instance
    if study.max_usd and not study.instance:
        raise DrError(f"{path}: max_usd needs an instance with a known price")
    for name in filter(None, (study.notebook, study.report)):
        if name in RENAMED:
            raise DrError(f"{path}: {name} is now 10_train with task: {RENAMED[name]}")
        if not (root / "notebooks" / f"{name}.ipynb").is_file():
            raise DrError(f"{path}: notebook {name!r} is not in {root / 'notebooks'}")
    notebook = root / "notebooks" / f"{study.notebook}.ipynb"
    try:
        _check_parameters(study, papermill.inspect_notebook(str(notebook)))
    except ParameterError as error:
        raise DrError(f"{path}: {error}") from error
    return study


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice, of which YAML would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        """The dictionary of a node."""
        present = set()
        for key, _ in node.value:
            if str(key.value) in present:
                problem = f"{key.value} is there twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            present.add(str(key.value))
        return super().construct_mapping(node, deep)


def _read(path: Path) -> Study:
    """Read a study file; report what is wrong with it in one sentence."""
    fault = f"{path} is not a valid study file"
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506
    except IsADirectoryError as error:
        file = path.with_suffix(".yaml")
        hint = f": did you mean {file}?" if file.is_file() else ""
        raise DrError(f"{path} is a folder, not a study file{hint}") from error
    except FileNotFoundError as error:
        raise DrError(f"{path}: no such study file") from error
    except UnicodeDecodeError as error:
        raise DrError(f"{fault}: it is not UTF-8 text") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1
        raise DrError(f"{fault}: line {line}: {error.problem}") from error
    except yaml.YAMLError as error:  # a character that no text has
        raise DrError(f"{fault}: {error.reason}") from error
    if not isinstance(content, dict):
        raise DrError(f"{fault}: it needs lines such as notebook: 10_train")
    try:
        return Study.model_validate(content)
    except ValidationError as error:
        raise DrError(f"{fault}: {_describe_fault(error)}") from error


def _describe_fault(error: ValidationError) -> str:
    """Name the wrong key and why; a misspelt key comes before the key that it leaves missing."""
    first = min(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    key = ".".join(map(str, first["loc"][:2]))
    if first["type"] == "extra_forbidden":
        advice = GONE.get(key) or f"the keys are {', '.join(Study.model_fields)}"
        return f"{key}: not a key of a study file; {advice}"
    if first["type"] == "missing":
        return f"{key}: required in a study file"
    return f"{key}: {first['msg'].removeprefix('Input ')}, not {first['input']!r}"


def _check_parameters(study: Study, declared: dict[str, dict[str, str]]) -> None:
    """Check a study's parameters, factors and kernels against the parameters of its notebook.

    Raises:
        ParameterError: one cannot be as written.
    """
    for name in SET_BY_THE_STUDY:
        if name not in declared:
            fault = f"{study.notebook} has no parameter {name}"
            raise ParameterError(f"{fault}: it cannot be repeated")
    for factor, values in study.factors.items():
        if len(values) > len(set(map(str, values))):
            raise ParameterError(f"factor {factor} has a repeated level")
    for name, value in _list_values(study):
        if name in SET_BY_THE_STUDY or (name in study.parameters and name in study.factors):
            fault = f"{name} is set by the study itself, or twice"
            raise ParameterError(f"{fault}: remove it from the parameters")
        if name not in declared:
            advice = GONE.get(name) or f"it has {', '.join(declared)}"
            raise ParameterError(f"{study.notebook} has no parameter {name!r}, {advice}")
        check_value(name, declared[name]["inferred_type_name"], value, declared)
    kernels = study.kernel if isinstance(study.kernel, dict) else {}
    for factor, by_value in kernels.items():
        values = study.factors.get(factor, [study.parameters.get(factor)])
        for name in by_value.keys() - set(map(str, values)):
            fault = f"kernel names {factor}={name}"
            raise ParameterError(f"{fault}, which the study does not have")


def check_paths(study: Study, path: Path, root: Path) -> list[tuple[str, str]]:
    """Refuse a study whose input folders or files are missing on this machine, before anything
    runs.

    `data_dir` has to be prepared, and to hold each `split` or have it elsewhere.

    Returns:
        Parameter and value of each input that is there.

    Raises:
        DrError: one is not there.
    """
    values = _list_values(study)
    splits = [value for name, value in values if name == "split"]
    inputs = [item for item in values if item[0] in INPUTS and item[1] not in INPUTS[item[0]]]
    for name, value in inputs:
        if name == "data_dir":
            _check_prepared(value, splits, path, root)
        elif not (root / value).exists():
            fault = f"{name} {value!r} does not exist"
            raise DrError(f"{path}: {fault}: create it first, or correct the path")
    return inputs


def _check_prepared(data_dir: str, splits: list[str], path: Path, root: Path) -> None:
    """Refuse a folder that is not fully prepared or lacks one of the split tables."""
    folder = root / data_dir
    if not (folder / "manifest.json").is_file():
        state = "prepared" if folder.is_dir() else "there"
        inputs = ("--images", "photographs", "--labels", "labels.csv")
        advice = write_command("prepare", *inputs, "--out", data_dir)
        raise DrError(f"{path}: data_dir {data_dir!r} is not {state}: {advice}")
    for split in splits:
        if not (folder / split).is_file():
            folds = FOLD.fullmatch(split)
            options = ("--scheme", "folds", "--folds", folds[1]) if folds else ("--out", split)
            advice = write_command("split", data_dir, *options)
            raise DrError(f"{path}: no split table {split!r} in {data_dir}: {advice}")


def _list_values(study: Study) -> list[tuple[str, Any]]:
    levels = [(name, value) for name, values in study.factors.items() for value in values]
    return [*study.parameters.items(), *levels]


def plan_runs(study: Study, machine: str) -> list[PlannedRun]:
    """List all runs of a study in the order of execution.

    Scenarios are numbered C1, C2, ... (or from `first_scenario` on) in the order of the factors in
    the file, the last factor changing fastest.
    Each repetition is a block that holds every scenario once, in an order drawn from the study's
    seed. A run is made once per machine, whose name is from `name_machine`.
    """
    scenarios = {}
    cells = itertools.product(*study.factors.values())
    for number, levels in enumerate(cells, start=study.first_scenario):
        values = dict(zip(study.factors, levels, strict=True))
        scenarios[f"C{number}"] = {**study.parameters, **values}
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
                kernel=study.name_kernel(values),
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
    size = f"{facts.num_cpus} cpus {facts.memory_gib:.0f} gib {facts.instance_type}"
    return re.sub(r"[^a-z0-9]+", "-", f"{facts.platform} {devices} {size}".lower()).strip("-")
