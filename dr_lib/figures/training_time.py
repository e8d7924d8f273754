"""Draw paper A: training time by hardware (its figure 1); and the history of one training."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dr_lib.evidence.claims import list_printed
from dr_lib.evidence.papers import PAPERS
from dr_lib.evidence.training_time import SCALED
from dr_lib.figures.style import (
    ACCELERATOR_COLOURS,
    LINES,
    choose_words,
    draw_runs,
    find_reach,
    name,
    open_panels,
    use_commas,
)
from dr_lib.numbers import write_interval
from dr_lib.statistics.intervals import mean_interval


def plot_training_time(
    timed: pd.DataFrame, lang: str = "en", *, published: bool = True
) -> Figure:
    """Draw the mean training time of each environment, and below it the means that paper A printed.

    Bars are arithmetic means and error bars standard deviations, as in the paper; the interval
    beside a bar is `mean_interval`'s. Both panels share the axis where our longest mean reaches a
    fifth of the paper's; where they do not, a line stands for our mean, since bars on two scales
    would be compared by eye.

    Args:
        timed: timed rows of a `Selection`. Without any the paper stands alone.
        lang: en, or pt with decimal commas.
        published: draw the paper's panel, of the claims.
    """
    say = choose_words(lang)
    ours = timed.dropna(subset=["train_s"]) if "train_s" in timed else timed[:0]
    ours, paper = _sort_by_machine(ours), _read_paper() if published else ours[:0]
    panels = [
        (title, rows)
        for title, rows in ((say("our runs"), ours), (say(PAPERS["A"].authors), paper))
        if len(rows)
    ]
    longest = ours.groupby("environment")["train_s"].mean().max() if len(ours) else 0.0
    is_shared = len(panels) > 1 and longest > paper["train_s"].max() / 5
    heights = [0.35 + 0.7 * rows["environment"].nunique() for _, rows in panels]
    figure, axes = open_panels(
        len(panels), width=6, heights=heights, share="x" if is_shared else ""
    )
    for ax, (title, rows) in zip(axes, panels, strict=True):
        unit = "s" if rows is ours and not is_shared and longest < 120 else "min"
        _draw_means(
            ax,
            rows,
            unit,
            lang,
            "bar" if len(panels) == 1 or is_shared or rows is paper else "line",
        )
        ax.set_title(title, loc="left", fontweight="bold")
        ax.set(xlabel=f"{say('training time')} [{unit}]", ylabel="")
        if rows is ours and len(panels) > 1 and not is_shared:
            ax.set_title(say("another scale than below"), loc="right", fontsize="small")
    figure.suptitle(say("Training time by hardware"))
    words = (
        "bar or line: mean [95 % interval]; error bar: standard deviation; points: runs in order,"
        " hollow if disturbed"
    )
    figure.supxlabel(say(words), fontsize="small")
    return figure


def plot_history(history: Sequence[Mapping[str, float]], data: str) -> Figure:
    """Draw the loss and the AUC of referable disease after each epoch.

    Args:
        history: of each epoch loss, auc and, with a validation split, val_loss and val_auc.
        data: what was trained on, in words.
    """
    history = pd.DataFrame(history)
    figure, axes = open_panels(2, columns=2, width=4, heights=2.4)
    for ax, metric, words in zip(
        axes, ("loss", "auc"), ("loss", "AUC of referable disease"), strict=True
    ):
        for column, label, colour in (
            (metric, "training", LINES[0]),
            (f"val_{metric}", "validation", LINES[1]),
        ):
            if column in history:
                ax.plot(
                    range(1, len(history[column]) + 1),
                    history[column],
                    ".-",
                    color=colour,
                    label=label,
                )
        ax.set(xlabel="epoch", ylabel=words)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend(frameon=False)
    axes[1].set_ylim(0, 1.02)
    figure.suptitle(f"Training history: {data}")
    return figure


def plot_speed_up(machines: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the speed-up over the number of machines, a panel for each kind of work, both axes
    logarithmic.

    Args:
        machines: from `compare_machines`.
        lang: en, or pt with decimal commas.
    """
    say = choose_words(lang)
    kinds = [kind for kind in SCALED if kind in machines]
    groups = list(machines.groupby(kinds, sort=False, dropna=False))
    figure, axes = open_panels(len(groups), width=6.2, heights=3.4)
    for ax, (key, rows) in zip(axes, groups, strict=True):
        numbers = rows["num_machines"]
        ax.plot(numbers, numbers / numbers.min(), ":", color="0.6", lw=1, label=say("ideal"))
        reach = find_reach(rows, "speedup")
        ax.errorbar(numbers, rows["speedup"], reach, fmt="o-", ms=5, capsize=3, color=LINES[0])
        if len(groups) > 1:
            work = dict(zip(kinds, key, strict=True))
            is_rehearsed = work.pop("rehearsed", False)
            title = ", ".join(map(name, work.values()))
            title += f" ({say('rehearsed on one machine')})" if is_rehearsed else ""
            ax.set_title(title, loc="left", fontweight="bold")
        ax.set(xlabel=say("machines"), ylabel=say("speed-up"))
        ax.set_xscale("log", base=2)
        ax.set_yscale("log", base=2)
        ax.set_xticks(numbers)
        use_commas(ax, lang)
        ax.legend(loc="upper left", frameon=False, fontsize="small")
    figure.suptitle(say("Speed-up by the number of machines"))
    words = say("point: ratio of geometric means [95 % interval]")
    figure.supxlabel(words, fontsize="small")
    return figure


def _sort_by_machine(timed: pd.DataFrame) -> pd.DataFrame:
    """Put the modes of a machine side by side, the paper's first; machines and runs keep their
    order.
    """
    if timed.empty:
        return timed
    order = timed.assign(
        machine=pd.factorize(timed["machine"])[0], other=timed["mode"] != "paper"
    )
    return timed.loc[order.sort_values(["machine", "other", "mode"], kind="stable").index]


def _draw_means(ax: Axes, rows: pd.DataFrame, unit: str, lang: str, mark: str) -> None:
    # the paper's rows are bare means: a lighter, hatched bar, no n and no points
    is_measured = "status" in rows
    rows = rows.assign(time=rows["train_s"] / {"s": 1, "min": 60}[unit])
    kinds = (
        rows["accelerator"]
        .str[:3]
        .str.lower()
        .where(lambda kind: kind.isin(["cpu", "tpu"]), "gpu")
    )
    palette = dict(zip(rows["environment"], kinds.map(ACCELERATOR_COLOURS), strict=True))
    look = {"errorbar": "sd", "capsize": 0.5, "err_kws": {"linewidth": 1.2}}
    if not is_measured:
        look = {"errorbar": None, "alpha": 0.5, "hatch": "//", "edgecolor": "white"}
    means = {
        "x": "time",
        "y": "environment",
        "hue": "environment",
        "palette": palette,
        "legend": False,
    }
    if mark == "bar":
        sns.barplot(rows, ax=ax, saturation=1, **means, **look)
    else:
        sns.pointplot(
            rows, ax=ax, marker="|", markersize=40, markeredgewidth=4, **means, **look
        )
    labels = []
    for position, (place, runs) in enumerate(rows.groupby("environment", sort=False)):
        mean, low, high, n = mean_interval(runs["time"])
        if is_measured:  # one run below the other, in their order
            draw_runs(
                ax,
                runs["time"],
                position + np.linspace(-0.25, 0.25, n + 2)[1:-1],
                runs["disturbed"],
            )
        end = max(runs["time"].max(), mean + (runs["time"].std() if n > 1 else 0))
        text = (
            f"{write_interval(mean, low, high, lang, '' if is_measured else '{:.4g}')} {unit}"
        )
        ax.annotate(text, (end, position), (8, 0), textcoords="offset points", va="center")
        labels.append(f"{place}\nn = {n}" if is_measured else place)
    ax.set_yticks(range(len(labels)), labels)
    ax.set_xlim(0, max(ax.get_xlim()[1], 1.5 * rows["time"].max()))
    use_commas(ax, lang, "x")


def _read_paper() -> pd.DataFrame:
    printed = list_printed("A")
    return printed.assign(environment=printed["hardware"], train_s=60 * printed["value"])
