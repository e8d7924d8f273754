"""Draw what more machines bring: the speed-up of each number of machines, and the law fitted to
it.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dr_lib.evidence.scaling import KINDS, MEASURED, PREDICTED, SCALINGS
from dr_lib.figures.style import choose_words, find_reach, name, open_panels, use_commas

LOOKS = dict(zip(SCALINGS, (("#0072B2", "o"), ("#D55E00", "^")), strict=True))


def plot_scaling(scaling: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the speed-up over the number of machines, a panel for each kind of work, both axes
    logarithmic.

    Args:
        scaling: from `summarise_scaling`; what the law predicts is hollow, behind a dashed line.
        lang: en, or pt with decimal commas.
    """
    say = choose_words(lang)
    kinds = [kind for kind in KINDS[:-1] if kind in scaling]
    groups = list(scaling.groupby(kinds, sort=False, dropna=False))
    figure, axes = open_panels(len(groups), width=6.2, heights=3.4)
    for ax, (key, rows) in zip(axes, groups, strict=True):
        _draw(ax, rows, lang)
        if len(groups) > 1:
            ax.set_title(", ".join(map(name, key)), loc="left", fontweight="bold")
    figure.suptitle(say("Speed-up by the number of machines"))
    figure.supxlabel(
        say("point: ratio of geometric means [95 % interval]; hollow: predicted"), fontsize="small"
    )
    return figure


def _draw(ax: Axes, rows: pd.DataFrame, lang: str) -> None:
    say = choose_words(lang)
    numbers = np.array(sorted(rows["num_machines"].unique()))
    ax.plot(numbers, numbers, ":", color="0.6", lw=1, label=say("ideal"))
    for scaling, found in rows.groupby("scaling"):
        colour, marker = LOOKS[scaling]
        for basis, points in found.groupby("basis"):
            look = {"color": colour, "marker": marker, "ms": 5, "capsize": 3, "lw": 1.2}
            look |= {"mfc": "white", "ls": "--"} if basis == PREDICTED else {"ls": "-"}
            measured = say("strong scaling") if scaling == SCALINGS[0] else say("weak scaling")
            label = {MEASURED: measured, PREDICTED: say("Amdahl's law")}[basis]
            ax.errorbar(
                points["num_machines"],
                points["speedup"],
                find_reach(points, "speedup"),
                label=label,
                **look,
            )
    ax.set(xlabel=say("machines"), ylabel=say("speed-up"))
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_xticks(numbers)
    use_commas(ax, lang)
    ax.legend(loc="upper left", frameon=False, fontsize="small")
