"""Notebooks 30 and 31 run headless: a scenario, and what factors do to time."""

import json
import os
import subprocess
import sys

import pandas as pd
import papermill
import pytest

from dr_lib.scenarios import environments
from tests.notebooks import (
    execute,
    read_rows,
    report,
    show_without_paper,
)
from tests.studies import write_studies


def test_30_refuses_what_this_machine_lacks(clone, kernel):
    """A GPU that is not here and a framework are unavailable, a batch size of -1 is no value."""
    for parameters, message in (
        ({"accelerator": "gpu"}, "UnavailableError: no NVIDIA GPU"),
        (
            {"framework": "mxnet"},
            "UnavailableError: no environment for mxnet: .* environments mxnet",
        ),
        ({"batch_size": -1}, "batch_size is -1: it should be greater than or equal to 1"),
    ):
        if "accelerator" not in parameters or not os.path.exists("/dev/nvidia0"):
            with pytest.raises(papermill.PapermillExecutionError, match=message):
                execute(clone, "30_train_scenario", kernel, **parameters)
    assert not read_rows(clone)


def test_30_stops_where_the_training_diverges(clone, kernel):
    """The row says why."""
    asked = {"learning_rate": 100.0, "epochs": 1000, "data_share": 0.0016, "batch_size": 16}
    with pytest.raises(papermill.PapermillExecutionError, match="the loss .* lower the"):
        execute(clone, "30_train_scenario", kernel, accelerator="cpu", **asked)
    (row,) = read_rows(clone)
    assert row["status"] == "failed" and row["error"].startswith("the loss ")


@pytest.mark.slow
def test_30_trains_and_monitors(clone):
    """One cell of the design in TensorFlow; the study below has others in PyTorch."""
    asked = {"framework": "tensorflow", "dataset": "mnist", "epochs": 2, "sample_s": 0.2}
    asked |= {"evaluate_every": 1, "instance": "F4s_v2", "accelerator": "cpu"}
    execute(clone, "30_train_scenario", **asked)
    (row,) = read_rows(clone)
    expected = {"framework": "tensorflow", "dataset": "mnist", "num_images_train": 768}
    expected |= {"data_kind": "synthetic", "accelerator": "cpu", "gpu_percent_mean": None}
    assert expected.items() <= row.items()
    assert len(row["epoch_s"]) == len(row["epoch_accuracy"]) == 2
    assert sum(row["epoch_s"]) <= row["train_s"] < row["wall_s"]
    assert row["epoch_loss"][1] < row["epoch_loss"][0]
    assert row["cost_usd"] == pytest.approx(0.169 * (row["train_s"] + row["setup_s"]) / 3600)
    assert 0 < row["cpu_percent_mean"] <= 100


def test_31_of_ones_own_shows_no_paper(clone, kernel):
    """None of the papers' names, columns or numbers stands in the page or a table."""
    write_studies(clone)
    show_without_paper(clone, kernel, "31_factor_effects", "scenarios")


@pytest.mark.slow
def test_a_factorial_study_from_its_file_to_its_report(clone):
    """Two data sets by two networks, all cold, and a framework that is not there: rows, notebook
    31, report.
    """
    torch = environments.FOLDER / "torch"  # it starts in a third of TensorFlow's time
    if not torch.exists():
        pytest.skip("no environment for PyTorch: python -m dr_lib environments torch")
    (clone / ".environments").mkdir()
    (clone / ".environments" / "torch").symlink_to(torch)
    study = clone / "papermill_runs" / "trial.yaml"
    study.parent.mkdir(exist_ok=True)
    study.write_text(
        "notebook: 30_train_scenario\nrepetitions: 1\ninstance: F4s_v2\n"
        "parameters: {image_size: 32, data_share: 0.005, batch_size: 50, epochs: 2, sample_s:"
        " 0.2, accelerator: cpu}\nfactors: {framework: [pytorch, mxnet], dataset: [mnist, cifar10],"
        " network: [1, 2]}\n"
    )
    command = [sys.executable, "-m", "dr_lib"]
    pipes = {"cwd": clone, "check": True, "capture_output": True, "text": True}
    ran = subprocess.run([*command, "run", study], **pipes)
    assert "scenarios skipped: 4, UnavailableError: no environment for mxnet" in ran.stdout
    folder = study.with_suffix("")
    rows = [json.loads(path.read_text()) for path in folder.glob("rows/*.json")]
    assert [row["status"] for row in rows].count("ok") == 4
    text = report(clone, "trial", bill_usd=1.0, lang="pt")
    for words in ("s de tempo adicional por execução", "no environment for mxnet"):
        assert words in text
    for name in ("figure_2_3", "figure_4", "figure_5", "effects", "variation"):
        assert (folder / f"{name}.pdf").read_bytes()[:4] == b"%PDF"
    assert "\\toprule" in (folder / "variation.tex").read_text()
    variation = pd.read_csv(folder / "variation.csv")
    assert variation["share"].sum() == pytest.approx(1)
    assert "dataset" in set(variation["term"])
