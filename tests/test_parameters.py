"""A parameter that a notebook does not have, or a value that it cannot have, is one sentence."""

import ast
import json
import re
from pathlib import Path

import papermill
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.parameters import (
    PARAMETERS,
    SUBJECTS,
    Parameter,
    ParameterError,
    check_digits,
    find_entries,
    read_parameters,
    read_table,
    read_value,
)
from dr_lib.runs.row import write_row
from tests.report.real_rows import copy_row

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "tests/report/rows.jsonl"
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
RUNS = [path for path in NOTEBOOKS if "repetition: int" in path.read_text()]
ANY = Parameter("")
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
            "epoch: not a parameter .*, it has epochs, learning_rate, keep, optimizer",
        ),
        ({"epochs": 2.5}, "epochs is 2.5: give a whole number"),
        ({"epochs": True}, "epochs is True: give a whole number"),
        ({"epochs": "many"}, "epochs is 'many': give a whole number"),
        ({"epochs": 0}, "epochs is 0: give 1 or more"),
        ({"learning_rate": -0.1}, "learning_rate is -0.1: give more than 0"),
        ({"learning_rate": 0}, "learning_rate is 0: give more than 0"),
        ({"learning_rate": 1e9}, "learning_rate is 1000000000.0: give 100 or less"),
        ({"learning_rate": float("nan")}, "learning_rate is nan: give more than 0"),
        ({"learning_rate": "0,001"}, ".*, with a decimal comma: write 0.001"),
        ({"learning_rate": "8:30"}, "learning_rate is '8:30', no number: write 8.5"),
        ({"learning_rate": True}, "learning_rate is True: give a number"),
        ({"optimizer": 1.5}, "optimizer is 1.5: give a text, in quotes or with papermill's -r"),
        ({"keep": 1}, "keep is 1: give true or false"),
        ({"optimizer": "adma"}, "optimizer 'adma': choose from rmsprop, adam"),
        ({"keep": "perhaps"}, "keep is 'perhaps': give true or false"),
    ],
)
def test_a_parameter_that_cannot_be_is_named(given, message):
    """papermill assigns whatever it is given, in a cell of its own behind the notebook's."""
    lines = [f"{name} = {value!r}" for name, value in given.items()]
    injected = "\n".join(["# Parameters", *lines])
    with pytest.raises(ParameterError, match=f"^{message}$"):
        read_parameters(["", "%pwd", CELL, injected, "import sys"], VALUES | given)


@pytest.mark.parametrize(
    ("kind", "given", "meant"),
    [
        ("float", "1e-3", 0.001),
        ("float", "+3", 3.0),
        ("float", ".5", 0.5),
        ("float", "5.", 5.0),
        ("int", "2e1", 20),
        ("int", "010", 10),
        ("int", "0o10", 8),
        ("int", "0x1F", 31),
        ("int", "2147483647", 2**31 - 1),
        ("bool", "true", True),
        ("bool", "No", False),
        ("str", 2026, "2026"),
        ("str", "2026-11-25", "2026-11-25"),
        ("int", "1_000", None),
        ("int", "", None),
        ("int", 20.0, None),  # as papermill passes 20.000
        ("int", "20.000", None),
        ("float", ".inf", None),
        ("float", float("inf"), None),
        ("float", "1e999", None),
        ("float", "1,5e3", None),
        ("float", "٣", None),
        ("float", None, None),
        ("str", None, None),
        ("str", True, None),
        ("str", ["a"], None),
    ],
)
def test_a_value_is_read_as_its_parameter_has_it(kind, given, meant):
    """Numbers are those of YAML 1.2, chapter 10.3.2; the expected values are its meanings."""
    if meant is None:
        with pytest.raises(ParameterError, match="x is .*: (give|write)|read in two ways"):
            read_value("x", kind, given)
    else:
        value = read_value("x", kind, given)
        assert (value, type(value)) == (meant, type(meant))


def test_the_notebook_has_what_was_meant(tmp_path):
    """A path in the home directory, a text that papermill took for a number."""
    cell = 'results: str = ""  # where\nrate: float = 0.1  # rate'
    values = {"results": "$HOME/dr", "rate": 1}
    read = read_parameters(["", cell], values)
    assert read == {"results": str(Path.home() / "dr"), "rate": 1.0}
    assert type(read["rate"]) is float


def test_what_was_given_counts_until_the_parameters_run_again():
    """In a kernel that stays, the next run of the notebook is given nothing of the last one."""
    read_parameters(["", CELL, "# Parameters\nepoch = 2\n", CELL, "x = 1"], VALUES)
    read_parameters(["", CELL, "# Parameters\nepochs = 2\n"], VALUES | {"epochs": 2})
    read_parameters(["", "x = 1"], {"x": 1})


def test_a_cell_of_ones_own_with_a_type_declares_no_parameter():
    """Whoever works in the notebook and runs its set-up again is told nothing of names of their
    own.
    """
    own = ["y: int", "class A:\n    x: int = 3", "z: int = 1\nprint(z)"]
    read_parameters(["", CELL, *own], VALUES)
    with pytest.raises(
        ParameterError, match="^epoch: not a parameter of this notebook, it has epochs,"
    ):
        read_parameters(["", CELL, "# Parameters\nepoch = 2\n", *own], VALUES)
    read_parameters(["", "gone: int = 1"], {})


def list_words(comment: str) -> set[str]:
    """The values in a comment that only lists them: none, flip (left-right) or colour; ..."""
    items = re.split(r",? or |, ", re.sub(r" \([^)]*\)", "", comment).split(";")[0])
    is_list = len(items) > 1 and all(re.fullmatch(r"\w+", item) for item in items)
    return set(items) if is_list else set()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_tables_of_parameters_and_the_notebooks_say_the_same(path):
    """What a comment lists can be chosen and nothing else; a path is known as one."""
    declared = papermill.inspect_notebook(str(path))
    entries = find_entries(path.stem)
    for name, parameter in declared.items():
        entry = entries.get(name, ANY)
        words = list_words(parameter["help"])
        choices = set(entry.choices)
        if parameter["inferred_type_name"] == "str":
            named = set(re.findall(r"\w+", parameter["help"]))
            assert words == choices or (not words and choices <= named), name
        is_input = name.endswith("_dir") or ("path of" in parameter["help"] and name != "split")
        assert is_input == bool(entry.words), name
        if is_input:
            assert ast.literal_eval(parameter["default"]) in entry.words


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_every_parameter_of_a_run_has_an_entry(path):
    """Which says how rows that differ in it compare, the greatest of a number with a point, and
    the value of rows that are older than it, as those of November 2026 are.
    """
    entries = find_entries(path.stem)
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    rows = [row for row in rows if row["notebook"] == path.stem]
    for name, parameter in papermill.inspect_notebook(str(path)).items():
        place = f"{name}: dr_lib/parameters.py, or the parameters.py of the notebook's subject"
        assert name in entries, f"{place}, needs an entry"
        entry = entries[name]
        kinds = ("work", "plan", "stack", "level", "may differ", "")
        assert entry.rows in kinds, f"{place}, says rows {entry.rows!r}"
        if parameter["inferred_type_name"] == "float":
            is_bounded = entry.below or entry.most < ANY.most
            assert is_bounded, f"{place}, needs most or below: the greatest that makes sense"
        is_compared = entry.rows in ("work", "plan", "stack")
        for row in rows if is_compared and entry.older is None else []:
            assert (entry.column or name) in row, f"{place}, needs older: what older rows did"


def test_subjects_that_share_a_column_compare_it_alike():
    """What the column says does not depend on the notebook."""
    tables = [PARAMETERS, *map(read_table, SUBJECTS)]
    alike: dict[str, tuple] = {}
    for name, entry in [item for table in tables for item in table.items() if item[1].rows]:
        about = (entry.rows, entry.older)
        assert alike.setdefault(entry.column or name, about) == about, name


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("20.000", "20000 or 20.0000"),
        ("20,000", "20000 or 20.0000"),
        ("1.000.000", "1000000"),
    ],
)
def test_a_number_of_two_countries_is_asked_about(tmp_path, text, advice):
    """Twenty thousand in Brazil is twenty elsewhere, in options and in parameters of a report."""
    write_row(tmp_path, copy_row("22", "litert_int8", study="mine"))
    for command in (
        f"price {tmp_path} --p99-ms 300 --requests-per-day",
        f"price {tmp_path} --requests-per-day 300 --p99-ms",
        f"load http://127.0.0.1:9 --images {tmp_path} --out x --gap",
        "run papermill_runs/demo.yaml --max-hours",
        f"report {tmp_path} -p requests_per_day",
    ):
        said = CliRunner().invoke(main, [*command.split(), text])
        message = f"{text} can be read in two ways: write {advice}"
        assert said.exit_code and said.output.rstrip().endswith(message), said.output


def test_an_option_is_read_as_a_parameter_is():
    """With the same advice."""
    said = CliRunner().invoke(main, ["run", "papermill_runs/demo.yaml", "--max-hours", "0,5"])
    message = "max_hours is '0,5', with a decimal comma: write 0.5"
    assert said.exit_code == 2 and said.output.rstrip().endswith(message)


@pytest.mark.parametrize(
    "text", ["20000", "20.5", "0.125", "0,125", "1.0000", "1e3", "2026.11"]
)
def test_other_numbers_are_read_as_they_are(text):
    """A share never begins with thousands, and no one groups four digits."""
    check_digits(text)
