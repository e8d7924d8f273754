"""Which runs are cold: the first of a kind since the machine's boot, by marks in a folder."""

import json

import pytest

from dr_lib.runs import run as run_module
from dr_lib.runs import warmth
from dr_lib.runs.run import Run
from tests.processes import run_python

ASKED = {"model": "small_cnn", "image_size": 96, "batch_size": 8, "mode": "paper", "seed": 20}
FOUND = {"train_s": 9.0, "backend": "jax", "jax": "0.7.2", "tensorflow": "2.19.0"}
FOUND |= {"num_parameters": 79185, "accelerator": "cpu"}


@pytest.fixture(autouse=True)
def marks(tmp_path, monkeypatch):
    """The temporary folder of a machine that has just started."""
    folder = tmp_path / "marks"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr(run_module, "find_boot", lambda: "boot-1")
    return folder


def start(root, repetition=0, **asked) -> Run:
    """Start a run by hand."""
    return Run(root, "10_train", ASKED | asked | {"repetition": repetition})


def refuse(path):
    """The folder takes no file, or one of another user is there."""
    raise PermissionError(path)


def finish(run, **found) -> bool | None:
    """Finish it; whether it was cold."""
    return json.loads(run.finish(**FOUND | found).read_text())["cold"]


@pytest.mark.parametrize(
    "other",
    [
        {"model": "mobilenet"},
        {"image_size": 64},
        {"batch_size": 16},
        {"mode": "fast"},
        {"backend": "tensorflow"},
        {"jax": "0.8.0"},
        {"accelerator": "Tesla T4"},
        {"num_replicas": 2},
        {"num_parameters": 80000},  # the head of another task
    ],
    ids=str,
)
def test_the_first_run_of_a_kind_is_cold_and_no_other(tmp_path, other):
    """Neither its repetition, its length nor another backend's version makes a kind."""
    assert finish(start(tmp_path)) is True
    assert finish(start(tmp_path, 1, epochs=3), tensorflow="2.20.0") is False
    assert finish(start(tmp_path, 2), **other) is True
    assert finish(start(tmp_path, 3), **other) is False


def test_what_has_not_finished_before_warms_nothing(tmp_path, monkeypatch, marks):
    """A failed run, one that was cut off, one at the same time; another boot; a cleared folder."""
    start(tmp_path).fail("diverged")
    start(tmp_path, 1)
    first = start(tmp_path, 2)
    second = start(tmp_path, 3)
    assert [finish(first), finish(second)] == [True, True]
    assert finish(start(tmp_path, 4)) is False
    for mark in marks.iterdir():
        mark.unlink()
    assert finish(start(tmp_path, 5)) is True
    monkeypatch.setattr(run_module, "find_boot", lambda: "boot-2")
    assert finish(start(tmp_path, 6)) is True


def test_what_cannot_be_known_is_null(tmp_path, monkeypatch, marks):
    """No boot, no folder, or one in which no mark stays."""
    run = start(tmp_path)
    monkeypatch.setattr(warmth.Path, "touch", refuse)
    assert finish(run) is None
    monkeypatch.setattr("tempfile.tempdir", str(marks / "none"))
    assert finish(start(tmp_path, 1)) is None
    monkeypatch.setattr(run_module, "find_boot", lambda: "")
    assert finish(start(tmp_path, 2)) is None


def test_a_mark_of_another_user_counts(tmp_path, monkeypatch, marks):
    """It cannot be written again, and is there."""
    finish(start(tmp_path))
    monkeypatch.setattr(warmth.Path, "touch", refuse)
    assert finish(start(tmp_path, 1)) is False


def test_a_row_without_a_training_is_neither(tmp_path):
    """A server's first request stands apart already."""
    row = json.loads(start(tmp_path).finish(load_s=2.0).read_text())
    assert "cold" not in row


def test_processes_of_a_machine_share_their_marks(tmp_path, marks, monkeypatch):
    """The second of two that each made a run was warm."""
    monkeypatch.setenv("TMPDIR", str(marks))
    code = "import json, sys, pathlib; from dr_lib.runs.run import Run;"
    code += " asked = {'seed': 0, 'repetition': int(sys.argv[2])};"
    code += " path = Run(pathlib.Path(sys.argv[1]), 'n', asked).finish(train_s=1.0);"
    code += " print(json.loads(path.read_text())['cold'])"
    for repetition, cold in enumerate(("True\n", "False\n")):
        with run_python(code, tmp_path, repetition) as process:
            assert process.communicate()[0] == cold
