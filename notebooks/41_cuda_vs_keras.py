# %% [markdown]
# # CUDA C or Keras: how much does the language matter?
#
# **Question.** How much of the speed of a small network in CUDA C is due to the language, the GPU
# or the batch size, and do the claims of De Felice Lima and Zola hold on our machines? **Input.**
# The rows that notebook 40 wrote, from any number of machines. **Output.** Figures 1a, 1b and 2 of
# the paper, comparisons at equal batch size, and a verdict on each claim.
# **Time.** Seconds.
#
# **Resumo.** Quanto da rapidez de uma rede pequena em CUDA C se deve à linguagem, à GPU ou ao
# tamanho do lote, e as afirmações do artigo se confirmam nas nossas máquinas? Entrada: as linhas
# deixadas pelo notebook 40. Saída: as figuras 1a, 1b e 2 do artigo, comparações no mesmo lote e um
# veredito para cada afirmação.

# %% tags=["parameters"]
# rows
runs: str = "papermill_runs/adhoc,papermill_runs/mnist_cuda"  # with rows
pool: str = ""  # columns that tell no groups apart, such as driver, comma separated
only: str = ""  # rows to choose by their values, written as docs/studies.md shows
exclude: str = ""  # marks of runs whose times do not count, such as disturbed
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

setup.set_up(root, "41_cuda_vs_keras")

# %% [markdown]
# ## Data
#
# This cell reads all rows of notebook 40 below the folders, one per training run.

# %%
from dr_lib import Page, open_rows
from dr_lib.claims.papers import PAPERS

selection = open_rows(
    PAPERS["D"],
    runs,
    root,
    default="papermill_runs/adhoc,papermill_runs/mnist_cuda",
    pool=pool,
    only=only,
    exclude=exclude,
    lang=lang,
)
timed = selection.timed
page = Page(out, lang)
print(f"{len(selection.finished)} runs finished, {len(timed)} timed")

# %%
timed.filter(["implementation", "batch_size", "repetition", "epoch", "train_s", "accuracy"])

# %% tags=["title"]
page.title(
    "CUDA C or Keras: how much does the language matter?",
    PAPERS["D"] if published else None,
    selection,
)

# %% [markdown]
# ## Method
#
# The clock of an epoch runs while the network trains and stops while it is tested. Groups with one
# batch size are compared by the time of an epoch from the second on. Different batch sizes can only
# be compared by the time to reach an accuracy, because an epoch with larger batches has fewer steps
# and learns less.

# %% [markdown] tags=["heading"]
# ## Result · Resultado

# %% tags=["report"]
from dr_lib.mnist import figures as mnist
from dr_lib.report.groups import NoRunsError

try:
    page.figure(
        mnist.plot_cumulative_time(timed, lang),
        "figure_1a",
        "Training time after each epoch: median and band of all runs. Solid: batch 1; "
        "dashed: 32; dash-dotted: larger.",
    )
    page.figure(
        mnist.plot_time_to_accuracy(timed, lang),
        "figure_1b",
        "Time to reach each accuracy, by which different batch sizes can be compared: median, "
        "where half have reached it, and band of all runs.",
    )
    page.figure(
        mnist.plot_speed_up(timed, lang),
        "figure_2",
        "Speed-up over Keras after each epoch: median and band of all runs. Dotted: different "
        "batch sizes.",
    )
except NoRunsError as error:
    print(error)

# %% tags=["report"]
from dr_lib import groups
from dr_lib.mnist.epochs import list_runs

# named as the lines of the figures; those of one batch size have a ratio
lines = list_runs(timed)
lines["group"] = [mnist.name_line(line, page.say) for line in lines["line"]]
of_one_batch = ["framework", "learning_rate"]
named = selection._replace(timed=lines, finished=lines, varied=of_one_batch)
table = groups.tabulate_groups(named, ["steady_epoch_s", "train_s"])
ratios = groups.compare_groups(named, "steady_epoch_s")
page.table(
    table,
    "groups",
    "Time of an epoch and of the training, and test accuracy, mean [95 % interval].",
    columns=["group", "n", "sessions", "disturbed", "steady_epoch_s", "train_s"]
    + ["metric_accuracy_test"],
)
page.table(
    ratios,
    "ratios",
    "Times of an epoch of each two groups with one batch size [95 % interval, 90 % of scores].",
    columns=["slower", "faster", "n", "times_as_long", "differs_in", "score_difference"],
)

# %% tags=["report"]
from dr_lib.claims.page import show_claims
from dr_lib.claims.verdicts import judge_claims

judged = judge_claims("D", selection)
if published:
    show_claims(page, judged)

# %% [markdown]
# ## What this shows

# %% tags=["answer"]
from dr_lib import answer_training
from dr_lib.report.means import plot_ratios

answer = answer_training(named, table, ratios, lang, column="steady_epoch_s", published=False)
words = "How many times as long an epoch takes, with one batch size: mean and 95 % interval."
page.answer(answer, plot_ratios(ratios, lang), "ratios", words)

# %% [markdown] tags=["heading"]
# ## Limits · Limites

# %% [markdown] tags=["en"]
# Keras is used as usual, with one call of `fit` and arrays in memory, on the CPU. At batch size 1,
# most of its time is overhead per step, not arithmetic. Built for a CPU, the source is C++.

# %% [markdown] tags=["en", "paper"]
# The paper also runs Keras on the CPU, and most likely compares different batch sizes. It gives
# neither its batch size, nor its loss, nor its Keras code: `docs/papers.md` lists our choices,
# after a public CUDA network with the same shapes (github.com/paramhanji/CUDA-CNN, whose README
# reports 97.22 % after 50 epochs).

# %% [markdown] tags=["pt"]
# O Keras é usado como de costume, com uma chamada de `fit` e os dados em memória, na CPU. Com lotes
# de 1, a maior parte do seu tempo é custo fixo de cada passo, não aritmética. Compilada para uma
# CPU, a fonte é C++.

# %% [markdown] tags=["pt", "paper"]
# Também no artigo o Keras roda na CPU, e provavelmente são comparados lotes diferentes. Ele não
# informa o lote, a função de perda nem o código Keras: `docs/papers.md` lista as nossas escolhas,
# segundo uma rede CUDA pública com as mesmas formas (github.com/paramhanji/CUDA-CNN, cujo README
# informa 97,22 % após 50 épocas).

# %% tags=["report"]
page.appendix(selection)
