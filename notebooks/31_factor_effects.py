# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What does each factor cost?
#
# **Question.** Which of framework, data set, image side, network and machine decides over time, money and utilisation,
# and do the claims of Moura Filho and Sousa hold on our machines? **Input.** The rows that notebook 30 left, from any
# number of machines. **Output.** The paper's figures 2 to 5, effects with intervals, the allocation of variation, time
# against cost, and a verdict on each claim. **Time.** Seconds.
#
# **Resumo.** Qual dos fatores framework, conjunto de dados, lado da imagem, rede e máquina decide sobre tempo, dinheiro
# e utilização, e as afirmações do artigo se confirmam nas nossas máquinas? Entrada: as linhas deixadas pelo caderno 30.
# Saída: as figuras 2 a 5 do artigo, efeitos com intervalos, alocação da variação, tempo contra custo e veredito.

# %% tags=["parameters"]
runs: str = "papermill_runs/scenarios_small"  # folders with rows, separated by commas
lang: str = "en"  # of the figures, en or pt
instance: str = ""  # price all rows as this one of prices.csv, empty to keep the price in each row
bill_usd: float = 0.0  # what was really paid for all runs, to find the overhead; 0 if unknown [USD]
accuracy: float = 0.9  # the test accuracy whose price is asked
precision: float = 0.05  # wanted half width of a 95 % interval, relative to the mean
allow: str = ""  # columns in which pooled rows may differ, such as commit
keep: str = ""  # marks of runs that enter the statistics all the same, such as disturbed

# %% [markdown]
# ## Setup

# %%
import os
import subprocess
import sys
from pathlib import Path

address, ref = "", ""
cwd, new, data, repo = Path.cwd(), Path.cwd() / "dr_repo", Path("/kaggle/input"), os.getenv("DR_LIB_REPO", address)
root = next((d for d in [cwd / repo, cwd, *cwd.parents, *sorted(cwd.glob("*"))] if os.path.isdir(d / "dr_lib")), new)
if not os.path.isdir(root / "dr_lib"):  # only the notebook is here: copy a data set, unpack an archive, or clone
    unpack = """for m in zipfile tarfile; do timeout 60 python3 -m $m -l "$0" 2>/dev/null | grep -q dr_lib/boot &&
        d=$(mktemp -d) && python3 -m $m -e "$0" $d && exec mv -T "$(find $d -name dr_lib -printf %h)" "$1"; done"""
    ways = [('cp -rT --no-preserve=mode "$0" "$1"', path.parent) for path in data.rglob("dr_lib")]
    ways += [(unpack, p) for p in [*Path("/content").glob("*"), *data.rglob("*")] if p.suffix in (".zip", ".gz")]
    ways += [('git clone -q "$0" "$1" && git -C "$1" checkout -q "$2"', repo)] if repo else []
    if all(subprocess.call(["bash", "-c", way, p, root, ref if repo == address else "HEAD"]) for way, p in ways):
        raise SystemExit("no dr_lib here: open or upload its repository, or set DR_LIB_REPO to its folder or address")
sys.path.insert(0, str(root))
from dr_lib import bootstrap

print(bootstrap.describe_machine(root, *bootstrap.install_missing("statsmodels")))

# %%
import pandas as pd
from IPython import get_ipython

from dr_lib.runs.row import read_rows, read_runs

get_ipython().run_line_magic("matplotlib", "inline")  # a figure that a cell ends in is shown
pd.options.display.max_rows, pd.options.display.max_colwidth = 100, None
folders = [root / name.strip() for name in runs.split(",")]
if not read_rows(*folders):
    raise SystemExit("no rows below the folders: python -m dr_lib run papermill_runs/scenarios_small.yaml makes them")
table = read_runs(*folders)
print(f"{len(table)} rows: {table['status'].value_counts().to_dict()}")

# %% [markdown]
# ## 1. Understand the environment / Entender o ambiente
#
# The machines that made the rows, their versions, and the CPUs that every framework was pinned to.

# %%
finished = table[table["status"] == "ok"]
if finished.empty:
    raise SystemExit("no run has finished: their errors stand in the rows")
shown = ["platform", "accelerator", "cpu", "num_cpus", "threads", "memory_gib", "driver", "framework", "python"]
shown += [name for name in ("mxnet", "torch", "tensorflow", "jax", "keras", "numpy") if name in finished]
finished[shown].fillna("").astype(str).value_counts().rename("runs").reset_index()

# %% [markdown]
# ## 2. Plan the experiment / Planejar o experimento
#
# The design: every level of every factor with every other, repeated in randomised blocks. What this machine could not
# make is listed with its reason.

# %%
FACTORS = ["accelerator", "framework", "dataset", "image_size", "network"]
varied = [name for name in FACTORS if finished[name].nunique() > 1]
print(*(f"{name}: {', '.join(map(str, finished[name].unique()))}" for name in varied), sep="\n")
print(finished.groupby(FACTORS).size().value_counts().rename("scenarios with so many repetitions").to_string())
unmade = table[table["status"] != "ok"]
unmade.groupby(["status", "error"]).size().rename("runs").reset_index() if len(unmade) else "every run was made"

# %% [markdown]
# Whether the repetitions are enough follows from how much they vary: for a mean as precise as wanted, and to find a
# difference in four of five studies (a power of 80 %).

# %%
from dr_lib.figures.hardware import FLAWS, check_alike, timed_runs
from dr_lib.statistics import effects

allowed, kept = ([name.strip() for name in names.split(",") if name.strip()] for names in (allow, keep))
timed = timed_runs(table, keep=kept)
left_out = {flaw: len(timed_runs(table, keep=FLAWS)) - len(timed_runs(table, keep={*FLAWS} - {flaw})) for flaw in FLAWS}
print(f"{len(timed)} rows are timed; marked, and left out unless kept: {left_out}")

# %%
from dr_lib.runs.estimate import pool_spread

cv, num_repeated = pool_spread(timed.groupby(["environment", *FACTORS])["steady_epoch_s"].apply(list))
needed = {f"a mean within {precision:.0%}": effects.repetitions_for_precision(cv, precision) if num_repeated else "-"}
for difference in (0.02, 0.05, 0.1):
    needed[f"a difference of {difference:.0%}"] = effects.repetitions_for_power(cv, difference) if num_repeated else "-"
print(f"repetitions of one scenario vary by {cv:.1%}")
pd.Series(needed).rename("repetitions needed").to_frame()

# %% [markdown]
# ## 3. Configure / Configurar
#
# Rows are pooled only where data, batch, epochs and commit agree. Each run is priced by the hour, with the day of the
# price; a price that is older than a year, or of unknown day, is called old.

# %%
from dr_lib.runs import prices as cost

check_alike(timed, allow={*allowed, *FACTORS, "backend"})
prices = [cost.find_price(instance)] if instance else None
own = timed["instance"]  # where a row says it ran: a price set here makes it no other machine
timed = cost.price_runs(timed.assign(instance=instance or own), prices).assign(instance=own)
billed = timed[["environment", "usd_per_hour", "price_as_of", "price_is_old"]].drop_duplicates()
billed = billed.replace({"price_as_of": {"": "day unknown"}})
billed if timed["usd_per_hour"].notna().any() else "no prices: set instance, see dr_lib/runs/prices.csv"

# %% [markdown]
# ## 4. Measure / Medir
#
# Figures 2 and 3 of the paper: bars are mean training times, points the runs, and the line is the cost.

# %%
from dr_lib.figures import scenarios

scenarios.plot_time_and_cost(timed, lang=lang)

# %% [markdown]
# Figures 4 and 5 of the paper: how much of the machine the training used.

# %%
scenarios.plot_utilisation(timed, ["cpu_percent_mean", "gpu_percent_mean"], lang=lang)

# %%
scenarios.plot_utilisation(timed, ["memory_percent_mean", "gpu_memory_percent_mean"], lang=lang)

# %% [markdown]
# One run over its time, with its epochs marked: the longest whose samples are here.

# %%
from dr_lib.runs.monitor import read_samples

paths = {row.run_id: path for row in timed.itertuples() for f in folders for path in [f / row.samples] if path.exists()}
longest = timed[timed["run_id"].isin(paths)].sort_values("train_s").tail(1)
samples = pd.DataFrame(read_samples(paths[longest["run_id"].iloc[0]])) if len(longest) else pd.DataFrame()
scenarios.plot_samples(samples, lang=lang) if len(samples) else "no samples beside these rows"

# %% [markdown]
# What a headless run costs beyond its training: the start of papermill and of the kernel, then imports, data and
# building (`setup_s`).

# %%
timed["papermill_s"] = timed["process_s"] - timed["wall_s"] if "process_s" in timed else float("nan")
timed.groupby("framework")[["papermill_s", "setup_s", "train_s", "process_cpu_s"]].median().round(2)

# %% [markdown]
# ## 5. Analyse / Analisar
#
# The effect of each level on the time of an epoch, as a factor on the mean of all, with its 95 % interval. Times are
# analysed on their logarithms, for what disturbs a run multiplies its time.

# %%
from dr_lib.figures import effects as effect_figures
from dr_lib.statistics.intervals import BadSampleError

try:
    found = effects.estimate_effects(timed, varied, "steady_epoch_s")
    variation = effects.allocate_variation(timed, varied, "steady_epoch_s")
except BadSampleError as error:  # an unfinished study has holes
    found, variation, none = None, pd.DataFrame({"term": [], "share": [], "num_factors": []}), f"no effects: {error}"
effect_figures.plot_effects(found, lang=lang) if found is not None else none

# %% [markdown]
# How much of the variation of the logarithms each factor explains, alone and with others (Jain 1991, chapter 22); the
# rest is the repetitions'.

# %%
variation.round(4)

# %%
effect_figures.plot_variation(variation, lang=lang) if len(variation) else none

# %% [markdown]
# Time against cost: on the front lie the choices that no other, for the same work, beats in both. Without prices there
# is none.

# %%
priced = (timed["cost_usd"] > 0).any()
effect_figures.plot_cost_front(timed, lang=lang) if priced else "no prices, no front"

# %% [markdown]
# The formula, price x (training + set-up), against the bill; what is missing is an overhead of each run.

# %%
whole = finished.assign(instance=instance or finished["instance"])  # a bill is for disturbed runs too
paid = cost.price_runs(whole, prices).query("usd_per_hour > 0")
formula_usd = paid["cost_usd"].sum()
print(
    f"the formula: {formula_usd:.4f} USD = {cost.BRL.convert(formula_usd):.4f} BRL at {cost.BRL.per_usd:.3f} a dollar"
)
if bill_usd and len(paid):
    overhead_s = cost.fit_overhead(paid["train_s"] + paid["setup_s"], paid["usd_per_hour"], bill_usd)
    print(f"the bill of {bill_usd:.2f} USD asks for {overhead_s:.0f} s of overhead a run")
    timed = cost.price_runs(timed.assign(instance=instance or own), prices, overhead_s=overhead_s).assign(instance=own)
columns = ["cost_usd", "cost_per_epoch_usd", "cost_per_1000_images_usd"]
timed.groupby(varied or FACTORS)[columns].mean() if len(paid) else "no prices, no costs"

# %%
reached = timed.assign(cost_to_reach_usd=[cost.cost_to_reach(row, accuracy) for row in timed.to_dict("records")])
known = reached["cost_to_reach_usd"].notna().any()
print(
    f"energy of the GPUs: {timed['energy_kwh'].sum():.4f} kWh" if timed["energy_kwh"].notna().any() else "no power data"
)
reached.groupby(varied or FACTORS)["cost_to_reach_usd"].describe() if known else f"no priced run reached {accuracy:.0%}"

# %% [markdown]
# Each claim of the paper, held against our rows, pair by pair of like scenarios. It holds only if the whole 95 %
# interval satisfies it; rows from other hardware than the paper's are shown and not compared.

# %%
from dr_lib.evidence.claims import judge, read_published

claims = read_published("C")
verdicts = [judge(claim, timed, keep=kept) for claim in claims.itertuples()]
judged = pd.DataFrame([verdict.ours[:3] for verdict in verdicts], columns=["ours", "low", "high"])
judged.insert(0, "claim", claims["quotation_pt" if lang == "pt" else "quotation"])
judged.insert(1, "published", claims["value"])
judged[["n", "verdict", "reason"]] = [(verdict.n, verdict.verdict, verdict.reason) for verdict in verdicts]
judged.round(3)

# %% [markdown]
# ## What this shows

# %%
from IPython.display import Markdown

alone = variation[variation["num_factors"] == 1].sort_values("share", ascending=False)
kind = "synthetic images" if (timed["data_kind"] == "synthetic").any() else "given images"
lines = [f"- **{row.term}** explains {row.share:.1%} of the variation of an epoch's time" for row in alone.itertuples()]
lines += [f"- repetitions alone: {variation.set_index('term')['share'].get('residual', float('nan')):.2%}"]
Markdown(f"From {len(timed)} runs on {kind}:\n\n" + "\n".join(lines))

# %% [markdown]
# ## Limits
#
# The effects are those of this machine, these versions and these two networks, whose layers the paper does not give.
# Repetitions of one session share its temperature and its neighbours. Synthetic images serve the timing alone. A price
# by the hour is not a bill: disks, traffic and idle machines come on top.
