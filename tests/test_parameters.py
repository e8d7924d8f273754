"""A parameter that a notebook does not have, or a value that it cannot have, is one sentence: the
same in a notebook, a study and a report.
"""

import ast
import re
from pathlib import Path
from typing import Literal, get_args, get_origin

import numpy as np
import papermill
import pytest
from click.testing import CliRunner
from papermill.cli import _resolve_type
from papermill.translators import PythonTranslator

from dr_lib.__main__ import main
from dr_lib.errors import DrError
from dr_lib.evaluation.parameters import Evaluate
from dr_lib.parameters import (
    NOTEBOOKS,
    Input,
    ParameterError,
    Parameters,
    RunParameters,
    find_model,
    read_parameters,
)
from dr_lib.report.parameters import CompareMachines
from dr_lib.runs import schema
from dr_lib.runs.row import write_row
from dr_lib.runs.study import load_study, read_defaults
from dr_lib.training.parameters import Train
from tests.conftest import ROOT
from tests.report.real_rows import copy_row

NOTEBOOK_FILES = sorted(ROOT.glob("notebooks/*.ipynb"))
DEFAULTS = read_defaults(ROOT / "notebooks" / "10_train.ipynb")
# what changes neither work nor stack, or is told by other columns: hashes, kinds, devices
NEITHER = {
    *"repetition seed accelerator accelerator_asked device num_devices data_dir split".split(),
    *"data_source mnist photographs model_dir served_dir force num_rounds sample_s".split(),
    *"bound_ms load_seconds num_compared num_requests".split(),
}
CELL = "\n".join(f"{name}: {type(value).__name__} = ..." for name, value in DEFAULTS.items())


def read_injected(given: dict) -> Parameters:
    """What notebook 10 makes of values behind its parameters cell, as papermill writes them."""
    injected = f"# Parameters\n{PythonTranslator.codify(given)}"
    values = dict(DEFAULTS)
    exec(injected, values)
    return read_parameters("10_train", ["", "%pwd", CELL, injected, "import sys"], values)


def read_study(folder: Path, text: str) -> dict:
    """What a study of notebook 10 makes of a parameter's line."""
    path = folder / "trial.yaml"
    path.write_text(f"notebook: 10_train\nrepetitions: 1\nparameters:\n  {text}\n")
    return load_study(path, ROOT).parameters


@pytest.mark.parametrize(
    ("name", "written", "meant"),
    [
        ("epochs", "010", 10),
        ("learning_rate", "1e-3", 0.001),
        ("learning_rate", "3", 3.0),
        ("learning_rate", "20.000", 20.0),
        ("label", "1:10", "1:10"),
    ],
)
def test_a_value_means_the_same_in_a_notebook_and_a_study(tmp_path, name, written, meant):
    """Written behind papermill's -p, and in a study file."""
    read = getattr(read_injected({name: _resolve_type(written)}), name)
    planned = read_study(tmp_path, f"{name}: {written}")[name]
    assert (read, type(read)) == (planned, type(planned)) == (meant, type(meant))


@pytest.mark.parametrize(
    ("name", "written", "sentence"),
    [
        ("epochs", "1:10", "is '1:10': it should be a valid integer"),
        ("epochs", "20.000", "is 20.0: it should be a valid integer"),
        ("epochs", "0", "is 0: it should be greater than or equal to 1"),
        ("epochs", "100001", "is 100001: it should be less than or equal to 100000"),
        ("learning_rate", "0,001", "is '0,001': it should be a valid number"),
        ("learning_rate", "1e999", "is inf: it should be a finite number"),
        ("learning_rate", "0", "is 0: it should be greater than 0"),
        ("label", "2026", "is 2026: it should be a valid string"),
        ("optimizer", "adma", "is 'adma': it should be 'rmsprop', 'rmsprop_voets' or 'adam'"),
        ("epoch", "2", ": unknown, choose from "),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(tmp_path, name, written, sentence):
    """The same in both, where a study's names the line, too."""
    message = f"{name}.?{re.escape(sentence)}"
    with pytest.raises(ParameterError, match=f"^{message}"):
        read_injected({name: _resolve_type(written)})
    with pytest.raises(DrError, match=f"trial.yaml, line 4: {message}"):
        read_study(tmp_path, f"{name}: {written}")


def test_a_study_is_yaml_1_2(tmp_path):
    """Quotes make a text; the rarer numbers are those of the standard, 10.3.2."""
    assert read_study(tmp_path, 'label: "2026"') == {"label": "2026"}
    assert read_study(tmp_path, "epochs: 0x1F") == {"epochs": 31}
    for line in (
        'epochs: "2026"',
        "learning_rate: .inf",
        "learning_rate:",
        "label: 2026-11-25",
    ):
        with pytest.raises(DrError, match=f"line 4: {line.partition(':')[0]} is "):
            read_study(tmp_path, line)


def test_a_notebooks_cell_may_compute_a_value():
    """What NumPy made counts where it is a Python number, too."""
    given = {"learning_rate": np.float64(0.5), "data_dir": Path("a")}
    read = read_parameters("10_train", [CELL], DEFAULTS | given)
    assert (read.learning_rate, type(read.learning_rate), read.data_dir) == (0.5, float, "a")
    for wrong in ({"epochs": np.int64(3)}, {"learning_rate": None}):
        with pytest.raises(ParameterError):
            read_parameters("10_train", [CELL], DEFAULTS | wrong)


def test_a_path_may_begin_at_home(tmp_path):
    """In a notebook and in a study; a row has its last part."""
    read = read_injected({"results": "$HOME/dr", "data_dir": "~/eyes"})
    assert (read.results, read.data_dir) == (f"{Path.home()}/dr", f"{Path.home()}/eyes")
    assert read.describe()["data_dir"] == "eyes" and "results" not in read.describe()
    assert read_study(tmp_path, "data_dir: ~/eyes") == {"data_dir": f"{Path.home()}/eyes"}


def test_what_was_given_counts_until_the_parameters_run_again():
    """In a kernel that stays, the next run of the notebook is given nothing of the last one; names
    of one's own are none of papermill's.
    """
    given = "# Parameters\nepoch = 2\n"
    values = DEFAULTS | {"epoch": 2}
    own = ["y: int", "class A:\n    x: int = 3", "z: int = 1"]
    read_parameters("10_train", ["", CELL, given, CELL, "x = 1"], values)
    read_parameters("10_train", [CELL, *own], values)
    with pytest.raises(ParameterError, match="^epoch: unknown, choose from "):
        read_parameters("10_train", [CELL, given, *own], values)


def test_a_report_refuses_the_same_values(tmp_path):
    """As -p gives them to the command."""
    write_row(tmp_path, copy_row("10", study="mine"))
    for text in ("8:30", "-1"):
        said = CliRunner().invoke(main, ["report", str(tmp_path), "-p", "g_per_kwh", text])
        assert said.exit_code == 1 and said.output.startswith("Error: g_per_kwh is ")
    defaults = read_defaults(ROOT / "notebooks" / "12_evaluate.ipynb")
    with pytest.raises(ParameterError, match="ensemble: folds are of one model"):
        Evaluate(**defaults | {"folds": True, "ensemble": True})


def test_a_command_line_gives_texts():
    """A parameter that is a text has it as it was typed, others as a study file would."""
    texts = {"only": "0.050", "published": "false", "g_per_kwh": "010", "runs": Path("a")}
    read = CompareMachines.read_texts(texts | {"epoch": "2"})
    expected = {"only": "0.050", "published": False, "g_per_kwh": 10, "runs": Path("a")}
    assert read == expected | {"epoch": "2"}


@pytest.mark.parametrize("path", NOTEBOOK_FILES, ids=lambda path: path.stem)
def test_a_notebooks_cell_declares_what_its_model_has(path):
    """By name and kind; its defaults can be. What a comment lists can be chosen and nothing else;
    a path to read is known as one, and is none by default.
    """
    assert path.stem in NOTEBOOKS, "name the model of its parameters in dr_lib/parameters.py"
    model = find_model(path.stem)
    declared = papermill.inspect_notebook(str(path))
    assert declared.keys() == model.model_fields.keys()
    defaults = read_defaults(path)
    assert model(**defaults).find_inputs() == []
    for name, field in model.model_fields.items():
        choices = get_args(field.annotation)
        is_chosen = get_origin(field.annotation) is Literal
        kind = type(choices[0]) if is_chosen else field.annotation
        assert declared[name]["inferred_type_name"] == kind.__name__, name
        about = declared[name]["help"]
        if not field.is_required():
            assert field.default == defaults[name], name
        if is_chosen:
            assert set(choices) <= set(re.findall(r"\w+", about)), name
        is_input = name.endswith("_dir") or ("path of" in about and name != "split")
        assert is_input == any(isinstance(mark, Input) for mark in field.metadata), name
        if kind in (int, float):
            marks = field.metadata
            is_bounded = any(hasattr(mark, "le") for mark in marks)
            assert is_bounded, f"{name} needs the greatest that makes sense"
            is_bounded = any(hasattr(mark, "ge") or hasattr(mark, "gt") for mark in marks)
            assert is_bounded, f"{name} needs the least that makes sense"


def test_every_column_of_a_parameter_is_in_the_schema():
    """Which says how rows that differ in it compare."""
    for path in NOTEBOOK_FILES:
        model = find_model(path.stem)
        if issubclass(model, RunParameters):
            columns = Parameters.describe(model(**read_defaults(path)))
            unknown = columns.keys() - schema.COLUMNS.keys()
            assert not unknown, f"name them in dr_lib/runs/schema.py, of {path.stem}"
            apart = columns.keys() - {*schema.WORK, *schema.STACK, *NEITHER}
            advice = "declare it as work or stack, or name it in NEITHER"
            assert not apart, f"rows that differ in {apart} would be averaged: {advice}"


def test_notebook_10_has_parameters_that_fit_a_screen_and_shows_its_training():
    """24 at most; and strategy, network, pipeline and fit stand in its cells, as on keras.io."""
    assert len(Train.model_fields) <= 24, "one that comes takes the place of another"
    code = (ROOT / "notebooks" / "10_train.py").read_text(encoding="utf-8")
    shown = ("tf.distribute.MirroredStrategy", "keras.distribution.DataParallel", ".compile(")
    shown += ("tf.data.TFRecordDataset(", "callbacks = [", ".fit(\n")
    assert [words for words in shown if words not in code] == []


def list_read(tree: ast.AST) -> set[str]:
    """What code reads of a configuration and of a plan."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    names = {ast.unparse(node) for node in nodes}
    return {name for name in names if re.fullmatch(r"(config|plan)\.\w+", name)}


def test_notebook_10_uses_what_train_once_does():
    """Its cells stand in the place of three functions, and read the same of what is asked for."""
    notebook = ast.parse((ROOT / "notebooks" / "10_train.py").read_text(encoding="utf-8"))
    module = ast.parse((ROOT / "dr_lib/training/train_once.py").read_text(encoding="utf-8"))
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    spelt_out = {node.name: node for node in functions}
    for name in ("train_once", "set_up", "compile_network"):
        missing = list_read(spelt_out[name]) - list_read(notebook)
        assert not missing, f"notebooks/10_train.py does not use {missing}, as {name} does"
