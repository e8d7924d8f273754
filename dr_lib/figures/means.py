"""Draw means over the values that they are of: ours, and below them those that a paper printed.

Times of unlike machines lie a hundredfold apart, so the axis is logarithmic: equal distances are
equal ratios, in all panels.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dr_lib.figures.style import choose_words, draw_runs, open_panels, space_ticks
from dr_lib.numbers import write_interval, write_number
from dr_lib.statistics.intervals import Interval


class Mean(NamedTuple):
    """A line of a panel."""

    label: str
    interval: Interval  # without bounds where only the mean was printed
    sd: float
    colour: str
    values: Sequence[float] = ()  # that it is the mean of, in their order
    disturbed: pd.Series = pd.Series(dtype=bool)


def plot_means(
    panels: Mapping[str, Sequence[Mean]], title: str, unit: str, lang: str = "en"
) -> Figure:
    """Draw a panel for each title that has means, the first mean on top.

    Args:
        panels: means by the title of their panel; one at least.
        title: what is drawn, in the language.
        unit: of the values.
        lang: en, or pt with decimal commas.
    """
    say = choose_words(lang)
    panels = {words: means for words, means in panels.items() if means}
    heights = [0.3 + 0.55 * len(means) for means in panels.values()]
    figure, axes = open_panels(len(panels), width=7, heights=heights, share="x")
    for ax, (words, means) in zip(axes, panels.items(), strict=True):
        ax.set_title(words, loc="left", fontweight="bold")
        for position, mean in enumerate(means):
            value, *bounds = mean.interval[:3]
            spread = [max(value - mean.sd, value / 2), value + mean.sd]
            ax.plot(spread, [position] * 2, color=mean.colour, lw=1.2)
            ax.plot(bounds, [position] * 2, color=mean.colour, lw=4, alpha=0.6)
            num_values = len(mean.values)
            places = position + np.linspace(-0.3, 0.3, num_values + 2)[1:-1]
            size = 4.5 if num_values < 30 else 2.5
            draw_runs(ax, mean.values, places, mean.disturbed, size)
            ax.plot(value, position, "o", color=mean.colour, mec="black", ms=9)
            text = (
                f"{write_interval(value, *bounds, lang, '' if num_values else '{:.4g}')} {unit}"
            )
            if np.isfinite(mean.sd) and not num_values:
                text += write_number(mean.sd, lang, " ± {:g}")
            end = (np.nanmax([value, *bounds, *spread, *mean.values]), position)
            ax.annotate(text, end, (10, 0), textcoords="offset points", va="center")
        ax.set_yticks(range(len(means)), [mean.label for mean in means])
        ax.set(xscale="log", ylim=(len(means) - 0.5, -0.5))
    low, high = axes[0].get_xlim()
    high *= max(2, high / low) ** 0.4  # room for numbers
    axes[-1].set(xlabel=f"{say('time')} [{unit}]", xlim=(low, high))
    space_ticks(axes[-1], lang, "x")
    figure.suptitle(title)
    words = (
        "large: mean; thick line: 95 % interval; thin line: standard deviation; small: runs or"
        " requests in order, hollow if disturbed"
    )
    figure.supxlabel(say(words), fontsize="small")
    return figure
