"""Draw paper C: time and cost (its figures 2 and 3), utilisation (4 and 5), and, beyond the paper,
    effects with intervals and the allocation of variation.

A scenario is one cell of the design: framework, data set, image side and network on one
environment. `runs` are timed rows of a `Selection`; `lang` is en, or pt with decimal commas.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dr_lib.numbers import write_number
from dr_lib.report.style import (
    FRAMEWORK_COLOURS,
    MUTED,
    OTHER_COLOUR,
    choose_words,
    draw_runs,
    name,
    name_term,
    open_panels,
    use_commas,
)
from dr_lib.scenarios.answer import write_p

METERS = {
    "train_s": "training time [s]",
    "cpu_percent_mean": "CPU",
    "memory_percent_mean": "memory",
    "gpu_percent_mean": "GPU",
    "gpu_memory_percent_mean": "GPU memory",
}
WORK = ["dataset", "image_size", "network"]  # what frameworks and environments compete at


def plot_scenarios(runs: pd.DataFrame, columns: Sequence[str], lang: str = "en") -> Figure:
    """Draw a panel per environment and column: a line per kind of work, its runs by framework.

    Args:
        runs: timed rows.
        columns: of METERS, of which one at least was measured: `train_s` for the paper's figures 2
            and 3, with the sum of `formula_usd` beside runs that all have a price; the use of
            processors for figure 4, of memory for figure 5.
        lang: en or pt.
    """
    say = choose_words(lang)
    panels = [
        (place, rows, column)
        for place, rows in name_scenarios(runs).groupby("place", sort=False)
        for column in columns
        if column in rows and rows[column].notna().any()
    ]
    heights = [0.7 + 0.4 * rows["label"].nunique() for _, rows, _ in panels]
    figure, axes = open_panels(len(panels), heights=heights)
    for ax, (place, rows, column) in zip(axes, panels, strict=True):
        words = say(METERS[column])
        labels = list(rows["label"].unique())
        groups = list(rows.groupby("framework", sort=False))
        for number, (framework, some) in enumerate(groups):
            colour = FRAMEWORK_COLOURS.get(framework, OTHER_COLOUR)
            y = some["label"].map(labels.index) + 0.75 * ((number + 0.5) / len(groups) - 0.5)
            is_one = some["group"].groupby(y).nunique() == 1
            means = some[column].groupby(y).mean()[is_one]  # several groups have no mean
            ax.barh(means.index, means, height=0.12, color=colour, alpha=0.35)
            draw_runs(ax, some[column], y, some["disturbed"], 4, colour)
            if column == "train_s":
                _write_costs(ax, some, y, lang)
            style = {"color": colour, "fontweight": "bold", "transform": ax.transAxes}
            ax.text(number / 3, 1.01, name(framework), style)
        n = "–".join(map(str, sorted(set(rows.groupby(["label", "framework"]).size()))))
        title = f"{place}, {say('n = {} a scenario').format(n)}"
        ax.set_title(title, loc="left", fontsize=10, color=MUTED, pad=18)
        ax.set_yticks(range(len(labels)), labels)
        ax.set(
            xlabel=words if column == "train_s" else say("{} in use [%]").format(words),
            xlim=(0, 1.18 * rows[column].max()),
            ylim=(len(labels) - 0.5, -0.5),
        )
        use_commas(ax, lang, "x")
    return figure


def _write_costs(ax: Axes, runs: pd.DataFrame, y: pd.Series, lang: str) -> None:
    """Write the sum of the formula's cost beside the runs of each scenario that all have one."""
    usd = runs["formula_usd"].groupby(y).agg(lambda costs: costs.sum(skipna=False))
    for place, sum_usd in usd.dropna().items():
        text = write_number(sum_usd, lang, "{:.2g} USD")
        _write_beside(ax, text, (runs["train_s"][y == place].max(), place))


def _write_beside(ax: Axes, text: str, point: tuple[float, float]) -> None:
    """Write a text to the right of a point."""
    ax.annotate(text, point, (5, 0), textcoords="offset points", va="center")


def plot_effects(effects: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the factor by which each level of each factor multiplies the time, with its interval.

    Args:
        effects: from `estimate_effects`; without repetitions there are no error bars.
        lang: en or pt.
    """
    say = choose_words(lang)
    panels = list(effects.groupby("factor", sort=False))
    heights = [0.1 + 0.32 * len(rows) for _, rows in panels]
    figure, axes = open_panels(len(panels), heights=heights, share="x")
    for ax, (factor, rows) in zip(axes, panels, strict=True):
        colours = [FRAMEWORK_COLOURS.get(level, OTHER_COLOUR) for level in rows["level"]]
        y = range(len(rows))
        ax.axvline(1, color=MUTED, lw=1)
        ax.hlines(y, rows["effect_low"], rows["effect_high"], colours)
        ax.scatter(rows["effect"], y, color=colours)
        ax.set_xscale("log", base=2)
        use_commas(ax, lang)
        ax.set_yticks(y, map(name, rows["level"]))
        ax.set_ylim(len(rows) - 0.5, -0.5)
        words = name_term(factor, say)
        ax.set_ylabel(words, rotation=0, ha="right", va="center", fontweight="bold")
    axes[-1].set_xlabel(say("factor on the mean of all scenarios"))
    return figure


def plot_variation(allocation: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw how much of the variation each term explains, the largest first, repetitions last.

    Args:
        allocation: from `allocate_variation`.
        lang: en or pt.
    """
    say = choose_words(lang)
    order = [allocation["num_factors"] == 0, -allocation["share"]]
    bars = allocation.iloc[np.lexsort(order[::-1])]
    figure, (ax,) = open_panels(1, heights=0.3 + 0.3 * len(bars))
    colours = bars["num_factors"].map({0: "#949494", 1: "#023858", 2: "#3690c0"})
    ax.barh([name_term(term, say) for term in bars["term"]], 100 * bars["share"], color=colours)
    for position, row in enumerate(bars.itertuples()):
        text = write_number(100 * row.share, lang, "{:.1f} %")
        if np.isfinite(row.p):
            text += f", {write_p(row.p, lang)}"
        _write_beside(ax, text, (100 * row.share, position))
    ax.invert_yaxis()
    ax.set(xlabel=say("share of the variation [%]"), xlim=(0, 135), xticks=range(0, 101, 20))
    return figure


def name_scenarios(runs: pd.DataFrame) -> pd.DataFrame:
    """Sort the runs by environment (CPUs first) and in the paper's order, and name their work.

    Returns:
        The runs with `label`: data set, side and network.
    """
    runs = runs.assign(_gpu=runs["accelerator"] != "cpu", _later=runs["dataset"] != "mnist")
    order = ["_gpu", "place", "framework", "_later", *WORK, "repetition"]
    runs = runs.sort_values(order, kind="stable", ignore_index=True)
    dataset, size, network = (runs[column].map(name) for column in WORK)
    label = dataset + ", " + size + " px, Rede " + network
    return runs.drop(columns=["_gpu", "_later"]).assign(label=label)
