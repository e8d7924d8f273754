"""Draw paper C: time and cost (its figures 2 and 3), utilisation (4 and 5), one run's course;
and what it lacks: effects with their intervals, the allocation of variation, time against cost.

A scenario is one cell of the design: framework, data set, image side and network on one
environment. `runs` are timed rows of a `Selection`; `lang` is en, or pt with decimal commas.
"""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dr_lib.evidence.papers import FACTORS
from dr_lib.evidence.scenarios import BRL_PER_USD
from dr_lib.figures.style import (
    FRAMEWORK_COLOURS,
    OTHER_COLOUR,
    choose_words,
    draw_runs,
    name,
    name_term,
    open_panels,
    space_ticks,
    use_commas,
)
from dr_lib.numbers import write_interval, write_number

METERS = {  # columns of samples without _percent: words and colour
    "cpu": ("CPU", "#0173b2"),
    "memory": ("memory", "#de8f05"),
    "gpu": ("GPU", "#029e73"),
    "gpu_memory": ("GPU memory", "#cc78bc"),
}
MAX_NUMBERED = 12  # epochs with their number: more would touch
BARS = "bar: mean; error bar: standard deviation; points: runs in order, hollow if disturbed"
SMALL_SHARE = 0.005  # terms that explain less are drawn as one
TERM_COLOURS = {0: "#949494", 1: "#023858", 2: "#3690c0"}  # by the number of factors
HIGHER_COLOUR = "#a6bddb"  # of three and more
MARKERS = "osD^vPX"  # for environments, in their order
WORK = ["dataset", "image_size", "network"]  # what frameworks and environments compete at
MAX_COLUMNS = 4  # of panels
WIDE = 50  # span of an axis from which on a small panel has room for the powers of ten alone


def plot_time_and_cost(runs: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the mean training time of each scenario as bars, and `formula_usd` on a second axis.

    Each environment has a panel.
    """
    say = choose_words(lang)
    panels = list(name_scenarios(runs).groupby("environment", sort=False))
    figure, axes = open_panels(len(panels), width=11, heights=3.4)
    figure.suptitle(say("Training time and cost by scenario"))
    figure.supxlabel(say(BARS), fontsize="small")
    for ax, (place, rows) in zip(axes, panels, strict=True):
        _add_title(ax, place, rows, say)
        _draw_bars(ax, rows, "train_s", lang)
        ax.set_ylabel(say("training time [s]"))
        _draw_cost(ax, rows, lang, say)
    return figure


def plot_utilisation(runs: pd.DataFrame, columns: Sequence[str], lang: str = "en") -> Figure:
    """Draw how much of the machine each scenario used: the mean of a run's samples, per cent.

    Args:
        runs: timed rows.
        columns: `cpu_percent_mean` and `gpu_percent_mean` for figure 4 of the paper,
            `memory_percent_mean` and `gpu_memory_percent_mean` for figure 5; a panel for each on
            each environment. What no run has is said to be not measured.
        lang: en or pt.
    """
    say = choose_words(lang)
    environments = name_scenarios(runs).groupby("environment", sort=False)
    panels = list(itertools.product(environments, columns))
    measured = [column in rows and rows[column].notna().any() for (_, rows), column in panels]
    heights = [2.7 if has_bars else 0.8 for has_bars in measured]
    figure, axes = open_panels(len(panels), width=11, heights=heights)
    figure.suptitle(say("Utilisation by scenario"))
    figure.supxlabel(say(BARS), fontsize="small")
    for ax, ((place, rows), column), has_bars in zip(axes, panels, measured, strict=True):
        words = say(METERS[column.removesuffix("_percent_mean")][0])
        _add_title(ax, place, rows, say)
        if has_bars:
            _draw_bars(ax, rows, column, lang)
            ax.set(ylabel=say("{} in use [%]").format(words), ylim=(0, 105))
        else:
            ax.text(0.02, 0.5, say("{}: not measured").format(words), va="center")
            ax.set(xticks=[], yticks=[])
            sns.despine(ax=ax, left=True, bottom=True)
    return figure


def plot_samples(samples: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the utilisation of a machine over one run, with the ends of the epochs.

    Args:
        samples: of one run, from `monitor.read_samples`: `seconds`, `event`, and any of
            cpu_percent, memory_percent, gpu_percent and gpu_memory_percent; the legend names those
            that were not measured.
        lang: en or pt.
    """
    say = choose_words(lang)
    figure, (ax,) = open_panels(1, width=7, heights=2.4)
    for meter, (words, colour) in METERS.items():
        column = f"{meter}_percent"
        measured = samples.reindex(columns=["seconds", column]).dropna()
        label = say(words) if len(measured) else say("{}: not measured").format(say(words))
        size = 2.5 if len(measured) < 200 else 0
        x, y = measured.to_numpy().T
        ax.plot(x, y, "o-", color=colour, label=label, ms=size, lw=1.2)
    _mark_epochs(ax, samples)
    ax.set(xlabel=say("time since the start [s]"), ylabel=say("in use [%]"), ylim=(0, 105))
    ax.set_xlim(0, max(samples["seconds"].max(), 1e-3))
    use_commas(ax, lang)
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    figure.suptitle(say("Utilisation over one run"))
    figure.supxlabel(say("dotted: end of an epoch, with its number"), fontsize="small")
    return figure


def plot_effects(effects: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw by how much each level of each factor multiplies the time, with its interval.

    Args:
        effects: from `estimate_effects`; without repetitions the points stand without error bars.
        lang: en or pt.
    """
    say = choose_words(lang)
    panels = list(effects.groupby("factor", sort=False))
    heights = [0.1 + 0.32 * len(rows) for _, rows in panels]
    figure, axes = open_panels(len(panels), width=6, heights=heights, share="x")
    reach = 1.1 * max(1.0, np.abs(np.log2(effects[["effect", "low", "high"]])).max(axis=None))
    for ax, (factor, rows) in zip(axes, panels, strict=True):
        ax.set_xscale("log", base=2)
        ax.axvline(1, color="#949494", lw=1)
        for position, row in enumerate(rows.itertuples()):
            colour = FRAMEWORK_COLOURS.get(row.level, OTHER_COLOUR)
            ax.plot([row.low, row.high], [position, position], "|-", color=colour, ms=8)
            ax.plot(row.effect, position, "o", color=colour)
            text = write_interval(row.effect, row.low, row.high, lang, "{:.2f}")
            ax.annotate(text, (1.02, position), xycoords=("axes fraction", "data"), va="center")
        use_commas(ax, lang)
        ax.set_yticks(range(len(rows)), map(name, rows["level"]))
        ax.set(xlim=(2**-reach, 2**reach), ylim=(len(rows) - 0.5, -0.5))
        words = name_term(factor, say)
        ax.set_ylabel(words, rotation=0, ha="right", va="center", fontweight="bold", labelpad=8)
    axes[-1].set_xlabel(say("factor on the mean of all scenarios"))
    figure.suptitle(say("Effect of each level"))
    words = say("point: ratio of geometric means; error bar: 95 % interval")
    figure.supxlabel(words, fontsize="small")
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
            text += f", p = {write_number(row.p, lang, '{:.2g}')}"
        end = (100 * row.share, position)
        ax.annotate(text, end, (5, 0), textcoords="offset points", va="center")
    ax.invert_yaxis()
    ax.set(xlabel=say("share of the variation [%]"), xlim=(0, 135), xticks=range(0, 101, 20))
    figure.suptitle(say("Allocation of variation"))
    words = say("a x b: interaction of a and b; p: of the F test, by Holm's method")
    figure.supxlabel(words, fontsize="small")
    return figure


def plot_cost_front(runs: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the cost of a run against its time, and the front that no other choice beats in both.

    A small image is always cheaper than a large one, so each data set, image side and network has
    its panel; in it the frameworks and environments compete.

    Args:
        runs: timed rows of a `Selection` with `cost_usd`; a logarithmic axis cannot show those
            without a price above 0.
        lang: en or pt.
    """
    say = choose_words(lang)
    runs = name_scenarios(runs[runs["cost_usd"] > 0])
    works = list(runs.groupby([runs["dataset"] != "mnist", *WORK]))
    figure, axes = open_panels(
        len(works), columns=MAX_COLUMNS, width=2.6, heights=2.4, share="xy"
    )
    markers = dict(zip(runs["environment"].unique(), itertools.cycle(MARKERS), strict=False))
    front = say("front: none is both faster and cheaper")
    drawn = {}
    for number, (ax, ((_, *work), rows)) in enumerate(zip(axes, works, strict=True)):
        _draw_competitors(ax, rows, markers, front)
        dataset, size, network = map(name, work)
        ax.set_title(f"{dataset}, {size} px, Rede {network}", fontsize="medium")
        drawn.update({line.get_label(): line for line in ax.get_legend_handles_labels()[0]})
        # the lowest of each column and the first of each row are labelled
        if number >= len(works) - MAX_COLUMNS:
            ax.tick_params(labelbottom=True)
            ax.set_xlabel(say("training time [s]"))
        if number % MAX_COLUMNS == 0:
            ax.set_ylabel(say("cost of a run [USD]"))
    space_ticks(axes[0], lang, wide=WIDE)
    words = say("large: mean of a scenario; small: its runs")
    place = "outside lower center"
    figure.legend(handles=drawn.values(), title=words, loc=place, ncols=3, frameon=False)
    figure.suptitle(say("Time x cost"))
    return figure


def name_scenarios(runs: pd.DataFrame) -> pd.DataFrame:
    """Sort the runs by environment, CPUs first, and as the paper does, and name each scenario.

    Returns:
        The runs with `position`, of the scenario within its environment from 0 on, and `label`: its
        number where the study gave one to each, data set, side and network, a line each.
    """
    runs = runs.assign(_gpu=runs["accelerator"] != "cpu", _later=runs["dataset"] != "mnist")
    order = ["_gpu", "environment", "framework", "_later", *WORK, "repetition"]
    runs = runs.sort_values(order, kind="stable", ignore_index=True)
    number = runs.groupby(["environment", *FACTORS], sort=False).ngroup()
    position = number - number.groupby(runs["environment"]).transform("min")
    dataset, size, network = (runs[column].map(name) for column in WORK)
    label = dataset + "\n" + size + " px\nRede " + network
    if (position.groupby([runs["environment"], runs["scenario"]]).nunique() == 1).all():
        label = runs["scenario"] + "\n" + label
    return runs.drop(columns=["_gpu", "_later"]).assign(position=position, label=label)


def _add_title(ax: Axes, place: str, rows: pd.DataFrame, say: Callable[[str], str]) -> None:
    counts = rows.groupby("position").size()
    n = "–".join(map(str, sorted({counts.min(), counts.max()})))
    title = f"{place}, {say('n = {} a scenario').format(n)}"
    ax.set_title(title, loc="left", fontweight="bold")


def _draw_bars(ax: Axes, rows: pd.DataFrame, column: str, lang: str) -> None:
    """A bar for each scenario in its framework's colour, its runs, and the frameworks below."""
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


def _draw_cost(ax: Axes, rows: pd.DataFrame, lang: str, say: Callable[[str], str]) -> None:
    """What the runs of a scenario cost together, as a line; or that there is no price."""
    priced = rows.reindex(columns=["position", "formula_usd"]).dropna()
    if priced.empty:
        ax.set_title(say("no price was given"), loc="right", fontsize="small")
        return
    if len(priced) < len(rows):
        notice = say("without a price: {} of {} runs").format(
            len(rows) - len(priced), len(rows)
        )
        ax.set_title(notice, loc="right", fontsize="small")
    words = (
        "price x training, all runs of a scenario; all {} together {} USD, at {} BRL each"
        " {} BRL"
    )
    usd = priced["formula_usd"].sum()
    rate = write_number(BRL_PER_USD, lang, "{:.4g}")  # the paper's are in reais
    brl = write_number(usd * BRL_PER_USD, lang)
    label = say(words).format(len(priced), write_number(usd, lang), rate, brl)
    sums = priced.groupby("position")["formula_usd"].sum()
    second = ax.twinx()
    second.plot(sums.index, sums, "D--", color="black", ms=4, lw=1, mfc="#ffd92f", label=label)
    second.set(ylabel=say("price x training [USD]"), ylim=(0, 1.15 * sums.max() or 1))
    use_commas(second, lang, "y")
    second.legend(loc="upper left", frameon=False)
    # cost follows time: on other scales the line lies above the bars
    ax.set_ylim(0, 1.5 * ax.get_ylim()[1])
    sns.despine(ax=second, right=False)


def _mark_epochs(ax: Axes, samples: pd.DataFrame) -> None:
    """A dotted line at each event but start and end; numbers at as many epochs as find room."""
    events = samples[~samples["event"].fillna("").isin(["", "start", "end"])]
    every = -(-len(events) // MAX_NUMBERED)
    for number, event in enumerate(events.itertuples(), start=1):
        ax.axvline(event.seconds, color="#606060", ls=":", lw=1)
        if number % every == 0 or not event.event.startswith("epoch "):
            text = event.event.removeprefix("epoch ")
            top = (event.seconds, 1)
            ax.annotate(text, top, xycoords=("data", "axes fraction"), ha="center", va="bottom")


def _sort_terms(allocation: pd.DataFrame, lang: str, say: Callable[[str], str]) -> pd.DataFrame:
    """The bars from the top, with their words; small terms as one."""
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


def _draw_competitors(
    ax: Axes, rows: pd.DataFrame, markers: dict[str, str], words: str
) -> None:
    """The runs of one work, their means by framework and environment, and the means' front."""
    groups = rows.groupby(["environment", "framework"], sort=False)[["train_s", "cost_usd"]]
    for (place, framework), points in groups:
        colour = FRAMEWORK_COLOURS.get(framework, OTHER_COLOUR)
        marker = markers[place]
        label = f"{name(framework)}, {place}"
        ax.plot(*points.to_numpy().T, marker, color=colour, alpha=0.35, ms=3)
        ax.plot(*points.mean(), marker, color=colour, ms=7, mec="white", label=label)
    means = groups.mean().sort_values(["train_s", "cost_usd"])
    # cheaper than all faster
    front = means[means["cost_usd"] < means["cost_usd"].cummin().shift(fill_value=np.inf)]
    ax.step(
        *front.to_numpy().T,
        "o-",
        where="post",
        color="black",
        lw=1,
        ms=12,
        mfc="none",
        zorder=1,
        label=words,
    )
    ax.set(xscale="log", yscale="log")
    ax.margins(0.15)
