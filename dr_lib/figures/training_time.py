"""Draw paper A: training time by hardware (its figure 1); and the history of one training."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dr_lib.evidence.claims import list_printed
from dr_lib.evidence.papers import PAPERS
from dr_lib.figures.means import Mean, plot_means
from dr_lib.figures.style import ACCELERATOR_COLOURS, LINES, choose_words, open_panels
from dr_lib.statistics.intervals import Interval, mean_interval


def plot_training_time(
    timed: pd.DataFrame, lang: str = "en", *, published: bool = True
) -> Figure:
    """Draw the mean training time of each environment, and below it the means that paper A printed.

    Args:
        timed: timed rows of a `Selection`. Without any the paper stands alone.
        lang: en, or pt with decimal commas.
        published: draw the paper's panel, of the claims.
    """
    say = choose_words(lang)
    ours = []
    if "train_s" in timed:
        for place, rows in timed.dropna(subset=["train_s"]).groupby("environment"):
            minutes = rows["train_s"] / 60
            mean = Mean(
                f"{place}\nn = {len(rows)}",
                mean_interval(minutes),
                minutes.std(),
                _find_colour(rows["accelerator"].iloc[0]),
                minutes,
                rows["disturbed"],
            )
            ours.append(mean)
    theirs = [
        Mean(
            row.hardware,
            Interval(row.value, np.nan, np.nan, 1),
            np.nan,
            _find_colour(row.accelerator),
        )
        for row in list_printed("A").itertuples()
        if published
    ]
    panels = {say("our runs"): ours, say(PAPERS["A"].authors): theirs}
    return plot_means(panels, say("Training time by hardware"), "min", lang)


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


def _find_colour(accelerator: str) -> str:
    return ACCELERATOR_COLOURS.get(accelerator[:3].lower(), ACCELERATOR_COLOURS["gpu"])
