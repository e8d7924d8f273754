"""A parameter that a notebook does not have, or a value that it cannot have, is one sentence."""

import ast
import re
from pathlib import Path

import papermill
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.parameters import (
    INPUTS,
    ParameterError,
    check_digits,
    check_parameters,
    list_choices,
)
from dr_lib.runs.row import write_row
from tests.evidence.real_rows import copy_row

ROOT = Path(__file__).resolve().parents[1]
CELL = """epochs: int = 20  # passes
learning_rate: float = 0.1  # rate
keep: bool = False  # it
optimizer: str = "adam"  # how"""
VALUES = {"epochs": 20, "learning_rate": 1, "keep": False, "optimizer": "adam"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"epoch": 2},
            "epoch: not a parameter of this notebook, it has epochs, learning_rate, keep, "
            "optimizer",
        ),
        (
            {"ema_momentum": 0.9},
            "ema_momentum: not a parameter of this notebook, leave it out: the weights are no "
            "longer"
            " averaged",
        ),
        ({"epochs": 2.5}, "epochs is 2.5: give a whole number"),
        ({"epochs": True}, "epochs is True: give a whole number"),
        ({"epochs": "many"}, "epochs is 'many': give a whole number"),
        ({"epochs": 0}, "epochs is 0: give 1 or more"),
        ({"learning_rate": -0.1}, "learning_rate is -0.1: give 0 or more"),
        ({"learning_rate": float("nan")}, "learning_rate is nan: give 0 or more"),
        ({"optimizer": "adma"}, "optimizer 'adma': choose from rmsprop, adam"),
        ({"keep": "perhaps"}, "keep is 'perhaps': give true or false"),
    ],
)
def test_a_parameter_that_cannot_be_is_named(given, message):
    """papermill assigns whatever it is given, in a cell of its own behind the notebook's."""
    lines = [f"{name} = {value!r}" for name, value in given.items()]
    injected = "\n".join(["# Parameters", *lines])
    with pytest.raises(ParameterError, match=f"^{message}$"):
        check_parameters(["", "%pwd", CELL, injected, "import sys"], VALUES | given)


def test_what_was_given_counts_until_the_parameters_run_again():
    """In a kernel that stays, the next run of the notebook is given nothing of the last one."""
    check_parameters(["", CELL, "# Parameters\nepoch = 2\n", CELL, "x = 1"], VALUES)
    check_parameters(["", CELL, "# Parameters\nepochs = 2\n"], VALUES | {"epochs": 2})
    check_parameters(["", "x = 1"], {"x": 1})


def test_a_cell_of_ones_own_with_a_type_declares_no_parameter():
    """Whoever works in the notebook and runs its set-up again is told nothing of names of their
    own.
    """
    own = ["y: int", "class A:\n    x: int = 3", "z: int = 1\nprint(z)"]
    check_parameters(["", CELL, *own], VALUES)
    with pytest.raises(
        ParameterError, match="^epoch: not a parameter of this notebook, it has epochs,"
    ):
        check_parameters(["", CELL, "# Parameters\nepoch = 2\n", *own], VALUES)
    check_parameters(["", "gone: int = 1"], {})


def list_words(comment: str) -> set[str]:
    """The values in a comment that only lists them: none, flip (left-right) or colour; ..."""
    items = re.split(r",? or |, ", re.sub(r" \([^)]*\)", "", comment).split(";")[0])
    is_list = len(items) > 1 and all(re.fullmatch(r"\w+", item) for item in items)
    return set(items) if is_list else set()


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("notebooks/*.ipynb")), ids=lambda path: path.stem
)
def test_the_tables_of_parameters_and_the_notebooks_say_the_same(path):
    """What a comment lists can be chosen and nothing else; a path is known as one."""
    declared = papermill.inspect_notebook(str(path))
    for name, parameter in declared.items():
        words = list_words(parameter["help"])
        choices = set(list_choices(name, declared))
        if parameter["inferred_type_name"] == "str":
            named = set(re.findall(r"\w+", parameter["help"]))
            assert words == choices or (not words and choices <= named), name
        is_input = name.endswith("_dir") or ("path of" in parameter["help"] and name != "split")
        assert is_input == (name in INPUTS), name
        if is_input:
            assert ast.literal_eval(parameter["default"]) in INPUTS[name]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("20.000", "20.000 can be read in two ways: write 20000 or 20.0000"),
        ("20,000", "20,000 can be read in two ways: write 20000 or 20.0000"),
        ("1.000.000", "1.000.000 can be read in two ways: write 1000000"),
    ],
)
def test_a_number_of_two_countries_is_asked_about(tmp_path, text, message):
    """Twenty thousand in Brazil is twenty elsewhere, in options and in parameters of a report."""
    write_row(tmp_path, copy_row("22", "litert_int8", study="mine"))
    for command in (
        ["price", str(tmp_path), "--p99-ms", "300", "--requests-per-day", text],
        ["price", str(tmp_path), "--p99-ms", text, "--requests-per-day", "300"],
        [
            "load",
            "http://127.0.0.1:9",
            "--images",
            str(tmp_path),
            "--out",
            "x",
            "--gap",
            text,
        ],
        ["run", "papermill_runs/demo.yaml", "--max-hours", text],
        ["report", str(tmp_path), "-p", "requests_per_day", text],
    ):
        said = CliRunner().invoke(main, command)
        assert said.exit_code and said.output.rstrip().endswith(message), said.output


@pytest.mark.parametrize(
    "text", ["20000", "20.5", "0.125", "0,125", "1.0000", "1e3", "2026.11"]
)
def test_other_numbers_are_read_as_they_are(text):
    """A share never begins with thousands, and no one groups four digits."""
    check_digits(text)
