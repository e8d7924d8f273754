"""Choose the runs whose times count, and draw them: figure 1, training time by hardware."""

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dr_lib.statistics.intervals import mean_interval

PUBLISHED = Path(__file__).parents[1] / "evidence" / "published.csv"
WORK = "data_kind data_manifest_sha256 model format weights mode framework dataset network epochs batch_size".split()
WORK += "image_size optimizer learning_rate warmup_epochs augmentation dropout last_frozen commit".split()
WORK += "data_share threads_asked evaluate_every".split()
SET_BY_MODE = ("batch_size", "learning_rate", "warmup_epochs")  # part of the work that a mode may set anew
PLAN = "precision strategy jit steps_per_execution backend num_replicas on_device".split()  # follows the hardware
FLAWS = ("resumed", "disturbed")
MIN_RUNS = 3  # fewer decide nothing
ACCELERATOR_COLOURS = {"cpu": "#949494", "gpu": "#029e73", "tpu": "#de8f05"}  # in every figure of the suite
_PORTUGUESE = {
    "Training time by hardware": "Tempo de treinamento por hardware",
    "synthetic sample, not photographs": "amostra sintética, não retinografias",
    "training time": "tempo de treinamento",
    "our runs": "nossas execuções",
    "paper A": "artigo A",
    "bar: mean [95 % interval]; error bar: standard deviation; points: runs in order": (
        "barra: média [intervalo de 95 %]; barra de erro: desvio padrão; pontos: execuções em ordem"
    ),
}


class UnlikeRunsError(ValueError):
    """The rows did different work; the message names the columns and their values."""


class NoRunsError(ValueError):
    """No run is left to draw."""


def timed_runs(runs: pd.DataFrame, *, keep: Collection[str] = ()) -> pd.DataFrame:
    """Take the rows whose times count: status ok, not `resumed`, not `disturbed` (unless named in `keep`).

    Columns are added: `machine`, such as `kaggle, 2 x Tesla T4`, with the instance or the processor where that tells
    two apart; `mode`, paper where a row names none; and `environment`, the machine and any mode but the paper's.
    """
    ok = runs[runs["status"] == "ok"] if len(runs) else runs
    if ok.empty:
        return ok.assign(machine="", mode="", environment="")
    count = ok["num_accelerators"].map(lambda count: f"{count:.0f} x " if count > 1 else "")
    machine = ok["platform"] + ", " + (count + ok["accelerator"]).replace("cpu", "CPU")
    if "instance" in ok:
        instance = ok["instance"].fillna("").astype(str)
        machine = machine.mask(instance.groupby(machine).transform("nunique") > 1, machine + ", " + instance)
    if "cpu" in ok:  # two machines without accelerators may have unlike processors
        processor = ok["cpu"].astype(str) + (" x " + ok["num_cpus"].astype(str) if "num_cpus" in ok else "")
        unlike = (processor.groupby(machine).transform("nunique") > 1) & (ok["accelerator"] == "cpu")
        machine = machine.mask(unlike, machine + ", " + processor)
    mode = ok["mode"].fillna("paper") if "mode" in ok else pd.Series("paper", ok.index)
    timed = ok.assign(machine=machine, mode=mode, environment=machine.where(mode == "paper", machine + ", " + mode))
    for flaw in set(FLAWS) & set(timed) - set(keep):
        timed = timed[~pd.to_numeric(timed[flaw]).gt(0)]
    return timed.reset_index(drop=True)


def check_alike(timed: pd.DataFrame, *, allow: Collection[str] = ()) -> None:
    """Refuse rows of `timed_runs` that did different work: their mean would be the mean of nothing.

    Data, model, mode, parameters and commit must be one in all rows, batch and learning rate in each mode, precision
    and the like in each environment; `allow` names columns that may differ.

    Raises:
        UnlikeRunsError: other columns differ.
    """
    unlike, groups = {}, [(timed, set(WORK) - set(SET_BY_MODE))]
    groups += [(rows, SET_BY_MODE) for _, rows in timed.groupby("mode")]
    groups += [(rows, PLAN) for _, rows in timed.groupby("environment")]
    for rows, columns in groups:
        for column in set(columns) & set(rows) - set(allow):
            if rows[column].nunique(dropna=False) > 1:
                unlike[column] = ", ".join(sorted({str(value) for value in rows[column]}))
    if unlike:
        told = "; ".join(f"{column} ({values})" for column, values in sorted(unlike.items()))
        raise UnlikeRunsError(f"rows differ in {told}: choose one of each, or allow the column to differ")


def plot_training_time(
    runs: pd.DataFrame,
    lang: str = "en",
    published: bool = True,
    *,
    allow: Collection[str] = (),
    keep: Collection[str] = (),
) -> Figure:
    """Draw the mean training time of each environment, and below it the means that paper A printed.

    Bars are arithmetic means and error bars standard deviations, as in the paper; the interval beside a bar
    is `mean_interval`'s. Both panels share the axis where our longest mean reaches a fifth of the paper's.

    Args:
        runs: one row per run; `timed_runs` says which count, and what `keep` is. Without any the paper stands alone.
        lang: en, or pt with decimal commas.
        published: draw the paper's panel, from published.csv.
        allow: columns in which the work may differ.

    Raises:
        NoRunsError: there are runs, but none that finished has a training time.
        UnlikeRunsError: the runs did different work.
    """
    if lang not in ("en", "pt"):
        raise ValueError(f"no words for lang={lang!r}: choose en or pt")
    say, ours = (_PORTUGUESE.__getitem__ if lang == "pt" else str), _sort_by_machine(timed_runs(runs, keep=keep))
    check_alike(ours, allow=allow)
    if (len(runs) or not published) and (ours.empty or ours["train_s"].isna().all()):
        raise NoRunsError("no finished run has a training time: the rows' status and error say why")
    paper, longest = _read_paper(), ours.groupby("environment")["train_s"].mean().max() if len(ours) else 0.0
    shared = published and longest > paper["train_s"].max() / 5
    panels = [("our runs", ours), ("paper A", paper)][ours.empty : 1 + published]
    heights = [rows["environment"].nunique() for _, rows in panels]
    figure = Figure(figsize=(8, 1.8 + 0.7 * sum(heights)), layout="constrained")
    axes = figure.subplots(len(panels), sharex=shared, height_ratios=heights, squeeze=False)[:, 0]
    for ax, (name, rows) in zip(axes, panels, strict=True):
        unit = "s" if rows is ours and not shared and longest < 120 else "min"
        _draw_bars(ax, rows, unit, lang)
        ax.set_title(say(name), loc="left", fontweight="bold")
        ax.set(xlabel=f"{say('training time')} [{unit}]", ylabel="")
    drawn = "data_kind" in ours and (ours["data_kind"] == "synthetic").any()
    figure.suptitle("\n".join(map(say, list(_PORTUGUESE)[: 1 + drawn])))
    figure.supxlabel(say(list(_PORTUGUESE)[-1]), fontsize="small")
    return figure


def _sort_by_machine(timed: pd.DataFrame) -> pd.DataFrame:
    """Put the modes of a machine side by side, the paper's first; machines and runs keep their order."""
    order = timed.assign(machine=pd.factorize(timed["machine"])[0], other=timed["mode"] != "paper")
    return timed.loc[order.sort_values(["machine", "other", "mode"], kind="stable").index]


def _draw_bars(ax: Axes, rows: pd.DataFrame, unit: str, lang: str) -> None:
    measured = "status" in rows  # the paper's rows are bare means: a lighter, hatched bar, no n and no points
    rows = rows.assign(time=rows["train_s"] / {"s": 1, "min": 60}[unit]).dropna(subset=["time"])
    kinds = rows["accelerator"].str[:3].str.lower().where(lambda kind: kind.isin(["cpu", "tpu"]), "gpu")
    palette = dict(zip(rows["environment"], kinds.map(ACCELERATOR_COLOURS), strict=True))
    look = {"errorbar": "sd", "capsize": 0.5, "err_kws": {"linewidth": 1.2}}
    if not measured:
        look = {"errorbar": None, "alpha": 0.5, "hatch": "//", "edgecolor": "white"}
    bars = {"x": "time", "y": "environment", "hue": "environment", "palette": palette, "legend": False}
    sns.barplot(rows, ax=ax, saturation=1, **bars, **look)
    labels, commas = [], str.maketrans(".,", ",;" if lang == "pt" else ".,")
    for position, (place, times) in enumerate(rows.groupby("environment", sort=False)["time"]):
        mean, low, high, n = mean_interval(times)
        heights = position + np.linspace(-0.25, 0.25, n + 2)[1:-1]  # one run below the other, in their order
        if measured:
            ax.plot(times, heights, "o", color="white", mec="black", mew=0.6, ms=4)
        text = f"{mean:.2f} [{low:.2f}, {high:.2f}]" if n > 1 else f"{mean:.2f}"
        text = text.translate(commas)
        end = max(times.max(), mean + (times.std() if n > 1 else 0))
        ax.annotate(text, (end, position), (8, 0), textcoords="offset points", va="center")
        labels.append(f"{place}\nn = {n}" if measured else place)
    ax.set_yticks(range(len(labels)), labels)
    ax.set_xlim(0, max(ax.get_xlim()[1], 1.5 * rows["time"].max()))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}".translate(commas))
    sns.despine(ax=ax)


def _read_paper() -> pd.DataFrame:
    claims = pd.read_csv(PUBLISHED, keep_default_na=False).query("paper == 'A' and statistic == 'mean'")
    claims["accelerator"] = claims["numerator"].str.extract("accelerator=([^;]+)", expand=False)
    return claims.assign(train_s=60 * claims["value"]).rename(columns={"environments": "environment"})
