"""Draw paper C: time and cost (its figures 2 and 3), utilisation (4 and 5), and, beyond the paper,
    effects with intervals and the allocation of variation.

A scenario is one cell of the design: framework, data set, image side and network on one
environment. `runs` are timed rows of a `Selection`; `lang` is en, or pt with decimal commas.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dr_lib.numbers import write_interval, write_number
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
    "cpu_percent_mean": "CPU",
    "memory_percent_mean": "memory",
    "gpu_percent_mean": "GPU",
    "gpu_memory_percent_mean": "GPU memory",
}
SMALL_SHARE = 0.005  # terms that explain less are drawn as one
WORK = ["dataset", "image_size", "network"]  # what frameworks and environments compete at


def plot_time_and_cost(runs: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the training time of each scenario, one panel per environment; where all its runs have a
    price, write the sum of their `formula_usd` beside them.
    """
    say = choose_words(lang)
    return _draw_scenarios(runs, [("train_s", say("training time [s]"))], lang)


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
    words = say("{} in use [%]")
    return _draw_scenarios(
        runs, [(name, words.format(say(METERS[name]))) for name in columns], lang
    )


def _draw_scenarios(
    runs: pd.DataFrame, columns: Sequence[tuple[str, str]], lang: str
) -> Figure:
    """Draw a panel per environment and column: a line per kind of work, its runs by framework."""
    say = choose_words(lang)
    panels = []
    for place, rows in name_scenarios(runs).groupby("place", sort=False):
        for column, words in columns:
            if column in rows and rows[column].notna().any():
                panels.append((place, rows, column, words))
    heights = [0.7 + 0.4 * rows["label"].nunique() for _, rows, *_ in panels]
    figure, axes = open_panels(len(panels), heights=heights)
    for ax, (place, rows, column, words) in zip(axes, panels, strict=True):
        labels = list(dict.fromkeys(rows["label"]))
        frameworks = list(dict.fromkeys(rows["framework"]))
        most = rows[column].max()
        for (label, framework), some in rows.groupby(["label", "framework"]):
            shift = (frameworks.index(framework) + 0.5) / len(frameworks) - 0.5
            y = labels.index(label) + 0.75 * shift
            colour = FRAMEWORK_COLOURS.get(framework, OTHER_COLOUR)
            values = some[column]
            ax.plot(
                [0, values.mean()],
                [y, y],
                color=colour,
                lw=4,
                alpha=0.35,
                solid_capstyle="butt",
            )
            draw_runs(ax, values, np.full(len(values), y), some["disturbed"], 4, colour)
            usd = some.get("formula_usd", pd.Series(np.nan, some.index))
            if column == "train_s" and usd.notna().all():
                text = write_number(usd.sum(), lang, "{:.2g} USD")
                end = (values.max(), y)
                ax.annotate(
                    text,
                    end,
                    (5, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=8,
                    color=MUTED,
                )
        for place_x, framework in enumerate(frameworks):
            colour = FRAMEWORK_COLOURS.get(framework, OTHER_COLOUR)
            words_name = name(framework)
            ax.text(
                place_x / 3,
                1.01,
                words_name,
                color=colour,
                fontweight="bold",
                transform=ax.transAxes,
            )
        counts = rows.groupby(["label", "framework"]).size()
        n = "–".join(map(str, sorted({counts.min(), counts.max()})))
        title = f"{place}, {say('n = {} a scenario').format(n)}"
        ax.set_title(title, loc="left", fontsize=10, color=MUTED, pad=18)
        ax.set_yticks(range(len(labels)), labels)
        end = 1.18 * most if column == "train_s" else min(105, 1.15 * most)
        ax.set(xlabel=words, xlim=(0, end), ylim=(len(labels) - 0.5, -0.5))
        ax.tick_params(axis="y", left=False)
        use_commas(ax, lang, "x")
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
    figure, axes = open_panels(len(panels), heights=heights, share="x")
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
    return figure


def plot_variation(allocation: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw how much of the variation each term explains, the largest first, repetitions last.

    Args:
        allocation: from `allocate_variation`; terms below half a per cent are drawn as one bar.
        lang: en or pt.
    """
    say = choose_words(lang)
    bars = _sort_terms(allocation, lang, say)
    figure, (ax,) = open_panels(1, heights=0.3 + 0.3 * len(bars))
    by_factors = {0: "#949494", 1: "#023858", 2: "#3690c0"}
    colours = [by_factors.get(n, "#a6bddb") for n in bars["num_factors"]]
    ax.barh(bars["words"], 100 * bars["share"], color=colours)
    for position, row in enumerate(bars.itertuples()):
        text = write_number(100 * row.share, lang, "{:.1f} %")
        if np.isfinite(row.p):
            text += f", {write_p(row.p, lang)}"
        end = (100 * row.share, position)
        ax.annotate(text, end, (5, 0), textcoords="offset points", va="center")
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
