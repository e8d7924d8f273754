"""The figures of paper D, read back from what was drawn."""

import numpy as np
import pandas as pd
import pytest

from dr_lib.mnist.figures import (
    plot_cumulative_time,
    plot_speed_up,
    plot_time_to_accuracy,
)
from dr_lib.report.groups import NoRunsError
from tests.mnist.test_epochs import T4, make_run, make_timed
from tests.report.reading import is_whole, timed_runs, words

FORTY = [0.9 + 0.001 * k for k in range(40)]
SPREAD = (0.98, 1.0, 1.02)


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
    rows = [
        make_run(name, batch, epoch_s * s, FORTY, boot=f"{hardware} {s}", **hardware)
        for s in SPREAD
        for name, batch, epoch_s, hardware in kinds
    ]
    work = {"epochs": 40, "data_kind": "given", "data_share": 1}
    return pd.DataFrame(rows).assign(**work | columns)


def take_lines(ax):
    """Lines of the panel with a name."""
    return {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}


def test_figure_1a_has_a_line_per_implementation():
    """Medians of the runs after each epoch, in a band from the fastest to the slowest."""
    ax = plot_cumulative_time(timed_runs(make_paper())).axes[0]
    lines = take_lines(ax)
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
    assert one.get_color() == many.get_color()


def test_figure_1b_ends_where_half_have_not_arrived():
    """80 % after one epoch, 95 % after two by one run of two: the other stops at 85 %."""
    two = make_run(), make_run(epoch_s=2.0, accuracies=[0.8, 0.85, 0.85])
    errors, seconds = plot_time_to_accuracy(make_timed(*two)).axes[0].lines[0].get_data()
    levels = (1 - errors / 100).round(9)
    assert set(seconds[levels <= 0.8]) == {1.5}  # the median of 1 and 2 s
    assert np.isfinite(seconds[levels <= 0.85]).all() and np.isnan(seconds[levels > 0.85]).all()


def test_figure_2_compares_with_each_keras_and_dots_unlike_batches():
    """At batch 1 solid, 60 / 0.2; against batch 32 dotted, 621 / 219 as in the paper."""
    figure = plot_speed_up(timed_runs(make_paper()))
    like, unlike = figure.axes
    titles = [ax.get_title(loc="left").replace("\n", " ") for ax in (like, unlike)]
    assert titles == [f"against Keras / TensorFlow, batch {batch}, CPU" for batch in (1, 32)]
    assert {line.get_linestyle() for line in like.lines[:2]} == {"-"}
    assert {line.get_linestyle() for line in unlike.lines[:2]} == {":"}
    assert like.lines[1].get_ydata()[-1] == pytest.approx(60 / 0.2)
    assert unlike.lines[0].get_ydata()[-1] == pytest.approx(621 / 219)


def test_the_figures_speak_portuguese_and_nothing_is_clipped():
    """With decimal commas; all text lies inside the picture; without runs there is none."""
    timed = timed_runs(make_paper(platform="some cloud"))
    plots = plot_cumulative_time, plot_time_to_accuracy, plot_speed_up
    figures = [plot(timed, "pt") for plot in plots]
    found = "\n".join(map(words, figures))
    for text in ("tempo de treinamento acumulado [s]", "CUDA C fundido, lote 1"):
        assert text in found
    assert all(map(is_whole, figures))
    for plot in plots[:2]:
        with pytest.raises(NoRunsError, match="notebook 40"):
            plot(timed_runs(pd.DataFrame()))
    with pytest.raises(NoRunsError, match="Keras on the same host"):
        plot_speed_up(make_timed(make_run(), make_run("keras_jax", cpu="EPYC")))
