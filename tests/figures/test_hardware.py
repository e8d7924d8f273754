"""Figure 1, read back from what was drawn."""

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from dr_lib.figures.hardware import (
    ACCELERATOR_COLOURS,
    NoRunsError,
    UnlikeRunsError,
    check_alike,
    plot_training_time,
    timed_runs,
)

CPU = {"platform": "local", "accelerator": "cpu", "num_accelerators": 1}
T4 = {"platform": "kaggle", "accelerator": "Tesla T4", "num_accelerators": 2}
TPU = {"platform": "colab", "accelerator": "TPU v5 lite", "num_accelerators": 1}


def make_runs(seconds, hardware, **columns):
    """A row for each time."""
    row = {"status": "ok", "data_kind": "photographs", "model": "small_cnn"} | hardware
    return pd.DataFrame([row | {"train_s": s} | columns for s in seconds])


def widths(ax):
    """The lengths of the bars, from the top."""
    return [bar.get_width() for bar in ax.patches]


def words(figure):
    """Everything written in the figure."""
    axes = [t.get_text() for ax in figure.axes for t in [*ax.texts, *ax.get_yticklabels(), ax.xaxis.label]]
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    return "\n".join([figure.get_suptitle(), figure.get_supxlabel(), *titles, *axes])


def test_environments_are_told_apart_by_instance_and_mode_where_they_must_be():
    """Two instances of one platform and processor get their names; the paper's mode goes without saying."""
    runs = [make_runs([1], T4, instance=""), make_runs([1], T4, instance="", mode="paper")]
    runs += [make_runs([1], T4, instance="", mode="fast"), make_runs([1], TPU, instance="", mode="scaled")]
    runs += [make_runs([1], CPU, instance="a", disturbed=True), make_runs([1], CPU, instance="b", mode="fast")]
    timed = timed_runs(pd.concat(runs))
    assert list(timed["environment"].unique()) == [
        "kaggle, 2 x Tesla T4",
        "kaggle, 2 x Tesla T4, fast",
        "colab, TPU v5 lite, scaled",
        "local, CPU, b, fast",  # whether or not the rows of a are timed
    ]
    assert list(timed["machine"].unique()) == ["kaggle, 2 x Tesla T4", "colab, TPU v5 lite", "local, CPU, b"]
    assert list(timed["mode"]) == ["paper", "paper", "fast", "scaled", "fast"]


def test_unlike_runs_are_refused_by_column_and_value():
    """Neither a model nor a dirty commit slips into a mean."""
    runs = [make_runs([1], CPU, commit="c"), make_runs([1], CPU, model="mobilenet", commit="c-dirty")]
    runs = timed_runs(pd.concat(runs))
    with pytest.raises(UnlikeRunsError, match=r"commit \(c, c-dirty\); model \(mobilenet, small_cnn\)"):
        check_alike(runs)
    with pytest.raises(UnlikeRunsError, match="commit"):
        check_alike(runs, allow=["model"])
    check_alike(runs, allow=["model", "commit"])


@pytest.mark.parametrize(
    ("column", "one", "other"),
    [
        ("precision", "mixed_float16", "mixed_bfloat16"),
        ("num_replicas", 2, 8),
        ("on_device", True, False),
        ("steps_per_execution", 1, 32),
    ],
)
def test_the_plan_may_differ_between_machines_and_modes_not_within(column, one, other):
    """The fast mode takes float16 on a GPU and bfloat16 on a TPU; that is its plan, not a slip."""
    gpu, tpu = (make_runs([1], hardware, mode="fast", **{column: one}) for hardware in (T4, TPU))
    check_alike(timed_runs(pd.concat([gpu, tpu.assign(**{column: other})])))
    check_alike(timed_runs(pd.concat([gpu, gpu.assign(**{column: other}, mode="paper")])), allow=["mode"])
    with pytest.raises(UnlikeRunsError, match=column):
        check_alike(timed_runs(pd.concat([gpu, gpu.assign(**{column: other})])))


def test_modes_are_pooled_only_when_asked_and_may_then_set_the_batch():
    """Mode scaled has its batch and learning rate; two batches in one mode, or other epochs, stay unlike."""
    paper = make_runs([2], T4, mode="paper", batch_size=8, learning_rate=0.001, warmup_epochs=0, epochs=20)
    scaled = paper.assign(mode="scaled", batch_size=64, learning_rate=0.0028, warmup_epochs=5)
    with pytest.raises(UnlikeRunsError, match=r"rows differ in mode \(paper, scaled\):"):
        check_alike(timed_runs(pd.concat([paper, scaled])))
    check_alike(timed_runs(pd.concat([paper, scaled])), allow=["mode"])
    for column, value in (("batch_size", 128), ("learning_rate", 0.1), ("warmup_epochs", 9), ("epochs", 10)):
        with pytest.raises(UnlikeRunsError, match=column):
            check_alike(timed_runs(pd.concat([paper, scaled, scaled.assign(**{column: value})])), allow=["mode"])
    with pytest.raises(UnlikeRunsError, match="epochs"):
        check_alike(timed_runs(pd.concat([paper, scaled.assign(epochs=10)])), allow=["mode"])


def test_each_mode_has_its_bar_below_the_papers():
    """1.5 s and 3 s on one CPU are two bars, not one of 2.25 s; the machine that began first stays first."""
    runs = [make_runs([1.5], CPU, mode="fast"), make_runs([9.0], T4, mode="paper"), make_runs([3.0], CPU, mode="paper")]
    ax = plot_training_time(pd.concat(runs), published=False, allow=["mode"]).axes[0]
    assert widths(ax) == pytest.approx([3, 1.5, 9])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == [f"{place}\nn = 1" for place in ("local, CPU", "local, CPU, fast", "kaggle, 2 x Tesla T4")]


def test_seconds_have_an_axis_of_their_own():
    """A demonstration of 20 s would vanish beside 51 min; the paper's two printed means stand below it."""
    figure = plot_training_time(make_runs([19.0, 20, 21], CPU))
    ours, paper = figure.axes
    assert widths(ours) == pytest.approx([20])
    assert widths(paper) == pytest.approx([51.33, 33.24])
    assert ours.get_xlabel().endswith("[s]")
    assert paper.get_xlabel().endswith("[min]")
    assert ours.get_xlim() != paper.get_xlim()


def test_times_like_the_papers_share_its_axis():
    """Bars of both panels can be compared by eye then."""
    runs = pd.concat([make_runs([3060.0, 3120], T4), make_runs([1980.0, 2040], TPU)])
    ours, paper = plot_training_time(runs).axes
    assert widths(ours) == pytest.approx([51.5, 33.5])
    assert ours.get_xlim() == paper.get_xlim()
    assert ours.get_xlabel().endswith("[min]")


def test_bars_carry_mean_spread_runs_and_n():
    """19, 20 and 21 s: error bar from 19 to 21 (one standard deviation), three points, n = 3."""
    ax = plot_training_time(make_runs([19.0, 20, 21], CPU), published=False).axes[0]
    points = [line for line in ax.lines if line.get_marker() == "o"]
    assert sorted(points[0].get_xdata()) == [19, 20, 21]
    error = [x for line in ax.lines if line not in points for x in line.get_xdata() if x == x]
    assert (min(error), max(error)) == pytest.approx((19, 21))
    assert ax.get_yticklabels()[0].get_text() == "local, CPU\nn = 3"


def test_one_colour_for_each_kind_of_accelerator():
    """The paper's bars have the colours of ours, hatched and lighter."""
    runs = pd.concat([make_runs([3000.0], T4), make_runs([2000.0], TPU), make_runs([4000.0], CPU)])
    ours, paper = plot_training_time(runs).axes
    kinds = [to_hex(bar.get_facecolor()) for bar in ours.patches]
    assert kinds == [ACCELERATOR_COLOURS[kind] for kind in ("gpu", "tpu", "cpu")]
    assert [to_hex(bar.get_facecolor()) for bar in paper.patches] == kinds[:2]
    assert all(bar.get_hatch() and bar.get_alpha() < 1 for bar in paper.patches)


@pytest.mark.parametrize(
    ("lang", "found"),
    [
        ("en", ["Training time", "synthetic sample, not photographs", "51.33", "20.00 [", "standard deviation"]),
        ("pt", ["Tempo de treinamento", "amostra sintética", "51,33", "20,00 [", "desvio padrão"]),
    ],
)
def test_the_figure_speaks_both_languages(lang, found):
    """Drawn data is said in the title; Portuguese has decimal commas."""
    figure = plot_training_time(make_runs([19.0, 20, 21], CPU, data_kind="synthetic"), lang)
    assert all(word in words(figure) for word in found)
    assert {ax.xaxis.get_major_formatter()(2.5, 0) for ax in figure.axes} == {{"en": "2.5", "pt": "2,5"}[lang]}


def test_photographs_are_not_called_drawn():
    """The warning is for the sample alone."""
    assert "synthetic" not in words(plot_training_time(make_runs([20.0], CPU)))


def test_nothing_is_clipped_or_overlaps():
    """All text lies inside the picture, and no two numbers touch."""
    runs = pd.concat([make_runs([3060.0, 3120], T4), make_runs([1980.0, 2040], TPU), make_runs([9999.0], CPU)])
    figure = plot_training_time(runs, "pt")
    figure.draw_without_rendering()
    boxes = [t.get_window_extent() for ax in figure.axes for t in [*ax.texts, *ax.get_yticklabels()]]
    boxes += [t.get_window_extent() for t in figure.texts]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 for box in boxes)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_only_runs_that_count_are_drawn():
    """Failed, resumed and disturbed runs change no bar; `keep` takes them in."""
    flawed = [make_runs([99.0], CPU, **flaw) for flaw in ({"status": "failed"}, {"resumed": 1}, {"disturbed": True})]
    runs = pd.concat([make_runs([20.0, 20], CPU), *flawed])
    assert widths(plot_training_time(runs).axes[0]) == pytest.approx([20])
    assert widths(plot_training_time(runs, keep=["resumed"]).axes[0]) == pytest.approx([(20 + 20 + 99) / 3])


def test_without_runs_the_paper_stands_alone():
    """Before anything has been measured the figure holds the paper's two bars, in minutes."""
    (axes,) = plot_training_time(pd.DataFrame()).axes
    assert widths(axes) == pytest.approx([51.33, 33.24])


def test_refuses_what_would_be_no_figure():
    """No finished run, unlike runs, and a language without words."""
    with pytest.raises(NoRunsError, match="status"):
        plot_training_time(make_runs([20.0], CPU, status="failed"))
    with pytest.raises(NoRunsError, match="status"):
        plot_training_time(pd.DataFrame(), published=False)
    with pytest.raises(UnlikeRunsError, match="model"):
        plot_training_time(pd.concat([make_runs([1.0], CPU), make_runs([2.0], CPU, model="mobilenet")]))
    with pytest.raises(ValueError, match="lang"):
        plot_training_time(make_runs([1.0], CPU), "de")
