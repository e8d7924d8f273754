"""Draw means over their single values: ours, and below them those that a paper reports.

Times of unlike machines lie a hundredfold apart, so the axis is logarithmic: equal distances are
equal ratios, in all panels.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from dr_lib.numbers import write_interval, write_number
from dr_lib.report.style import choose_words, draw_runs, open_panels, space_ticks
from dr_lib.statistics.intervals import Interval


class Mean(NamedTuple):
    """One mean of a panel."""

    label: str
    interval: Interval  # without bounds where only the mean was printed
    sd: float
    colour: str
    values: Sequence[float] = ()  # that it is the mean of, in their order
    disturbed: pd.Series = pd.Series(dtype=bool)


def plot_means(
    panels: Mapping[str, Sequence[Mean]],
    title: str,
    units: Mapping[str, float],
    lang: str = "en",
) -> Figure:
    """Draw a panel for each title that has means, the first mean on top.

    Args:
        panels: means by the title of their panel; one at least.
        title: what is drawn, in the language.
        units: their sizes by name, from that of the values on, 1, up; each mean is written in
            the one that suits it.
        lang: en, or pt with decimal commas.
    """
    say = choose_words(lang)
    panels = {words: means for words, means in panels.items() if means}
    heights = [0.3 + 0.7 * len(means) for means in panels.values()]
    figure, axes = open_panels(len(panels), width=7, heights=heights, share="x")
    for ax, (words, means) in zip(axes, panels.items(), strict=True):
        ax.set_title(words, loc="left", fontweight="bold")
        for position, mean in enumerate(means):
            value, *bounds = mean.interval[:3]
            num_values = len(mean.values)
            if not num_values:
                bounds = [max(value - mean.sd, value / 2), value + mean.sd]
            above = position - 0.15 if num_values else position
            ax.plot(bounds, [above] * 2, "|-", color=mean.colour, lw=2.5, ms=12, mew=2.5)
            ax.plot(value, above, "o", color=mean.colour, mec="black", ms=9)
            places = position + np.linspace(0.1, 0.45, num_values + 2)[1:-1]
            size = 5.5 if num_values < 30 else 2.5
            draw_runs(ax, mean.values, places, mean.disturbed, size)
            end = (np.nanmax([value, *bounds, *mean.values]), above)
            text = _write_mean(mean, units, lang)
            ax.annotate(text, end, (10, 0), textcoords="offset points", va="center")
        ax.set_yticks(range(len(means)), [mean.label for mean in means])
        ax.set(xscale="log", ylim=(len(means) - 0.5, -0.5))
    low, high = axes[0].get_xlim()
    high *= max(2, high / low) ** 0.4  # room for numbers
    axes[-1].set_xlim(low, high)
    _number_axis(axes[-1], units, lang)
    figure.suptitle(title)
    words = (
        "large: mean; line: 95 % interval, or the paper's standard deviation; small: runs or"
        " requests in order, hollow if disturbed"
    )
    figure.supxlabel(say(words), fontsize="small")
    return figure


def _write_mean(mean: Mean, units: Mapping[str, float], lang: str) -> str:
    """Write a mean with its interval, or a paper's with its standard deviation: 8.1 s [6.2,
    10.7].
    """
    value, low, high = mean.interval[:3]
    unit, size = _choose_unit(value, units)
    if len(mean.values):
        text = write_interval(value / size, low / size, high / size, lang)
        number, *bounds = text.split(" [")
        return " [".join([f"{number} {unit}", *bounds])
    text = f"{write_number(value / size, lang, '{:.4g}')} {unit}"
    if np.isfinite(mean.sd):
        text += write_number(mean.sd / size, lang, " ± {:g}")
    return text


def _number_axis(ax: Axes, units: Mapping[str, float], lang: str) -> None:
    """Label the axis in its unit, or each part in its own if there are several: 10 s, 1 min."""
    say = choose_words(lang)
    if len(units) == 1:
        space_ticks(ax, lang, "x")
        ax.set_xlabel(f"{say('time')} [{next(iter(units))}]")
        return
    low, high = ax.get_xlim()
    steps = (1, 10) if high > 300 * low else (1, 2, 5, 10, 20, 30)
    ticks = {size * step: f"{step} {unit}" for unit, size in units.items() for step in steps}
    if sum(low <= place <= high for place in ticks) < 2:
        unit, size = _choose_unit(low, units)
        places = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(low / size, high / size)
        ticks = {
            size * place: f"{write_number(place, lang, '{:g}')} {unit}" for place in places
        }
    shown = {place: text for place, text in ticks.items() if low <= place <= high}
    ax.set_xticks(list(shown), list(shown.values()))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(say("time"))


def _choose_unit(value: float, units: Mapping[str, float]) -> tuple[str, float]:
    """Choose the largest unit in which the value is two or more, else the smallest."""
    sizes = reversed(units.items())
    return next((unit, size) for unit, size in sizes if value >= 2 * size or size == 1)
