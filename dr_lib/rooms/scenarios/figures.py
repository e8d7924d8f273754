"""Draw paper C: time and cost (its figures 2 and 3), utilisation (4 and 5), and, beyond the paper,
    effects with intervals and the allocation of variation.

A scenario is one cell of the design: framework, data set, image side and network on one
environment. `runs` are timed rows of a `Selection`; `lang` is en, or pt with decimal commas.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dr_lib.numbers import write_interval, write_number
from dr_lib.report.papers import FACTORS
from dr_lib.report.style import (
    FRAMEWORK_COLOURS,
    OTHER_COLOUR,
    choose_words,
    draw_runs,
    name,
    name_term,
    open_panels,
    use_commas,
)

METERS = {
    "cpu_percent_mean": "CPU",
    "memory_percent_mean": "memory",
    "gpu_percent_mean": "GPU",
    "gpu_memory_percent_mean": "GPU memory",
}
BARS = "bar: mean; error bar: standard deviation; points: runs in order, hollow if disturbed"
SMALL_SHARE = 0.005  # terms that explain less are drawn as one
TERM_COLOURS = {0: "#949494", 1: "#023858", 2: "#3690c0"}  # by the number of factors
HIGHER_COLOUR = "#a6bddb"  # of three and more
WORK = ["dataset", "image_size", "network"]  # what frameworks and environments compete at


def plot_time_and_cost(runs: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the mean training time of each scenario as bars, one panel per environment; where all
    its runs have a price, add their total `formula_usd` on a second axis.
    """
    say = choose_words(lang)
    panels = list(name_scenarios(runs).groupby("place", sort=False))
    figure, axes = open_panels(len(panels), width=_find_width(runs), heights=3.4)
    figure.suptitle(say("Training time by scenario"))
    figure.supxlabel(say(BARS), fontsize="small")
    for ax, (place, rows) in zip(axes, panels, strict=True):
        _add_title(ax, place, rows, say)
        _draw_bars(ax, rows, "train_s", lang)
        ax.set_ylabel(say("training time [s]"))
        if rows.reindex(columns=["formula_usd"]).isna().any(axis=None):
            continue
        figure.suptitle(say("Training time and cost by scenario"))
        sums = rows.groupby("position")["formula_usd"].sum()
        words = say("price x training, all runs of a scenario")
        second = ax.twinx()
        second.plot(
            sums.index, sums, "D--", color="black", ms=4, lw=1, mfc="#ffd92f", label=words
        )
        second.set(ylabel=say("price x training [USD]"), ylim=(0, 1.15 * sums.max() or 1))
        use_commas(second, lang, "y")
        second.legend(loc="upper left", frameon=False)
        # cost follows time: on other scales the line lies above the bars
        ax.set_ylim(0, 1.5 * ax.get_ylim()[1])
        sns.despine(ax=second, right=False)
    return figure


def plot_utilisation(runs: pd.DataFrame, columns: Sequence[str], lang: str = "en") -> Figure:
    """Draw how much of the machine each scenario used: the mean of a run's samples, in per cent.

    Args:
        runs: timed rows.
        columns: `cpu_percent_mean` and `gpu_percent_mean` for figure 4 of the paper,
            `memory_percent_mean` and `gpu_memory_percent_mean` for figure 5; a panel for each on
            each environment that measured it; one at least has to have one.
        lang: en or pt.
    """
    say = choose_words(lang)
    panels = [
        (place, rows, column)
        for place, rows in name_scenarios(runs).groupby("place", sort=False)
        for column in columns
        if column in rows and rows[column].notna().any()
    ]
    figure, axes = open_panels(len(panels), width=_find_width(runs), heights=2.7)
    figure.suptitle(say("Utilisation by scenario"))
    figure.supxlabel(say(BARS), fontsize="small")
    for ax, (place, rows, column) in zip(axes, panels, strict=True):
        _add_title(ax, place, rows, say)
        _draw_bars(ax, rows, column, lang)
        ax.set(ylabel=say("{} in use [%]").format(say(METERS[column])), ylim=(0, 105))
    return figure


def plot_effects(effects: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the factor by which each level of each factor multiplies the time, with its interval.

    Args:
        effects: from `estimate_effects`, with the number of `disturbed` runs of each level, whose
            point is hollow if there are any; without repetitions there are no error bars.
        lang: en or pt.
    """
    say = choose_words(lang)
    panels = list(effects.groupby("factor", sort=False))
    heights = [0.1 + 0.32 * len(rows) for _, rows in panels]
    figure, axes = open_panels(len(panels), width=6, heights=heights, share="x")
    logs = np.log2(effects[["effect", "effect_low", "effect_high"]])
    reach = 1.1 * max(1.0, np.abs(logs).max(axis=None))
    for ax, (factor, rows) in zip(axes, panels, strict=True):
        ax.set_xscale("log", base=2)
        ax.axvline(1, color="#949494", lw=1)
        for position, row in enumerate(rows.itertuples()):
            colour = FRAMEWORK_COLOURS.get(row.level, OTHER_COLOUR)
            bounds = [row.effect_low, row.effect_high]
            ax.plot(bounds, [position, position], "|-", color=colour, ms=8)
            fill = "white" if row.disturbed else colour
            ax.plot(row.effect, position, "o", color=colour, mfc=fill, zorder=3)
            text = write_interval(row.effect, *bounds, lang)
            ax.annotate(text, (1.02, position), xycoords=("axes fraction", "data"), va="center")
        use_commas(ax, lang)
        ax.set_yticks(range(len(rows)), map(name, rows["level"]))
        ax.set(xlim=(2**-reach, 2**reach), ylim=(len(rows) - 0.5, -0.5))
        words = name_term(factor, say)
        ax.set_ylabel(words, rotation=0, ha="right", va="center", fontweight="bold", labelpad=8)
    axes[-1].set_xlabel(say("factor on the mean of all scenarios"))
    figure.suptitle(say("Effect of each level"))
    words = (
        "point: ratio of geometric means, hollow with disturbed runs; error bar: 95 % interval"
    )
    figure.supxlabel(say(words), fontsize="small")
    return figure


def plot_variation(allocation: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw how much of the variation each term explains, the largest first, repetitions last.

    Args:
        allocation: from `allocate_variation`; terms below half a per cent are drawn as one bar.
        lang: en or pt.
    """
    say = choose_words(lang)
    bars = _sort_terms(allocation, lang, say)
    figure, (ax,) = open_panels(1, width=6, heights=0.3 + 0.32 * len(bars))
    colours = [TERM_COLOURS.get(n, HIGHER_COLOUR) for n in bars["num_factors"]]
    ax.barh(bars["words"], 100 * bars["share"], color=colours)
    for position, row in enumerate(bars.itertuples()):
        text = write_number(100 * row.share, lang, "{:.1f} %")
        if row.p < 0.001:
            text += f", p < {write_number(0.001, lang)}"
        elif np.isfinite(row.p):
            text += f", p = {write_number(row.p, lang, '{:.3f}')}"
        end = (100 * row.share, position)
        ax.annotate(text, end, (5, 0), textcoords="offset points", va="center")
    ax.invert_yaxis()
    ax.set(xlabel=say("share of the variation [%]"), xlim=(0, 135), xticks=range(0, 101, 20))
    figure.suptitle(say("Allocation of variation"))
    words = say("a x b: interaction of a and b; p: of the F test, by Holm's method")
    figure.supxlabel(words, fontsize="small")
    return figure


def name_scenarios(runs: pd.DataFrame) -> pd.DataFrame:
    """Sort the runs by environment (CPUs first) and in the paper's order, and name each scenario.

    Returns:
        The runs with `position`, of the scenario within its environment from 0 on, and `label`: its
        number where the study gave one to each, data set, side and network, a line each.
    """
    runs = runs.assign(_gpu=runs["accelerator"] != "cpu", _later=runs["dataset"] != "mnist")
    order = ["_gpu", "place", "framework", "_later", *WORK, "repetition"]
    runs = runs.sort_values(order, kind="stable", ignore_index=True)
    number = runs.groupby(["place", *FACTORS], sort=False).ngroup()
    position = number - number.groupby(runs["place"]).transform("min")
    dataset, size, network = (runs[column].map(name) for column in WORK)
    label = dataset + "\n" + size + " px\nRede " + network
    if (position.groupby([runs["place"], runs["scenario"]]).nunique() == 1).all():
        label = runs["scenario"] + "\n" + label
    return runs.drop(columns=["_gpu", "_later"]).assign(position=position, label=label)


def _find_width(runs: pd.DataFrame) -> float:
    """Find a panel's width [inches] that shows the scenarios' names side by side at full size."""
    num_scenarios = name_scenarios(runs)["position"].max() + 1
    return max(5.5, 0.45 * num_scenarios)


def _add_title(ax: Axes, place: str, rows: pd.DataFrame, say: Callable[[str], str]) -> None:
    counts = rows.groupby("position").size()
    n = "–".join(map(str, sorted({counts.min(), counts.max()})))
    title = f"{place}, {say('n = {} a scenario').format(n)}"
    ax.set_title(title, loc="left", fontweight="bold")


def _draw_bars(ax: Axes, rows: pd.DataFrame, column: str, lang: str) -> None:
    """Draw a bar per scenario in its framework's colour, its runs, and the frameworks below."""
    palette = {
        framework: FRAMEWORK_COLOURS.get(framework, OTHER_COLOUR)
        for framework in rows["framework"]
    }
    sns.barplot(
        rows,
        x="position",
        y=column,
        hue="framework",
        palette=palette,
        dodge=False,
        errorbar="sd",
        capsize=0.4,
        err_kws={"linewidth": 1, "color": "black"},
        saturation=1,
        legend=False,
        ax=ax,
    )
    for position, runs in rows.groupby("position"):
        # one run beside the other, in their order
        places = position + np.linspace(-0.3, 0.3, len(runs) + 2)[1:-1]
        draw_runs(ax, places, runs[column], runs["disturbed"], size=3.5)
    use_commas(ax, lang)
    labels = rows.groupby("position")["label"].first()
    ax.set_xticks(labels.index, labels, fontsize="x-small")
    ax.set(xlabel="", xlim=(-0.6, len(labels) - 0.4))
    below = -17 - 9 * labels.iloc[0].count("\n")
    for framework, positions in rows.groupby("framework")["position"]:
        ax.annotate(
            name(framework),
            ((positions.min() + positions.max()) / 2, 0),
            (0, below),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="center",
            va="top",
            color=palette[framework],
            fontweight="bold",
            fontsize="small",
        )


def _sort_terms(allocation: pd.DataFrame, lang: str, say: Callable[[str], str]) -> pd.DataFrame:
    """Sort the bars from the top, with labels; small terms are merged into one."""
    terms = allocation.sort_values("share", ascending=False, kind="stable")
    terms = terms.assign(words=[name_term(term, say) for term in terms["term"]])
    is_rest = terms["num_factors"] == 0
    is_small = (terms["share"] < SMALL_SHARE) & (terms["num_factors"] > 1)
    small = terms[is_small]
    if len(small) > 1:
        words = say("{} others, each below {} %")
        words = words.format(len(small), write_number(100 * SMALL_SHARE, lang))
        share = small["share"].sum()
        small = pd.DataFrame([{"words": words, "share": share, "num_factors": 3, "p": np.nan}])
    return pd.concat([terms[~is_small & ~is_rest], small, terms[is_rest]], ignore_index=True)
