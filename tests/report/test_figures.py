"""Figure 1, read back from what was drawn."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dr_lib.claims.claims import list_printed
from dr_lib.report.figures import plot_throughput, plot_training_time
from dr_lib.report.groups import select_runs
from tests.report.reading import is_whole, words
from tests.report.timed_rows import CPU, T4, TPU, make_runs

PAPER = list_printed("A")


def plot(runs, lang="en", published=PAPER):
    """The figure of these rows."""
    return plot_training_time(select_runs(runs).timed, lang, published=published)


def means(ax):
    """The large points of a panel, from the top."""
    return [line.get_xdata()[0] for line in ax.lines if line.get_markersize() == 8]


def test_other_work_has_an_axis_of_its_own():
    """A small network of 20 s is not set beside 51 min of the paper's; what we read its work to be
    is. The paper names no network: only our rows do. Before anything has been measured the paper
    stands alone.
    """
    paper, ours = plot(make_runs([19.0, 20, 21], CPU)).axes
    assert means(ours) == pytest.approx([20], rel=1e-3)
    assert means(paper) == pytest.approx([51.33, 33.24])
    assert "[min]" in paper.get_title(loc="left") and "[s]" in ours.get_title(loc="left")
    like = {"model": "inception_v3", "image_size": 299, "epochs": 200}
    (one,) = plot(make_runs([3000.0], T4, **like)).axes
    assert means(one) == pytest.approx([51.33, 33.24, 50])
    assert len(means(plot(pd.DataFrame()).axes[0])) == 2


def test_a_mean_carries_spread_runs_and_n():
    """19, 20 and 21 min: an interval, three points, of which the disturbed one is apart, n = 3."""
    runs = make_runs([1140.0, 1200, 1260], CPU, disturbed=[False, False, True])
    (ax,) = plot(runs, published=None).axes
    points = [[*line.get_xdata()] for line in ax.lines if line.get_markersize() == 3.5]
    assert points == [[19, 20], [21]]
    logs = np.log([19, 20, 21])
    assert means(ax) == pytest.approx([np.exp(logs.mean())])
    interval = next(line for line in ax.lines if line.get_linewidth() == 2.4)
    ends = stats.ttest_1samp(logs, 0).confidence_interval()
    assert np.log(interval.get_xdata()) == pytest.approx([*ends])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["CPU\nn = 3, sessions: 1"]


def test_the_figure_speaks_portuguese_and_nothing_is_clipped_or_overlaps():
    """Decimals have commas; all text lies inside the picture, and no two numbers touch."""
    machines = {(3060.0, 3090, 3120): T4, (1980.5,): TPU, (9999.0,): CPU}
    runs = [make_runs(seconds, machine) for seconds, machine in machines.items()]
    figure = plot(pd.concat(runs), "pt")
    title = "Artigo: rede, número de fotos não publicados"
    assert all(word in words(figure) for word in (title, "51,3 min", "sessões: 1"))
    assert is_whole(figure)
    texts = [text for ax in figure.axes for text in [*ax.texts, *ax.get_yticklabels()]]
    boxes = [text.get_window_extent() for text in [*texts, *figure.texts]]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_speed_is_drawn_against_the_batch():
    """Means of runs; nothing of a single batch."""
    runs = [
        make_runs([1.0] * 2, CPU, batch_size=batch, images_per_s=[batch, 4.0 * batch])
        for batch in (1, 8)
    ]
    selection = select_runs(pd.concat(runs, ignore_index=True))
    ((line,),) = [ax.lines for ax in plot_throughput(selection).axes]
    assert line.get_xydata().ravel() == pytest.approx([1, 2, 8, 16])
    assert not plot_throughput(select_runs(runs[0])).axes


def test_a_line_joins_equal_work_and_what_is_pooled():
    """Batches of two image sides are two lines; of two drivers, which the user pools, one."""
    one, other = (make_runs([1.0] * 2, CPU, batch_size=batch) for batch in (1, 8))
    for changes, pool, number in (
        ({"image_size": 96}, [], 2),
        ({"num_cpus": 99}, [], 2),
        ({"num_cpus": 99}, ["num_cpus"], 1),
    ):
        runs = pd.concat([one, other.assign(**changes)], ignore_index=True)
        selection = select_runs(runs.assign(images_per_s=1.0), pool=pool)
        (ax,) = plot_throughput(selection).axes
        assert len(ax.lines) == number
