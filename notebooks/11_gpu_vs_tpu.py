# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # GPU or TPU: how long does training take?
#
# **Question.** How long does one training take on each machine, and do the claims of Araújo et al. hold on ours?
# **Input.** The rows that notebook 10 left, from any number of machines. **Output.** The paper's figure 1 with our
# bars beside its own, intervals, and a verdict on each claim. **Time.** Seconds.
#
# **Resumo.** Quanto tempo leva um treinamento em cada máquina, e as afirmações de Araújo et al. se confirmam nas
# nossas? Entrada: as linhas deixadas pelo caderno 10, de quantas máquinas houver. Saída: a figura 1 do artigo com as
# nossas barras ao lado, intervalos e um veredito para cada afirmação.

# %% tags=["parameters"]
runs: str = "papermill_runs/demo"  # folders with rows, separated by commas
lang: str = "en"  # of the figure, en or pt
allow: str = ""  # columns in which pooled rows may differ, such as mode,commit
keep: str = "disturbed"  # marks of runs that enter the statistics all the same, separated by commas

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

print(bootstrap.describe_machine(root, *bootstrap.install_missing()))

# %% [markdown]
# ## Data
#
# All rows below the folders, one per run. Rows from another machine are copied beside them; none at all leaves the
# paper alone in the figure.

# %%
import pandas as pd

from dr_lib.runs.row import read_rows, read_runs

folders = [root / name.strip() for name in runs.split(",")]
table = read_runs(*folders) if read_rows(*folders) else pd.DataFrame()
shown = ["run_id", "accelerator", "model", "mode", "train_s", "first_step_s", "steady_epoch_s", "metric_auc_test"]
shown += ["resumed", "disturbed"]
table[[name for name in shown if name in table]].round(3) if len(
    table
) else "no rows: run notebook 10, or a study, first"

# %% [markdown]
# ## Method
#
# Rows are pooled only where data, model, mode, parameters and commit agree; `allow` names columns that may differ all
# the same. Rows of one machine in several modes then stand side by side, never in one mean. Times are analysed on
# their logarithms: the interval of a ratio is Welch's. Runs that were resumed, or shared the machine with other work
# (`disturbed`), are marked; `keep` names the marks that may enter the statistics.

# %%
from IPython import get_ipython

from dr_lib.figures.hardware import FLAWS, check_alike, timed_runs

get_ipython().run_line_magic("matplotlib", "inline")  # a figure that a cell ends in is shown

allowed, kept = ([name.strip() for name in names.split(",") if name.strip()] for names in (allow, keep))
finished, timed = timed_runs(table, keep=FLAWS), timed_runs(table, keep=kept)
check_alike(finished, allow=allowed)
print(f"{len(table)} rows, {len(finished)} of them finished, {len(timed)} timed")

# %% [markdown]
# ## Result
#
# Figure 1 of the paper: bars are mean training times, error bars standard deviations, points the runs. The paper's
# means are drawn hatched.

# %%
from dr_lib.figures.hardware import plot_training_time

plot_training_time(table, lang=lang, allow=allowed, keep=kept)

# %% [markdown]
# Each mode beside the paper's on the same machine, how many times as fast by `train_s` and by `steady_epoch_s`. Its
# speed counts if its mean AUC lies inside the 95 % interval of the paper mode's (A).

# %%
from dr_lib.evidence.modes import compare_modes

several = finished["mode"].nunique() > 1
compare_modes(table, keep=kept).round(3) if several else "one mode only: run notebook 10 with another, and allow mode"

# %% [markdown]
# Each claim of the paper, held against our rows. It holds only if the whole 95 % interval satisfies it; rows from other
# hardware than the paper's are shown and not compared.

# %%
from dr_lib.evidence.claims import judge, read_published

claims = read_published("A")
verdicts = [judge(claim, table, keep=kept) for claim in claims.itertuples()]
judged = pd.DataFrame([verdict.ours[:3] for verdict in verdicts], columns=["ours", "low", "high"])
judged.insert(0, "claim", claims["quotation"])
judged.insert(1, "published", claims["value"])
judged[["n", "verdict", "reason"]] = [(verdict.n, verdict.verdict, verdict.reason) for verdict in verdicts]
pd.options.display.max_colwidth = None
judged.round(3)

# %% [markdown]
# ## What this shows

# %%
from IPython.display import Markdown

from dr_lib.statistics.intervals import mean_interval

sentences = []
for environment, rows in timed.groupby("environment"):
    mean = mean_interval(rows["train_s"])
    kind = "on the synthetic sample" if (rows["data_kind"] == "synthetic").any() else "on photographs"
    sentences.append(
        f"- **{environment}**, {kind}: {mean.value:.1f} s on average over {mean.n} trainings "
        f"(95 % interval {mean.low:.1f} to {mean.high:.1f} s)"
    )
Markdown("\n".join(sentences) or "No training has been timed yet.")

# %% [markdown]
# ## Limits
#
# Runs of one session share a machine, its neighbours and its temperature: ten of them understate the spread between
# sessions. The paper names neither its network nor its number of photographs, so its minutes can be compared with ours
# only in their ratio. At batch 8 the comparison measures overhead more than arithmetic.
