# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What does a prediction cost?
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/OWNER/REPO/blob/main/notebooks/23_serving_cost.ipynb)
# [![Open in Kaggle](https://kaggle.com/static/images/open-in-kaggle.svg)](https://kaggle.com/kernels/welcome?src=https://github.com/OWNER/REPO/blob/main/notebooks/23_serving_cost.ipynb)
#
# **Question.** How long does a prediction take, what does it cost by the hour and by the million, and which machine is
# the cheaper one at which rate? **Input.** Rows of notebooks 21 and 22 from any number of machines; none leaves the
# paper alone (Camargo, Künas, Navaux). **Output.** Its figures 1 and 2 and table 1, costs, and its claims judged.
#
# **Resumo.** Quanto tempo leva uma predição, quanto custa por hora e por milhão, e qual máquina é mais barata em cada
# taxa de requisições? Entrada: linhas dos cadernos 21 e 22; sem elas, só o artigo. Saída: figuras 1 e 2 e tabela 1 do
# artigo, custos e o veredito sobre cada afirmação.

# %% tags=["parameters"]
runs: str = "papermill_runs/adhoc,papermill_runs/exports,papermill_runs/serving"  # folders of rows, comma separated
keep: str = ""  # marks that do not bar a row, disturbed or resumed, comma separated
instance: str = "ml.m5.xlarge"  # whose price our latencies are charged with where their rows have none
cheap: str = "ml.c7g.xlarge"  # the paper's instance with the cheaper hour
dear: str = "ml.m5.xlarge"  # the one that it is held against
allow: str = ""  # columns in which pooled requests may differ, such as commit, comma separated
lang: str = "en"  # of the figures, en or pt

# %% [markdown]
# ## Setup
#
# The library comes from the folder around this notebook; a fresh Colab or Kaggle machine clones it, and adds the
# packages that it lacks.

# %%
import subprocess
import sys
from pathlib import Path

address = "https://github.com/OWNER/REPO"  # of the repository, for a machine that holds only this notebook
here = Path.cwd()
root = next((d for d in (here, here / "REPO", *here.parents) if (d / "dr_lib").is_dir()), None)
if root is None and "OWNER" in address:
    raise SystemExit("dr_lib is not here: open this notebook inside a clone, or set address to the repository's")
if root is None:
    root = here / "REPO"
    subprocess.run(["git", "clone", "--depth=1", address, root], check=True)
sys.path.insert(0, str(root))

# %%
from dr_lib.bootstrap import install_missing

print("packages added:", *install_missing() or ["none"])

# %% [markdown]
# ## Data
#
# One line per request that was sent in sequence, and one per run of notebook 21.

# %%
import pandas as pd
from IPython import get_ipython
from IPython.display import Markdown

from dr_lib.evidence.request_log import read_requests
from dr_lib.figures.hardware import timed_runs
from dr_lib.runs.row import read_rows, read_runs

get_ipython().run_line_magic("matplotlib", "inline")  # a figure that a cell ends in is shown

# %%
folders = [path for name in runs.split(",") if (path := root / name.strip()).is_dir()]
table = read_runs(*folders) if read_rows(*folders) else pd.DataFrame(columns=["notebook", "status"])
table = table[table["notebook"].isin(["21_export_quantize", "22_serve_and_load"])]
requests = read_requests(table, *folders)
kept = [name.strip() for name in keep.split(",") if name.strip()]
timed = timed_runs(requests, keep=kept)
print(f"{len(table)} runs, {len(timed)} rows whose times count")

# %% [markdown]
# What the paper published: its table 1, with the means of 25 requests from its authors' raw measurements.

# %%
from dr_lib.evidence.serving_cost import correct_saving, cost_table, read_paper_latencies

paper = cost_table(read_paper_latencies())
paper.round(3)

# %% [markdown]
# ## Method
#
# A machine is billed by the hour, asked or not. A million predictions on a machine that is never idle cost price x
# latency; at a rate they cost the hours of as many machines as the rate needs.

# %%
from dr_lib.evidence.request_log import summarise_requests
from dr_lib.evidence.serving_report import check_served

check_served(timed, allow=[name.strip() for name in allow.split(",") if name.strip()])

# %%
ours = summarise_requests(timed) if len(timed) else pd.DataFrame()
shown = ["machine", "model", "format", "image_size", "threads", "n"]
shown += ["predict_ms", "predict_ms_sd", "predict_ms_median", "decode_ms", "round_trip_ms"]
ours[[name for name in shown if name in ours]].round(2) if len(ours) else "no requests: run notebook 22 first"

# %% [markdown]
# ## Result
#
# Figure 1 of the paper, VGG19, and figure 2, MobileNet: its four machines, and every machine of ours.

# %%
from dr_lib.figures.serving import plot_predict_time

plot_predict_time(timed, "vgg19", lang=lang)

# %%
plot_predict_time(timed, "mobilenet", lang=lang)

# %% [markdown]
# The paper calls the one machine cheaper than the other. That holds for an hour. For a prediction the latency counts
# too: below 0 the machine with the cheaper hour is the dearer one.

# %%
saved = correct_saving(read_paper_latencies(), cheap, dear)
saved.round(2)

# %% [markdown]
# How busy a machine is decides what a prediction costs. The lines step where another machine is added; the dotted line
# is where the machine with the cheapest hour first stops being the cheapest choice.

# %%
from dr_lib.figures.serving import plot_cost_by_utilisation

plot_cost_by_utilisation(paper, lang=lang)

# %% [markdown]
# Our latencies at a price: that of their rows, or else that of the instance given above, as if it were this machine.

# %%
priced = pd.DataFrame()
if len(ours):
    named = ours.assign(instance=ours["instance"].replace("", instance) if "instance" in ours else instance)
    priced = cost_table(named)
shown = ["model", "format", "instance", "usd_per_hour", "predict_ms", "usd_per_million", "max_rate_per_s"]
priced[shown].round(4) if len(priced) else "no requests: run notebook 22 first"

# %% [markdown]
# Each claim of the paper against our rows. Most speak of machines that these rows are not from: those are shown and not
# compared.

# %%
from dr_lib.evidence.claims import read_published
from dr_lib.evidence.serving_report import judge_served

claims = read_published("B")
verdicts = judge_served(claims, requests, keep=kept)
judged = pd.DataFrame([verdict.ours[:3] for verdict in verdicts], columns=["ours", "low", "high"])
judged.insert(0, "claim", claims["quotation"])
judged.insert(1, "published", claims["value"].map("{:g}".format))
judged[["n", "verdict", "reason"]] = [(verdict.n, verdict.verdict, verdict.reason) for verdict in verdicts]
pd.options.display.max_colwidth = None
judged.round(3)

# %% [markdown]
# ## What this shows

# %%
from dr_lib.evidence.serving_cost import Offer, break_even

sentences = []
for row in saved.itertuples():
    offers = [
        Offer(line.instance, line.usd_per_hour, line.predict_ms)
        for line in paper[paper["model"] == row.model].itertuples()
        if line.instance in (cheap, dear)
    ]
    word = "cheaper" if row.saving_per_prediction > 0 else "dearer"
    sentences.append(
        f"- **{row.model}**, the paper's figures: {cheap} is {row.saving_per_hour:.1f} % cheaper an hour than {dear}, "
        f"and **{abs(row.saving_per_prediction):.0f} % {word} a prediction**; one of it is the cheaper choice up to "
        f"{break_even(*offers).first_per_s:.2f} requests a second."
    )

# %%
for row in priced.itertuples():
    sentences.append(
        f"- **{row.model}**, {row.format}, ours: {row.predict_ms:.2f} ms a prediction (n = {row.n}); at the price of "
        f"{row.instance} a million cost {row.usd_per_million:.2f} USD on a machine that is never idle."
    )
Markdown("\n".join(sentences))

# %% [markdown]
# ## Limits
#
# Prices change, and the papers give no day for theirs. Requests of one run share a machine and a moment: 25 of them
# understate the spread between sessions. The paper's calls crossed a network; ours, where the server ran beside the
# client, did not. A fleet needs more machines than fully used ones, for requests come in bursts (notebook 22).
