"""Draw an evaluation: flow, ROC, calibration, decisions, distributions, grades, abstention.

Each function takes the tables of this room that its docstring names, and `lang`: en, or pt with
decimal commas.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from dr_lib.numbers import write_number, write_probability
from dr_lib.report.style import (
    LINES,
    OURS,
    THEIRS,
    choose_words,
    find_reach,
    open_panels,
    use_commas,
)
from dr_lib.rooms.evaluation.points import POINTS
from dr_lib.rooms.evaluation.predictions import Predictions

MAX_POINTS = 1000  # more photographs are drawn as their density alone
MIN_NEAR = 5  # photographs within 0.1 of a point of the calibration curve
MAX_BAND = 0.8  # a wider one says nothing
MARKERS = ("o", "s")  # of the operating points
BOX = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": "#404040"}
TRUNK = ("offered", "test", "evaluated")  # the others leave it to the right


def plot_flow(flow: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the flow of photographs and patients from offered to evaluated (`count_flow`,
    `hide_flow`).
    """
    say = choose_words(lang)
    sides = flow[~flow["stage"].isin(TRUNK)]
    after = sides[sides["stage"] == "ungradable"]
    before = sides.drop(after.index)
    upper = max(0.6, 0.5 * len(before))
    lower = max(0.6, 0.5 * len(after))
    places = {"offered": upper + lower + 0.8, "test": lower + 0.3, "evaluated": -0.2}
    figure, (ax,) = open_panels(1, width=7.5, heights=upper + lower + 1.6)
    ax.set(xlim=(0, 1), ylim=(-0.5, upper + lower + 1.1))
    ax.axis("off")

    def count(row) -> str:
        words = (
            say("{} patients, {} photographs") if row.num_patients else say("{} photographs")
        )
        numbers = [
            count if isinstance(count, str) else write_number(count, lang)
            for count in (row.num_patients, row.num_images)
            if count
        ]
        return words.format(*numbers)

    for row in flow[flow["stage"].isin(TRUNK)].itertuples():
        text = f"{say(row.stage)}\n{count(row)}"
        ax.text(0.25, places[row.stage], text, ha="center", va="center", bbox=BOX, zorder=3)
    for start, end, part in (("offered", "test", before), ("test", "evaluated", after)):
        top = places[start]
        bottom = places[end]
        arrow = {"arrowstyle": "->"}
        ax.annotate("", (0.25, bottom + 0.28), (0.25, top - 0.28), arrowprops=arrow)
        heights = np.linspace(top, bottom, len(part) + 2)[1:-1]
        for y, row in zip(heights, part.itertuples(), strict=True):
            reason = f" ({row.reason})" if row.reason else ""
            ax.annotate("", (0.5, y), (0.25, y), arrowprops=arrow | {"color": THEIRS})
            text = f"{say(row.stage)}{reason}: {count(row)}"
            ax.text(0.51, y, text, va="center", fontsize="small")
    figure.suptitle(say("Flow of photographs and patients"))
    return figure


def plot_curves(
    curves: Mapping[str, pd.DataFrame], measured: pd.DataFrame, lang: str = "en"
) -> Figure:
    """Draw the ROC and precision-recall curves (`trace_curves`), with `measure_points` on them."""
    say = choose_words(lang)
    roc = curves["roc"]
    band = curves["band"]
    precision = curves["precision_recall"]
    figure, (left, right) = open_panels(2, columns=2, width=3.6, heights=3.6)
    alarms = 1 - band["specificity"]
    left.fill_between(
        alarms, band["sensitivity_low"], band["sensitivity_high"], alpha=0.2, lw=0
    )
    left.plot(1 - roc["specificity"], roc["sensitivity"], color=OURS)
    left.plot([0, 1], [0, 1], ":", color=THEIRS)
    right.plot(precision["recall"], precision["precision"], color=OURS)
    # of calling every eye referable
    right.axhline(precision["precision"].iloc[0], ls=":", color=THEIRS)
    usual = measured.query("ungradable == 'excluded'") if len(measured) else measured
    for k, marker in zip(range(len(usual)), MARKERS, strict=False):
        row = usual.iloc[[k]]
        left.errorbar(
            1 - row["specificity"],
            row["sensitivity"],
            find_reach(row, "sensitivity"),
            find_reach(row, "specificity")[::-1],  # the axis is turned round
            fmt=marker,
            color="black",
            zorder=4,
            elinewidth=1,
            label=say(row["point"].iloc[0]),
        )
        right.plot(row["sensitivity"], row["ppv"], marker, color="black", zorder=4)
        left.legend(loc="lower right", frameon=False)
    left.set(xlabel=say("1 - specificity"), ylabel=say("sensitivity"))
    right.set(xlabel=say("sensitivity"), ylabel=say("positive predictive value"))
    for ax in (left, right):
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        use_commas(ax, lang)
    figure.suptitle(say("ROC and precision-recall curve"))
    figure.supxlabel(
        say("band: 95 %, pointwise, over patients; dotted: chance"), fontsize="small"
    )
    return figure


def plot_calibration(curves: Mapping[str, pd.DataFrame], lang: str = "en") -> Figure:
    """Draw observed against predicted probabilities, above their histogram: `calibrate`.

    There is no curve where fewer than MIN_NEAR photographs are near, or its band is wider than
    MAX_BAND or has no width: all photographs near it are alike.
    """
    say = choose_words(lang)
    num = len(curves)
    figure, axes = open_panels(2 * num, columns=num, width=3.6, heights=[3.6, 1.1], share="x")
    for ax, below, (words, table) in zip(axes[:num], axes[num:], curves.items(), strict=True):
        x = table["predicted"]
        ax.plot([0, 1], [0, 1], ":", color=THEIRS)
        counts = table["num_referable"] + table["num_others"]
        num_near = counts.rolling(5, center=True, min_periods=1).sum()
        band = table["observed_high"] - table["observed_low"]
        seen = table.where((num_near >= MIN_NEAR) & (band > 0) & (band <= MAX_BAND))
        ax.fill_between(x, seen["observed_low"], seen["observed_high"], alpha=0.2, lw=0)
        ax.plot(x, seen["observed"], color=OURS)
        ax.set(ylabel=say("observed share"), xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        ax.set_title(say(words), loc="left")
        for name, sign, colour in (("num_referable", 1, LINES[1]), ("num_others", -1, OURS)):
            below.bar(x, sign * table[name], 1 / len(x), color=colour)
        # a few photographs are seen beside many
        most = table[["num_referable", "num_others"]].max(axis=None)
        below.set_yscale("symlog", linthresh=max(10, most / 10))
        below.set(xlabel=say("predicted probability"), ylabel=say("photographs"))
        ticks = [-table["num_others"].max(), 0, table["num_referable"].max()]
        below.set_yticks(ticks, [write_number(abs(float(tick)), lang) for tick in ticks])
        use_commas(ax, lang)
        use_commas(below, lang, "x")
    figure.suptitle(say("Calibration"))
    words = "band: 95 %, over patients; bars: referable up, others down (log)"
    figure.supxlabel(say(words), fontsize="small")
    return figure


def plot_decisions(curve: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the decision curve, and its gains over referring everybody and over referring nobody.

    The table is that of `weigh_decisions`.
    """
    say = choose_words(lang)
    figure, (left, right) = open_panels(2, columns=2, width=4)
    threshold = curve["threshold"]
    left.plot(threshold, curve["net_benefit"], color=OURS, label=say("refer by the model"))
    if curve["recalibrated"].notna().all():
        words = say("refer by the model, recalibrated")
        left.plot(threshold, curve["recalibrated"], ls="-.", color=LINES[2], label=words)
    left.plot(threshold, curve["refer_all"], "--", color=LINES[1], label=say("refer all"))
    left.axhline(0, ls=":", color=THEIRS, label=say("refer none"))
    left.set_ylim(min(-0.05, curve["net_benefit"].min()), None)
    left.set(ylabel=say("net benefit"))
    left.legend(framealpha=1, edgecolor="white")
    for name, style, colour, words in (
        ("gain_over_all", "--", LINES[1], say("over refer all")),
        ("gain_over_none", "-", OURS, say("over refer none")),
    ):
        bounds = curve[f"{name}_low"], curve[f"{name}_high"]
        right.fill_between(threshold, *bounds, alpha=0.2, lw=0, color=colour)
        right.plot(threshold, curve[name], style, color=colour, label=words)
    right.axhline(0, ls=":", color=THEIRS)
    right.set(ylabel=say("gain of the model"))
    right.legend(framealpha=1, edgecolor="white")
    for ax in (left, right):
        ax.set(xlabel=say("threshold probability"))
        use_commas(ax, lang)
    figure.supxlabel(say("band: 95 %, pointwise, over patients"), fontsize="small")
    figure.suptitle(say("Decision curve"))
    return figure


def plot_distributions(
    predictions: Predictions, points: pd.DataFrame, lang: str = "en"
) -> Figure:
    """Draw the test probabilities by true grade or referability, with `choose_points`."""
    say = choose_words(lang)
    test = predictions.test
    has_grade = "grade" in test and test["grade"].notna().all()
    if has_grade:
        label = test["grade"].astype(int).astype(str)
        order = sorted(label.unique())
    else:
        order = [say("no"), say("yes")]
        label = test["referable"].map(dict(enumerate(order)))
    names = [f"{level} (n = {(label == level).sum()})" for level in order]
    figure, (ax,) = open_panels(1, width=6, heights=0.8 + 0.6 * len(order))
    x = test["probability_referable"]
    sns.violinplot(
        x=x,
        y=label,
        order=order,
        ax=ax,
        color="#a9cfe8",
        cut=0,
        density_norm="width",
        inner="box",
    )
    if len(x) <= MAX_POINTS:
        sns.stripplot(x=x, y=label, order=order, ax=ax, color=OURS, size=2.5, alpha=0.5)
    for (name, at), style in zip(points.groupby("point"), ("--", ":"), strict=False):
        for number, threshold in enumerate(at["threshold"]):  # of folds several
            words = "" if number else say(name)
            ax.axvline(threshold, ls=style, color="black", lw=1, label=words)
    if len(points):
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
    ax.set_yticks(range(len(order)), names)
    ax.set(xlabel=say("predicted probability"))
    ax.set(ylabel=say("true grade" if has_grade else "referable"))
    use_commas(ax, lang, "x")
    figure.suptitle(say("Predicted probability of referable disease"))
    return figure


def plot_confusion(counts: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the photographs by true and predicted grade (`count_grades`), shaded by row."""
    say = choose_words(lang)
    figure, (ax,) = open_panels(1, width=3.6, heights=4.2)
    shares = counts.div(counts.sum(axis=1).clip(lower=1), axis=0)
    rounded = shares.map(
        lambda share: (
            "< 1"
            if 0 < share < 0.005
            else "> 99"
            if 0.995 < share < 1
            else f"{100 * share:.0f}"
        )
    )
    sns.heatmap(
        shares,
        annot=counts.astype(str) + "\n" + rounded + " %",
        fmt="",
        cmap="Blues",
        vmin=0,
        vmax=1,
        cbar=False,
        square=True,
        ax=ax,
    )
    ax.set(xlabel=say("predicted grade"), ylabel=say("true grade"))
    ax.tick_params(axis="y", labelrotation=0)
    figure.suptitle(say("Grades, true and predicted"))
    return figure


def plot_data_sets(table: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw each model's scores on each data set, with unchanged thresholds
    (`compare_data_sets`).
    """
    say = choose_words(lang)
    names = table["model"] + "\n" + table["trained_on"] + " → " + table["tested_on"]
    order = list(dict.fromkeys(names))
    places = names.map(order.index).to_numpy(float)
    height = 0.6 + 0.6 * len(order)
    figure, axes = open_panels(3, columns=3, width=2.2, heights=height, share="y")
    left, *others = axes
    once = ~names.duplicated()
    reach = find_reach(table[once], "auc")
    left.errorbar(
        table.loc[once, "auc"], places[once], xerr=reach, fmt="o", ms=5, lw=1, color=OURS
    )
    left.axvline(0.5, ls=":", color=THEIRS)
    left.set(xlabel=say("AUC"), ylim=(len(order) - 0.5, -0.5))
    left.set_yticks(range(len(order)), order)
    for ax, name in zip(others, ("sensitivity", "specificity"), strict=True):
        for point, marker, shift in zip(POINTS, MARKERS, (-0.12, 0.12), strict=True):
            is_at = table["point"] == point
            ax.errorbar(
                table.loc[is_at, name],
                places[is_at] + shift,
                xerr=find_reach(table[is_at], name),
                fmt=marker,
                ms=5,
                lw=1,
                color="black",
                label=say(point),
            )
        ax.set(xlabel=say(name))
    for ax in axes:
        ax.set(xlim=(-0.02, 1.02))
        use_commas(ax, lang, "x")
    if table["point"].notna().any():
        handles = others[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(say("Trained on → tested on"))
    return figure


def plot_abstention(table: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the accuracy if a person grades the most doubtful photographs (`abstain`)."""
    say = choose_words(lang)
    figure, (ax,) = open_panels(1, width=6, heights=3.4)
    x = 100 * table["abstained"]
    for name, colour, marker in zip(
        ("sensitivity", "specificity"), LINES, MARKERS, strict=False
    ):
        ax.fill_between(
            x, table[f"{name}_low"], table[f"{name}_high"], alpha=0.15, color=colour
        )
        ax.plot(x, table[name], marker=marker, ms=4, color=colour, label=say(name))
    ax.set(xlabel=say("photographs left to a person [%]"), ylabel="")
    ax.set_ylim(table[["sensitivity_low", "specificity_low"]].min(axis=None) - 0.02, 1.01)
    ax.legend(frameon=False, loc="best")
    use_commas(ax, lang)
    figure.supxlabel(say("band: 95 %, pointwise, over patients"), fontsize="small")
    figure.suptitle(say("Abstention"))
    return figure


def plot_photographs(
    errors: pd.DataFrame, crops: Mapping[str, np.ndarray], lang: str = "en"
) -> Figure:
    """Show the crops of `list_errors`, for private use only: they show patients.

    Crops are (side, side, 3) uint8 RGB, by image id.
    """
    say = choose_words(lang)
    shown = errors[errors["image_id"].isin(crops)]
    figure, axes = open_panels(max(1, len(shown)), columns=5, width=1.8, heights=2.3)
    for ax in axes:
        ax.axis("off")
    for ax, row in zip(axes, shown.itertuples(), strict=False):
        grade = getattr(row, "grade", np.nan)
        grade = f", {say('true grade')} {grade:.0f}" if np.isfinite(grade) else ""
        number = write_probability(row.probability_referable, lang)
        title = f"{say('line in the file')} {row.line}\n{say(row.error)}{grade}, {number}"
        ax.imshow(crops[row.image_id])
        ax.set_title(title, fontsize="x-small")
    return figure
