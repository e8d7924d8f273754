# %% [markdown]
# # What does each factor cost?
#
# **Question.** Which of framework, data set, image side, network and machine determine time, cost
# and utilisation, and do the claims of Moura Filho and Sousa hold on our machines? **Input.** The
# rows that notebook 30 wrote, from any number of machines. **Output.** The paper's figures 2 to 5,
# effects with intervals, the allocation of variation, and a verdict on each claim. **Time.**
# Seconds; without rows, three minutes for a demo.
#
# **Resumo.** Quais dos fatores framework, conjunto de dados, lado da imagem, rede e máquina
# determinam tempo, custo e utilização, e as afirmações do artigo se confirmam nas nossas máquinas?
# Entrada: as linhas deixadas pelo notebook 30. Saída: as figuras 2 a 5 do artigo, efeitos com
# intervalos, alocação da variação e veredito.

# %% tags=["parameters"]
# rows
runs: str = "papermill_runs/scenarios_small"  # folders with rows; a demo if there are none
pool: str = ""  # columns that tell no groups apart, such as driver, comma separated
only: str = ""  # rows to choose by their values, written as docs/studies.md shows
exclude: str = ""  # marks of runs whose times do not count, such as disturbed
# prices
instance: str = ""  # price all rows as this one, empty to keep the price in each row
bill_usd: float = 0.0  # amount paid for all runs, to find the overhead; 0 if unknown [USD]
g_per_kwh: float = 0.0  # CO2 of your electricity [g/kWh], such as Brazil's 38.5; 0 if unknown
# questions
accuracy: float = 0.9  # test accuracy for the cost to reach it
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

setup.set_up(root, "31_factor_effects", "statsmodels")

# %%
import pandas as pd

from dr_lib import Page, open_rows
from dr_lib.claims.page import show_claims
from dr_lib.claims.papers import PAPERS
from dr_lib.claims.verdicts import judge_claims
from dr_lib.command import write_lasting_command
from dr_lib.runs.prices import price_runs
from dr_lib.runs.row import read_rows

if runs == "papermill_runs/scenarios_small" and not read_rows(root / runs):  # for a first look
    from dr_lib import run_study

    print(
        "no rows there: running the sixteen small runs of scenarios_demo.yaml, which takes three "
        "minutes"
    )
    run_study(root / "papermill_runs" / "scenarios_demo.yaml", root, show_progress=False)
    runs = "papermill_runs/scenarios_demo"
selection = open_rows(
    PAPERS["C"],
    runs,
    root,
    default=runs,
    pool=pool,
    only=only,
    exclude=exclude,
    lang=lang,
)
if selection.finished.empty and selection.excluded.empty:
    command = write_lasting_command("run", "papermill_runs/scenarios_small.yaml")
    raise SystemExit(f"no rows of notebook 30 below the folders: {command} makes them")
if selection.finished.empty:
    raise SystemExit("no run has finished: see the errors in the rows")
if selection.timed.empty:
    raise SystemExit("every finished run is excluded from the timing")
page = Page(out, lang)
say = page.say

# %% tags=["title"]
page.title("What does each factor cost?", PAPERS["C"] if published else None, selection)

# %% [markdown] tags=["heading"]
# ## Measure · Medir

# %% tags=["report"]
from dr_lib.scenarios.costs import BRL_PER_USD, cost_to_reach, fit_overhead

timed = price_runs(selection.timed, instance)
factors = ["environment", *PAPERS["C"].design, *selection.factors]
varied = [name for name in factors if timed[name].nunique() > 1]
sums = []
columns = ["train_s", "steady_epoch_s"]
is_priced = (timed["cost_usd"] > 0).any()
if bill_usd and not is_priced:
    raise SystemExit("a bill is for runs with a price: name their machine by instance")
if is_priced:
    # a bill is for runs that are not timed, too
    paid = price_runs(selection.finished, instance)
    formula_usd = paid["formula_usd"].sum()
    words = say("The formula, price x training, gives {} USD or {} BRL.")
    formula_brl = page.number(formula_usd * BRL_PER_USD)
    sums.append(words.format(page.number(formula_usd), formula_brl))
    overhead_s = 0.0
    if bill_usd:
        overhead_s = fit_overhead(paid, bill_usd)
        words = say("A bill of {} USD implies {} s of overhead per run.")
        sums.append(words.format(page.number(bill_usd), page.number(overhead_s)))
        timed = price_runs(timed, instance, overhead_s=overhead_s)
    page.findings(sums)
    billed = timed[["environment", "usd_per_hour", "price_as_of"]]
    billed = billed.drop_duplicates().replace({"price_as_of": {"": say("day unknown")}})
    page.table(billed, "prices", "Hourly prices and their dates.")
    each = timed.to_dict("records")
    reach_usd = [cost_to_reach(row, accuracy, overhead_s) for row in each]
    timed = timed.assign(cost_to_reach_usd=reach_usd)
    costs = ["cost_usd", "cost_to_reach_usd"]
    timed[costs] = timed[costs].where(timed[costs] > 0)  # a machine of one's own costs nothing
    columns += costs
priced = selection._replace(timed=timed)

# %% tags=["report"]
from dr_lib import groups

table = groups.tabulate_groups(priced, columns)
if is_priced:
    reached = timed.groupby("group")["cost_to_reach_usd"].count()
    table["reached"] = table["group"].map(reached)
page.table(
    table,
    "groups",
    "Times and costs of each group, mean [95 % interval]; the cost to reach the requested accuracy "
    "is of those runs of n that reached it.",
    columns=["group", "n", "disturbed", *columns, "reached"],
)

# %% tags=["report"]
from dr_lib.scenarios import figures as scenarios

page.figure(
    scenarios.plot_scenarios(timed, ["train_s"], lang),
    "figure_2_3",
    "Training time of each scenario: bar, its mean; points, its runs, hollow if disturbed; beside "
    "them price x training of all of them.",
)
page.figure(
    scenarios.plot_scenarios(timed, ["cpu_percent_mean", "gpu_percent_mean"], lang),
    "figure_4",
    "Processor use: bar, mean of a scenario; points, means of its runs.",
)
memory = scenarios.plot_scenarios(
    timed, ["memory_percent_mean", "gpu_memory_percent_mean"], lang
)
page.figure(
    memory, "figure_5", "Memory use: bar, mean of a scenario; points, means of its runs."
)

# %% tags=["report"]
page.energy(selection, g_per_kwh)

# %% [markdown] tags=["heading"]
# ## Analyse · Analisar

# %% [markdown] tags=["en"]
# Times are analysed on the log scale, because disturbances multiply a run's time. The allocation of
# variation shows how much each factor explains, alone and with one other (Jain 1991, chapter 22);
# the rest is due to repetitions. Intervals and tests let each cell have its own spread (HC3), with
# the degrees of freedom of the smallest cell. The effect of a machine rests on its sessions. Below
# three runs of a cell, or three sessions, there is no interval.

# %% [markdown] tags=["pt"]
# Os tempos são analisados na escala logarítmica, pois as perturbações multiplicam o tempo de uma
# execução. A alocação da variação mostra quanto cada fator explica, sozinho e com outro (Jain 1991,
# capítulo 22); o resto se deve às repetições. Nos intervalos e testes cada célula tem sua própria
# dispersão (HC3), com os graus de liberdade da menor célula. O efeito de uma máquina se apoia em
# suas sessões. Com menos de três execuções por célula, ou de três sessões, não há intervalo.

# %% tags=["report"]
from dr_lib.scenarios.effects import EffectsError, allocate_variation, estimate_effects

effects = variation = pd.DataFrame()
try:
    effects = estimate_effects(timed, varied, "steady_epoch_s", timed["session"])
    variation = allocate_variation(timed, varied, "steady_epoch_s", timed["session"])
except EffectsError as error:  # an unfinished study has holes
    print(f"no effects: {error}")
else:
    page.figure(
        scenarios.plot_effects(effects, lang),
        "effects",
        "Factor by which each level multiplies the time of an epoch, with 95 % intervals.",
    )
    page.table(
        effects, "effects", "Effect of each level on the time of an epoch [95 % interval]."
    )
    page.table(
        variation.drop(columns="num_factors"),
        "variation",
        "Allocation of variation; F tests with standard errors HC3.",
    )

# %% tags=["report"]
if published:
    show_claims(page, judge_claims("C", priced))

# %% [markdown]
# ## What this shows

# %% tags=["answer"]
from dr_lib.report.answer import Answer, list_limits, say_rests
from dr_lib.scenarios.answer import answer_shares

answer = Answer(
    say("No effects: cells lack runs or times or mix groups, or nothing varies."), is_stop=True
)
figure = None
if len(variation):
    answer = answer_shares(variation, say, lang)
    figure = scenarios.plot_variation(variation, lang)
answer = answer._replace(
    more=[*answer.more, *sums[:1]],
    limits=list_limits(timed, say),
    rests=say_rests(timed, say, lang),
)
page.answer(
    answer,
    figure,
    "variation",
    "Share of the variation of an epoch's time that each term explains; a x b: interaction of a "
    "and b; p by F tests with standard errors HC3.",
)

# %% [markdown] tags=["heading"]
# ## Limits · Limites

# %% [markdown] tags=["en"]
# The effects apply to this machine, these versions and these two networks. Repetitions of one
# session share its temperature and its neighbours. Synthetic images serve only for timing. An
# hourly price is not a bill: disks, traffic and idle machines cost extra.

# %% [markdown] tags=["en", "paper"]
# The paper does not give the layers of its networks: `docs/papers.md` lists our choices.

# %% [markdown] tags=["pt"]
# Os efeitos valem para esta máquina, estas versões e estas duas redes. Repetições de uma sessão
# dividem a temperatura e os vizinhos. Imagens sintéticas só servem para medir tempo. Um preço por
# hora não é uma conta: discos, tráfego e máquinas ociosas custam à parte.

# %% [markdown] tags=["pt", "paper"]
# O artigo não informa as camadas de suas redes: `docs/papers.md` lista as nossas escolhas.

# %% tags=["report"]
page.appendix(selection)
