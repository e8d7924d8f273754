"""Effects, allocation of variation and the front, read back from what was drawn."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from dr_lib.figures.effects import plot_cost_front, plot_effects, plot_variation
from dr_lib.figures.style import FRAMEWORK_COLOURS
from tests.figures.reading import is_whole

EFFECTS = pd.DataFrame(
    [
        ("framework", "mxnet", 0.5, 0.45, 0.55),
        ("framework", "pytorch", 2.0, 1.8, 2.2),
        ("network", 1, 1.0, 0.9, 1.1),
    ],
    columns=["factor", "level", "effect", "low", "high"],
)
# Jain 1991, chapter 18: 78.88, 15.40, 4.27 and 1.45 %
ALLOCATION = pd.DataFrame(
    [
        ("network", 1, 0.1540, 0.002),
        ("image_size", 1, 0.7888, 1e-9),
        ("image_size x network", 2, 0.0427, 0.01),
    ]
    + [("residual", 0, 0.0145, np.nan)],
    columns=["term", "num_factors", "share", "p"],
)


def make_runs(points, **columns):
    """Two runs, about 1 % apart, of each (environment, framework, network): time in s and cost
    in USD.
    """
    row = {"dataset": "mnist", "image_size": 32, "accelerator": "cpu", "data_kind": "synthetic"}
    row |= {"scenario": "C1", "repetition": 0}
    names = ["environment", "framework", "network"]
    rows = [
        row | dict(zip(names, key, strict=True)) | {"train_s": t, "cost_usd": c}
        for key, (t, c) in points.items()
    ]
    rows = [
        r | {"train_s": r["train_s"] * f, "cost_usd": r["cost_usd"] * f}
        for r in rows
        for f in (0.99, 1.01)
    ]
    return pd.DataFrame(rows).assign(**columns)


COMPETITORS = make_runs(
    {
        ("cheap", "mxnet", 1): (100, 1.0),
        ("cheap", "pytorch", 1): (150, 1.5),
        ("fast", "mxnet", 1): (10, 3.0),
        ("fast", "pytorch", 1): (20, 3.0),
        ("fast", "mxnet", 2): (90, 0.9),
    }
)


def read_front(ax):
    """The points of the line that marks the front."""
    (line,) = [line for line in ax.lines if line.get_label().startswith(("front", "fronteira"))]
    return [pytest.approx(point) for point in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def test_the_front_compares_the_same_work_alone():
    """Rede 2 in 90 s for 0.9 USD does not beat Rede 1 in 100 s for 1 USD: each network has its
    panel.

    Nothing beats what is faster or cheaper; what takes longer at the same cost is beaten, and what
    is free not drawn.
    """
    free = COMPETITORS.head(1).assign(cost_usd=0.0)
    first, second = plot_cost_front(pd.concat([COMPETITORS, free])).axes
    assert [ax.get_title() for ax in (first, second)] == [
        "MNIST, 32 px, Rede 1",
        "MNIST, 32 px, Rede 2",
    ]
    assert read_front(first) == [(10, 3), (100, 1)] and read_front(second) == [(90, 0.9)]
    assert first.get_xscale() == first.get_yscale() == "log"
    # four small clouds of two and four large points in the first panel; an environment has its
    # marker
    first = plot_cost_front(COMPETITORS).axes[0]
    small, large = (
        [line for line in first.lines if line.get_markersize() == size] for size in (3, 7)
    )
    assert [len(line.get_xdata()) for line in small] == [2] * 4
    shown = {line.get_label(): (to_hex(line.get_color()), line.get_marker()) for line in large}
    assert shown["MXNet, cheap"] == (FRAMEWORK_COLOURS["mxnet"], "o")
    assert shown["PyTorch, fast"] == (FRAMEWORK_COLOURS["pytorch"], "s")
    assert len(shown) == 4


def test_five_works_have_two_rows_of_panels_and_time_below_each_column():
    """The panel above a free place is the lowest of its column."""
    runs = [
        COMPETITORS.query("network == 1").assign(image_size=size) for size in (8, 16, 32, 64, 128)
    ]
    axes = plot_cost_front(pd.concat(runs)).axes
    assert [ax.get_title() for ax in axes] == [
        f"MNIST, {size} px, Rede 1" for size in (8, 16, 32, 64, 128)
    ]
    assert [ax.get_xlabel() != "" for ax in axes] == [False, True, True, True, True]


def test_effects_are_points_with_their_intervals():
    """A panel for each factor on one logarithmic axis that reaches at least from a half to
    twice.
    """
    figure = plot_effects(EFFECTS)
    framework, network = figure.axes
    points = [line for line in framework.lines if line.get_marker() == "o"]
    assert [line.get_xdata()[0] for line in points] == [0.5, 2]
    assert [to_hex(line.get_color()) for line in points] == [
        FRAMEWORK_COLOURS[name] for name in ("mxnet", "pytorch")
    ]
    bars = [list(line.get_xdata()) for line in framework.lines if line.get_marker() == "|"]
    assert bars == [[0.45, 0.55], [1.8, 2.2]]
    assert [text.get_text() for text in framework.texts] == [
        "0.50 [0.45, 0.55]",
        "2.00 [1.80, 2.20]",
    ]
    assert framework.get_xlim() == network.get_xlim() and framework.get_xlim()[0] < 0.45
    # without repetitions the points alone
    ax = plot_effects(EFFECTS.assign(low=np.nan, high=np.nan)).axes[0]
    assert [text.get_text() for text in ax.texts] == ["0.50", "2.00"]


def test_the_variation_is_sorted_with_the_repetitions_last():
    """Jain's shares in per cent, with what the F test says of them."""
    (ax,) = plot_variation(ALLOCATION).axes
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([78.88, 15.40, 4.27, 1.45])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["image side", "network", "image side x network", "repetitions"]
    texts = [text.get_text() for text in ax.texts]
    assert texts == ["78.9 %, p < 0.001", "15.4 %, p = 0.002", "4.3 %, p = 0.01", "1.5 %"]


def test_small_interactions_are_one_bar():
    """Two of 0.2 and 0.3 % together; a factor of 0.1 % keeps its own, for it is asked about."""
    small = [
        ("image_size x dataset", 2, 0.002, 0.5),
        ("network x dataset", 2, 0.003, 0.5),
        ("dataset", 1, 0.001, 0.5),
    ]
    (ax,) = plot_variation(
        pd.concat([ALLOCATION, pd.DataFrame(small, columns=ALLOCATION.columns)])
    ).axes
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[3:] == ["data set", "2 others, each below 0.5 %", "repetitions"]
    assert [bar.get_width() for bar in ax.patches][3:] == pytest.approx([0.1, 0.5, 1.45])


def test_the_figures_speak_portuguese_and_nothing_is_clipped():
    """With decimal commas, and semicolons between bounds."""
    effects = plot_effects(EFFECTS, "pt")
    variation = plot_variation(ALLOCATION, "pt")
    front = plot_cost_front(COMPETITORS, "pt")
    assert (
        effects.axes[0].texts[0].get_text() == "0,50 [0,45; 0,55]"
        and effects.axes[1].get_ylabel() == "rede"
    )
    assert variation.axes[0].texts[1].get_text() == "15,4 %, p = 0,002"
    assert [label.get_text() for label in variation.axes[0].get_yticklabels()][-1] == "repetições"
    assert read_front(front.axes[1]) == [(90, 0.9)]
    assert front.axes[0].get_ylabel() == "custo de uma execução [USD]"
    assert all(map(is_whole, (effects, variation, front)))
    assert {"10", "20", "50", "100"} <= {
        label.get_text() for label in front.axes[0].get_xticklabels()
    }
