"""Draw a served model: time of a prediction (figures 1 and 2 of paper B), latency under load.

`lang` is en, or pt with decimal commas.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dr_lib.numbers import write_number, write_span
from dr_lib.report.means import Mean, plot_means
from dr_lib.report.style import (
    OURS,
    THEIRS,
    choose_words,
    name,
    open_panels,
    space_ticks,
)
from dr_lib.serving.costs import tabulate_latencies
from dr_lib.serving.endpoint import NETWORK, find_candidates, list_doubts
from dr_lib.serving.request_log import KINDS, summarise_requests
from dr_lib.statistics.intervals import Interval


def plot_predict_time(
    timed: pd.DataFrame, model: str, lang: str = "en", *, published: pd.DataFrame | None = None
) -> Figure:
    """Draw a model's prediction time on each machine in each format, and below it paper B's.

    For VGG19 this is the paper's figure 1, for MobileNet its figure 2.

    Args:
        timed: requests of `read_requests` that count, of a `Selection`; without any the paper
            stands alone.
        model: vgg19, mobilenet, or one that the paper did not have, which then stands alone.
        lang: en or pt.
        published: the paper's means, of `claims.list_printed`, for a panel of its own.
    """
    say = choose_words(lang)
    if len(timed):
        timed = timed[timed["model"] == model].dropna(subset=["predict_ms"])
    kinds = [kind for kind in KINDS if kind in timed]
    groups = timed.groupby(kinds, dropna=False, sort=False) if len(timed) else ()
    panels = {f"{name(model)}, 224 px": []}  # the paper's size
    theirs = []
    authors = ""
    if published is not None:
        theirs = tabulate_latencies(published).query("model == @model").itertuples()
        authors = say(published["authors"].iloc[0])
    for row in theirs:
        ends = row.predict_ms + row.predict_ms_sd * np.array([-1, 1])
        interval = Interval(row.predict_ms, *ends, 1)
        label = f"{row.instance}\n{authors}"
        panels[f"{name(model)}, 224 px"].append(Mean(label, interval, THEIRS))
    for row, (_, requests) in zip(summarise_requests(timed).itertuples(), groups, strict=True):
        mean = Mean(
            f"{row.environment}\n{row.format}, n = {row.n}",
            Interval(row.predict_ms, row.predict_ms_low, row.predict_ms_high, row.n),
            OURS,
            requests["predict_ms"],
            requests["disturbed"],
        )
        work = f"{name(model)}, {row.image_size:g} px"
        panels.setdefault(work, []).append(mean)
    return plot_means(panels, lang, unit="ms")


def plot_prices(priced: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw what a month costs on each endpoint of `price_endpoints`, a panel for each network."""
    say = choose_words(lang)
    panels = {}
    for row in priced.dropna(subset=["usd_per_month"]).itertuples():
        interval = Interval(
            row.usd_per_month, row.usd_per_month_low, row.usd_per_month_high, row.n
        )
        label = f"{row.instance}\n{row.format}, n = {row.n}"
        work = f"{name(row.model)}, {row.image_size:g} px, {say('a month')}"
        panels.setdefault(work, []).append(Mean(label, interval, OURS))
    return plot_means(panels, lang, unit="USD")


def plot_latency_percentiles(tried: pd.DataFrame, bound_ms: float) -> Figure:
    """Draw percentiles of the response time against the offered rate, and the bound.

    Args:
        tried: of `find_max_rate`: a row per rate with `rate_per_s`, p50_ms to p99_ms,
            service_p99_ms, `held`. A percentile that is NaN is left out.
        bound_ms: the bound that it was given.
    """
    figure, (ax,) = open_panels(1)
    rows = tried.sort_values("rate_per_s")
    rate = rows["rate_per_s"]
    colours = {"p50_ms": "#56b4e9", "p90_ms": "#0173b2", "p99_ms": "#d55e00"}
    for column, colour in colours.items():
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
    return figure


def describe_choice(priced: pd.DataFrame, lang: str = "en") -> list[str]:
    """Name the cheapest of `price_endpoints` in a sentence per network, or what it may be and why
    it is not known.
    """
    say = choose_words(lang)
    known = say(
        "For {} requests a day, 99 % within {} ms, the cheapest endpoint of {}, {} px, is {}:"
        " {} USD a month, {} USD a million as used."
    )
    unknown = say(
        "For {} requests a day, 99 % within {} ms, the cheapest endpoint of {}, {} px, is not"
        " known: {}. It may be {}; the lowest price is {} USD a month, {} USD a million as used."
    )
    sentences = []
    for network, rows in priced.groupby(NETWORK, sort=False):
        candidates = find_candidates(rows)
        if candidates.empty:
            words = say("No endpoint of {}, {} px, can be chosen: {}.")
            reasons = "; ".join(say(reason) for reason in dict.fromkeys(rows["reason"]))
            sentences.append(words.format(*map(name, network), reasons))
            continue
        row = candidates.iloc[0]
        endpoints = []
        for _, each in candidates.iterrows():
            machine = each.get("instance_type") or each["environment"]  # as detected
            endpoint = say("{} on {}, at the price of {}")
            endpoints.append(endpoint.format(each["format"], machine, each["instance"]))
        named = f" {say('or')} ".join(dict.fromkeys(endpoints))
        doubts = "; ".join(say(doubt) for doubt in list_doubts(candidates))
        sentences.append(
            (unknown if doubts else known).format(
                write_number(row["requests_per_day"], lang),
                write_number(row["p99_ms"], lang),
                *map(name, network),
                *([doubts] if doubts else []),
                named,
                write_span(row, "usd_per_month", lang),
                write_span(row, "usd_per_million_as_used", lang),
            )
        )
    return sentences + describe_labels(priced, say)


def describe_labels(priced: pd.DataFrame, say: Callable[[str], str]) -> list[str]:
    """Name the labels of `price_endpoints` that are not the machine measured, if there are any."""
    labels = priced.loc[~priced["is_measured"], "instance"].unique()
    words = say("Not measured on {}: that price is put on another machine's measurement.")
    return [words.format(", ".join(labels))] if len(labels) else []
