"""Epochs and figures of paper D, by hand-made rows whose answers are counted on fingers."""

import numpy as np
import pandas as pd
import pytest

from dr_lib.mnist import figures
from dr_lib.mnist.epochs import (
    find_times_to_accuracy,
    list_runs,
    summarise_training,
)
from dr_lib.report.groups import NoRunsError, select_runs
from tests.report.reading import is_whole, words

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


def make_paper(**columns):
    """Three runs each of what the paper most likely ran, with its times, and of ours; 40 epochs,
    three sessions of each machine.
    """
    kinds = [
        ("paper", 1, 219 / 40, T4),
        ("fused", 1, 0.2, T4),
        ("keras_tensorflow", 1, 60, {}),
        ("keras_tensorflow", 32, 621 / 40, {}),
    ]
    forty = [0.9 + 0.001 * k for k in range(40)]
    return make_timed(
        *(
            make_run(
                name, batch, epoch_s * s, forty, boot=f"{hardware} {s}", **hardware | columns
            )
            for s in (0.98, 1.0, 1.02)
            for name, batch, epoch_s, hardware in kinds
        )
    )


def test_a_run_has_a_line_and_a_time_to_each_accuracy():
    """Two CPUs are told apart, and what runs on one is C++. An accuracy is reached once, though a
    later epoch falls back.
    """
    row = make_run(epoch_s=2.0)
    assert (row["train_s"], row["steady_epoch_s"], row["metric_accuracy_test"]) == (6, 2, 0.94)
    runs = list_runs(make_timed(make_run(), make_run(cpu="EPYC")))
    names = [f"C++ fused, batch 1, Colab, CPU, {cpu}" for cpu in ("Xeon", "EPYC")]
    assert runs["line"].unique().tolist() == names
    found = find_times_to_accuracy(make_run(), [0.5, 0.8, 0.94, 0.95, 0.96])
    assert found.tolist() == [1, 1, 2, 2, np.inf]


BARE = {name: value for name, value in make_run().items() if name != "epoch_accuracy"}


@pytest.mark.parametrize("rows", [[], [BARE], [make_run(status="failed")]])
def test_without_an_epoch_there_is_no_figure(rows):
    """None, those of another study, or those of runs that all failed: one sentence."""
    for plot in (figures.plot_cumulative_time, figures.plot_time_to_accuracy):
        with pytest.raises(NoRunsError, match="no run has epochs: train in notebook 40"):
            plot(make_timed(*rows))
    assert len(list_runs(make_timed(*rows, make_run(run_id="other")))) == 1


def test_figure_1a_has_a_line_per_implementation():
    """Medians of the runs after each epoch, in a band from the fastest to the slowest."""
    ax = figures.plot_cumulative_time(make_paper()).axes[0]
    lines = {line.get_label(): line for line in ax.lines}
    assert list(lines) == [
        "Keras / TensorFlow, batch 1, CPU",
        "Keras / TensorFlow, batch 32, CPU",
        "CUDA C small kernels, batch 1, Tesla T4",
        "CUDA C fused, batch 1, Tesla T4",
    ]
    one, many, ours, _ = lines.values()
    assert list(ours.get_xdata()) == list(range(1, 41))
    assert ours.get_ydata()[-1] == pytest.approx(219)
    edges = ax.collections[2].get_paths()[0].vertices[:, 1]
    assert [edges.min(), edges.max()] == pytest.approx([0.98 * 219 / 40, 1.02 * 219])
    assert (one.get_linestyle(), many.get_linestyle()) == ("-", "--")


def test_figure_1b_ends_where_half_have_not_arrived():
    """80 % after one epoch, 95 % after two by one run of two: the other stops at 85 %."""
    two = make_run(), make_run(epoch_s=2.0, accuracies=[0.8, 0.85, 0.85])
    figure = figures.plot_time_to_accuracy(make_timed(*two))
    errors, seconds = figure.axes[0].lines[0].get_data()
    levels = (1 - errors / 100).round(9)
    assert set(seconds[levels <= 0.8]) == {1.5}  # the median of 1 and 2 s
    assert np.isfinite(seconds[levels <= 0.85]).all() and np.isnan(seconds[levels > 0.85]).all()


def test_figure_2_compares_with_each_keras_and_dots_unlike_batches():
    """At batch 1 solid, 60 / 0.2; against batch 32 dotted, 621 / 219 as in the paper; a Keras of
    another host is none.
    """
    figure = figures.plot_speed_up(make_paper())
    like, unlike = figure.axes
    titles = [ax.get_title(loc="left").replace("\n", " ") for ax in (like, unlike)]
    assert titles == [f"against Keras / TensorFlow, batch {batch}, CPU" for batch in (1, 32)]
    assert {line.get_linestyle() for line in like.lines[:2]} == {"-"}
    assert {line.get_linestyle() for line in unlike.lines[:2]} == {":"}
    (legend,) = figure.legends
    assert [line.get_linestyle() for line in legend.get_lines()] == ["-", "-", ":"]
    assert like.lines[1].get_ydata()[-1] == pytest.approx(60 / 0.2)
    assert unlike.lines[0].get_ydata()[-1] == pytest.approx(621 / 219)
    with pytest.raises(NoRunsError, match="Keras on the same host"):
        figures.plot_speed_up(make_timed(make_run(), make_run("keras_jax", cpu="EPYC")))


@pytest.mark.parametrize("plot", ["cumulative_time", "time_to_accuracy", "speed_up"])
def test_the_figures_speak_portuguese_and_nothing_is_clipped(plot):
    """With the names of lines; all text lies inside the picture."""
    figure = getattr(figures, f"plot_{plot}")(make_paper(platform="some cloud"), "pt")
    assert "CUDA C fundido, lote 1" in words(figure) and is_whole(figure)
