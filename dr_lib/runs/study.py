"""A study: its file, checked against the notebook, and its runs in their order."""

import ast
import itertools
import math
import random
import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import papermill
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dr_lib.command import write_command
from dr_lib.hardware import Facts
from dr_lib.parameters import GONE, ParameterError, check_value
from dr_lib.runs.prices import find_price
from dr_lib.runs.row import RENAMED

SET_BY_THE_STUDY = ("repetition", "seed")
DEFAULT_KERNEL = "python3"
FOLD = re.compile(r"split-\d+-of-(\d+)\.csv")  # the split table of one fold


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
    # the number of the first one, where this is a part of a larger study
    first_scenario: int = Field(default=1, ge=1)
    # one for all, or factor: {its value: a kernel}
    kernel: str | dict[str, dict[str, str]] = DEFAULT_KERNEL
    order: Literal["random", "sequential"] = "random"
    seed: int = 0
    instance: str = ""  # the machine's name in the table of prices
    max_hours: float | None = Field(default=None, gt=0)
    max_usd: float | None = Field(default=None, gt=0)  # of all sessions together
    timeout_hours: float | None = Field(default=None, gt=0)  # of one run, which is then ended
    retries: int = Field(default=0, ge=0)  # of a run that failed, in one session
    repeat_disturbed: int = Field(default=1, ge=0)  # times that one is made again, after all others

    @property
    def max_repeats(self) -> int:
        """How many disturbed runs are made again in all: a third of the study."""
        num_scenarios = math.prod(len(values) for values in self.factors.values())
        return math.ceil(num_scenarios * self.repetitions / 3)

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
    """Read a study file and check it against its notebook, before anything runs; `instance` goes
    over the file's.

    Raises:
        StudyError: the file or its notebook is missing, a key or a parameter is misspelt or has the
            wrong type.
        PriceError: the instance has no price.
    """
    study = _read(Path(path))
    study.instance = instance or study.instance
    if study.max_usd and not study.instance:
        raise StudyError(f"{path}: max_usd needs an instance, whose price is known")
    if study.instance:
        find_price(study.instance)
    for name in filter(None, (study.notebook, study.report)):
        if name in RENAMED:
            raise StudyError(f"{path}: {name} is 10_train now, with task: {RENAMED[name]}")
        if not (root / "notebooks" / f"{name}.ipynb").is_file():
            raise StudyError(f"{path}: notebook {name!r} is not in {root / 'notebooks'}")
    known = papermill.inspect_notebook(str(root / "notebooks" / f"{study.notebook}.ipynb"))
    _check_parameters(study, path, known)
    for factor, kernels in study.kernel.items() if isinstance(study.kernel, dict) else ():
        unknown = set(kernels) - {
            str(value) for value in study.factors.get(factor, [study.parameters.get(factor)])
        }
        if unknown:
            names = ", ".join(sorted(unknown))
            raise StudyError(
                f"{path}: kernel names {factor}={names}, which the study does not have"
            )
    return study


def _read(path: Path) -> Study:
    """The study of a file; what is wrong with it in one sentence."""
    try:
        if path.is_dir():
            hint = (
                f": did you mean {path.with_suffix('.yaml')}?"
                if path.with_suffix(".yaml").is_file()
                else ""
            )
            raise StudyError(f"{path} is a folder, not a study file{hint}")
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise StudyError(
                f"{path} is not a valid study file: it needs lines such as notebook: 10_train"
            )
        return Study.model_validate(content)
    except FileNotFoundError as error:
        raise StudyError(f"{path}: no such study file") from error
    except UnicodeDecodeError as error:
        raise StudyError(f"{path} is not a valid study file: it is no text in UTF-8") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "no YAML"
        where = f"line {mark.line + 1}: " if mark else ""
        raise StudyError(f"{path} is not a valid study file: {where}{problem}") from error
    except ValidationError as error:
        # a misspelt key before the one that is missing for it
        first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
        key = ".".join(map(str, first["loc"][:2]))
        reason = first["msg"].removeprefix("Input ")
        if first["type"] == "extra_forbidden":
            reason = f"no key of a study; they are {', '.join(Study.model_fields)}"
        elif first["type"] == "missing":
            reason = "a study needs it"
        else:
            reason = f"{reason}, not {first['input']!r}"
        raise StudyError(f"{path} is not a valid study file: {key}: {reason}") from error


def _check_parameters(study: Study, path: Path, known: dict[str, dict[str, str]]) -> None:
    """Check parameters and factors against the notebook's parameters: names, types, and choices
    in their comments.
    """
    missing = [name for name in SET_BY_THE_STUDY if name not in known]
    if missing:
        raise StudyError(
            f"{path}: {study.notebook} has no parameter {', '.join(missing)}: it cannot be repeated"
        )
    for factor, values in study.factors.items():
        if len(values) > len(set(map(str, values))):
            raise StudyError(f"{path}: factor {factor} has one level twice")
    for name, value in _list_values(study):
        if name in SET_BY_THE_STUDY or (name in study.parameters and name in study.factors):
            raise StudyError(
                f"{path}: {name} is set by the study itself or twice: take it out of the parameters"
            )
        if name not in known:
            advice = GONE.get(name) or f"it has {', '.join(known)}"
            raise StudyError(f"{path}: {study.notebook} has no parameter {name!r}, {advice}")
        choices = _list_choices(known[name]["help"])
        try:
            check_value(name, known[name]["inferred_type_name"], value)
        except ParameterError as error:
            raise StudyError(f"{path}: {error}") from error
        if choices and str(value) not in choices:
            raise StudyError(f"{path}: {name} {value!r}: choose from {', '.join(choices)}")


def check_paths(study: Study, path: Path, root: Path) -> list[tuple[str, str]]:
    """Refuse a study whose input folders or files are not on this machine, before anything runs;
    list the others.

    They are the parameters that end in `_dir`, and those that are a path by their comment and have
    a slash; `data_dir` has to be prepared, and to hold each `split` or have it elsewhere.

    Returns:
        Parameter and value of each input that is there.

    Raises:
        StudyError: one is not there.
    """
    known = papermill.inspect_notebook(str(root / "notebooks" / f"{study.notebook}.ipynb"))
    values = _list_values(study)
    inputs = []
    for name, value in values:
        is_folder = name.endswith("_dir") and value != ast.literal_eval(known[name]["default"])
        named = value in ("none", "imagenet") if name == "weights" else "/" not in str(value)
        is_file = "path of" in known[name]["help"] and not named
        if name == "data_dir" and is_folder:
            _check_prepared(
                value, [split for other, split in values if other == "split"], path, root
            )
        elif name != "split" and (is_folder or is_file) and not (root / value).exists():
            raise StudyError(
                f"{path}: {name} {value!r} is not there: make it first, or correct the path"
            )
        inputs += [(name, value)] if is_folder or (is_file and name != "split") else []
    return inputs


def _check_prepared(data_dir: str, splits: list[str], path: Path, root: Path) -> None:
    """Refuse a folder without the manifest that `prepare` writes last, or without one of these
    split tables.
    """
    if not (root / data_dir / "manifest.json").is_file():
        state = "prepared" if (root / data_dir).is_dir() else "there"
        inputs = ("--images", "photographs", "--labels", "labels.csv")
        advice = write_command("prepare", *inputs, "--out", data_dir)
        raise StudyError(f"{path}: data_dir {data_dir!r} is not {state}: {advice}")
    for split in splits:
        if not (root / data_dir / split).is_file():
            folds = FOLD.fullmatch(split)
            options = ("--scheme", "folds", "--folds", folds[1]) if folds else ("--out", split)
            advice = write_command("split", data_dir, *options)
            raise StudyError(f"{path}: there is no split table {split!r} in {data_dir}: {advice}")


def _list_values(study: Study) -> list[tuple[str, Any]]:
    levels = [(name, value) for name, values in study.factors.items() for value in values]
    return [*study.parameters.items(), *levels]


def _list_choices(comment: str) -> list[str]:
    """The values in a parameter's comment where it only lists them, as in: none, flip
    (left-right) or colour; ...
    """
    items = re.split(r",? or |, ", re.sub(r" \([^)]*\)", "", comment).split(";")[0])
    return items if len(items) > 1 and all(re.fullmatch(r"\w+", item) for item in items) else []


def plan_runs(study: Study, machine: str) -> list[PlannedRun]:
    """All runs of a study in the order in which they are to be made.

    Scenarios are numbered C1, C2, ... (or from `first_scenario` on) in the order of the factors in
    the file, the last factor changing fastest.
    Each repetition is a block that holds every scenario once, in an order drawn from the study's
    seed. A run is made once per machine, whose name is from `name_machine`.
    """
    levels = [
        dict(zip(study.factors, values, strict=True))
        for values in itertools.product(*study.factors.values())
    ]
    scenarios = [
        (f"C{number}", values) for number, values in enumerate(levels, start=study.first_scenario)
    ]
    draw = random.Random(study.seed)
    runs = []
    for repetition in range(study.repetitions):
        block = draw.sample(scenarios, len(scenarios)) if study.order == "random" else scenarios
        for scenario, values in block:
            parameters = {
                **study.parameters,
                **values,
                "repetition": repetition,
                "seed": study.seed,
            }
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
    """A short name for machines that are alike, as it stands in a run's name:
    local-amd-epyc-2-cpus-24-gib.
    """
    devices = (
        " ".join(f"{count}x {name}" for name, count in Counter(facts.gpus).items()) or facts.cpu
    )
    devices = f"{facts.num_tpu_chips}x tpu {facts.tpu_kind}" if facts.num_tpu_chips else devices
    size = f"{facts.num_cpus} cpus {facts.memory_gib:.0f} gib {facts.instance_type}"
    return re.sub(r"[^a-z0-9]+", "-", f"{facts.platform} {devices} {size}".lower()).strip("-")
