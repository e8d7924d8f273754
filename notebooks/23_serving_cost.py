# %% [markdown]
# # What does a prediction cost?
#
# **Question.** How long does a prediction take, what does it cost per hour and per million, and
# which endpoint is the cheapest? **Input.** Rows of notebooks 21 and 22 from any number of
# machines; without rows, only the paper (Camargo, Künas, Navaux) is shown. **Output.** The paper's
# figures 1 and 2, costs, and a verdict on each claim. **Time.** Seconds.
#
# **Resumo.** Quanto tempo leva uma predição, quanto custa por hora e por milhão, e qual endpoint é
# o mais barato? Entrada: linhas dos notebooks 21 e 22; sem elas, só o artigo. Saída: figuras 1 e 2
# do artigo, custos e o veredito sobre cada afirmação.

# %% tags=["parameters"]
# rows
runs: str = "papermill_runs/adhoc,papermill_runs/exports,papermill_runs/serving"  # with rows
pool: str = ""  # columns that tell no groups apart, such as driver, comma separated
only: str = ""  # rows to choose by their values, written as docs/studies.md shows
exclude: str = ""  # marks of runs whose times do not count, such as disturbed
# prices
instance: str = "ml.m5.xlarge"  # price all rows as this one, empty to keep each row's price
g_per_kwh: float = 0.0  # CO2 of your electricity [g/kWh], such as Brazil's 38.5; 0 if unknown
# endpoint
requests_per_day: float = 20000.0  # requests that the endpoint answers per day, monthly mean
p99_ms: float = 300.0  # bound for 99 % of the response times [ms]
busiest_hour: float = 0.125  # share of a day's requests in its busiest hour
# report
published: bool = True  # @param {type:"boolean"}  # beside the paper; false: your own study
lang: str = "en"  # @param ["en", "pt"]  # of the report, en or pt
out: str = ""  # folder for each figure and table as a file, empty for none

# %% [markdown]
# ## Setup

# %% tags=["active-ipynb"]
# # on Colab and Kaggle: fetch the library, if none is here
# import os
# import shutil
# import subprocess
# import sys
# from pathlib import Path
# from tempfile import TemporaryDirectory
#
# address, ref = "", ""
# cwd = Path.cwd()
# repo = os.getenv("DR_LIB_REPO", address)
# places = [cwd / repo, cwd, *cwd.parents, *sorted(cwd.glob("*"))]
# root = next((d for d in places if os.path.isdir(d / "dr_lib")), cwd / "dr_repo")
# made = os.path.getmtime(root) if os.path.isdir(root / "dr_lib") else 0
# if root == cwd / "dr_repo":  # copy a data set, unpack the newest archive, or clone
#     data = Path("/kaggle/input")
#     found = [] if made else [*data.rglob("dr_lib/report")]
#     with TemporaryDirectory() as unpacked:
#         for path in sorted([*Path("/content").glob("*"), *data.rglob("*")], key=os.path.getmtime):
#             is_archive = path.name.endswith((".zip", ".tar.gz")) and path.is_file()
#             # a larger one holds photographs
#             if is_archive and path.stat().st_size < 1e8 and os.path.getmtime(path) > made:
#                 try:
#                     shutil.unpack_archive(path, Path(unpacked, path.name))
#                     found += Path(unpacked, path.name).rglob("dr_lib/report")
#                 except Exception:
#                     print(f"{path} is incomplete, or no archive: upload it again")
#         for path in found[-1:]:
#             shutil.rmtree(root / "dr_lib", ignore_errors=True)  # results stay
#             subprocess.run(["cp", "-rT", "--no-preserve=mode", path.parents[1], root])
#     version = ref if repo == address else "HEAD"
#     steps = [["clone", "-qn", repo, root], ["-C", root, "checkout", "-q", version]]
#     is_there = found or made
#     if not is_there and (not repo or any(subprocess.call(["git", *step]) for step in steps)):
#         sys.exit("no dr_lib here: open or upload its repository, or set DR_LIB_REPO to it")

# %%
import os
import sys
from pathlib import Path

here = Path.cwd()
places = [here / os.getenv("DR_LIB_REPO", "."), here, *here.parents, *sorted(here.glob("*"))]
root = next(path for path in places if (path / "dr_lib").is_dir())
sys.path.insert(0, str(root))
from dr_lib.report import setup

setup.set_up(root, "23_serving_cost")

# %% [markdown]
# ## Data
#
# A row of notebook 22 has the means of its requests and the largest rate that it held.

# %%
import pandas as pd

from dr_lib import Page, open_rows
from dr_lib.claims.claims import list_printed
from dr_lib.claims.page import show_claims
from dr_lib.claims.papers import PAPERS
from dr_lib.claims.verdicts import judge_claims

default = "papermill_runs/adhoc,papermill_runs/exports,papermill_runs/serving"
selection = open_rows(
    PAPERS["B"],
    runs,
    root,
    default=default,
    pool=pool,
    only=only,
    exclude=exclude,
    lang=lang,
)
printed = list_printed("B") if published else None
timed = selection.timed
timed = timed.dropna(subset=["predict_ms"]) if "predict_ms" in timed else timed[:0]
page = Page(out, lang)
say = page.say
print(f"{len(selection.finished)} runs finished, {len(timed)} load tests timed")

# %% tags=["title"]
page.title("What does a prediction cost?", PAPERS["B"] if published else None, selection)

# %% [markdown]
# ## Method
#
# A machine is billed by the hour, used or not. A million predictions on a machine that is never
# idle cost price x latency; at a given rate, they cost the hours of as many machines as the rate
# needs.

# %% [markdown] tags=["heading"]
# ## Result · Resultado

# %%
timed.filter(["group", "repetition", "predict_ms", "disturbed"])

# %% tags=["report"]
from dr_lib.report.style import name
from dr_lib.serving.costs import price_endpoints
from dr_lib.serving.figures import plot_predict_time

priced = pd.DataFrame()
if len(timed):
    priced = price_endpoints(
        timed,
        requests_per_day=requests_per_day,
        p99_ms=p99_ms,
        busiest_hour=busiest_hour,
        instance=instance,
    )
ours = sorted(set(timed["model"])) if len(timed) else []
theirs = ["vgg19", "mobilenet"] if published else []  # the paper's figures 1 and 2
for model in ours or theirs:
    page.figure(
        plot_predict_time(priced, model, lang, published=printed),
        f"predict_time_{model}",
        "Time of a prediction of {} on each machine, in each format.",
        name(model),
        is_ours=bool(ours),
    )

# %% tags=["report"]
from dr_lib import groups

loads = selection._replace(timed=timed, finished=timed, varied=["format"])
page.table(
    groups.tabulate_groups(loads, ["predict_ms", "decode_ms", "round_trip_ms"]),
    "response_times",
    "Times of a request, mean [95 % interval] over n runs.",
    columns=["group", "n", "sessions", "disturbed", "predict_ms", "decode_ms", "round_trip_ms"],
)
page.table(
    groups.compare_groups(loads, "predict_ms"),
    "ratios",
    "Times of a prediction of each two groups of one network [95 % interval].",
    columns=["slower", "faster", "n", "times_as_long", "differs_in"],
)

# %% tags=["report"]
page.energy(loads, g_per_kwh)

# %% [markdown] tags=["heading"]
# ## What a prediction costs · Quanto custa uma predição

# %% [markdown] tags=["en"]
# Price x time of a photograph, on a machine that is never idle.

# %% [markdown] tags=["pt"]
# Preço x tempo de uma retinografia, em uma máquina que nunca fica ociosa.

# %% tags=["report"]
from dr_lib.serving.costs import tabulate_latencies

COST = "usd_per_million_never_idle"
if published:
    page.table(
        tabulate_latencies(printed),
        "costs_published",
        "Costs from the paper's means of 25 requests.",
        columns=["model", "instance", "usd_per_hour", "predict_ms", COST],
    )
page.table(
    priced,
    "costs_ours",
    "Costs from our times, decoding included, at hourly prices.",
    columns=["group", "instance", "usd_per_hour", "n", "busy_ms", COST],
)

# %% [markdown] tags=["heading"]
# ## The cheapest endpoint · O endpoint mais barato

# %% [markdown] tags=["en"]
# The number of machines follows from the rate that one sustained within the bound in its load tests
# and from the busiest hour; they are rented all month, busy or idle. Only endpoints of the same
# network are compared, and only formats that the accuracy gate (notebook 21) let through.

# %% [markdown] tags=["pt"]
# O número de máquinas resulta da taxa que uma delas sustentou dentro do limite nos testes de carga
# e da hora de pico; elas são alugadas o mês todo, ocupadas ou não. Só se comparam endpoints da
# mesma rede, e só formatos aprovados pela verificação de acurácia (notebook 21).

# %% tags=["report"]
from dr_lib.serving.figures import describe_choice

if len(priced):
    page.table(
        priced,
        "endpoints",
        "Cost of a month on each endpoint, the cheapest of a network first.",
        columns=["group", "instance", "n", "rate_per_s", "num_machines", "usd_per_month"]
        + ["reason"],
    )
    page.findings(describe_choice(priced, lang))

# %% tags=["report"]
if published:
    show_claims(page, judge_claims("B", selection))

# %% [markdown] tags=["en", "paper"]
# Most claims are about machines other than those of these rows; they are shown but not compared. A
# claim about a time needs three runs; the 25 requests of one run are one measurement.
# We use the paper's prices as inputs and do not test them.

# %% [markdown] tags=["pt", "paper"]
# A maioria das afirmações trata de máquinas diferentes das destas linhas; elas são mostradas, mas
# não comparadas. Uma afirmação sobre um tempo precisa de três execuções; as 25 requisições de uma
# delas são uma só medida. Usamos os preços do artigo como entrada e não os testamos.

# %% [markdown]
# ## What this shows

# %% tags=["answer"]
from dr_lib.numbers import write_days
from dr_lib.report.answer import Answer, list_limits
from dr_lib.serving.figures import answer_price

answer = Answer(say("No request has been timed yet."))
figure = None
if len(priced):
    rests = say("Rests on {} load tests, {}.").format(
        len(timed), write_days(timed["started_at"], lang)
    )
    answer = answer_price(priced, list_limits(timed, say), rests, lang)
    figure = plot_predict_time(priced, ours[0], lang)
page.answer(answer, figure, "times", "Time of a prediction on each endpoint.")

# %% [markdown] tags=["heading"]
# ## Limits · Limites

# %% [markdown] tags=["en"]
# Prices change. Calls to a server on the client's machine crossed no network. A fleet needs more
# machines than full use would suggest, because requests come in bursts (notebook 22).

# %% [markdown] tags=["en", "paper"]
# The papers do not date their prices. The paper's calls crossed a network.

# %% [markdown] tags=["pt"]
# Preços mudam. Chamadas a um servidor na máquina do cliente não passaram por rede alguma. Uma frota
# precisa de folga, pois requisições chegam em rajadas (notebook 22).

# %% [markdown] tags=["pt", "paper"]
# Os artigos não informam a data de seus preços. As chamadas do artigo passaram por uma rede.

# %% tags=["report"]
page.appendix(selection)
