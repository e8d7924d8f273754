"""Draw an evaluation: flow, ROC, calibration, decisions, distributions, grades, abstention.

Each function takes the tables of this folder that its docstring names, and `lang`: en, or pt with
decimal commas.
"""

from collections.abc import Mapping
from textwrap import fill

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dr_lib.evaluation.points import ERRORS, POINTS, keep_usual
from dr_lib.evaluation.predictions import Predictions
from dr_lib.numbers import write_number, write_probability, write_span
from dr_lib.report.style import (
    HALF,
    INK,
    LINES,
    MUTED,
    OURS,
    THEIRS,
    WRONG,
    choose_words,
    open_panels,
    use_commas,
)

MIN_NEAR = 5  # photographs within 0.1 of a point of the calibration curve
MAX_BAND = 0.8  # a wider one says nothing
MARKERS = ("o", "s")  # of the operating points


def plot_flow(flow: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the flow of photographs and patients from offered to evaluated, as STARD lays it out.

    The table is that of `count_flow` or `hide_flow`.
    """
    say = choose_words(lang)

    boxes = {}
    sides = {"offered": [], "test": [], "evaluated": []}  # what leaves before a box
    for row in flow.itertuples():
        counts = [count for count in (row.num_patients, row.num_images) if count]
        numbers = [n if isinstance(n, str) else write_number(n, lang) for n in counts]
        words = say("{} patients, {} photographs" if row.num_patients else "{} photographs")
        reason = f" ({row.reason})" if row.reason else ""
        text = fill(say(row.stage).capitalize() + reason, 34)
        text += f"\n{words.format(*numbers)}"
        if row.stage in sides:
            boxes[row.stage] = text
        else:
            sides["evaluated" if row.stage == "ungradable" else "test"].append(text)
    gaps = [0.18 * (2 + "\n".join(sides[stage]).count("\n")) for stage in boxes]
    gaps[0] = 0
    height = len(boxes) * 0.5 + sum(gaps)
    figure, (ax,) = open_panels(1, width=HALF, heights=height)
    ax.set(xlim=(0, 1), ylim=(-height - 0.1, 0.1))
    ax.axis("off")
    box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": MUTED}
    arrow = {"arrowstyle": "-|>", "color": MUTED, "shrinkA": 0, "shrinkB": 0}
    top = 0.0
    for (stage, text), gap in zip(boxes.items(), gaps, strict=True):
        if gap:
            ax.annotate("", (0.1, top - gap - 0.05), (0.1, top + 0.05), arrowprops=arrow)
        if sides[stage]:
            middle = top - gap / 2
            ax.annotate("", (0.2, middle), (0.1, middle), arrowprops=arrow)
            ax.text(0.24, middle, "\n".join(sides[stage]), va="center", fontsize=9, bbox=box)
        top -= gap + 0.5
        ax.text(0.04, top + 0.25, text, va="center", fontsize=9, bbox=box, zorder=3)
    return figure


def plot_roc(
    curves: Mapping[str, pd.DataFrame],
    measured: pd.DataFrame,
    summary: pd.Series,
    lang: str = "en",
) -> Figure:
    """Draw the ROC curve (`trace_curves`) with its AUC, and `measure_points` on it."""
    say = choose_words(lang)
    figure, ax = _open_square(say("1 - specificity"), say("sensitivity"))
    band = curves["band"]
    _draw_band(ax, 1 - band["specificity"], band, "sensitivity", OURS)
    ax.plot(1 - curves["roc"]["specificity"], curves["roc"]["sensitivity"], color=OURS, lw=2)
    ax.plot([0, 1], [0, 1], color=THEIRS, lw=1, ls=(0, (4, 3)))
    ax.text(0.62, 0.55, say("chance"), color=MUTED, rotation=45, rotation_mode="anchor")
    words = f"AUC {write_span(summary, 'auc', lang)}"
    ax.set_title(words, loc="left", color=OURS, fontweight="bold", fontsize=9)
    usual = keep_usual(measured)
    for k, (row, marker) in enumerate(zip(usual.itertuples(), MARKERS, strict=False)):
        place = (1 - row.specificity, row.sensitivity)
        one = usual[k : k + 1]
        ax.errorbar(
            *place,
            _find_reach(one, "sensitivity"),
            _find_reach(one, "specificity")[::-1],  # the axis is turned round
            fmt=marker,
            ms=7,
            mfc="white",
            color=INK,
            elinewidth=1,
            zorder=4,
        )
        end = (min(place[0] + 0.06, 0.5), max(place[1] - 0.09 - 0.04 * k, 0.12))
        ax.annotate(say(row.point), place, end, va="top", fontsize=9)
    return figure


def plot_precision(
    curves: Mapping[str, pd.DataFrame],
    measured: pd.DataFrame,
    summary: pd.Series,
    lang: str = "en",
) -> Figure:
    """Draw the precision-recall curve with its average, and `measure_points` on it."""
    say = choose_words(lang)
    precision = curves["precision_recall"]
    figure, ax = _open_square(say("sensitivity"), say("positive predictive value"))
    ax.plot(precision["recall"], precision["precision"], color=OURS, lw=2)
    everybody = precision["precision"].iloc[0]
    ax.axhline(everybody, color=THEIRS, lw=1, ls=(0, (4, 3)))
    ax.text(0.01, everybody - 0.02, say("refer all"), color=MUTED, va="top", fontsize=9)
    words = f"{say('average')} {write_span(summary, 'average_precision', lang)}"
    ax.set_title(words, loc="left", color=OURS, fontweight="bold", fontsize=9)
    for row, marker in zip(keep_usual(measured).itertuples(), MARKERS, strict=False):
        ax.plot(row.sensitivity, row.ppv, marker, ms=7, color="white", mec=INK, mew=1.5)
    return figure


def _open_square(xlabel: str, ylabel: str) -> tuple[Figure, Axes]:
    """Open a figure whose axes have the same percentages and length."""
    figure, (ax,) = open_panels(1, width=HALF, heights=2.8)
    places = np.linspace(0, 1, 5)
    names = ["0", "25 %", "50 %", "75 %", "100 %"]
    ax.set_xticks(places, names)
    ax.set_yticks(places, names)
    ends = (-0.03, 1.03)
    ax.set(xlim=ends, ylim=ends, aspect="equal", xlabel=xlabel, ylabel=ylabel)
    return figure, ax


def _draw_band(ax: Axes, x: pd.Series, table: pd.DataFrame, name: str, colour: str) -> None:
    """Draw the bounds of a column of a table over x."""
    bounds = table[f"{name}_low"], table[f"{name}_high"]
    ax.fill_between(x, *bounds, color=colour, alpha=0.12, lw=0)


def plot_calibration(curves: Mapping[str, pd.DataFrame], lang: str = "en") -> Figure:
    """Draw observed against predicted probabilities, above their histogram: `calibrate`.

    There is no curve where fewer than MIN_NEAR photographs are near, or its band is wider than
    MAX_BAND or has no width: all photographs near it are alike.
    """
    say = choose_words(lang)
    num = len(curves)
    figure, axes = open_panels(2 * num, columns=num, heights=[3.0, 1.1], share="x")
    for ax, below, (words, table) in zip(axes[:num], axes[num:], curves.items(), strict=True):
        x = table["predicted"]
        ax.plot([0, 1], [0, 1], color=THEIRS, lw=1, ls=(0, (4, 3)))
        ax.text(0.6, 0.53, say("perfect"), color=MUTED, rotation=45, rotation_mode="anchor")
        counts = table["num_referable"] + table["num_others"]
        num_near = counts.rolling(5, center=True, min_periods=1).sum()
        band = table["observed_high"] - table["observed_low"]
        seen = table.where((num_near >= MIN_NEAR) & (band > 0) & (band <= MAX_BAND))
        _draw_band(ax, x, seen, "observed", OURS)
        ax.plot(x, seen["observed"], color=OURS)
        ax.set(ylabel=say("observed share"), xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        ax.set_title(say(words), loc="left", fontsize=10, color=MUTED)
        for name, sign, colour, place, va in (
            ("referable", 1, WRONG, (0.99, 0.97), "top"),
            ("others", -1, OURS, (0.99, 0.03), "bottom"),
        ):
            below.bar(x, sign * table[f"num_{name}"], 1 / len(x), color=colour)
            where = {"ha": "right", "va": va, "transform": below.transAxes}
            below.text(*place, say(name), where, color=colour, fontsize=9)
        # a few photographs are seen beside many
        most = table[["num_referable", "num_others"]].max(axis=None)
        below.set_yscale("symlog", linthresh=max(10, most / 10))
        below.set(xlabel=say("predicted probability"), ylabel=say("photographs"))
        ticks = [-table["num_others"].max(), 0, table["num_referable"].max()]
        below.set_yticks(ticks, [write_number(abs(float(tick)), lang) for tick in ticks])
        use_commas(ax, lang)
        use_commas(below, lang, "x")
    return figure


def plot_decisions(curve: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the decision curve, and its gains over referring everybody and over referring nobody.

    The table is that of `weigh_decisions`.
    """
    say = choose_words(lang)
    figure, (left, right) = open_panels(2, columns=2, heights=2.9)
    threshold = curve["threshold"]
    left.plot(threshold, curve["net_benefit"], color=OURS, label=say("refer by the model"))
    if curve["recalibrated"].notna().all():
        words = say("refer by the model, recalibrated")
        left.plot(threshold, curve["recalibrated"], ls="-.", color=LINES[2], label=words)
    left.plot(threshold, curve["refer_all"], "--", color=LINES[1], label=say("refer all"))
    left.axhline(0, ls=":", color=THEIRS, label=say("refer none"))
    left.set_ylim(min(-0.05, curve["net_benefit"].min()), None)
    left.set(ylabel=say("net benefit"))
    for name, style, colour, words in (
        ("gain_over_all", "--", LINES[1], say("over refer all")),
        ("gain_over_none", "-", OURS, say("over refer none")),
    ):
        _draw_band(right, threshold, curve, name, colour)
        right.plot(threshold, curve[name], style, color=colour, label=words)
    right.axhline(0, ls=":", color=THEIRS)
    right.set(ylabel=say("gain of the model"))
    for ax in (left, right):
        ax.set(xlabel=say("threshold probability"))
        ax.legend(loc="lower left", bbox_to_anchor=(-0.15, 1), frameon=False, fontsize=9)
        use_commas(ax, lang)
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
    figure, (ax,) = open_panels(1, heights=0.8 + 0.5 * len(order))
    names = []
    for place, level in enumerate(order):
        values = test.loc[label == level, "probability_referable"].to_numpy()
        names.append(f"{level}\nn = {len(values)}")
        if len(values) < 20 or not np.ptp(values):  # too few for a density
            heights = place + np.linspace(-0.2, 0.2, len(values))
            ax.plot(values, heights, "o", ms=5, color=OURS, alpha=0.7, mew=0)
            continue
        parts = ax.violinplot(
            values, [place], orientation="horizontal", widths=0.8, showextrema=False
        )
        parts["bodies"][0].set(facecolor=OURS, alpha=0.3, lw=0)
        quarters = np.quantile(values, [0.25, 0.5, 0.75])
        ax.plot(quarters[[0, 2]], [place] * 2, color=OURS, lw=4, solid_capstyle="butt")
        ax.plot(quarters[1], place, "o", color="white", mec=OURS, ms=6)
    for (name, at), style in zip(points.groupby("point"), ("--", ":"), strict=False):
        for threshold in at["threshold"]:  # of folds several
            ax.axvline(threshold, ls=style, color=INK, lw=1)
        is_higher = name == POINTS[1]
        ax.annotate(
            say(name),
            (at["threshold"].iloc[0], 1),
            (3 if is_higher else -3, 2),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="left" if is_higher else "right",
            fontsize=9,
        )
    ax.set_yticks(range(len(order)), names)
    ax.set(xlabel=say("predicted probability"), xlim=(-0.02, 1.02))
    ax.set(ylabel=say("true grade" if has_grade else "referable"))
    ax.set_ylim(len(order) - 0.5, -0.5)
    use_commas(ax, lang, "x")
    return figure


def plot_confusion(counts: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the photographs by true and predicted grade (`count_grades`), shaded by row."""
    say = choose_words(lang)
    figure, (ax,) = open_panels(1, width=HALF, heights=2.8)
    shares = counts.div(counts.sum(axis=1).clip(lower=1), axis=0)
    texts = counts.astype(str).where(counts > 0, "")
    heatmap = sns.heatmap(
        shares,
        annot=texts,
        annot_kws={"fontsize": 9},
        fmt="",
        cmap="Blues",
        vmin=0,
        vmax=1,
        cbar=False,
        square=True,
        linewidths=1,
        ax=ax,
    )
    heatmap.tick_params(axis="y", labelrotation=0)
    ax.set(xlabel=say("predicted grade"), ylabel=say("true grade"))
    return figure


def plot_data_sets(table: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw each model's scores on each data set, with unchanged thresholds
    (`compare_data_sets`).
    """
    say = choose_words(lang)
    names = table["model"] + "\n" + table["trained_on"] + " → " + table["tested_on"]
    order = list(dict.fromkeys(names))
    places = names.map(order.index)
    height = 0.6 + 0.6 * len(order)
    figure, axes = open_panels(3, columns=3, heights=height, share="y")
    left, *others = axes
    once = table[~names.duplicated()]
    reach = _find_reach(once, "auc")
    left.errorbar(once["auc"], places[once.index], xerr=reach, fmt="o", ms=5, lw=1, color=OURS)
    left.axvline(0.5, ls=":", color=THEIRS)
    left.set(xlabel=say("AUC"), ylim=(len(order) - 0.5, -0.5))
    left.set_yticks(range(len(order)), order)
    for ax, name in zip(others, ("sensitivity", "specificity"), strict=True):
        for point, marker, shift in zip(POINTS, MARKERS, (-0.12, 0.12), strict=True):
            at = table[table["point"] == point]
            ax.errorbar(
                at[name],
                places[at.index] + shift,
                xerr=_find_reach(at, name),
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
    return figure


def plot_abstention(table: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the accuracy if a person grades the most doubtful photographs (`abstain`)."""
    say = choose_words(lang)
    figure, (ax,) = open_panels(1, heights=2.8)
    x = 100 * table["abstained"]
    for name, colour in zip(("sensitivity", "specificity"), LINES, strict=False):
        _draw_band(ax, x, table, name, colour)
        ax.plot(x, table[name], color=colour, lw=2)
        end = (x.iloc[-1], table[name].iloc[-1])
        words = say(name)
        ax.annotate(words, end, (5, 0), textcoords="offset points", va="center", color=colour)
    ax.set(xlabel=say("photographs left to a person [%]"), ylabel="")
    ax.set_ylim(table[["sensitivity_low", "specificity_low"]].min(axis=None) - 0.02, 1.01)
    use_commas(ax, lang)
    return figure


def plot_photographs(
    errors: pd.DataFrame, crops: Mapping[str, np.ndarray], lang: str = "en"
) -> Figure:
    """Show the crops of `list_errors`, for private use only: they show patients.

    Crops are (side, side, 3) uint8 RGB, by image id.
    """
    say = choose_words(lang)
    shown = errors[errors["image_id"].isin(crops)]
    figure, axes = open_panels(max(1, len(shown)), columns=3, heights=2.7)
    for ax in axes:
        ax.axis("off")
    for ax, row in zip(axes, shown.to_dict("records"), strict=False):
        grade = row.get("grade", np.nan)
        grade = f"{say('true grade')} {grade:.0f}, " if np.isfinite(grade) else ""
        number = write_probability(row["probability_referable"], lang)
        name = row.get("file") or f"{say('line in the file')} {row['line']}"
        title = f"{name[-28:]}\n{say(row.get('error', ERRORS[0]))}\n{grade}{number}"
        ax.imshow(crops[row["image_id"]])
        ax.set_title(title, fontsize=9)
    return figure


def _find_reach(rows: pd.DataFrame, column: str) -> np.ndarray:
    """Compute a column's error bars, (2, n), down and up to its bounds; 0 without bounds."""
    bounds = rows.reindex(columns=[f"{column}_low", f"{column}_high"]).to_numpy(float)
    return np.nan_to_num(np.abs(bounds - rows[[column]].to_numpy(float))).T
