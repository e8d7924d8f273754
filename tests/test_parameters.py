"""A parameter that a notebook does not have, or a value that it cannot have, is one sentence: the
same in a notebook, a study and a report.
"""

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
CELL = "\n".join(f"{name}: {type(value).__name__} = ..." for name, value in DEFAULTS.items())
WHOLE = "give a whole number, such as 20"
NUMBER = "give a number, such as 0.001"
TEXT = "give a text, in quotes or with papermill's -r"


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
        ("epochs", "1_000", 1000),
        ("epochs", "+3", 3),
        ("learning_rate", "1e-3", 0.001),
        ("learning_rate", "3", 3.0),
        ("learning_rate", "20.000", 20.0),
        ("label", "yes", "yes"),
        ("label", "1:10", "1:10"),
        ("epochs", "1:10", f"epochs is '1:10': {WHOLE}"),
        ("epochs", "20.000", f"epochs is 20.0: {WHOLE}"),
        ("epochs", "True", f"epochs is True: {WHOLE}"),
        ("epochs", "many", f"epochs is 'many': {WHOLE}"),
        ("epochs", "0", "epochs is 0: give 1 or more"),
        ("epochs", "100001", "epochs is 100001: give 100000 or less"),
        ("learning_rate", "8:30", f"learning_rate is '8:30': {NUMBER}"),
        ("learning_rate", "0,001", f"learning_rate is '0,001': {NUMBER}"),
        ("learning_rate", "True", f"learning_rate is True: {NUMBER}"),
        ("learning_rate", "1e999", f"learning_rate is inf: {NUMBER}"),
        ("learning_rate", "0", "learning_rate is 0: give more than 0"),
        ("learning_rate", "-0.1", "learning_rate is -0.1: give more than 0"),
        ("label", "2026", f"label is 2026: {TEXT}"),
        ("label", "1.5", f"label is 1.5: {TEXT}"),
        ("label", "True", f"label is True: {TEXT}"),
        (
            "optimizer",
            "adma",
            "optimizer is 'adma': choose 'rmsprop', 'rmsprop_voets' or 'adam'",
        ),
        (
            "epoch",
            "2",
            f"epoch: unknown, choose from {', '.join(Train.model_fields)}",
        ),
        (
            "weights",
            "imagenet",
            "small_cnn has no ImageNet weights: use weights none, or mobilenet",
        ),
    ],
)
def test_a_value_means_the_same_in_a_notebook_and_a_study(tmp_path, name, written, meant):
    """Written behind papermill's -p, and in a study file, where the sentence names the line."""
    given = {name: _resolve_type(written)}
    if meant != written and isinstance(meant, str):
        with pytest.raises(ParameterError, match=f"^{re.escape(meant)}$"):
            read_injected(given)
        sentence = f"^{tmp_path / 'trial.yaml'}, line 4: {re.escape(meant)}$"
        with pytest.raises(DrError, match=sentence):
            read_study(tmp_path, f"{name}: {written}")
    else:
        read = getattr(read_injected(given), name)
        planned = read_study(tmp_path, f"{name}: {written}")[name]
        assert (read, type(read)) == (planned, type(planned)) == (meant, type(meant))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('label: "2026"', "2026"),
        ("epochs: 0x1F", 31),  # 10.3.2 of YAML 1.2
        ("epochs: 0o10", 8),
        ('epochs: "2026"', f"epochs is '2026': {WHOLE}"),
        ("learning_rate: .inf", f"learning_rate is inf: {NUMBER}"),
        ("learning_rate: .nan", f"learning_rate is nan: {NUMBER}"),
        ("learning_rate: NaN", f"learning_rate is 'NaN': {NUMBER}"),
        ("learning_rate: ٣", f"learning_rate is '٣': {NUMBER}"),
        ("learning_rate:", f"learning_rate is empty: {NUMBER}"),
        ("label: [a]", f"label is ['a']: {TEXT}"),
        ("label: 2026-11-25", f"label is datetime.date(2026, 11, 25): {TEXT}"),
    ],
)
def test_a_study_is_yaml_1_2(tmp_path, text, meant):
    """Quotes make a text; the rarer numbers are those of the standard."""
    if " is " not in str(meant):
        assert [*read_study(tmp_path, text).values()] == [meant]
        return
    with pytest.raises(DrError, match=f"line 4: {re.escape(meant)}$"):
        read_study(tmp_path, text)


@pytest.mark.parametrize(("given", "is_valid"), [(True, True), ("yes", False), (1, False)])
def test_what_is_true_or_false_is_nothing_else(given, is_valid):
    """Of a notebook that has such a parameter."""
    model = find_model("21_export_quantize")
    values = read_defaults(ROOT / "notebooks" / "21_export_quantize.ipynb") | {"force": given}
    if is_valid:
        assert model(**values).force is True
        return
    with pytest.raises(ParameterError, match=f"^force is {given!r}: give True or False$"):
        model(**values)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"learning_rate": np.float64(0.5)}, 0.5),
        ({"data_dir": Path("a")}, "a"),
        ({"epochs": np.int64(3)}, f"epochs is np.int64(3): {WHOLE}"),
        ({"learning_rate": float("nan")}, f"learning_rate is nan: {NUMBER}"),
        ({"learning_rate": None}, f"learning_rate is empty: {NUMBER}"),
    ],
)
def test_a_notebooks_cell_may_compute_a_value(given, meant):
    """What NumPy made counts where it is a Python number, too."""
    (name,) = given
    if isinstance(meant, str) and " is " in meant:
        with pytest.raises(ParameterError, match=f"^{re.escape(meant)}$"):
            read_parameters("10_train", [CELL], DEFAULTS | given)
        return
    value = getattr(read_parameters("10_train", [CELL], DEFAULTS | given), name)
    assert (value, type(value)) == (meant, type(meant))


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


def test_a_misspelt_name_in_the_notebooks_own_cell_is_refused():
    """As after an edit by hand, with the type or without."""
    for line in ("epoch: int = 2  # times", "epoch = 2"):
        with pytest.raises(ParameterError, match="^epoch: unknown, choose from "):
            read_parameters("10_train", [f"{CELL}\n{line}"], DEFAULTS | {"epoch": 2})


def test_plan_and_run_say_the_same(tmp_path):
    """Before anything is made."""
    path = tmp_path / "trial.yaml"
    path.write_text("notebook: 10_train\nrepetitions: 1\nparameters: {epochs: 1:10}\n")
    for command in ("plan", "run"):
        said = CliRunner().invoke(main, [command, str(path)])
        assert said.output == f"Error: {path}, line 3: epochs is '1:10': {WHOLE}\n"
    assert [each.name for each in tmp_path.iterdir()] == ["trial.yaml"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("38,5", f"g_per_kwh is '38,5': {NUMBER}"),
        ("8:30", f"g_per_kwh is '8:30': {NUMBER}"),
        ("-1", "g_per_kwh is -1: give 0 or more"),
        ("[", "g_per_kwh, line 1: "),
    ],
)
def test_a_report_refuses_the_same_values(tmp_path, text, message):
    """As -p gives them to the command."""
    write_row(tmp_path, copy_row("10", study="mine"))
    said = CliRunner().invoke(main, ["report", str(tmp_path), "-p", "g_per_kwh", text])
    assert said.exit_code == 1 and said.output.startswith(f"Error: {message}")


def test_a_command_line_gives_texts():
    """A parameter that is a text has it as it was typed, others as a study file would."""
    texts = {"only": "0.050", "published": "false", "g_per_kwh": "010", "runs": Path("a")}
    read = CompareMachines.read_texts(texts | {"epoch": "2"})
    expected = {"only": "0.050", "published": False, "g_per_kwh": 10, "runs": Path("a")}
    assert read == expected | {"epoch": "2"}


@pytest.mark.parametrize("text", ["0,5", "8:30", "nan", "inf"])
def test_an_option_takes_no_other_numbers(text):
    """What is none of click's, or has no end."""
    said = CliRunner().invoke(main, ["run", "papermill_runs/demo.yaml", "--max-hours", text])
    assert said.exit_code == 2
    assert re.search(f"--max-hours': '{text}' is not a (number|valid float range)", said.output)


def list_words(comment: str) -> set[str]:
    """The values in a comment that only lists them: none, flip (left-right) or colour; ..."""
    items = re.split(r",? or |, ", re.sub(r" \([^)]*\)", "", comment).split(";")[0])
    is_list = len(items) > 1 and all(re.fullmatch(r"\w+", item) for item in items)
    return set(items) if is_list else set()


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
        words = list_words(about) if kind is str else set()
        named = set(re.findall(r"\w+", about))
        assert words == set(choices) or (not words and set(choices) <= named), name
        is_input = name.endswith("_dir") or ("path of" in about and name != "split")
        assert is_input == any(isinstance(mark, Input) for mark in field.metadata), name
        if kind in (int, float):
            is_bounded = any(hasattr(mark, "le") for mark in field.metadata)
            assert is_bounded, f"{name} needs the greatest that makes sense"


def test_every_column_of_a_parameter_is_in_the_schema():
    """Which says how rows that differ in it compare."""
    for path in NOTEBOOK_FILES:
        model = find_model(path.stem)
        if issubclass(model, RunParameters):
            columns = Parameters.describe(model(**read_defaults(path)))
            unknown = columns.keys() - schema.COLUMNS.keys()
            assert not unknown, f"name them in dr_lib/runs/schema.py, of {path.stem}"


def test_notebook_10_has_parameters_that_fit_a_screen_and_shows_its_training():
    """24 at most; and strategy, network, pipeline and fit stand in its cells, as on keras.io."""
    assert len(Train.model_fields) <= 24
    code = (ROOT / "notebooks" / "10_train.py").read_text(encoding="utf-8")
    shown = ("tf.distribute.MirroredStrategy", "keras.distribution.DataParallel", ".compile(")
    shown += ("tf.data.TFRecordDataset(", "callbacks = [", ".fit(\n")
    assert [words for words in shown if words not in code] == []
