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
allow: str = ""  # columns in which rows may differ, such as mode,image_size
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

# rows of the paper's task, else of grades: a mean over both would be the mean of nothing
rows = open_rows(
    PAPERS["A"],
    runs,
    root,
    default="papermill_runs/demo",
    allow=allow,
    only=only,
    exclude=exclude,
)
selection = rows.selection
finished = selection.finished
page = Page(out, lang)
print(f"{len(rows.table)} rows, {len(finished)} finished, {len(selection.timed)} timed")
if rows.num_others:
    print(f"{rows.num_others} rows of the other task: give a folder that holds only those rows")

# %% [markdown]
# Figure 1 and the intervals come from these rows, one per run.

# %%
finished.filter(["place", "repetition", "train_s", "steady_epoch_s", "disturbed"])

# %% tags=["title"]
words = "How long does training take?"
if published:
    words = "GPU or TPU: how long does training take?"
page.title(words, PAPERS["A"] if published else None, selection)

# %% [markdown]
# ## Method
#
# Rows are pooled only if data, model, mode, parameters and code agree. The levels of a study's own
# factors, and of columns that `allow` names, stand side by side; `only` chooses rows. Ratios are of
# arithmetic means, with Welch's interval of the logarithms. A resumed run is not timed. A run is
# disturbed if others took more than 10 % of the CPU or if it stood still: its point is hollow, and
# it counts unless `exclude` names it. A cold run, the first of its kind since the machine's boot,
# has a line of its own and is in no ratio.

# %% [markdown] tags=["heading"]
# ## Result · Resultado

# %% tags=["report"]
from dr_lib import training_time

factors = selection.factors
environments = training_time.compare_environments(finished, factors)
page.table(
    environments.drop(columns="place", errors="ignore"),
    "environments",
    "Training time and test scores of each environment, mean [95 % interval].",
    own=factors,
    columns=["environment", *factors, "n", "sessions", "disturbed", "train_s", "steady_epoch_s"]
    + ["scored", "metric_auc_test", "metric_kappa_test"],
)

# %% [markdown]
# The ratio of two machines is one of their hardware only where their software is alike, and means
# something only where their models are equal: the 90 % interval of the difference of the test AUCs
# lies within 0.02. Two stacks on one machine show what the software does.

# %% tags=["report"]
page.stacks(selection.timed, ["place"])
places = training_time.compare_places(selection.timed, factors)
page.table(
    places,
    "ratios",
    "Training times of each two places, and what their ratio is of [95 % interval].",
    columns=["slower", "faster", "n", "times_as_long", "ratio_of", "auc_difference", "models"],
)

# %% tags=["report"]
page.energy(selection.timed, ["environment", *factors], g_per_kwh)

# %% [markdown]
# A faster mode counts only if its mean AUC is equivalent to that of mode *paper*: two one-sided
# tests at 5 % each, margin 0.02.

# %% tags=["report"]
if len(modes := training_time.compare_modes(selection)):
    page.table(
        modes,
        "modes",
        "Modes on one machine: AUC, speed relative to mode paper [95 % interval], and whether "
        "the speed counts.",
        own=factors,
    )
else:
    print("only one mode: run notebook 10 with another mode, and allow mode")

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

answer = answer_training(selection, environments, places, lang, published=published)
theirs = list_printed("A") if published else None
figure = plot_training_time(finished, lang, published=theirs)
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
