"""Draw what a runtime does: the time of each layer, and of each set of instructions."""

from collections.abc import Callable

import pandas as pd
from matplotlib.figure import Figure

from dr_lib.figures.scenarios import DRAWN, choose_words, write_number
from dr_lib.figures.serving import OURS, THEIRS, check_columns, open_panels, space_ticks

RUNTIMES = {"openvino_float32": "#0173b2", "openvino_bf16": "#cc78bc", "openvino_int8": "#d55e00"}
OUTSIDE = "outside the layers"  # the last row of a profile
_PORTUGUESE = {
    DRAWN: "imagens sintéticas, só para medir o tempo",
    "time of a prediction [ms]": "tempo de uma predição [ms]",
    "Where the time of a prediction goes": "Onde vai o tempo de uma predição",
    "share of the time [%]": "parte do tempo [%]",
    "{} other layers": "{} outras camadas",
    OUTSIDE: "fora das camadas",
    "One processor as its older generations": "Um processador como suas gerações anteriores",
    "instructions allowed": "instruções permitidas",
    "line: median; points: processes": "linha: mediana; pontos: processos",
}


def plot_profile(layers: pd.DataFrame, lang: str = "en", *, num_layers: int = 12) -> Figure:
    """Draw the share of a prediction's time that each layer takes, the largest first; a panel for each model.

    Args:
        layers: a row per layer with `layer`, `type`, `ms`, `share`, and `model` where there are several.
        lang: en, or pt with decimal commas.
        num_layers: that are named; the rest is one bar, and what lies outside the layers the last.

    Raises:
        NoRunsError: the table has no rows, or is none of layers.
    """
    say = choose_words(lang, _PORTUGUESE)
    check_columns(layers, ["layer", "type", "ms", "share"])
    figure, panels = open_panels(layers, "Where the time of a prediction goes", say, height=1.2 + 0.27 * num_layers)
    for ax, rows in panels:
        bars = _sort_layers(rows, num_layers, say)
        colours = [THEIRS if kind == "" else OURS for kind in bars["type"]]
        words = [f"{row.layer} ({row.type})" if row.type else row.layer for row in bars.itertuples()]
        ax.barh(range(len(bars)), 100 * bars["share"], color=colours)
        ax.set_yticks(range(len(bars)), words, fontsize="small")
        for position, row in enumerate(bars.itertuples()):
            text = f"{write_number(100 * row.share, lang, '{:.1f}')} %, {write_number(row.ms, lang)} ms"
            ax.annotate(text, (max(0, 100 * row.share), position), (4, 0), textcoords="offset points", va="center")
        ax.set(xlabel=say("share of the time [%]"), ylim=(len(bars) - 0.5, -0.5))
        ax.set_xlim(0, 140 * bars["share"].max())
        ax.xaxis.set_major_formatter(lambda value, _: write_number(value, lang, "{:g}"))
    return figure


def plot_instruction_sets(sweep: pd.DataFrame, lang: str = "en") -> Figure:
    """Draw the time of a prediction by the instructions allowed, a line for each runtime; a panel for each model.

    Args:
        sweep: a row per process with `level` (in the order of the table), `runtime`, `ms`, and `model` where there
            are several.
        lang: en, or pt with decimal commas.

    Raises:
        NoRunsError: the table has no rows, or is none of these.
    """
    say = choose_words(lang, _PORTUGUESE)
    check_columns(sweep, ["level", "runtime", "ms"])
    figure, panels = open_panels(sweep, "One processor as its older generations", say)
    levels = list(dict.fromkeys(sweep["level"]))
    for ax, rows in panels:
        for runtime, times in rows.groupby("runtime", sort=False):
            colour, medians = RUNTIMES.get(runtime, "#404040"), times.groupby("level")["ms"].median()
            ax.plot(times["level"].map(levels.index), times["ms"], "o", ms=3, color=colour, alpha=0.4)
            medians = medians.reindex(levels)
            first, last = (write_number(medians.dropna().iloc[end], lang) for end in (0, -1))
            ax.plot(range(len(levels)), medians, "o-", color=colour, label=f"{runtime}: {first} → {last} ms")
        ax.set(xlabel=say("instructions allowed"), ylabel=say("time of a prediction [ms]"), yscale="log")
        space_ticks(ax, lang, "y")
        ax.set_xticks(range(len(levels)), [level.replace("_", "\n") for level in levels], fontsize="small")
        ax.legend(frameon=False)
    figure.supxlabel(say("line: median; points: processes"), fontsize="small")
    return figure


def _sort_layers(rows: pd.DataFrame, num_layers: int, say: Callable[[str], str]) -> pd.DataFrame:
    """The bars from the top: the largest layers, the others as one, and what lies outside them."""
    outside = rows[rows["layer"] == OUTSIDE].assign(layer=say(OUTSIDE), type="")
    layers = rows[rows["layer"] != OUTSIDE].sort_values("share", ascending=False, kind="stable")
    small = layers[num_layers:]
    others = {"layer": say("{} other layers").format(len(small)), "type": "", "ms": small["ms"].sum()}
    others = pd.DataFrame([others | {"share": small["share"].sum()}][: len(small)])
    parts = [part for part in (layers[:num_layers], others, outside) if len(part)]
    return pd.concat(parts, ignore_index=True)
