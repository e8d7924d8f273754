"""Draw a factorial study as paper C does: time and cost (its figures 2 and 3), utilisation (4 and
5), one run's course.

A scenario is one cell of the design: framework, data set, image side and network on one
environment. `runs` are timed rows of a `Selection`; `lang` is en, or pt with decimal commas.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dr_lib.evidence.bill import BRL_PER_USD
from dr_lib.evidence.verdicts import FACTORS
from dr_lib.figures.style import (
    FRAMEWORK_COLOURS,
    OTHER_COLOUR,
    choose_words,
    draw_runs,
    name,
    open_panels,
    use_commas,
    write_number,
)

MEANS = {"cpu_percent_mean": "CPU", "memory_percent_mean": "memory", "gpu_percent_mean": "GPU"}
MEANS |= {"gpu_memory_percent_mean": "GPU memory"}
TRACES = {"cpu": "#0173b2", "memory": "#de8f05", "gpu": "#029e73", "gpu_memory": "#cc78bc"}
MAX_NUMBERED = 12  # epochs with their number: more would touch
BARS = "bar: mean; error bar: standard deviation; points: runs in order, hollow if disturbed"


def plot_time_and_cost(runs: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the mean training time of each scenario as a bar, and `formula_usd` as a line on a
    second axis.

    Each environment has a panel.
    """
    say = choose_words(lang)
    runs = name_scenarios(runs)
    places = list(runs.groupby("environment", sort=False))
    figure, axes = open_panels(len(places), width=11, heights=3.4)
    figure.suptitle(say("Training time and cost by scenario"))
    figure.supxlabel(say(BARS), fontsize="small")
    for ax, (place, rows) in zip(axes, places, strict=True):
        _draw_bars(ax, rows, "train_s", lang)
        ax.set_title(f"{place}, {_count(rows, say)}", loc="left", fontweight="bold")
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
    runs = name_scenarios(runs)
    panels = [
        (place, rows, column)
        for place, rows in runs.groupby("environment", sort=False)
        for column in columns
    ]
    measured = [column in rows and rows[column].notna().any() for _, rows, column in panels]
    figure, axes = open_panels(
        len(panels), width=11, heights=[2.7 if has_bars else 0.8 for has_bars in measured]
    )
    figure.suptitle(say("Utilisation by scenario"))
    figure.supxlabel(say(BARS), fontsize="small")
    for ax, (place, rows, column), has_bars in zip(axes, panels, measured, strict=True):
        words = say(MEANS[column])
        ax.set_title(f"{place}, {_count(rows, say)}", loc="left", fontweight="bold")
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
    for meter, colour in TRACES.items():
        column = f"{meter}_percent"
        words = say(MEANS[f"{meter}_percent_mean"])
        measured = samples.dropna(subset=[column]) if column in samples else samples[:0]
        words = words if len(measured) else say("{}: not measured").format(words)
        x, y = (measured["seconds"], measured[column]) if len(measured) else ([], [])
        ax.plot(
            x,
            y,
            color=colour,
            label=words,
            marker="o",
            ms=2.5 if len(measured) < 200 else 0,
            lw=1.2,
        )
    _mark_epochs(ax, samples)
    ax.set(xlabel=say("time since the start [s]"), ylabel=say("in use [%]"), ylim=(0, 105))
    ax.set_xlim(0, max(samples["seconds"].max(), 1e-3))
    use_commas(ax, lang)
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    figure.suptitle(say("Utilisation over one run"))
    figure.supxlabel(say("dotted: end of an epoch, with its number"), fontsize="small")
    return figure


def name_scenarios(runs: pd.DataFrame) -> pd.DataFrame:
    """Sort the runs by environment, CPUs first, and by scenario as the paper does, and name each
    scenario.

    Returns:
        The runs with `position`, of the scenario within its environment from 0 on, and `label`: its
        number where the study gave one to each, data set, side and network, a line each.
    """
    keys = [
        "_gpu",
        "environment",
        "framework",
        "_later",
        "dataset",
        "image_size",
        "network",
        "repetition",
    ]
    runs = runs.assign(_gpu=runs["accelerator"] != "cpu", _later=runs["dataset"] != "mnist")
    runs = runs.sort_values(keys, kind="stable", ignore_index=True)
    position = runs.groupby(["environment", *FACTORS], sort=False).ngroup()
    position -= position.groupby(runs["environment"]).transform("min")
    label = runs["dataset"].map(name) + "\n" + runs["image_size"].map(name) + " px"
    label += "\nRede " + runs["network"].map(name)
    if (position.groupby([runs["environment"], runs["scenario"]]).nunique() == 1).all():
        label = runs["scenario"] + "\n" + label
    return runs.drop(columns=["_gpu", "_later"]).assign(position=position, label=label)


def _count(rows: pd.DataFrame, say: Callable[[str], str]) -> str:
    counts = sorted(set(rows.groupby("position").size()))
    return say("n = {} a scenario").format(
        "–".join(str(n) for n in dict.fromkeys([counts[0], counts[-1]]))
    )


def _draw_bars(ax: Axes, rows: pd.DataFrame, column: str, lang: str) -> None:
    """A bar for each scenario in its framework's colour, the runs on it, and the frameworks'
    names below.
    """
    palette = {
        framework: FRAMEWORK_COLOURS.get(framework, OTHER_COLOUR) for framework in rows["framework"]
    }
    look = {
        "errorbar": "sd",
        "capsize": 0.4,
        "err_kws": {"linewidth": 1, "color": "black"},
        "saturation": 1,
    }
    sns.barplot(
        rows,
        x="position",
        y=column,
        hue="framework",
        palette=palette,
        dodge=False,
        legend=False,
        ax=ax,
        **look,
    )
    for position, runs in rows.groupby("position"):
        # one run beside the other, in their order
        places = position + np.linspace(-0.3, 0.3, len(runs) + 2)[1:-1]
        draw_runs(ax, places, runs[column], runs["disturbed"], size=3.5)
    use_commas(ax, lang)
    labels = rows.groupby("position")["label"].first()
    ax.set_xticks(labels.index, labels, fontsize="x-small")
    ax.set(xlabel="", xlim=(-0.6, len(labels) - 0.4))
    lines = labels.iloc[0].count("\n") + 1
    for framework, positions in rows.groupby("framework")["position"]:
        middle = (positions.min() + positions.max()) / 2
        below = {
            "textcoords": "offset points",
            "xytext": (0, -8 - 9 * lines),
            "ha": "center",
            "va": "top",
        }
        look = {"color": palette[framework], "fontweight": "bold", "fontsize": "small"}
        ax.annotate(
            name(framework), (middle, 0), xycoords=("data", "axes fraction"), **below, **look
        )


def _draw_cost(ax: Axes, rows: pd.DataFrame, lang: str, say: Callable[[str], str]) -> None:
    """What the runs of a scenario cost together by the paper's formula, as a line; or that there
    is no price.
    """
    priced = rows.dropna(subset=["formula_usd"]) if "formula_usd" in rows else rows[:0]
    if priced.empty:
        ax.set_title(say("no price was given"), loc="right", fontsize="small")
        return
    if len(priced) < len(rows):
        notice = say("without a price: {} of {} runs").format(len(rows) - len(priced), len(rows))
        ax.set_title(notice, loc="right", fontsize="small")
    words = say(
        "price x training, all runs of a scenario; all {} together {} USD, at {} BRL each {} BRL"
    )
    usd = priced["formula_usd"].sum()
    rate = write_number(BRL_PER_USD, lang, "{:.4g}")  # the paper's are in reais
    words = words.format(
        len(priced), write_number(usd, lang), rate, write_number(usd * BRL_PER_USD, lang)
    )
    second = ax.twinx()
    sums = priced.groupby("position")["formula_usd"].sum()
    second.plot(sums.index, sums, "D--", color="black", ms=4, lw=1, mfc="#ffd92f", label=words)
    second.set_ylabel(say("price x training [USD]"))
    second.set_ylim(0, 1.15 * sums.max() or 1)
    use_commas(second, lang, "y")
    second.legend(loc="upper left", frameon=False)
    # cost follows time: on other scales the line lies above the bars
    ax.set_ylim(0, 1.5 * ax.get_ylim()[1])
    sns.despine(ax=second, right=False)


def _mark_epochs(ax: Axes, samples: pd.DataFrame) -> None:
    """A dotted line at each event but start and end; numbers at as many epochs as find room."""
    events = samples[samples["event"].fillna("").ne("") & ~samples["event"].isin(["start", "end"])]
    every = -(-len(events) // MAX_NUMBERED)
    for number, event in enumerate(events.itertuples(), start=1):
        ax.axvline(event.seconds, color="#606060", ls=":", lw=1)
        if number % every == 0 or not event.event.startswith("epoch "):
            text = event.event.removeprefix("epoch ")
            ax.annotate(
                text,
                (event.seconds, 1),
                xycoords=("data", "axes fraction"),
                ha="center",
                va="bottom",
            )
