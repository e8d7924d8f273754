"""Draw an evaluation: ROC, calibration, decisions.

Each function takes the tables of this folder that its docstring names, and `lang`: en, or pt with
decimal commas.
"""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.metrics import roc_curve

from dr_lib.evaluation.points import UNITS
from dr_lib.evaluation.scores import unpack
from dr_lib.evaluation.table import Predictions
from dr_lib.numbers import write_interval
from dr_lib.report.style import (
    HALF,
    INK,
    LINES,
    OURS,
    THEIRS,
    choose_words,
    open_panels,
    use_commas,
)
from dr_lib.statistics.clustered import auc_interval

MARKERS = ("o", "s")  # of the operating points


def plot_roc(models: Sequence[Predictions], measured: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the ROC curve of models on the same photographs, each with its AUC, and
    `measure_points` of the first one on its curve.
    """
    say = choose_words(lang)
    figure, (ax,) = open_panels(1, heights=3.6)
    for number, model in enumerate(models):
        colour = LINES[number % len(LINES)]
        y, p, patient = unpack(model.test)
        alarms, found, _ = roc_curve(y, p)
        auc = write_interval(*auc_interval(y, p, patient)[:3], lang)
        ax.plot(alarms, found, color=colour, lw=2, label=f"{model.name[:40]}: AUC {auc}")
    at = measured[measured["unit"] == UNITS[1]] if len(measured) else measured
    for (_, row), marker in zip(at.iterrows(), MARKERS, strict=False):
        place = [1 - row["specificity"]], [row["sensitivity"]]
        ax.plot(*place, marker, ms=7, mfc="white", color=INK, label=say(row["point"]))
    _make_square(ax, say("1 - specificity"), say("sensitivity"), lang)
    figure.legend(loc="outside lower left", frameon=False, fontsize=9)
    figure.set_figheight(4 + 0.2 * len(figure.legends[0].get_texts()))
    return figure


def plot_calibration(bins: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw observed against predicted shares of the bins of `calibrate`."""
    say = choose_words(lang)
    figure, (ax,) = open_panels(1, width=HALF, heights=2.8)
    observed = bins["observed"]
    reach = [observed - bins["observed_low"], bins["observed_high"] - observed]
    ax.errorbar(bins["predicted"], observed, reach, fmt="o-", ms=5, lw=1, color=OURS)
    _make_square(ax, say("predicted probability"), say("observed share"), lang)
    return figure


def plot_decisions(curve: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the decision curve of `weigh_decisions`."""
    say = choose_words(lang)
    figure, (ax,) = open_panels(1, width=HALF, heights=2.8)
    threshold = curve["threshold"]
    bounds = curve["net_benefit_low"], curve["net_benefit_high"]
    ax.fill_between(threshold, *bounds, color=OURS, alpha=0.12, lw=0)
    ax.plot(threshold, curve["net_benefit"], color=OURS, label=say("refer by the model"))
    ax.plot(threshold, curve["refer_all"], "--", color=LINES[1], label=say("refer all"))
    ax.axhline(0, ls=":", color=THEIRS, label=say("refer none"))
    ax.set_ylim(min(-0.05, curve["net_benefit"].min()), None)
    ax.set(xlabel=say("threshold probability"), ylabel=say("net benefit"))
    ax.legend(frameon=False, fontsize=9)
    use_commas(ax, lang)
    return figure


def _make_square(ax: Axes, xlabel: str, ylabel: str, lang: str) -> None:
    """Give both axes the length of 0 to 1, and draw where they are equal."""
    ax.plot([0, 1], [0, 1], color=THEIRS, lw=1, ls="--")
    ends = (-0.03, 1.03)
    ax.set(xlim=ends, ylim=ends, aspect="equal", xlabel=xlabel, ylabel=ylabel)
    use_commas(ax, lang)
