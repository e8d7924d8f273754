"""Draw a served model: time of a prediction (figures 1 and 2 of paper B), cost by rate, latency under load.

Times of unlike models and formats lie a hundredfold apart, so their axes are logarithmic.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from dr_lib.evidence.request_log import KINDS, summarise_requests
from dr_lib.evidence.serving_cost import (
    PAPER_RATE_PER_S,
    Offer,
    break_even,
    find_num_machines,
    read_paper_latencies,
    usd_per_million,
    usd_per_million_at_rate,
)
from dr_lib.figures.hardware import NoRunsError
from dr_lib.figures.scenarios import DRAWN, choose_words, write_number, write_title

MODELS = {"vgg19": "VGG19", "mobilenet": "MobileNet"}
OURS, THEIRS = "#0173b2", "#949494"
LINES = ("#0173b2", "#d55e00", "#cc78bc", "#ca9161", "#56b4e9", "#404040")  # none is an accelerator's
PERCENTILES = {"p50_ms": "#56b4e9", "p90_ms": "#0173b2", "p99_ms": "#d55e00"}
_PORTUGUESE = {
    DRAWN: "imagens sintéticas, só para medir o tempo",
    "Time of a prediction: {}": "Tempo de uma predição: {}",
    "our requests": "nossas requisições",
    "paper B": "artigo B",
    "time of a prediction [ms]": "tempo de uma predição [ms]",
    "large point: mean; thick line: its 95 % interval; thin line: standard deviation; small points: requests": (
        "ponto grande: média; linha grossa: seu intervalo de 95 %; linha fina: desvio padrão; pontos: requisições"
    ),
    "Cost by rate": "Custo por taxa",
    "requests per second": "requisições por segundo",
    "USD per million predictions": "USD por milhão de predições",
    "dot: one machine, never idle; dotted: here the cheapest hour first stops being the cheapest prediction": (
        "ponto: uma máquina, nunca ociosa; pontilhado: aqui a hora mais barata deixa de ser a predição mais barata"
    ),
    "Latency under load": "Latência sob carga",
    "latency [ms]": "latência [ms]",
    "bound": "limite",
    "p99 from the sending": "p99 desde o envio",
    "from when a request was due; open: the rate was not held": (
        "desde o instante previsto da requisição; aberto: a taxa não foi mantida"
    ),
}


def plot_predict_time(timed: pd.DataFrame, model: str, lang: str = "en") -> Figure:
    """Draw how long a model predicts on each machine in each format, and below it what paper B measured.

    For VGG19 this is the paper's figure 1, for MobileNet its figure 2.

    Args:
        timed: requests of `read_requests` that count, from `timed_runs`; without any the paper stands alone.
        model: vgg19, mobilenet, or one that the paper did not have, which then stands alone.
        lang: en, or pt with decimal commas.

    Raises:
        NoRunsError: neither we nor the paper have a time of this model.
    """
    say, paper = choose_words(lang, _PORTUGUESE), read_paper_latencies().query("model == @model")
    timed = timed[timed["model"] == model] if "model" in timed else timed[:0]
    ours = summarise_requests(timed)
    panels = [(name, rows) for name, rows in (("our requests", ours), ("paper B", paper)) if len(rows)]
    if not panels:
        raise NoRunsError(f"no request to {model!r} was answered, and paper B has none: the rows' errors say why")
    heights = [len(rows) for _, rows in panels]
    figure = Figure(figsize=(9, 2 + 0.55 * sum(heights)), layout="constrained")
    axes = figure.subplots(len(panels), sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    for ax, (name, rows) in zip(axes, panels, strict=True):
        _draw_times(ax, rows, timed if rows is ours else None, lang)
        ax.set_title(say(name), loc="left", fontweight="bold")
    low, high = axes[0].get_xlim()
    axes[-1].set(xlabel=say("time of a prediction [ms]"), xlim=(low, high * (high / low) ** 0.4))  # room for numbers
    space_ticks(axes[-1], lang, "x")
    figure.suptitle(write_title("Time of a prediction: {}", timed, say).format(MODELS.get(model, model)))
    words = "large point: mean; thick line: its 95 % interval; thin line: standard deviation; small points: requests"
    figure.supxlabel(say(words), fontsize="small")
    return figure


def plot_cost_by_utilisation(costs: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw what a million predictions cost at each rate, a line for each machine; a panel for each model and format.

    A machine that is billed by the hour is dear where it idles: the lines fall until one machine is fully used, and
    rise by a step where another one is added.

    Args:
        costs: from `cost_table`, with `model`.
        lang: en, or pt with decimal commas.

    Raises:
        NoRunsError: no row has a price above zero.
    """
    say = choose_words(lang, _PORTUGUESE)
    check_columns(costs, ["model", "instance", "usd_per_hour", "predict_ms"])
    costs = costs[costs["usd_per_hour"] > 0]
    check_columns(costs, [])
    figure, panels = open_panels(costs, "Cost by rate", say, height=4.4)
    for ax, rows in panels:
        _draw_costs(ax, rows, lang, say)
        ax.set(xlabel=say("requests per second"), ylabel=say("USD per million predictions"))
    words = "dot: one machine, never idle; dotted: here the cheapest hour first stops being the cheapest prediction"
    figure.supxlabel(say(words), fontsize="small")
    return figure


def plot_latency_percentiles(tried: pd.DataFrame, bound_ms: float, lang: str = "en") -> Figure:
    """Draw percentiles of the latency against the rate offered, and the bound; a panel for each model and format.

    Args:
        tried: of `find_max_rate`: a row per rate with `rate_per_s`, p50_ms to p99_ms, service_p99_ms, `held`.
        bound_ms: the bound that it was given.
        lang: en, or pt with decimal commas.

    Raises:
        NoRunsError: the table has no rows, or is none of these.
    """
    say = choose_words(lang, _PORTUGUESE)
    check_columns(tried, ["rate_per_s", "held", "service_p99_ms", *PERCENTILES])
    figure, panels = open_panels(tried, "Latency under load", say)
    for ax, rows in panels:
        rows = rows.sort_values("rate_per_s")
        for name, colour in PERCENTILES.items():
            ax.plot(rows["rate_per_s"], rows[name], "-", color=colour, label=name.removesuffix("_ms"))
            for held, fill in ((True, colour), (False, "white")):
                part = rows[rows["held"] == held]
                ax.plot(part["rate_per_s"], part[name], "o", ms=5, color=colour, mfc=fill)
        ax.plot(rows["rate_per_s"], rows["service_p99_ms"], ":", color="#404040", label=say("p99 from the sending"))
        ax.axhline(bound_ms, color="black", lw=1, ls="--", label=say("bound"))
        ax.set(xlabel=say("requests per second"), ylabel=say("latency [ms]"), xscale="log", yscale="log")
        space_ticks(ax, lang)
        ax.legend(loc="upper left", framealpha=1, edgecolor="white")
    figure.supxlabel(say("from when a request was due; open: the rate was not held"), fontsize="small")
    return figure


def open_panels(
    table: pd.DataFrame, title: str, say: Callable[[str], str], height: float = 3.8
) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """A figure with a panel for each model and format of a table, and the rows of each; columns that lack tell none."""
    keys = [name for name in ("model", "format") if name in table]
    groups = list(table.groupby(keys, sort=False, dropna=False)) if keys else [((), table)]
    figure = Figure(figsize=(2 + 5.5 * min(2, len(groups)), 0.8 + height * -(-len(groups) // 2)), layout="constrained")
    axes = figure.subplots(-(-len(groups) // 2), min(2, len(groups)), squeeze=False).ravel()
    for ax in axes[len(groups) :]:
        ax.remove()
    for ax, (key, _) in zip(axes, groups, strict=False):
        ax.set_title(", ".join(MODELS.get(level, str(level)) for level in key), loc="left", fontweight="bold")
        sns.despine(ax=ax)
    figure.suptitle(write_title(title, table, say))
    return figure, [(ax, rows) for ax, (_, rows) in zip(axes, groups, strict=False)]


def check_columns(table: pd.DataFrame, columns: Sequence[str]) -> None:
    """Raise NoRunsError unless the table has rows and these columns."""
    missing = [column for column in columns if column not in table]
    if missing or table.empty:
        raise NoRunsError(f"there is nothing to draw: the table has no {', '.join(missing) or 'rows'}")


def space_ticks(ax: Axes, lang: str, axes: str = "xy") -> None:
    """Number logarithmic axes at 1, 2 and 5, or where they span more than two decades at powers of ten alone."""
    for axis in (getattr(ax, f"{name}axis") for name in axes):
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1,) if high > 300 * low else (1, 2, 5)))
        axis.set_major_formatter(lambda value, _: write_number(value, lang, "{:g}"))
        axis.set_minor_formatter(NullFormatter())


def _draw_times(ax: Axes, rows: pd.DataFrame, requests: pd.DataFrame | None, lang: str) -> None:
    """A line for each row of a table of latencies: deviation, interval, mean, and the requests where they are ours."""
    labels, ax_colour = [], THEIRS if requests is None else OURS
    for position, row in enumerate(rows.itertuples()):
        low, high = row.predict_ms - row.predict_ms_sd, row.predict_ms + row.predict_ms_sd
        text = write_number(row.predict_ms, lang, "{:.4g} ms")
        label = row.instance
        if requests is not None:
            label = ", ".join(str(getattr(row, name)) for name in ("environment", "format") if hasattr(row, name))
            label += f"\n{row.image_size:g} px" if hasattr(row, "image_size") else ""
            times = requests[_is_of(requests, row)]["predict_ms"]
            ax.plot(times, position + np.linspace(-0.25, 0.25, len(times)), "o", color=ax_colour, ms=2.5, alpha=0.35)
            ax.plot([row.predict_ms_low, row.predict_ms_high], [position] * 2, color=ax_colour, lw=4, alpha=0.6)
            high, label = max(high, times.max()), f"{label}\nn = {row.n}"
            bounds = [write_number(bound, lang, "{:.4g}") for bound in (row.predict_ms_low, row.predict_ms_high)]
            text += f" [{('; ' if lang == 'pt' else ', ').join(bounds)}]" * bool(np.isfinite(row.predict_ms_low))
        else:
            text += write_number(row.predict_ms_sd, lang, " ± {:g}")
        ax.plot(
            [max(low, row.predict_ms / 2), row.predict_ms + row.predict_ms_sd], [position] * 2, color=ax_colour, lw=1.2
        )
        ax.plot(row.predict_ms, position, "o", color=ax_colour, mec="black", ms=7)
        ax.annotate(text, (high, position), (10, 0), textcoords="offset points", va="center")
        labels.append(label)
    ax.set_yticks(range(len(rows)), labels)
    ax.set(xscale="log", ylim=(len(rows) - 0.5, -0.5))
    sns.despine(ax=ax)


def _is_of(requests: pd.DataFrame, row: Any) -> np.ndarray:
    same = [requests[name].astype(str) == str(getattr(row, name)) for name in KINDS if name in requests]
    return np.logical_and.reduce(same)


def _draw_costs(ax: Axes, rows: pd.DataFrame, lang: str, say: Callable[[str], str]) -> None:
    """The lines of one panel, the paper's rate and the first break-even."""
    fastest, slowest = 1e3 / rows["predict_ms"].min(), 1e3 / rows["predict_ms"].max()
    rates = np.geomspace(min(PAPER_RATE_PER_S, slowest) / 2, 4 * fastest, 2000)
    for row, colour in zip(rows.itertuples(), itertools.cycle(LINES), strict=False):
        usd = usd_per_million_at_rate(row.usd_per_hour, rates, find_num_machines(rates, row.predict_ms))
        words = f"{row.instance}, {write_number(row.usd_per_hour, lang, '{:g}')} USD/h"
        ax.plot(rates, usd, color=colour, label=words, lw=1.3)
        ax.plot(1e3 / row.predict_ms, usd_per_million(row.usd_per_hour, row.predict_ms), "o", color=colour, mec="black")
    ax.set(xscale="log", yscale="log")
    ax.axvline(PAPER_RATE_PER_S, color=THEIRS, lw=1)
    top = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "va": "top", "fontsize": "small"}
    ax.annotate(say("paper B"), (PAPER_RATE_PER_S, 1), (3, 0), color="#606060", **top)
    space_ticks(ax, lang)
    ax.legend(loc="lower left", fontsize="small", framealpha=1, edgecolor="white")
    offers = [Offer(row.instance, row.usd_per_hour, row.predict_ms) for row in rows.itertuples()]
    by_hour = min(offers, key=lambda offer: offer.usd_per_hour)
    found = [break_even(by_hour, offer).first_per_s for offer in offers if offer != by_hour]
    if np.isfinite(found).any():
        ax.axvline(min(found), color="black", ls=":", lw=1.2)
        ax.annotate(write_number(min(found), lang, "{:.3g}/s"), (min(found), 1), (3, 0), **top)
