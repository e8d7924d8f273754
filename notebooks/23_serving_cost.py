# %% [markdown]
# # What does a prediction cost?
#
# **Question.** How long does a prediction take, what does it cost by the hour and by the million,
# and which machine is the cheaper one at which rate? **Input.** Rows of notebooks 21 and 22 from
# any number of machines; none leaves the paper alone (Camargo, Künas, Navaux). **Output.** Its
# figures 1 and 2 and table 1, costs, and its claims judged.
# **Time.** Seconds.
#
# **Resumo.** Quanto tempo leva uma predição, quanto custa por hora e por milhão, e qual máquina é
# mais barata em cada taxa de requisições? Entrada: linhas dos notebooks 21 e 22; sem elas, só o
# artigo. Saída: figuras 1 e 2 e tabela 1 do artigo, custos e o veredito sobre cada afirmação.

# %% tags=["parameters"]
# rows
runs: str = "papermill_runs/adhoc,papermill_runs/exports,papermill_runs/serving"  # folders of rows
allow: str = ""  # columns in which pooled requests may differ, such as commit, comma separated
exclude: str = ""  # marks of runs whose times do not count, such as disturbed
# prices
instance: str = "ml.m5.xlarge"  # price all rows as this one, empty to keep the price in each row
cheap: str = "ml.c7g.xlarge"  # the paper's instance with the cheaper hour
dear: str = "ml.m5.xlarge"  # the one that it is held against
g_per_kwh: float = 0.0  # CO2 of your electricity [g/kWh], such as Brazil's 38.5; 0 if unknown
# endpoint
requests_per_day: float = 20000.0  # that it answers, mean of a month
p99_ms: float = 300.0  # 99 of 100 answers come within that [ms]
busiest_hour: float = 0.125  # share of a day's requests in its busiest hour
accuracy_within: float = 0.0  # margin of AUC and kappa that a format may lose, 0 for any
# report
published: bool = True  # hold the rows against the paper, false for a study of your own
lang: str = "en"  # of the report, en or pt
out: str = ""  # folder for each figure and table as a file, empty for none

# %% [markdown]
# ## Setup

# %%
import sys
from pathlib import Path

root = next(folder for folder in [Path.cwd(), *Path.cwd().parents] if (folder / "dr_lib").is_dir())
sys.path.insert(0, str(root))
from dr_lib.notebook import setup

setup.set_up(root)

# %% [markdown]
# ## Data
#
# One line per request that was sent in closed loop, and one per run of notebook 21.

# %%
import pandas as pd

from dr_lib.evidence.papers import PAPERS
from dr_lib.evidence.rows import open_rows
from dr_lib.figures.page import Page

default = "papermill_runs/adhoc,papermill_runs/exports,papermill_runs/serving"
rows = open_rows("B", runs, root, default=default, allow=allow, exclude=exclude)
selection = rows.selection
timed = (
    selection.timed.dropna(subset=["predict_ms"])
    if "predict_ms" in selection.timed
    else selection.timed[:0]
)
page = Page(out, lang)
say = Page(lang=lang).say
print(f"{len(rows.table)} runs, {len(timed)} requests whose times count")

# %% tags=["summary"]
page.title("What does a prediction cost?", "B" if published else "", selection)

# %% [markdown]
# ## Method
#
# A machine is billed by the hour, asked or not. A million predictions on a machine that is never
# idle cost price x latency; at a rate they cost the hours of as many machines as the rate needs.

# %% [markdown]
# ## Result

# %% tags=["report"]
from dr_lib.figures.serving import plot_predict_time

models = dict.fromkeys(
    [*(["vgg19", "mobilenet"] if published else []), *(timed["model"] if len(timed) else [])]
)
for number, model in enumerate(models, start=1):
    figure = plot_predict_time(timed, model, lang, published=published)
    name = f"figure_{number}_{model}"
    is_ours = model in set(timed.get("model", []))
    page.figure(
        figure, name, "Time of a prediction on each machine, in each format.", is_ours=is_ours
    )

# %% tags=["report"]
from dr_lib.evidence.serving.request_log import summarise_requests

ours = summarise_requests(timed)
shown = ["environment", "model", "format", "image_size", "threads", "n", "requests"]
shown += ["predict_ms", "decode_ms", "round_trip_ms"]
shown = [
    f"{name}{bound}"
    for name in shown
    for bound in ("", "_low", "_high")
    if f"{name}{bound}" in ours
]
page.table(
    ours[shown], "response_times", "Times of a request, mean [95 % interval] over n deployments."
)

# %% tags=["report"]
from dr_lib.evidence.select import list_runs
from dr_lib.evidence.serving.request_log import KINDS

keys = [name for name in KINDS if name in timed and name != "machine"]  # which `environment` names
page.energy(list_runs(timed), keys, g_per_kwh)

# %% tags=["report"]
from dr_lib.evidence.serving.costs import compare_sizes

sizes = compare_sizes(selection.finished, published=published)
page.table(sizes, "table_1", "Parameters and SavedModel of each network.")

# %% [markdown] tags=["en"]
# ## What a prediction costs
#
# How busy a machine is decides what a prediction costs. The lines step where another machine is
# added; the dotted line is where the machine with the cheapest hour first stops being the cheapest
# choice.

# %% [markdown] tags=["pt"]
# ## Quanto custa uma predição
#
# A ocupação da máquina decide quanto custa uma predição. As linhas sobem onde mais uma máquina
# entra; a linha pontilhada marca onde a máquina da hora mais barata deixa de ser a escolha mais
# barata.

# %% tags=["report"]
from dr_lib.evidence.serving.costs import (
    correct_saving,
    cost_table,
    find_break_evens,
    read_paper_latencies,
)
from dr_lib.figures.serving import plot_cost_by_utilisation

COSTS = ["model", "format", "environment", "instance", "usd_per_hour", "n"]
COSTS += ["predict_ms", "busy_ms", "usd_per_million", "computed_rate_per_s"]
paper = cost_table(read_paper_latencies())
if published:
    page.figure(
        plot_cost_by_utilisation(paper, lang),
        "cost_published",
        "Cost by rate of requests, from what the paper printed.",
        is_ours=False,
    )
    page.table(
        paper[[name for name in COSTS if name in paper]],
        "costs_published",
        "Costs from the paper's means of 25 requests.",
    )
    page.table(
        find_break_evens(paper),
        "break_even",
        "Rates above which the cheaper hour is the dearer prediction.",
    )

# %% tags=["report"]
priced = pd.DataFrame()
if len(ours):  # at the price of the rows, or of the instance above, as if it were this machine
    priced = cost_table(
        ours.assign(
            instance=ours["priced_as"].replace("", instance) if "priced_as" in ours else instance
        )
    )
    if (priced["usd_per_hour"] > 0).any():  # what is free has no curve
        figure = plot_cost_by_utilisation(priced, lang, published=published)
        page.figure(figure, "cost_ours", "Cost by rate of requests, from our times.")
    page.table(
        priced[[name for name in COSTS if name in priced]],
        "costs_ours",
        "Costs from our times, by the hour's price.",
    )

# %% [markdown] tags=["en"]
# ## The cheapest endpoint
#
# Machines are counted from the rate that each held in its load tests within the bound asked for,
# for the busiest hour, and rented all month, busy or idle. Only endpoints of one network are
# compared; what a format costs in accuracy is the gate's answer (notebook 21).

# %% [markdown] tags=["pt"]
# ## O endpoint mais barato
#
# As máquinas são contadas pela taxa que cada uma sustentou nos testes de carga dentro do limite
# pedido, para a hora de pico, e alugadas o mês todo, ocupadas ou não. Só se comparam endpoints de
# uma mesma rede; o que um formato custa em acurácia é a resposta da verificação (notebook 21).

# %% tags=["report"]
from dr_lib.evidence.serving.endpoint import (
    EndpointError,
    find_varied,
    list_endpoints,
    price_endpoints,
)
from dr_lib.figures.serving import describe_choice

ENDPOINTS = ["n", "rate_per_s", "num_machines", "idle_percent"]
ENDPOINTS += ["usd_per_month", "brl_per_month", "usd_per_million_rented", "brl_per_million_rented"]
ENDPOINTS += ["gate_auc_difference", "gate_kappa_difference", "joules_per_prediction", "reason"]
asked = {"requests_per_day": requests_per_day, "busiest_hour": busiest_hour}
how = {"p99_ms": p99_ms, "instance": instance}
how |= {"exclude": rows.exclude, "may_differ": rows.may_differ}
try:
    endpoints = list_endpoints(rows.table, *rows.folders, **how)
    endpoints = price_endpoints(endpoints, **asked, accuracy_within=accuracy_within or None)
except EndpointError as error:
    print(error)
    page.findings([say("No endpoint can be chosen from these rows.")])
else:
    places = dict.fromkeys(["environment", "instance", *find_varied(endpoints)])
    shown = ["model", "image_size", "format", *places, *ENDPOINTS]
    shown = [f"{name}{bound}" for name in shown for bound in ("", "_low", "_high")]
    listed = endpoints[[name for name in shown if name in endpoints]]
    listed = listed.map(lambda cell: float("nan") if cell == "" else cell).dropna(axis=1, how="all")
    page.table(
        listed,
        "endpoints",
        "What these requests cost on each endpoint, the cheapest of a network first.",
    )
    page.findings(describe_choice(endpoints, lang))

# %% [markdown] tags=["en", "paper"]
# ## The paper's claims
#
# Most speak of machines that these rows are not from: those are shown and not compared. A claim
# about a time needs three deployments; the 25 requests to one are one measurement. The paper's
# prices are an input of ours: nothing tests them.

# %% [markdown] tags=["pt", "paper"]
# ## As afirmações do artigo
#
# A maioria fala de máquinas das quais estas linhas não vêm: essas são mostradas e não comparadas.
# Uma afirmação sobre um tempo precisa de três endpoints; as 25 requisições a um deles são uma
# medida. Os preços do artigo são uma entrada nossa: nada os testa.

# %% tags=["report"]
from dr_lib.evidence.verdicts import judge_claims

if published:
    judged = judge_claims("B", selection)
    page.claims(judged)

# %% [markdown]
# ## What this shows

# %% tags=["summary"]
sentences = []
for row in priced.itertuples():
    words = say(
        "{} in {} takes {} ms for a photograph, decoding included, of which {} ms predict "
        "(n = {}); a million cost {} USD at the price of {}, never idle."
    )
    times = page.number(row.busy_ms), page.number(row.predict_ms)
    price = page.number(row.usd_per_million), row.instance
    sentences.append(words.format(row.model, row.format, *times, row.n, *price))
for row in correct_saving(read_paper_latencies(), cheap, dear).itertuples() if published else ():
    words = say(
        "By the numbers of {}: per hour, {} is {} % cheaper than {}; per prediction, {} is {} % {}."
    )
    word = say("cheaper" if row.saving_per_prediction > 0 else "dearer")
    numbers = (
        say(PAPERS["B"].authors),
        cheap,
        page.number(row.saving_per_hour),
        dear,
        row.model,
        page.number(abs(row.saving_per_prediction)),
        word,
    )
    sentences.append(words.format(*numbers))
if published:
    sentences.append(page.count_verdicts("B", judged))
page.findings(sentences or [say("No request has been timed yet.")])

# %% [markdown] tags=["en"]
# ## Limits
#
# Prices change. Calls to a server that ran beside the client crossed no network. A fleet needs more
# machines than fully used ones, for requests come in bursts (notebook 22).

# %% [markdown] tags=["en", "paper"]
# The papers give no day for their prices. The paper's calls crossed a network.

# %% [markdown] tags=["pt"]
# ## Limites
#
# Preços mudam. Chamadas a um servidor ao lado do cliente não passaram por rede alguma. Uma frota
# precisa de folga, pois requisições chegam em rajadas (notebook 22).

# %% [markdown] tags=["pt", "paper"]
# Os artigos não dizem o dia de seus preços. As chamadas do artigo passaram por uma rede.

# %% tags=["report"]
page.appendix(selection)
