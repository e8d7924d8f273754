"""Draw paper D: time after each epoch (its figure 1a), to each accuracy (1b), and speed-up (2).

CUDA C is hundreds of times as fast as Keras, so times and speed-ups are on logarithmic axes. Each
figure takes timed rows of a `Selection` with their epochs, and `lang` (en, or pt with decimal
commas).
"""

from collections.abc import Callable, Collection
from textwrap import fill
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dr_lib.mnist.epochs import (
    IMPLEMENTATIONS,
    find_times_to_accuracy,
    list_epochs,
    list_runs,
)
from dr_lib.report.groups import NoRunsError
from dr_lib.report.style import (
    FRAMEWORK_COLOURS,
    MUTED,
    OTHER_COLOUR,
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


class Line(NamedTuple):
    """The runs of an implementation with a batch size on a machine, and their line style."""

    label: str
    colour: str
    style: str
    runs: pd.DataFrame

    @property
    def seconds(self) -> pd.DataFrame:
        """Median and extremes of the time after each epoch."""
        return list_epochs(self.runs).groupby("epoch")["train_s"].agg(SPREAD)


def plot_cumulative_time(timed: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the time after each epoch, a line per implementation, batch and machine: figure 1a.

    Raises:
        NoRunsError: no run has epochs.
    """
    say = choose_words(lang)
    lines = _list_lines(list_runs(timed), say)
    figure, (ax,) = open_panels(1)
    for line in lines:
        _draw_band(ax, line.seconds, line)
    ax.set(xlabel=say("epoch"), ylabel=say("cumulative training time [s]"))
    _finish(figure, [ax], lang, *ax.get_legend_handles_labels())
    return figure


def plot_time_to_accuracy(timed: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the time to reach each test error, which compares different batch sizes: figure 1b.

    Raises:
        NoRunsError: no run has epochs.
    """
    say = choose_words(lang)
    runs = list_runs(timed)
    lines = _list_lines(runs, say)
    figure, (ax,) = open_panels(1)
    # no error has no place on a logarithmic axis
    reached = list_epochs(runs)["accuracy"].clip(upper=0.9995)
    levels = np.unique([*np.linspace(reached.min(), reached.max(), 400), *reached])
    for line in lines:
        times = [find_times_to_accuracy(run, levels) for _, run in line.runs.iterrows()]
        spread = pd.DataFrame(times, columns=100 * (1 - levels)).agg(SPREAD).T
        _draw_band(ax, spread.where(np.isfinite(spread)), line)
    ax.set(xlabel=say("test error reached [%]"), ylabel=say("time to reach it [s]"))
    _finish(figure, [ax], lang, *ax.get_legend_handles_labels())
    ax.invert_xaxis()
    return figure


def plot_speed_up(timed: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the speed-up of CUDA C over Keras, one panel for each backend: figure 2.

    Both come from the same host. A line is solid where both train in the same batch, and dotted
    where they do not, as in the paper's own comparison: an epoch of larger batches is faster, and
    learns less.

    Raises:
        NoRunsError: no run of CUDA C has one of Keras on its host.
    """
    say = choose_words(lang)
    runs = list_runs(timed)
    is_cuda = runs["framework"] == "cuda"
    panels = []
    for keras in _list_lines(runs[~is_cuda], say):
        near = runs[is_cuda & runs["host"].isin(keras.runs["host"])]
        if len(near):
            panels.append((keras, _list_lines(near, say)))
    if not panels:
        raise NoRunsError(
            "no run of CUDA C has a run of Keras on the same host: train both in notebook 40"
        )
    figure, axes = open_panels(len(panels), columns=2, share="xy")
    drawn = {}
    for ax, (keras, near) in zip(axes, panels, strict=True):
        for line in near:
            is_alike = line.runs["batch_size"].iloc[0] == keras.runs["batch_size"].iloc[0]
            # from the smallest ratio to the largest, after each common epoch
            ours = line.seconds[["median", "max", "min"]].set_axis(SPREAD, axis=1)
            ratio = (keras.seconds / ours).dropna()
            shown = line._replace(style="-" if is_alike else ":")
            _draw_band(ax, ratio, shown)
            drawn[line.label] = Line2D([], [], color=line.colour)
        ax.axhline(1, color="black", lw=0.8)
        title = fill(say("against {}").format(keras.label), 36)
        ax.set_title(title, loc="left", fontsize=10, color=MUTED)
        ax.set(xlabel=say("epoch"))
        ax.tick_params(labelbottom=True)
    drawn[say("dotted: in another batch than Keras")] = Line2D([], [], color=MUTED, ls=":")
    _finish(figure, axes, lang, drawn.values(), drawn)
    figure.supylabel(say("times as fast as Keras"))
    return figure


def name_line(line: str, say: Callable[[str], str]) -> str:
    """Name a line of the figures: C++ fused, batch 1, CPU."""
    implementation, batch, rest = line.partition(", batch ")
    return f"{say(implementation)}, {say('batch')} {rest}" if batch else line


def _list_lines(runs: pd.DataFrame, say: Callable[[str], str]) -> list[Line]:
    if runs.empty:
        raise NoRunsError(
            "no run has epochs: train in notebook 40, or run papermill_runs/mnist_cuda.yaml"
        )
    places = runs["implementation"].map([*IMPLEMENTATIONS].index)
    runs = runs.assign(_place=places).sort_values(["_place", "batch_size"], kind="stable")
    lines = []
    for name, rows in runs.groupby("line", sort=False):
        first = rows.iloc[0]
        colour = COLOURS.get(first["implementation"], OTHER_COLOUR)
        style = STYLES.get(first["batch_size"], "-.")
        lines.append(Line(name_line(name, say), colour, style, rows))
    return lines


def _draw_band(ax: Axes, spread: pd.DataFrame, line: Line) -> Line2D:
    """Draw a line in its band; a few epochs have points."""
    epochs = spread.index
    ax.fill_between(epochs, spread["min"], spread["max"], color=line.colour, alpha=0.2, lw=0)
    (drawn,) = ax.plot(
        epochs,
        spread["median"],
        line.style,
        marker="o" if len(epochs) <= 12 else "",
        color=line.colour,
        label=line.label,
        lw=1.6,
        ms=5,
    )
    return drawn


def _finish(
    figure: Figure,
    axes: Collection[Axes],
    lang: str,
    lines: Collection[Artist],
    labels: Collection[str],
) -> None:
    """Make the axes logarithmic, and name the lines below the panels."""
    for ax in axes:
        ax.set(xscale="log", yscale="log")
        space_ticks(ax, lang)
    figure.set_figheight(3.4 + 0.2 * len(lines))
    place = "outside lower left"
    figure.legend(lines, labels, loc=place, frameon=False, fontsize=9, handlelength=4)
