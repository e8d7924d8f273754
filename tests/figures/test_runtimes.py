"""The figures of layers and instruction sets, read back from what was drawn."""

import pandas as pd
import pytest

from dr_lib.figures.hardware import NoRunsError
from dr_lib.figures.runtimes import plot_instruction_sets, plot_profile
from tests.figures.test_scenarios import words

LEVELS = ["AVX2", "AVX512_CORE", "AVX512_CORE_VNNI"]


def make_layers(model="vgg19"):
    """Six layers of 5, 10, ... 30 ms and 45 ms outside them: 150 ms."""
    rows = [{"layer": f"conv{k}", "type": "Conv2D", "ms": 5.0 * k} for k in range(1, 7)]
    layers = pd.DataFrame([*rows, {"layer": "outside the layers", "type": "", "ms": 45.0}])
    return layers.assign(share=layers["ms"] / 150, model=model)


def make_sweep():
    """Three processes at each level; int8 gains where there is VNNI."""
    times = {"float32": (200.0, 100.0, 100.0), "int8": (150.0, 60.0, 20.0)}
    rows = [
        {"level": level, "runtime": precision, "round": turn, "ms": ms + turn}
        for turn in range(3)
        for precision, values in times.items()
        for level, ms in zip(LEVELS, values, strict=True)
    ]
    return pd.DataFrame(rows)


def test_the_largest_layers_stand_first_and_nothing_is_left_out():
    """Two by name, four as one, and what lies outside: their shares add up to all the time."""
    (ax,) = plot_profile(make_layers(), num_layers=2).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "conv6 (Conv2D)",
        "conv5 (Conv2D)",
        "4 other layers",
        "outside the layers",
    ]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([20, 100 / 6, 100 / 3, 30])
    assert ax.texts[0].get_text() == "20.0 %, 30 ms"


def test_few_layers_are_all_named():
    """There is no bar of no others; decimal commas in Portuguese; a panel for each model."""
    figure = plot_profile(pd.concat([make_layers(), make_layers("mobilenet")]), "pt")
    assert [len(ax.patches) for ax in figure.axes] == [7, 7]
    assert "fora das camadas" in [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert "16,7 %, 25 ms" in words(figure)


def test_a_line_for_each_precision_in_the_order_of_the_levels():
    """The median of three processes at each level, and what the newest instructions gain."""
    (ax,) = plot_instruction_sets(make_sweep()).axes
    lines = [line for line in ax.lines if not line.get_label().startswith("_")]
    assert [line.get_label() for line in lines] == ["float32: 201 → 101 ms", "int8: 151 → 21 ms"]
    assert [list(line.get_ydata()) for line in lines] == [[201, 101, 101], [151, 61, 21]]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["AVX2", "AVX512\nCORE", "AVX512\nCORE\nVNNI"]
    assert sum(len(line.get_xdata()) for line in ax.lines if line.get_markersize() == 3) == 18


def test_a_precision_that_was_not_measured_everywhere_has_gaps():
    """Its line begins where it was measured."""
    sweep = make_sweep().query("runtime == 'float32' or level != 'AVX2'")
    (ax,) = plot_instruction_sets(sweep, "pt").axes
    assert "int8: 61 → 21 ms" in [line.get_label() for line in ax.lines]


@pytest.mark.parametrize("draw", [plot_profile, plot_instruction_sets])
def test_refuses_what_is_no_such_table(draw):
    """Empty tables, columns that lack, and a language without words."""
    with pytest.raises(NoRunsError, match="nothing to draw"):
        draw(pd.DataFrame())
    with pytest.raises(NoRunsError, match="ms"):
        draw(pd.DataFrame({"layer": ["a"], "level": ["AVX2"]}))
    with pytest.raises(ValueError, match="lang"):
        draw(make_layers(), "de")
