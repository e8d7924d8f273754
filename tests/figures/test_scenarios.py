"""The figures of paper C, read back from what was drawn."""

import itertools

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from dr_lib.figures.scenarios import (
    name_scenarios,
    plot_samples,
    plot_time_and_cost,
    plot_utilisation,
)
from dr_lib.figures.style import ACCELERATOR_COLOURS, FRAMEWORK_COLOURS
from tests.figures.reading import timed_runs, words

CPU = {"platform": "azure", "accelerator": "cpu"}
T4 = {"platform": "azure", "accelerator": "Tesla T4"}
MARKS = {
    "status": "ok",
    "num_accelerators": 1,
    "data_kind": "synthetic",
    "cpu_percent_mean": 95.0,
    "formula_usd": 0.02,
}
SAMPLES = [
    (0, "start", None),
    (1, "", 50.0),
    (2, "epoch 1", 60.0),
    (4, "epoch 2", 70.0),
    (5, "end", 80.0),
]


def make_scenarios(hardware=CPU, frameworks=("tensorflow", "mxnet", "pytorch"), first=1, **columns):
    """Three runs of 9, 10 and 11 s of each scenario; the frameworks not in the order in which
    they are drawn.
    """
    rows = []
    cells = itertools.product(sorted(frameworks), ["mnist", "cifar10"], [32, 64], [1, 2])
    for number, (framework, dataset, size, network) in enumerate(cells, start=first):
        row = {"framework": framework, "dataset": dataset, "image_size": size, "network": network}
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
    assert name_scenarios(make_scenarios(scenario="C1"))["label"].iloc[0] == "MNIST\n32 px\nRede 1"


def test_time_and_cost_of_24_scenarios():
    """Bars of 10 s with an error bar of 1 s and 3 points; the line at three times 0.02 USD, all
    72 of them 1.44 USD.
    """
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
    assert (
        line.get_label()
        == "price x training, all runs of a scenario; all 72 together 1.44 USD, at 4.865 BRL each"
        " 7.01 BRL"
    )


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


@pytest.mark.parametrize(
    ("prices", "told", "num_axes"),
    [
        ([None] * 24, "no price was given", 1),
        ([0.5] * 21 + [None] * 3, "without a price: 3 of 24 runs", 2),
    ],
)
def test_missing_prices_are_told(prices, told, num_axes):
    """No line at zero, and no second axis, where nothing is known."""
    figure = plot_time_and_cost(make_scenarios(frameworks=["mxnet"]).assign(formula_usd=prices))
    assert told in words(figure) and len(figure.axes) == num_axes


def test_use_of_the_machine_and_what_was_not_measured():
    """Bars of 95 % on an axis up to 100 %; a column without values, and one that is not there,
    say so.
    """
    runs = make_scenarios(gpu_percent_mean=None)
    figure = plot_utilisation(
        runs, ["cpu_percent_mean", "gpu_percent_mean", "gpu_memory_percent_mean"]
    )
    cpu, gpu, memory = figure.axes
    assert [bar.get_height() for bar in cpu.patches] == pytest.approx(
        [95] * 24
    ) and cpu.get_ylim() == (0, 105)
    assert cpu.get_ylabel() == "CPU in use [%]"
    assert [ax.texts[0].get_text() for ax in (gpu, memory)] == [
        "GPU: not measured",
        "GPU memory: not measured",
    ]
    assert not gpu.patches and not memory.patches


def test_one_run_over_its_time():
    """Samples with values as a line, the ends of epochs as dotted lines with their numbers, the
    rest not measured.
    """
    samples = pd.DataFrame(SAMPLES, columns=["seconds", "event", "cpu_percent"]).assign(
        gpu_percent=float("nan")
    )
    (ax,) = plot_samples(samples).axes
    assert list(ax.lines[0].get_ydata()) == [50, 60, 70, 80]
    dotted = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == ":"]
    assert (
        dotted == [2, 4]
        and [text.get_text() for text in ax.texts] == ["1", "2"]
        and ax.get_xlim() == (0, 5)
    )
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == [
        "CPU",
        "memory: not measured",
        "GPU: not measured",
        "GPU memory: not measured",
    ]


def test_many_epochs_have_fewer_numbers_and_a_death_is_named():
    """Of 100 epochs every ninth is numbered: twelve numbers at most have room."""
    events = [(float(number), f"epoch {number}", 1.0) for number in range(1, 101)] + [
        (101.0, "died", 1.0)
    ]
    (ax,) = plot_samples(pd.DataFrame(events, columns=["seconds", "event", "cpu_percent"])).axes
    shown = [text.get_text() for text in ax.texts]
    assert shown == [*(str(number) for number in range(9, 101, 9)), "died"]


def test_the_figures_speak_portuguese_and_nothing_is_clipped_or_overlaps():
    """With decimal commas; 48 scenarios, the names of which would touch on a smaller figure."""
    runs = make_scenarios()
    assert "em uso" in words(plot_utilisation(runs, ["cpu_percent_mean"], "pt"))
    samples = pd.DataFrame(SAMPLES, columns=["seconds", "event", "cpu_percent"])
    assert "tempo desde" in words(plot_samples(samples, "pt"))
    figure = plot_time_and_cost(pd.concat([make_scenarios(T4, first=25), runs]), "pt")
    # an axis of money beside each
    titles = [ax.get_title(loc="left") for ax in figure.axes if ax.patches]
    assert (
        titles == ["azure, CPU, n = 3 por cenário", "azure, Tesla T4, n = 3 por cenário"]
        and len(figure.axes) == 4
    )
    for word in ("Tempo de treinamento e custo", "1,44 USD", "desvio padrão"):
        assert word in words(figure)
    assert {ax.yaxis.get_major_formatter()(2.5, 0) for ax in figure.axes} == {"2,5"}
    figure.draw_without_rendering()
    panels = [ax for ax in figure.axes if ax.patches]  # the axes of money show no labels below
    texts = [text for ax in panels for text in [*ax.texts, *ax.get_xticklabels()]] + figure.texts
    boxes = [text.get_window_extent() for text in texts]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 for box in boxes)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
