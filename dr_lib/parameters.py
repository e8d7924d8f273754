"""Check the parameters of a notebook or a command: their names, types and values.

Notebooks of foreign kernels are given parameters too: this file needs Python 3.9, nothing else.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dr_lib.errors import DrError

KINDS = {  # of parameters, by their annotation: types of the values, and in words
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "str": ((str,), "a text"),
    "bool": ((bool,), "true or false"),
}
LEAST = {  # of the numbers that make no sense below it, in whatever notebook
    "epochs": 1,
    "batch_size": 1,
    "image_size": 1,
    "num_machines": 1,
    "num_requests": 1,
    "num_devices": 0,
    "learning_rate": 0,
    "max_hours": 0,
    "gap_s": 0,
    "load_seconds": 0,
    "repetition": 0,
    "seed": 0,
}
CHOICES = {  # of the texts that are one of a few, in whatever notebook
    "task": ("referable", "grades"),
    "mode": ("paper", "fast", "scaled"),
    "recipe": ("full", "few", "upper"),
    "optimizer": ("rmsprop", "adam"),
    "augmentation": ("none", "flip", "colour"),
    "accelerator": ("auto", "cpu", "gpu", "tpu"),
    "backend": ("auto", "tensorflow", "jax"),
    "input": ("auto", "memory", "stream"),
    "scheme": ("random", "paper", "official"),
    "method": ("robust", "voets"),
    "format": ("litert_float32", "litert_float16", "litert_int8", "savedmodel"),
    "framework": ("tensorflow", "pytorch", "mxnet", "keras_jax", "keras_torch"),
    "dataset": ("mnist", "cifar10"),
    "device": ("auto", "gpu", "cpu"),
    "lang": ("en", "pt"),
}
CHOICES_BESIDE = {  # other ones, in a notebook that has this parameter too
    "framework": {"accelerator": ("auto", "cpu", "gpu")},
    "model_dir": {"model": ("mobilenet", "vgg19", "small_cnn")},
    "served_dir": {"model": ("mobilenet", "vgg19", "small_cnn")},
}
INPUTS = {  # parameters that name a folder or a file to read: their values that are words
    "data_dir": ("sample",),
    "model_dir": ("",),
    "served_dir": ("",),
    "weights": ("none", "imagenet"),
    "data_source": ("keras", "synthetic"),
    "mnist": ("keras", "synthetic"),
}
GONE = {  # parameters that notebooks had, for older studies and commands: what to do instead
    "weigh_classes": "leave it out; weigh_grades weights the grades of a five-grade model",
    "ema_momentum": "leave it out: the weights are no longer averaged",
    "last_layer": "give recipe: few, and leave last_layer out",
    "last_frozen": "give recipe: upper, and leave last_frozen out",
    "probe_grades": "give recipe: few, and leave probe_grades out",
    "dropout": "leave it out: recipe upper uses dropout of 0.3, the other recipes none",
    "test_time_augmentation": "leave it out: recipes few and upper average mirror images",
    "batch_scale": "leave it out: mode scaled takes four times the batch",
    "warmup_epochs": "leave it out: mode scaled warms up for five epochs",
    "steps_per_execution": "leave it out: they follow from the mode",
    "strategy": "leave it out: it follows from backend and num_devices",
    "input": "leave it out: photographs are streamed if they do not fit into memory",
    "tensorboard": "leave it out: history.csv holds what its logs held",
    "scaling": "leave it out: several machines always share the batch (strong scaling)",
    "cheap": "leave it out: the paper's two instances are compared",
    "dear": "leave it out: the paper's two instances are compared",
    "num_calibrated": "leave it out: 100 crops set the scales of int8",
    "sweep": "leave it out: the instruction sets are no longer compared",
    "precision": "leave it out: in training it follows from the mode; plan counts repetitions",
    "repeat_disturbed": "leave it out: disturbed runs are kept and marked",
}
THOUSANDS = re.compile(
    r"[1-9]\d{0,2}([.,]\d{3})+"
)  # twenty thousand in Brazil, twenty elsewhere


class ParameterError(DrError):
    """A parameter is unknown or has an invalid value; the message names what to give."""


def list_choices(name: str, declared: Collection[str]) -> tuple[str, ...]:
    """List the values that a parameter may have; empty if any is allowed."""
    for other, choices in CHOICES_BESIDE.items():
        if other in declared and name in choices:
            return choices[name]
    return CHOICES.get(name, ())


def check_value(name: str, kind: str, value: Any, declared: Collection[str] = ()) -> None:
    """Refuse a value of the wrong type, one outside the choices, and a number below the minimum.

    Args:
        name: of the parameter.
        kind: its annotation; of others than KINDS nothing is checked.
        value: what was given.
        declared: the names of all parameters of its notebook.

    Raises:
        ParameterError: the parameter, its value, and what to give, in one sentence.
    """
    if kind not in KINDS:
        return
    types, words = KINDS[kind]
    if not isinstance(value, types) or isinstance(value, bool) != (kind == "bool"):
        raise ParameterError(f"{name} is {value!r}: give {words}")
    if kind in ("int", "float") and name in LEAST and not value >= LEAST[name]:
        raise ParameterError(f"{name} is {value!r}: give {LEAST[name]} or more")
    choices = list_choices(name, declared)
    if kind == "str" and choices and value not in choices:
        raise ParameterError(f"{name} {value!r}: choose from {', '.join(choices)}")


def check_digits(text: str) -> None:
    """Refuse a number that countries read differently, such as 20.000 or 20,000.

    Raises:
        ParameterError: the number, and how to write it.
    """
    if THOUSANDS.fullmatch(text):
        whole = re.sub("[.,]", "", text)
        decimal = f" or {text.replace(',', '.')}0" if len(whole) < 7 else ""
        raise ParameterError(f"{text} can be read in two ways: write {whole}{decimal}")


def check_parameters(cells: Sequence[str], values: Mapping[str, Any]) -> None:
    """Refuse parameters that a notebook does not have, and values that its parameters cannot have.

    papermill assigns all that it is given, in a cell of its own behind the parameters cell.

    Args:
        cells: the code of those that ran, in their order.
        values: of the names that they left.

    Raises:
        ParameterError: see `check_value`; of a name that is none, what there is.
    """
    declared: dict[str, str] = {}
    injected: list[str] = []
    for cell in cells:
        try:
            lines = ast.parse(cell).body
        except SyntaxError:  # IPython's own commands
            continue
        if cell.startswith("# Parameters\n"):
            assigned = [line for line in lines if isinstance(line, ast.Assign)]
            injected = [ast.unparse(line.targets[0]) for line in assigned]
        # a cell of parameters holds nothing else
        elif lines and all(isinstance(line, ast.AnnAssign) and line.value for line in lines):
            declared = {
                ast.unparse(line.target): ast.unparse(line.annotation) for line in lines
            }
            injected = []
    unknown = [name for name in injected if name not in declared]
    if unknown:
        advice = GONE.get(unknown[0]) or f"it has {', '.join(declared)}"
        raise ParameterError(
            f"{', '.join(unknown)}: not a parameter of this notebook, {advice}"
        )
    for name, kind in declared.items():
        if name in values:
            check_value(name, kind, values[name], declared)
