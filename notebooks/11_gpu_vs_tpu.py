# %% [markdown]
# # GPU or TPU: how long does training take?
#
# **Question.** How long does one training run take on each machine, and do the claims of Araújo et
# al. hold on ours?
# **Input.** The rows that notebook 10 wrote, from any number of machines. **Output.** The paper's
# figure 1 with our means next to its own, intervals, and a verdict on each claim. **Time.**
# Seconds.
#
# **Resumo.** Quanto tempo leva um treinamento em cada máquina, e as afirmações de Araújo et al. se
# confirmam nas nossas? Entrada: as linhas deixadas pelo notebook 10, de quantas máquinas houver.
# Saída: a figura 1 do artigo com as nossas médias ao lado, intervalos e um veredito para cada
# afirmação.

# %% tags=["parameters"]
# rows
runs: str = "papermill_runs/demo"  # folders with rows, separated by commas
pool: str = ""  # columns that tell no groups apart, such as driver, comma separated
only: str = ""  # rows to choose by their values, written as docs/studies.md shows
exclude: str = ""  # marks of runs whose times do not count, such as disturbed
# energy
g_per_kwh: float = 0.0  # CO2 of your electricity [g/kWh], such as Brazil's 38.5; 0 if unknown
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

setup.set_up(root, "11_gpu_vs_tpu", "statsmodels")

# %% [markdown]
# ## Data
#
# This cell reads all rows of notebook 10 below the folders, one per run. Copy rows from another
# machine next to them. Without any rows, the figure shows only the paper.

# %%
from dr_lib import Page, open_rows
from dr_lib.claims.claims import list_printed
from dr_lib.claims.papers import PAPERS

selection = open_rows(
    PAPERS["A"],
    runs,
    root,
    default="papermill_runs/demo",
    pool=pool,
    only=only,
    exclude=exclude,
    lang=lang,
)
finished = selection.finished
page = Page(out, lang)
print(f"{len(finished)} runs finished, {len(selection.timed)} timed")

# %% [markdown]
# Figure 1 and the intervals come from these rows, one per run.

# %%
finished.filter(["group", "repetition", "train_s", "steady_epoch_s", "disturbed"])

# %% tags=["title"]
words = "How long does training take?"
if published:
    words = "GPU or TPU: how long does training take?"
page.title(words, PAPERS["A"] if published else None, selection)

# %% [markdown]
# ## Method
#
# Rows of one group agree in all that they did, with what and where; a group is named by what
# differs from the others, and `pool` joins groups on purpose. Means are geometric, as what disturbs
# a run multiplies its time. A mean has the interval of its sessions' medians, or of the runs of a
# single session. Groups of one machine are compared run by run, two machines by the medians of
# sessions. A resumed run is not timed, nor a cold one, the first of its kind since the machine's
# boot, where warm ones are. A run is disturbed if others took more than 10 % of the CPU: its point
# is hollow, and it counts unless `exclude` names it.

# %% [markdown] tags=["heading"]
# ## Result · Resultado

# %% tags=["report"]
from dr_lib import groups

table = groups.tabulate_groups(selection, ["train_s", "steady_epoch_s"])
page.table(
    table,
    "groups",
    "Training time and test scores of each group, mean [95 % interval].",
    columns=["group", "n", "sessions", "disturbed", "train_s", "steady_epoch_s"]
    + ["metric_auc_test", "metric_kappa_test"],
)

# %% tags=["report"]
parts = groups.tabulate_groups(selection, ["train_s", "setup_s", "first_step_s"])
page.table(
    parts,
    "seconds",
    "Seconds of a run, and of its parts, mean [95 % interval].",
    columns=["group", "n", "setup_s", "train_s", "first_step_s"],
)

# %% [markdown]
# Groups that did other work have no ratio. A ratio is of all that the two differ in; it counts only
# where their models are equal: the 90 % interval of the difference of their AUCs lies within 0.02.

# %% tags=["report"]
ratios = groups.compare_groups(selection, "train_s")
page.table(
    ratios,
    "ratios",
    "Training times of each two groups of equal work [95 % interval, 90 % of AUCs].",
    columns=["slower", "faster", "n", "times_as_long", "differs_in", "score_difference"],
)

# %% tags=["report"]
from dr_lib import plot_throughput

page.figure(
    plot_throughput(selection, lang),
    "throughput",
    "Photographs a second in an epoch from the second on, by the size of a batch: mean and 95 % "
    "interval. Solid: fast; dashed: paper; dotted: plain.",
)

# %% tags=["report"]
page.energy(selection, g_per_kwh)

# %% tags=["report"]
from dr_lib.claims.page import show_claims
from dr_lib.claims.verdicts import judge_claims

judged = judge_claims("A", selection)
if published:
    show_claims(page, judged)

# %% [markdown]
# ## What this shows

# %% tags=["answer"]
from dr_lib import answer_training, plot_training_time

answer = answer_training(selection, table, ratios, lang, published=published)
theirs = list_printed("A") if published else None
figure = plot_training_time(selection.timed, lang, published=theirs)
words = (
    "Time of one training: mean and 95 % interval; small points are single runs, hollow if "
    "disturbed."
)
if published:
    words = (
        "Time of one training: mean and 95 % interval; small points are single runs, hollow if "
        "disturbed. Grey: means that the paper published."
    )
page.answer(answer, figure, "figure_1", words)

# %% [markdown] tags=["heading"]
# ## Limits · Limites

# %% [markdown] tags=["en"]
# Runs of one session (one boot of the machine) share its host, its neighbours and its temperature.
# A comparison of two machines therefore counts sessions, and has no interval with fewer than three
# of each. An interval *within this session* does not say how the next session will differ.

# %% [markdown] tags=["en", "paper"]
# The paper names neither its network nor its number of photographs, so only the ratios of its times
# can be compared with ours. `docs/papers.md` lists what else we decided for it. At batch size 8 the
# comparison measures overhead more than arithmetic.

# %% [markdown] tags=["pt"]
# Execuções de uma mesma sessão (um boot da máquina) dividem o hospedeiro, seus vizinhos e sua
# temperatura. Por isso a comparação entre duas máquinas conta sessões e não tem intervalo com menos
# de três de cada. Um intervalo *dentro desta sessão* não diz quanto a próxima sessão vai diferir.

# %% [markdown] tags=["pt", "paper"]
# O artigo não informa a rede nem o número de retinografias; por isso, só as razões entre os seus
# tempos podem ser comparadas com as nossas. `docs/papers.md` lista o que mais decidimos.
# Com lotes de 8, a comparação mede mais o custo fixo do que a aritmética.

# %% tags=["report"]
page.appendix(selection)
