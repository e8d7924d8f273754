"""Draw and word a served model: times (figures 1 and 2 of paper B), load, a month's price.

`lang` is en, or pt with decimal commas.
"""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from dr_lib.numbers import write_number, write_span
from dr_lib.report.answer import Answer, Number
from dr_lib.report.means import Mean, plot_means
from dr_lib.report.style import (
    OURS,
    THEIRS,
    choose_words,
    name,
    open_panels,
    space_ticks,
)
from dr_lib.serving.costs import NETWORK, find_candidates, tabulate_latencies
from dr_lib.statistics.intervals import Interval


def plot_predict_time(
    times: pd.DataFrame, model: str, lang: str = "en", *, published: pd.DataFrame | None = None
) -> Figure:
    """Draw a model's prediction time on each machine in each format, and below it paper B's.

    For VGG19 this is the paper's figure 1, for MobileNet its figure 2.

    Args:
        times: of `summarise_times`; without any the paper stands alone.
        model: vgg19, mobilenet, or one that the paper did not have, which then stands alone.
        lang: en or pt.
        published: the paper's means, of `claims.list_printed`, for a panel of its own.
    """
    say = choose_words(lang)
    panels = {f"{name(model)}, 224 px": []}  # the paper's size
    if published is not None:
        theirs = tabulate_latencies(published).query("model == @model")
        authors = say(published["authors"].iloc[0])
        for row in theirs.itertuples():
            low = row.predict_ms - row.predict_ms_sd
            high = row.predict_ms + row.predict_ms_sd
            interval = Interval(row.predict_ms, low, high, 1)
            mean = Mean(f"{row.instance}\n{authors}", interval, THEIRS)
            panels[f"{name(model)}, 224 px"].append(mean)
    ours = times[times["model"] == model] if len(times) else times
    for row in ours.itertuples():
        interval = Interval(row.predict_ms, row.predict_ms_low, row.predict_ms_high, row.n)
        label = f"{row.environment}\n{row.format}, n = {row.n}"
        work = f"{name(model)}, {row.image_size:g} px"
        panels.setdefault(work, []).append(Mean(label, interval, OURS))
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
        tried: of `find_max_rate`: a row per rate with `rate_per_s`, p50_ms to p99_ms and `held`. A
            percentile that is NaN is left out.
        bound_ms: the bound that it was given.
    """
    figure, (ax,) = open_panels(1)
    rows = tried.sort_values("rate_per_s")
    colours = {"p50_ms": "#56b4e9", "p95_ms": "#0173b2", "p99_ms": "#d55e00"}
    for column, colour in colours.items():
        label = column.removesuffix("_ms")
        ax.plot(rows["rate_per_s"], rows[column], "-", color=colour, label=label)
        for is_held, fill in ((True, colour), (False, "white")):
            part = rows[rows["held"] == is_held]
            ax.plot(part["rate_per_s"], part[column], "o", ms=5, color=colour, mfc=fill)
    ax.axhline(bound_ms, color="black", lw=1, ls="--", label="bound")
    ax.set(
        xlabel="requests per second", ylabel="response time [ms]", xscale="log", yscale="log"
    )
    space_ticks(ax, "en")
    ax.legend(loc="upper left", framealpha=1, edgecolor="white")
    return figure


def describe_choice(priced: pd.DataFrame, lang: str = "en") -> list[str]:
    """Name the cheapest of `price_endpoints` in a sentence per network, or say why none is."""
    say = choose_words(lang)
    sentences = []
    for network, rows in priced.groupby(NETWORK, sort=False):
        network = f"{name(network[0])}, {write_number(network[1], lang)} px"
        candidates = find_candidates(rows)
        endpoint = say("{} on {}, at the price of {}")
        names = [
            endpoint.format(row.format, row.environment, row.instance)
            for row in candidates.itertuples()
        ]
        if candidates.empty:
            words = say("No endpoint of {} can be chosen: {}.")
            reasons = "; ".join(say(reason) for reason in dict.fromkeys(rows["reason"]))
            sentences.append(words.format(network, reasons))
        elif candidates["disturbed"].any():
            words = say("No cheapest endpoint of {} is named: a load test was disturbed.")
            sentences.append(words.format(network))
        elif len(names) > 1:
            words = say("The prices of {} are not told apart: {}.")
            sentences.append(words.format(network, f" {say('or')} ".join(names)))
        else:
            words = say("The cheapest endpoint of {} is {}: {} USD a month.")
            usd = write_span(candidates.iloc[0], "usd_per_month", lang)
            sentences.append(words.format(network, names[0], usd))
    return sentences


def answer_price(
    priced: pd.DataFrame, limits: Sequence[str], rests: str, lang: str = "en"
) -> Answer:
    """Answer which endpoint is the cheapest, and what a month of it costs.

    Args:
        priced: of `price_endpoints`.
        limits: of the rows' times.
        rests: what they rest on.
        lang: en or pt.
    """
    say = choose_words(lang)
    sentence, *more = describe_choice(priced, lang)
    row = priced.iloc[0]
    if row["reason"]:
        return Answer(sentence, more=more, limits=limits, rests=rests)
    usd, _, bounds = write_span(row, "usd_per_month", lang).partition(" [")
    words = say("a month, machines: {}; one held {} requests a second, n = {}")
    machines = write_number(row["num_machines"], lang)
    note = words.format(machines, write_span(row, "rate_per_s", lang), row["n"])
    heading = f"{name(row['model'])}, {row['format']}, {row['instance']}"
    number = Number(heading, f"{usd} USD", bounds and f"[{bounds}", note)
    return Answer(sentence, [number], more=more, limits=limits, rests=rests)
