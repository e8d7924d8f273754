"""The figures of paper C, effects and the front, read back from what was drawn."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from dr_lib.report.style import FRAMEWORK_COLOURS
from dr_lib.scenarios.figures import (
    plot_effects,
    plot_scenarios,
    plot_variation,
)
from tests.report.reading import is_whole, timed_runs, words

MARKS = {
    "status": "ok",
    "platform": "azure",
    "accelerator": "cpu",
    "num_accelerators": 1,
    "data_kind": "synthetic",
    "cpu_percent_mean": 95.0,
    "formula_usd": 0.02,
}


def make_scenarios(**columns):
    """Three runs of 9, 10 and 11 s of each scenario; the frameworks not in the order in which
    they are drawn.
    """
    levels = [
        ["mxnet", "pytorch", "tensorflow"],
        ["mnist", "cifar10"],
        [32, 64],
        [1, 2],
        range(3),
    ]
    names = ["framework", "dataset", "image_size", "network", "repetition"]
    runs = pd.MultiIndex.from_product(levels, names=names).to_frame(index=False)
    numbers = 1 + np.arange(len(runs)) // 3
    runs = runs.assign(train_s=9.0 + runs["repetition"], scenario=[f"C{n}" for n in numbers])
    runs = runs.assign(**MARKS | columns)
    return timed_runs(runs.sample(frac=1, random_state=1))


def list_points(ax):
    """The runs of each scenario, from the top."""
    return sorted(ax.collections, key=lambda points: points.get_offsets()[0, 1])


def test_each_run_is_a_point_of_its_frameworks_colour_with_the_sum_of_prices():
    """Of 24 scenarios, MNIST first, each three runs of 9, 10
    and 11 s at 0.02 USD.
    """
    figure = plot_scenarios(make_scenarios(), ["train_s"])
    (ax,) = figure.axes
    assert ax.get_title(loc="left") == "azure, CPU, n = 3 a scenario"
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[:4] == [f"MNIST, {size} px, Rede {k}" for size in (32, 64) for k in (1, 2)]
    assert is_whole(figure)
    points = list_points(ax)
    seconds = [sorted(each.get_offsets()[:, 0]) for each in points]
    assert seconds == [[9] * 8 + [10] * 8 + [11] * 8] * 3
    names = ("mxnet", "pytorch", "tensorflow")
    colours = [FRAMEWORK_COLOURS[name] for name in names]
    assert [to_hex(each.get_edgecolor()[0]) for each in points] == colours
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([10] * 24)
    texts = [text.get_text() for text in ax.texts]
    assert texts.count("0.06 USD") == 24


def test_runs_of_two_groups_have_no_mean():
    """Two versions of a framework in each scenario: points, and no bar."""
    versions = ["2.19.0", "2.20.0", "2.20.0"] * 24
    (ax,) = plot_scenarios(make_scenarios(tensorflow=versions), ["train_s"]).axes
    assert len(np.concatenate([each.get_offsets() for each in ax.collections])) == 72
    assert not ax.patches


def test_what_was_measured_of_the_machine_is_drawn():
    """A column without values, and one that is not there, have no panel."""
    columns = ["cpu_percent_mean", "gpu_percent_mean", "gpu_memory_percent_mean"]
    (cpu,) = plot_scenarios(make_scenarios(gpu_percent_mean=None), columns).axes
    assert {x for points in list_points(cpu) for x in points.get_offsets()[:, 0]} == {95}
    assert cpu.get_xlabel() == "CPU in use [%]"


EFFECTS = pd.DataFrame(
    [
        ("framework", "mxnet", 0.5, 0.45, 0.55),
        ("framework", "pytorch", 2.0, 1.8, 2.2),
        ("network", 1, 1.0, 0.9, 1.1),
    ],
    columns=["factor", "level", "effect", "effect_low", "effect_high"],
)
# Jain 1991, chapter 18: 78.88, 15.40, 4.27 and 1.45 %
ALLOCATION = pd.DataFrame(
    [
        ("network", 1, 0.1540, 0.002),
        ("image_size", 1, 0.7888, 1e-9),
        ("image_size x network", 2, 0.0427, 0.01),
        ("residual", 0, 0.0145, np.nan),
    ],
    columns=["term", "num_factors", "share", "p"],
)


def test_effects_are_points_with_their_intervals():
    """A panel for each factor on one logarithmic axis, which cuts no interval."""
    figure = plot_effects(EFFECTS)
    framework, network = figure.axes
    bars, points = framework.collections
    assert points.get_offsets()[:, 0].tolist() == [0.5, 2]
    assert [each[:, 0].tolist() for each in bars.get_segments()] == [[0.45, 0.55], [1.8, 2.2]]
    low, high = framework.get_xlim()
    assert framework.get_xlim() == network.get_xlim() and low < 0.45 and high > 2.2


def test_the_variation_is_sorted_with_the_repetitions_last():
    """Jain's shares in per cent, with what the F test says of them."""
    (ax,) = plot_variation(ALLOCATION).axes
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([78.88, 15.40, 4.27, 1.45])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["image side", "network", "image side x network", "repetitions"]
    texts = [text.get_text() for text in ax.texts]
    assert texts == ["78.9 %, p < 0.001", "15.4 %, p = 0.002", "4.3 %, p = 0.010", "1.5 %"]


def test_the_figures_speak_portuguese_and_nothing_is_clipped():
    """With decimal commas."""
    effects = plot_effects(EFFECTS, "pt")
    times = words(plot_scenarios(make_scenarios(), ["train_s"], "pt"))
    assert "rede" in words(effects) and "0,06 USD" in times
    assert is_whole(effects)
