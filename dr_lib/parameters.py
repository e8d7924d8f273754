"""A notebook's parameters: a model of each notebook, and what is said of a value that cannot be."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePath
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
)

from dr_lib.errors import DrError
from dr_lib.files import expand_home, parse_yaml

NOTEBOOKS = {  # the model of its parameters, as module:class
    "00_start_here": "dr_lib.training.parameters:StartHere",
    "01_prepare_fundus": "dr_lib.data.parameters:Prepare",
    "10_train": "dr_lib.training.parameters:Train",
    "11_gpu_vs_tpu": "dr_lib.report.parameters:CompareMachines",
    "12_evaluate": "dr_lib.evaluation.parameters:Evaluate",
    "13_explain": "dr_lib.explain.parameters:Explain",
    "21_export_quantize": "dr_lib.serving.parameters:Export",
    "22_serve_and_load": "dr_lib.serving.parameters:Load",
    "23_serving_cost": "dr_lib.serving.parameters:ServingCost",
    "30_train_scenario": "dr_lib.scenarios.parameters:TrainScenario",
    "31_factor_effects": "dr_lib.scenarios.parameters:Effects",
    "40_mnist_cuda": "dr_lib.mnist.parameters:TrainMnist",
    "41_cuda_vs_keras": "dr_lib.report.parameters:Analysis",
}


class ParameterError(DrError):
    """A parameter is unknown or has an invalid value; the message names what to give."""

    def __init__(self, message: str, *place: str):
        """Keep the names that lead to the value, where it is one value's."""
        super().__init__(message)
        self.place = place


class Checked(BaseModel):
    """Values by name, each of its own kind: no text is read as a number, no number as a text."""

    model_config = ConfigDict(
        extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
    )

    def __init__(self, **values: Any):
        """Check the values.

        Raises:
            ParameterError: a name, its value, and what to give, in one sentence.
        """
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _explain(error, type(self)) from None


def _explain(error: ValidationError, model: type[BaseModel]) -> ParameterError:
    """Explain one fault: a misspelt name comes before the name that it leaves missing."""
    fault = min(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    place = list(map(str, fault["loc"][:2]))
    name = ".".join(place)
    if fault["type"] == "extra_forbidden":
        words = f"{name}: unknown, choose from {', '.join(model.model_fields)}"
    elif fault["type"] == "missing":
        words = f"{name}: missing"
    else:
        given = "empty" if fault["input"] is None else repr(fault["input"])
        words = f"{name} is {given}: {fault['msg'].replace('Input', 'it', 1)}"
    return ParameterError(words, *place)


@dataclass(frozen=True)
class Input:
    """Marks the path of a folder or file to read; some words are none."""

    words: tuple[str, ...]


class Parameters(Checked):
    """The parameters of a notebook, whose cell declares their defaults."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def from_parameters(cls, values: Mapping[str, Any]) -> Self:
        """Take the parameters out of other names, such as a notebook's `globals()`."""
        return cls(**{name: values[name] for name in cls.model_fields if name in values})

    @classmethod
    def read_texts(cls, texts: Mapping[str, Any]) -> dict[str, Any]:
        """Read what a command line gives: a text stays one where the parameter is a text, and
        anything else is what a study file would mean by it.
        """
        values = dict(texts)
        for name in cls.model_fields.keys() & texts.keys():
            is_number = cls.model_fields[name].annotation in (int, float, bool)
            if is_number and isinstance(texts[name], str):
                values[name] = parse_yaml(texts[name], name)
        return values

    def find_inputs(self) -> list[str]:
        """Find the parameters that name a folder or a file to read."""
        return [
            name
            for name, field in type(self).model_fields.items()
            for mark in field.metadata
            if isinstance(mark, Input) and getattr(self, name) not in mark.words
        ]

    def describe(self) -> dict[str, Any]:
        """Describe a run's parameters as its row does: by column, and without a folder's path."""
        return self.model_dump(by_alias=True)


def _read_path(value: Any) -> Any:
    """Write out the home directory in a path."""
    return expand_home(str(value)) if isinstance(value, str | PurePath) else value


# a row has the last part of a path
PathText = Annotated[
    str, BeforeValidator(_read_path), PlainSerializer(lambda path: Path(path).name)
]
DataDir = Annotated[PathText, Input(("sample",))]
ModelDir = Annotated[PathText, Input(("",))]
Images = Annotated[PathText, Input(("keras", "synthetic"))]  # of a known data set
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Amount = Annotated[float, Field(ge=0, le=2**31 - 1)]
Portion = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Side = Annotated[int, Field(ge=1, le=4096)]  # of an image [px]
BatchSize = Annotated[int, Field(ge=1, le=65536)]
Epochs = Annotated[int, Field(ge=1, le=100_000)]
LearningRate = Annotated[float, Field(gt=0, le=100)]


class RunParameters(Parameters):
    """What the notebooks have that make rows."""

    results: Annotated[PathText, Field(exclude=True)] = ""
    seed: Count = 20
    repetition: Count = 0


def find_model(notebook: str) -> type[Parameters]:
    """Import the model of a notebook's parameters.

    Raises:
        ParameterError: it has none.
    """
    if notebook not in NOTEBOOKS:
        raise ParameterError(
            f"{notebook} has no model of its parameters: name it in NOTEBOOKS of"
            " dr_lib/parameters.py"
        )
    module, _, name = NOTEBOOKS[notebook].partition(":")
    return getattr(import_module(module), name)


def read_parameters(
    notebook: str, cells: Sequence[str], values: Mapping[str, Any]
) -> Parameters:
    """Read a notebook's parameters, and refuse names that it does not have.

    papermill assigns all that it is given, in a cell of its own behind the parameters cell.

    Args:
        notebook: its name.
        cells: the code of those that ran, in their order.
        values: of the names that they left.

    Raises:
        ParameterError: a name or a value that cannot be, and what to give.
    """
    model = find_model(notebook)
    given: list[str] = []
    for cell in cells:
        assigned = re.findall(r"(?m)^(\w+)(?:: [^=]+)? = ", cell)
        if cell.startswith("# Parameters\n"):
            given += assigned
        elif model.model_fields.keys() & set(re.findall(r"(?m)^(\w+): ", cell)):
            given = assigned  # the notebook's own cell
    names = dict.fromkeys([*model.model_fields, *given])
    return model(**{name: values[name] for name in names if name in values})
