"""Figure 1 and the sweep, read back from what was drawn."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dr_lib.claims.claims import list_printed
from dr_lib.report.figures import plot_throughput, plot_training_time
from dr_lib.report.groups import select_runs
from tests.report.reading import is_whole, words
from tests.report.real_rows import CPU, PAPER_A, T4X2, TPU
from tests.report.test_groups import run

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
    paper, ours = plot(run([19, 20, 21])).axes
    assert means(ours) == pytest.approx([20], rel=1e-3)
    assert means(paper) == pytest.approx([51.33, 33.24])
    assert "[min]" in paper.get_title(loc="left") and "[s]" in ours.get_title(loc="left")
    (one,) = plot(run([3000], T4X2, **PAPER_A)).axes
    assert means(one) == pytest.approx([51.33, 33.24, 50])
    assert len(means(plot(pd.DataFrame()).axes[0])) == 2


def test_a_mean_carries_spread_runs_and_n():
    """19, 20 and 21 min: an interval, three points, of which the disturbed one is hollow, n = 3."""
    runs = run([1140, 1200, 1260], disturbed=[False, False, True])
    (ax,) = plot(runs, published=None).axes
    (points,) = ax.collections
    assert points.get_offsets()[:, 0].tolist() == [19, 20, 21]
    assert [all(colour == 1) for colour in points.get_facecolors()] == [False, False, True]
    logs = np.log([19, 20, 21])
    assert means(ax) == pytest.approx([np.exp(logs.mean())])
    interval = next(line for line in ax.lines if line.get_linewidth() == 2.4)
    ends = stats.ttest_1samp(logs, 0).confidence_interval()
    assert np.log(interval.get_xdata()) == pytest.approx([*ends])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["CPU\nn = 3, sessions: 1"]


def test_the_figure_speaks_portuguese_and_nothing_is_clipped_or_overlaps():
    """Decimals have commas; all text lies inside the picture, and no two numbers touch."""
    machines = {(3060, 3090, 3120): T4X2, (1980.5,): TPU, (9999,): CPU}
    runs = [run(seconds, machine) for seconds, machine in machines.items()]
    figure = plot(pd.concat(runs), "pt")
    title = "Artigo: rede, número de fotos não publicados"
    for text in (title, "51,3 min", "Kaggle, 2 x Tesla T4\nn = 3, sessões: 1"):
        assert text in words(figure)
    assert is_whole(figure)
    texts = [text for ax in figure.axes for text in [*ax.texts, *ax.get_yticklabels()]]
    boxes = [text.get_window_extent() for text in [*texts, *figure.texts]]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_speed_is_drawn_against_the_batch_and_a_line_joins_equal_work():
    """Means of runs; nothing of a single batch, or of runs of one epoch, which tell no speed.
    Batches of two image sides are two lines; of two drivers, which the user pools, one.
    """
    one, other = (
        run([1, 1], batch_size=batch, images_per_s=[batch, 4.0 * batch]) for batch in (1, 8)
    )
    of_one_epoch = pd.concat([one, other]).assign(images_per_s=None)
    for runs in (one, of_one_epoch, pd.DataFrame()):
        assert not plot_throughput(select_runs(runs)).axes
    for changes, pool, number in (
        ({}, [], 1),
        ({"image_size": 96}, [], 2),
        ({"driver": "570"}, [], 2),
        ({"driver": "570"}, ["driver"], 1),
    ):
        runs = pd.concat([one, other.assign(**changes)], ignore_index=True)
        (ax,) = plot_throughput(select_runs(runs, pool=pool)).axes
        assert len(ax.lines) == number
        if number == 1:
            assert ax.lines[0].get_xydata().ravel() == pytest.approx([1, 2, 8, 16])
