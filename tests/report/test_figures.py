"""Figure 1, read back from what was drawn."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from scipy import stats

from dr_lib.claims.claims import list_printed
from dr_lib.report.figures import plot_history, plot_throughput, plot_training_time
from dr_lib.report.groups import select_runs
from dr_lib.report.style import ACCELERATOR_COLOURS, OURS, THEIRS
from tests.report.reading import is_whole, words
from tests.report.timed_rows import CPU, T4, TPU, make_runs

PAPER = list_printed("A")


def plot(runs, lang="en", published=PAPER):
    """The figure of these rows."""
    return plot_training_time(select_runs(runs).timed, lang, published=published)


def means(ax):
    """The large points of a panel, from the top, and their colours."""
    large = [line for line in ax.lines if line.get_markersize() == 8]
    return [(line.get_xdata()[0], to_hex(line.get_color())) for line in large]


def labels(ax):
    """What names the means of a panel, from the top."""
    return [label.get_text() for label in ax.get_yticklabels()]


def test_each_mode_has_its_line_below_the_papers():
    """90 s and 180 s on one CPU are two means, not one of 135 s; a cold run is no part of the mean
    of warm ones.
    """
    modes = make_runs([90.0, 180.0], CPU, mode=["fast", "paper"])
    runs = pd.concat([modes, make_runs([540.0], T4, mode="paper")], ignore_index=True)
    (ax,) = plot(runs, published=None).axes
    assert [minutes for minutes, _ in means(ax)] == pytest.approx([9, 3, 1.5])
    groups = ("Kaggle, 2 x Tesla T4, paper", "CPU, paper", "CPU, fast")
    assert labels(ax) == [f"{group}\nn = 1, sessions: 1" for group in groups]

    runs = make_runs([39.1, 14.7, 12.6], T4, cold=[True, False, False])
    (ax,) = plot(runs, published=None).axes
    assert [seconds for seconds, _ in means(ax)] == pytest.approx([(14.7 * 12.6) ** 0.5])
    assert labels(ax) == ["Kaggle, 2 x Tesla T4\nn = 2, sessions: 1"]


def test_other_work_has_an_axis_of_its_own():
    """A small network of 20 s is not set beside 51 min of the paper's; what we read its work to be
    is. The paper names no network: only our rows do. Before anything has been measured the paper
    stands alone.
    """
    paper, ours = plot(make_runs([19.0, 20, 21], CPU)).axes
    assert [seconds for seconds, _ in means(ours)] == pytest.approx([20], rel=1e-3)
    assert [minutes for minutes, _ in means(paper)] == pytest.approx([51.33, 33.24])
    title = "Paper: network, number of photos not published [min]"
    assert paper.get_title(loc="left") == title and "[s]" in ours.get_title(loc="left")
    like = {"model": "inception_v3", "image_size": 299, "epochs": 200}
    (one,) = plot(make_runs([3000.0], T4, **like)).axes
    assert [minutes for minutes, _ in means(one)] == pytest.approx([51.33, 33.24, 50])
    assert ["InceptionV3" in label for label in labels(one)] == [False, False, True]
    (alone,) = plot(pd.DataFrame()).axes
    assert [minutes for minutes, _ in means(alone)] == pytest.approx([51.33, 33.24])


def test_a_mean_carries_spread_runs_and_n():
    """19, 20 and 21 min, of which the last was disturbed: an interval, three points, of which one
    is hollow, and n = 3.
    """
    runs = make_runs([1140.0, 1200, 1260], CPU, disturbed=[False, False, True])
    (ax,) = plot(runs, published=None).axes
    points = [line for line in ax.lines if line.get_markersize() == 3.5]
    filled = {line.get_markerfacecolor() != "white": [*line.get_xdata()] for line in points}
    assert filled == {True: [19, 20], False: [21]}
    logs = np.log([19, 20, 21])
    assert [minutes for minutes, _ in means(ax)] == pytest.approx([np.exp(logs.mean())])
    interval = next(line for line in ax.lines if line.get_linewidth() == 2.4)
    ends = stats.ttest_1samp(logs, 0).confidence_interval()
    assert np.log(interval.get_xdata()) == pytest.approx([*ends])
    assert labels(ax) == ["CPU\nn = 3, sessions: 1"]


def test_the_figure_speaks_portuguese_and_nothing_is_clipped_or_overlaps():
    """Decimals have commas; all text lies inside the picture, and no two numbers touch. Each kind
    of accelerator has its colour, and what the paper published is grey.
    """
    machines = {(3060.0, 3090, 3120): T4, (1980.5,): TPU, (9999.0,): CPU}
    runs = [make_runs(seconds, machine) for seconds, machine in machines.items()]
    figure = plot(pd.concat(runs), "pt")
    title = "Artigo: rede, número de fotos não publicados"
    for word in (title, "51,3 min", "0,858 h", "sessões: 1"):
        assert word in words(figure)
    assert is_whole(figure)
    texts = [text for ax in figure.axes for text in [*ax.texts, *ax.get_yticklabels()]]
    boxes = [text.get_window_extent() for text in [*texts, *figure.texts]]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    paper, ours = figure.axes
    kinds = [ACCELERATOR_COLOURS[kind] for kind in ("cpu", "gpu", "tpu")]
    assert [colour for _, colour in means(ours)] == kinds
    assert {colour for _, colour in means(paper)} == {THEIRS}


def test_speed_is_drawn_against_the_batch_a_line_a_machine_and_mode():
    """Means and intervals of three runs, and of two a mean; nothing of a single batch."""
    speeds = {("fast", 1): [9, 10, 11], ("fast", 8): [60, 70], ("paper", 1): [5, 6, 7]}
    runs = [
        make_runs([1.0] * len(values), CPU, mode=mode, batch_size=batch, images_per_s=values)
        for (mode, batch), values in speeds.items()
    ]
    timed = select_runs(pd.concat(runs, ignore_index=True)).timed
    (ax,) = plot_throughput(timed).axes
    fast, paper = (line.get_ydata() for line in ax.lines)
    assert [*fast, *paper] == pytest.approx([990 ** (1 / 3), 4200**0.5, 210 ** (1 / 3)])
    (interval, none), _ = (lines.get_segments() for lines in ax.collections)
    ends = stats.ttest_1samp(np.log([9, 10, 11]), 0).confidence_interval()
    assert np.log(interval[:, 1]) == pytest.approx([*ends]) and not len(none)
    assert {text.get_text() for text in ax.texts} == {"CPU, fast", "CPU, paper"}
    assert is_whole(ax.figure)
    assert not plot_throughput(timed[timed["batch_size"] == 1]).axes


def test_a_history_begins_with_epoch_1_and_names_its_lines():
    """Training grey, validation in the colour of ours; without a validation split, training."""
    history = pd.DataFrame({"loss": [0.7, 0.5], "auc": [0.6, 0.8], "val_loss": [0.8, 0.7]})
    figure = plot_history(history, "photographs")
    loss, auc = figure.axes
    lines = [(line.get_xydata().tolist(), line.get_color()) for line in loss.lines]
    expected = [([[1, 0.7], [2, 0.5]], THEIRS), ([[1, 0.8], [2, 0.7]], OURS)]
    assert lines == expected and len(auc.lines) == 1
    assert (loss.get_title("left"), loss.get_title("right")) == ("training", "validation")
    assert "epoch; photographs" in words(figure) and is_whole(figure)
