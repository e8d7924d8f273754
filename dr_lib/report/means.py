"""Draw means over their single values, equal work on one axis and other work on its own."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dr_lib.numbers import write_interval
from dr_lib.report.style import (
    MUTED,
    OURS,
    choose_words,
    draw_runs,
    open_panels,
    space_ticks,
    use_commas,
)
from dr_lib.statistics.intervals import Interval

UNITS = {"s": 1, "min": 60, "h": 3600}
WIDE = 20  # ratio of two means beyond which an axis is logarithmic


class Mean(NamedTuple):
    """One mean of a panel."""

    label: str
    interval: Interval  # of one that a paper printed, with its deviation or without bounds
    colour: str
    values: Sequence[float] = ()  # that it is the mean of, in their order
    disturbed: Sequence[bool] = ()


def write_times(row: pd.Series, column: str, lang: str) -> tuple[str, str]:
    """Write a time of a row, and its bounds in brackets, in the unit that suits it."""
    unit = choose_unit(row[column])
    times = [row[f"{column}{end}"] / UNITS[unit] for end in ("", "_low", "_high")]
    mean, _, bounds = write_interval(*times, lang).partition(" ")
    return f"{mean} {unit}", bounds


def choose_unit(seconds: float) -> str:
    """Choose the largest unit in which a time is two or more, else seconds."""
    return next((unit for unit in ("h", "min") if seconds >= 2 * UNITS[unit]), "s")


def plot_ratios(ratios: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw how many times as long the slower of each two groups takes, of `compare_groups`."""
    say = choose_words(lang)
    means = []
    for row in ratios.itertuples():
        bounds = [row.times_as_long, row.times_as_long_low, row.times_as_long_high]
        label = f"{fill(row.slower, 40)}\n/ {fill(row.faster, 40)}; n = {row.n}"
        means.append(Mean(label, Interval(*bounds, row.n), OURS))
    return plot_means({say("times as long"): means}, lang, unit="x")


def plot_means(
    panels: Mapping[str, Sequence[Mean]],
    lang: str = "en",
    *,
    unit: str = "",
) -> Figure:
    """Draw a panel for each work that has means, the first mean on top, from 0 on.

    Args:
        panels: means by the words for their work; without any the figure is empty.
        lang: en, or pt with decimal commas.
        unit: of the values; seconds are written in the unit that suits each panel if it is empty.
    """
    panels = {words: means for words, means in panels.items() if means}
    if not panels:
        return Figure()
    heights = [0.5 + 0.52 * len(means) for means in panels.values()]
    figure, axes = open_panels(len(panels), heights=heights)
    for ax, (words, means) in zip(axes, panels.items(), strict=True):
        values = [mean.interval.value for mean in means]
        name = unit or choose_unit(max(values))
        size = UNITS.get(name, 1)
        ax.set_title(f"{words} [{name}]", loc="left", fontsize=10, color=MUTED)
        for position, mean in enumerate(means):
            value, *bounds = np.array(mean.interval[:3]) / size
            singles = np.asarray(mean.values, float) / size
            above = position - 0.12 * bool(len(singles))
            ax.plot(bounds, [above] * 2, color=mean.colour, lw=2.4, solid_capstyle="round")
            ax.plot(value, above, "o", color=mean.colour, ms=8)
            places = np.full(len(singles), position + 0.2)
            draw_runs(ax, singles, places, mean.disturbed, 3.5, mean.colour)
            number, *_ = write_interval(value, *bounds, lang).split(" [")
            ax.annotate(
                f"{number} {name}",
                (np.nanmax([value, *bounds, *singles]), above),
                (7, 0),
                textcoords="offset points",
                va="center",
                fontweight="bold",
                color=mean.colour,
            )
        ax.set_yticks(range(len(means)), [mean.label for mean in means])
        ax.set(ylim=(len(means) - 0.4, -0.6))
        ax.tick_params(axis="y", left=False)
        ax.spines["left"].set_visible(False)
        start, end = ax.dataLim.intervalx
        if size * end > WIDE * min(values):
            ax.set(xscale="log", xlim=(start / 2, 3 * end))
            space_ticks(ax, lang, "x")
        else:
            ax.set_xlim(0, 1.25 * end)
            use_commas(ax, lang, "x")
    figure.align_titles()
    return figure
