"""The figures of paper C, effects and the front, read back from what was drawn."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from dr_lib.report.style import ACCELERATOR_COLOURS, FRAMEWORK_COLOURS
from dr_lib.rooms.scenarios.figures import (
    name_scenarios,
    plot_effects,
    plot_time_and_cost,
    plot_utilisation,
    plot_variation,
)
from tests.report.reading import is_whole, timed_runs, words

CPU = {"platform": "azure", "accelerator": "cpu"}
T4 = {"platform": "azure", "accelerator": "Tesla T4"}
MARKS = {
    "status": "ok",
    "num_accelerators": 1,
    "data_kind": "synthetic",
    "cpu_percent_mean": 95.0,
    "formula_usd": 0.02,
}


def make_scenarios(
    hardware=CPU, frameworks=("tensorflow", "mxnet", "pytorch"), first=1, **columns
):
    """Three runs of 9, 10 and 11 s of each scenario; the frameworks not in the order in which
    they are drawn.
    """
    rows = []
    cells = itertools.product(sorted(frameworks), ["mnist", "cifar10"], [32, 64], [1, 2])
    for number, (framework, dataset, size, network) in enumerate(cells, start=first):
        row = {
            "framework": framework,
            "dataset": dataset,
            "image_size": size,
            "network": network,
        }
        row |= {"scenario": f"C{number}"} | MARKS | hardware
        rows += [row | {"repetition": r, "train_s": 9.0 + r} | columns for r in range(3)]
    return timed_runs(pd.DataFrame(rows).sample(frac=1, random_state=1))


def test_scenarios_stand_in_the_papers_order_with_its_numbers():
    """CPUs before GPUs, MXNet before PyTorch before TensorFlow, MNIST before CIFAR-10, 32 before
    64, 1 before 2.
    """
    runs = pd.concat([make_scenarios(T4, first=25), make_scenarios()])
    named = name_scenarios(runs).drop_duplicates(["environment", "position"])
    assert named["scenario"].tolist() == [f"C{number}" for number in range(1, 49)]
    assert named["position"].tolist() == [*range(24), *range(24)]
    assert named["label"].iloc[3] == "C4\nMNIST\n64 px\nRede 2"
    # notebooks run by hand all call their scenario C1
    assert (
        name_scenarios(make_scenarios(scenario="C1"))["label"].iloc[0] == "MNIST\n32 px\nRede 1"
    )


def test_time_and_cost_of_24_scenarios():
    """Bars of 10 s with an error bar of 1 s and 3 points; the line at three times 0.02 USD."""
    ax, second = plot_time_and_cost(make_scenarios()).axes
    assert [bar.get_height() for bar in ax.patches] == pytest.approx([10] * 24)
    points = [line for line in ax.lines if line.get_marker() == "o"]
    assert len(points) == 24 and list(points[5].get_ydata()) == [9, 10, 11]
    errors = [y for line in ax.lines if line not in points for y in line.get_ydata() if y == y]
    assert (min(errors), max(errors)) == pytest.approx((9, 11))
    (line,) = second.lines
    assert list(line.get_xdata()) == list(range(24)) and line.get_ydata() == pytest.approx(
        [0.06] * 24
    )
    assert line.get_label() == "price x training, all runs of a scenario"


def test_a_framework_has_its_colour_and_its_name_below():
    """Seaborn would give the first colour to whichever comes first; no colour is that of an
    accelerator.
    """
    ax = plot_time_and_cost(make_scenarios(frameworks=["tensorflow", "pytorch"])).axes[0]
    bars = sorted(ax.patches, key=lambda bar: bar.get_x())
    colours = [FRAMEWORK_COLOURS[name] for name in ("pytorch", "tensorflow")]
    assert [to_hex(bar.get_facecolor()) for bar in bars] == [colours[0]] * 8 + [colours[1]] * 8
    assert [(text.get_text(), text.xy[0]) for text in ax.texts] == [
        ("PyTorch", 3.5),
        ("TensorFlow", 11.5),
    ]
    assert not set(FRAMEWORK_COLOURS.values()) & set(ACCELERATOR_COLOURS.values())


@pytest.mark.parametrize("prices", [[None] * 24, [0.5] * 21 + [None] * 3])
def test_money_is_drawn_where_all_runs_have_a_price(prices):
    """No line at zero, and none that leaves runs out."""
    figure = plot_time_and_cost(make_scenarios(frameworks=["mxnet"]).assign(formula_usd=prices))
    assert len(figure.axes) == 1 and figure.get_suptitle() == "Training time by scenario"


def test_what_was_measured_of_the_machine_is_drawn():
    """Bars of 95 % on an axis up to 100 %; a column without values, and one that is not there, have
    no panel.
    """
    columns = ["cpu_percent_mean", "gpu_percent_mean", "gpu_memory_percent_mean"]
    (cpu,) = plot_utilisation(make_scenarios(gpu_percent_mean=None), columns).axes
    assert [bar.get_height() for bar in cpu.patches] == pytest.approx([95] * 24)
    assert cpu.get_ylim() == (0, 105) and cpu.get_ylabel() == "CPU in use [%]"


def test_the_figures_speak_portuguese_and_nothing_is_clipped_or_overlaps():
    """With decimal commas; 48 scenarios, the names of which would touch on a smaller figure."""
    runs = make_scenarios()
    assert "em uso" in words(plot_utilisation(runs, ["cpu_percent_mean"], "pt"))
    figure = plot_time_and_cost(pd.concat([make_scenarios(T4, first=25), runs]), "pt")
    # an axis of money beside each
    titles = [ax.get_title(loc="left") for ax in figure.axes if ax.patches]
    assert (
        titles == ["azure, CPU, n = 3 por cenário", "azure, Tesla T4, n = 3 por cenário"]
        and len(figure.axes) == 4
    )
    for word in ("Tempo de treinamento e custo", "preço x treinamento", "desvio padrão"):
        assert word in words(figure)
    assert {ax.yaxis.get_major_formatter()(2.5, 0) for ax in figure.axes} == {"2,5"}
    figure.draw_without_rendering()
    panels = [ax for ax in figure.axes if ax.patches]  # the axes of money show no labels below
    texts = [
        text for ax in panels for text in [*ax.texts, *ax.get_xticklabels()]
    ] + figure.texts
    boxes = [text.get_window_extent() for text in texts]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 for box in boxes)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


EFFECTS = pd.DataFrame(
    [
        ("framework", "mxnet", 0.5, 0.45, 0.55, 0),
        ("framework", "pytorch", 2.0, 1.8, 2.2, 1),
        ("network", 1, 1.0, 0.9, 1.1, 1),
    ],
    columns=["factor", "level", "effect", "effect_low", "effect_high", "disturbed"],
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


def test_effects_are_points_with_their_intervals():
    """A panel for each factor on one logarithmic axis that reaches at least from a half to
    twice; hollow where runs were disturbed.
    """
    figure = plot_effects(EFFECTS)
    framework, network = figure.axes
    points = [line for line in framework.lines if line.get_marker() == "o"]
    assert [line.get_xdata()[0] for line in points] == [0.5, 2]
    assert [to_hex(line.get_color()) for line in points] == [
        FRAMEWORK_COLOURS[name] for name in ("mxnet", "pytorch")
    ]
    assert [line.get_markerfacecolor() == "white" for line in points] == [False, True]
    bars = [list(line.get_xdata()) for line in framework.lines if line.get_marker() == "|"]
    assert bars == [[0.45, 0.55], [1.8, 2.2]]
    assert [text.get_text() for text in framework.texts] == [
        "0.500 [0.450, 0.550]",
        "2.00 [1.80, 2.20]",
    ]
    assert framework.get_xlim() == network.get_xlim() and framework.get_xlim()[0] < 0.45
    # without repetitions the points alone
    ax = plot_effects(EFFECTS.assign(effect_low=np.nan, effect_high=np.nan)).axes[0]
    assert [text.get_text() for text in ax.texts] == ["0.5", "2"]


def test_the_variation_is_sorted_with_the_repetitions_last():
    """Jain's shares in per cent, with what the F test says of them."""
    (ax,) = plot_variation(ALLOCATION).axes
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([78.88, 15.40, 4.27, 1.45])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["image side", "network", "image side x network", "repetitions"]
    texts = [text.get_text() for text in ax.texts]
    assert texts == ["78.9 %, p < 0.001", "15.4 %, p = 0.002", "4.3 %, p = 0.010", "1.5 %"]


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
    assert "0,500 [0,450; 0,550]" in words(effects) and "rede" in words(effects)
    assert "15,4 %, p = 0,002" in words(variation) and "repetições" in words(variation)
    assert is_whole(effects) and is_whole(variation)
