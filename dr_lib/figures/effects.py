"""Draw what paper C lacks: effects with their intervals, the allocation of variation, time against
cost.

`lang` is en, or pt with decimal commas.
"""

import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dr_lib.figures.scenarios import name_scenarios
from dr_lib.figures.style import (
    FRAMEWORK_COLOURS,
    OTHER_COLOUR,
    choose_words,
    name,
    name_term,
    open_panels,
    space_ticks,
    use_commas,
    write_interval,
    write_number,
)

SMALL_SHARE = 0.005  # terms that explain less are drawn as one
TERM_COLOURS = {0: "#949494", 1: "#023858", 2: "#3690c0"}  # by the number of factors
HIGHER_COLOUR = "#a6bddb"  # of three and more
MARKERS = "osD^vPX"  # for environments, in their order
WORK = ["dataset", "image_size", "network"]  # what frameworks and environments compete at
MAX_COLUMNS = 4  # of panels
WIDE = 50  # span of an axis from which on a small panel has room for the powers of ten alone


def plot_effects(effects: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw by how much each level of each factor multiplies the time, with its interval, on a
    logarithmic axis.

    Args:
        effects: from `estimate_effects`; without repetitions the points stand without error bars.
    """
    say = choose_words(lang)
    groups = list(effects.groupby("factor", sort=False))
    heights = [0.1 + 0.32 * len(rows) for _, rows in groups]
    figure, axes = open_panels(len(groups), width=6, heights=heights, share="x")
    reach = 1.1 * max(1.0, np.abs(np.log2(effects[["effect", "low", "high"]])).max(axis=None))
    for ax, (factor, rows) in zip(axes, groups, strict=True):
        _draw_effects(ax, rows, lang)
        ax.set_ylabel(
            name_term(factor, say),
            rotation=0,
            ha="right",
            va="center",
            fontweight="bold",
            labelpad=8,
        )
        ax.set_xlim(2**-reach, 2**reach)
    axes[-1].set_xlabel(say("factor on the mean of all scenarios"))
    figure.suptitle(say("Effect of each level"))
    figure.supxlabel(
        say("point: ratio of geometric means; error bar: 95 % interval"), fontsize="small"
    )
    return figure


def plot_variation(allocation: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw how much of the variation each factor and interaction explains, the largest first,
    repetitions last.

    Args:
        allocation: from `allocate_variation`; terms below half a per cent are drawn as one bar.
    """
    say = choose_words(lang)
    bars = _sort_terms(allocation, lang, say)
    figure, (ax,) = open_panels(1, width=6, heights=0.3 + 0.32 * len(bars))
    ax.barh(
        bars["words"],
        100 * bars["share"],
        color=[TERM_COLOURS.get(n, HIGHER_COLOUR) for n in bars["num_factors"]],
    )
    for position, row in enumerate(bars.itertuples()):
        text = write_number(100 * row.share, lang, "{:.1f} %")
        if np.isfinite(row.p):
            p = (
                f"p < {write_number(0.001, lang)}"
                if row.p < 0.001
                else f"p = {write_number(row.p, lang, '{:.2g}')}"
            )
            text += f", {p}"
        ax.annotate(
            text, (100 * row.share, position), (5, 0), textcoords="offset points", va="center"
        )
    ax.invert_yaxis()
    ax.set(xlabel=say("share of the variation [%]"), xlim=(0, 135), xticks=range(0, 101, 20))
    figure.suptitle(say("Allocation of variation"))
    figure.supxlabel(
        say("a x b: interaction of a and b; p: of the F test, by Holm's method"), fontsize="small"
    )
    return figure


def plot_cost_front(runs: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the cost of a run against its time, and the front of what does the same work neither
    faster nor cheaper.

    A small image is always cheaper than a large one, so each data set, image side and network has
    its panel; in it the frameworks and environments compete.

    Args:
        runs: timed rows of a `Selection` with `cost_usd`; a logarithmic axis cannot show those
            without a price above 0.
    """
    say = choose_words(lang)
    runs = name_scenarios(runs[runs["cost_usd"] > 0])
    works = list(runs.groupby([runs["dataset"] != "mnist", *WORK]))
    figure, axes = open_panels(len(works), columns=MAX_COLUMNS, width=2.6, heights=2.4, share="xy")
    # the lowest of each column and the first of each row are labelled
    for number, ax in enumerate(axes):
        if number >= len(works) - min(len(works), MAX_COLUMNS):
            ax.tick_params(labelbottom=True)
            ax.set_xlabel(say("training time [s]"))
        if number % MAX_COLUMNS == 0:
            ax.set_ylabel(say("cost of a run [USD]"))
    markers = dict(zip(runs["environment"].unique(), itertools.cycle(MARKERS), strict=False))
    shown = {}
    for ax, ((_, dataset, size, network), rows) in zip(axes, works, strict=True):
        _draw_competitors(ax, rows, markers, say("front: none is both faster and cheaper"))
        ax.set_title(f"{name(dataset)}, {name(size)} px, Rede {name(network)}", fontsize="medium")
        shown |= {line.get_label(): line for line in ax.get_legend_handles_labels()[0]}
    space_ticks(axes[0], lang, wide=WIDE)
    words = say("large: mean of a scenario; small: its runs")
    figure.legend(
        handles=shown.values(), title=words, loc="outside lower center", ncols=3, frameon=False
    )
    figure.suptitle(say("Time x cost"))
    return figure


def _draw_effects(ax: Axes, rows: pd.DataFrame, lang: str) -> None:
    ax.set_xscale("log", base=2)
    ax.axvline(1, color="#949494", lw=1)
    for position, row in enumerate(rows.itertuples()):
        colour = FRAMEWORK_COLOURS.get(row.level, OTHER_COLOUR)
        ax.plot([row.low, row.high], [position, position], "|-", color=colour, ms=8)
        ax.plot(row.effect, position, "o", color=colour)
        text = write_interval(row.effect, row.low, row.high, lang, "{:.2f}")
        ax.annotate(text, (1.02, position), xycoords=("axes fraction", "data"), va="center")
    use_commas(ax, lang)
    ax.set_yticks(range(len(rows)), [name(level) for level in rows["level"]])
    ax.set_ylim(len(rows) - 0.5, -0.5)


def _sort_terms(allocation: pd.DataFrame, lang: str, say: Callable[[str], str]) -> pd.DataFrame:
    """The bars from the top, with their words; small terms as one."""
    terms = allocation.sort_values("share", ascending=False, kind="stable")
    terms = terms.assign(words=[name_term(term, say) for term in terms["term"]])
    is_small = (terms["share"] < SMALL_SHARE) & (terms["num_factors"] > 1)
    is_rest = terms["num_factors"] == 0
    if is_small.sum() < 2:
        return pd.concat([terms[~is_rest], terms[is_rest]], ignore_index=True)
    words = say("{} others, each below {} %").format(
        is_small.sum(), write_number(100 * SMALL_SHARE, lang)
    )
    small = pd.DataFrame(
        {"words": [words], "share": [terms["share"][is_small].sum()], "num_factors": 3, "p": np.nan}
    )
    return pd.concat([terms[~is_small & ~is_rest], small, terms[is_rest]], ignore_index=True)


def _draw_competitors(ax: Axes, rows: pd.DataFrame, markers: dict[str, str], words: str) -> None:
    """The runs of one work, their means by framework and environment, and the front of the
    means.
    """
    groups = rows.groupby(["environment", "framework"], sort=False)[["train_s", "cost_usd"]]
    for (place, framework), points in groups:
        look = {
            "ls": "",
            "marker": markers[place],
            "color": FRAMEWORK_COLOURS.get(framework, OTHER_COLOUR),
        }
        ax.plot(*points.to_numpy().T, alpha=0.35, ms=3, **look)
        ax.plot(*points.mean(), ms=7, mec="white", label=f"{name(framework)}, {place}", **look)
    means = groups.mean().sort_values(["train_s", "cost_usd"])
    # cheaper than all faster
    front = means[means["cost_usd"] < means["cost_usd"].cummin().shift(fill_value=np.inf)]
    look = {
        "color": "black",
        "lw": 1,
        "ms": 12,
        "mfc": "none",
        "drawstyle": "steps-post",
        "zorder": 1,
    }
    ax.plot(*front.to_numpy().T, "o-", label=words, **look)
    ax.set(xscale="log", yscale="log")
    ax.margins(0.15)
