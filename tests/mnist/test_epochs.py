"""Epochs of paper D's rows, by hand-made rows whose answers are counted on fingers."""

import numpy as np
import pandas as pd
import pytest

from dr_lib.mnist.epochs import (
    compare_like_for_like,
    find_times_to_accuracy,
    list_epochs,
    list_runs,
    summarise_training,
    tabulate_accuracies,
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
    names = [f"C++ fused, batch 1, colab, CPU, {cpu} x 2" for cpu in ("Xeon", "EPYC")]
    assert runs["line"].unique().tolist() == names
    found = find_times_to_accuracy(make_run(), [0.5, 0.8, 0.94, 0.95, 0.96])
    assert found.tolist() == [1, 1, 2, 2, np.inf]


def test_the_table_says_when_and_how_many():
    """Three runs: 90 % after 2, 4 and 6 s; 95 % by the first two alone; 97 % by none."""
    curves = ACCURACIES, ACCURACIES, [0.8, 0.91, 0.92]
    rows = [make_run(epoch_s=float(k), accuracies=curve) for k, curve in enumerate(curves, 1)]
    (found,) = tabulate_accuracies(make_timed(*rows)).to_dict("records")
    assert found["n"] == 3
    assert found["accuracy_percent"] == pytest.approx(93.333, abs=0.001)
    for percent, times in ((90, [4, 2, 6]), (95, [4, 2, np.nan]), (97, [np.nan] * 3)):
        made = [found[f"to_{percent}_percent_s{end}"] for end in ("", "_low", "_high")]
        np.testing.assert_equal(made, times)


def test_only_the_same_batch_on_the_same_host_is_compared():
    """CUDA C on the T4 in Xeon's machine against Keras on that Xeon, batch by batch; the EPYC
    ran no Keras.
    """
    runs = [make_run("fused", 1, s, **T4) for s in (0.9, 1.0, 1.1)]
    runs += [make_run("keras_tensorflow", 1, 100 * s) for s in (0.9, 1.01, 1.1)]
    runs += [
        make_run("keras_tensorflow", 32, 10.0),
        make_run("minibatch", 32, 2.0, cpu="EPYC", **T4),
    ]
    timed = make_timed(*runs).assign(session="one boot")
    (found,) = compare_like_for_like(timed).itertuples()
    assert found.line == "CUDA C fused, batch 1, Tesla T4"
    assert found.reference == "Keras / TensorFlow, batch 1, CPU"
    assert (found.batch_size, found.n) == (1, 3)
    assert found.times_as_fast == pytest.approx(100, rel=0.01)
    assert found.times_as_fast_low < 100 < found.times_as_fast_high


def test_one_run_has_a_ratio_and_no_interval():
    """Two and a half times as fast; rows without epochs are passed over."""
    rows = [make_run("minibatch", 32, 3.0), make_run("keras_jax", 32, 7.5)]
    (found,) = compare_like_for_like(make_timed(*rows)).itertuples()
    assert (found.times_as_fast, found.n) == (pytest.approx(2.5), 1)
    assert np.isnan(found.times_as_fast_low)
    bare = make_run()
    del bare["epoch_accuracy"]
    for tabulate in (list_runs, tabulate_accuracies, compare_like_for_like):
        assert tabulate(make_timed(bare)).empty and tabulate(make_timed()).empty
    assert len(list_runs(make_timed(bare, make_run()))) == 1
