"""Read the parameters of a notebook or a command: their names, kinds and values.

Notebooks of foreign kernels are given parameters too: this file needs Python 3.9, nothing else.
"""

from __future__ import annotations

import ast
import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from dr_lib.errors import DrError
from dr_lib.files import expand_home

KINDS = {  # of parameters, by their annotation, in words
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
}
BOOLS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
NUMBER = re.compile(  # as the core schema of YAML 1.2 has them, but for infinity and NaN
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)(e[-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-f]+", re.IGNORECASE
)
BOUNDS = {  # the least and the most that make sense, in whatever notebook
    "batch_size": (1, 65536),
    "data_share": (0, 1),
    "epochs": (1, 100_000),
    "image_size": (1, 4096),
    "learning_rate": (0, 100),
    "max_hours": (0, 8760),
    "min_delta": (0, 1),
    "network": (1, 2),
    "num_machines": (1, 1024),
    "num_requests": (1, 1_000_000),
    "rho": (0, 1),
    "target_auc": (0, 1),
}
ANY = (0, 2**31 - 1)  # of other numbers
# of them those whose least is itself too little
POSITIVE = ("bound_ms", "data_share", "epsilon", "learning_rate", "sample_s")
CHOICES = {  # of the texts that are one of a few, in whatever notebook
    "task": ("referable", "grades"),
    "mode": ("paper", "plain", "fast", "scaled"),
    "recipe": ("full", "few", "upper"),
    "optimizer": ("rmsprop", "adam"),
    "augmentation": ("none", "flip", "colour"),
    "accelerator": ("auto", "cpu", "gpu", "tpu"),
    "backend": ("auto", "tensorflow", "jax"),
    "input": ("auto", "memory", "stream"),
    "matmul_precision": ("default", "float32", "tf32", "bfloat16", "bfloat16_3x"),
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
# columns of parameters whose own name is the column of what was detected
REQUESTED = {"matmul_precision": "matmul_precision_requested"}
ONLY_WITH = {  # parameters of one value of another alone, and their values elsewhere
    "recipe": ("task", "referable", "full"),
    "weigh_grades": ("task", "grades", False),
    "rho": ("optimizer", "rmsprop", 0.9),
}
INPUTS = {  # parameters that name a folder or a file to read: their values that are words
    "data_dir": ("sample",),
    "model_dir": ("",),
    "masks_dir": ("",),
    "served_dir": ("",),
    "weights": ("none", "imagenet"),
    "data_source": ("keras", "synthetic"),
    "mnist": ("keras", "synthetic"),
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


def read_value(name: str, kind: str, value: Any, declared: Collection[str] = ()) -> Any:
    """Read a value as its parameter's kind has it, and refuse what can mean none.

    A number may be a text that YAML 1.2 reads as one, and a whole number a text. In a text that is
    a path, ~ and $HOME are the home directory.

    Args:
        name: of the parameter.
        kind: its annotation; values of others than KINDS stay as they are.
        value: what was given.
        declared: the names of all parameters of its notebook.

    Raises:
        ParameterError: the parameter, its value, and what to give, in one sentence.
    """
    if kind not in KINDS:
        return value
    fault = f"{name} is {'empty' if value is None else repr(value)}"
    if kind == "bool":
        if isinstance(value, (bool, str)) and str(value).lower() in BOOLS:
            return BOOLS[str(value).lower()]
        raise ParameterError(f"{fault}: give {KINDS[kind]}")
    if kind != "str":
        return _read_number(name, fault, kind, value)

    if isinstance(value, int) and not isinstance(value, bool):  # papermill's -p results 2026
        value = str(value)
    if not isinstance(value, str):
        raise ParameterError(f"{fault}: give {KINDS[kind]}, in quotes or with papermill's -r")
    choices = list_choices(name, declared)
    if choices and value not in choices:
        raise ParameterError(f"{name} {value!r}: choose from {', '.join(choices)}")
    return expand_home(value)


def _read_number(name: str, fault: str, kind: str, value: Any) -> float:
    """Read a number, or a text that is one; of numbers with a point only texts are whole ones,
    because 20.000 may have been twenty thousand.
    """
    number = value
    advice = f": give {KINDS[kind]}"
    if isinstance(value, str):
        check_digits(value)
        number = parse_number(value)
        hours = re.fullmatch(r"(\d+):([0-5]\d)", value)
        if kind == "int" and isinstance(number, float) and number.is_integer():
            number = int(number)
        elif kind == "float" and re.fullmatch(r"[-+]?\d*,\d+", value):
            advice = f", with a decimal comma: write {value.replace(',', '.')}"
        elif kind == "float" and hours:
            advice = f", no number: write {int(hours[1]) + int(hours[2]) / 60:.5g}"
    types = int if kind == "int" else (int, float)
    if isinstance(number, bool) or not isinstance(number, types):
        raise ParameterError(f"{fault}{advice}")

    least, most = BOUNDS.get(name, ANY)
    if not number >= least or (number == least and name in POSITIVE):
        words = f"more than {least}" if name in POSITIVE else f"{least} or more"
        raise ParameterError(f"{name} is {value}: give {words}")
    if number > most:
        raise ParameterError(f"{name} is {value}: give {most} or less")
    return number if kind == "int" else float(number)


def parse_number(text: str) -> float | None:
    """Read a number as the core schema of YAML 1.2 does; None for another text."""
    if not NUMBER.fullmatch(text):
        return None
    try:
        return int(text, 0 if text[1:2] in tuple("oxX") else 10)
    except ValueError:
        return float(text)


def check_together(values: Mapping[str, Any]) -> None:
    """Refuse values that exclude each other, in whatever notebook.

    Args:
        values: of the parameters; those that a notebook does not have are missing.

    Raises:
        ParameterError: which ones, and what to change.
    """
    for name, (other, value, default) in ONLY_WITH.items():
        if values.get(name, default) != default and values.get(other, value) != value:
            fault = f"{name}: does not apply to {other} {values[other]}"
            raise ParameterError(f"{fault}: leave it out")
    if values.get("min_delta") and not values.get("patience"):
        raise ParameterError("min_delta: does not apply without patience: leave it out")
    recipe = values.get("recipe", "full")
    model = str(values.get("model")).lower()
    if recipe != "full" and model != "mobilenet":
        fault = f"recipe {recipe} names layers of mobilenet"
        raise ParameterError(f"{fault}: use that model, or recipe full")
    if recipe != "full" and values.get("num_machines", 1) > 1:
        fault = f"recipe {recipe} caches features on one machine"
        raise ParameterError(f"{fault}: use recipe full, or num_machines 1")
    if values.get("mode") == "plain":
        can_decode = values.get("input") != "memory"
        if recipe != "full" or values.get("num_machines", 1) > 1 or not can_decode:
            fault = (
                "mode plain trains a whole network on one machine, and decodes in each epoch"
            )
            advice = "use recipe full, num_machines 1 and input auto, or mode paper"
            raise ParameterError(f"{fault}: {advice}")
    if model == "small_cnn" and values.get("weights") == "imagenet":
        raise ParameterError(
            "small_cnn has no ImageNet weights: use weights none, or mobilenet"
        )
    if model == "small_cnn" and values["image_size"] < 32:
        fault = f"image_size {values['image_size']}"
        raise ParameterError(f"{fault}: small_cnn needs 32 px or more")


def check_digits(text: str) -> None:
    """Refuse a number that countries read differently, such as 20.000 or 20,000.

    Raises:
        ParameterError: the number, and how to write it.
    """
    if THOUSANDS.fullmatch(text):
        whole = re.sub("[.,]", "", text)
        decimal = f" or {text.replace(',', '.')}0" if len(whole) < 7 else ""
        raise ParameterError(f"{text} can be read in two ways: write {whole}{decimal}")


def read_parameters(cells: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Read a notebook's parameters; refuse names that it does not have, and impossible values.

    papermill assigns all that it is given, in a cell of its own behind the parameters cell.

    Args:
        cells: the code of those that ran, in their order.
        values: of the names that they left.

    Returns:
        The value of each parameter, see `read_value`.

    Raises:
        ParameterError: see `read_value`; of a name that is none, what there is.
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
        fault = f"{', '.join(unknown)}: not a parameter of this notebook"
        raise ParameterError(f"{fault}, it has {', '.join(declared)}")
    return {
        name: read_value(name, kind, values[name], declared)
        for name, kind in declared.items()
        if name in values
    }


def join_paths(paths: Sequence[Path | str]) -> str:
    """Join paths into one parameter, with commas between them and quotes around one with a
    comma.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(paths)
    return text.getvalue()


def split_paths(text: str) -> list[str]:
    """Split a parameter that `join_paths` wrote into paths."""
    (names,) = csv.reader([text], skipinitialspace=True)
    return [name.strip() for name in names if name.strip()]
