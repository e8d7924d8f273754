"""Draw paper D: time after each epoch (its figure 1a), time to reach each accuracy (1b), speed-up
per epoch (2).

CUDA C is hundreds of times as fast as Keras, so times and speed-ups are on logarithmic axes. Each
figure takes timed rows of a `Selection` with the epochs of their replicas, `lang` (en, or pt with
decimal commas) and whether to draw the paper's points.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from dr_lib.evidence.claims import list_printed
from dr_lib.evidence.mnist import IMPLEMENTATIONS, find_times_to_accuracy, list_epochs
from dr_lib.evidence.papers import PAPERS
from dr_lib.evidence.select import NoRunsError
from dr_lib.figures.style import (
    FRAMEWORK_COLOURS,
    OTHER_COLOUR,
    THEIRS,
    choose_words,
    name_line,
    open_panels,
    space_ticks,
)
from dr_lib.numbers import write_number

COLOURS = {  # Keras has those of its backends elsewhere
    "keras_tensorflow": FRAMEWORK_COLOURS["tensorflow"],
    "keras_jax": FRAMEWORK_COLOURS["keras_jax"],
    "paper": "#404040",
    "fused": "#0173b2",
    "true_gradient": "#cc78bc",
    "minibatch": "#00695c",
}
POINT = {"color": THEIRS, "mec": "black", "ms": 8, "ls": "none", "zorder": 5}
PAPER_LOOK = {"cuda": POINT | {"marker": "D"}, "keras": POINT | {"marker": "s"}}
TICKS = (
    0.1,
    0.2,
    0.5,
    0.7,
    0.8,
    0.85,
    0.9,
    0.92,
    0.94,
    0.95,
    0.96,
    0.97,
    0.975,
    0.98,
    0.985,
    0.99,
    0.995,
    0.999,
)
HIGHEST = 0.9995  # a perfect accuracy has no place on a logit axis


def plot_cumulative_time(
    timed: pd.DataFrame, lang: str = "en", *, published: bool = True
) -> Figure:
    """Draw the training time after each epoch, a line per implementation, batch and machine: the
    paper's figure 1a.

    Without rows the paper's end points stand alone.
    """
    say = choose_words(lang)
    epochs = list_epochs(timed)
    figure, ax = _open("Time after each epoch", "line: median; band: all replicas and runs", say)
    for label, colour, look, rows in _take_lines(epochs, say):
        spread = rows.groupby("epoch")["train_s"]
        _draw_line(ax, spread.median(), spread.min(), spread.max(), colour, look, label)
    for framework, point in _read_paper().iterrows() if published else ():
        seconds = write_number(point["seconds"], lang, "{:g} s")
        machine = {"cuda": "CUDA C, Tesla T4", "keras": "Keras, CPU"}[framework]
        label = f"{machine}, {say(PAPERS['D'].authors)}: {seconds}"
        ax.plot(point["epochs"], point["seconds"], label=label, **PAPER_LOOK[framework])
    ax.set(
        xlabel=say("epoch"), ylabel=say("cumulative training time [s]"), xscale="log", yscale="log"
    )
    space_ticks(ax, lang)
    _list_lines(ax)
    return figure


def plot_time_to_accuracy(
    timed: pd.DataFrame, lang: str = "en", *, published: bool = True
) -> Figure:
    """Draw how long it takes to reach each accuracy: the paper's figure 1b, and what unlike batches
    compare by.

    Raises:
        NoRunsError: no run has epochs.
    """
    say = choose_words(lang)
    epochs = list_epochs(timed)
    if epochs.empty:
        raise NoRunsError(
            "no run has epochs: train in notebook 40, or run papermill_runs/mnist_cuda.yaml"
        )
    legend = "line: median, where half have reached it; band: all replicas and runs"
    figure, ax = _open("Time to reach each accuracy", legend, say)
    lowest, highest = epochs["accuracy"].clip(0.05, HIGHEST).agg(["min", "max"])
    levels = np.unique(
        [*np.linspace(lowest, highest, 400), *epochs["accuracy"].clip(lowest, highest)]
    )
    for label, colour, look, rows in _take_lines(epochs, say):
        times = find_times_to_accuracy(rows, levels)
        middle, low, high = (
            spread.where(np.isfinite(spread))
            for spread in (times.median(), times.min(), times.max())
        )
        _draw_line(ax, middle, low, high, colour, look, label)
    for seconds in _read_paper()["seconds"] if published else ():
        ax.axhline(seconds, color=THEIRS, lw=1, ls=":")
        words = f"{say(PAPERS['D'].authors)}: {write_number(seconds, lang, '{:g} s')}"
        ax.annotate(
            words,
            (0, seconds),
            (3, 2),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
        )
    ax.set(
        xlabel=say("test accuracy reached [%]"),
        ylabel=say("time to reach it [s]"),
        xscale="logit",
        yscale="log",
    )
    ax.set_xlim(lowest, 1 - 0.8 * (1 - highest))
    _number_accuracies(ax, lang)
    space_ticks(ax, lang, "y")
    _list_lines(ax)
    return figure


def plot_speed_up(timed: pd.DataFrame, lang: str = "en", *, published: bool = True) -> Figure:
    """Draw how many times as fast as Keras CUDA C is after each epoch: the paper's figure 2, a
    panel for each Keras.

    Both come from the same host. A line is solid where both train in the same batch, and dotted
    where they do not, as in the paper's own comparison: an epoch of larger batches is faster, and
    learns less.

    Raises:
        NoRunsError: no run of CUDA C has one of Keras on its host.
    """
    say = choose_words(lang)
    epochs = list_epochs(timed)
    panels = []
    lines = {"keras": [], "cuda": []}
    for line in _take_lines(epochs, say):
        lines[line[3]["framework"].iloc[0]].append(line)
    for name, _, _, theirs in lines["keras"]:
        near = [line for line in lines["cuda"] if set(line[3]["host"]) & set(theirs["host"])]
        panels += [(name, theirs, near)] if near else []
    if not panels:
        raise NoRunsError(
            "no run of CUDA C has one of Keras on its host: train both in notebook 40"
        )
    figure, axes = open_panels(
        len(panels), columns=2, width=4.5 if len(panels) > 1 else 7, heights=3.4, share="xy"
    )
    named = {}
    for ax, (name, theirs, near) in zip(axes, panels, strict=True):
        for label, colour, _, ours in near:
            is_alike = ours["batch_size"].iloc[0] == theirs["batch_size"].iloc[0]
            named[label] = _draw_ratio(ax, ours, theirs, colour, "-" if is_alike else ":")
        named |= _draw_paper_ratio(ax, theirs, lang, say) if published else {}
        ax.axhline(1, color="black", lw=0.8)
        ax.set_title(
            say("against {}").format(name), loc="left", fontsize="medium", fontweight="bold"
        )
        ax.set(xlabel=say("epoch"), xscale="log", yscale="log")
        ax.tick_params(labelbottom=True)
        space_ticks(ax, lang)
    handles = [
        Line2D(
            [],
            [],
            color=h.get_color(),
            marker=h.get_marker(),
            mec=h.get_mec(),
            ls=h.get_ls().replace(":", "-"),
        )
        for h in named.values()
    ]
    figure.legend(handles, named, loc="outside right center", frameon=False, fontsize="small")
    figure.supylabel(say("times as fast as Keras"))
    figure.suptitle(say("Speed-up over Keras after each epoch"))
    legend = "line: median; band: all replicas and runs; dotted: another batch than Keras"
    figure.supxlabel(say(legend), fontsize="small")
    return figure


def _read_paper() -> pd.DataFrame:
    """The paper's two end points by framework: seconds, epochs, and of Keras the implementation
    and batch.
    """
    points = list_printed("D").query("column == 'train_s'")
    points = points.assign(seconds=points["value"], epochs=points["epochs"].astype(int))
    return points.set_index("framework")


def _take_lines(
    epochs: pd.DataFrame, say: Callable[[str], str]
) -> Iterator[tuple[str, str, dict, pd.DataFrame]]:
    """Label, colour, look and epochs of each line: batch 1 solid, 32 dashed, others dash-dotted."""
    order = epochs.assign(
        _order=epochs["implementation"].map(list(IMPLEMENTATIONS).index).astype(int)
    )
    for line, rows in order.sort_values(["_order", "batch_size"], kind="stable").groupby(
        "line", sort=False
    ):
        style = {"ls": {1: "-", 32: "--"}.get(rows["batch_size"].iloc[0], "-.")}
        yield (
            name_line(line, say),
            COLOURS.get(rows["implementation"].iloc[0], OTHER_COLOUR),
            style,
            rows,
        )


def _draw_line(
    ax: Axes,
    middle: pd.Series,
    low: pd.Series,
    high: pd.Series,
    colour: str,
    look: dict,
    label: str = "",
) -> Line2D:
    """A line in its band; a few epochs have points."""
    marker = "o" if len(middle) <= 12 else None
    (line,) = ax.plot(
        middle.index, middle, color=colour, label=label, lw=1.6, marker=marker, ms=4, **look
    )
    ax.fill_between(low.index, low, high, color=colour, alpha=0.2, lw=0)
    return line


def _draw_ratio(
    ax: Axes, ours: pd.DataFrame, theirs: pd.DataFrame, colour: str, style: str
) -> Line2D:
    """Keras's time over ours after each epoch that both have; the band from the least to the
    largest ratio.
    """
    a, b = (
        rows.groupby("epoch")["train_s"].agg(["median", "min", "max"]) for rows in (theirs, ours)
    )
    both = a.add_suffix("_theirs").join(b.add_suffix("_ours"), how="inner")
    low = both["min_theirs"] / both["max_ours"]
    high = both["max_theirs"] / both["min_ours"]
    return _draw_line(
        ax, both["median_theirs"] / both["median_ours"], low, high, colour, {"ls": style}
    )


def _draw_paper_ratio(
    ax: Axes, theirs: pd.DataFrame, lang: str, say: Callable[[str], str]
) -> dict[str, Line2D]:
    """The paper's ratio, where the panel's Keras is what the paper's most likely was."""
    paper = _read_paper()
    first = theirs.iloc[0]
    keras = paper.loc["keras"]
    if (
        first["implementation"] != keras["implementation"]
        or f"{first['batch_size']:g}" != keras["batch_size"]
    ):
        return {}
    ratio = keras["seconds"] / paper.loc["cuda", "seconds"]
    (point,) = ax.plot(keras["epochs"], ratio, **PAPER_LOOK["cuda"])
    return {f"{say(PAPERS['D'].authors)}: {write_number(ratio, lang)} x": point}


def _number_accuracies(ax: Axes, lang: str) -> None:
    """Number as many accuracies as find room."""
    low, high = (np.log(a / (1 - a)) for a in ax.get_xlim())
    kept = []
    last = -np.inf
    for tick in TICKS:
        place = (np.log(tick / (1 - tick)) - low) / (high - low)
        if 0 <= place <= 1 and place > last + 0.06:
            kept = [*kept, tick]
            last = place
    ax.xaxis.set_major_locator(FixedLocator(kept))
    ax.xaxis.set_major_formatter(lambda value, _: write_number(100 * value, lang, "{:g}"))
    ax.xaxis.set_minor_locator(NullLocator())


def _open(title: str, legend: str, say: Callable[[str], str]) -> tuple[Figure, Axes]:
    figure, (ax,) = open_panels(1, width=8)
    figure.suptitle(say(title))
    figure.supxlabel(say(legend), fontsize="small")
    return figure, ax


def _list_lines(ax: Axes) -> None:
    ax.legend(
        loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize="small", handlelength=4
    )
