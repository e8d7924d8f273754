"""Notebooks 40 and 41: trained on a CPU, a row per implementation, what cannot be done is said,
and the report.
"""

import json
import subprocess
import sys

import numpy as np
import papermill
import pytest

from dr_lib.runs.row import write_row
from tests.mnist.conftest import draw_digits
from tests.notebooks import execute, read_rows, report, show_without_paper, texts
from tests.report.real_rows import copy_row
from tests.studies import write_studies


@pytest.fixture
def digits(tmp_path):
    """A small mnist.npz of synthetic digits."""
    names = ("x_train", "y_train", "x_test", "y_test")
    arrays = (*draw_digits(320), *draw_digits(200, seed=1))
    np.savez(tmp_path / "digits.npz", **dict(zip(names, arrays, strict=True)))
    return tmp_path / "digits.npz"


def test_40_builds_checks_and_times_on_a_cpu_and_41_reads_the_rows(clone, kernel, digits):
    """A row per implementation but the GPU's own, which it names; figures, claims, ratios."""
    given = {"mnist": str(digits), "data_share": 1.0, "device": "cpu", "epochs": 2}
    said = texts(execute(clone, "40_mnist_cuda", kernel, **given))
    assert "paper needs a GPU" in said
    assert "times as long as CPU, " in said
    rows = {(row["implementation"], row["batch_size"]): row for row in read_rows(clone)}
    keras = [("keras_tensorflow", batch) for batch in (1, 32)]
    assert set(rows) == {("fused", 1), ("minibatch", 32), *keras}
    about = {"num_parameters": 2343, "num_images_train": 320, "accelerator": "cpu", "epochs": 2}
    for row in rows.values():
        assert about.items() <= row.items()
        assert 0 < row["train_s"] < row["wall_s"]
        assert len(row["epoch_s"]) == len(row["epoch_accuracy"]) == 2
        assert str(clone) not in json.dumps(row)
    fused = rows["fused", 1]
    assert max(fused["gradient_error"], fused["forward_error"]) <= 1e-5
    text = report(clone, "adhoc")
    assert text.count("<figure") == 4
    assert "(no interval: fewer than three pairs) times as long" in text
    assert "The network has 2,343 parameters." in text


def test_41_of_runs_that_all_failed_says_so(clone):
    """In a sentence, with their reason."""
    failed = {"status": "failed", "error": "no compiler here", "study": "mnist_cuda"}
    write_row(clone / "papermill_runs" / "mnist_cuda", copy_row("40", "fused") | failed)
    shown = report(clone, "mnist_cuda")
    assert "No training has been timed yet." in shown and "no compiler here" in shown


def test_41_of_ones_own_shows_no_paper(clone, kernel):
    """None of the papers' names, columns or numbers stands in the page or a table."""
    write_studies(clone)
    show_without_paper(clone, kernel, "41_cuda_vs_keras", "mnist")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("implementation", "message"),
    [
        ("fused", "write NAME@BATCH"),
        ("numpy@1", "NAME one of paper, fused"),
        ("keras_jax@1, keras_tensorflow@1", "one backend per process"),
    ],
)
def test_40_says_what_it_cannot_do(clone, kernel, implementation, message):
    """Before anything is trained; no row is left."""
    with pytest.raises(papermill.PapermillExecutionError, match=message):
        execute(clone, "40_mnist_cuda", kernel, implementation=implementation)
    assert not read_rows(clone)


@pytest.mark.slow
def test_a_study_of_implementations(clone, digits, tmp_path_factory, monkeypatch):
    """One implementation a run, on JAX too; what needs a GPU is skipped, as the row says; the
    report reads it all. A run of several is refused.
    """
    pytest.importorskip("jax")
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("marks")))
    study = clone / "papermill_runs" / "trial.yaml"
    study.parent.mkdir(exist_ok=True)
    text = (
        "notebook: 40_mnist_cuda\nrepetitions: 2\nseed: 20\n"
        f"parameters: {{mnist: {digits}, data_share: 1.0, epochs: 2, device: cpu}}\n"
        "factors: {implementation: [%s]}\n"
    )
    study.write_text(text % "paper@1, fused@1, keras_jax@1")
    command = [sys.executable, "-m", "dr_lib", "run"]
    ran = subprocess.run(
        [*command, study], cwd=clone, check=True, capture_output=True, text=True
    )
    assert "paper needs a GPU" in ran.stdout
    # nearly the same arithmetic from the same weights
    ours, theirs = (
        json.loads(next(study.parent.glob(f"trial/rows/{name}-r01-*")).read_text())
        for name in ("C2", "C3")
    )
    assert abs(ours["metric_accuracy_test"] - theirs["metric_accuracy_test"]) <= 0.01
    shown = report(clone, "trial", lang="pt")
    assert "UnavailableError: paper needs a GPU" in shown
    assert "<td>C++ fundido, lote 1, CPU</td>" in shown
    several = study.with_name("several.yaml")
    several.write_text(text % "'fused@1, minibatch@32'")
    failed = subprocess.run([*command, several], cwd=clone, capture_output=True, text=True)
    assert "one NAME@BATCH per level" in failed.stdout + failed.stderr
