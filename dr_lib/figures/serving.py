"""Draw a served model: time of a prediction (figures 1 and 2 of paper B), cost by rate, latency
under load.

Times of unlike models and formats lie a hundredfold apart, so their axes are logarithmic. `lang` is
en, or pt with decimal commas.
"""

import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dr_lib.evidence.papers import PAPERS
from dr_lib.evidence.serving.costs import (
    PAPER_RATE_PER_S,
    Offer,
    break_even,
    find_num_machines,
    read_paper_latencies,
    usd_per_million,
    usd_per_million_at_rate,
)
from dr_lib.evidence.serving.endpoint import NETWORK, compare_fleets, find_varied
from dr_lib.evidence.serving.request_log import KINDS, summarise_requests
from dr_lib.figures.style import (
    LINES,
    OURS,
    THEIRS,
    choose_words,
    name,
    open_panels,
    space_ticks,
)
from dr_lib.numbers import write_interval, write_number, write_span

# so many times the bound has a rate to be tried before a queue that grows shows in the response
# times
SPANS = 20
PERCENTILES = {"p50_ms": "#56b4e9", "p90_ms": "#0173b2", "p99_ms": "#d55e00"}


def plot_predict_time(
    timed: pd.DataFrame, model: str, lang: str = "en", *, published: bool = True
) -> Figure:
    """Draw how long a model predicts on each machine in each format, and below it what paper B
    measured.

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
    timed = (
        timed[timed["model"] == model].dropna(subset=["predict_ms"])
        if "model" in timed
        else timed[:0]
    )
    ours = summarise_requests(timed)
    panels = [
        (title, rows)
        for title, rows in ((say("our requests"), ours), (say(PAPERS["B"].authors), paper))
        if len(rows)
    ]
    heights = [0.3 + 0.55 * len(rows) for _, rows in panels]
    figure, axes = open_panels(len(panels), width=7, heights=heights, share="x")
    for ax, (title, rows) in zip(axes, panels, strict=True):
        _draw_times(ax, rows, timed if rows is ours else None, lang)
        ax.set_title(title, loc="left", fontweight="bold")
    low, high = axes[0].get_xlim()
    # room for numbers
    axes[-1].set(xlabel=say("time of a prediction [ms]"), xlim=(low, high * (high / low) ** 0.4))
    space_ticks(axes[-1], lang, "x")
    figure.suptitle(say("Time of a prediction: {}").format(name(model)))
    words = (
        "large: mean of n deployments; thick line: 95 % interval; thin line: standard deviation;"
        " small: requests"
    )
    figure.supxlabel(say(words), fontsize="small")
    return figure


def plot_cost_by_utilisation(
    costs: pd.DataFrame,
    lang: str = "en",
    *,
    published: bool = True,
) -> Figure:
    """Draw what a million predictions cost at each rate, a line for each machine; a panel for each
    model and format.

    A machine that is billed by the hour is dear where it idles: the lines fall until one machine is
    fully used, and rise by a step where another one is added.

    Args:
        costs: from `cost_table`, with `model`; what is free has no line.
        lang: en or pt.
        published: mark the rate at which paper B asked.
    """
    say = choose_words(lang)
    costs = costs[costs["usd_per_hour"] > 0]
    groups = list(
        costs.groupby(
            [key for key in ("model", "format") if key in costs], sort=False, dropna=False
        )
    )
    figure, axes = open_panels(len(groups), columns=2)
    figure.suptitle(say("Cost by rate of requests"))
    for ax, (key, rows) in zip(axes, groups, strict=True):
        ax.set_title(", ".join(map(name, key)), loc="left", fontweight="bold")
        _draw_costs(ax, rows, lang, say, published)
        ax.set(xlabel=say("requests per second"), ylabel=say("USD per million predictions"))
    words = (
        "dot: one machine, never idle; dotted: here the cheapest hour first stops being the"
        " cheapest prediction"
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
    for column, colour in PERCENTILES.items():
        ax.plot(
            rows["rate_per_s"], rows[column], "-", color=colour, label=column.removesuffix("_ms")
        )
        for held, fill in ((True, colour), (False, "white")):
            part = rows[rows["held"] == held]
            ax.plot(part["rate_per_s"], part[column], "o", ms=5, color=colour, mfc=fill)
    ax.plot(
        rows["rate_per_s"],
        rows["service_p99_ms"],
        ":",
        color="#404040",
        label="p99 from the sending",
    )
    ax.axhline(bound_ms, color="black", lw=1, ls="--", label="bound")
    ax.set(xlabel="requests per second", ylabel="response time [ms]", xscale="log", yscale="log")
    space_ticks(ax, "en")
    ax.legend(loc="upper left", framealpha=1, edgecolor="white")
    figure.suptitle("Response time under load")
    figure.supxlabel("from when a request was due; open: the rate was not held", fontsize="small")
    return figure


def describe_choice(priced: pd.DataFrame, lang: str = "en") -> list[str]:
    """Say which of `price_endpoints` is the cheapest for each network, what would change that,
    what it rests on.
    """
    say = choose_words(lang)
    sentences = []
    varied = find_varied(priced)

    def state(words: str, *values: str | float) -> None:
        texts = [value if isinstance(value, str) else write_number(value, lang) for value in values]
        sentences.append(say(words).format(*texts))

    requests_per_day, p99_ms, busiest_hour = priced[
        ["requests_per_day", "p99_ms", "busiest_hour"]
    ].iloc[0]
    state("Asked: {} requests a day, 99 % within {} ms.", requests_per_day, p99_ms)
    state(
        "Assumed: all days are alike, and the busiest hour has {} % of a day's requests, at random"
        " times; machines run all month; a dollar is {} reais.",
        100 * busiest_hour,
        write_number(priced["brl_per_usd"].iloc[0], lang, "{:g}"),
    )
    for network, rows in priced[priced["reason"] == ""].groupby(NETWORK, sort=False):
        rows = rows.assign(label=[_name_endpoint(row, varied, say) for _, row in rows.iterrows()])
        first = rows.iloc[0]
        columns = [
            "num_machines",
            "usd_per_month",
            "brl_per_month",
            "usd_per_million_rented",
            "brl_per_million_rented",
        ]
        spans = [write_span(first, column, lang) for column in columns]
        words = (
            "{}, {} px: {} is the cheapest; machines: {}; a month: {} USD, {} BRL; a million: {}"
            " USD, {} BRL."
        )
        state(words, *map(name, network), first["label"], *spans)
        if np.isnan(first["gate_auc_difference"]):
            state("What it does to the accuracy is not known: no gate has judged it.")
        else:
            gate = [
                write_span(first, f"gate_{score}_difference", lang) for score in ("auc", "kappa")
            ]
            state("It changes the AUC by {} and kappa by {}.", *gate)
        joules = first["joules_per_prediction"]
        energy = say(first["measured"]) if np.isnan(joules) else f"{write_number(joules, lang)} J"
        state("Energy of a prediction: {}.", energy)
        if first["held_requests"] < 100:
            words = "Its rate rests on {} requests; fewer than 100 show no 99th percentile."
            state(words, first["held_requests"])
        if first["load_seconds"] < SPANS * p99_ms / 1e3:
            words = (
                "Its rate was tried for {} s; less than {} s, {} times the bound, do not show that"
                " no queue grows."
            )
            state(words, first["load_seconds"], SPANS * p99_ms / 1e3, SPANS)
        fewer = find_num_machines(
            requests_per_day * busiest_hour / 3600, 1e3 / first["missed_per_s"]
        )
        if (
            first["is_limited"]
            and first["missed_per_s"] > 1.1 * first["rate_per_s"]
            and fewer < first["num_machines"]
        ):
            words = (
                "It held {} and missed {} requests a second; rates between, not tried, may need"
                " only {} machines."
            )
            state(words, first["rate_per_s"], first["missed_per_s"], fewer)
        if first["n"] < 2:
            state("One deployment has no interval: three say how sure this is.")
        if not first["is_limited"] and first["num_machines"] > 1:
            state("A deployment held every rate that was tried, so fewer machines may do.")
        if first["price_is_old"]:
            state("Its price is older than a year, or of an unknown day.")
        if len(rows) > 1:
            _compare(rows, state)
    return sentences


def _name_endpoint(row: pd.Series, varied: list[str], say: Callable[[str], str]) -> str:
    """Format and instance, and what else tells the endpoints apart; an assumed price is said to
    be one.
    """
    text = say("{} on {}").format(row["format"], row["instance"])
    if row["price_is_assumed"]:
        words = say("{} (measured on {}, at the price of {})")
        machine = row.get("instance_type") or row["environment"].rstrip(", ")  # as detected
        text = words.format(row["format"], machine, row["instance"])
    elif "environment" in varied:
        text += f", {row['environment']}"
    return text + (
        ", " + say("threads: {}").format(f"{row['threads']:g}") if "threads" in varied else ""
    )


def _compare(rows: pd.DataFrame, state: Callable[..., None]) -> None:
    """How much dearer the second is, and at which requests a day, next to those asked, the
    choice changes.
    """
    first = rows.iloc[0]
    second = rows.iloc[1]
    # requests of a day for each request a second in its busiest hour
    day_s = 3600 / first["busiest_hour"]
    state("The next is {} at {} USD a month.", second["label"], second["usd_per_month"])
    if (
        first["usd_per_month_high"] >= second["usd_per_month_low"]
        and first["usd_per_month"] < second["usd_per_month"]
    ):
        state("Their intervals overlap: more deployments would tell them apart.")
    found = [
        each for _, other in rows.iloc[1:].iterrows() if (each := compare_fleets(first, other))
    ]
    changes = [
        (rate, each)
        for each in found
        for rate in (each.first_per_s, each.always_per_s)
        if np.isfinite(rate)
    ]
    asked_per_s = first["requests_per_day"] / day_s
    below = max((change for change in changes if change[0] <= asked_per_s), default=None)
    above = min((change for change in changes if change[0] > asked_per_s), default=None)
    nearest = dict.fromkeys(change[1] for change in (below, above) if change) or found[:1]
    for each in nearest:
        cheaper = rows.loc[each.cheaper, "label"]
        dearer = rows.loc[each.other, "label"]
        first_day = day_s * each.first_per_s
        always_day = day_s * each.always_per_s
        if np.isinf(first_day):
            state("{} is no dearer than {} at any rate.", cheaper, dearer)
        elif np.isinf(always_day):
            words = (
                "Up to {} requests a day {} is no dearer than {}; above, now one is, now the other."
            )
            state(words, first_day, cheaper, dearer)
        else:
            words = "Up to {} requests a day {} is no dearer than {}; above {} it always is."
            state(words, first_day, cheaper, dearer, always_day)


def _draw_times(ax: Axes, rows: pd.DataFrame, requests: pd.DataFrame | None, lang: str) -> None:
    """A line for each row of a table of latencies: deviation, interval, mean, and the requests
    where they are ours.
    """
    labels = []
    colour = THEIRS
    groups = itertools.repeat(None)
    if requests is not None:
        kinds = requests.groupby(
            [kind for kind in KINDS if kind in requests], dropna=False, sort=False
        )
        colour = OURS
        groups = (times for _, times in kinds["predict_ms"])
    for position, (row, times) in enumerate(zip(rows.itertuples(), groups, strict=False)):
        high = row.predict_ms + row.predict_ms_sd
        low = max(row.predict_ms - row.predict_ms_sd, row.predict_ms / 2)
        ax.plot([low, high], [position] * 2, color=colour, lw=1.2)
        if times is None:
            label = row.instance
            text = write_number(row.predict_ms, lang, "{:.4g} ms") + write_number(
                row.predict_ms_sd, lang, " ± {:g}"
            )
        else:
            label = f"{row.environment}, {row.format}\n{row.image_size:g} px\nn = {row.n}"
            text = (
                write_interval(
                    row.predict_ms, row.predict_ms_low, row.predict_ms_high, lang, "{:.4g}"
                )
                + " ms"
            )
            ax.plot(
                [row.predict_ms_low, row.predict_ms_high],
                [position] * 2,
                color=colour,
                lw=4,
                alpha=0.6,
            )
            ax.plot(
                times,
                position + np.linspace(-0.25, 0.25, len(times)),
                "o",
                color=colour,
                ms=2.5,
                alpha=0.35,
            )
            high = np.nanmax([high, times.max(), row.predict_ms_high])
        ax.plot(row.predict_ms, position, "o", color=colour, mec="black", ms=7)
        ax.annotate(text, (high, position), (10, 0), textcoords="offset points", va="center")
        labels.append(label)
    ax.set_yticks(range(len(rows)), labels)
    ax.set(xscale="log", ylim=(len(rows) - 0.5, -0.5))


def _draw_costs(
    ax: Axes,
    rows: pd.DataFrame,
    lang: str,
    say: Callable[[str], str],
    published: bool,
) -> None:
    """The lines of one panel, the paper's rate where it is asked for, and the first break-even."""
    fastest = 1e3 / rows["busy_ms"].min()
    slowest = 1e3 / rows["busy_ms"].max()
    rates = np.geomspace(min(PAPER_RATE_PER_S, slowest) / 2, 4 * fastest, 2000)
    for row, colour in zip(rows.itertuples(), itertools.cycle(LINES), strict=False):
        usd = usd_per_million_at_rate(row.usd_per_hour, rates, row.busy_ms)
        words = f"{row.instance}, {write_number(row.usd_per_hour, lang, '{:g}')} USD/h"
        ax.plot(rates, usd, color=colour, label=words, lw=1.3)
        ax.plot(
            1e3 / row.busy_ms,
            usd_per_million(row.usd_per_hour, row.busy_ms),
            "o",
            color=colour,
            mec="black",
        )
    ax.set(xscale="log", yscale="log")
    top = {
        "xycoords": ("data", "axes fraction"),
        "textcoords": "offset points",
        "va": "top",
        "fontsize": "small",
    }
    if published:
        ax.axvline(PAPER_RATE_PER_S, color=THEIRS, lw=1)
        ax.annotate(say(PAPERS["B"].authors), (PAPER_RATE_PER_S, 1), (3, 0), color="#606060", **top)
    space_ticks(ax, lang)
    ax.legend(loc="lower left", fontsize="small", framealpha=1, edgecolor="white")
    offers = [Offer(row.instance, row.usd_per_hour, row.busy_ms) for row in rows.itertuples()]
    by_hour = min(offers, key=lambda offer: offer.usd_per_hour)
    found = [break_even(by_hour, offer).first_per_s for offer in offers if offer != by_hour]
    if np.isfinite(found).any():
        ax.axvline(min(found), color="black", ls=":", lw=1.2)
        ax.annotate(write_number(min(found), lang, "{:.3g}/s"), (min(found), 1), (3, 0), **top)
