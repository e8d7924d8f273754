"""Draw paper D: time after each epoch (its figure 1a), to each accuracy (1b), and speed-up (2).

CUDA C is hundreds of times as fast as Keras, so times and speed-ups are on logarithmic axes. Each
figure takes timed rows of a `Selection` with their epochs, `lang` (en, or pt with
decimal commas) and whether to draw the paper's points.
"""

from collections.abc import Callable, Collection
from textwrap import fill
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D

from dr_lib.mnist.epochs import IMPLEMENTATIONS, find_times_to_accuracy, list_epochs
from dr_lib.numbers import write_number
from dr_lib.report.select import NoRunsError
from dr_lib.report.style import (
    FRAMEWORK_COLOURS,
    MUTED,
    OTHER_COLOUR,
    THEIRS,
    choose_words,
    open_panels,
    space_ticks,
)

COLOURS = {  # Keras has those of its backends elsewhere
    "keras_tensorflow": FRAMEWORK_COLOURS["tensorflow"],
    "keras_jax": FRAMEWORK_COLOURS["keras_jax"],
    "paper": "#404040",
    "fused": "#0173b2",
    "minibatch": "#00695c",
}
STYLES = {1: "-", 32: "--"}  # by batch size
SPREAD = ["median", "min", "max"]
EPOCHS = 40  # of the paper's end points
CONDITIONS = ["implementation", "batch_size", "accelerator"]  # under which they are drawn


class Line(NamedTuple):
    """The epochs of an implementation with a batch size on a machine, and their line style."""

    label: str
    colour: str
    style: str
    epochs: pd.DataFrame

    @property
    def batch(self) -> tuple[str, int]:
        """The implementation and its batch size."""
        first = self.epochs.iloc[0]
        return first["implementation"], first["batch_size"]

    @property
    def seconds(self) -> pd.DataFrame:
        """Median and extremes of the time after each epoch."""
        return self.epochs.groupby("epoch")["train_s"].agg(SPREAD)


def did_paper_work(timed: pd.DataFrame) -> bool:
    """Whether rows trained on all of MNIST, as the paper did, or there are none: times of other
    work do not share its axis.
    """
    if timed.empty:
        return True
    work = timed.reindex(columns=["data_kind", "data_share"])
    return bool((work["data_kind"].eq("given") & work["data_share"].eq(1)).any())


def plot_cumulative_time(
    timed: pd.DataFrame, lang: str = "en", *, published: pd.DataFrame | None = None
) -> Figure:
    """Draw the time after each epoch, a line per implementation, batch and machine: figure 1a.

    The paper's end points stand beside equal work, or alone.
    """
    say = choose_words(lang)
    figure, (ax,) = open_panels(1)
    for line in _list_lines(list_epochs(timed), say):
        _draw_band(ax, line.seconds, line)
    machines = {"cuda": "CUDA C, Tesla T4", "keras": "Keras, CPU"}
    for point in _list_points(published) if did_paper_work(timed) else ():
        authors = say(point.authors)
        seconds = write_number(point.value, lang, "{:g} s")
        label = f"{machines[point.framework]}, {authors}: {seconds}"
        marker = "D" if point.framework == "cuda" else "s"
        ax.plot(
            EPOCHS, point.value, marker, color=THEIRS, mec="black", ms=8, zorder=5, label=label
        )
    ax.set(xlabel=say("epoch"), ylabel=say("cumulative training time [s]"))
    ax.set(xscale="log", yscale="log")
    space_ticks(ax, lang)
    _add_legend(figure, *ax.get_legend_handles_labels())
    return figure


def plot_time_to_accuracy(
    timed: pd.DataFrame, lang: str = "en", *, published: pd.DataFrame | None = None
) -> Figure:
    """Draw the time to reach each test error, which compares different batch sizes: figure 1b.

    Raises:
        NoRunsError: no run has epochs.
    """
    say = choose_words(lang)
    epochs = list_epochs(timed)
    if epochs.empty:
        raise NoRunsError(
            "no run has epochs: train in notebook 40, or run papermill_runs/mnist_cuda.yaml"
        )
    figure, (ax,) = open_panels(1)
    # no error has no place on a logarithmic axis
    reached = epochs["accuracy"].clip(upper=0.9995)
    levels = np.unique([*np.linspace(reached.min(), reached.max(), 400), *reached])
    for line in _list_lines(epochs, say):
        spread = find_times_to_accuracy(line.epochs, levels).agg(SPREAD).T
        spread = spread.where(np.isfinite(spread))
        _draw_band(ax, spread.set_axis(100 * (1 - spread.index)), line)
    shown = published if did_paper_work(timed) else None
    for point in _list_points(shown, epochs):
        ax.axhline(point.value, color=THEIRS, lw=1, ls=":")
        ax.annotate(
            f"{say(point.authors)}: {write_number(point.value, lang, '{:g} s')}",
            (0, point.value),
            (3, 2),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
        )
    ax.set(xlabel=say("test error reached [%]"), ylabel=say("time to reach it [s]"))
    ax.set(xscale="log", yscale="log")
    space_ticks(ax, lang)
    ax.invert_xaxis()
    _add_legend(figure, *ax.get_legend_handles_labels())
    return figure


def plot_speed_up(
    timed: pd.DataFrame, lang: str = "en", *, published: pd.DataFrame | None = None
) -> Figure:
    """Draw the speed-up of CUDA C over Keras, one panel for each backend: figure 2.

    Both come from the same host. A line is solid where both train in the same batch, and dotted
    with hollow points where they do not, as in the paper's own comparison: an epoch of larger
    batches is faster, and learns less. The paper's ratio is a dashed line beside what it compared.

    Raises:
        NoRunsError: no run of CUDA C has one of Keras on its host.
    """
    say = choose_words(lang)
    epochs = list_epochs(timed)
    cuda = _list_lines(epochs[epochs["framework"] == "cuda"], say)
    panels = []
    for keras in _list_lines(epochs[epochs["framework"] == "keras"], say):
        near = [line for line in cuda if {*line.epochs["host"]} & {*keras.epochs["host"]}]
        if near:
            panels.append((keras, near))
    if not panels:
        raise NoRunsError(
            "no run of CUDA C has a run of Keras on the same host: train both in notebook 40"
        )
    figure, axes = open_panels(len(panels), columns=2, share="xy")
    drawn = {}
    shown = published if did_paper_work(timed) else None
    for ax, (keras, near) in zip(axes, panels, strict=True):
        for line in near:
            style = "-" if line.batch[1] == keras.batch[1] else ":"
            ratio = _divide(keras.seconds, line.seconds)
            drawn[line.label] = _draw_band(ax, ratio, line._replace(style=style))
        points = _list_points(shown, pd.concat([line.epochs for line in (keras, *near)]))
        paper = {point.framework: point for point in points}
        if len(paper) == 2:
            ratio = paper["keras"].value / paper["cuda"].value
            when = say("after {} epochs").format(EPOCHS)
            authors = say(paper["keras"].authors)
            label = f"{authors}: {write_number(ratio, lang, '')} x, {when}"
            drawn[label] = ax.axhline(ratio, color=THEIRS, ls="--")
        ax.axhline(1, color="black", lw=0.8)
        title = fill(say("against {}").format(keras.label), 36)
        ax.set_title(title, loc="left", fontsize=10, color=MUTED)
        ax.set(xlabel=say("epoch"), xscale="log", yscale="log")
        ax.tick_params(labelbottom=True)
        space_ticks(ax, lang)
    legend = _add_legend(figure, drawn.values(), drawn)
    for line in legend.get_lines():  # a line may be dotted in one panel and solid in another
        if line.get_linestyle() == ":":
            line.set(linestyle="-", markerfacecolor=line.get_color())
    figure.supylabel(say("times as fast as Keras"))
    return figure


def _list_points(
    published: pd.DataFrame | None, beside: pd.DataFrame | None = None
) -> list[NamedTuple]:
    """List the paper's two end points, of the rows of `claims.list_printed`.

    Args:
        published: the paper's means; None for none.
        beside: epochs; an end point of another program, batch or device than any of theirs is left
            out. The program `paper` has batch 1.
    """
    if published is None:
        return []
    points = published[published["column"] == "train_s"].astype({"batch_size": float})
    found = []
    for point in points.itertuples():
        conditions = points.loc[point.Index, CONDITIONS].dropna()
        if beside is None or (beside[conditions.index] == conditions).all(axis=1).any():
            found.append(point)
    return found


def name_line(line: str, say: Callable[[str], str]) -> str:
    """Name a line of the figures: C++ fused, batch 1, CPU."""
    implementation, batch, rest = line.partition(", batch ")
    return f"{say(implementation)}, {say('batch')} {rest}" if batch else line


def _list_lines(epochs: pd.DataFrame, say: Callable[[str], str]) -> list[Line]:
    order = epochs.assign(
        _order=epochs["implementation"].map([*IMPLEMENTATIONS].index).astype(int)
    )
    order = order.sort_values(["_order", "batch_size"], kind="stable")
    lines = []
    for name, rows in order.groupby("line", sort=False):
        first = rows.iloc[0]
        colour = COLOURS.get(first["implementation"], OTHER_COLOUR)
        style = STYLES.get(first["batch_size"], "-.")
        lines.append(Line(name_line(name, say), colour, style, rows))
    return lines


def _divide(theirs: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """Compute the ratios after each common epoch, from the smallest to the largest."""
    ratio = theirs / ours[["median", "max", "min"]].set_axis(SPREAD, axis=1)
    return ratio.dropna()


def _draw_band(ax: Axes, spread: pd.DataFrame, line: Line) -> Line2D:
    """Draw a line in its band; a few epochs have points."""
    epochs = spread.index
    middle, low, high = (spread[column] for column in SPREAD)
    ax.fill_between(epochs, low, high, color=line.colour, alpha=0.2, lw=0)
    (drawn,) = ax.plot(
        epochs,
        middle,
        line.style,
        marker="o" if len(epochs) <= 12 else "",
        mfc="white" if line.style == ":" else line.colour,
        color=line.colour,
        label=line.label,
        lw=1.6,
        ms=5,
    )
    return drawn


def _add_legend(figure: Figure, lines: Collection[Artist], labels: Collection[str]) -> Legend:
    """Name the lines below the panels, and make room for the names."""
    figure.set_figheight(3.4 + 0.2 * len(lines))
    place = "outside lower left"
    return figure.legend(lines, labels, loc=place, frameon=False, fontsize=9, handlelength=4)
