"""Epochs of paper D's rows, by hand-made rows whose answers are counted on fingers."""

import numpy as np
import pandas as pd

from dr_lib.mnist.epochs import (
    find_times_to_accuracy,
    list_epochs,
    list_runs,
    summarise_training,
)
from dr_lib.report.groups import select_runs

ROW = {
    "status": "ok",
    "platform": "colab",
    "accelerator": "cpu",
    "num_accelerators": 1,
    "cpu": "Xeon",
    "num_cpus": 2,
    "data_kind": "given",
}
T4 = {"accelerator": "Tesla T4"}
ACCURACIES = [0.80, 0.95, 0.94]


def make_run(
    implementation="fused", batch_size=1, epoch_s=1.0, accuracies=ACCURACIES, **columns
):
    """A row whose epochs take `epoch_s` each."""
    about = {
        "framework": "keras" if implementation.startswith("keras") else "cuda",
        "implementation": implementation,
        "batch_size": batch_size,
        "run_id": f"{implementation}{batch_size}",
    }
    return ROW | about | summarise_training([epoch_s] * len(accuracies), accuracies) | columns


def make_timed(*rows):
    """The rows as the figures get them."""
    alike = ["framework", "implementation", "batch_size"]
    return select_runs(pd.DataFrame(rows), may_differ=alike).timed


def test_every_epoch_is_a_row():
    """Two runs of three epochs, each with its line and host; two CPUs are told apart, and what runs
    on one is C++. An accuracy is reached once, though a later epoch falls back.
    """
    runs = make_run(**T4), make_run("keras_tensorflow", 32, 2.0)
    assert runs[1]["train_s"] == 6 and runs[1]["steady_epoch_s"] == 2
    assert runs[1]["metric_accuracy_test"] == 0.94
    epochs = list_epochs(list_runs(make_timed(*runs)))
    assert set(epochs["host"]) == {"colab, Xeon"}
    names = ["CUDA C fused, batch 1, Tesla T4", "Keras / TensorFlow, batch 32, CPU"]
    assert epochs["line"].unique().tolist() == names
    second = epochs[epochs["run"] == 1]
    assert second[["train_s", "accuracy"]].to_numpy().T.tolist() == [[2, 4, 6], ACCURACIES]
    runs = list_runs(make_timed(make_run(), make_run(cpu="EPYC")))
    names = [f"C++ fused, batch 1, Colab, CPU, {cpu}" for cpu in ("Xeon", "EPYC")]
    assert runs["line"].unique().tolist() == names
    found = find_times_to_accuracy(make_run(), [0.5, 0.8, 0.94, 0.95, 0.96])
    assert found.tolist() == [1, 1, 2, 2, np.inf]


def test_rows_without_epochs_are_passed_over():
    """Of other studies, or none at all."""
    bare = {name: value for name, value in make_run().items() if name != "epoch_accuracy"}
    for rows in ([], [bare]):
        assert list_runs(make_timed(*rows)).empty
    assert len(list_runs(make_timed(bare, make_run()))) == 1
