"""Read the parameters of a notebook or a command: their names, kinds and values.

Notebooks of foreign kernels are given parameters too: this file needs Python 3.9, nothing else.
"""

from __future__ import annotations

import ast
import io
import json
import operator
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

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


class Parameter(NamedTuple):
    """What there is to know of a parameter besides its notebook's cell, which declares it.

    Its header in a report is in `report/words.csv`.
    """

    # how rows compare that differ in it: "work" if it is part of what a run did, in which rows that
    # are pooled or compared agree; "plan" if rows of one environment agree in it; "stack" if it is,
    # besides, software in which machines differ; "may differ"; "level" if rows may differ, and are
    # named by it rather than by the columns that follow from it; "" if a row does not have it
    rows: str
    choices: tuple[str, ...] = ()  # its values, if they are few
    above: float | None = None  # this and the three that follow: of numbers
    least: float = 0
    most: float = 2**31 - 1
    below: float | None = None
    words: tuple[str, ...] = ()  # of a path to read: its values that are no path
    is_path: bool = False  # of another path; a row has the last part of a path alone
    older: Any = None  # value of rows older than it
    column: str = ""  # in a row, where its name is the column of what was detected
    # another parameter and the value that it applies to, and its own value elsewhere
    only_with: tuple[str, str, Any] | None = None


SUBJECTS = {  # folders with a module `parameters`, and the notebooks whose own it describes
    "serving": "21 22 23",
    "scenarios": "30 31",
    "mnist": "40 41",
}
PARAMETERS = {  # of the other notebooks, and of several subjects
    "data_dir": Parameter("level", words=("sample",)),  # data_sha256 says which
    "model_dir": Parameter("may differ", words=("",)),  # model_version says which
    "split": Parameter("may differ", is_path=True),  # split_sha256 says which
    "task": Parameter("work", choices=("referable", "grades")),
    "model": Parameter("work"),
    "weights": Parameter("work", words=("none", "imagenet")),
    "mode": Parameter("work", choices=("paper", "plain", "fast")),
    "epochs": Parameter("work", least=1, most=100_000),
    "batch_size": Parameter("work", least=1, most=65536),
    "image_size": Parameter("work", least=1, most=4096),
    "optimizer": Parameter("work", choices=("rmsprop", "adam")),
    "learning_rate": Parameter("work", above=0, most=100),
    "halve_on_plateau": Parameter("work", older=True),
    "rho": Parameter("work", most=1, older=0.9, only_with=("optimizer", "rmsprop", 0.9)),
    "epsilon": Parameter("work", above=0, most=1, older=1e-7),
    "patience": Parameter("work", older=0),
    "min_delta": Parameter("work", most=1, older=0.0),
    "augmentation": Parameter("work", choices=("none", "flip", "colour")),
    "recipe": Parameter("level", choices=("full", "few")),  # its parts have columns
    "weigh_grades": Parameter("work", only_with=("task", "grades", False)),
    "keep_best": Parameter("work", older=False),
    "data_share": Parameter("work", above=0, most=1),
    "accelerator": Parameter("may differ", choices=("auto", "cpu", "gpu", "tpu")),
    "backend": Parameter("plan", choices=("auto", "tensorflow", "jax")),
    "input": Parameter("stack", choices=("auto", "memory", "stream")),
    "matmul_precision": Parameter(
        "plan",
        choices=("default", "float32", "tf32", "bfloat16", "bfloat16_3x"),
        older="default",
        column="matmul_precision_requested",
    ),
    "num_devices": Parameter("level"),  # num_replicas says how many
    "seed": Parameter("may differ"),
    "repetition": Parameter("may differ"),
    "label": Parameter("level", older=""),  # names an arm: a null control has two
    "instance": Parameter(""),  # priced_as
    "results": Parameter(""),
    "max_hours": Parameter("", most=8760),
    "lang": Parameter("", choices=("en", "pt")),
    "method": Parameter("", choices=("robust", "voets")),
    "scheme": Parameter("", choices=("random", "paper", "official")),
}


class ParameterError(DrError):
    """A parameter is unknown or has an invalid value; the message names what to give."""


def find_entries(notebook: str = "") -> dict[str, Parameter]:
    """Find the entries of a notebook's parameters, a subject's own among them, or of those that
    have no notebook.
    """
    entries = dict(PARAMETERS)
    for subject, notebooks in SUBJECTS.items():
        if notebook[:2] in notebooks.split():
            entries.update(read_table(subject))
    return entries


def read_table(subject: str) -> dict[str, Parameter]:
    """Read the table of a subject's parameters."""
    return import_module(f"dr_lib.{subject}.parameters").PARAMETERS


def find_columns(rows: str) -> dict[str, Any]:
    """Find the columns of parameters by how rows compare that differ in them, and for each the
    value of older rows, if there is one.
    """
    tables = [PARAMETERS, *map(read_table, SUBJECTS)]
    return {
        entry.column or name: entry.older
        for table in tables
        for name, entry in table.items()
        if entry.rows == rows
    }


def find_inputs(values: Mapping[str, Any], notebook: str = "") -> list[str]:
    """Find the parameters that name a folder or a file to read."""
    entries = find_entries(notebook)
    words = {name: entry.words for name, entry in entries.items() if entry.words}
    return [name for name in values if name in words and values[name] not in words[name]]


def describe(values: Mapping[str, Any], notebook: str = "") -> dict[str, Any]:
    """Describe a run's parameters as its row does: by column, and without a folder's path."""
    entries = find_entries(notebook)
    row = {}
    for name, value in values.items():
        entry = entries.get(name, Parameter("work"))
        is_path = entry.is_path or entry.words
        if entry.rows:
            row[entry.column or name] = Path(value).name if is_path else value
    return row


def read_value(name: str, kind: str, value: Any, notebook: str = "") -> Any:
    """Read a value as its parameter's kind has it, and refuse what can mean none.

    A number may be a text that YAML 1.2 reads as one, and a whole number a text. In a text that is
    a path, ~ and $HOME are the home directory.

    Args:
        name: of the parameter.
        kind: its annotation; values of others than KINDS stay as they are.
        value: what was given.
        notebook: its name, where it is known.

    Raises:
        ParameterError: the parameter, its value, and what to give, in one sentence.
    """
    if kind not in KINDS:
        return value
    fault = f"{name} is {'empty' if value is None else repr(value)}"
    advice = f": give {KINDS[kind]}"
    if kind == "bool":
        if isinstance(value, (bool, str)) and str(value).lower() in BOOLS:
            return BOOLS[str(value).lower()]
        raise ParameterError(fault + advice)
    entry = find_entries(notebook).get(name, Parameter(""))
    if kind == "str":
        # papermill's -p results 2026
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise ParameterError(f"{fault}{advice}, in quotes or with papermill's -r")
        if entry.choices and value not in entry.choices:
            raise ParameterError(f"{name} {value!r}: choose from {', '.join(entry.choices)}")
        return expand_home(value)

    # of numbers with a point only texts are whole ones: 20.000 may have been twenty thousand
    number = value
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
        raise ParameterError(fault + advice)
    limits = [
        (operator.gt, entry.above, "more than {}"),
        (operator.ge, entry.least, "{} or more"),
        (operator.le, entry.most, "{} or less"),
        (operator.lt, entry.below, "less than {}"),
    ]
    for holds, limit, words in limits:
        if limit is not None and not holds(number, limit):
            raise ParameterError(f"{name} is {value}: give {words.format(limit)}")
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
    for name, entry in PARAMETERS.items():
        other, value, default = entry.only_with or ("", None, None)
        if values.get(name, default) != default and values.get(other, value) != value:
            fault = f"{name}: does not apply to {other} {values[other]}"
            raise ParameterError(f"{fault}: leave it out")
    is_few = values.get("recipe") == "few"
    augmentation = values.get("augmentation", "flip")
    is_stored = values.get("input") == "memory"
    is_small = str(values.get("model")).lower() == "small_cnn"
    image_size = values.get("image_size", 32)
    refusals = {
        "min_delta: does not apply without patience: leave it out": (
            values.get("min_delta") and not values.get("patience")
        ),
        "recipe few learns from each photograph and its mirror image, which is not"
        f" augmentation {augmentation}: leave it out": is_few and augmentation != "flip",
        "mode plain trains a whole network, and decodes in each epoch: use recipe full and input"
        " auto, or mode paper": (values.get("mode") == "plain" and (is_few or is_stored)),
        "small_cnn has no ImageNet weights: use weights none, or mobilenet": (
            is_small and values.get("weights") == "imagenet"
        ),
        f"image_size {image_size}: small_cnn needs 32 px or more": is_small and image_size < 32,
        "recipe few keeps blocks as their weights are, and weights none are random: give"
        " imagenet or the path of a weights file": is_few and values.get("weights") == "none",
    }
    for refusal, applies in refusals.items():
        if applies:
            raise ParameterError(refusal)


def check_digits(text: str) -> None:
    """Refuse a number that countries read differently, such as 20.000 or 20,000.

    Raises:
        ParameterError: the number, and how to write it.
    """
    if re.fullmatch(r"[1-9]\d{0,2}([.,]\d{3})+", text):
        whole = re.sub("[.,]", "", text)
        decimal = f" or {text.replace(',', '.')}0" if len(whole) < 7 else ""
        raise ParameterError(f"{text} can be read in two ways: write {whole}{decimal}")


def read_parameters(
    cells: Sequence[str], values: Mapping[str, Any], notebook: str = ""
) -> dict[str, Any]:
    """Read a notebook's parameters; refuse names that it does not have, and impossible values.

    papermill assigns all that it is given, in a cell of its own behind the parameters cell.

    Args:
        cells: the code of those that ran, in their order.
        values: of the names that they left.
        notebook: its name, where it is known.

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
        name: read_value(name, kind, values[name], notebook)
        for name, kind in declared.items()
        if name in values
    }


def read_notebook(path: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """Read the parameters that a notebook's cell declares, see `read_parameters`.

    Args:
        path: of the notebook.
        values: by their names, among others.
    """
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    tagged = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    return read_parameters(["".join(cell["source"]) for cell in tagged], values, path.stem)


def join_paths(paths: Sequence[Path | str]) -> str:
    """Join paths into one parameter, with commas between them and quotes around one with a
    comma.
    """
    import csv

    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(paths)
    return text.getvalue()


def split_paths(text: str) -> list[str]:
    """Split a parameter that `join_paths` wrote into paths."""
    import csv

    (names,) = csv.reader([text], skipinitialspace=True)
    return [name.strip() for name in names if name.strip()]
