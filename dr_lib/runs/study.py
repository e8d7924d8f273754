"""A study: its file, checked against the notebook, and its runs in their order."""

import itertools
import random
import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import papermill
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dr_lib.hardware import Facts
from dr_lib.runs.prices import find_price

SET_BY_THE_STUDY = ("repetition", "seed")
DEFAULT_KERNEL = "python3"
TYPES = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}


class StudyError(ValueError):
    """The study cannot be run as written; the message says what to change."""


class Study(BaseModel):
    """What a study file asks for."""

    model_config = ConfigDict(extra="forbid")

    notebook: str
    report: str = ""  # the notebook that analyses the rows
    repetitions: int = Field(ge=1)
    parameters: dict[str, Any] = {}
    factors: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    first_scenario: int = Field(default=1, ge=1)  # the number of the first one, where this is a part of a larger study
    kernel: str | dict[str, dict[str, str]] = DEFAULT_KERNEL  # one for all, or factor: {its value: a kernel}
    order: Literal["random", "sequential"] = "random"
    seed: int = 0
    instance: str = ""  # the machine's name in the table of prices
    max_hours: float | None = Field(default=None, gt=0)
    max_usd: float | None = Field(default=None, gt=0)  # of all sessions together
    timeout_hours: float | None = Field(default=None, gt=0)  # of one run, which is then ended
    retries: int = Field(default=0, ge=0)  # of a run that failed, in one session
    repeat_disturbed: int = Field(default=1, ge=0)  # times that a disturbed run is made again, after all others

    def name_kernel(self, values: dict[str, Any]) -> str:
        """The kernel of the runs with these values of the factors."""
        if isinstance(self.kernel, str):
            return self.kernel
        named = [kernels.get(str(values.get(factor))) for factor, kernels in self.kernel.items()]
        return next(filter(None, named), DEFAULT_KERNEL)


class PlannedRun(NamedTuple):
    """One cell of the design, once."""

    run_id: str
    scenario: str
    repetition: int
    order: int
    parameters: dict[str, Any]  # as passed to the notebook
    kernel: str


def load_study(path: Path, root: Path, *, instance: str = "") -> Study:
    """Read a study file and check it against its notebook, before anything runs; `instance` goes over the file's.

    Raises:
        StudyError: the file or its notebook is missing, a key or a parameter is misspelt or has the wrong type.
        PriceError: the instance has no price.
    """
    try:
        study = Study.model_validate(yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {})
    except FileNotFoundError as error:
        raise StudyError(f"{path}: no such study file") from error
    except (yaml.YAMLError, ValidationError) as error:
        raise StudyError(f"{path} is not a valid study file: {error}") from error
    study.instance = instance or study.instance
    if study.max_usd and not study.instance:
        raise StudyError(f"{path}: max_usd needs an instance, whose price is known")
    if study.instance:
        find_price(study.instance)
    for name in filter(None, (study.notebook, study.report)):
        if not (root / "notebooks" / f"{name}.ipynb").is_file():
            raise StudyError(f"{path}: notebook {name!r} is not in {root / 'notebooks'}")
    known = papermill.inspect_notebook(str(root / "notebooks" / f"{study.notebook}.ipynb"))
    _check_parameters(study, path, {name: parameter["inferred_type_name"] for name, parameter in known.items()})
    for factor, kernels in study.kernel.items() if isinstance(study.kernel, dict) else ():
        unknown = set(kernels) - {str(value) for value in study.factors.get(factor, [study.parameters.get(factor)])}
        if unknown:
            names = ", ".join(sorted(unknown))
            raise StudyError(f"{path}: kernel names {factor}={names}, which the study does not have")
    return study


def _check_parameters(study: Study, path: Path, types: dict[str, str]) -> None:
    """Check parameters and factors against the names and types of the notebook's parameters."""
    missing = [name for name in SET_BY_THE_STUDY if name not in types]
    if missing:
        raise StudyError(f"{path}: {study.notebook} has no parameter {', '.join(missing)}: it cannot be repeated")
    for factor, values in study.factors.items():
        if len(values) > len(set(map(str, values))):
            raise StudyError(f"{path}: factor {factor} has one level twice")
    levels = [(name, value) for name, values in study.factors.items() for value in values]
    for name, value in (*study.parameters.items(), *levels):
        if name in SET_BY_THE_STUDY or (name in study.parameters and name in study.factors):
            raise StudyError(f"{path}: {name} is set by the study itself or twice: take it out of the parameters")
        if name not in types:
            raise StudyError(f"{path}: {study.notebook} has no parameter {name!r}, it has {', '.join(types)}")
        allowed = TYPES.get(types[name])
        if allowed and (not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed)):
            raise StudyError(f"{path}: {name} has to be a {types[name]}, {value!r} is none")


def plan_runs(study: Study, machine: str) -> list[PlannedRun]:
    """All runs of a study in the order in which they are to be made.

    Scenarios are numbered C1, C2, ... (or from `first_scenario` on) in the order of the factors in the file, the last
    factor changing fastest.
    Each repetition is a block that holds every scenario once, in an order drawn from the study's seed. A run is made
    once per machine, whose name is from `name_machine`.
    """
    levels = [dict(zip(study.factors, values, strict=True)) for values in itertools.product(*study.factors.values())]
    scenarios = [(f"C{number}", values) for number, values in enumerate(levels, start=study.first_scenario)]
    draw, runs = random.Random(study.seed), []
    for repetition in range(study.repetitions):
        block = draw.sample(scenarios, len(scenarios)) if study.order == "random" else scenarios
        for scenario, values in block:
            parameters = {**study.parameters, **values, "repetition": repetition, "seed": study.seed}
            run_id = f"{name_run(scenario, repetition)}-{machine}"
            kernel = study.name_kernel(parameters)
            runs.append(PlannedRun(run_id, scenario, repetition, len(runs), parameters, kernel))
    return runs


def find_runs(planned: list[PlannedRun], only: str, path: Path) -> list[PlannedRun]:
    """All runs of a plan, or the one of that scenario and repetition, such as C3-r02.

    Raises:
        StudyError: the study file, `path`, asks for no such run.
    """
    runs = [run for run in planned if only in ("", name_run(run.scenario, run.repetition))]
    if not runs:
        raise StudyError(f"{path} has no run {only!r}: write scenario and repetition as in C3-r02")
    return runs


def name_run(scenario: str, repetition: int) -> str:
    """The name of a run on whatever machine: C3-r02."""
    return f"{scenario}-r{repetition:02d}"


def name_machine(facts: Facts) -> str:
    """A short name for machines that are alike, as it stands in a run's name: local-amd-epyc-2-cpus-24-gib."""
    devices = " ".join(f"{count}x {name}" for name, count in Counter(facts.gpus).items()) or facts.cpu
    devices = f"{facts.num_tpu_chips}x tpu" if facts.num_tpu_chips else devices
    size = f"{facts.num_cpus} cpus {facts.memory_gib:.0f} gib {facts.instance_type}"
    return re.sub(r"[^a-z0-9]+", "-", f"{facts.platform} {devices} {size}".lower()).strip("-")
