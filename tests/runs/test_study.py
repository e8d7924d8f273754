"""Study files: what is asked is checked before anything runs, and planned in randomised blocks."""

import re
import textwrap
from typing import get_args

import pytest

from dr_lib.__main__ import main
from dr_lib.errors import DrError
from dr_lib.hardware import Facts
from dr_lib.runs.study import (
    Study,
    check_paths,
    find_file,
    find_refused,
    find_results,
    load_study,
    name_machine,
    plan_runs,
)
from tests.hardware.test_plans import COLAB_TPU, KAGGLE_T4, KAGGLE_TPU, LAPTOP
from tests.runs.conftest import ROOT, run_quietly, write_prepared, write_study


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"repetition": 3, "repetitions": None},
            "trial.yaml, line 4: repetition: unknown, choose from notebook, report, repetitions, ",
        ),
        (
            {"parameters": {"pace": "fats"}},
            "trial.yaml, line 6: pace is 'fats': it should be 'even', 'fast' or 'slow'",
        ),
        ({"parameters": {"data_dir": "data/nowhere"}}, "'data/nowhere' is not prepared"),
        ({"factors": {"weights": ["none", "data/a.h5"]}}, "weights 'data/a.h5' does not exist"),
        ({"notebook": "quik"}, "quik"),
        ({"report": "11_nothing"}, "notebook '11_nothing' is not in"),
        (
            {"parameters": {"levle": "b"}},
            "trial.yaml, line 6: levle: unknown, choose from results, seed, repetition, level, ",
        ),
        (
            {"factors": {"level": []}},
            "line 6: factors.level is .*: List should have at least 1",
        ),
        ({"factors": {"pause_s": [1, 1.0]}}, "line 6: factor pause_s has a repeated level"),
        (
            {"factors": {"pause_s": [1, "0,001"]}},
            "line 6: pause_s is '0,001': it should be a valid number",
        ),
        (
            {"repetitions": 10**9},
            "line 3: repetitions is 1000000000: it should be less than or",
        ),
        ({"max_hours": 1e999}, "max_hours is 'Infinity': it should be a valid number"),
        ({"retries": "2"}, "line 5: retries is '2': it should be a valid integer"),
        ({"parameters": {"repetition": 1}}, "set by the study itself"),
        ({"parameters": {"level": "b"}, "factors": {"level": ["a"]}}, "twice"),
        ({"instance": "F5s_v9"}, "F5s_v9"),
    ],
)
def test_a_mistake_is_found_before_anything_runs(house, changes, message):
    """A misspelt key, parameter or notebook, or a value of the wrong type names itself."""
    with pytest.raises(DrError, match=message) as error:
        run_quietly(write_study(house, **changes), house)
    assert "\n" not in str(error.value) and "pydantic" not in str(error.value)
    assert not (house / "papermill_runs" / "trial").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"notebook: quick\nrepetitions: 2\nrepetitions: 3", "line 3: found duplicate key "),
        (b"just words", "a study file needs lines such as notebook: "),
        (b"notebook: \xff", "it is not UTF-8 text"),
        (b"notebook: quick\n\trepetitions: 1", "line 2: found character tab that cannot start"),
        (None, "none.yaml: no such study file"),
    ],
)
def test_a_missing_or_broken_file_is_named_in_one_sentence(house, content, message):
    """No file, no YAML, a key twice, no keys, no text."""
    path = house / "papermill_runs" / "none.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DrError, match=message) as error:
        load_study(path, house)
    assert "none.yaml" in str(error.value) and "\n" not in str(error.value)


def test_a_study_means_what_it_says(house):
    """Texts stay texts, an empty key is left out; anchors, a byte order mark and lists without
    spaces are read.
    """
    path = house / "papermill_runs" / "trial.v1.yaml"
    text = """\
        notebook: quick
        repetitions: &n 010
        max_hours: 1e-3
        timeout_hours:
        retries: 2
        seed: *n
        parameters: {level: yes, split: no, fail_at: 0o10, needs_s: +3}
        factors:
          pause_s: [1,2,1e1]
          weights: [none]
        """
    path.write_text("\ufeff" + textwrap.dedent(text), encoding="utf-8")
    study = load_study(path, house)
    keys = (study.repetitions, study.max_hours, study.timeout_hours, study.retries, study.seed)
    assert keys == (10, 0.001, None, 2, 10)
    expected = {"level": "yes", "split": "no", "fail_at": 8, "needs_s": 3.0}
    assert study.parameters == expected
    assert study.factors == {"pause_s": [1.0, 2.0, 10.0], "weights": ["none"]}
    assert find_results(path).name == "trial.v1" and find_file(find_results(path)) == path
    assert find_file(path.with_name("trial")) is None
    plain = path.rename(path.with_name("plain"))
    with pytest.raises(DrError, match="plain is no study file, .*: name it plain.yaml"):
        run_quietly(plain, house)
    assert plain.is_file()


def test_a_study_says_how_to_prepare_what_it_needs(house):
    """By the scheme that it names; another one is refused, and so is a missing split table."""
    data_dir = house / "data"
    options = {"parameters": {"data_dir": "data"}, "scheme": "paper"}
    path = write_study(house, **options)
    prepare = "'data' is not prepared: .*-m dr_lib prepare .* --out data --scheme paper$"
    divide = "no split table 'split.csv' of scheme paper in data: .* split data --scheme paper$"
    with pytest.raises(DrError, match=prepare):
        check_paths(load_study(path, house), path, house)
    write_prepared(data_dir, "random", "split.csv")
    with pytest.raises(DrError, match=divide):
        check_paths(load_study(path, house), path, house)
    write_prepared(data_dir, "paper", "split.csv")
    check_paths(load_study(path, house), path, house)
    path = write_study(house, parameters={"data_dir": "sample", "weights": "none"})
    check_paths(load_study(path, house), path, house)
    path = write_study(house, parameters={"data_dir": "papermill_runs/sample/records"})
    with pytest.raises(DrError, match="-m dr_lib sample$"):
        check_paths(load_study(path, house), path, house)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"recipe": "few"},
            "few keeps blocks as their weights are, and weights none are random",
        ),
        ({"weights": "imagenet"}, "small_cnn has no ImageNet weights"),
        ({"results": "elsewhere"}, "results is set by the study itself"),
        ({"learning_rate": 1}, ""),
        ({"split": "2026"}, "no split table '2026' in data"),
        ({"image_size": 300}, "image_size 300: the crops of data have 299 px"),
        ({"image_size": 31}, "image_size 31: small_cnn needs 32 px or more"),
    ],
)
def test_a_training_that_would_be_refused_is_not_planned(house, command, parameters, message):
    """By the splits that the prepared folder has, and by values that exclude each other."""
    (house / "notebooks/10_train.ipynb").symlink_to(ROOT / "notebooks/10_train.ipynb")
    write_prepared(house / "data", "random", "split.csv")
    parameters = {"data_dir": "data", "weights": "none", **parameters}
    path = write_study(house, notebook="10_train", parameters=parameters)
    assert message in command("plan", path, status=int(bool(message)))


def test_the_command_line_says_what_is_wrong_in_one_sentence(house, command):
    """`plan` too; --debug shows where; the folder of a study is not its file."""
    path = write_study(house, parameters={"data_dir": "nowhere"})
    said = command("plan", path, status=1)
    assert said.splitlines()[-1].startswith(f"Error: {path}: data_dir 'nowhere' is not")
    said = command("run", path, "--on", "sagemaker", "--instance", "box", status=2)
    assert "on SageMaker each run of the study names its instance" in said
    folder = path.with_suffix("")
    folder.mkdir()
    fault = f"Error: {folder} is no study file, which ends in .yaml: did you mean {path}?\n"
    assert command("run", folder, status=1) == fault
    with pytest.raises(DrError):
        main(["--debug", "run", str(house)], standalone_mode=False)


def test_plan_holds_every_cell_in_every_block():
    """Two factors of 2 and 3 levels, four repetitions: blocks of six, each a permutation of C1
    to C6.
    """
    factors = {"a": [1, 2], "b": ["x", "y", "z"]}
    study = Study(notebook="n", repetitions=4, factors=factors, parameters={"c": 5}, seed=3)
    runs = plan_runs(study, "here")
    names = [run.scenario for run in runs]
    blocks = [names[start : start + 6] for start in range(0, 24, 6)]
    in_order = [f"C{number}" for number in range(1, 7)]
    assert all(sorted(block) == in_order for block in blocks)
    assert len(set(map(tuple, blocks))) > 1
    assert [run.order for run in runs] == list(range(24))
    (second,) = [run for run in runs if run.name == "C2-r03"]
    assert second.parameters == {"a": 1, "b": "y", "c": 5, "repetition": 3, "seed": 3}
    assert runs == plan_runs(study, "here")
    changes = {"order": "sequential", "first_scenario": 25}
    later = plan_runs(study.model_copy(update=changes), "here")
    assert [run.scenario for run in later[:6]] == [f"C{number}" for number in range(25, 31)]


def test_machines_that_differ_have_other_names():
    """Kaggle's two T4 and a laptop's CPU do not overwrite each other's rows."""
    cpu = Facts("local", "AMD EPYC 7B13", 2, 24.0, (), 0.0, 0.0, "", 0, ("tensorflow",))
    t4s = cpu._replace(platform="kaggle", gpus=("Tesla T4", "Tesla T4"))
    others = [
        cpu._replace(num_cpus=4),
        cpu._replace(memory_gib=8.0),
        cpu._replace(num_tpu_chips=1, tpu_kind="v6e-1"),
    ]
    assert name_machine(cpu) == "local-amd-epyc-7b13-2-cpus-24-gib"
    assert name_machine(t4s) == "kaggle-2x-tesla-t4-2-cpus-24-gib"
    assert len({name_machine(facts) for facts in (cpu, t4s, *others)}) == 5


@pytest.mark.parametrize("key", Study.model_fields)
def test_each_key_of_a_study_is_explained_used_and_tested(key):
    """Its line stands in the README of the studies, the runner reads it, and a test sets it."""
    readme = (ROOT / "papermill_runs" / "README.md").read_text(encoding="utf-8")
    line = rf"^\| [^|]*`{key}`[^|]* \| [^|]+ \|$"
    assert re.search(line, readme, re.MULTILINE), f"{key}: no line in papermill_runs/README.md"
    field = Study.model_fields[key]
    if {int, float} & {field.annotation, *get_args(field.annotation)}:
        names = ("ge", "gt", "le")
        limits = {name for name in names for mark in field.metadata if hasattr(mark, name)}
        assert "le" in limits and limits & {"ge", "gt"}, f"{key} needs a least and a greatest"
    for folder, use in (
        ("dr_lib/runs", rf"(study|self)\.{key}\b"),
        ("tests/runs", rf"{key}(\"|=)"),
    ):
        texts = [path.read_text(encoding="utf-8") for path in ROOT.glob(f"{folder}/*.py")]
        assert re.search(use, "\n".join(texts)), f"{key}: nothing in {folder} uses it"


def test_what_is_refused_for_good_is_no_missing_package():
    """TensorFlow on a TPU is never possible; JAX that is not installed is the run's error, and so
    is a driver that does not answer. Machines of the table in test_plans.
    """
    study = load_study(ROOT / "papermill_runs" / "gpu_vs_tpu.yaml", ROOT)
    runs = plan_runs(study, "here")
    refused = find_refused(study, runs, COLAB_TPU)
    on_tensorflow = [run for run in runs if run.parameters["backend"] == "tensorflow"]
    assert set(refused) == {run.scenario for run in on_tensorflow}
    assert all("TensorFlow cannot drive the TPUs" in why for why in refused.values())
    assert find_refused(study, runs, KAGGLE_TPU) == refused
    broken = KAGGLE_T4._replace(gpus=(), gpu_error="its driver fails")
    for facts in (LAPTOP, KAGGLE_T4, KAGGLE_T4._replace(backends=("tensorflow",)), broken):
        assert find_refused(study, runs, facts) == {}
