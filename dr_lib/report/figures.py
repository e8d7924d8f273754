"""Draw paper A: training time by hardware (its figure 1)."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dr_lib.report.means import Mean, plot_means
from dr_lib.report.papers import PAPERS, list_published
from dr_lib.report.select import measure
from dr_lib.report.style import ACCELERATOR_COLOURS, choose_words
from dr_lib.statistics.intervals import Interval

UNITS = {"s": 1, "min": 60, "h": 3600}


def plot_training_time(
    finished: pd.DataFrame, lang: str = "en", *, published: bool = True
) -> Figure:
    """Draw the mean training time of each place, and below it the means that paper A reports.

    Args:
        finished: finished rows of a `Selection`, of which those whose times count and cold ones are
            drawn. Without any the paper stands alone.
        lang: en, or pt with decimal commas.
        published: draw the paper's panel, of the claims.

    Example:
        >>> selection = open_rows("A", "papermill_runs/demo", Path(".")).selection
        >>> figure = plot_training_time(selection.finished, published=False)
        >>> figure.savefig("figure_1.png")
    """
    say = choose_words(lang)
    ours = []
    if "train_s" in finished:
        timed = finished[finished["timed"] | (finished["warmth"] == "apart")]
        for place, rows in timed.dropna(subset=["train_s"]).groupby("place"):
            seconds = rows["train_s"]
            mean = Mean(
                f"{place}\nn = {len(rows)}",
                measure("train_s", rows),
                seconds.std(),
                _find_colour(rows["accelerator"].iloc[0]),
                seconds,
                rows["disturbed"],
            )
            ours.append(mean)
    theirs = [
        Mean(
            row.hardware,
            Interval(60 * row.value, np.nan, np.nan, 1),
            np.nan,
            _find_colour(row.accelerator),
        )
        for row in list_published("A").itertuples()
        if published
    ]
    panels = {say("Our runs"): ours, say(PAPERS["A"].authors): theirs}
    return plot_means(panels, say("Training time by hardware"), UNITS, lang)


def _find_colour(accelerator: str) -> str:
    return ACCELERATOR_COLOURS.get(accelerator[:3].lower(), ACCELERATOR_COLOURS["gpu"])
