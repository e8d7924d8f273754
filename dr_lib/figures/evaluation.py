"""Draw an evaluation: the flow of photographs, ROC, calibration, decisions, distributions, grades,
abstention.

Each function takes the tables of `evidence.evaluation` that its docstring names, and `lang`: en, or
pt with decimal commas.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dr_lib.evidence.evaluation import POINTS
from dr_lib.evidence.predictions import Predictions
from dr_lib.figures.style import (
    LINES,
    OURS,
    THEIRS,
    choose_words,
    find_reach,
    open_panels,
    use_commas,
)
from dr_lib.numbers import write_number

MARKERS = ("o", "s")  # of the operating points
BOX = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": "#404040"}
TRUNK = ("offered", "test", "evaluated")  # the others leave it to the right


def plot_flow(flow: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the way of photographs and patients from what was offered to what is evaluated
    (`count_flow`).
    """
    say = choose_words(lang)
    left = flow[~flow["stage"].isin(TRUNK)]
    before = left[left["stage"] != "ungradable"]
    heights = [max(0.6, 0.5 * len(before)), max(0.6, 0.5 * (len(left) - len(before)))]
    figure, (ax,) = open_panels(1, width=7.5, heights=sum(heights) + 1.6)
    ax.set(xlim=(0, 1), ylim=(-0.5, sum(heights) + 1.1))
    ax.axis("off")
    places = dict(zip(TRUNK, (sum(heights) + 0.8, heights[1] + 0.3, -0.2), strict=True))
    numbers = flow[flow["stage"].isin(TRUNK)].set_index("stage")
    for stage, y in places.items():
        ax.text(
            0.25,
            y,
            _tell(stage, numbers.loc[stage], lang),
            ha="center",
            va="center",
            bbox=BOX,
            zorder=3,
        )
    for upper, lower in zip(TRUNK, TRUNK[1:], strict=False):
        ax.annotate(
            "",
            (0.25, places[lower] + 0.28),
            (0.25, places[upper] - 0.28),
            arrowprops={"arrowstyle": "->"},
        )
    sides = (
        (before, places["offered"], places["test"]),
        (left.drop(before.index), places["test"], places["evaluated"]),
    )
    for part, top, bottom in sides:
        for y, row in zip(
            np.linspace(top, bottom, len(part) + 2)[1:-1], part.itertuples(), strict=True
        ):
            reason = f" ({row.reason})" if row.reason else ""
            text = f"{say(row.stage)}{reason}: {_tell('', row._asdict(), lang)}"
            ax.annotate("", (0.5, y), (0.25, y), arrowprops={"arrowstyle": "->", "color": THEIRS})
            ax.text(0.51, y, text, va="center", fontsize="small")
    figure.suptitle(say("Flow of photographs and patients"))
    return figure


def plot_curves(
    curves: Mapping[str, pd.DataFrame], measured: pd.DataFrame, lang: str = "en"
) -> Figure:
    """Draw the ROC curve and the precision-recall curve (`trace_curves`), with `measure_points`
    on them.
    """
    say = choose_words(lang)
    figure, (left, right) = open_panels(2, columns=2, width=4.2, heights=4.2)
    roc, band, precision_recall = (curves[name] for name in ("roc", "band", "precision_recall"))
    left.fill_between(
        1 - band["specificity"], band["sensitivity_low"], band["sensitivity_high"], alpha=0.2, lw=0
    )
    left.plot(1 - roc["specificity"], roc["sensitivity"], color=OURS)
    left.plot([0, 1], [0, 1], ":", color=THEIRS)
    right.plot(precision_recall["recall"], precision_recall["precision"], color=OURS)
    # of calling every eye referable
    right.axhline(precision_recall["precision"].iloc[0], ls=":", color=THEIRS)
    excluded = measured[measured["ungradable"] == "excluded"] if len(measured) else measured
    for k, marker in zip(range(len(excluded)), MARKERS, strict=False):
        row = excluded.iloc[[k]]
        look = {
            "marker": marker,
            "ls": "",
            "color": "black",
            "zorder": 4,
            "label": say(row["point"].iloc[0]),
        }
        across = find_reach(row, "specificity")[::-1]
        along = find_reach(row, "sensitivity")  # the axis is turned round
        left.errorbar(
            1 - row["specificity"], row["sensitivity"], along, across, elinewidth=1, **look
        )
        right.plot(row["sensitivity"], row["ppv"], **look)
        left.legend(loc="lower right", frameon=False)
    left.set(xlabel=say("1 - specificity"), ylabel=say("sensitivity"))
    right.set(xlabel=say("sensitivity"), ylabel=say("positive predictive value"))
    _square(figure, (left, right), lang)
    figure.suptitle(say("ROC and precision-recall curve"))
    figure.supxlabel(say("band: 95 %, pointwise, over patients; dotted: chance"), fontsize="small")
    return figure


def plot_calibration(bins: Mapping[str, pd.DataFrame], lang: str = "en") -> Figure:
    """Draw what came true against what was predicted, as it is and recalibrated: the bins of
    `calibrate`.
    """
    say = choose_words(lang)
    figure, axes = open_panels(len(bins), columns=2, width=4.2, heights=4.2)
    for ax, (words, table) in zip(axes, bins.items(), strict=True):
        ax.plot([0, 1], [0, 1], ":", color=THEIRS)
        reach = find_reach(table, "observed")
        ax.errorbar(
            table["predicted"], table["observed"], reach, marker="o", ms=4, color=OURS, lw=1
        )
        ax.set(xlabel=say("predicted probability"), ylabel=say("observed share"))
        ax.set_title(say(words), loc="left")
    _square(figure, axes, lang)
    figure.suptitle(say("Calibration"))
    figure.supxlabel(
        say("point: bin of equally many photographs; bar: 95 % over patients"), fontsize="small"
    )
    return figure


def plot_decisions(curve: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the decision curve, and what it gains over referring everybody or nobody
    (`weigh_decisions`).
    """
    say = choose_words(lang)
    figure, (ax, right) = open_panels(2, columns=2, width=4.2, heights=3.6)
    right.fill_between(curve["threshold"], curve["gain_low"], curve["gain_high"], alpha=0.2, lw=0)
    right.plot(curve["threshold"], curve["gain"], color=OURS)
    right.axhline(0, ls=":", color=THEIRS)
    right.set(xlabel=say("threshold probability"), ylabel=say("gain over the better of the two"))
    ax.plot(curve["threshold"], curve["net_benefit"], color=OURS, label=say("refer by the model"))
    ax.plot(curve["threshold"], curve["refer_all"], "--", color=LINES[1], label=say("refer all"))
    ax.axhline(0, ls=":", color=THEIRS, label=say("refer none"))
    ax.set(xlabel=say("threshold probability"), ylabel=say("net benefit"))
    ax.set_ylim(min(-0.05, curve["net_benefit"].min()), None)
    ax.legend(frameon=False)
    use_commas(ax, lang)
    use_commas(right, lang)
    figure.supxlabel(say("band: 95 %, pointwise, over patients"), fontsize="small")
    figure.suptitle(say("Decision curve"))
    return figure


def plot_distributions(predictions: Predictions, points: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the probabilities of the test split by true grade or referability, with
    `choose_points`.
    """
    say = choose_words(lang)
    test = predictions.test
    has_grade = "grade" in test and test["grade"].notna().all()
    label = (
        test["grade"].astype(int).astype(str)
        if has_grade
        else test["referable"].map({0: say("no"), 1: say("yes")})
    )
    order = sorted(label.unique()) if has_grade else [say("no"), say("yes")]
    named = [f"{level} (n = {(label == level).sum()})" for level in order]
    figure, (ax,) = open_panels(1, width=6, heights=0.8 + 0.6 * len(order))
    draw = {"x": test["probability_referable"], "y": label, "order": order, "ax": ax}
    sns.boxplot(**draw, color="white", fliersize=0, linewidth=1)
    sns.stripplot(**draw, color=OURS, size=2.5, alpha=0.5, jitter=0.25)
    for row, style in zip(points.itertuples(), ("--", ":"), strict=False):
        ax.axvline(row.threshold, ls=style, color="black", lw=1, label=say(row.point))
    if len(points):
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
    ax.set_yticks(range(len(order)), named)
    ax.set(
        xlabel=say("predicted probability"), ylabel=say("true grade" if has_grade else "referable")
    )
    use_commas(ax, lang, "x")
    figure.suptitle(say("Predicted probability of referable disease"))
    return figure


def plot_confusion(counts: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the confusion matrix of the grades: photographs, shaded by the share of the true
    grade (`count_grades`).
    """
    say = choose_words(lang)
    figure, (ax,) = open_panels(1, width=3, heights=3.6)
    shares = counts.div(counts.sum(axis=1).clip(lower=1), axis=0)
    sns.heatmap(
        shares, annot=counts, fmt="d", cmap="Blues", vmin=0, vmax=1, cbar=False, square=True, ax=ax
    )
    ax.set(xlabel=say("predicted grade"), ylabel=say("true grade"))
    figure.suptitle(say("Grades, true and predicted"))
    return figure


def plot_data_sets(table: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw how each model does on each data set, its thresholds carried over unchanged
    (`compare_data_sets`).
    """
    say = choose_words(lang)
    rows = table["model"] + "\n" + table["trained_on"] + " → " + table["tested_on"]
    order = list(dict.fromkeys(rows))
    place = rows.map(order.index).to_numpy(float)
    figure, axes = open_panels(3, columns=3, width=2.2, heights=0.6 + 0.6 * len(order), share="y")
    for ax, name in zip(axes, ("auc", "sensitivity", "specificity"), strict=True):
        for point, marker, shift in zip(POINTS, MARKERS, (-0.12, 0.12), strict=True):
            drawn = (
                ~rows.duplicated() & (point == POINTS[0])
                if name == "auc"
                else table["point"] == point
            )
            part = table[drawn]
            y = place[drawn] + (shift if name != "auc" else 0)
            look = {
                "marker": marker,
                "ls": "",
                "ms": 5,
                "lw": 1,
                "color": OURS if name == "auc" else "black",
            }
            ax.errorbar(part[name], y, xerr=find_reach(part, name), label=say(point), **look)
        ax.set(xlim=(-0.02, 1.02), xlabel=say("AUC" if name == "auc" else name))
        use_commas(ax, lang, "x")
    axes[0].axvline(0.5, ls=":", color=THEIRS)
    axes[0].set_yticks(range(len(order)), order)
    axes[0].set_ylim(len(order) - 0.5, -0.5)
    if table["point"].notna().any():
        figure.legend(
            *axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
        )
    figure.suptitle(say("Trained on → tested on"))
    return figure


def plot_abstention(table: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw how good the answers are if the most doubtful photographs go to a person (`abstain`)."""
    say = choose_words(lang)
    figure, (ax,) = open_panels(1, width=6, heights=3.4)
    for name, colour, marker in zip(("sensitivity", "specificity"), LINES, MARKERS, strict=False):
        ax.fill_between(
            100 * table["abstained"],
            table[f"{name}_low"],
            table[f"{name}_high"],
            alpha=0.15,
            color=colour,
        )
        ax.plot(
            100 * table["abstained"],
            table[name],
            marker=marker,
            ms=4,
            color=colour,
            label=say(name),
        )
    ax.set(
        xlabel=say("photographs left to a person [%]"),
        ylabel="",
        ylim=(min(0.5, table.min().min()), 1.01),
    )
    ax.legend(frameon=False, loc="center right")
    use_commas(ax, lang)
    figure.suptitle(say("Abstention"))
    return figure


def plot_photographs(
    errors: pd.DataFrame, crops: Mapping[str, np.ndarray], lang: str = "en"
) -> Figure:
    """Show the crops of `list_errors`, (side, side, 3) uint8 RGB by image id: of patients, for
    private use.
    """
    say = choose_words(lang)
    shown = errors[errors["image_id"].isin(crops)]
    figure, axes = open_panels(max(1, len(shown)), columns=5, width=1.8, heights=2.3)
    for ax in axes:
        ax.axis("off")
    for ax, row in zip(axes, shown.itertuples(), strict=False):
        ax.imshow(crops[row.image_id])
        grade = getattr(row, "grade", np.nan)
        grade = f", {say('true grade')} {grade:.0f}" if np.isfinite(grade) else ""
        number = write_number(row.probability_referable, lang, "{:.2f}")
        ax.set_title(
            f"{say('line in the file')} {row.line}\n{say(row.error)}{grade}, {number}",
            fontsize="x-small",
        )
    return figure


def _tell(stage: str, row, lang: str) -> str:
    say = choose_words(lang)
    counts = [write_number(float(row[name]), lang) for name in ("num_images", "num_patients")]
    words = say("{} photographs, {} patients") if row["num_patients"] else say("{} photographs")
    return (f"{say(stage)}\n" if stage else "") + words.format(*counts)


def _square(figure: Figure, axes: tuple[Axes, ...] | list[Axes], lang: str) -> None:
    for ax in axes:
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        use_commas(ax, lang)
