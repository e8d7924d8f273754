"""What the report of paper B holds: latency by model and format, table 1, costs, and what 24.34 % cheaper means."""

from collections.abc import Collection

import pandas as pd
from matplotlib.figure import Figure

from dr_lib.evidence.claims import Verdict, judge, read_published
from dr_lib.evidence.request_log import KINDS, summarise_requests
from dr_lib.evidence.serving_cost import Offer, break_even, correct_saving, cost_table, read_paper_latencies
from dr_lib.figures.hardware import check_alike
from dr_lib.figures.scenarios import write_number
from dr_lib.figures.serving import MODELS, plot_cost_by_utilisation, plot_predict_time

PER_REQUEST = ("predict_ms", "round_trip_ms", "usd_per_million")  # claims judged by requests, others by runs
FIGURES = {"figure_1.png": "vgg19", "figure_2.png": "mobilenet"}
TABLE_1 = ["num_parameters", "savedmodel_mib"]
COSTS = ("usd_per_hour", "usd_per_million", "max_rate_per_s", "paper_utilisation", "paper_usd_per_million")
PORTUGUESE = {
    "Latency": "Latência",
    "Table 1": "Tabela 1",
    "Cost, paper B": "Custo, artigo B",
    "Cost, ours": "Custo, nosso",
    "Break-even, paper B": "Ponto de equilíbrio, artigo B",
    "Per hour and per prediction": "Por hora e por predição",
    "model": "modelo",
    "instance": "instância",
    "format": "formato",
}
CORRECTION = {
    "en": "Per hour, {cheap} is {hour} % cheaper than {dear}; per prediction, on machines never idle, it is {told}.",
    "pt": "Por hora, {cheap} é {hour} % mais barata que {dear}; por predição, em máquinas nunca ociosas, é {told}.",
}
DIFFERENCE = {
    "en": ("{percent:.0f} % dearer with {model}", "{percent:.0f} % cheaper with {model}"),
    "pt": ("{percent:.0f} % mais cara com {model}", "{percent:.0f} % mais barata com {model}"),
}


def take_runs(requests: pd.DataFrame) -> pd.DataFrame:
    """One row per run of `read_requests`: its first request that was answered, or its first."""
    if "run_id" not in requests:
        return requests
    keys = [name for name in ("study", "run_id") if name in requests]
    first = requests.assign(_failed=requests["status"] != "ok").sort_values("_failed", kind="stable")
    return first.drop_duplicates(keys).sort_index().drop(columns="_failed")


def judge_served(claims: pd.DataFrame, requests: pd.DataFrame, *, keep: Collection[str] = ()) -> list[Verdict]:
    """Judge the claims of paper B: those on latencies by requests, those on what was counted by runs."""
    runs = take_runs(requests)
    return [judge(claim, requests if claim.column in PER_REQUEST else runs, keep=keep) for claim in claims.itertuples()]


def check_served(timed: pd.DataFrame, *, allow: Collection[str] = ()) -> None:
    """Refuse requests of one kind, as `summarise_requests` pools them, that are not alike.

    Raises:
        UnlikeRunsError: other columns than `allow` differ.
    """
    if "predict_ms" in timed:
        timed = timed.dropna(subset=["predict_ms"])
        for _, rows in timed.groupby([name for name in KINDS if name in timed], dropna=False):
            check_alike(rows, allow=allow)


def draw_serving(timed: pd.DataFrame, lang: str = "en") -> dict[str, Figure]:
    """Draw figures 1 and 2, and the paper's costs by rate, and ours where there are prices; by file name."""
    drawn = {name: plot_predict_time(timed, model, lang) for name, model in FIGURES.items()}
    drawn["cost_paper.png"] = plot_cost_by_utilisation(cost_table(read_paper_latencies()), lang)
    priced = _price(summarise_requests(timed))
    return drawn | ({"cost_ours.png": plot_cost_by_utilisation(priced, lang)} if len(priced) else {})


def describe_serving(timed: pd.DataFrame, runs: pd.DataFrame, lang: str = "en") -> dict[str, pd.DataFrame | str]:
    """The parts of the report by heading.

    Args:
        timed: requests that count.
        runs: one row per run, of the exports too.
        lang: en or pt.
    """
    summary, paper = summarise_requests(timed), read_paper_latencies()
    return {
        "Latency": summary.drop(columns=["machine", "usd_per_hour"], errors="ignore").round(3),
        "Table 1": _make_table_1(runs),
        "Cost, paper B": _round(cost_table(paper)),
        "Cost, ours": _round(_price(summary)),
        "Break-even, paper B": _find_break_evens(paper),
        "Per hour and per prediction": tell_correction(paper, lang),
    }


def tell_correction(latencies: pd.DataFrame, lang: str = "en") -> str:
    """Say of each saving that paper B prints per hour what it is per prediction, a sentence each."""
    printed = read_published("B").query("statistic == 'saving' and column == 'usd_per_hour'")
    sentences = []
    for claim in printed.itertuples():
        cheap, dear = (side.removeprefix("instance=") for side in (claim.numerator, claim.denominator))
        saved = correct_saving(latencies, cheap, dear)
        told = ", ".join(
            DIFFERENCE[lang][percent > 0].format(model=MODELS.get(model, model), percent=abs(percent))
            for model, percent in zip(saved["model"], saved["saving_per_prediction"], strict=True)
        )
        hour = write_number(claim.value, lang, "{:g}")
        sentences.append(CORRECTION[lang].format(cheap=cheap, dear=dear, hour=hour, told=told))
    return "\n\n".join(sentences)


def _price(summary: pd.DataFrame) -> pd.DataFrame:
    """The costs of the rows that have a price above zero."""
    if not {"usd_per_hour", "instance"} <= set(summary):
        return pd.DataFrame()
    return cost_table(summary[summary["usd_per_hour"] > 0])


def _round(costs: pd.DataFrame) -> pd.DataFrame:
    """The columns of money and use, to four digits."""
    shown = [name for name in (*KINDS, "predict_ms", *COSTS) if name in costs and name != "machine"]
    return costs[shown].map(lambda value: f"{value:.4g}" if isinstance(value, float) else value)


def _make_table_1(runs: pd.DataFrame) -> pd.DataFrame:
    """Parameters and size of each model, the paper's and ours."""
    printed = read_published("B").query("column in @TABLE_1")
    printed = printed.assign(model=printed["numerator"].str.removeprefix("model="))
    table = printed.pivot(index="model", columns="column", values="value")[TABLE_1].add_suffix(", paper")
    if set(TABLE_1) <= set(runs):
        ours = runs.dropna(subset=TABLE_1).groupby(["model", "image_size"])[TABLE_1].first().add_suffix(", ours")
        table = table.join(ours.reset_index("image_size"), how="outer")
    return table.reset_index().map(lambda value: f"{value:.10g}" if isinstance(value, float) else value)


def _find_break_evens(costs: pd.DataFrame) -> pd.DataFrame:
    """For each model: where the cheapest hour stops being the cheapest prediction, against each other machine."""
    lines = []
    for model, rows in costs.groupby("model", sort=False):
        offers = [Offer(row.instance, row.usd_per_hour, row.predict_ms) for row in rows.itertuples()]
        cheap = min(offers, key=lambda offer: offer.usd_per_hour)
        lines += [{"model": model} | break_even(cheap, offer)._asdict() for offer in offers if offer != cheap]
    return pd.DataFrame(lines).round({"first_per_s": 2, "always_per_s": 2})
