"""A parameter that a notebook does not have, or a value that it cannot have, is one sentence."""

import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.parameters import ParameterError, check_digits, check_parameters
from dr_lib.runs.row import write_row
from tests.evidence.real_rows import copy_row

CELL = "epochs: int = 20  # passes\nlearning_rate: float = 0.1  # rate\nkeep: bool = False  # it"
VALUES = {"epochs": 20, "learning_rate": 1, "keep": False}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epoch": 2}, "epoch: no parameter of this notebook, it has epochs, learning_rate, keep"),
        (
            {"ema_momentum": 0.9},
            "ema_momentum: no parameter of this notebook, leave it out: the weights are no longer"
            " averaged",
        ),
        ({"epochs": 2.5}, "epochs is 2.5: give a whole number"),
        ({"epochs": True}, "epochs is True: give a whole number"),
        ({"epochs": "many"}, "epochs is 'many': give a whole number"),
        ({"epochs": 0}, "epochs is 0: give 1 or more"),
        ({"learning_rate": -0.1}, "learning_rate is -0.1: give 0 or more"),
        ({"learning_rate": float("nan")}, "learning_rate is nan: give 0 or more"),
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
        ParameterError, match="^epoch: no parameter of this notebook, it has epochs,"
    ):
        check_parameters(["", CELL, "# Parameters\nepoch = 2\n", *own], VALUES)
    check_parameters(["", "gone: int = 1"], {})


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
        ["load", "http://127.0.0.1:9", "--images", str(tmp_path), "--out", "x", "--bound-ms", text],
        ["run", "papermill_runs/demo.yaml", "--max-hours", text],
        ["report", str(tmp_path), "-p", "requests_per_day", text, "--paper", "B"],
    ):
        said = CliRunner().invoke(main, command)
        assert said.exit_code and said.output.rstrip().endswith(message), said.output


@pytest.mark.parametrize("text", ["20000", "20.5", "0.125", "0,125", "1.0000", "1e3", "2026.11"])
def test_other_numbers_are_read_as_they_are(text):
    """A share never begins with thousands, and no one groups four digits."""
    check_digits(text)
