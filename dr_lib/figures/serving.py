"""Draw a served model: time of a prediction (figures 1 and 2 of paper B), latency under load.

Times of unlike models and formats lie a hundredfold apart, so their axes are logarithmic. `lang` is
en, or pt with decimal commas.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dr_lib.evidence.papers import PAPERS
from dr_lib.evidence.serving.costs import read_paper_latencies
from dr_lib.evidence.serving.endpoint import NETWORK
from dr_lib.evidence.serving.request_log import KINDS, summarise_requests
from dr_lib.figures.style import (
    OURS,
    THEIRS,
    choose_words,
    name,
    open_panels,
    space_ticks,
)
from dr_lib.numbers import write_interval, write_number, write_span

PERCENTILES = {"p50_ms": "#56b4e9", "p90_ms": "#0173b2", "p99_ms": "#d55e00"}


def plot_predict_time(
    timed: pd.DataFrame, model: str, lang: str = "en", *, published: bool = True
) -> Figure:
    """Draw how long a model predicts on each machine in each format, and below what paper B has.

    For VGG19 this is the paper's figure 1, for MobileNet its figure 2.

    Args:
        timed: requests of `read_requests` that count, of a `Selection`; without any the paper
            stands alone.
        model: vgg19, mobilenet, or one that the paper did not have, which then stands alone.
        lang: en or pt.
        published: draw the paper's panel.
    """
    say = choose_words(lang)
    paper = read_paper_latencies().query("model == @model and @published")
    timed = timed.reindex(columns=timed.columns.union(["model", "predict_ms"], sort=False))
    timed = timed[timed["model"] == model].dropna(subset=["predict_ms"])
    ours = summarise_requests(timed)
    titles = {say("our requests"): ours, say(PAPERS["B"].authors): paper}
    panels = {title: rows for title, rows in titles.items() if len(rows)}
    figure, axes = open_panels(
        len(panels),
        width=7,
        heights=[0.3 + 0.55 * len(rows) for rows in panels.values()],
        share="x",
    )
    for ax, (title, rows) in zip(axes, panels.items(), strict=True):
        ax.set_title(title, loc="left", fontweight="bold")
        if rows is ours:
            _draw_ours(ax, ours, timed, lang)
        else:
            _draw_paper(ax, paper, lang)
        ax.set(xscale="log", ylim=(len(rows) - 0.5, -0.5))
    low, high = axes[0].get_xlim()
    # room for numbers
    axes[-1].set(
        xlabel=say("time of a prediction [ms]"), xlim=(low, high * (high / low) ** 0.4)
    )
    space_ticks(axes[-1], lang, "x")
    figure.suptitle(say("Time of a prediction: {}").format(name(model)))
    words = (
        "large: mean of n deployments; thick line: 95 % interval; thin line: standard deviation;"
        " small: requests"
    )
    figure.supxlabel(say(words), fontsize="small")
    return figure


def plot_latency_percentiles(tried: pd.DataFrame, bound_ms: float) -> Figure:
    """Draw percentiles of the latency against the rate offered, and the bound.

    Args:
        tried: of `find_max_rate`: a row per rate with `rate_per_s`, p50_ms to p99_ms,
            service_p99_ms, `held`.
        bound_ms: the bound that it was given.
    """
    figure, (ax,) = open_panels(1)
    rows = tried.sort_values("rate_per_s")
    rate = rows["rate_per_s"]
    for column, colour in PERCENTILES.items():
        ax.plot(rate, rows[column], "-", color=colour, label=column.removesuffix("_ms"))
        for is_held, fill in ((True, colour), (False, "white")):
            part = rows[rows["held"] == is_held]
            ax.plot(part["rate_per_s"], part[column], "o", ms=5, color=colour, mfc=fill)
    ax.plot(rate, rows["service_p99_ms"], ":", color="#404040", label="p99 from the sending")
    ax.axhline(bound_ms, color="black", lw=1, ls="--", label="bound")
    ax.set(
        xlabel="requests per second", ylabel="response time [ms]", xscale="log", yscale="log"
    )
    space_ticks(ax, "en")
    ax.legend(loc="upper left", framealpha=1, edgecolor="white")
    figure.suptitle("Response time under load")
    figure.supxlabel(
        "from when a request was due; open: the rate was not held", fontsize="small"
    )
    return figure


def describe_choice(priced: pd.DataFrame, lang: str = "en") -> list[str]:
    """Name the cheapest of `price_endpoints`, in a sentence for each network."""
    say = choose_words(lang)
    words = say(
        "For {} requests a day, 99 % within {} ms, the cheapest endpoint of {}, {} px, is {}:"
        " {} USD a month, {} USD a million."
    )
    sentences = []
    for network, rows in priced[priced["reason"] == ""].groupby(NETWORK, sort=False):
        row = rows.iloc[0]
        endpoint = say("{} on {}").format(row["format"], row["instance"])
        if row["price_is_assumed"]:
            machine = row.get("instance_type") or row["environment"].rstrip(", ")  # as detected
            endpoint = say("{} (measured on {}, at the price of {})").format(
                row["format"], machine, row["instance"]
            )
        sentences.append(
            words.format(
                write_number(row["requests_per_day"], lang),
                write_number(row["p99_ms"], lang),
                *map(name, network),
                endpoint,
                write_span(row, "usd_per_month", lang),
                write_span(row, "usd_per_million_rented", lang),
            )
        )
    return sentences


def _draw_ours(ax: Axes, summary: pd.DataFrame, requests: pd.DataFrame, lang: str) -> None:
    """Deviation, interval, mean and the requests of each kind."""
    kinds = [kind for kind in KINDS if kind in requests]
    groups = requests.groupby(kinds, dropna=False, sort=False)["predict_ms"]
    labels = []
    for position, (row, (_, ms)) in enumerate(zip(summary.itertuples(), groups, strict=True)):
        interval = (row.predict_ms_low, row.predict_ms_high)
        high = _draw_deviation(ax, row, position, OURS)
        ax.plot(interval, [position] * 2, color=OURS, lw=4, alpha=0.6)
        places = position + np.linspace(-0.25, 0.25, len(ms))
        ax.plot(ms, places, "o", color=OURS, ms=2.5, alpha=0.35)
        ax.plot(row.predict_ms, position, "o", color=OURS, mec="black", ms=7)
        text = write_interval(row.predict_ms, *interval, lang, "{:.4g}") + " ms"
        _annotate(ax, text, np.nanmax([high, ms.max(), row.predict_ms_high]), position)
        labels.append(f"{row.environment}, {row.format}\n{row.image_size:g} px\nn = {row.n}")
    ax.set_yticks(range(len(labels)), labels)


def _draw_paper(ax: Axes, paper: pd.DataFrame, lang: str) -> None:
    """The paper's means with their deviations."""
    for position, row in enumerate(paper.itertuples()):
        high = _draw_deviation(ax, row, position, THEIRS)
        ax.plot(row.predict_ms, position, "o", color=THEIRS, mec="black", ms=7)
        mean = write_number(row.predict_ms, lang, "{:.4g} ms")
        _annotate(ax, mean + write_number(row.predict_ms_sd, lang, " ± {:g}"), high, position)
    ax.set_yticks(range(len(paper)), paper["instance"])


def _draw_deviation(ax: Axes, row, position: int, colour: str) -> float:
    """Draw a deviation to each side of a mean, and say how far that reaches."""
    low = max(row.predict_ms - row.predict_ms_sd, row.predict_ms / 2)
    high = row.predict_ms + row.predict_ms_sd
    ax.plot([low, high], [position] * 2, color=colour, lw=1.2)
    return high


def _annotate(ax: Axes, text: str, high: float, position: int) -> None:
    ax.annotate(text, (high, position), (10, 0), textcoords="offset points", va="center")
