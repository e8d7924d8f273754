"""Draw trainings: their time by hardware (figure 1 of paper A), their speed by batch, history."""

from collections.abc import Callable
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from dr_lib.report.groups import Selection, measure, select_runs
from dr_lib.report.means import Mean, plot_means
from dr_lib.report.style import (
    ACCELERATOR_COLOURS,
    MUTED,
    OURS,
    THEIRS,
    choose_words,
    name,
    open_panels,
    space_ticks,
)
from dr_lib.statistics.intervals import Interval

PAPER_WORK = {
    "task": "referable",
    "model": "inception_v3",
    "image_size": 299,
    "epochs": 200,
    "data_kind": "photographs",
}
STYLES = {"paper": "--", "plain": ":"}  # of modes


def is_paper_work(rows: pd.DataFrame) -> pd.Series:
    """Whether rows did the work that we read paper A to have done."""
    known = rows.reindex(columns=PAPER_WORK)
    return (known == pd.Series(PAPER_WORK)).all(axis=1)


def plot_training_time(
    timed: pd.DataFrame, lang: str = "en", *, published: pd.DataFrame | None = None
) -> Figure:
    """Draw the mean training time of each group, and those of paper A beside equal work.

    Other work has an axis of its own.

    Args:
        timed: timed rows of a `Selection`. Without any the paper stands alone.
        lang: en, or pt with decimal commas.
        published: the paper's means, of `claims.list_printed`.

    Example:
        >>> from dr_lib.claims.papers import PAPERS
        >>> selection = open_rows(PAPERS["A"], "papermill_runs/demo", Path("."))
        >>> figure = plot_training_time(selection.timed)
        >>> figure.savefig("figure_1.png")
    """
    say = choose_words(lang)
    theirs = say("Paper: network, number of photos not published")
    panels = {theirs: []}
    for row in published.itertuples() if published is not None else ():
        interval = Interval(60 * row.value, np.nan, np.nan, 1)
        label = f"{row.hardware}\n{say(row.authors)}"
        panels[theirs].append(Mean(label, interval, THEIRS))
    timed = timed.dropna(subset=["train_s"]) if "train_s" in timed else timed[:0]
    groups = [rows for _, rows in timed.groupby("group")] if len(timed) else []
    for rows in sorted(groups, key=lambda rows: -rows["train_s"].median()):
        label, work = rows.iloc[0][["group", "work"]]
        count = say("n = {}, sessions: {}").format(len(rows), rows["session"].nunique())
        panel = _name_work(rows.iloc[0], say)
        if published is not None and is_paper_work(rows).all():  # the paper's, as we read it
            count = f"{name(PAPER_WORK['model'])}; {count}"
            panel = theirs
        elif work:
            label = label.replace(f", {work}", "")
        mean = Mean(
            f"{fill(label, 30)}\n{count}",
            measure("train_s", rows),
            _find_colour(rows),
            rows["train_s"],
            rows["disturbed"],
        )
        panels.setdefault(panel, []).append(mean)
    return plot_means(panels, lang)


def plot_throughput(selection: Selection, lang: str = "en") -> Figure:
    """Draw the photographs a second of a steady epoch against the batch, a line for groups that
    differ in it alone; nothing where all batches are of one size.

    Args:
        selection: of the rows.
        lang: en, or pt with decimal commas.

    Example:
        >>> from dr_lib.claims.papers import PAPERS
        >>> selection = open_rows(PAPERS["A"], "papermill_runs/demo", Path("."))
        >>> figure = plot_throughput(selection)
    """
    timed = selection.timed
    if "images_per_s" not in timed:
        return Figure()
    timed = timed.dropna(subset=["images_per_s"])  # which a single epoch has not
    if timed["batch_size"].nunique() < 2:
        return Figure()
    say = choose_words(lang)
    pooled = [*selection.pooled, "batch_size", "step_size"]
    lines = select_runs(timed, pool=pooled, lang=lang).finished.groupby("group")
    figure, (ax,) = open_panels(1, heights=3.6 + 0.2 * len(lines))
    for number, (line, rows) in enumerate(lines):
        of_batch = rows.groupby("batch_size")
        batches = np.array([*of_batch.groups]) * 1.03**number  # intervals side by side
        means = [measure("images_per_s", some) for _, some in of_batch]
        values, lows, highs, *_ = zip(*means, strict=True)
        colour = _find_colour(rows)
        style = STYLES.get(rows["mode"].iloc[0], "-")
        ax.vlines(batches, lows, highs, color=colour, lw=2.4)
        ax.plot(batches, values, f"o{style}", color=colour, lw=1.2, ms=4, label=line)
    ax.set(xscale="log", yscale="log")
    ax.set(xlabel=say("batch size"), ylabel=say("photographs a second"))
    space_ticks(ax, lang, "y")
    ax.set_xticks(ticks := sorted(set(timed["batch_size"])), map(name, ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    figure.legend(loc="outside lower left", frameon=False, fontsize=9)
    return figure


def plot_history(history: pd.DataFrame, kind: str) -> Figure:
    """Draw the loss and the AUC of a training by epoch, each beside that of the validation.

    Args:
        history: a row per epoch, with `loss`, `auc` and, where there is a validation split,
            `val_loss` and `val_auc`.
        kind: what the network learned from, for the axis.

    Example:
        >>> history = pd.DataFrame({"loss": [0.7, 0.5], "auc": [0.6, 0.8]})
        >>> figure = plot_history(history, "photographs")
    """
    history = history.set_axis(range(1, len(history) + 1))
    figure, axes = open_panels(2, columns=2, heights=2.4)
    for ax, metric in zip(axes, ("loss", "auc"), strict=True):
        history.filter([metric, f"val_{metric}"]).plot(ax=ax, color=[THEIRS, OURS], lw=2)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.supxlabel(f"epoch; {kind}", color=MUTED, fontsize=9)
    return figure


def _find_colour(rows: pd.DataFrame) -> str:
    """Find the colour of a group's accelerator."""
    kind = rows["accelerator"].iloc[0][:3].lower()
    return ACCELERATOR_COLOURS.get(kind, ACCELERATOR_COLOURS["gpu"])


def _name_work(row: pd.Series, say: Callable[[str], str]) -> str:
    """Name the work of a row: network, size, epochs, and what else tells groups apart."""
    size = f"{row['image_size']:g} px"
    parts = [name(row["model"]), size, say("{} epochs").format(row["epochs"])]
    if row["data_kind"] == "synthetic":
        parts.append(say("synthetic"))
    return ", ".join(filter(None, [*parts, row["work"]]))
