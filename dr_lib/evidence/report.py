"""The report: what was run, on what, how it compares, what the factors do, and the papers' claims judged."""

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dr_lib.evidence.claims import FACTORS, Verdict, judge, read_published
from dr_lib.evidence.epochs import PORTUGUESE as EPOCHS_PORTUGUESE
from dr_lib.evidence.epochs import compare_like_for_like, tabulate_accuracies
from dr_lib.evidence.modes import compare_modes
from dr_lib.evidence.serving_report import (
    PORTUGUESE,
    check_served,
    describe_serving,
    draw_serving,
    judge_served,
    take_runs,
)
from dr_lib.figures.cuda import draw_cuda
from dr_lib.figures.effects import plot_cost_front, plot_effects, plot_variation
from dr_lib.figures.hardware import FLAWS, MIN_RUNS, WORK, check_alike, plot_training_time, timed_runs
from dr_lib.figures.scenarios import plot_time_and_cost, plot_utilisation
from dr_lib.runs.prices import price_runs
from dr_lib.statistics.effects import allocate_variation, estimate_effects
from dr_lib.statistics.intervals import BadSampleError, Interval, mean_interval, ratio_interval

VARIED = {  # what differs between the rows of a paper's study, which are alike all the same
    "C": (*FACTORS, "backend"),
    "D": ("framework", "implementation", "batch_size", "replicas", "learning_rate", "backend"),
}
LISTED = (
    "run_id",
    "mode",
    "implementation",
    "split_seed",
    "train_s",
    "first_step_s",
    "steady_epoch_s",
    "disturbed",
    "metric_linear_probe_auc_test",
)
DRAWN = "SYNTHETIC SAMPLE, NOT PHOTOGRAPHS"
DRAWN_IMAGES = "SYNTHETIC IMAGES, FOR TIMING ONLY"
_PORTUGUESE = {
    "Paper": "Artigo",
    "environment": "ambiente",
    "machine": "máquina",
    "mode": "modo",
    "claim": "afirmação",
    "published": "publicado",
    "ours": "nossas execuções [95 %]",
    "verdict": "veredito",
    "reason": "motivo",
    DRAWN: "AMOSTRA SINTÉTICA, NÃO RETINOGRAFIAS",
    DRAWN_IMAGES: "IMAGENS SINTÉTICAS, SÓ PARA MEDIR TEMPO",
    "What was run": "O que foi executado",
    "Left out of the timing": "Fora da medida de tempo",
    "Environments": "Ambientes",
    "Modes": "Modos",
    "Runs": "Execuções",
    "Claims": "Afirmações",
    "Failed and skipped runs": "Execuções com falha ou puladas",
    "Effects on an epoch's time": "Efeitos no tempo de uma época",
    "Allocation of variation": "Alocação da variação",
    "Overhead of a run": "Custo adicional de uma execução",
    "factor": "fator",
    "level": "nível",
    "effect [95 %]": "efeito [95 %]",
    "term": "termo",
    "holds": "vale",
    "does not hold": "não vale",
    "undecided": "indeciso",
    "not comparable": "não comparável",
    "not measured": "não medido",
    "reference": "referência",
    "counts": "conta",
    "does not count: AUC below A's interval": "não conta: AUC abaixo do intervalo de A",
    "does not count: AUC above A's interval": "não conta: AUC acima do intervalo de A",
    f"undecided: n < {MIN_RUNS}": f"indeciso: n < {MIN_RUNS}",
    **PORTUGUESE,
    **EPOCHS_PORTUGUESE,
}


def draw_figures(
    runs: pd.DataFrame,
    *,
    paper: str = "A",
    lang: str = "en",
    allow: Collection[str] = (),
    keep: Collection[str] = (),
) -> dict[str, Figure]:
    """Draw a paper's figures from our rows, and for C what the factors do; by file name.

    Args:
        runs: one row per run, failed ones too; of paper B one per request, from `read_requests`.
        paper: A for figure 1, B for figures 1 and 2, C for figures 2 to 5, D for figures 1a, 1b and 2.
        lang: en or pt.
        allow: columns in which the work may differ; `keep`: flaws that do not bar a row from the timing.

    Raises:
        NoRunsError: no run is left to draw.
        UnlikeRunsError: the rows did different work.
    """
    if paper == "A":
        return {"figure_1.png": plot_training_time(runs, lang=lang, allow=allow, keep=keep)}
    if paper == "B":
        check_served(timed_runs(runs, keep=keep), allow=allow)
        return draw_serving(timed_runs(runs, keep=keep), lang)
    if paper == "D":
        check_alike(timed_runs(runs, keep=keep), allow={*allow, *VARIED["D"]})
        return draw_cuda(timed_runs(runs, keep=keep), lang)
    timed = price_runs(timed_runs(runs, keep=keep))
    if timed.empty:
        return {}
    check_alike(timed, allow={*allow, *VARIED["C"]})
    drawn = {
        "figure_2_3.png": plot_time_and_cost(timed, lang),
        "figure_4.png": plot_utilisation(timed, ["cpu_percent_mean", "gpu_percent_mean"], lang),
        "figure_5.png": plot_utilisation(timed, ["memory_percent_mean", "gpu_memory_percent_mean"], lang),
    }
    effects, variation, _ = _analyse(timed)
    if len(effects):
        drawn |= {"effects.png": plot_effects(effects, lang), "variation.png": plot_variation(variation, lang)}
    if (timed["cost_usd"] > 0).any():  # what is free has no front
        drawn |= {"cost_front.png": plot_cost_front(timed, lang)}
    return drawn


def write_report(
    runs: pd.DataFrame,
    path: str | Path,
    *,
    paper: str = "A",
    lang: str = "en",
    figures: Collection[str] = ("figure_1.png",),
    allow: Collection[str] = (),
    keep: Collection[str] = (),
) -> list[Verdict]:
    """Write what was run, and each environment, mode, claim, metric and failed run, as Markdown.

    Args:
        runs: one row per run, failed ones too; of paper B one per request, from `read_requests`.
        path: the file; `figures` are the pictures as seen from there; `paper`: A to D; `lang`: en or pt.
        allow: columns in which the work may differ; `keep`: flaws that do not bar a row from the timing.

    Raises:
        UnlikeRunsError: the rows did different work.
    """
    if lang not in ("en", "pt"):
        raise ValueError(f"no words for lang={lang!r}: choose en or pt")
    words = _PORTUGUESE if lang == "pt" else {}
    requests, runs = runs, take_runs(runs) if paper == "B" else runs
    ok, timed, claims = timed_runs(runs, keep=FLAWS), timed_runs(runs, keep=keep), read_published(paper)
    allow = [*allow, *(name for name in VARIED.get(paper, ()) if name not in allow)]
    if paper == "B":
        check_served(timed_runs(requests, keep=FLAWS), allow=allow)
        verdicts = judge_served(claims, requests, keep=keep)
    else:
        check_alike(ok, allow=allow)
        verdicts = [judge(claim, runs, keep=keep) for claim in claims.itertuples()]
    work = [column for column in (*WORK, "implementation") if column in ok]
    left_out = {f: len(ok) - len(timed_runs(runs, keep={*FLAWS} - {f})) for f in FLAWS if f not in keep}
    parts = [f"# {words.get('Paper', 'Paper')} {paper}", *(f"![]({figure})" for figure in figures)]
    if "data_kind" in ok and (ok["data_kind"] == "synthetic").any():
        told = DRAWN_IMAGES if paper == "C" else DRAWN
        parts.insert(1, f"> **{words.get(told, told)}**")
    for heading, table in {
        "What was run": ok.groupby(work, dropna=False).size().reset_index(name="n") if work else ok,
        "Left out of the timing": pd.DataFrame([left_out]),
        **(_describe_serving(requests, runs, keep, lang) if paper == "B" else {"Environments": _compare(timed, allow)}),
        **({"Modes": _join_bounds(compare_modes(runs, keep=keep))} if ok["mode"].nunique() > 1 else {}),
        **(_describe_factors(timed) if paper == "C" else {}),
        **(_describe_epochs(timed, lang) if paper == "D" else {}),
        "Runs": ok[[c for c in ok if c in LISTED or c.startswith("metric_auc")]].dropna(axis=1, how="all").round(4),
        "Claims": _tabulate(claims.rename(columns={"quotation_pt" if words else "quotation": "claim"}), verdicts),
        "Failed and skipped runs": _list_unmade(requests),
    }.items():
        text = table if isinstance(table, str) else _to_markdown(table, words)
        parts += [f"## {words.get(heading, heading)}", text]
    Path(path).write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return verdicts


def _analyse(timed: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Effects and allocation of variation of an epoch's time, or why there are none."""
    factors = [name for name in ("environment", *FACTORS) if name in timed]
    try:
        effects, variation = (find(timed, factors, "steady_epoch_s") for find in (estimate_effects, allocate_variation))
    except BadSampleError as error:
        return pd.DataFrame(), pd.DataFrame(), str(error)
    return effects, variation, ""


def _describe_factors(timed: pd.DataFrame) -> dict[str, pd.DataFrame]:
    effects, variation, reason = _analyse(timed)
    if reason:
        effects = variation = pd.DataFrame({"reason": [reason]})
    else:
        bounds = zip(effects["effect"], effects["low"], effects["high"], strict=True)
        effects = effects[["factor", "level", "num_runs"]].assign(
            **{"effect [95 %]": [_show(Interval(*values, 0)) for values in bounds]}
        )
        variation = variation.round({"sum_of_squares": 4, "share": 5, "f": 1}).drop(columns="num_factors")
        variation["p"] = variation["p"].map("{:.2g}".format)
    parts = {"Effects on an epoch's time": effects, "Allocation of variation": variation}
    if {"process_s", "framework"} <= set(timed):
        overhead = timed.assign(papermill_s=timed["process_s"] - timed["wall_s"])
        columns = ["papermill_s", "setup_s", "train_s", "process_s"]
        medians = overhead.groupby("framework")[columns].median().round(2)
        parts["Overhead of a run"] = medians.assign(
            n=overhead.groupby("framework")["papermill_s"].count()
        ).reset_index()
    return parts


def _describe_serving(
    requests: pd.DataFrame, runs: pd.DataFrame, keep: Collection[str], lang: str
) -> dict[str, pd.DataFrame | str]:
    parts = describe_serving(timed_runs(requests, keep=keep), runs, lang)
    return parts | {"Latency": _join_bounds(parts["Latency"])}


def _describe_epochs(timed: pd.DataFrame, lang: str) -> dict[str, pd.DataFrame]:
    return {
        "Time to accuracy": tabulate_accuracies(timed, lang),
        "Like for like": compare_like_for_like(timed, lang),
    }


def _list_unmade(runs: pd.DataFrame) -> pd.DataFrame:
    unmade = runs[runs["status"] != "ok"] if len(runs) else runs
    skipped = unmade[unmade["status"] == "skipped"] if len(unmade) else unmade
    if skipped.empty:
        return unmade[["run_id", "error"]] if len(unmade) else unmade
    told = skipped.groupby("error").size().reset_index(name="runs")  # as many rows as there are reasons, not runs
    told = told.assign(run_id=told["runs"].astype(str) + " skipped")[["run_id", "error"]]
    return pd.concat([unmade[unmade["status"] != "skipped"][["run_id", "error"]], told])


def _compare(timed: pd.DataFrame, allow: Collection[str]) -> pd.DataFrame:
    keys = ["environment", *(column for column in allow if column in timed and column != "mode")]
    times = [column for column in ("train_s", "steady_epoch_s") if column in timed]
    groups, lines = dict(list(timed.groupby(keys, dropna=False))), []
    slowest = max(groups.values(), key=lambda rows: rows[times[0]].mean()) if times and groups else timed
    for key, rows in groups.items():
        line = dict(zip(keys, key, strict=True)) | {"n": len(rows)}
        for time in times:
            line[f"{time}, mean [95 %]"] = _show(mean_interval(rows[time].dropna()))
            line[f"sd({time})"] = f"{rows[time].std():.3g}"
            ratio = ratio_interval(rows[time].dropna(), slowest[time].dropna())
            line[f"{time}, ratio [95 %]"] = "1" if rows is slowest else _show(ratio)
        for metric in (c for c in rows if c.startswith("metric_") and rows[c].notna().any()):
            line[f"{metric}, mean ± sd"] = f"{rows[metric].mean():.4g} ± {rows[metric].std():.2g}"
        lines.append(line)
    return pd.DataFrame(lines)


def _join_bounds(modes: pd.DataFrame) -> pd.DataFrame:
    """Write each value and its two bounds into one column."""
    for low in [column for column in modes if column.endswith("_low")]:
        name = low.removesuffix("_low")
        bounded = modes[[name, low, f"{name}_high"]].itertuples(index=False)
        modes[name] = [_show(Interval(*bounds, 0)) for bounds in bounded]
        modes = modes.drop(columns=[low, f"{name}_high"]).rename(columns={name: f"{name} [95 %]"})
    return modes


def _tabulate(claims: pd.DataFrame, verdicts: list[Verdict]) -> pd.DataFrame:
    spread = claims["tolerance"].map(lambda tolerance: f" ± {tolerance:g} " if tolerance else " ")
    published = claims["relation"] + claims["value"].map(" {:.10g}".format) + spread + claims["unit"]
    judged = pd.DataFrame(verdicts).assign(ours=[_show(verdict.ours) for verdict in verdicts])
    return pd.concat([claims[["id", "claim"]].assign(published=published), judged.drop(columns="id")], axis=1)


def _show(interval: Interval) -> str:
    bounds = f" [{interval.low:.4g}, {interval.high:.4g}]" if np.isfinite(interval.low) else ""
    if interval.low == interval.high and interval.value >= 10_000:  # counted, not measured
        return f"{interval.value:.0f}"
    return f"{interval.value:.4g}{bounds}" if np.isfinite(interval.value) else "–"


def _to_markdown(table: pd.DataFrame, words: dict[str, str]) -> str:
    lines = [list(table.columns), ["---"] * table.shape[1], *table.map(str).to_numpy().tolist()]
    lines = [[words.get(cell, cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if len(table) else "–"
