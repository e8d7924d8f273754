"""Figure 1, read back from what was drawn."""

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from dr_lib.evidence.select import select_runs
from dr_lib.figures.style import ACCELERATOR_COLOURS
from dr_lib.figures.training_time import plot_history, plot_speed_up, plot_training_time
from tests.figures.reading import is_whole, words

CPU = {"platform": "local", "accelerator": "cpu", "num_accelerators": 1}
T4 = {"platform": "kaggle", "accelerator": "Tesla T4", "num_accelerators": 2}
TPU = {"platform": "colab", "accelerator": "TPU v5 lite", "num_accelerators": 1}


def make_runs(seconds, hardware, **columns):
    """A row for each time."""
    row = {
        "run_id": "r",
        "status": "ok",
        "data_kind": "photographs",
        "model": "small_cnn",
    } | hardware
    return pd.DataFrame([row | {"train_s": s} | columns for s in seconds])


def plot(runs, lang="en", **options):
    """The figure of these rows."""
    return plot_training_time(select_runs(runs, may_differ=["mode"]).timed, lang, **options)


def widths(ax):
    """The lengths of the bars, from the top."""
    return [bar.get_width() for bar in ax.patches]


def test_each_mode_has_its_bar_below_the_papers():
    """1.5 s and 3 s on one CPU are two bars, not one of 2.25 s; the machine that began first
    stays first.
    """
    runs = [
        make_runs([1.5], CPU, mode="fast"),
        make_runs([9.0], T4, mode="paper"),
        make_runs([3.0], CPU, mode="paper"),
    ]
    ax = plot(pd.concat(runs), published=False).axes[0]
    assert widths(ax) == pytest.approx([3, 1.5, 9])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == [
        f"{place}\nn = 1"
        for place in ("local, CPU", "local, CPU, fast", "kaggle, 2 x Tesla T4")
    ]


def test_seconds_have_an_axis_of_their_own():
    """A demonstration of 20 s would vanish beside 51 min, and a bar of it mislead: its mean is a
    line.
    """
    figure = plot(make_runs([19.0, 20, 21], CPU))
    ours, paper = figure.axes
    means = [line.get_xdata() for line in ours.lines if line.get_marker() == "|"]
    assert widths(ours) == [] and [list(mean) for mean in means] == [pytest.approx([20])]
    assert widths(paper) == pytest.approx([51.33, 33.24])
    assert ours.get_xlabel().endswith("[s]")
    assert paper.get_xlabel().endswith("[min]")
    assert ours.get_xlim() != paper.get_xlim()


def test_times_like_the_papers_share_its_axis():
    """Bars of both panels can be compared by eye then."""
    runs = pd.concat([make_runs([3060.0, 3120], T4), make_runs([1980.0, 2040], TPU)])
    ours, paper = plot(runs).axes
    assert widths(ours) == pytest.approx([51.5, 33.5])
    assert ours.get_xlim() == paper.get_xlim()
    assert ours.get_xlabel().endswith("[min]")


def test_bars_carry_mean_spread_runs_and_n():
    """19, 20 and 21 s: error bar from 19 to 21 (one standard deviation), three points, n = 3."""
    ax = plot(make_runs([19.0, 20, 21], CPU), published=False).axes[0]
    points = [line for line in ax.lines if line.get_marker() == "o"]
    assert sorted(x for line in points for x in line.get_xdata()) == [19, 20, 21]
    error = [x for line in ax.lines if line not in points for x in line.get_xdata() if x == x]
    assert (min(error), max(error)) == pytest.approx((19, 21))
    assert ax.get_yticklabels()[0].get_text() == "local, CPU\nn = 3"
    # hollow, and in the mean
    runs = pd.concat([make_runs([20.0, 22], CPU), make_runs([27.0], CPU, disturbed=True)])
    ax = plot(runs, published=False).axes[0]
    points = {
        line.get_markerfacecolor(): list(line.get_xdata())
        for line in ax.lines
        if line.get_marker() == "o"
    }
    assert points == {"black": [20, 22], "white": [27]} and widths(ax) == pytest.approx([23])


def test_one_colour_for_each_kind_of_accelerator():
    """The paper's bars have the colours of ours, hatched and lighter."""
    runs = pd.concat(
        [make_runs([3000.0], T4), make_runs([2000.0], TPU), make_runs([4000.0], CPU)]
    )
    ours, paper = plot(runs).axes
    kinds = [to_hex(bar.get_facecolor()) for bar in ours.patches]
    assert kinds == [ACCELERATOR_COLOURS[kind] for kind in ("gpu", "tpu", "cpu")]
    assert [to_hex(bar.get_facecolor()) for bar in paper.patches] == kinds[:2]
    assert all(bar.get_hatch() and bar.get_alpha() < 1 for bar in paper.patches)


def test_the_figure_speaks_portuguese_and_nothing_is_clipped_or_overlaps():
    """Decimals have commas; all text lies inside the picture, and no two numbers touch."""
    figure = plot(
        pd.concat(
            [make_runs([3060.0, 3120], T4), make_runs([1980.5], TPU), make_runs([9999.0], CPU)]
        ),
        "pt",
    )
    for word in ("Tempo de treinamento", "51,33", "51,5 [", "desvio padrão"):
        assert word in words(figure)
    assert is_whole(figure) and {
        ax.xaxis.get_major_formatter()(2.5, 0) for ax in figure.axes
    } == {"2,5"}
    boxes = [
        t.get_window_extent() for ax in figure.axes for t in [*ax.texts, *ax.get_yticklabels()]
    ]
    boxes += [t.get_window_extent() for t in figure.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_without_runs_the_paper_stands_alone():
    """Before anything has been measured the figure holds the paper's two bars, in minutes."""
    (axes,) = plot(pd.DataFrame()).axes
    assert widths(axes) == pytest.approx([51.33, 33.24])


def test_a_history_is_drawn_epoch_by_epoch():
    """Both splits on whole epochs from 1 on; without a validation split the training alone."""
    history = [
        {"loss": 0.7, "auc": 0.5, "val_loss": 0.8, "val_auc": 0.6},
        {"loss": 0.6, "auc": 0.7, "val_loss": 0.7},
    ]
    loss, auc = plot_history(history, "photographs").axes
    assert [line.get_xydata().tolist() for line in loss.lines] == [
        [[1, 0.7], [2, 0.6]],
        [[1, 0.8], [2, 0.7]],
    ]
    assert all(tick == int(tick) for tick in auc.get_xticks()) and len(auc.lines) == 2
    assert len(plot_history([{"loss": 0.7, "auc": 0.5}], "photographs").axes[0].lines) == 1


@pytest.mark.parametrize(
    ("lang", "words"), [("en", "Speed-up by the number"), ("pt", "Aceleração pelo número")]
)
def test_the_speed_up_has_the_ideal_beside_it(lang, words):
    """Two machines that are 1.6 times as fast as one, below the line of twice."""
    speedups = {"speedup": [1.0, 1.6], "speedup_low": [1.0, 1.5], "speedup_high": [1.0, 1.7]}
    table = pd.DataFrame({"rehearsed": False, "num_machines": [1, 2], **speedups})
    figure = plot_speed_up(table, lang)
    ideal, ours = (line.get_ydata().tolist() for line in figure.axes[0].lines[:2])
    assert (ideal, ours) == ([1, 2], [1.0, 1.6]) and words in figure.get_suptitle()
